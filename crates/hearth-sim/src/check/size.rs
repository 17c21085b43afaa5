//! The end of the file (S2, S8): what is said of it can be true, and appends get places of their own.

use super::Violation;
use crate::model::{Change, ChangeKind, History, Interval, OPEN, Read};

/// Judges everything that was said of a file's size.
pub fn check(history: &History) -> Option<Violation> {
    if history.lossy || history.parted {
        return None;
    }
    said(history)
        .or_else(|| appended(history))
        .or_else(|| holes(history))
}

/// A reader sees no zero in the place of an append that alone could have brought the end that far.
fn holes(history: &History) -> Option<Violation> {
    if !history.semantics.is_recorded() {
        return None;
    }
    history.reads.iter().find_map(|read| {
        let zeros = (read.offset..)
            .zip(&read.bytes)
            .filter(|(_, value)| **value == 0);
        let (at, _) = zeros
            .into_iter()
            .find(|(at, _)| !may_be_hole(history, read, *at))?;
        let what = format!("byte {at} is zero, and no end of the file lay behind it: {read:?}");
        Some(Violation::new("size", what).with(&growth(history)))
    })
}

/// True if something else than an append to this place may have made the file longer than that, or a truncation at the
/// same time may have emptied the place.
fn may_be_hole(history: &History, read: &Read, at: u64) -> bool {
    let grows = |change: &Change| match change.kind {
        ChangeKind::Placeless => true,
        ChangeKind::Cut => {
            let beside =
                change.span.ended != change.span.began && read.span.began < change.span.ended;
            beside || change.place.start > at
        }
        ChangeKind::Birth => false,
        // Of a write that failed there may be a part.
        ChangeKind::Write if change.append => {
            change.place.start > at || change.span.ended == OPEN || change.doubtful || change.torn
        }
        ChangeKind::Write => change.place.end > at,
    };
    let mut begun = history
        .changes
        .iter()
        .filter(|change| change.span.began < read.span.ended);
    begun.any(grows)
}

fn said(history: &History) -> Option<Violation> {
    history.sizes.iter().find_map(|sized| {
        let (low, high) = history.sizes(sized.node, &sized.span);
        if sized.low <= high && low <= sized.high {
            return None;
        }
        let what = format!("between {low} and {high} is possible: {sized:?}");
        Some(Violation::new("size", what).with(&growth(history)))
    })
}

fn appended(history: &History) -> Option<Violation> {
    let placed = |change: &&crate::model::Change| {
        change.append && change.kind == ChangeKind::Write && !change.doubtful
    };
    let appends = || history.changes.iter().filter(placed);
    for (number, append) in appends().enumerate() {
        let before = Interval {
            began: append.span.began,
            ended: append.span.ended,
        };
        let (low, high) = history.sizes(append.node, &before);
        if append.place.start < low || append.place.start > high {
            let what =
                format!("an append lies where the end cannot be, {low} to {high}: {append:?}");
            return Some(Violation::new("size", what).with(&growth(history)));
        }
        let cut = |other: &crate::model::Change| {
            let between = append.span.began.min(other.span.began);
            let cuts = history.changes.iter().filter(|c| c.kind == ChangeKind::Cut);
            let mut late = cuts.filter(|c| c.span.ended > between && c.span.began.0 > 1);
            late.next().is_some()
        };
        let overlaps = |other: &&crate::model::Change| {
            append.place.start < other.place.end && other.place.start < append.place.end
        };
        if let Some(other) = appends().skip(number + 1).find(overlaps)
            && !cut(other)
        {
            let what = format!("two appends in one place: {append:?} and {other:?}");
            return Some(Violation::new("size", what));
        }
    }
    None
}

fn growth(history: &History) -> Vec<String> {
    let changes = history.changes.iter();
    changes.map(|change| format!("{change:?}")).collect()
}
