//! The error number of the thread, which nothing but the real call may change.

use std::ffi::c_int;

/// The present `errno`.
#[inline(always)]
pub(crate) fn errno() -> c_int {
    // SAFETY: the address is that of this thread's own variable.
    unsafe { *libc::__errno_location() }
}

/// Sets it.
#[inline(always)]
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: the address is that of this thread's own variable.
    unsafe { *libc::__errno_location() = value }
}

/// Runs `work` without a trace in `errno`.
pub(crate) fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    let before = errno();
    let done = work();
    set_errno(before);
    done
}
