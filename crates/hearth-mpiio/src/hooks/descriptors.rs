//! Calls that make, copy, ask and end descriptors.

use std::ffi::{c_char, c_int, c_uint, c_ulong};

use libc::mode_t;

use crate::file::Answer;
use crate::open::{close as closing, duplicated, open as opening};
use crate::table::hooks;
use crate::{fds, locks};

const CREATES: c_int = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;

hooks! {
    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        |real| opening(libc::AT_FDCWD, path, flags, |flags| real(path, flags, mode));
    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        |real| opening(libc::AT_FDCWD, path, flags, |flags| real(path, flags, mode));
    fn __open_2(path: *const c_char, flags: c_int) -> c_int =
        |real| opening(libc::AT_FDCWD, path, flags, |flags| real(path, flags));
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int =
        |real| opening(libc::AT_FDCWD, path, flags, |flags| real(path, flags));
    fn openat(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        |real| opening(dir, path, flags, |flags| real(dir, path, flags, mode));
    fn openat64(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        |real| opening(dir, path, flags, |flags| real(dir, path, flags, mode));
    fn __openat_2(dir: c_int, path: *const c_char, flags: c_int) -> c_int =
        |real| opening(dir, path, flags, |flags| real(dir, path, flags));
    fn __openat64_2(dir: c_int, path: *const c_char, flags: c_int) -> c_int =
        |real| opening(dir, path, flags, |flags| real(dir, path, flags));
    fn creat(path: *const c_char, mode: mode_t) -> c_int =
        |real| opening(libc::AT_FDCWD, path, CREATES, |_| real(path, mode));
    fn creat64(path: *const c_char, mode: mode_t) -> c_int =
        |real| opening(libc::AT_FDCWD, path, CREATES, |_| real(path, mode));

    fn close(fd: c_int) -> c_int = |real| closing(fd, real);
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int = |real| {
        if flags.cast_unsigned() & libc::CLOSE_RANGE_CLOEXEC == 0 {
            forget(first, last);
        }
        real(first, last, flags)
    };

    fn dup(fd: c_int) -> c_int = |real| duplicated(fd, real(fd));
    fn dup2(from: c_int, to: c_int) -> c_int = |real| duplicated(from, real(from, to));
    fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int =
        |real| duplicated(from, real(from, to, flags));
    fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int =
        |real| control(fd, command, argument, real);
    fn fcntl64(fd: c_int, command: c_int, argument: c_ulong) -> c_int =
        |real| control(fd, command, argument, real);
}

fn control(
    fd: c_int,
    command: c_int,
    argument: c_ulong,
    real: impl Fn(c_int, c_int, c_ulong) -> c_int,
) -> c_int {
    if fds::find(fd).is_none() {
        return real(fd, command, argument);
    }
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicated(fd, real(fd, command, argument)),
        libc::F_SETLK | libc::F_SETLKW | libc::F_GETLK => {
            let place = std::ptr::with_exposed_provenance_mut(argument as usize);
            match locks::control(fd, command, place) {
                Some(done) => done.answer(),
                None => real(fd, command, argument),
            }
        }
        _ => real(fd, command, argument),
    }
}

/// Descriptors of a range are about to be closed behind the functions that close one.
fn forget(first: c_uint, last: c_uint) {
    for (fd, _) in fds::all() {
        if (first..=last).contains(&fd.cast_unsigned())
            && let Some(cached) = fds::remove(fd)
            && let Err(error) = cached.flush()
        {
            log::warn!("cannot flush {}: {error}", cached.path().display());
        }
    }
}
