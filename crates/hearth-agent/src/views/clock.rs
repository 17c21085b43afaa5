//! A clock that goes on while the machine is suspended.

use hearth_views::lease::{LocalClock, LocalTime};
use rustix::time::{ClockId, clock_gettime};

/// The time since the machine was started.
pub(super) struct BootClock;

impl LocalClock for BootClock {
    fn now(&self) -> LocalTime {
        let time = clock_gettime(ClockId::Boottime);
        LocalTime(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
}
