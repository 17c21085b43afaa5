//! The same files opened by every rank: one could open them and hand on what is in them.

use super::{CALLS_MIN, Case, metadata};
use crate::facts::{Facts, FileFacts, Share};
use crate::finding::{Finding, Kind};
use crate::profile::{Cause, SYSTEMS_MAX, op_sort};
use crate::words::{count, nanos};
use hearth_trace::Op;

const OPENERS_MIN: u32 = 3;
/// Lanes of a job of which these many open the file.
const OPENERS_SHARE: f64 = 0.75;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let shared: Vec<&FileFacts> = facts
        .files
        .values()
        .filter(|about| is_shared(facts, about))
        .collect();
    let openers = shared.iter().map(|about| about.openers).max()?;
    let shares: Vec<Share> = (0..SYSTEMS_MAX as u8)
        .map(|system| share(facts, system, openers, shared.len()))
        .collect();
    let mut case = Case::new(facts);
    for (access, file, about) in facts.accesses() {
        if is_shared(facts, about) {
            let (took, calls) = metadata::cost(access);
            case.add_cost(
                access,
                file,
                took,
                calls,
                shares[usize::from(access.system)],
            );
        }
    }
    let mut finding = facts.finding(Kind::SerialOpen, &case.savings)?;
    if case.calls < CALLS_MIN {
        return None;
    }
    let opens = facts.latency(Cause::Metadata);
    finding.title = format!("Every rank opens {}", case.files());
    finding.evidence = vec![
        format!(
            "{} files are opened and only read by {} threads each: {} metadata calls in {}",
            count(shared.len() as u64),
            openers,
            count(case.calls),
            nanos(case.took as f64)
        ),
        format!(
            "such a call takes {} (median), the fastest tenth at most {}",
            nanos(opens.median()),
            nanos(opens.quantile(0.1))
        ),
    ];
    finding.change = "Let one rank open and read each file and hand the bytes on (`MPI_Bcast`), or \
                      open it collectively (`MPI_File_open`); share the files among the ranks where \
                      there are many."
        .to_owned();
    finding.basis =
        "what every rank spends, less what one spends alone at the pace of the fastest \
                     tenth; at best shared among the ranks"
            .to_owned();
    Some(finding)
}

/// Opened by nearly every rank, written by none.
pub(super) fn is_shared(facts: &Facts<'_>, about: &FileFacts) -> bool {
    let wanted = (facts.critical.lanes as f64 * OPENERS_SHARE).max(f64::from(OPENERS_MIN));
    about.writers == 0 && f64::from(about.openers) >= wanted
}

fn share(facts: &Facts<'_>, system: u8, openers: u32, files: usize) -> Share {
    let mut opens = crate::latency::Latency::default();
    for cause in [Cause::Metadata, Cause::MetadataAgain] {
        let cell = facts
            .analysis
            .accesses
            .causes
            .get(cause as usize, system, op_sort(Op::Open));
        cell.into_iter().for_each(|cell| opens.merge(cell));
    }
    let alone = (opens.quantile(0.1) / opens.mean().max(1.0)).min(1.0);
    let hands = f64::from(openers.min(files as u32).max(1));
    Share {
        low: 1.0 - alone,
        mid: 1.0 - alone / hands.sqrt(),
        high: 1.0 - alone / hands,
    }
}
