//! I16, I18: every request ends, soon, and the world comes to rest.

use super::Violation;
use hearth_proto::{Span, Time};

/// Longest that an operation may take. Store errors last 2.5 s, a store operation 3 s, a silent peer
/// is given up after 7 s; an operation may wait for several of these.
pub const SLOWEST: Span = Span::secs(45);

/// The world must be at rest this long after the last operation began. Failed flushes are tried
/// again after 30 s.
const REST: Span = Span::secs(150);

/// Events of one run.
const EVENTS_MAX: u64 = 400_000;

/// Ticks without anything else, and without time going on.
const TICKS_MAX: u32 = 200;

/// Judges a run that goes on.
pub fn overdue(now: Time, last_begun: Time, events: u64) -> Option<Violation> {
    let rest_due = last_begun + REST;
    if last_begun.0 > 0 && now > rest_due {
        let what = format!(
            "no rest {} s after the last operation",
            (now - last_begun).0 / 1_000_000_000
        );
        return Some(Violation::liveness(what));
    }
    (events > EVENTS_MAX).then(|| Violation::liveness(format!("no rest after {events} events")))
}

/// Judges an operation that has ended.
pub fn slow(took: Span) -> Option<Violation> {
    (took > SLOWEST)
        .then(|| Violation::liveness(format!("an operation took {} ms", took.0 / 1_000_000)))
}

/// Judges a node that wants to be woken again and again.
pub fn restless(ticks: u32, node: usize) -> Option<Violation> {
    (ticks > TICKS_MAX)
        .then(|| Violation::liveness(format!("node {node}: a deadline does not move")))
}
