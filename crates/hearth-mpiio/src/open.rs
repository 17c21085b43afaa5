//! Opening, duplicating and closing descriptors of cached files.

use std::ffi::{c_char, c_int};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use hearth_client::extent::Extents;
use hearth_client::{Access, FileKey, FileStamp, OpenFile, Session};
use rustix::fs::{FileType, SeekFrom, Stat};

use crate::file::{Answer, Cached, Opened, ask};
use crate::sys::{borrow, errno, number_of, set_errno, text};
use crate::{aio, fds, job, locks, paths};

const NANOS: i64 = 1_000_000_000;

/// Opens a file; `real` makes the call with flags that may be others.
pub(crate) fn open(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    real: impl Fn(c_int) -> c_int,
) -> c_int {
    let Some(path) = paths::registered(dir, text(path)) else {
        return real(flags);
    };
    let Some(session) = job::session().filter(|_| flags & libc::O_PATH == 0) else {
        return real(flags);
    };
    let fd = open_plain(flags, &real);
    if fd < 0 {
        return fd;
    }
    match admit(&session, fd, &path, flags) {
        Ok(()) => fd,
        Err(error) => {
            let _ = crate::sys::close(fd);
            set_errno(number_of(&error));
            -1
        }
    }
}

/// As the agent wants a descriptor: the store's bytes as they are, nothing done to them yet.
fn open_plain(flags: c_int, real: &impl Fn(c_int) -> c_int) -> c_int {
    let bare = flags & !(libc::O_APPEND | libc::O_TRUNC | libc::O_DIRECT);
    if flags & libc::O_ACCMODE != libc::O_WRONLY {
        return real(bare);
    }
    // The cache reads around a small write, so it wants to read as well.
    let fd = real(bare & !libc::O_ACCMODE | libc::O_RDWR);
    match fd {
        -1 if errno() == libc::EACCES => real(bare),
        _ => fd,
    }
}

fn admit(session: &Arc<dyn Session>, fd: c_int, path: &Path, flags: c_int) -> io::Result<()> {
    let stat = rustix::fs::fstat(borrow(fd))?;
    let cacheable = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !cacheable || stat.st_nlink == 0 || !job::is_of_store(&stat) {
        return plain_again(fd, flags);
    }
    let file = FileKey { ino: stat.st_ino };
    let write = flags & libc::O_ACCMODE != libc::O_RDONLY;
    let open = OpenFile {
        file,
        access: Access {
            read: flags & libc::O_ACCMODE != libc::O_WRONLY,
            write,
        },
        stamp: stamp(&stat),
        private: false,
        made: false,
    };
    let own = Arc::new(duplicate(fd)?);
    let Some(opened) = ask(|done| session.open(open, own, done))? else {
        return plain_again(fd, flags);
    };
    // The number of a file whose last name went meanwhile may soon be that of another: it stays with the store.
    if opened.left && rustix::fs::fstat(borrow(fd))?.st_nlink == 0 {
        session.close(opened.handle);
        return plain_again(fd, flags);
    }
    let cached = Cached::new(
        Arc::clone(session),
        &Opened {
            handle: opened.handle,
            file,
            path,
            flags,
            largest: largest(fd)?,
        },
    );
    if flags & libc::O_TRUNC != 0 && write {
        cached.resize(duplicate(fd)?, 0)?;
    }
    fds::insert(fd, Arc::new(cached))
}

/// The largest size that a file can have, whose descriptor the program does not have yet.
fn largest(fd: c_int) -> io::Result<u64> {
    let largest = Extents::of(borrow(fd)).largest(borrow(fd));
    rustix::fs::seek(borrow(fd), SeekFrom::Start(0))?;
    Ok(largest)
}

/// The descriptor is not cached after all: it does what the program opened it for.
fn plain_again(fd: c_int, flags: c_int) -> io::Result<()> {
    if flags & libc::O_TRUNC != 0 {
        rustix::fs::ftruncate(borrow(fd), 0)?;
    }
    let own = rustix::fs::OFlags::from_bits_retain(flags.cast_unsigned());
    let kept = own & (rustix::fs::OFlags::APPEND | rustix::fs::OFlags::DIRECT);
    if !kept.is_empty() {
        let now = rustix::fs::fcntl_getfl(borrow(fd))?;
        rustix::fs::fcntl_setfl(borrow(fd), now | kept)?;
    }
    Ok(())
}

fn stamp(stat: &Stat) -> FileStamp {
    FileStamp {
        ctime_ns: stat.st_ctime * NANOS + stat.st_ctime_nsec.cast_signed(),
        mtime_ns: stat.st_mtime * NANOS + stat.st_mtime_nsec.cast_signed(),
        size: stat.st_size.cast_unsigned(),
    }
}

/// Another descriptor of the same open file, for the agent.
pub(crate) fn duplicate(fd: c_int) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(borrow(fd), 0)?)
}

/// A descriptor that the program made from another one is of the same file.
pub(crate) fn duplicated(from: c_int, to: c_int) -> c_int {
    if to < 0 || to == from {
        return to;
    }
    // The operating system has closed the descriptor that had this number before.
    drop(fds::remove(to));
    if let Some(cached) = fds::find(from)
        && fds::insert(to, cached).is_err()
    {
        let _ = crate::sys::close(to);
        set_errno(libc::EMFILE);
        return -1;
    }
    to
}

/// Closes a descriptor; a failure to bring its bytes to the store is one to close it.
pub(crate) fn close(fd: c_int, real: impl FnOnce(c_int) -> c_int) -> c_int {
    let Some(cached) = fds::remove(fd) else {
        return real(fd);
    };
    aio::finish(fd);
    let flushed = cached.flush();
    if Arc::strong_count(&cached) == 1 {
        locks::release_all(fd);
    }
    // The session's own descriptor goes with its handle, before the number can be another file's.
    drop(cached);
    match (real(fd), flushed) {
        (0, flushed) => flushed.answer(),
        (failed, _) => failed,
    }
}
