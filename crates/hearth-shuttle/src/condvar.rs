//! Conditions with a limit of time.

use crate::clock;
use shuttle::sync::MutexGuard;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, LockResult};
use std::time::Duration;

/// As in `std`.
#[derive(Debug, Default)]
pub struct Condvar(Arc<shuttle::sync::Condvar>);

/// Whether a wait ended as its time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// It did.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// One that nobody waits for.
    pub fn new() -> Condvar {
        Condvar::default()
    }

    /// Waits until it is notified.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait(guard)
    }

    /// The same, for so long at most. Others that wait wake up as well, which they have to expect.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        span: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let over = Rc::new(Cell::new(false));
        let (told, own) = (Rc::clone(&over), Arc::clone(&self.0));
        let timer = clock::at(clock::now() + span, move || {
            told.set(true);
            own.notify_all();
        });
        let guard = self
            .0
            .wait(guard)
            .unwrap_or_else(|error| error.into_inner());
        clock::cancel(timer);
        Ok((guard, WaitTimeoutResult(over.get())))
    }

    /// The same for as long as something holds.
    pub fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        span: Duration,
        mut holds: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let end = clock::now() + span;
        loop {
            if !holds(&mut guard) {
                return Ok((guard, WaitTimeoutResult(false)));
            }
            let rest = end.saturating_sub(clock::now());
            if rest.is_zero() {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            guard = self
                .wait_timeout(guard, rest)
                .unwrap_or_else(|error| error.into_inner())
                .0;
        }
    }

    /// Wakes one.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
