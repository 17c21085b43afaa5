//! Memory that an agent does not need any more goes back to the operating system.
//!
//! The allocator keeps freed memory that lies between things still in use. After a million files were forgotten that is
//! most of it. To give it back takes some milliseconds; so it happens when the agent has worked, and not often.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::os;

/// It is looked this often at most.
pub(super) const EACH: Duration = Duration::from_secs(10);

/// Work after which memory may have become free.
const WORK: Duration = Duration::from_millis(50);

/// Remembers when memory was last given back.
#[derive(Debug, Default)]
pub(super) struct Spare {
    /// Processor time at the last time.
    worked: Duration,
}

impl Spare {
    /// Gives back what is free, if the agent has worked since the last time.
    pub(super) fn give_back(&mut self) {
        let now = clock_gettime(ClockId::ProcessCPUTime);
        let now = Duration::try_from(now).unwrap_or_default();
        if now < self.worked + WORK {
            return;
        }
        os::give_back_memory();
        self.worked = now;
    }
}
