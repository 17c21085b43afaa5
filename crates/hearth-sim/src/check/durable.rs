//! Promises of flush, sync and settle (S4, S5): bytes written before are in the store, or newer ones are.

use super::Violation;
use crate::model::{Change, ChangeKind, History, Interval, comes_before};

/// The bytes that were promised, by their writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Those that this node wrote.
    Node(u32),
    /// Those of all nodes.
    Everybody,
}

/// Judges the store's bytes at the end of a promise that was asked for within `span`.
pub fn check(history: &History, store: &[u8], whose: Whose, span: Interval) -> Option<Violation> {
    if history.lossy {
        return None;
    }
    let promised = |change: &&Change| {
        let mine = match whose {
            Whose::Node(node) => change.node == node,
            Whose::Everybody => true,
        };
        let sure = change.kind == ChangeKind::Write && !change.doubtful;
        mine && sure && change.span.before(&span)
    };
    for change in history.changes.iter().filter(promised) {
        for at in change.place.clone() {
            // A byte beyond the end is a zero that a truncation made.
            let value = store.get(at as usize).copied().unwrap_or(0);
            let newer = |writer: &Change| !comes_before(writer, change);
            if !history.writers(at, value).any(newer) {
                let what = format!("byte {at} is {value} in the store after {whose:?}: {change:?}");
                let at = format!("promised within {span:?}");
                return Some(Violation::new("durable", what).with(&[at]));
            }
        }
    }
    None
}
