//! When to connect again to a member that is not there.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_millis(20);
const EAGER_MAX: Duration = Duration::from_secs(1);
/// After so many failures, about ten seconds, the member is not just starting.
const EAGER_TRIES: u32 = 16;
/// After so many times, about two seconds, a member that is starting has its name, or will have none.
const NAMELESS_MAX: u32 = 40;
const PATIENT: Duration = Duration::from_secs(5);

/// The attempts at one member since it was last connected.
#[derive(Default)]
pub(crate) struct Retry {
    failures: u32,
    /// Times that nobody had the member's name.
    nameless: u32,
    /// The attempt after this one is at the member's address.
    is_at_address: bool,
    /// When the next attempt is due, if one is planned.
    pub(crate) due: Option<Instant>,
}

impl Retry {
    /// The wait before the next attempt.
    pub(crate) fn next_delay(&mut self) -> Duration {
        let failures = self.failures;
        self.failures = failures.saturating_add(1);
        if failures >= EAGER_TRIES {
            return PATIENT;
        }
        FIRST.saturating_mul(1 << failures).min(EAGER_MAX)
    }

    /// Whether the attempt that begins now is at the member's name: the first is, and every second after it.
    pub(crate) fn takes_name(&mut self) -> bool {
        self.is_at_address = !self.is_at_address;
        self.is_at_address
    }

    /// Nobody has the member's name: whether it may be about to take it.
    pub(crate) fn waits_for_name(&mut self) -> bool {
        self.nameless += u32::from(self.nameless <= NAMELESS_MAX);
        let waits = self.nameless <= NAMELESS_MAX;
        // That was no attempt.
        self.is_at_address &= !waits;
        waits
    }

    /// The next attempt may do better than those before it.
    pub(crate) fn begin_anew(&mut self) {
        self.failures = 0;
    }

    /// The member is connected.
    pub(crate) fn reset(&mut self) {
        *self = Retry::default();
    }
}

const _: () = assert!(EAGER_TRIES < 32, "the shift in next_delay");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_grow_apart_and_then_become_rare() {
        let mut retry = Retry::default();
        let delays: Vec<_> = (0..40).map(|_| retry.next_delay()).collect();
        assert_eq!(delays[0], FIRST);
        assert!(delays.is_sorted());
        assert_eq!(delays[EAGER_TRIES as usize - 1], EAGER_MAX);
        assert!(
            delays[EAGER_TRIES as usize..]
                .iter()
                .all(|delay| *delay == PATIENT)
        );
        retry.reset();
        assert_eq!(retry.next_delay(), FIRST);
    }

    #[test]
    fn names_and_addresses_take_turns_once_a_member_could_have_its_name() {
        let mut retry = Retry::default();
        assert!(retry.takes_name() && !retry.takes_name() && retry.takes_name());
        retry.reset();
        for _ in 0..NAMELESS_MAX {
            assert!(retry.takes_name() && retry.waits_for_name());
        }
        assert!(retry.takes_name() && !retry.waits_for_name());
        assert!(!retry.takes_name());
    }
}
