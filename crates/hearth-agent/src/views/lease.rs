//! The lease of this agent: while it holds, nobody goes on without it.

use super::Views;
use super::clock::BootClock;
use crate::core::Core;
use hearth_views::lease::{LocalClock, LocalSpan};
use hearth_views::log::{LogError, Patience, ViewLog};
use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Pause after a renewal that was not granted.
const AGAIN_SPAN: Duration = Duration::from_millis(50);

/// Reads that were begun under a lease have been answered so soon after its end. Nobody has written by then: a fence comes
/// before that.
const ALARM_SPAN: Duration = Duration::from_millis(300);

/// When the lease ends, by the clock of [`BootClock`].
#[derive(Default)]
pub(super) struct Lease {
    until: AtomicU64,
    has_ended: AtomicBool,
    /// Held by nobody for long: those that wait for a lease sleep by it.
    turn: Mutex<()>,
    renewed: Condvar,
}

impl Lease {
    pub(super) fn holds(&self) -> bool {
        let until = self.until.load(Ordering::Acquire);
        BootClock.now().0 < until || self.has_ended.load(Ordering::Acquire)
    }

    /// Returns once the lease holds; at once as a rule.
    pub(super) fn await_it(&self) {
        while !self.holds() {
            self.pause(AGAIN_SPAN);
        }
    }

    /// From now on it is missed, if it does not come.
    pub(super) fn begin(&self) {
        self.renew(BootClock.now().0);
    }

    /// True if it ran out so long ago.
    pub(super) fn is_over_for(&self, span: Duration) -> bool {
        let until = self.until.load(Ordering::Acquire);
        BootClock.now().0 > until + span.as_nanos() as u64
    }

    fn renew(&self, until: u64) {
        self.until.fetch_max(until, Ordering::AcqRel);
        self.renewed.notify_all();
    }

    /// Nobody waits any more.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        self.renewed.notify_all();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Waits for so long, or until something changes.
    pub(super) fn pause(&self, span: Duration) {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.renewed.wait_timeout(turn, span));
    }
}

impl Views {
    /// Renews the lease until the agent ends.
    pub(super) fn keep_lease(&self, core: &Core) {
        let terms = self.spans.terms();
        let between = Duration::from_nanos(terms.renewal().0);
        while !self.lease.has_ended() {
            let before = BootClock.now();
            let patience = Patience::new(between, &self.call_off);
            let pause = match self.log.renew(self.me, &patience) {
                Ok(_) => {
                    let until = before.plus(terms.held()).0;
                    self.lease.renew(until);
                    core.leased_until(until);
                    self.is_unrenewed.store(false, Ordering::Relaxed);
                    self.ring_after(until);
                    between
                }
                // It holds what it had until that runs out.
                Err(LogError::Gone(_)) if self.leaves() => return,
                Err(LogError::Gone(_)) if !self.newest().has(self.me) => self.excluded(),
                // One that has just begun to coordinate may not know of the last to join.
                Err(_) => {
                    self.is_unrenewed.store(true, Ordering::Relaxed);
                    AGAIN_SPAN
                }
            };
            self.rest(pause);
        }
    }

    /// Sets the alarm for the end of a lease.
    fn ring_after(&self, until: u64) {
        let Some(alarm) = &self.alarm else {
            return;
        };
        let at = Duration::from_nanos(until) + ALARM_SPAN;
        let at = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: at.as_secs().cast_signed(),
                tv_nsec: at.subsec_nanos().into(),
            },
        };
        if let Err(error) = timerfd_settime(alarm, TimerfdTimerFlags::ABSTIME, &at) {
            log::warn!("nobody hears when this agent's lease is over: {error}");
        }
    }

    /// Sleeps for so long, or until the agent ends.
    pub(super) fn rest(&self, span: Duration) {
        let until = BootClock.now().plus(LocalSpan(span.as_nanos() as u64));
        loop {
            let left = until.since(BootClock.now());
            if left.0 == 0 || self.lease.has_ended() {
                return;
            }
            self.lease.pause(Duration::from_nanos(left.0));
        }
    }
}
