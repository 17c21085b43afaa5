//! Moments of the world's own clock.

use crate::clock;
use std::ops::{Add, Sub};

pub use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// As in `std`, by [`clock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// This moment.
    pub fn now() -> Instant {
        Instant(clock::now())
    }

    /// How long ago it was.
    pub fn elapsed(&self) -> Duration {
        clock::now().saturating_sub(self.0)
    }

    /// Nothing, if the other was later.
    pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// None before the world began.
    pub fn checked_sub(&self, span: Duration) -> Option<Instant> {
        self.0.checked_sub(span).map(Instant)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, span: Duration) -> Instant {
        Instant(self.0 + span)
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.saturating_duration_since(earlier)
    }
}
