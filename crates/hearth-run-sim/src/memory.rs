//! The C library's copy: what it copies may change while it does so.

use crate::book::Slot;
use crate::{Copied, PoolView, c_void};
use std::mem::MaybeUninit;
use std::thread::yield_now;

/// A copy takes a few steps of so many bytes, or of an eighth of all.
const STEP: usize = 16;

/// As in the C library, with another thread's turn between steps.
///
/// # Safety
/// As in the C library; other threads may use the bytes meanwhile through this function alone.
pub unsafe fn memcpy(to: *mut c_void, from: *const c_void, count: usize) -> *mut c_void {
    let step = STEP.max(count.div_ceil(8));
    for at in (0..count).step_by(step) {
        yield_now();
        let part = step.min(count - at);
        // SAFETY: the part lies within what the caller answers for.
        unsafe { real_libc::memcpy(to.byte_add(at), from.byte_add(at), part) };
    }
    to
}

/// Copies bytes of a file out of an agent's memory; if not all of them, some may have been.
pub(crate) fn copy(view: &PoolView, (file, offset): Slot, into: &mut [u8]) -> Copied {
    let len = into.len();
    // SAFETY: bytes that are set may be seen as ones that need not be, and the view sets bytes or leaves them.
    let into: &mut [MaybeUninit<u8>] =
        unsafe { std::slice::from_raw_parts_mut(into.as_mut_ptr().cast(), len) };
    view.copy(file, offset, into)
}
