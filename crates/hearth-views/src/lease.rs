//! Leases of members: while a member holds one, nobody has excluded it.
//!
//! A lease has two sides, on two clocks that only run at nearly the same pace. The [`holder`] counts a
//! shortened term from the moment at which it sent its request. The [`granter`] counts the full term from
//! the moment at which it heard of it. So a delay of any message only widens the gap. Both are machines
//! with one `step(now, input)`, and the caller carries out the effects in their order.
//!
//! ```text
//!  holder  ── renewal 7 ──>  coordinator's granter ── confirm ──> majority of the log
//!   until sent + held  <── grant 7 ──┘      <─────────── still yours ───┘
//!
//!  holder  ── renewal 7 ──>  each other member's granter
//!   until sent + held  <── vouch 7 ──┘   (all of them: needs no coordinator)
//! ```
//!
//! - LEASE-1: at no moment does a holder believe in its lease after a view excluded it.
//! - LEASE-2: a holder counts `held` from its sending, a granter `granted` from its hearing.
//! - LEASE-3: a granter that begins to decide, or becomes a member, waits a full term before it
//!   excludes anybody.
//! - LEASE-4: a coordinator grants only after a confirmation that began after the renewal arrived.
//! - LEASE-5: a granter that asked for an exclusion renews that member no more, until it was spared.
//! - LEASE-6: a member vouches only in the newest view that its log has, decided or not.
//! - LEASE-7: a lease without a coordinator needs the vouch of every other member of the view.
//! - LEASE-8: whatever waited looks at the lease again before it goes on.
//! - LEASE-9: a granter excludes only while it and all voters are members of the newest view.
//!
//! LEASE-6 and LEASE-7 need a log that is decided by a majority of *members*. Then some member of a view
//! knows the next one, and refuses. With a log that strangers decide, only the coordinator may grant.

pub mod granter;
mod guard;
pub mod holder;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

/// Parts that a drift is told in.
const MILLION: u128 = 1_000_000;

/// A moment on one machine's clock, in nanoseconds. That clock goes on while the machine is suspended.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct LocalTime(pub u64);

/// Nanoseconds on one machine's clock.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct LocalSpan(pub u64);

/// How much faster or slower than the time a clock may run, in parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriftPpm(pub u32);

/// The terms of all leases of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseTerms {
    /// The granter's term.
    pub granted: LocalSpan,
    /// The drift that both sides allow for; below a million.
    pub drift: DriftPpm,
}

/// A renewal, told apart from others of its holder.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct RenewalNumber(pub u64);

/// A clock that a caller lends. It goes on while the machine is suspended.
pub trait LocalClock: Send + Sync {
    /// The time by it.
    fn now(&self) -> LocalTime;
}

impl LocalTime {
    /// So much later.
    #[must_use]
    pub fn plus(self, span: LocalSpan) -> LocalTime {
        LocalTime(self.0.saturating_add(span.0))
    }

    /// The time from then until this; zero if this is earlier.
    pub fn since(self, earlier: LocalTime) -> LocalSpan {
        LocalSpan(self.0.saturating_sub(earlier.0))
    }
}

impl LeaseTerms {
    /// Six seconds, for clocks that are off by a thousandth.
    pub const USUAL: LeaseTerms = LeaseTerms {
        granted: LocalSpan(6_000_000_000),
        drift: DriftPpm(1000),
    };

    /// The holder's term. It ends before the granter's, by whichever clocks within the drift.
    pub fn held(&self) -> LocalSpan {
        let drift = u128::from(self.drift.0).min(MILLION);
        let held = u128::from(self.granted.0) * (MILLION - drift) / (MILLION + drift);
        LocalSpan(u64::try_from(held).expect("it is no more than the granter's term"))
    }

    /// How often a holder asks: a third of the term, so that two renewals may be lost.
    pub fn renewal(&self) -> LocalSpan {
        LocalSpan(self.granted.0 / 3)
    }
}
