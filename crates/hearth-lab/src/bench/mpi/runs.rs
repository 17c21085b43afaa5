//! Runs of several systems, compared within their turn.

use super::Told;
use hearth_set::report::{median, rounded};
use hearth_set::trial::cluster::ClusterCounts;

/// One run of one system in one case.
#[derive(Clone, Debug)]
pub(in crate::bench) struct Run {
    pub(in crate::bench) turn: usize,
    /// The case, such as a mode and a number of ranks.
    pub(in crate::bench) case: String,
    pub(in crate::bench) system: String,
    pub(in crate::bench) told: Told,
    pub(in crate::bench) counts: ClusterCounts,
    pub(in crate::bench) verified: bool,
}

impl Run {
    /// Seconds in calls.
    pub(in crate::bench) fn io_s(&self) -> f64 {
        self.told.read_s + self.told.write_s
    }

    /// Messages for each call of the program.
    pub(in crate::bench) fn messages_per_call(&self) -> f64 {
        let calls = self.told.reads + self.told.writes;
        self.counts.messages_sent as f64 / calls.max(1) as f64
    }
}

/// Messages of all agents, and calls of all ranks.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::bench) struct Traffic {
    pub(in crate::bench) messages: f64,
    pub(in crate::bench) calls: f64,
}

/// All of them.
#[derive(Default)]
pub(in crate::bench) struct Runs(Vec<Run>);

impl Runs {
    pub(in crate::bench) fn push(&mut self, run: Run) {
        self.0.push(run);
    }

    pub(in crate::bench) fn are_verified(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|run| run.verified)
    }

    /// The median of a figure.
    pub(in crate::bench) fn of(&self, case: &str, system: &str, figure: fn(&Run) -> f64) -> f64 {
        let here = |run: &&Run| run.case == case && run.system == system;
        let taken: Vec<f64> = self.0.iter().filter(here).map(figure).collect();
        median(&taken)
    }

    /// Messages and calls of the first run of a case.
    pub(in crate::bench) fn traffic(&self, case: &str, system: &str) -> Traffic {
        let run = self
            .0
            .iter()
            .find(|run| run.case == case && run.system == system);
        run.map_or(Traffic::default(), |run| Traffic {
            messages: run.counts.messages_sent as f64,
            calls: (run.told.reads + run.told.writes) as f64,
        })
    }

    /// The median over the turns of a figure of one system over that of another in the same turn,
    /// so that a slow moment meets both.
    pub(in crate::bench) fn ratio(
        &self,
        case: &str,
        figure: fn(&Run) -> f64,
        above: &str,
        below: &str,
    ) -> f64 {
        self.ratio_spread(case, figure, above, below).1
    }

    /// The same between the least and the most of the turns.
    pub(in crate::bench) fn ratio_spread(
        &self,
        case: &str,
        figure: fn(&Run) -> f64,
        above: &str,
        below: &str,
    ) -> (f64, f64, f64) {
        let find = |turn: usize, system: &str| {
            let is_it = |run: &&Run| (run.turn, &*run.case, &*run.system) == (turn, case, system);
            self.0.iter().find(is_it)
        };
        let tops = self
            .0
            .iter()
            .filter(|run| run.case == case && run.system == above);
        let ratios: Vec<f64> = tops
            .filter_map(|top| Some((top, find(top.turn, below)?)))
            .map(|(top, bottom)| figure(top) / figure(bottom).max(f64::MIN_POSITIVE))
            .collect();
        let least = ratios.iter().copied().reduce(f64::min).unwrap_or(0.0);
        let most = ratios.iter().copied().reduce(f64::max).unwrap_or(0.0);
        (rounded(least), rounded(median(&ratios)), rounded(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(turn: usize, system: &str, write_s: f64) -> Run {
        let told = Told {
            write_s,
            ..Told::default()
        };
        Run {
            turn,
            case: "c".to_owned(),
            system: system.to_owned(),
            told,
            counts: ClusterCounts::default(),
            verified: true,
        }
    }

    #[test]
    fn systems_are_compared_within_a_turn() {
        let mut runs = Runs::default();
        assert!(!runs.are_verified(), "nothing was looked at");
        // The third turn was slow for all: a ratio of medians would be 10 / 2.
        for (turn, slow) in [(0, 1.0), (1, 1.0), (2, 9.0)] {
            runs.push(run(turn, "a", 10.0 * slow));
            runs.push(run(turn, "b", (turn + 1) as f64 * slow));
        }
        assert_eq!(runs.ratio("c", Run::io_s, "a", "b"), 5.0);
        assert_eq!(runs.ratio("c", Run::io_s, "b", "a"), 0.2);
        assert_eq!(runs.ratio("other", Run::io_s, "a", "b"), 0.0);
        assert_eq!(
            runs.ratio_spread("c", Run::io_s, "a", "b"),
            (3.333, 5.0, 10.0)
        );
        assert_eq!(runs.of("c", "b", Run::io_s), 2.0);
        assert!(runs.are_verified());
        runs.push(Run {
            verified: false,
            ..run(3, "a", 1.0)
        });
        assert!(!runs.are_verified());
    }
}
