//! Levels below `posix`: a read sees what was published before its own last look, and all that its node wrote (S30 to S32).

use std::collections::BTreeMap;

use super::super::history::{Call, Op, Out};
use super::{Checked, History, Level, is_writer};

/// A write, and when its node had published it.
#[derive(Clone, Copy)]
struct Write<'a> {
    call: &'a Call,
    value: u64,
    published: u64,
}

/// Writes of each slot of each file.
type Writes<'a> = BTreeMap<(&'a str, u64), Vec<Write<'a>>>;

/// Checks each read of a register file.
pub(super) fn registers(history: &History, checked: &mut Checked) {
    let calls: Vec<&Call> = history
        .calls
        .iter()
        .filter(|call| call.file().starts_with("register"))
        .collect();
    checked.histories += 1;
    let writes = writes_of(history, &calls);
    for (index, call) in calls.iter().enumerate() {
        let (Op::Read { slot, by, .. }, Out::Values(values)) = (&call.op, &call.out) else {
            continue;
        };
        if history.is_cut_off(call)
            || history
                .breaks
                .as_ref()
                .is_some_and(|gap| call.end() >= gap.begun)
        {
            continue;
        }
        // The time from which on the reader sees what is published: its last open, or sync, through this descriptor.
        let of_reader = |other: &&&Call| {
            let is_look = match &other.op {
                Op::Open { by: of, .. } => of == by,
                Op::Sync { by: of, .. } => of == by && history.promise.level == Level::Synced,
                _ => false,
            };
            is_look
                && other.worker == call.worker
                && other.file() == call.file()
                && other.end() < call.begun
        };
        let looked = calls[..index]
            .iter()
            .filter(of_reader)
            .map(|other| other.begun)
            .max()
            .unwrap_or(0);
        for (of, value) in values.iter().enumerate() {
            let slot = slot + of as u64;
            let of_slot = writes.get(&(call.file(), slot));
            let of_slot = of_slot.map_or(&[][..], Vec::as_slice);
            if let Some(missed) = missed(of_slot, call, value.unwrap_or(0), looked) {
                let own = |other: &Call| {
                    other.file() == call.file()
                        && (super::cells::touches(other, slot)
                            || matches!(other.op, Op::Open { .. }))
                };
                let key = format!("{} slot {slot}", call.file());
                let what = format!("a read missed {}, which was published before", missed.op);
                checked
                    .findings
                    .push(history.finding(what, &key, call.end(), &own));
                return;
            }
        }
    }
}

/// A write that a read must have seen, and that `value` was overwritten by.
fn missed<'a>(writes: &[Write<'a>], read: &Call, value: u64, looked: u64) -> Option<&'a Call> {
    let seen = writes.iter().find(|write| write.value == value);
    let seen_public = match value {
        0 => 0,
        _ => seen.map_or(0, |write| write.published),
    };
    let seen_end = seen.map_or(0, |write| write.call.end());
    let is_missed = |write: &&Write<'a>| {
        let call = write.call;
        let is_own = call.node == read.node && call.end() < read.begun && call.is_good();
        let is_public = write.published < looked;
        // An unpublished write of another node may be put after any other.
        (is_public && seen_public < call.begun)
            || (is_own && seen_end < call.begun && (value == 0 || seen_public < call.begun))
    };
    writes.iter().find(is_missed).map(|write| write.call)
}

/// All writes. Each is looked at for each read of its slots, so what is known of it is worked out once.
fn writes_of<'a>(history: &History, calls: &[&'a Call]) -> Writes<'a> {
    let publishers = publishers_of(history, calls);
    let mut writes = Writes::new();
    for &call in calls {
        let Op::Write {
            slot, count, value, ..
        } = call.op
        else {
            continue;
        };
        let of_node = publishers.get(&(call.file(), call.node));
        let of_node = of_node.map_or(&[][..], Vec::as_slice);
        let published = match call.is_good() && history.promise.level != Level::Own {
            true => end_after(of_node, call.end()),
            false => u64::MAX,
        };
        for slot in slot..slot + count {
            let of_slot = writes.entry((call.file(), slot)).or_default();
            of_slot.push(Write {
                call,
                value,
                published,
            });
        }
    }
    writes
}

/// Calls of each node that publish a file: when each began, and the earliest end of it and of all later ones.
fn publishers_of<'a>(
    history: &History,
    calls: &[&'a Call],
) -> BTreeMap<(&'a str, usize), Vec<(u64, u64)>> {
    let mut publishers: BTreeMap<_, Vec<(u64, u64)>> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.is_good()) {
        let publishes = match &call.op {
            Op::Sync { .. } => history.promise.level == Level::Synced,
            Op::Close { by, .. } => is_writer(*by),
            _ => false,
        };
        if publishes {
            let of_node = publishers.entry((call.file(), call.node)).or_default();
            of_node.push((call.begun, call.end()));
        }
    }
    for of_node in publishers.values_mut() {
        of_node.sort_unstable();
        let mut least = u64::MAX;
        for (_, end) in of_node.iter_mut().rev() {
            least = least.min(*end);
            *end = least;
        }
    }
    publishers
}

/// The earliest end of those that begin no earlier than a time.
fn end_after(publishers: &[(u64, u64)], time: u64) -> u64 {
    let first = publishers.partition_point(|&(begun, _)| begun < time);
    publishers.get(first).map_or(u64::MAX, |&(_, end)| end)
}
