//! How long programs may take what is lent for current: others may go on without an agent whose lease is over, and its
//! memory does not hear of what they write. So a stopped agent serves nothing here either.

use rustix::time::{ClockId, clock_gettime};

/// The lease of an agent without which nobody goes on.
pub(crate) const ALWAYS: u64 = u64::MAX;

/// Whether a lease holds, which ends at so many nanoseconds since the machine was started.
#[inline(always)]
pub(crate) fn holds(until: u64) -> bool {
    until == ALWAYS || now() < until
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_holds_until_its_end() {
        assert!(holds(ALWAYS));
        assert!(holds(now() + 60_000_000_000));
        assert!(!holds(now()));
        assert!(!holds(0));
    }
}
