//! For which thread of a program a thread of a front end is at work.
//!
//! The front end says so before it calls the session, and the agent looks while that call lasts, in the
//! same thread. Only traces depend on it.

use std::cell::Cell;

thread_local! {
    static CALLER: Cell<u32> = const { Cell::new(0) };
}

/// From now on this thread works for the thread of this number; 0 is nobody that is known.
pub fn work_for(tid: u32) {
    CALLER.set(tid);
}

/// The thread that this one works for.
pub fn current() -> u32 {
    CALLER.get()
}
