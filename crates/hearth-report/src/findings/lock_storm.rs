//! Writers of one file that keep each other waiting: for locks, or for the same pages.

use super::{CALLS_MIN, Case};
use crate::access::Access;
use crate::facts::{Facts, FileFacts, Share};
use crate::finding::{Finding, WasteKind};
use crate::latency::Latency;
use crate::profile::{Cause, Order, SYSTEMS_MAX};
use crate::words::{count, nanos, percent};

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let writes = facts.shares(Cause::Contested, |system, sort, latency| {
        let alone = alone(facts, system, sort, latency);
        let saved = latency.mean() - alone;
        [saved * 0.6, saved, latency.mean() - alone / 2.0]
    });
    let locks = facts.shares(Cause::Lock, |_, _, latency| {
        let waits = latency.mean() - latency.quantile(0.1);
        [waits, latency.mean(), latency.mean()]
    });
    let mut case = Case::new(facts);
    let (mut contested, mut all, mut lock_calls) = (0, 0, 0);
    for (access, file, about) in facts.accesses() {
        if about.lockers >= 2 {
            case.add(access, file, Cause::Lock, locks[usize::from(access.system)]);
            lock_calls += u64::from(access.count(Cause::Lock));
        }
        if is_contested(about) {
            contested += u64::from(access.count(Cause::Contested));
            all += access.writes.calls;
            let share = writes[usize::from(access.system)];
            add_writes(&mut case, access, file, share);
        }
    }
    let mut finding = facts.finding(WasteKind::LockStorm, &case.savings)?;
    if case.calls < CALLS_MIN {
        return None;
    }
    finding.title = format!("Writers keep each other waiting in {}", case.files());
    if contested > 0 {
        finding.evidence.push(format!(
            "{} of {} writes, {}, go to 64 KiB that another process writes to as well; they take {} \
             on average",
            count(contested),
            count(all),
            percent(contested as f64 / all.max(1) as f64),
            nanos(facts.latency(Cause::Contested).mean())
        ));
    }
    if lock_calls > 0 {
        let latency = facts.latency(Cause::Lock);
        finding.evidence.push(format!(
            "{} lock calls take {} on average, the fastest tenth at most {}",
            count(lock_calls),
            nanos(latency.mean()),
            nanos(latency.quantile(0.1))
        ));
    }
    finding.change =
        "Give each process a region of its own, whole pages of 256 KiB, or a file of its \
                      own; or gather the records of a row of ranks in one of them (collective \
                      MPI-IO: `romio_cb_write=enable`). Then no locks are needed."
            .to_owned();
    finding.basis =
        "time in lock calls, and contested writes x (mean - the same write by one alone)"
            .to_owned();
    Some(finding)
}

fn is_contested(about: &FileFacts) -> bool {
    about.writers >= 2 && about.contested * 10 >= about.writes
}

/// All writes to a contested file share the fate of those that were seen to be contested.
fn add_writes(
    case: &mut Case<'_>,
    access: &Access,
    file: hearth_trace::TracedFileId,
    share: Share,
) {
    case.add_cost(access, file, access.writes.took, access.writes.calls, share);
}

/// Nanoseconds of such a write where nobody else writes: as elsewhere in the trace, or as the
/// fastest tenth.
fn alone(facts: &Facts<'_>, system: u8, sort: usize, contested: &Latency) -> f64 {
    let fastest = contested.quantile(0.1);
    let others = (0..SYSTEMS_MAX as u8)
        .filter(|other| *other == system)
        .map(|system| {
            let mut sum = facts.data(true, Order::Sequential, system, sort);
            sum.merge(&facts.data(true, Order::Strided, system, sort));
            sum
        });
    let quiet = others.filter(|sum| sum.count >= contested.count * 2);
    quiet.map(|sum| sum.quantile(0.25)).fold(fastest, f64::min)
}
