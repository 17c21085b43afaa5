//! The one way this crate takes a mutex.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex whose data is whole between any two statements, even after a panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
