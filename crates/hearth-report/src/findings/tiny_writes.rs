//! Small writes, one after another: each pays for a call, and one call could carry them all.

use super::{CALLS_MIN, Case};
use crate::facts::Facts;
use crate::finding::{Finding, WasteKind};
use crate::profile::Cause;
use crate::words::{bytes, count, nanos};

/// The size in bytes to which they are gathered.
const GATHERED: f64 = (1 << 20) as f64;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let shares = facts.shares(Cause::TinyWrite, |system, _, latency| {
        let size = latency.size();
        let byte = facts.byte_cost(true, system).0;
        let fewer = 1.0 - size / GATHERED;
        // Between median and mean: of the stalls that some calls meet, some go with the calls.
        [
            fewer * (latency.quantile(0.25) - 2.0 * size * byte),
            fewer * ((latency.median() + latency.mean()) / 2.0 - size * byte),
            fewer * (latency.mean() - size * byte / 2.0),
        ]
    });
    let mut case = Case::new(facts);
    let mut written = 0;
    for (access, file, about) in facts.accesses() {
        // Writers that share pages need more than a buffer; see the lock storm.
        if about.contested * 10 < about.writes {
            case.add(
                access,
                file,
                Cause::TinyWrite,
                shares[usize::from(access.system)],
            );
            written += if access.count(Cause::TinyWrite) > 0 {
                access.writes.bytes
            } else {
                0
            };
        }
    }
    let mut finding = facts.finding(WasteKind::TinyWrites, &case.savings)?;
    if case.calls < CALLS_MIN {
        return None;
    }
    let latency = facts.latency(Cause::TinyWrite);
    finding.title = format!("Small writes, one after another, to {}", case.files());
    finding.evidence = vec![
        format!(
            "{} writes of less than 16 KiB that continue the one before; {} were written in all",
            count(case.calls),
            bytes(written as f64)
        ),
        format!(
            "a write takes {} (median; 99 of 100 at most {})",
            nanos(latency.median()),
            nanos(latency.quantile(0.99))
        ),
    ];
    finding.change = "Gather them in the program before they are written: `setvbuf(file, NULL, \
                      _IOFBF, 1 << 20)` with stdio, or a buffer of 1 MiB of its own."
        .to_owned();
    finding.basis =
        "calls x (middle of median and mean - cost of their bytes), one call for each 1 MiB \
                     left"
            .to_owned();
    Some(finding)
}
