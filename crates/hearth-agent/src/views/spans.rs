//! The spans that follow from the lease of a set.

use hearth_views::lease::{DriftPpm, LeaseTerms, LocalSpan};
use std::time::Duration;

/// A coordinator is heard of so often, or more often where leases are short.
const HEARTBEAT_MAX: Duration = Duration::from_millis(250);

/// Heartbeats within a lease: the first voter asks for votes in less than a third of it after a connection broke.
const HEARTBEATS: u32 = 16;

/// Clocks may drift apart by a tenth of a percent.
const DRIFT: DriftPpm = DriftPpm(1000);

/// The spans of one set, the same at all of its agents.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spans {
    /// The granter's term of a lease, and so the least time that a death stops writes for.
    pub(super) lease: Duration,
}

impl Spans {
    pub(super) fn terms(self) -> LeaseTerms {
        let nanos = u64::try_from(self.lease.as_nanos()).unwrap_or(u64::MAX);
        LeaseTerms {
            granted: LocalSpan(nanos),
            drift: DRIFT,
        }
    }

    pub(super) fn heartbeat(self) -> Duration {
        (self.lease / HEARTBEATS).min(HEARTBEAT_MAX)
    }
}
