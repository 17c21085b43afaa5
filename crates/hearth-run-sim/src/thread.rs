//! The operating system's calls by which threads wait for each other.

use crate::io::Result;
use std::time::Duration;

pub use real_rustix::thread::Timespec;

/// Gives the processor to others: time goes on if nobody wants it.
pub fn sched_yield() {
    std::thread::sleep(Duration::from_micros(1));
}

/// Waits at a word of the memory.
pub mod futex {
    use super::{Duration, Result, Timespec};
    use std::cell::{Cell, RefCell};
    use std::ops::Deref;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread::{Thread, current, park_timeout, yield_now};

    pub use real_rustix::thread::futex::Flags;

    ::std::thread_local! {
        static EARLY: Cell<bool> = const { Cell::new(false) };
        static WAITING: RefCell<Vec<Thread>> = RefCell::default();
    }

    /// As in `rustix`; it may also end early.
    pub fn wait(word: &AtomicU32, _: Flags, value: u32, span: Option<&Timespec>) -> Result<()> {
        // No turn of another thread: looking and lying down are one step.
        if word.deref().load(Ordering::Relaxed) != value {
            return Err(crate::io::Errno::AGAIN);
        }
        // So that what waits is at work while others run, one wait in two ends early.
        EARLY.set(!EARLY.get());
        if EARLY.get() {
            yield_now();
            return Ok(());
        }
        let me = current();
        let number = me.id();
        WAITING.with_borrow_mut(|all| all.push(me));
        let span = span.map_or(Duration::from_secs(1), |span| {
            Duration::new(span.tv_sec.cast_unsigned(), span.tv_nsec as u32)
        });
        park_timeout(span);
        WAITING.with_borrow_mut(|all| all.retain(|one| one.id() != number));
        Ok(())
    }

    /// Wakes all that wait at any word: they look again. A word lies elsewhere for each process, and no address is the
    /// seed's.
    pub fn wake(_: &AtomicU32, _: Flags, _: u32) -> Result<usize> {
        let all = WAITING.take();
        all.iter().for_each(Thread::unpark);
        Ok(all.len())
    }
}
