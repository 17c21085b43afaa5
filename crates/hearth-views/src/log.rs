//! The ordered log of views: the one interface, whoever decides.
//!
//! ```text
//!  propose(change at n) ──> next view, or: stale, refused, leased, undecided
//!  watch(after n)       ──> n+1, n+2, ...      (a log may have forgotten old ones: then later ones)
//!  renew(member)        ──> its lease counts from before the call
//!  fence(member)        ──> the view in which what it served may be served again
//! ```
//!
//! All calls block, no longer than the [`Patience`] that they are given, and end early when that is
//! called off. They may be made from any thread, several at once.
//!
//! - LOG-1: views are decided in one order, and each number once.
//! - LOG-2: a change that does not name the newest view changes nothing, and its proposer is told.
//! - LOG-3: a watcher gets views in their order, each once, and none that was not decided. It misses only
//!   views that were forgotten before it could have them.
//! - LOG-4: a renewal is granted only by those that nobody can have replaced since the call began.

use crate::lease::LocalSpan;
use crate::lease::granter::NotYet;
use crate::membership::{MemberKey, Membership, MembershipChange, ViewNumber, ViewRefusal};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Most views that one `watch` returns. The caller asks again for the rest.
pub const WATCH_VIEWS_MAX: usize = 64;

/// How often `fence` tries again after another change came first.
pub const FENCE_TRIES_MAX: usize = 16;

/// How long a wait may not notice that it was called off.
pub(crate) const CALL_OFF_SPAN: Duration = Duration::from_millis(20);

/// Ends waits of other threads early.
#[derive(Clone, Debug, Default)]
pub struct CallOff(Arc<AtomicBool>);

/// How long a call may wait.
#[derive(Clone, Debug)]
pub struct Patience {
    span: Duration,
    call_off: CallOff,
}

/// The end of one call's patience.
pub(crate) struct Deadline<'a> {
    until: Instant,
    call_off: &'a CallOff,
}

/// Why nothing is known of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Silence {
    /// Those that answer are too few to decide.
    #[error("no majority of the voters answers")]
    NoMajority,
    /// Another exclusion of the member is on its way, or a voter that is no member is to be replaced first.
    #[error("another exclusion or a change of voters is under way")]
    Underway,
    /// The caller called it off.
    #[error("the wait was called off")]
    CalledOff,
}

/// Why a call did not do its work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum LogError {
    /// Another change came first. Watch, then decide anew.
    #[error("view {now} is current")]
    Stale {
        /// The view that is current, as far as the one that answered knows.
        now: ViewNumber,
    },
    /// The change breaks a rule. It will again; a person may need to know.
    #[error(transparent)]
    Refused(ViewRefusal),
    /// A member may still believe in its lease. Propose again after the wait.
    #[error("agent {member} may hold its lease for another {} ms", wait.0 / 1_000_000)]
    Leased {
        /// The member.
        member: MemberKey,
        /// The wait, by the clock of the coordinator.
        wait: LocalSpan,
    },
    /// Nobody says whether it was decided. It may have been, and may yet be: watch.
    #[error("not decided yet: {0}")]
    Undecided(Silence),
    /// This incarnation is no member any more. Join as the next.
    #[error("agent {0} is no member any more")]
    Gone(MemberKey),
}

/// Those that renewed a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RenewedBy {
    /// The coordinator, confirmed by a majority.
    Coordinator,
    /// Every other member of the view.
    Members,
}

/// A lease goes on, for the holder's term from before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewed {
    /// A view that has the member.
    pub view: ViewNumber,
    /// Those that renewed it.
    pub by: RenewedBy,
}

/// An ordered log of views.
pub trait ViewLog: Send + Sync {
    /// Decides the next view, if `at` is the newest and the change keeps the rules.
    ///
    /// After [`LogError::Undecided`] the change may be decided or not. To propose it once more is safe: if
    /// it was decided, the second is stale.
    fn propose(
        &self,
        change: &MembershipChange,
        at: ViewNumber,
        patience: &Patience,
    ) -> Result<Arc<Membership>, LogError>;

    /// Views behind `after`, at most [`WATCH_VIEWS_MAX`]; none if there is none until the patience ends.
    ///
    /// The first is the next one, or the oldest that is kept where that was forgotten. An agent that is
    /// cut off gets no more than it knows, without an error.
    fn watch(
        &self,
        after: ViewNumber,
        patience: &Patience,
    ) -> Result<Vec<Arc<Membership>>, LogError>;

    /// Renews a member's lease. The caller's clock counts from before the call.
    fn renew(&self, member: MemberKey, patience: &Patience) -> Result<Renewed, LogError>;

    /// Records that the store takes no write of an excluded incarnation any more.
    ///
    /// One that is fenced already is no error. Tries again when other changes come first.
    fn fence(&self, member: MemberKey, patience: &Patience) -> Result<(), LogError> {
        let change = MembershipChange::Fenced(member);
        let mut at = ViewNumber(0);
        for _ in 1..FENCE_TRIES_MAX {
            match self.propose(&change, at, patience) {
                Err(LogError::Stale { now }) => at = now,
                Err(LogError::Refused(ViewRefusal::NotUnfenced(_))) | Ok(_) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.propose(&change, at, patience).map(|_| ())
    }
}

impl CallOff {
    /// Ends all waits that were given this.
    pub fn call_off(&self) {
        // Pairs with the Acquire in `Deadline::left`.
        self.0.store(true, Ordering::Release);
    }
}

impl Patience {
    /// So long, unless it is called off.
    pub fn new(span: Duration, call_off: &CallOff) -> Patience {
        Patience {
            span,
            call_off: call_off.clone(),
        }
    }

    /// So long.
    pub fn of(span: Duration) -> Patience {
        Patience::new(span, &CallOff::default())
    }

    pub(crate) fn deadline(&self) -> Deadline<'_> {
        Deadline {
            until: Instant::now() + self.span,
            call_off: &self.call_off,
        }
    }
}

impl Deadline<'_> {
    /// The time that is left, if any is.
    pub(crate) fn left(&self) -> Result<Option<Duration>, Silence> {
        // Pairs with the Release in `CallOff::call_off`.
        if self.call_off.0.load(Ordering::Acquire) {
            return Err(Silence::CalledOff);
        }
        let left = self.until.saturating_duration_since(Instant::now());
        Ok((!left.is_zero()).then_some(left))
    }

    /// The time that a thread may block before it looks again.
    pub(crate) fn slice(&self) -> Result<Option<Duration>, Silence> {
        Ok(self.left()?.map(|left| left.min(CALL_OFF_SPAN)))
    }
}

impl From<NotYet> for LogError {
    fn from(not_yet: NotYet) -> LogError {
        match not_yet {
            NotYet::Leased(member, wait) => LogError::Leased { member, wait },
            NotYet::Doomed(_) | NotYet::Elsewhere => LogError::Undecided(Silence::Underway),
        }
    }
}

impl From<ViewRefusal> for LogError {
    fn from(refusal: ViewRefusal) -> LogError {
        match refusal {
            ViewRefusal::Stale { now, .. } => LogError::Stale { now },
            refusal => LogError::Refused(refusal),
        }
    }
}
