//! Time as the kernel sees it: nanoseconds that the driver counts, comparable on one node only.

use core::ops::{Add, Sub};

/// A moment, in nanoseconds since a start that the driver chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

impl Span {
    /// A span of whole milliseconds.
    pub const fn millis(ms: u64) -> Span {
        Span(ms * 1_000_000)
    }

    /// A span of whole seconds.
    pub const fn secs(s: u64) -> Span {
        Span(s * 1_000_000_000)
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Sub<Time> for Time {
    type Output = Span;
    fn sub(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}
