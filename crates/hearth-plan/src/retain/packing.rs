//! Stays packed side by side: those that hold room for the shortest time first, then exchanges.
//!
//! Each stay is a rectangle, as long as the time between two reads and as high as the file is large;
//! they must not be higher together than the memory.

use alloc::vec::Vec;

use super::{Queue, RetainPlan};
use crate::units::Bytes;

/// Rounds of exchanges; each one is taken only for more bytes from memory.
const ROUNDS_MAX: usize = 8;
/// How many reads back a stay may have begun that is exchanged for another.
const REACH: usize = 1024;

/// A plan from packing alone.
pub fn packing(queue: &Queue, capacity: Bytes) -> RetainPlan {
    let mut pack = Pack::new(queue, capacity, RetainPlan::nothing(queue));
    pack.fill();
    pack.plan
}

/// A plan with more bytes from memory, if adding a stay or exchanging one for a larger one can.
pub(super) fn improved(queue: &Queue, capacity: Bytes, plan: RetainPlan) -> RetainPlan {
    let mut pack = Pack::new(queue, capacity, plan);
    let mut rounds = 0;
    while rounds < ROUNDS_MAX && pack.exchange() {
        rounds += 1;
    }
    pack.fill();
    pack.plan
}

struct Pack<'a> {
    queue: &'a Queue,
    capacity: Bytes,
    plan: RetainPlan,
    /// Bytes that stay after each read.
    used: Vec<Bytes>,
}

impl<'a> Pack<'a> {
    fn new(queue: &'a Queue, capacity: Bytes, plan: RetainPlan) -> Pack<'a> {
        Pack {
            queue,
            capacity,
            used: plan.used(queue),
            plan,
        }
    }

    /// Adds what fits, short stays first, of equal ones the larger.
    fn fill(&mut self) {
        let stays = (0..self.queue.len()).filter_map(|at| {
            let length = self.queue.next(at)? - at;
            Some((length, core::cmp::Reverse(self.queue.size_at(at)), at))
        });
        let mut stays: Vec<_> = stays.collect();
        stays.sort_unstable();
        for (_, _, at) in stays {
            if !self.plan.stays(at) && self.over(at).is_none() {
                self.keep(at);
            }
        }
    }

    /// Whether one smaller stay made place for a larger one somewhere.
    fn exchange(&mut self) -> bool {
        let mut exchanged = false;
        for at in 0..self.queue.len() {
            if self.plan.stays(at) || self.queue.next(at).is_none() {
                continue;
            }
            match self.over(at) {
                None => self.keep(at),
                Some(over) => match self.smaller_across(at, over) {
                    None => continue,
                    Some(smaller) => {
                        self.drop(smaller);
                        self.keep(at);
                    }
                },
            }
            exchanged = true;
        }
        exchanged
    }

    /// The first and the last moment at which the stay from `at` is too much, and by how many bytes
    /// at most.
    fn over(&self, at: usize) -> Option<(usize, usize, Bytes)> {
        let end = self.queue.next(at)?;
        let room = self.capacity.saturating_sub(self.queue.size_at(at));
        let is_over =
            |gap: &usize| self.used[*gap] > room || self.queue.size_at(at) > self.capacity;
        let first = (at..end).find(is_over)?;
        let last = (at..end).rev().find(is_over)?;
        let most = self.used[first..=last]
            .iter()
            .max()
            .copied()
            .unwrap_or_default();
        Some((
            first,
            last,
            (most + self.queue.size_at(at)).saturating_sub(self.capacity),
        ))
    }

    /// The smallest stay that covers all of `over` and is smaller than the one from `at`.
    fn smaller_across(&self, at: usize, over: (usize, usize, Bytes)) -> Option<usize> {
        let (first, last, excess) = over;
        let size = self.queue.size_at(at);
        let covers = |other: &usize| {
            self.plan.stays(*other)
                && self.queue.next(*other).is_some_and(|end| end > last)
                && (excess..size).contains(&self.queue.size_at(*other))
        };
        let earliest = first.saturating_sub(REACH);
        (earliest..=first)
            .filter(covers)
            .min_by_key(|other| self.queue.size_at(*other))
    }

    fn keep(&mut self, at: usize) {
        self.plan.set(at, true);
        let end = self
            .queue
            .next(at)
            .expect("what is not read again does not stay");
        for used in &mut self.used[at..end] {
            *used += self.queue.size_at(at);
        }
    }

    fn drop(&mut self, at: usize) {
        self.plan.set(at, false);
        let end = self.queue.next(at).expect("it stays");
        for used in &mut self.used[at..end] {
            *used -= self.queue.size_at(at);
        }
    }
}
