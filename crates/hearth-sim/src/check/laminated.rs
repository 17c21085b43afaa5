//! S32: a file that has been laminated changes no more.

use super::Violation;
use crate::model::{Change, ChangeKind, History, OPEN};

/// Judges the changes after a lamination.
pub fn check(history: &History) -> Option<Violation> {
    let span = history.laminated.filter(|_| !history.lossy)?;
    let late = |change: &&Change| {
        let mine =
            matches!(change.kind, ChangeKind::Write | ChangeKind::Cut) && change.node != u32::MAX;
        mine && span.before(&change.span) && change.span.ended != OPEN
    };
    let change = history.changes.iter().find(late)?;
    let what = format!("changed after it was laminated within {span:?}: {change:?}");
    Some(Violation::new("laminated", what))
}
