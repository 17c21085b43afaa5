//! I12: a daemon never gives a reader bytes that were overwritten before it was asked for them.
//!
//! The reader may still be told them, for its read began before that; but nobody who asks later.

use super::Violation;
use crate::model::{Change, ChangeKind, History, Interval};

/// Judges an entry that a reader was given: `bytes` from `offset` on, asked for when `span` began.
///
/// If agents lost sight of each other, a truncation or removal may have gone ahead without a gateway that
/// could not be asked (S13). Writes never do, but those after a removal ask no gateway.
pub fn check(history: &History, offset: u64, bytes: &[u8], span: Interval) -> Option<Violation> {
    let counts =
        |change: &&Change| !history.lossy || (change.kind == ChangeKind::Write && !change.redone);
    for (at, &value) in (offset..).zip(bytes) {
        let gone = |writer: &Change| {
            let mut later = history.changes.iter().filter(counts);
            later.any(|later| {
                later.covers(at) && writer.span.before(&later.span) && later.span.before(&span)
            })
        };
        let mut writers = history.writers(at, value);
        if !writers.any(|writer| !gone(writer)) {
            let what = format!("a daemon gives byte {at} the value {value}, asked within {span:?}");
            let touching = history.changes.iter().filter(|change| change.may_cover(at));
            let touching: Vec<String> = touching.map(|change| format!("{change:?}")).collect();
            return Some(Violation::new("bank", what).with(&touching));
        }
    }
    None
}
