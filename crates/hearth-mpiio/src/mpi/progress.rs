//! Open MPI goes on with the program's file requests in the program's threads alone.
//!
//! A thread that calls Open MPI goes on with all that is under way in it. File requests stand in a list without a lock:
//! a program whose threads take turns, as nearly all do, never walks it while it changes it. The thread that carries
//! our messages over MPI would: the program's next request, or the end of one, would take the list apart under its
//! feet. So its calls leave that list to the program, which goes on with it when it waits, as without us.

use std::ffi::{c_int, c_void};

use hearth_mpi::is_going_on;

use crate::real::Real;

/// Open MPI takes the address of this function under this name, from the first library that has it.
///
/// # Safety
/// Only Open MPI calls it, as its own.
#[unsafe(no_mangle)]
unsafe extern "C" fn mca_common_ompio_progress() -> c_int {
    static NEXT: Real = Real::new("mca_common_ompio_progress\0");
    type Progress = unsafe extern "C" fn() -> c_int;
    const NOTHING_COMPLETED: c_int = 0;
    let next = NEXT.address();
    if is_going_on() || next.is_null() {
        return NOTHING_COMPLETED;
    }
    // SAFETY: Open MPI gives the function of this name this type.
    let next = unsafe { std::mem::transmute::<*mut c_void, Progress>(next) };
    // SAFETY: the caller is Open MPI, which would have called it.
    unsafe { next() }
}
