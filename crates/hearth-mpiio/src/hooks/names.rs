//! Calls that take a file's name, and those that tell its size.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::sync::Arc;

use hearth_client::FileKey;
use libc::{off_t, stat as Stat, statx as Statx};

use crate::file::{Answer, Cached};
use crate::sys::{at_mut, text};
use crate::table::hooks;
use crate::{fds, job};

hooks! {
    fn stat(path: *const c_char, buf: *mut Stat) -> c_int = |real| sized(real(path, buf), buf);
    fn stat64(path: *const c_char, buf: *mut Stat) -> c_int = |real| sized(real(path, buf), buf);
    fn lstat(path: *const c_char, buf: *mut Stat) -> c_int = |real| sized(real(path, buf), buf);
    fn lstat64(path: *const c_char, buf: *mut Stat) -> c_int = |real| sized(real(path, buf), buf);
    fn fstat(fd: c_int, buf: *mut Stat) -> c_int = |real| sized(real(fd, buf), buf);
    fn fstat64(fd: c_int, buf: *mut Stat) -> c_int = |real| sized(real(fd, buf), buf);
    fn fstatat(dir: c_int, path: *const c_char, buf: *mut Stat, flags: c_int) -> c_int =
        |real| sized(real(dir, path, buf, flags), buf);
    fn fstatat64(dir: c_int, path: *const c_char, buf: *mut Stat, flags: c_int) -> c_int =
        |real| sized(real(dir, path, buf, flags), buf);
    fn __xstat(version: c_int, path: *const c_char, buf: *mut Stat) -> c_int =
        |real| sized(real(version, path, buf), buf);
    fn __xstat64(version: c_int, path: *const c_char, buf: *mut Stat) -> c_int =
        |real| sized(real(version, path, buf), buf);
    fn __lxstat(version: c_int, path: *const c_char, buf: *mut Stat) -> c_int =
        |real| sized(real(version, path, buf), buf);
    fn __lxstat64(version: c_int, path: *const c_char, buf: *mut Stat) -> c_int =
        |real| sized(real(version, path, buf), buf);
    fn __fxstat(version: c_int, fd: c_int, buf: *mut Stat) -> c_int =
        |real| sized(real(version, fd, buf), buf);
    fn __fxstat64(version: c_int, fd: c_int, buf: *mut Stat) -> c_int =
        |real| sized(real(version, fd, buf), buf);
    fn statx(dir: c_int, path: *const c_char, flags: c_int, mask: c_uint, buf: *mut Statx) -> c_int =
        |real| sized_x(real(dir, path, flags, mask, buf), buf);

    fn truncate(path: *const c_char, size: off_t) -> c_int =
        |real| match writable(text(path)) {
            None => real(path, size),
            Some((fd, file)) => crate::open::duplicate(fd)
                .and_then(|own| file.truncate(own, size))
                .answer(),
        };
    fn truncate64(path: *const c_char, size: off_t) -> c_int =
        |real| match writable(text(path)) {
            None => real(path, size),
            Some((fd, file)) => crate::open::duplicate(fd)
                .and_then(|own| file.truncate(own, size))
                .answer(),
        };
    fn unlink(path: *const c_char) -> c_int = |real| losing(libc::AT_FDCWD, path, || real(path));
    fn unlinkat(dir: c_int, path: *const c_char, flags: c_int) -> c_int = |real| losing(dir, path, || real(dir, path, flags));
    fn remove(path: *const c_char) -> c_int = |real| losing(libc::AT_FDCWD, path, || real(path));
    fn rename(from: *const c_char, to: *const c_char) -> c_int = |real| losing(libc::AT_FDCWD, to, || real(from, to));
}

/// Puts the size that the cache knows into what the store said.
fn sized(done: c_int, buf: *mut Stat) -> c_int {
    if done == 0
        && fds::any()
        && let Some(stat) = at_mut(buf)
        && job::is_device(stat.st_dev)
        && let Some(size) = size_of(stat.st_ino)
    {
        stat.st_size = size.cast_signed();
    }
    done
}

fn sized_x(done: c_int, buf: *mut Statx) -> c_int {
    if done == 0
        && fds::any()
        && let Some(stat) = at_mut(buf)
        && job::is_device(libc::makedev(stat.stx_dev_major, stat.stx_dev_minor))
        && let Some(size) = size_of(stat.stx_ino)
    {
        stat.stx_size = size;
    }
    done
}

fn size_of(ino: u64) -> Option<u64> {
    fds::of_file(FileKey { ino })?.known_size().ok()?
}

fn key_of(dir: c_int, path: Option<&CStr>) -> Option<FileKey> {
    if !fds::any() {
        return None;
    }
    let dir = match dir {
        libc::AT_FDCWD => rustix::fs::CWD,
        dir if dir >= 0 => crate::sys::borrow(dir),
        _ => return None,
    };
    let stat = rustix::fs::statat(dir, path?, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).ok()?;
    job::is_of_store(&stat).then_some(FileKey { ino: stat.st_ino })
}

fn writable(path: Option<&CStr>) -> Option<(c_int, Arc<Cached>)> {
    fds::writable(key_of(libc::AT_FDCWD, path)?)
}

/// A call that takes a name away: what is cached of its file goes to the store first.
fn losing(dir: c_int, path: *const c_char, real: impl FnOnce() -> c_int) -> c_int {
    let file = key_of(dir, text(path)).and_then(fds::of_file);
    let file = file.filter(|file| file.detach());
    let done = real();
    if let Some(file) = file {
        let errno = crate::sys::errno();
        file.detached(done == 0);
        crate::sys::set_errno(errno);
    }
    done
}
