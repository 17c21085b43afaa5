//! What a schedule does to agents and to the disk of their tiers.

use crate::bench::cells::Dice;
use crate::options::Policy;

/// Agents of a set.
pub(super) const AGENTS: usize = 3;

/// Agents that are away at once, at most: one is left to tell.
const AWAY_MAX: usize = AGENTS - 1;

/// Things that happen in one schedule, beside agents that come back at its end.
const STEPS: usize = 4;

/// Reads and writes before each: none has time to act, or one acts on what another did.
const GAPS: [u64; 4] = [5, 40, 150, 500];

/// How the agents of a set are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode {
    pub(super) replicated: bool,
    pub(super) tier: bool,
}

impl Mode {
    /// The mode of a seed: each of the four for one seed in four.
    fn of(seed: u64) -> Mode {
        Mode {
            replicated: seed.is_multiple_of(2),
            tier: (seed / 2).is_multiple_of(2),
        }
    }

    /// Options of `hearth up`.
    pub(super) fn words(self) -> Vec<String> {
        let replicas = if self.replicated { "sync:1" } else { "none" };
        let policy = Policy::Local.to_string();
        let words = ["--policy", &policy, "--replicas", replicas];
        words.into_iter().map(str::to_owned).collect()
    }

    pub(super) fn name(self) -> &'static str {
        match (self.replicated, self.tier) {
            (true, false) => "sync:1",
            (true, true) => "sync:1, tier",
            (false, false) => "none",
            (false, true) => "none, tier",
        }
    }
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Kill(usize),
    /// All that are away come back, with nothing but their tiers. (One that starts waits for all others.)
    Return,
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
    pub(super) fn of(seed: u64) -> Schedule {
        let (mut dice, mode) = (Dice::new(seed), Mode::of(seed));
        let mut away: Vec<usize> = Vec::new();
        let mut steps = Vec::new();
        for number in 0..STEPS {
            let gap = GAPS[dice.roll(GAPS.len())];
            let step = match dice.roll(4) {
                0 if mode.tier && number > 0 => Step::Fill,
                1 if mode.tier && number > 0 => Step::Free,
                _ if away.len() == AWAY_MAX || !away.is_empty() && dice.roll(2) == 0 => {
                    away.clear();
                    Step::Return
                }
                _ => {
                    let here: Vec<usize> =
                        (0..AGENTS).filter(|agent| !away.contains(agent)).collect();
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
        for seed in 0..200 {
            let schedule = Schedule::of(seed);
            assert_eq!(schedule, Schedule::of(seed));
            let mut away = 0;
            let mut deaths = 0;
            for (_, step) in &schedule.steps {
                match step {
                    Step::Kill(_) => (away, deaths) = (away + 1, deaths + 1),
                    Step::Return => away = 0,
                    Step::Fill | Step::Free => assert!(schedule.mode.tier),
                }
                assert!(away <= AWAY_MAX);
            }
            assert!(deaths > 0, "{schedule:?}");
        }
    }
}
