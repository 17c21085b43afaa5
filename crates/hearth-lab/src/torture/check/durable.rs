//! All that was confirmed is in the store (S4, S5, S16, S18, S21).

use std::collections::BTreeMap;
use std::ops::Range;

use super::super::history::{Call, Op, Out, RECORD_BYTES};
use super::super::worker;
use super::cells::touches;
use super::{Checked, History, Level, Snapshot, is_writer, store_says};

/// Writes of each slot that were confirmed, and from when on.
pub(super) struct Confirmed<'a> {
    slots: BTreeMap<(&'a str, u64), Vec<(u64, &'a Call)>>,
    /// When the write of each value of a slot had ended.
    ends: BTreeMap<u64, u64>,
}

impl<'a> Confirmed<'a> {
    /// Looks through a history; `outlives`: a write counts once it has returned.
    pub(super) fn of(history: &'a History, outlives: bool) -> Confirmed<'a> {
        let mut confirmed = Confirmed {
            slots: BTreeMap::new(),
            ends: BTreeMap::new(),
        };
        let bringers = Bringers::of(history);
        for call in &history.calls {
            let Op::Write {
                file,
                slot,
                count,
                value,
                ..
            } = &call.op
            else {
                continue;
            };
            // A write that failed may take effect at any time.
            let ended = call.ended.filter(|_| call.is_good());
            // If several nodes write at once and need not see it, a write has no place in the order before its node has
            // synced or closed (S30).
            let ended = match history.promise.level {
                Level::Strict => ended,
                _ => ended.and_then(|_| bringers.published_at(call)),
            };
            let ended = ended.unwrap_or(u64::MAX);
            confirmed.ends.insert(*value, ended);
            if !file.starts_with("register") || !call.is_good() {
                continue;
            }
            let at = match history.promise.write_brings || outlives {
                true => call.ended,
                false => bringers.confirmed_at(history, call),
            };
            let Some(at) = at else {
                continue;
            };
            for slot in *slot..slot + count {
                confirmed
                    .slots
                    .entry((file, slot))
                    .or_default()
                    .push((at, call));
            }
        }
        confirmed
    }

    /// A confirmed write that a reader of `value` at `time` or later must have missed.
    pub(super) fn missed(&self, file: &str, slot: u64, value: u64, time: u64) -> Option<&'a Call> {
        let ended = match value {
            0 => 0,
            value => self.ends.get(&value).copied().unwrap_or(0),
        };
        let writes = self.slots.get(&(file, slot))?;
        let newer = writes
            .iter()
            .filter(|(at, call)| *at <= time && call.begun > ended);
        newer.map(|(_, call)| *call).max_by_key(|call| call.begun)
    }
}

