//! The loop's own deadlines. A timer that is no longer needed is removed, so that it does not wake
//! an idle node.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::transport::PeerId;

/// The purpose of a deadline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Timer {
    /// Connect to a member.
    Dial(PeerId),
    /// The connection at this index must have finished its handshake.
    Handshake(usize),
    /// Try to accept again after the system refused.
    Accept,
}

/// All deadlines, soonest first.
#[derive(Default)]
pub(crate) struct Timers(BTreeSet<(Instant, Timer)>);

impl Timers {
    pub(crate) fn add(&mut self, at: Instant, timer: Timer) {
        self.0.insert((at, timer));
    }

    pub(crate) fn remove(&mut self, at: Instant, timer: Timer) {
        self.0.remove(&(at, timer));
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Takes one timer that is due.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_first().map(|(_, timer)| timer)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn timers_come_in_order_and_not_before_they_are_due() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut timers = Timers::default();
        timers.add(at(2), Timer::Handshake(1));
        timers.add(at(1), Timer::Dial(PeerId(0)));
        timers.add(at(1), Timer::Handshake(2));
        timers.remove(at(1), Timer::Handshake(2));
        assert_eq!(timers.pop(start), None);
        assert_eq!(timers.next(), Some(at(1)));
        assert_eq!(timers.pop(at(2)), Some(Timer::Dial(PeerId(0))));
        assert_eq!(timers.pop(at(2)), Some(Timer::Handshake(1)));
        assert_eq!(timers.next(), None);
    }
}
