//! Blocks read only to change a part of them and write them back.

use super::{CALLS_MIN, Case};
use crate::facts::{Facts, Share};
use crate::finding::{Finding, WasteKind};
use crate::profile::Cause;
use crate::words::{count, nanos, percent};

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let writes = facts.shares(Cause::ModifyWrite, |system, _, latency| {
        [
            0.0,
            0.0,
            latency.median() - latency.size() * facts.byte_cost(true, system).0,
        ]
    });
    let mut case = Case::new(facts);
    let mut again = 0;
    for (access, file, _) in facts.accesses() {
        let reads = f64::from(access.count(Cause::ModifyRead).max(1));
        let repeated = f64::from(access.count(Cause::ModifyAgain));
        let read = Share {
            low: repeated / reads,
            mid: 1.0,
            high: 1.0,
        };
        case.add(access, file, Cause::ModifyRead, read);
        case.add(
            access,
            file,
            Cause::ModifyAgain,
            Share {
                low: 0.9,
                mid: 1.0,
                high: 1.0,
            },
        );
        case.add(
            access,
            file,
            Cause::ModifyWrite,
            writes[usize::from(access.system)],
        );
        again += u64::from(access.count(Cause::ModifyAgain));
    }
    let mut finding = facts.finding(WasteKind::ReadModifyWrite, &case.savings)?;
    let reads = facts.latency(Cause::ModifyRead);
    if reads.count < CALLS_MIN {
        return None;
    }
    finding.title = format!(
        "Blocks of {} are read to change a part of them",
        case.files()
    );
    finding.evidence = vec![
        format!(
            "{} times a thread reads a range and then writes inside of it; the read takes {} (median)",
            count(reads.count),
            nanos(reads.median())
        ),
        format!(
            "{} of the writes are to the block that the thread wrote the time before",
            percent(again as f64 / reads.count as f64)
        ),
    ];
    finding.change =
        "Write whole blocks without reading them first: keep the block in memory until \
                      all of it is known, and write it once."
            .to_owned();
    finding.basis =
        "all such reads, and writes to the same block as before, are saved; at most the \
                     calls of the other writes too"
            .to_owned();
    Some(finding)
}
