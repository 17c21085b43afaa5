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
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicU32;
    use std::thread::Thread;

    pub use real_rustix::thread::futex::Flags;

    ::std::thread_local! {
        static EARLY: Cell<bool> = const { Cell::new(false) };
        static WAITING: RefCell<BTreeMap<usize, Vec<Thread>>> = RefCell::default();
    }

    fn place(word: &AtomicU32) -> usize {
        std::ptr::from_ref(word).addr()
    }

    /// As in `rustix`; it may also end early.
    pub fn wait(word: &AtomicU32, _: Flags, value: u32, span: Option<&Timespec>) -> Result<()> {
        // Looking and lying down are one step.
        let real = std::ops::Deref::deref(word).load(std::sync::atomic::Ordering::Relaxed);
        if real != value {
            return Err(crate::io::Errno::AGAIN);
        }
        // So that what waits is at work while others run, one wait in two ends early.
        EARLY.set(!EARLY.get());
        if EARLY.get() {
            std::thread::yield_now();
            return Ok(());
        }
        let me = std::thread::current();
        WAITING.with_borrow_mut(|all| all.entry(place(word)).or_default().push(me));
        let span = span.map_or(Duration::from_secs(1), |span| {
            Duration::new(span.tv_sec.cast_unsigned(), span.tv_nsec as u32)
        });
        std::thread::park_timeout(span);
        let me = std::thread::current().id();
        WAITING.with_borrow_mut(|all| {
            let here = all.entry(place(word)).or_default();
            here.retain(|one| one.id() != me);
        });
        Ok(())
    }

    /// As in `rustix`.
    pub fn wake(word: &AtomicU32, _: Flags, count: u32) -> Result<usize> {
        // Another process has the word elsewhere: whoever waits for the memory of any agent looks again.
        let _ = word;
        let all = WAITING.with_borrow_mut(std::mem::take);
        let woken = all.into_values().flatten().take(count as usize);
        Ok(woken.map(|one| one.unpark()).count())
    }
}
