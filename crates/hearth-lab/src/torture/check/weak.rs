//! Levels below `posix`: a read sees what was published before its own last look, and all that its node wrote (S30 to S32).

use super::super::history::{Call, Op, Out};
use super::{Checked, History, Level, is_writer};

/// Checks each read of a register file.
pub(super) fn registers(history: &History, checked: &mut Checked) {
    let calls: Vec<&Call> = history
        .calls
        .iter()
        .filter(|call| call.file().starts_with("register"))
        .collect();
    checked.histories += 1;
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
            if let Some(missed) = missed(history, &calls, call, slot, value.unwrap_or(0), looked) {
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
fn missed<'a>(
    history: &History,
    calls: &[&'a Call],
    read: &Call,
    slot: u64,
    value: u64,
    looked: u64,
) -> Option<&'a Call> {
    let writes = || {
        calls.iter().filter(|call| {
            call.file() == read.file()
                && matches!(&call.op, Op::Write { slot: from, count, .. } if (*from..from + count).contains(&slot))
        })
    };
    let is_of =
        |call: &Call, value: u64| matches!(&call.op, Op::Write { value: of, .. } if *of == value);
    let seen_public = match value {
        0 => 0,
        value => writes()
            .find(|call| is_of(call, value))
            .map_or(0, |call| published(history, calls, call)),
    };
    let seen_end = writes()
        .find(|call| is_of(call, value))
        .map_or(0, |call| call.end());
    writes().copied().find(|write| {
        let is_own = write.node == read.node && write.end() < read.begun && write.is_good();
        let is_public = published(history, calls, write) < looked;
        // An unpublished write of another node may be put after any other.
        (is_public && seen_public < write.begun)
            || (is_own && seen_end < write.begun && (value == 0 || seen_public < write.begun))
    })
}

/// When a write had been published by its node.
fn published(history: &History, calls: &[&Call], write: &Call) -> u64 {
    if !write.is_good() || history.promise.level == Level::Own {
        return u64::MAX;
    }
    let publishes = calls.iter().filter(|call| {
        let is_kind = match &call.op {
            Op::Sync { .. } => history.promise.level == Level::Synced,
            Op::Close { by, .. } => is_writer(*by),
            _ => false,
        };
        is_kind
            && call.is_good()
            && call.node == write.node
            && call.file() == write.file()
            && call.begun >= write.end()
    });
    publishes.map(|call| call.end()).min().unwrap_or(u64::MAX)
}
