//! Calls that open files by name. The mode comes last, and is there only if a file may be made; a
//! register that nobody set is handed on as it is.

use std::ffi::{c_char, c_int};

use libc::mode_t;

use crate::call::opening;
use crate::gone;
use crate::names::At;
use crate::table::hooks;

/// How `mkstemp` and its kin open.
const TEMPORARY: c_int = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
/// How `creat` opens.
const CREATE: c_int = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;

hooks! {
    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        |real| opening(At::cwd(path), flags, || gone::opening(At::cwd(path), flags, real));
    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        |real| opening(At::cwd(path), flags, || gone::opening(At::cwd(path), flags, real));
    fn __open_2(path: *const c_char, flags: c_int) -> c_int =
        |real| opening(At::cwd(path), flags, || gone::opening(At::cwd(path), flags, real));
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int =
        |real| opening(At::cwd(path), flags, || gone::opening(At::cwd(path), flags, real));
    fn openat(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        |real| opening(At { dir, path }, flags, || gone::opening(At { dir, path }, flags, real));
    fn openat64(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        |real| opening(At { dir, path }, flags, || gone::opening(At { dir, path }, flags, real));
    fn __openat_2(dir: c_int, path: *const c_char, flags: c_int) -> c_int =
        |real| opening(At { dir, path }, flags, || gone::opening(At { dir, path }, flags, real));
    fn __openat64_2(dir: c_int, path: *const c_char, flags: c_int) -> c_int =
        |real| opening(At { dir, path }, flags, || gone::opening(At { dir, path }, flags, real));
    fn creat(path: *const c_char, mode: mode_t) -> c_int =
        |real| opening(At::cwd(path), CREATE, real);
    fn creat64(path: *const c_char, mode: mode_t) -> c_int =
        |real| opening(At::cwd(path), CREATE, real);
    fn mkstemp(path: *mut c_char) -> c_int =
        |real| opening(At::cwd(path), TEMPORARY, real);
    fn mkstemp64(path: *mut c_char) -> c_int =
        |real| opening(At::cwd(path), TEMPORARY, real);
    fn mkostemp(path: *mut c_char, flags: c_int) -> c_int =
        |real| opening(At::cwd(path), TEMPORARY | flags, real);
    fn mkostemp64(path: *mut c_char, flags: c_int) -> c_int =
        |real| opening(At::cwd(path), TEMPORARY | flags, real);
    fn mkstemps(path: *mut c_char, suffix: c_int) -> c_int =
        |real| opening(At::cwd(path), TEMPORARY, real);
    fn mkstemps64(path: *mut c_char, suffix: c_int) -> c_int =
        |real| opening(At::cwd(path), TEMPORARY, real);
    fn mkostemps(path: *mut c_char, suffix: c_int, flags: c_int) -> c_int =
        |real| opening(At::cwd(path), TEMPORARY | flags, real);
    fn mkostemps64(path: *mut c_char, suffix: c_int, flags: c_int) -> c_int =
        |real| opening(At::cwd(path), TEMPORARY | flags, real);
}
