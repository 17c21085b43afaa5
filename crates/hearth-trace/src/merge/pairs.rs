//! Bounds on the clocks of machines, from requests between them: none is served before it is sent,
//! and no answer comes before it was given.
//!
//! Each machine's clock is bent by a line with a knot every ten seconds. In each short slice of time, only those
//! requests between two machines count that some straight bend could contradict first. The knots move, a little for
//! each contradicted request, until none is contradicted. A clock is not bent beyond what an oscillator can be off its
//! pace: records that want more are wrong themselves, and are counted.

use std::collections::BTreeMap;

use super::hull::Hull;

/// Nanoseconds between two knots, at most.
const KNOT_NS: i64 = 10_000_000_000;
/// Nanoseconds of a slice; knots are between slices.
const SLICE_NS: i64 = 10_000_000;
/// Orders that are remembered; requests of later slices do not count.
const ORDERS_MAX: usize = 1 << 18;
/// A clock is not made to gain or lose more than this part, between two knots.
const PACE_MAX: f64 = 1e-3;
/// Rounds of moving, and what all of them together may look at.
const ROUNDS_MAX: usize = 2000;
const LOOKS_MAX: usize = 20_000_000;
/// Nanoseconds by which a contradiction is overdone, so that rounding does not bring it back.
const MARGIN: f64 = 4.0;

/// By how much each machine's clock is to be moved, at any time.
pub(crate) struct Bends {
    start: i64,
    /// Nanoseconds between two knots.
    every: i64,
    /// Of each machine, at each knot.
    knots: Vec<Vec<f64>>,
}

impl Bends {
    /// Times of the knots.
    pub(crate) fn times(&self) -> impl Iterator<Item = i64> {
        let count = self.knots.first().map_or(0, Vec::len) as i64;
        let start = self.start;
        let every = self.every;
        (0..count).map(move |knot| start.saturating_add(knot * every))
    }

    /// Nanoseconds for a machine at a time.
    pub(crate) fn at(&self, machine: u32, time: i64) -> i64 {
        let (knot, share) = self.place(time);
        let knots = &self.knots[machine as usize];
        (knots[knot] * (1.0 - share) + knots[knot + 1] * share).round() as i64
    }

    /// The most that a machine is moved.
    pub(crate) fn most(&self, machine: u32) -> u64 {
        let moves = self.knots[machine as usize].iter();
        moves.fold(0.0_f64, |most, by| most.max(by.abs())) as u64
    }

    fn place(&self, time: i64) -> (usize, f64) {
        let since = time.saturating_sub(self.start).max(0);
        let last = self.knots.first().map_or(0, |knots| knots.len() - 2);
        let knot = ((since / self.every) as usize).min(last);
        let share = (since - knot as i64 * self.every) as f64 / self.every as f64;
        (knot, share.min(1.0))
    }

    fn push(&mut self, machine: u32, time: i64, by: f64) {
        let (knot, share) = self.place(time);
        let scale = (1.0 - share).powi(2) + share.powi(2);
        let knots = &mut self.knots[machine as usize];
        knots[knot] += by * (1.0 - share) / scale;
        knots[knot + 1] += by * share / scale;
        self.straighten(machine, knot);
    }

    /// Keeps the pace on both sides of two knots that were moved within what can be: they are brought
    /// together, and their neighbours after them.
    fn straighten(&mut self, machine: u32, knot: usize) {
        let most = self.every as f64 * PACE_MAX;
        let knots = &mut self.knots[machine as usize];
        let apart = knots[knot + 1] - knots[knot];
        let over = (apart.abs() - most).max(0.0) * apart.signum() / 2.0;
        knots[knot] += over;
        knots[knot + 1] -= over;
        for at in knot + 2..knots.len() {
            let before = knots[at - 1];
            knots[at] = knots[at].clamp(before - most, before + most);
        }
        for at in (0..knot).rev() {
            let after = knots[at + 1];
            knots[at] = knots[at].clamp(after - most, after + most);
        }
    }
}

/// One end of something: on which machine, and when by its clock.
type Moment = (u32, i64);

/// The first of two moments, then the one that came after it.
type Order = (Moment, Moment);

/// The orders of moments that all requests between machines tell.
#[derive(Default)]
pub(crate) struct Pairs {
    /// How tight the orders of each slice are over time, by the two machines.
    slices: BTreeMap<(u32, u32, i64), Hull<Order>>,
    /// Orders in all slices.
    count: usize,
}

impl Pairs {
    /// A request was under way from `asked` to `heard` on the clock of `from`, and was served from
    /// `began` to `done` on that of `to`.
    pub(crate) fn add(
        &mut self,
        (from, to): (u32, u32),
        (asked, heard): (i64, i64),
        (began, done): (i64, i64),
    ) {
        self.order((from, asked), (to, began));
        self.order((to, done), (from, heard));
    }

    fn order(&mut self, first: Moment, then: Moment) {
        let slice = first.1.div_euclid(SLICE_NS);
        let slack = then.1.saturating_sub(first.1);
        let place = (first.0, then.0, slice);
        if self.count >= ORDERS_MAX && !self.slices.contains_key(&place) {
            return;
        }
        let hull = self.slices.entry(place).or_insert_with(Hull::new);
        self.count -= hull.len();
        hull.add(first.1, slack, (first, then));
        self.count += hull.len();
    }

