//! KEPT-1 (S35): acknowledged bytes are in the store at the end though an agent died. They always are if other
//! nodes had them before; else as long as nobody was told of a loss. If nodes have shards, this holds for
//! bytes written before a close that sealed them.

use super::Violation;
use crate::model::{Change, ChangeKind, History};
use hearth_proto::Replicas;

/// Judges what a last reader saw in the store.
pub fn check(history: &History, replicas: Replicas) -> Option<Violation> {
    if history.told {
        return None;
    }
    let mut reads = history.reads.iter().rev();
    let last = reads.find(|read| read.node == u32::MAX)?;
    let promised = |change: &&Change| {
        let before = change.kind == ChangeKind::Write && change.span.before(&last.span);
        before && (replicas.shards().is_none() || history.is_sealed(change, &last.span))
    };
    for change in history.changes.iter().filter(promised) {
        for at in change.place.clone() {
            // A byte beyond the end is a zero that a truncation made.
            let value = last.bytes.get(at as usize).copied().unwrap_or(0);
            let newer = |writer: &Change| !writer.span.before(&change.span);
            if !history.writers(at, value).any(newer) {
                let what = format!("byte {at} is {value} at the end, after {change:?}");
                return Some(Violation::new("kept", what));
            }
        }
    }
    None
}
