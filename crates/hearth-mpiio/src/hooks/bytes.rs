//! Calls that move bytes, say where the next one begins, and make them safe.

use std::ffi::{c_int, c_void};
use std::io;

use libc::{iovec, off_t, size_t, ssize_t};

use crate::fds;
use crate::file::{Answer, Cached, Offset};
use crate::memory::Memory;
use crate::table::hooks;

hooks! {
    fn read(fd: c_int, buf: *mut c_void, count: size_t) -> ssize_t = |real| match fds::find(fd) {
        None => real(fd, buf, count),
        Some(file) => file.read(fd, Memory::one(buf, count), Offset::Own).answer(),
    };
    fn __read_chk(fd: c_int, buf: *mut c_void, count: size_t, room: size_t) -> ssize_t =
        |real| match fds::find(fd) {
            None => real(fd, buf, count, room),
            Some(file) => file.read(fd, Memory::one(buf, count.min(room)), Offset::Own).answer(),
        };
    fn readv(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t = |real| match fds::find(fd) {
        None => real(fd, vector, count),
        Some(file) => file.read(fd, Memory::many(vector, count), Offset::Own).answer(),
    };
    fn pread(fd: c_int, buf: *mut c_void, count: size_t, offset: off_t) -> ssize_t =
        |real| match fds::find(fd) {
            None => real(fd, buf, count, offset),
            Some(file) => read_at(&file, fd, Memory::one(buf, count), offset).answer(),
        };
    fn pread64(fd: c_int, buf: *mut c_void, count: size_t, offset: off_t) -> ssize_t =
        |real| match fds::find(fd) {
            None => real(fd, buf, count, offset),
            Some(file) => read_at(&file, fd, Memory::one(buf, count), offset).answer(),
        };
    fn __pread_chk(fd: c_int, buf: *mut c_void, count: size_t, offset: off_t, room: size_t) -> ssize_t =
        |real| match fds::find(fd) {
            None => real(fd, buf, count, offset, room),
            Some(file) => read_at(&file, fd, Memory::one(buf, count.min(room)), offset).answer(),
        };
    fn __pread64_chk(fd: c_int, buf: *mut c_void, count: size_t, offset: off_t, room: size_t) -> ssize_t =
        |real| match fds::find(fd) {
            None => real(fd, buf, count, offset, room),
            Some(file) => read_at(&file, fd, Memory::one(buf, count.min(room)), offset).answer(),
        };
    fn preadv(fd: c_int, vector: *const iovec, count: c_int, offset: off_t) -> ssize_t =
        |real| match fds::find(fd) {
            None => real(fd, vector, count, offset),
            Some(file) => read_at(&file, fd, Memory::many(vector, count), offset).answer(),
        };
    fn preadv64(fd: c_int, vector: *const iovec, count: c_int, offset: off_t) -> ssize_t =
        |real| match fds::find(fd) {
            None => real(fd, vector, count, offset),
            Some(file) => read_at(&file, fd, Memory::many(vector, count), offset).answer(),
        };
    fn preadv2(fd: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t =
        |real| match fds::find(fd) {
            None => real(fd, vector, count, offset, flags),
            Some(file) => file.read(fd, Memory::many(vector, count), own_or(offset)).answer(),
        };
    fn preadv64v2(fd: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t =
        |real| match fds::find(fd) {
            None => real(fd, vector, count, offset, flags),
            Some(file) => file.read(fd, Memory::many(vector, count), own_or(offset)).answer(),
        };

    fn write(fd: c_int, buf: *const c_void, count: size_t) -> ssize_t = |real| match fds::find(fd) {
        None => real(fd, buf, count),
        Some(file) => file.write(fd, &Memory::one(buf, count), Offset::Own).answer(),
    };
    fn writev(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t = |real| match fds::find(fd) {
        None => real(fd, vector, count),
        Some(file) => file.write(fd, &Memory::many(vector, count), Offset::Own).answer(),
    };
    fn pwrite(fd: c_int, buf: *const c_void, count: size_t, offset: off_t) -> ssize_t =
        |real| match fds::find(fd) {
            None => real(fd, buf, count, offset),
            Some(file) => write_at(&file, fd, &Memory::one(buf, count), offset).answer(),
        };
    fn pwrite64(fd: c_int, buf: *const c_void, count: size_t, offset: off_t) -> ssize_t =
        |real| match fds::find(fd) {
            None => real(fd, buf, count, offset),
            Some(file) => write_at(&file, fd, &Memory::one(buf, count), offset).answer(),
        };
    fn pwritev(fd: c_int, vector: *const iovec, count: c_int, offset: off_t) -> ssize_t =
        |real| match fds::find(fd) {
            None => real(fd, vector, count, offset),
            Some(file) => write_at(&file, fd, &Memory::many(vector, count), offset).answer(),
        };
    fn pwritev64(fd: c_int, vector: *const iovec, count: c_int, offset: off_t) -> ssize_t =
        |real| match fds::find(fd) {
            None => real(fd, vector, count, offset),
            Some(file) => write_at(&file, fd, &Memory::many(vector, count), offset).answer(),
        };
    fn pwritev2(fd: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t =
        |real| match fds::find(fd) {
            None => real(fd, vector, count, offset, flags),
            Some(file) => file.write(fd, &Memory::many(vector, count), own_or(offset)).answer(),
        };
    fn pwritev64v2(fd: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t =
        |real| match fds::find(fd) {
            None => real(fd, vector, count, offset, flags),
            Some(file) => file.write(fd, &Memory::many(vector, count), own_or(offset)).answer(),
        };

    fn lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t = |real| match fds::find(fd) {
        None => real(fd, offset, whence),
        Some(file) => file.seek(fd, offset, whence).answer(),
    };
    fn lseek64(fd: c_int, offset: off_t, whence: c_int) -> off_t = |real| match fds::find(fd) {
        None => real(fd, offset, whence),
        Some(file) => file.seek(fd, offset, whence).answer(),
    };
    fn ftruncate(fd: c_int, size: off_t) -> c_int = |real| match fds::find(fd) {
        None => real(fd, size),
        Some(file) => truncate(&file, fd, size).answer(),
    };
    fn ftruncate64(fd: c_int, size: off_t) -> c_int = |real| match fds::find(fd) {
        None => real(fd, size),
        Some(file) => truncate(&file, fd, size).answer(),
    };
    fn fsync(fd: c_int) -> c_int = |real| match fds::find(fd) {
        None => real(fd),
        Some(file) => file.sync(fd).answer(),
    };
    fn fdatasync(fd: c_int) -> c_int = |real| match fds::find(fd) {
        None => real(fd),
        Some(file) => file.sync(fd).answer(),
    };
    fn posix_fallocate(fd: c_int, offset: off_t, size: off_t) -> c_int = |real| match fds::find(fd) {
        None => real(fd, offset, size),
        Some(file) => number(file.allocate(fd, offset, size)),
    };
    fn posix_fallocate64(fd: c_int, offset: off_t, size: off_t) -> c_int = |real| match fds::find(fd) {
        None => real(fd, offset, size),
        Some(file) => number(file.allocate(fd, offset, size)),
    };
    fn fallocate(fd: c_int, mode: c_int, offset: off_t, size: off_t) -> c_int =
        |real| match fds::find(fd) {
            None => real(fd, mode, offset, size),
            Some(file) => allocate(&file, fd, (mode, offset, size)).answer(),
        };
    fn fallocate64(fd: c_int, mode: c_int, offset: off_t, size: off_t) -> c_int =
        |real| match fds::find(fd) {
            None => real(fd, mode, offset, size),
            Some(file) => allocate(&file, fd, (mode, offset, size)).answer(),
        };
}

fn read_at(file: &Cached, fd: c_int, into: Memory, offset: off_t) -> io::Result<usize> {
    file.read(fd, into, Offset::given(offset)?)
}

fn write_at(file: &Cached, fd: c_int, from: &Memory, offset: off_t) -> io::Result<usize> {
    file.write(fd, from, Offset::given(offset)?)
}

/// Calls with flags take -1 for the descriptor's own offset.
fn own_or(offset: off_t) -> Offset {
    u64::try_from(offset).map_or(Offset::Own, Offset::At)
}

fn truncate(file: &Cached, fd: c_int, size: off_t) -> io::Result<()> {
    file.truncate(crate::open::duplicate(fd)?, size)
}

/// Only what leaves content alone: other modes would change bytes behind the caches of all ranks.
fn allocate(
    file: &Cached,
    fd: c_int,
    (mode, offset, size): (c_int, off_t, off_t),
) -> io::Result<()> {
    match mode {
        0 => file.allocate(fd, offset, size),
        libc::FALLOC_FL_KEEP_SIZE => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
    }
}

/// As calls return that do not use `errno`.
fn number(result: io::Result<()>) -> c_int {
    result.map_or_else(|error| crate::sys::number_of(&error), |()| 0)
}
