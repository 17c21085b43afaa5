//! The same files opened by every rank: one could open them and hand on what is in them.

use super::{CALLS_MIN, Case, metadata};
use crate::facts::{Facts, FileFacts, Share};
use crate::finding::{Finding, WasteKind};
use crate::latency::Latency;
use crate::mix::MixMap;
use crate::profile::{Cause, SYSTEMS_MAX, op_sort};
use crate::words::{bytes, count, nanos};
use hearth_trace::Op;

const OPENERS_MIN: u32 = 3;
/// Lanes of a job of which these many open the file.
const OPENERS_SHARE: f64 = 0.75;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let shared = || facts.files.values().filter(|about| is_shared(facts, about));
    let openers = shared().map(|about| about.openers).max()?;
    let files = shared().count();
    let costs = costs(facts);
    // The one that has it easiest stays; it is alone then.
    let reader = costs
        .iter()
        .min_by_key(|(stream, took)| (**took, **stream))?;
    let alone: Vec<f64> = (0..SYSTEMS_MAX as u8)
        .map(|system| alone(facts, system))
        .collect();
    let mut case = Case::new(facts);
    for (access, file, about) in facts.accesses() {
        if !is_shared(facts, about) {
            continue;
        }
        let (took, calls) = metadata::cost(access);
        let share = if access.stream == *reader.0 as u32 {
            let share = 1.0 - alone[usize::from(access.system)];
            Share {
                low: 0.0,
                mid: share,
                high: share,
            }
        } else {
            Share {
                low: 0.9,
                mid: 1.0,
                high: 1.0,
            }
        };
        case.add_cost(access, file, took, calls, share);
        if about.is_read_by_all() {
            let share = if access.stream == *reader.0 as u32 {
                Share::default()
            } else {
                share
            };
            case.add_cost(access, file, access.reads.took, access.reads.calls, share);
        }
    }
    let mut finding = facts.finding(WasteKind::SerialOpen, &case.savings)?;
    if case.calls < CALLS_MIN {
        return None;
    }
    finding.title = format!("Every rank opens {}", case.files());
    finding.evidence = vec![format!(
        "{} of them, opened and only read by {} threads each: {} calls in {}",
        count(files as u64),
        openers,
        count(case.calls),
        nanos(case.took as f64)
    )];
    finding.evidence.push(more_evidence(facts));
    finding.change = "Let one rank open and read each file and hand the bytes on (`MPI_Bcast`), or \
                      open it collectively (`MPI_File_open`); share the files among the ranks where \
                      there are many."
        .to_owned();
    finding.basis = "what every rank spends, less what the quickest of them spends".to_owned();
    Some(finding)
}

fn more_evidence(facts: &Facts<'_>) -> String {
    let shared = facts.files.values().filter(|about| is_shared(facts, about));
    let read: Vec<&FileFacts> = shared.filter(|about| about.is_read_by_all()).collect();
    if !read.is_empty() {
        let span: u64 = read.iter().map(|about| about.span_bytes()).sum();
        let moved: u64 = read.iter().map(|about| about.bytes_read).sum();
        return format!(
            "each of them reads nearly all: {} in all, for {} of content",
            bytes(moved as f64),
            bytes(span as f64)
        );
    }
    let calls = facts.latency(Cause::Metadata);
    format!(
        "a metadata call takes {} (median), the fastest tenth at most {}",
        nanos(calls.median()),
        nanos(calls.quantile(0.1))
    )
}

/// Opened by nearly every rank, written by none.
pub(super) fn is_shared(facts: &Facts<'_>, about: &FileFacts) -> bool {
    let wanted = (facts.critical.lanes as f64 * OPENERS_SHARE).max(f64::from(OPENERS_MIN));
    about.writers == 0 && f64::from(about.openers) >= wanted
}

/// By thread, the nanoseconds that it spends on such files.
fn costs(facts: &Facts<'_>) -> MixMap<u64, u64> {
    let mut costs: MixMap<u64, u64> = MixMap::default();
    let shared = facts
        .accesses()
        .filter(|(_, _, about)| is_shared(facts, about));
    for (access, _, about) in shared {
        let reads = if about.is_read_by_all() {
            access.reads.took
        } else {
            0
        };
        *costs.entry(access.stream.into()).or_default() += metadata::cost(access).0 + reads;
    }
    costs
}

/// The share of its time that opening takes for one rank alone.
fn alone(facts: &Facts<'_>, system: u8) -> f64 {
    let mut opens = Latency::default();
    for cause in [Cause::Metadata, Cause::MetadataAgain] {
        let cell = facts
            .analysis
            .accesses
            .causes
            .get(cause as usize, system, op_sort(Op::Open));
        cell.into_iter().for_each(|cell| opens.merge(cell));
    }
    (opens.quantile(0.1) / opens.mean().max(1.0)).min(1.0)
}
