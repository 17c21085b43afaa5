//! Names and attributes asked for again and again, or for files too small to be worth it.

use super::Case;
use crate::access::Access;
use crate::facts::{Facts, FileFacts, Share};
use crate::finding::{Finding, WasteKind};
use crate::profile::{Cause, SYSTEMS_MAX};
use crate::words::{count, nanos, percent};
use hearth_trace::Op;

const CALLS_MIN: u64 = 300;
/// A file with less than this read and written is small.
const SMALL: u64 = 64 << 10;
/// So many small files are worth packing into one.
const SMALL_FILES_MIN: usize = 100;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let small = facts.files.values().filter(|about| is_small(about)).count();
    let first = if small >= SMALL_FILES_MIN {
        Share {
            low: 0.5,
            mid: 0.95,
            high: 1.0,
        }
    } else {
        Share {
            low: 0.0,
            mid: 0.0,
            high: 0.5,
        }
    };
    let again = Share {
        low: 0.8,
        mid: 0.98,
        high: 1.0,
    };
    let mut case = Case::new(facts);
    let (mut repeated, mut few) = (0, 0);
    for (access, file, about) in facts.accesses() {
        if super::serial_open::is_shared(facts, about) {
            continue;
        }
        case.add(access, file, Cause::MetadataAgain, again);
        repeated += u64::from(access.count(Cause::MetadataAgain));
        if is_small(about) {
            case.add(access, file, Cause::Metadata, first);
            few += u64::from(access.count(Cause::Metadata));
        }
    }
    let mut finding = facts.finding(WasteKind::MetadataStorm, &case.savings)?;
    if case.calls < CALLS_MIN {
        return None;
    }
    finding.title = format!("Names and attributes of {}", case.files());
    finding.evidence = vec![format!(
        "{} metadata calls take {} on average; {} of them repeat a call of the same thread on the \
         same file",
        count(case.calls),
        nanos(case.mean()),
        percent(repeated as f64 / case.calls as f64)
    )];
    finding.evidence.extend(top_ops(facts));
    finding.change = change(repeated, few, small);
    finding.basis = "repeated calls, and those on small files, x their mean".to_owned();
    Some(finding)
}

fn is_small(about: &FileFacts) -> bool {
    about.bytes_read + about.bytes_written < SMALL
}

fn change(repeated: u64, few: u64, small: usize) -> String {
    let keep = "Open each file once and keep the descriptor; keep what `stat` answered. Where the \
                program cannot be changed, let attributes stand for longer: `hearth run --attr-ttl \
                60s`.";
    let pack = format!(
        "Pack the {} small files into one (HDF5, SQLite, tar, squashfs) and read that.",
        count(small as u64)
    );
    match (
        repeated >= few / 4,
        small >= SMALL_FILES_MIN && few * 4 >= repeated,
    ) {
        (true, true) => format!("{keep} {pack}"),
        (false, true) => pack,
        (_, false) => keep.to_owned(),
    }
}

/// The operations that take most of the time.
fn top_ops(facts: &Facts<'_>) -> Option<String> {
    let mut ops: Vec<(Op, u64, u64)> = Vec::new();
    for &op in Op::ALL.iter().filter(|op| op.is_metadata()) {
        let cells = [Cause::Metadata, Cause::MetadataAgain]
            .into_iter()
            .flat_map(|cause| {
                let systems = 0..SYSTEMS_MAX as u8;
                systems.filter_map(move |system| {
                    facts
                        .analysis
                        .accesses
                        .causes
                        .get(cause as usize, system, op as usize)
                })
            });
        let (calls, took) =
            cells.fold((0, 0), |sum, cell| (sum.0 + cell.count, sum.1 + cell.total));
        ops.push((op, calls, took));
    }
    ops.retain(|(_, calls, _)| *calls > 0);
    ops.sort_by_key(|(_, _, took)| std::cmp::Reverse(*took));
    let words: Vec<String> = ops
        .iter()
        .take(3)
        .map(|(op, calls, took)| {
            format!("{} {} in {}", count(*calls), op.name(), nanos(*took as f64))
        })
        .collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// Nothing else of an access is metadata.
pub(super) fn cost(access: &Access) -> (u64, u64) {
    let causes = [Cause::Metadata, Cause::MetadataAgain];
    let took = causes.iter().map(|&cause| access.cost(cause)).sum();
    let calls = causes
        .iter()
        .map(|&cause| u64::from(access.count(cause)))
        .sum();
    (took, calls)
}
