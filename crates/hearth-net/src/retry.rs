//! When to connect again to a member that is not there.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_millis(20);
const EAGER_MAX: Duration = Duration::from_secs(1);
/// After so many failures, about ten seconds, the member is not just starting.
const EAGER_TRIES: u32 = 16;
const PATIENT: Duration = Duration::from_secs(5);

/// The attempts at one member since it was last connected.
#[derive(Default)]
pub(crate) struct Retry {
    failures: u32,
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

    /// Whether so many attempts have failed that the next is like the first.
    pub(crate) fn is_even(&self) -> bool {
        self.failures.is_multiple_of(2)
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
}
