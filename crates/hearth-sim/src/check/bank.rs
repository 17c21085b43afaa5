//! I12: a daemon never gives a reader bytes that were overwritten before it was asked for them.
//!
//! The reader may still be told them, for its read began before that; but nobody who asks later.

use super::Violation;
use crate::model::{History, Interval};

/// Judges an entry that a reader was given: `bytes` from `offset` on, asked for when `span` began.
pub fn check(history: &History, offset: u64, bytes: &[u8], span: Interval) -> Option<Violation> {
    if history.lossy {
        return None;
    }
    for (at, &value) in (offset..).zip(bytes) {
        let mut writers = history.writers(at, value);
        if !writers.any(|writer| !history.overwritten(writer, at, &span)) {
            let what = format!("a daemon gives byte {at} the value {value}, asked within {span:?}");
            let touching = history.changes.iter().filter(|change| change.may_cover(at));
            let touching: Vec<String> = touching.map(|change| format!("{change:?}")).collect();
            return Some(Violation::new("bank", what).with(&touching));
        }
    }
    None
}