/// Facts that calls tell of bytes on their way to the store.
struct Bringers<'a> {
    /// Calls that bring bytes of each file there.
    of: BTreeMap<&'a str, Vec<&'a Call>>,
    /// When each node began calls that told it of an end of an agent.
    told: BTreeMap<(&'a str, usize), Vec<u64>>,
    /// When each program opened a file to write it.
    opened: BTreeMap<(&'a str, usize), Vec<u64>>,
    /// When the break began.
    broken: u64,
}

impl<'a> Bringers<'a> {
    fn of(history: &'a History) -> Bringers<'a> {
        let mut bringers = Bringers {
            of: BTreeMap::new(),
            told: BTreeMap::new(),
            opened: BTreeMap::new(),
            broken: history.breaks.as_ref().map_or(u64::MAX, |gap| gap.begun),
        };
        for call in &history.calls {
            let file = call.file();
            match &call.op {
                Op::Sync { .. } | Op::Close { .. }
                    if matches!(call.out, Out::Failed(_)) && call.end() >= bringers.broken =>
                {
                    let told = bringers.told.entry((file, call.node));
                    told.or_default().push(call.begun);
                }
                Op::Sync { .. } if call.is_good() => {
                    bringers.of.entry(file).or_default().push(call);
                }
                Op::Close { by, .. }
                    if call.is_good() && is_writer(*by) && history.promise.close_brings =>
                {
                    bringers.of.entry(file).or_default().push(call);
                }
                Op::Open { by, .. } if is_writer(*by) => {
                    let opened = bringers.opened.entry((file, call.worker));
                    opened.or_default().push(call.begun);
                }
                _ => {}
            }
        }
        let all = bringers
            .told
            .values_mut()
            .chain(bringers.opened.values_mut());
        all.for_each(|times| times.sort_unstable());
        bringers
    }

    /// From when on a write is in the store: the first sync of anybody, or close of its node, that began after it.
    fn confirmed_at(&self, history: &History, write: &Call) -> Option<u64> {
        let ended = write.ended?;
        let of_file = self.of.get(write.file())?;
        let published = self.published_at(write).unwrap_or(u64::MAX);
        let brought = of_file.iter().filter(|call| {
            let of_all = matches!(call.op, Op::Sync { .. }) || call.node == write.node;
            // Beside an agent that is gone a program may open the store itself, and sync that. Only the descriptor that
            // it wrote through can say what became of the bytes.
            let can_tell = !history.is_cut_off(call)
                || (call.worker == write.worker && !self.reopened(write, call));
            call.begun >= ended && of_all && can_tell && !self.told(write, published, call)
        });
        brought.filter_map(|call| call.ended).min()
    }

    /// When the node of a write had synced or closed the file after it.
    fn published_at(&self, write: &Call) -> Option<u64> {
        let of_file = self.of.get(write.file())?;
        let of_node = |call: &&&Call| call.node == write.node && call.begun >= write.end();
        of_file
            .iter()
            .filter(of_node)
            .filter_map(|call| call.ended)
            .min()
    }

    /// Whether the end of an agent was told to the writer's node by an error before a later call: once is enough (S13).
    /// A sync of another node after a break cannot vouch for what was lost in it: the writer's node is told, whenever it
    /// next asks. Nor can one through a descriptor that was opened after the break: the writer is told through its own.
    fn told(&self, write: &Call, published: u64, call: &Call) -> bool {
        let Some(told) = self.told.get(&(write.file(), write.node)) else {
            return false;
        };
        let is_another = call.node != write.node && call.end() >= self.broken;
        let is_later = call.worker != write.worker && self.is_of_later_open(call);
        let until = match is_later {
            true => self.asked_at(write),
            false => published,
        };
        is_any_within(told, write.end()..call.begun)
            || ((is_another || is_later) && is_any_within(told, call.begun..until))
    }

    /// Whether a call goes through a descriptor that was opened after the break, and after nothing else.
    fn is_of_later_open(&self, call: &Call) -> bool {
        let opened = self.opened.get(&(call.file(), call.worker));
        opened.is_some_and(|opened| is_any_within(opened, self.broken..call.begun))
    }

    /// When the program of a write had itself synced or closed the file after it.
    fn asked_at(&self, write: &Call) -> u64 {
        let of_file = self.of.get(write.file()).into_iter().flatten();
        let own = |call: &&&Call| call.worker == write.worker && call.begun >= write.end();
        let ends = of_file.filter(own).filter_map(|call| call.ended);
        ends.min().unwrap_or(u64::MAX)
    }

    /// Whether a program opened a file anew between its write and a later call.
    fn reopened(&self, write: &Call, call: &Call) -> bool {
        let opened = self.opened.get(&(write.file(), write.worker));
        opened.is_some_and(|opened| is_any_within(opened, write.end()..call.begun))
    }
}

/// Whether any of some times, in their order, is within others.
fn is_any_within(times: &[u64], within: Range<u64>) -> bool {
    let next = times.partition_point(|time| *time < within.start);
    times.get(next).is_some_and(|time| within.contains(time))
}

/// Compares each snapshot of the store with what was confirmed before it.
pub(super) fn check(history: &History, checked: &mut Checked) {
    let confirmed = Confirmed::of(history, false);
    for snapshot in &history.snapshots {
        checked.histories += 1;
        registers(history, snapshot, &confirmed, checked);
        logs(history, snapshot, checked);
        versions(history, snapshot, checked);
    }
}

fn registers(
    history: &History,
    snapshot: &Snapshot,
    confirmed: &Confirmed<'_>,
    checked: &mut Checked,
) {
    for (file, bytes) in snapshot
        .files
        .iter()
        .filter(|(file, _)| file.starts_with("register"))
    {
        for slot in 0..worker::PAGES * super::super::history::SLOTS {
            let at = worker::offset_of(slot, history.page) as usize;
            let word = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>());
            let value = word.map_or(0, |word| u64::from_le_bytes(*word));
            let Some(missed) = confirmed.missed(file, slot, value, snapshot.begun) else {
                continue;
            };
            let own = |call: &Call| call.file() == file && touches(call, slot);
            let key = format!("{file} slot {slot}");
            let what = store_says(value, missed);
            checked
                .findings
                .push(history.finding(what, &key, snapshot.ended, &own));
            return;
        }
    }
}

fn logs(history: &History, snapshot: &Snapshot, checked: &mut Checked) {
    let bringers = Bringers::of(history);
    let mut counts: BTreeMap<(&str, u64), usize> = BTreeMap::new();
    for (file, bytes) in snapshot
        .files
        .iter()
        .filter(|(file, _)| file.starts_with("log"))
    {
        for record in bytes.chunks(RECORD_BYTES as usize) {
            let word = record
                .first_chunk::<8>()
                .map_or(0, |word| u64::from_le_bytes(*word));
            *counts.entry((file, word)).or_default() += 1;
        }
    }
    for call in history.calls.iter().filter(|call| call.is_good()) {
        let Op::Append { file, value } = &call.op else {
            continue;
        };
        let at =
            match history.promise.write_brings || (snapshot.is_final && history.breaks.is_none()) {
                true => call.ended,
                false => bringers.confirmed_at(history, call),
            };
        if at.is_none_or(|at| at > snapshot.begun) {
            continue;
        }
        let count = counts.get(&(file.as_str(), *value)).copied().unwrap_or(0);
        if count != 1 {
            let what = format!(
                "the store has a confirmed record {count} times: {}",
                call.op
            );
            let own = |other: &Call| match &other.op {
                Op::Append { value: of, .. } => of == value,
                Op::Sync { .. } | Op::Close { .. } => {
                    other.file() == file && other.begun >= call.end()
                }
                _ => false,
            };
            checked
                .findings
                .push(history.finding(what, file, at.unwrap_or(0), &own));
            return;
        }
    }
}

/// A version that was synced, or closed where close brings it, is whole under its name or was renamed over.
fn versions(history: &History, snapshot: &Snapshot, checked: &mut Checked) {
    for (file, bytes) in snapshot
        .files
        .iter()
        .filter(|(file, _)| file.starts_with("version"))
    {
        let published =
            |call: &&Call| matches!(&call.op, Op::Publish { file: of, .. } if of == file);
        let calls: Vec<&Call> = history.calls.iter().filter(published).collect();
        let brings = |call: &Call| match &call.op {
            Op::Publish { synced, .. } => {
                *synced
                    || history.promise.close_brings
                    || (snapshot.is_final && history.breaks.is_none())
            }
            _ => false,
        };
        let all_brought = calls.iter().all(|call| brings(call));
        let found = match worker::version_of(bytes) {
            Out::Version { value, words } => calls.iter().find(|call| {
                matches!(&call.op, Op::Publish { value: of, words: count, .. } if *of == value && *count == words)
            }),
            _ => None,
        };
        let own = |other: &Call| other.file() == file;
        match found {
            None if all_brought && !calls.is_empty() => {
                let what = format!("the store has {} bytes that are no version", bytes.len());
                checked
                    .findings
                    .push(history.finding(what, file, snapshot.ended, &own));
            }
            Some(found) => {
                let newer = calls.iter().find(|call| {
                    call.is_good() && call.end() < snapshot.begun && call.begun > found.end()
                });
                if let Some(newer) = newer.filter(|_| found.is_good()) {
                    let what = format!("the store has an older version than that of {}", newer.op);
                    checked
                        .findings
                        .push(history.finding(what, file, snapshot.ended, &own));
                }
            }
            None => {}
        }
    }
}
