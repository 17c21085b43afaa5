//! Schedules of steps that hit agents and the disk of their tiers.

use crate::bench::cells::Dice;
use hearth_agent::{Policy, Replicas};

/// Agents of a set: as many as bytes are at, and one that has none of them.
const AGENTS_LEAST: usize = 3;

/// Things that happen in one schedule, if there are agents left for them.
const STEPS: usize = 4;

/// Reads and writes before each: none has time to act, or one acts on what another did.
const GAPS: [u64; 4] = [5, 40, 150, 500];

/// How the agents of a set are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode {
    pub(super) replicas: Replicas,
    pub(super) tier: bool,
}

impl Mode {
    /// The mode of a seed: with or without a tier where there may be one, and unless somebody asked for replicas,
    /// with and without copies, each for one seed in two.
    fn of(seed: u64, asked: Option<Replicas>) -> Mode {
        let copies = Replicas::Sync(1);
        let by_seed = match seed.is_multiple_of(2) {
            true => copies,
            false => Replicas::None,
        };
        let replicas = asked.unwrap_or(by_seed);
        Mode {
            replicas,
            tier: (seed / 2).is_multiple_of(2) && !Mode::seals(replicas),
        }
    }

    pub(super) fn agents(self) -> usize {
        (self.replicas.copies() + 2).max(AGENTS_LEAST)
    }

    /// Nothing acknowledged may be missed after deaths one by one.
    pub(super) fn is_strict(self) -> bool {
        matches!(self.replicas, Replicas::Sync(_) | Replicas::Erasure(..))
    }

    /// A close acknowledges what was written, not the write.
    pub(super) fn is_sealed(self) -> bool {
        Mode::seals(self.replicas)
    }

    fn seals(replicas: Replicas) -> bool {
        replicas.shards().is_some()
    }

    /// Options of `hearth up`.
    pub(super) fn words(self) -> Vec<String> {
        let (policy, replicas) = (Policy::Local.to_string(), self.replicas.to_string());
        let words = ["--policy", &policy, "--replicas", &replicas];
        words.into_iter().map(str::to_owned).collect()
    }

    pub(super) fn name(self) -> String {
        let tier = if self.tier { ", tier" } else { "" };
        format!("{}{tier}", self.replicas)
    }
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Kill(usize),
    /// The disk of the tiers takes no byte more.
    Fill,
    /// It has room again.
    Free,
}

/// Steps in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    pub(super) seed: u64,
    pub(super) mode: Mode,
    /// Each after so many more reads and writes.
    pub(super) steps: Vec<(u64, Step)>,
}

impl Schedule {
    /// The schedule of a seed. At least one agent dies in it, and one is always left.
    pub(super) fn of(seed: u64, asked: Option<Replicas>) -> Schedule {
        let (mut dice, mode) = (Dice::new(seed), Mode::of(seed, asked));
        let agents = mode.agents();
        let mut away: Vec<usize> = Vec::new();
        let mut steps = Vec::new();
        for number in 0..STEPS {
            let gap = GAPS[dice.roll(GAPS.len())];
            let step = match dice.roll(4) {
                0 if mode.tier && number > 0 => Step::Fill,
                1 if mode.tier && number > 0 => Step::Free,
                _ if away.len() + 1 == agents => break,
                _ => {
                    let here: Vec<usize> =
                        (0..agents).filter(|agent| !away.contains(agent)).collect();
                    let agent = here[dice.roll(here.len())];
                    away.push(agent);
                    Step::Kill(agent)
                }
            };
            steps.push((gap, step));
        }
        Schedule { seed, mode, steps }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_one_schedule_in_which_an_agent_dies_and_one_is_left() {
        let asked = ["none", "sync:1", "erasure:2,1"].map(Replicas::by_name);
        for (seed, asked) in (0..200).flat_map(|seed| asked.map(|asked| (seed, asked))) {
            let schedule = Schedule::of(seed, asked);
            assert_eq!(schedule, Schedule::of(seed, asked));
            let mut away = 0;
            let mut deaths = 0;
            for (_, step) in &schedule.steps {
                match step {
                    Step::Kill(_) => (away, deaths) = (away + 1, deaths + 1),
                    Step::Fill | Step::Free => assert!(schedule.mode.tier),
                }
                assert!(away < schedule.mode.agents());
            }
            assert!(deaths > 0, "{schedule:?}");
        }
    }
}
