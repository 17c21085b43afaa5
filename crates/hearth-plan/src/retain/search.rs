//! A search over sets of files that stay.
//!
//! After each read a *state* is the set of files that are to stay until they are read again, and the
//! bytes that all stays so far bring. A read leaves two ways: its file stays, or it does not. Of two
//! ways to the same set the better one is enough. That is exact; where sets become too many, the most
//! promising ones go on, and it is no longer.
//!
//! 1. States are in the order of their sets, each set once.
//! 2. The files of a state fit into the memory together.

use alloc::vec::Vec;

use super::packing::{self, packing};
use super::{Follower, Queue, RetainPlan, VictimRule};
use crate::units::Bytes;

/// Sets that [`best`] follows at once.
const WIDTH: usize = 1024;
/// Sets that [`optimum`] follows at once before it gives up.
const OPTIMUM_WIDTH: usize = 1 << 16;
/// Files that are read more than once, at most: one bit of a set for each.
const FILES_MAX: usize = 64;

/// The best plan that was found.
#[derive(Clone, Debug)]
pub struct Best {
    /// The stays of the best state.
    pub plan: RetainPlan,
    /// Whether it is known that no plan has more bytes from memory.
    pub is_exact: bool,
}

/// The best of the published method, exact victims, packing and a search, with exchanges.
pub fn best(queue: &Queue, capacity: Bytes) -> Best {
    let searched = search(queue, capacity, WIDTH);
    if let Some(best) = searched.as_ref().filter(|best| best.is_exact) {
        return best.clone();
    }
    let followed = [VictimRule::Paper, VictimRule::Covering].map(|rule| {
        let follower = Follower::new(queue, capacity, rule);
        RetainPlan::of(follower, queue)
    });
    let others = followed.into_iter().chain([packing(queue, capacity)]);
    let all = others.chain(searched.map(|best| best.plan));
    let improved = all.map(|plan| packing::improved(queue, capacity, plan));
    let plan = improved.max_by_key(|plan| plan.tally(queue).memory);
    Best {
        plan: plan.expect("three plans at least"),
        is_exact: false,
    }
}

/// The best plan there is, where sets of files are few enough to look at all of them.
pub fn optimum(queue: &Queue, capacity: Bytes) -> Option<RetainPlan> {
    let found = search(queue, capacity, OPTIMUM_WIDTH)?;
    found.is_exact.then_some(found.plan)
}

#[derive(Clone, Copy, Debug)]
struct State {
    set: u64,
    used: Bytes,
    /// Bytes of all stays that were begun.
    worth: Bytes,
    /// The last stay that was begun, in the trail.
    last: u32,
}

/// A stay, and the one that was begun before it.
struct Begun {
    at: u32,
    before: u32,
}

/// The end of every trail.
const NOTHING: u32 = u32::MAX;

fn search(queue: &Queue, capacity: Bytes, width: usize) -> Option<Best> {
    let bits = bits(queue)?;
    let mut trail: Vec<Begun> = Vec::new();
    let mut is_exact = true;
    let mut states = Vec::from([State {
        set: 0,
        used: Bytes::ZERO,
        worth: Bytes::ZERO,
        last: NOTHING,
    }]);
    for at in 0..queue.len() {
        let Some(bit) = bits[queue.file(at).index()] else {
            continue;
        };
        let size = queue.size_at(at);
        let without = leave(&states, bit, size);
        let with = match queue.next(at) {
            Some(_) => begin(&without, bit, size, capacity, at, &mut trail),
            None => Vec::new(),
        };
        states = merge(without, with);
        if states.len() > width {
            is_exact = false;
            trim(queue, &bits, at, width, &mut states);
        }
    }
    let best = states.iter().max_by_key(|state| state.worth);
    let plan = retrace(queue, &trail, best.expect("nothing stays is a state").last);
    Some(Best { plan, is_exact })
}