    fn orders(&self) -> impl Iterator<Item = &Order> {
        self.slices.values().flat_map(Hull::iter)
    }

    /// How to move each of so many clocks, as little as will do; and how many requests are
    /// contradicted even then.
    pub(crate) fn solve(&self, machines: usize) -> (Bends, usize) {
        let times = || self.orders().flat_map(|(first, then)| [first.1, then.1]);
        let earliest = times().min().unwrap_or(0);
        let start = earliest.saturating_sub(earliest.rem_euclid(SLICE_NS));
        let span = times().max().unwrap_or(0).saturating_sub(start);
        let every = span.clamp(1, KNOT_NS);
        let knots = (span / every) as usize + 2;
        let mut bends = Bends {
            start,
            every,
            knots: vec![vec![0.0; knots]; machines],
        };
        let slack = |bends: &Bends, first: Moment, then: Moment| {
            let moved = bends.at(then.0, then.1) - bends.at(first.0, first.1);
            then.1.saturating_sub(first.1).saturating_add(moved)
        };
        let mut wrong = 0;
        let rounds = (LOOKS_MAX / self.count.max(1)).min(ROUNDS_MAX);
        for _ in 0..rounds {
            wrong = 0;
            for (first, then) in self.orders() {
                let slack = slack(&bends, *first, *then) as f64;
                if slack < MARGIN {
                    wrong += usize::from(slack < 0.0);
                    let by = (MARGIN - slack) / 2.0;
                    bends.push(then.0, then.1, by);
                    bends.push(first.0, first.1, -by);
                }
            }
            if wrong == 0 {
                break;
            }
        }
        (bends, wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From asked to heard on machine 0, from begun to done on machine 1.
    type Request = ((i64, i64), (i64, i64));

    /// Clocks can be moved so that each request, and each answer, is under way for so long at least.
    fn assert_under_way(requests: &[Request], least: i64) {
        let mut pairs = Pairs::default();
        for (asked, served) in requests {
            pairs.add((0, 1), *asked, *served);
        }
        let (bends, wrong) = pairs.solve(2);
        assert_eq!(wrong, 0);
        for ((asked, heard), (began, done)) in requests {
            let here = |time: &i64| time + bends.at(0, *time);
            let there = |time: &i64| time + bends.at(1, *time);
            let (out, back) = (there(began) - here(asked), here(heard) - there(done));
            assert!(
                out >= least && back >= least,
                "at {asked}: {out} ns out, {back} ns back"
            );
        }
    }

    #[test]
    fn clocks_that_agree_stay() {
        let mut pairs = Pairs::default();
        pairs.add((0, 1), (100, 200), (120, 180));
        let (bends, wrong) = pairs.solve(2);
        assert_eq!((bends.at(0, 150), bends.at(1, 150), wrong), (0, 0, 0));
    }

    #[test]
    fn requests_that_no_clock_can_explain_are_counted_and_bend_little() {
        let mut pairs = Pairs::default();
        // Machine 1 would be a second behind, and 20 ms later a second ahead.
        let second = 1_000_000_000;
        for (asked, off) in [(0, -second), (20_000_000, second)] {
            let served = asked + 1_000 + off;
            pairs.add((0, 1), (asked, asked + 2_000), (served, served + 10));
        }
        let (bends, wrong) = pairs.solve(2);
        assert!(wrong > 0, "what contradicts itself is counted");
        let times: Vec<i64> = bends.times().collect();
        for machine in 0..2 {
            for pair in times.windows(2) {
                let apart = bends.at(machine, pair[1]) - bends.at(machine, pair[0]);
                let most = (pair[1] - pair[0]) as f64 * PACE_MAX;
                assert!(
                    apart.unsigned_abs() as f64 <= most + 1.0,
                    "{apart} ns in {pair:?}"
                );
            }
        }
    }

    #[test]
    fn requests_close_to_each_other_count_each_where_a_clock_is_bent() {
        // Machine 1 gains 400 ns in each millisecond. The answer that looks latest of each 10 ms is not
        // the one that was under way for the shortest time.
        let off = |time: i64| time / 2_500;
        let requests: Vec<_> = (0..100)
            .flat_map(|turn| {
                [
                    (turn * 10, 100),
                    (turn * 10 + 4, 1_500),
                    (turn * 10 + 9, 3_000),
                ]
            })
            .map(|(asked_ms, back)| {
                let asked = asked_ms * 1_000_000;
                let (began, done) = (asked + 100_000, asked + 100_300);
                ((asked, done + back), (began + off(began), done + off(done)))
            })
            .collect();
        assert_under_way(&requests, 0);
    }

    #[test]
    fn a_clock_that_is_off_and_drifts_moves_until_no_answer_precedes_its_question() {
        // Machine 1 is 3 us behind at first and 5 us ahead at last.
        let off = |time: i64| -3_000 + time / 500_000;
        let requests: Vec<_> = (0..400)
            .map(|turn| {
                let asked = turn * 10_000_000;
                let (began, done) = (asked + 900, asked + 1_100);
                (
                    (asked, asked + 2_000),
                    (began + off(began), done + off(done)),
                )
            })
            .collect();
        assert_under_way(&requests, -20);
    }
}
