//! I10 (S1): over all pages that it touches, a write takes effect at one instant, and a read sees one.
//!
//! - A read that shows a write in one place does not show in another place of that write what it
//!   overwrote: bytes of a write that was over before it began, or of one that covers both places.
//! - Once a read has shown any of a write, no later read shows bytes that were over before it began.
//!
//! Reads that a front end serves page by page, out of what it keeps, are judged by the second rule alone.

use super::Violation;
use crate::model::{Change, ChangeKind, History, OPEN, Read, Tick};

/// Judges all reads of a file, at the end: a write that has not ended has failed, and some of it may show.
pub fn check(history: &History) -> Option<Violation> {
    if history.lossy {
        return None;
    }
    let whole = |change: &&Change| {
        let failed = change.span.ended == OPEN;
        let sure = !change.redone && !change.doubtful && !change.torn && !failed;
        change.kind == ChangeKind::Write && change.node != u32::MAX && sure
    };
    let mut writes = history.changes.iter().filter(whole);
    writes.find_map(|write| mixed(history, write).or_else(|| taken_back(history, write)))
}

/// The bytes of a read within a write's place.
fn bytes_of<'a>(read: &'a Read, write: &'a Change) -> impl Iterator<Item = (u64, u8)> + 'a {
    let bytes = (read.offset..).zip(read.bytes.iter().copied());
    bytes.filter(|&(at, _)| write.covers(at))
}

fn shows(read: &Read, write: &Change) -> Option<u64> {
    let mut own = bytes_of(read, write).filter(|&(_, value)| value == write.value);
    own.next().map(|(at, _)| at)
}

/// The one change that gave a byte its value.
fn writer(history: &History, at: u64, value: u8) -> Option<&Change> {
    let mut writers = history.writers(at, value);
    let first = writers.next()?;
    let known = matches!(first.kind, ChangeKind::Write | ChangeKind::Birth);
    (known && writers.next().is_none()).then_some(first)
}

fn mixed(history: &History, write: &Change) -> Option<Violation> {
    history
        .reads
        .iter()
        .filter(|read| read.whole)
        .find_map(|read| {
            let shown = shows(read, write)?;
            let old = |&(at, value): &(u64, u8)| {
                let other = writer(history, at, value).filter(|_| value != write.value);
                other.is_some_and(|other| other.covers(shown) || other.span.before(&write.span))
            };
            let (at, value) = bytes_of(read, write).find(old)?;
            let what =
                format!("byte {shown} shows a write and byte {at} what it overwrote: {read:?}");
            let other = format!("{:?}", writer(history, at, value));
            Some(Violation::new("range", what).with(&[format!("{write:?}"), other]))
        })
}

fn taken_back(history: &History, write: &Change) -> Option<Violation> {
    let showing = history
        .reads
        .iter()
        .filter(|read| shows(read, write).is_some());
    let seen: Tick = showing.map(|read| read.span.ended).min()?;
    let later = history.reads.iter().filter(|read| read.span.began > seen);
    later.into_iter().find_map(|read| {
        let old = |&(at, value): &(u64, u8)| {
            let other = writer(history, at, value).filter(|_| value != write.value);
            other.is_some_and(|other| other.span.before(&write.span))
        };
        let (at, _) = bytes_of(read, write).find(old)?;
        let what = format!("byte {at} shows what a write overwrote that was seen before: {read:?}");
        Some(Violation::new("range", what).with(&[format!("{write:?}")]))
    })
}
