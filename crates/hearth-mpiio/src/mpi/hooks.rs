//! The calls of MPI that say who shares a file and when.
//!
//! Every function is exported under both of its names. A library's Fortran calls enter by the second,
//! and call functions of the first or of none; a call inside of another one of ours is left alone.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};

use super::{Raw, access, files};
use crate::job;

thread_local! {
    /// Whether this thread is inside of a call of ours.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs a hook, unless this thread is in one.
pub(super) fn outermost(real: impl Fn() -> c_int, hook: impl FnOnce() -> c_int) -> c_int {
    if INSIDE.replace(true) {
        return real();
    }
    let done = hook();
    INSIDE.set(false);
    done
}

/// Defines and exports both names of each row.
macro_rules! calls {
    ($(fn $name:ident $second:ident($($arg:ident: $ty:ty),* $(,)?) = |$real:ident| $body:expr;)+) => {$(
        calls!(one $name($($arg: $ty),*) |$real| $body);
        calls!(one $second($($arg: $ty),*) |$real| $body);
    )+};
    (one $name:ident($($arg:ident: $ty:ty),*) |$real:ident| $body:expr) => {
        /// # Safety
        /// As MPI says of the function of this name.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the name is MPI's")]
        unsafe extern "C" fn $name($($arg: $ty),*) -> c_int {
            static NEXT: $crate::real::Real =
                $crate::real::Real::new(concat!(stringify!($name), "\0"));
            type Next = unsafe extern "C" fn($($ty),*) -> c_int;
            let next = NEXT.address();
            if next.is_null() {
                return super::hooks::MISSING;
            }
            // SAFETY: MPI gives the next function of this name this type.
            let next = unsafe { std::mem::transmute::<*mut c_void, Next>(next) };
            // SAFETY: the arguments are the caller's own, or such as this function allows as well.
            let $real = move |$($arg: $ty),*| -> c_int { unsafe { next($($arg),*) } };
            let unchanged = || $real($($arg),*);
            outermost(unchanged, || $body)
        }
    };
}

/// The value that a call returns whose function no library has; `MPI_ERR_OTHER` is near enough in all.
pub(super) const MISSING: c_int = 16;

calls! {
    fn MPI_Init PMPI_Init(count: *mut c_int, words: *mut c_void) =
        |real| job::begin(|| real(count, words));
    fn MPI_Init_thread PMPI_Init_thread(count: *mut c_int, words: *mut c_void, wanted: c_int, given: *mut c_int) =
        |real| job::begin(|| real(count, words, wanted, given));
    fn MPI_Finalize PMPI_Finalize() = |real| {
        files::end();
        job::end();
        real()
    };

    fn MPI_File_open PMPI_File_open(comm: Raw, name: *const c_char, mode: c_int, info: Raw, file: *mut Raw) =
        |real| files::open(files::Asked { comm, name, mode, info, file }, || real(comm, name, mode, info, file));
    fn MPI_File_close PMPI_File_close(file: *mut Raw) = |real| files::close(file, || real(file));
    fn MPI_File_sync PMPI_File_sync(file: Raw) = |real| files::sync(file, || real(file));
    fn MPI_File_get_info PMPI_File_get_info(file: Raw, info: *mut c_void) =
        |real| files::info(file, info, || real(file, info));
    fn MPI_File_set_atomicity PMPI_File_set_atomicity(file: Raw, flag: c_int) =
        |real| access::set_atomicity(file, flag, || real(file, flag));
    fn MPI_File_get_atomicity PMPI_File_get_atomicity(file: Raw, flag: *mut c_int) =
        |real| access::atomicity(file, flag, || real(file, flag));
}
