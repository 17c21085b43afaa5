//! The agent that stands still while it has leases.
//!
//! This process has files open in its mount. A child that it starts closes those that it inherits, and so waits
//! for the guest's word: nothing is started while the guest stands still.

use super::GUEST;
use hearth_set::failure::Failure;
use hearth_set::trial::cluster::Cluster;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// It stands still for longer than its leases last, and not for so long that others give it up: then they
/// would refuse what only it knows.
const STILL_MAX: Duration = Duration::from_secs(6);

pub(super) struct Guest<'a> {
    cluster: &'a Cluster,
    stopped: Option<Instant>,
}

impl Guest<'_> {
    pub(super) fn of(cluster: &Cluster) -> Guest<'_> {
        let stopped = None;
        Guest { cluster, stopped }
    }

    pub(super) fn stop(&mut self) -> Result<(), Failure> {
        self.stopped.get_or_insert_with(Instant::now);
        self.cluster.signal(GUEST, Signal::STOP)
    }

    /// It goes on, if it is there.
    pub(super) fn resume(&mut self) -> Result<(), Failure> {
        self.stopped = None;
        self.cluster.signal(GUEST, Signal::CONT)
    }

    /// It goes on when it has stood still for long enough.
    pub(super) fn mind(&mut self) -> Result<(), Failure> {
        match self.stopped {
            Some(since) if since.elapsed() > STILL_MAX => self.resume(),
            _ => Ok(()),
        }
    }
}