/// A bit for each file that is read more than once.
fn bits(queue: &Queue) -> Option<Vec<Option<u32>>> {
    let mut count = 0;
    let references = queue.references();
    let bits = references.iter().map(|references| {
        (*references > 1).then(|| {
            count += 1;
            count - 1
        })
    });
    let bits = bits.collect();
    (count as usize <= FILES_MAX).then_some(bits)
}

/// The states after a file was read that does not stay.
fn leave(states: &[State], bit: u32, size: Bytes) -> Vec<State> {
    let (mut had, mut lacked) = (Vec::new(), Vec::new());
    for state in states {
        if state.set & 1 << bit == 0 {
            lacked.push(*state);
        } else {
            had.push(State {
                set: state.set & !(1 << bit),
                used: state.used - size,
                ..*state
            });
        }
    }
    merge(had, lacked)
}

/// The states after a file was read that stays.
fn begin(
    states: &[State],
    bit: u32,
    size: Bytes,
    capacity: Bytes,
    at: usize,
    trail: &mut Vec<Begun>,
) -> Vec<State> {
    let roomy = states.iter().filter(|state| state.used + size <= capacity);
    let begun = roomy.map(|state| {
        trail.push(Begun {
            at: at as u32,
            before: state.last,
        });
        State {
            set: state.set | 1 << bit,
            used: state.used + size,
            worth: state.worth + size,
            last: trail.len() as u32 - 1,
        }
    });
    begun.collect()
}

/// Both in order, each set once with the most that it is worth.
fn merge(one: Vec<State>, other: Vec<State>) -> Vec<State> {
    let mut all = Vec::with_capacity(one.len() + other.len());
    let (mut one, mut other) = (one.into_iter().peekable(), other.into_iter().peekable());
    loop {
        let state = match (one.peek(), other.peek()) {
            (Some(left), Some(right)) if left.set == right.set => {
                let better = if left.worth < right.worth {
                    *right
                } else {
                    *left
                };
                one.next();
                other.next();
                Some(better)
            }
            (Some(left), Some(right)) if left.set < right.set => one.next(),
            (Some(_), None) => one.next(),
            (_, Some(_)) => other.next(),
            (None, None) => return all,
        };
        all.extend(state);
    }
}

/// Leaves the most promising states: a stay counts by how much of it is over.
fn trim(queue: &Queue, bits: &[Option<u32>], at: usize, width: usize, states: &mut Vec<State>) {
    let ahead = ahead(queue, bits, at);
    let promise = |state: &State| {
        let (mut rest, mut set) = (Bytes::ZERO, state.set);
        while set != 0 {
            rest += ahead[set.trailing_zeros() as usize];
            set &= set - 1;
        }
        core::cmp::Reverse(state.worth.saturating_sub(rest))
    };
    states.select_nth_unstable_by_key(width, promise);
    states.truncate(width);
    states.sort_unstable_by_key(|state| state.set);
}

/// For each bit the part of its file's bytes that the current stay has yet to earn.
fn ahead(queue: &Queue, bits: &[Option<u32>], at: usize) -> [Bytes; FILES_MAX] {
    let mut ahead = [Bytes::ZERO; FILES_MAX];
    let mut seen = 0;
    for since in (0..=at).rev() {
        let file = queue.file(since);
        let Some(bit) = bits[file.index()].filter(|bit| seen & 1u64 << bit == 0) else {
            continue;
        };
        seen |= 1 << bit;
        if let Some(end) = queue.next(since).filter(|end| *end > at) {
            let part = u128::from(queue.size(file).0) * (end - at) as u128 / (end - since) as u128;
            ahead[bit as usize] = Bytes(part as u64);
        }
        if seen.count_ones() as usize == FILES_MAX {
            break;
        }
    }
    ahead
}

fn retrace(queue: &Queue, trail: &[Begun], mut last: u32) -> RetainPlan {
    let mut plan = RetainPlan::nothing(queue);
    while last != NOTHING {
        let begun = &trail[last as usize];
        plan.set(begun.at as usize, true);
        last = begun.before;
    }
    plan
}
