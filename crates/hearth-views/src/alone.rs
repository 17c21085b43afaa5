//! The log of one agent that decides by itself: for a set of one host, and half of a pair.
//!
//! It needs nobody, and ends with its process. Then its set ends too, as all that it has is in memory.

use crate::history::ViewHistory;
use crate::lease::granter::{GranterInput, LeaseGranter};
use crate::lease::{LeaseTerms, LocalClock, RenewalNumber};
use crate::log::{LogError, Patience, Renewed, RenewedBy, ViewLog};
use crate::membership::{MemberKey, Membership, MembershipChange, ViewNumber};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The log of one host.
pub struct AloneLog {
    history: ViewHistory,
    /// The lock is held while a view is decided, so that each number is decided once.
    granter: Mutex<LeaseGranter>,
    clock: Arc<dyn LocalClock>,
}

impl AloneLog {
    /// A log that begins with a view, decided by this member of it.
    pub fn new(
        first: Membership,
        me: MemberKey,
        terms: LeaseTerms,
        clock: Arc<dyn LocalClock>,
    ) -> AloneLog {
        let mut granter = LeaseGranter::new(terms, me, first.number(), first.keys());
        granter.step(clock.now(), GranterInput::Elected);
        AloneLog {
            history: ViewHistory::new(Arc::new(first)),
            granter: Mutex::new(granter),
            clock,
        }
    }

    /// Forgets all views but the newest `keep`.
    pub fn compact(&self, keep: usize) {
        self.history.compact(keep);
    }

    /// Decides a change now.
    pub(crate) fn decide(
        &self,
        change: &MembershipChange,
        at: ViewNumber,
    ) -> Result<Arc<Membership>, LogError> {
        let mut granter = self.lock();
        let now = self.clock.now();
        let next = Arc::new(self.history.newest().apply(change, at)?);
        let doomed = change.doomed();
        if !doomed.is_empty() {
            granter.doom(now, doomed)?;
        }
        self.history.push(Arc::clone(&next));
        granter.step(now, GranterInput::Viewed(next.number(), next.keys()));
        Ok(next)
    }

    /// Grants a renewal now: the one that decides needs no confirmation.
    pub(crate) fn grant(&self, member: MemberKey) -> Result<Renewed, LogError> {
        let mut granter = self.lock();
        let newest = self.history.newest();
        if !newest.has(member) {
            return Err(LogError::Gone(member));
        }
        granter.step(
            self.clock.now(),
            GranterInput::Renewal(member, RenewalNumber(0)),
        );
        Ok(Renewed {
            view: newest.number(),
            by: RenewedBy::Coordinator,
        })
    }

    /// Views behind `after` that are here now.
    pub(crate) fn after(&self, after: ViewNumber) -> Vec<Arc<Membership>> {
        self.history.after(after)
    }

    fn lock(&self) -> MutexGuard<'_, LeaseGranter> {
        self.granter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ViewLog for AloneLog {
    fn propose(
        &self,
        change: &MembershipChange,
        at: ViewNumber,
        _: &Patience,
    ) -> Result<Arc<Membership>, LogError> {
        self.decide(change, at)
    }

    fn watch(
        &self,
        after: ViewNumber,
        patience: &Patience,
    ) -> Result<Vec<Arc<Membership>>, LogError> {
        self.history.wait_after(after, patience, || None)
    }

    fn renew(&self, member: MemberKey, _: &Patience) -> Result<Renewed, LogError> {
        self.grant(member)
    }
}
