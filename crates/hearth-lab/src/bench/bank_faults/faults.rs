//! Schedules of faults of a bank.

use crate::bench::cells::Dice;

/// Faults of one schedule.
const FAULTS: usize = 6;

/// One schedule in so many ends with a gateway that is killed, and as many with the guest.
const KILLS: usize = 8;

/// Reads and writes before a fault: none has time to act, or one acts on what another did.
const GAPS: [u64; 4] = [20, 60, 300, 1000];

/// Something that happens to a daemon, or to the way from one agent to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Kill(usize),
    /// A new one at the same place.
    Restart(usize),
    /// It takes nothing and says nothing.
    Stop(usize),
    Continue(usize),
    /// Entries of others drive out its own.
    Fill(usize),
    /// Bytes from one agent wait, and arrive when the way is open again, however late.
    Hold(usize, usize),
    /// One agent cannot reach it.
    Cut(usize, usize),
    /// Each piece takes its time.
    Slow(usize, usize),
    /// The way is open again.
    Open(usize, usize),
    /// The guest, who has leases and is no gateway, stands still.
    Pause,
    /// It goes on.
    Resume,
}

/// The process, if any, that is killed at the end of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Victim {
    Nobody,
    Gateway,
    Guest,
}

/// Faults in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    pub(super) seed: u64,
    /// Each after so many more reads and writes.
    pub(super) faults: Vec<(u64, Fault)>,
    pub(super) victim: Victim,
}

impl Schedule {
    /// The schedule of a seed, for so many daemons and these agents.
    pub(super) fn of(seed: u64, daemons: usize, agents: &[usize]) -> Schedule {
        let mut dice = Dice::new(seed);
        let faults = (0..FAULTS).map(|_| {
            let daemon = dice.roll(daemons);
            let agent = agents[dice.roll(agents.len())];
            let gap = GAPS[dice.roll(GAPS.len())];
            let fault = match dice.roll(13) {
                0 => Fault::Kill(daemon),
                1 => Fault::Restart(daemon),
                2 => Fault::Stop(daemon),
                3 => Fault::Continue(daemon),
                4 => Fault::Fill(daemon),
                5 | 6 => Fault::Hold(agent, daemon),
                7 => Fault::Cut(agent, daemon),
                8 => Fault::Slow(agent, daemon),
                10 | 11 => Fault::Pause,
                12 => Fault::Resume,
                _ => Fault::Open(agent, daemon),
            };
            (gap, fault)
        });
        let faults = faults.collect();
        Schedule {
            seed,
            faults,
            victim: match dice.roll(KILLS) {
                0 => Victim::Gateway,
                1 => Victim::Guest,
                _ => Victim::Nobody,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_one_schedule_and_seeds_differ() {
        let all: Vec<Schedule> = (0..100)
            .map(|seed| Schedule::of(seed, 2, &[0, 1]))
            .collect();
        assert_eq!(all[7], Schedule::of(7, 2, &[0, 1]));
        assert!(all.windows(2).all(|two| two[0].faults != two[1].faults));
        for victim in [Victim::Gateway, Victim::Guest] {
            let kills = all
                .iter()
                .filter(|schedule| schedule.victim == victim)
                .count();
            assert!((5..30).contains(&kills), "{victim:?}: {kills}");
        }
        let pauses = |schedule: &&Schedule| {
            schedule
                .faults
                .iter()
                .any(|(_, fault)| *fault == Fault::Pause)
        };
        assert!(all.iter().filter(pauses).count() > 30);
    }
}
