//! What requests between machines say of their clocks: none is served before it is sent, and no
//! answer comes before it was given.

use std::collections::BTreeMap;

/// By how much the clock of a second machine must be moved against that of a first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// At least,
    pub(crate) least: i64,
    /// and at most.
    pub(crate) most: i64,
}

/// What all requests from one machine to another allow.
#[derive(Default)]
pub(crate) struct Pairs {
    /// By index of the machine that asks, and of the one that serves.
    windows: BTreeMap<(u32, u32), Window>,
}

/// Rounds of moving; each brings the worst contradiction down by half.
const ROUNDS: usize = 200;

impl Pairs {
    /// A request was under way from `asked` to `heard` on the clock of `from`, and was served from
    /// `began` to `done` on that of `to`.
    pub(crate) fn add(
        &mut self,
        (from, to): (u32, u32),
        (asked, heard): (i64, i64),
        (began, done): (i64, i64),
    ) {
        let window = self.windows.entry((from, to)).or_insert(Window {
            least: i64::MIN,
            most: i64::MAX,
        });
        window.least = window.least.max(asked.saturating_sub(began));
        window.most = window.most.min(heard.saturating_sub(done));
    }

    /// By how much to move each of so many clocks, as little as will do; and how many pairs of
    /// machines contradict themselves even then.
    pub(crate) fn solve(&self, machines: usize) -> (Vec<i64>, usize) {
        let mut moves = vec![0_i64; machines];
        for _ in 0..ROUNDS {
            let mut quiet = true;
            for ((from, to), window) in &self.windows {
                let wanted = wanted(*window, moves[*to as usize] - moves[*from as usize]);
                if wanted != 0 {
                    quiet = false;
                    // Both meet in the middle; halves are rounded away from zero, so that it ends.
                    let half = (wanted.unsigned_abs().div_ceil(2).cast_signed()) * wanted.signum();
                    moves[*to as usize] = moves[*to as usize].saturating_add(half);
                    moves[*from as usize] = moves[*from as usize].saturating_sub(wanted - half);
                }
            }
            if quiet {
                break;
            }
        }
        let wrong = self.windows.iter().filter(|((from, to), window)| {
            wanted(**window, moves[*to as usize] - moves[*from as usize]) != 0
        });
        let wrong = wrong.count();
        (moves, wrong)
    }
}

/// How far a distance is from where it should be. What cannot be is met in its middle.
fn wanted(window: Window, distance: i64) -> i64 {
    let Window { least, most } = window;
    if least > most {
        return (least / 2 + most / 2).saturating_sub(distance);
    }
    distance.clamp(least, most).saturating_sub(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_agree_stay_and_others_move_until_no_answer_precedes_its_question() {
        let mut pairs = Pairs::default();
        pairs.add((0, 1), (100, 200), (120, 180));
        assert_eq!(pairs.solve(2), (vec![0, 0], 0));
        // Machine 2 serves 50 before it is asked.
        pairs.add((1, 2), (1000, 1100), (950, 990));
        pairs.add((2, 0), (2000, 2200), (2050, 2150));
        let (moves, wrong) = pairs.solve(3);
        assert_eq!(wrong, 0);
        assert!(
            moves[2] - moves[1] >= 50 && moves[2] - moves[1] <= 110,
            "{moves:?}"
        );
        assert!(
            moves[1] - moves[0] >= -20 && moves[1] - moves[0] <= 20,
            "{moves:?}"
        );
    }

    #[test]
    fn what_cannot_be_is_counted() {
        let mut pairs = Pairs::default();
        pairs.add((0, 1), (100, 200), (500, 600));
        pairs.add((0, 1), (1000, 1100), (500, 600));
        assert_eq!(pairs.solve(2).1, 0, "met in the middle");
        pairs.add((1, 0), (0, 10), (100, 110));
        assert!(pairs.solve(2).1 > 0);
    }
}
