//! Calls that make, copy and end descriptors. A descriptor of no file is forgotten, so that its
//! number loses its old meaning.

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};

use hearth_trace::Op;
use libc::{FILE, sockaddr, socklen_t};

use crate::call::{closing, duplicating, making, making_two, on};
use crate::table::hooks;
use crate::{fds, gone, life, streams};

hooks! {
    fn close(fd: c_int) -> c_int = |real| gone::closing(fd, || closing(fd, real));
    fn closefrom(first: c_int) -> () = |real| {
        fds::forget_range(first.max(0).cast_unsigned(), c_uint::MAX);
        real()
    };
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int = |real| {
        if flags.cast_unsigned() & libc::CLOSE_RANGE_CLOEXEC == 0 {
            fds::forget_range(first, last);
        }
        real()
    };

    fn dup(fd: c_int) -> c_int = |real| duplicating(fd, real);
    fn dup2(from: c_int, to: c_int) -> c_int = |real| duplicating(from, real);
    fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int = |real| duplicating(from, real);
    fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int =
        |real| control(fd, command, real);
    fn fcntl64(fd: c_int, command: c_int, argument: c_ulong) -> c_int =
        |real| control(fd, command, real);
    fn ioctl(fd: c_int, request: c_ulong, argument: c_ulong) -> c_int = |real| match request {
        libc::FICLONE => on(Op::Copy, c_int::try_from(argument).unwrap_or(-1)).call(real),
        _ => real(),
    };

    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int = |real| making(real);
    fn accept(fd: c_int, address: *mut sockaddr, size: *mut socklen_t) -> c_int = |real| making(real);
    fn accept4(fd: c_int, address: *mut sockaddr, size: *mut socklen_t, flags: c_int) -> c_int =
        |real| making(real);
    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, made: *mut c_int) -> c_int =
        |real| making_two(made, real);
    fn pipe(made: *mut c_int) -> c_int = |real| making_two(made, real);
    fn pipe2(made: *mut c_int, flags: c_int) -> c_int = |real| making_two(made, real);
    fn eventfd(value: c_uint, flags: c_int) -> c_int = |real| making(real);
    fn epoll_create(size: c_int) -> c_int = |real| making(real);
    fn epoll_create1(flags: c_int) -> c_int = |real| making(real);
    fn timerfd_create(clock: c_int, flags: c_int) -> c_int = |real| making(real);
    fn signalfd(fd: c_int, mask: *const c_void, flags: c_int) -> c_int = |real| making(real);
    fn inotify_init() -> c_int = |real| making(real);
    fn inotify_init1(flags: c_int) -> c_int = |real| making(real);
    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int = |real| making(real);
    fn shm_open(name: *const c_char, flags: c_int, mode: c_uint) -> c_int = |real| making(real);
    fn open_by_handle_at(mount: c_int, handle: *mut c_void, flags: c_int) -> c_int =
        |real| making(real);
    fn posix_openpt(flags: c_int) -> c_int = |real| making(real);
    fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE = |real| {
        fds::forked();
        let file = real();
        streams::forget(file);
        file
    };
    fn pclose(file: *mut FILE) -> c_int = |real| {
        streams::forget(file);
        real()
    };
}

fn control(fd: c_int, command: c_int, real: impl FnOnce() -> c_int) -> c_int {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicating(fd, real),
        libc::F_SETFL => {
            let done = real();
            if done >= 0 && life::is_own_memory() {
                fds::flags_changed(fd);
            }
            done
        }
        libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW => {
            on(Op::Lock, fd).call(real)
        }
        _ => real(),
    }
}
