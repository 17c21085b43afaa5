//! The standard library with threads, locks and time of a seed.
//!
//! A crate of the laboratory that calls this one `std` compiles sources of the product as they are. Their threads are then
//! tasks of [`shuttle`], of which one runs at a time: [`run`] draws which. Each call of a lock, a condition or a channel
//! is a place where another may go on. So is each use of an atomic, in worlds that want that ([`atomic::take_turns`]).
//!
//! Time stands still while any thread can run. When all of them wait, it goes on to the first moment that one of them
//! waits for ([`clock`]). If there is none, they wait for ever, which ends the world with a finding.

#![forbid(unsafe_code)]

pub use ::std::*;

pub mod atomic;
pub mod clock;
mod dice;
pub mod mail;
mod trial;
mod world;

pub use dice::Dice;
pub use trial::Trial;
pub use world::{WorldOutcome, find, is_over, run, tally, tell};

/// Locks of doubles: taking them is no place where another thread may go on.
pub mod plain {
    pub use ::std::sync::{Mutex, MutexGuard as Guard};
}

/// The modules' parts that threads, locks and channels are not, and these.
pub mod sync {
    pub use crate::atomic;
    pub use crate::condvar::{Condvar, WaitTimeoutResult};
    pub use ::std::sync::{
        Arc, LazyLock, LockResult, Once, OnceLock, PoisonError, TryLockError, TryLockResult, Weak,
    };
    pub use shuttle::sync::{
        Barrier, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, mpsc,
    };
}

mod condvar;
pub mod thread;
pub mod time;

/// A panic of a thread ends the world, also where the product would go on.
pub mod panic {
    pub use ::std::panic::{AssertUnwindSafe, UnwindSafe};

    /// Calls it. A panic is not caught.
    pub fn catch_unwind<R>(f: impl FnOnce() -> R) -> ::std::thread::Result<R> {
        Ok(f())
    }
}
