//! I2, I3 (S1): a read returns, for every byte, a value that was not overwritten by anything that the
//! read must see; and within one page it never mixes two writes that both cover what it mixes.
//!
//! The promise for the file decides what it must see (S30 to S32). Under `posix` that is all that completed
//! before it began; else its own node's changes, and those that others had published when it looked.

use super::Violation;
use crate::model::{Change, ChangeKind, History, OPEN, Read};

/// Judges all reads of a file.
pub fn check(history: &History, page_bytes: u32) -> Option<Violation> {
    history.reads.iter().find_map(|read| {
        fresh(history, read).or_else(|| untorn(history, read, u64::from(page_bytes)))
    })
}

fn fresh(history: &History, read: &Read) -> Option<Violation> {
    for (at, &value) in (read.offset..).zip(&read.bytes) {
        let mut writers = history
            .writers(at, value)
            .filter(|writer| writer.span.began < read.span.ended)
            .peekable();
        let known = writers.peek().is_some();
        let explained = |writer| match history.lossy {
            true => !history.misses_sealed(writer, at, read),
            false => !history.overwritten(writer, at, read),
        };
        if !writers.any(explained) {
            let fault = if known {
                "was overwritten before"
            } else {
                "nobody wrote"
            };
            let what = format!("byte {at} has value {value}, which {fault}: {read:?}");
            let touching: Vec<String> = history
                .changes
                .iter()
                .filter(|change| change.may_cover(at))
                .map(|change| format!("{change:?}"))
                .collect();
            return Some(Violation::new("value", what).with(&touching));
        }
    }
    None
}

fn untorn(history: &History, read: &Read, page_bytes: u64) -> Option<Violation> {
    if history.lossy {
        return None;
    }
    let writer = |at: u64, value: u8| {
        let mut writers = history.writers(at, value);
        // Of a write that was not acknowledged when its home died the store may have a part.
        let whole = |w: &&Change| {
            let known = !history.parted || w.span.ended != OPEN;
            w.kind == ChangeKind::Write && known && !w.doubtful && !w.torn
        };
        let writer = writers.next().filter(whole)?;
        writers.next().is_none().then_some(writer)
    };
    let bytes: Vec<(u64, u8)> = (read.offset..).zip(read.bytes.iter().copied()).collect();
    for (number, &(a, of_a)) in bytes.iter().enumerate() {
        let Some(first) = writer(a, of_a) else {
            continue;
        };
        for &(b, of_b) in &bytes[number + 1..] {
            if a / page_bytes != b / page_bytes {
                break;
            }
            let Some(second) = writer(b, of_b).filter(|_| of_a != of_b) else {
                continue;
            };
            if first.covers(b) && second.covers(a) {
                let what = format!("bytes {a} and {b} mix two writes: {read:?}");
                let both = [format!("{first:?}"), format!("{second:?}")];
                return Some(Violation::new("value", what).with(&both));
            }
        }
    }
    None
}
