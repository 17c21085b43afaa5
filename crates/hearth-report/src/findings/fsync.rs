//! A sync after each record: every one waits for the store.

use super::{CALLS_MIN, Case};
use crate::facts::{Facts, Share};
use crate::finding::{Finding, WasteKind};
use crate::profile::Cause;
use crate::words::{count, nanos};

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let shares = facts.shares(Cause::Sync, |system, _, latency| {
        let bytes = latency.size() * facts.byte_cost(true, system).0;
        [
            latency.median() - 4.0 * bytes,
            latency.mean() - bytes,
            latency.mean(),
        ]
    });
    let mut case = Case::new(facts);
    for (access, file, _) in facts.accesses() {
        let calls = f64::from(access.count(Cause::Sync).max(1));
        let share = shares[usize::from(access.system)];
        let fewer = |share: f64, left: f64| share * (1.0 - (left / calls).min(1.0));
        let share = Share {
            low: fewer(share.low, (calls / 16.0).max(1.0)),
            mid: fewer(share.mid, 1.0),
            high: fewer(share.high, 1.0),
        };
        case.add(access, file, Cause::Sync, share);
    }
    let mut finding = facts.finding(WasteKind::SyncPerRecord, &case.savings)?;
    if case.calls < CALLS_MIN {
        return None;
    }
    let latency = facts.latency(Cause::Sync);
    finding.title = format!("A sync after each record of {}", case.files());
    finding.evidence = vec![format!(
        "{} syncs after at most 4 writes and 1 MiB each; one takes {} (median; 99 of 100 at most {})",
        count(case.calls),
        nanos(latency.median()),
        nanos(latency.quantile(0.99))
    )];
    finding.change = "Sync once, at the end or at a checkpoint: one `fsync` covers all records before \
                      it. Take `O_SYNC` and `O_DSYNC` away. If each record must survive a crash, let \
                      16 or more share a sync."
        .to_owned();
    finding.basis = "syncs x (mean - cost of their bytes), one left for each thread and file; at \
                     least with one sync for 16 records"
        .to_owned();
    Some(finding)
}
