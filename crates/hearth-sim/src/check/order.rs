//! I4: the writes of a byte have one order that all reads agree with.
//!
//! Every value is written once, so a write and the reads that returned it stand together in any such
//! order. Such a group has a *forward zone* from its first end to its last beginning, if that is
//! later, else a *backward zone*. There is an order if no two forward zones overlap and no backward
//! zone lies within a forward one (Gibbons and Korach, SIAM J. Comput. 1997).
//!
//! A home that dies takes with it what it had of a write that nobody was told of, and the write is made once more.
//! So what is seen of such a write binds nothing before it ends: there is no order with both of its lives.
//!
//! Reads of a write during which the last name of its file went do not count: what some homes had
//! taken of it and others had not is written once more, to the store.

use super::Violation;
use crate::model::{Change, ChangeKind, History, OPEN, Tick};
use std::collections::BTreeMap;

/// A write with its reads, at one byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// When the first of them was over.
    pub(crate) first_end: Tick,
    /// When the last of them began.
    pub(crate) last_begin: Tick,
}

impl Group {
    fn of(change: &Change) -> Group {
        Group {
            first_end: change.span.ended,
            last_begin: change.span.began,
        }
    }

    fn is_forward(&self) -> bool {
        self.first_end < self.last_begin
    }

    fn low(&self) -> Tick {
        self.first_end.min(self.last_begin)
    }

    fn high(&self) -> Tick {
        self.first_end.max(self.last_begin)
    }
}

/// Judges every byte of a file.
pub fn check(history: &History) -> Option<Violation> {
    if history.lossy || history.parted || !history.semantics.is_recorded() {
        return None;
    }
    let end = |read: &crate::model::Read| read.offset + read.bytes.len() as u64;
    let most = history.reads.iter().map(end).max().unwrap_or(0);
    (0..most).find_map(|at| check_byte(history, at))
}

/// The writes of a byte, each with the reads that returned it, by the number of the change.
pub(crate) fn groups(history: &History, at: u64) -> BTreeMap<usize, Group> {
    let mut groups: BTreeMap<usize, Group> = BTreeMap::new();
    let mut by_value: BTreeMap<u8, usize> = BTreeMap::new();
    for (number, change) in history.changes.iter().enumerate() {
        // A write that nobody was told of may go with an agent, also after it was seen.
        let is_lost = change.doubtful || change.torn && change.span.ended == OPEN;
        if change.covers(at) && !is_lost {
            groups.insert(number, Group::of(change));
            if change.kind != ChangeKind::Cut && !change.redone {
                by_value.insert(change.value, number);
            }
        }
    }
    for read in &history.reads {
        let Some(place) = at.checked_sub(read.offset) else {
            continue;
        };
        let value = read.bytes.get(place as usize);
        let number = value.and_then(|value| by_value.get(value));
        let binds = |number: &&usize| {
            let change = &history.changes[**number];
            !change.torn || change.span.ended < read.span.began
        };
        if let Some(group) = number
            .filter(binds)
            .and_then(|number| groups.get_mut(number))
        {
            group.first_end = group.first_end.min(read.span.ended);
            group.last_begin = group.last_begin.max(read.span.began);
        }
    }
    groups
}

fn check_byte(history: &History, at: u64) -> Option<Violation> {
    let (a, b) = clash(&groups(history, at))?;
    let told = |number: usize| {
        let value = history.changes[number].value;
        let reads = history.reads.iter().filter(|read| {
            let place = at.checked_sub(read.offset).map(|place| place as usize);
            place.and_then(|place| read.bytes.get(place)) == Some(&value)
        });
        let spans: Vec<_> = reads.map(|read| (read.node, read.span)).collect();
        format!("{:?} read at {spans:?}", history.changes[number])
    };
    let what = format!("byte {at}: no order of writes agrees with all reads");
    Some(Violation::new("order", what).with(&[told(a), told(b)]))
}

/// Two groups of which neither can come first.
fn clash(groups: &BTreeMap<usize, Group>) -> Option<(usize, usize)> {
    for (&a, forward) in groups.iter().filter(|(_, group)| group.is_forward()) {
        for (&b, other) in groups.iter().filter(|&(&b, _)| b != a) {
            let bad = if other.is_forward() {
                forward.low() < other.high() && other.low() < forward.high()
            } else {
                forward.low() < other.low() && other.high() < forward.high()
            };
            if bad {
                return Some((a, b));
            }
        }
    }
    None
}
