//! The system calls that rustix does not offer. The only unsafe code of the crate.

use std::cell::OnceCell;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::errors::raw;

/// The operation of a byte-range lock, in `fcntl(2)`'s numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeLock {
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub kind: i32,
    /// First byte.
    pub start: u64,
    /// Last byte, inclusive, as FUSE has it; `i64::MAX` is the end of the file.
    pub end: u64,
}

/// Sets or clears an open-file-description lock, without waiting.
pub fn set_lock(fd: BorrowedFd<'_>, lock: RangeLock) -> io::Result<()> {
    lock_call(fd, libc::F_OFD_SETLK, lock).map(|_| ())
}

/// The lock that would stand in the way, or one of kind `F_UNLCK`.
pub fn test_lock(fd: BorrowedFd<'_>, lock: RangeLock) -> io::Result<RangeLock> {
    let found = lock_call(fd, libc::F_OFD_GETLK, lock)?;
    let start = u64::try_from(found.l_start).unwrap_or(0);
    let end = match u64::try_from(found.l_len) {
        Ok(len) if len > 0 => start + len - 1,
        Ok(_) | Err(_) => i64::MAX as u64,
    };
    Ok(RangeLock {
        kind: i32::from(found.l_type),
        start,
        end,
    })
}

fn lock_call(fd: BorrowedFd<'_>, command: i32, lock: RangeLock) -> io::Result<libc::flock> {
    let length = if lock.end >= i64::MAX as u64 {
        0
    } else {
        lock.end - lock.start + 1
    };
    let offset = |value: u64| i64::try_from(value).map_err(|_| raw(libc::EOVERFLOW));
    let mut call = libc::flock {
        l_type: lock.kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: offset(lock.start)?,
        l_len: offset(length)?,
        l_pid: 0,
    };
    // SAFETY: the descriptor is borrowed for the call, and `call` is a live `struct flock` of ours
    // that the kernel reads and, for F_OFD_GETLK, overwrites.
    let result = unsafe { libc::fcntl(fd.as_raw_fd(), command, &mut call) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(call)
    }
}

/// Takes over a descriptor that an agent has left behind under this number. To be called for such numbers alone, each once:
/// nobody else in this process may have it.
pub fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: asks about a number, which may be that of nothing.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open. The ledger of the agent that is gone names it, or it is of the device of its mount; so its owner
    // is gone, and nobody else in this process has it. Each number is adopted once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Puts another file behind a descriptor that somebody holds.
pub(crate) fn replace(held: BorrowedFd<'_>, by: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both are borrowed for the call. The number stays that of its owner, and is closed by it.
    match unsafe { libc::dup3(by.as_raw_fd(), held.as_raw_fd(), libc::O_CLOEXEC) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `FUSE_DEV_IOC_CLONE`: makes a fresh descriptor of the device one of a mount.
pub(crate) fn join_mount(fresh: BorrowedFd<'_>, mounted: BorrowedFd<'_>) -> io::Result<()> {
    const CLONE: libc::Ioctl = 0x8004_e500;
    let mut number = mounted.as_raw_fd();
    // SAFETY: the descriptors are borrowed for the call, which reads one integer of ours.
    match unsafe { libc::ioctl(fresh.as_raw_fd(), CLONE, &mut number) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets the user whom the calling thread is to the file system.
pub(crate) fn set_fs_uid(uid: u32) -> io::Result<()> {
    // SAFETY: takes and returns integers; affects the calling thread only.
    let now = unsafe {
        libc::setfsuid(uid);
        libc::setfsuid(u32::MAX)
    };
    if now as u32 == uid {
        Ok(())
    } else {
        Err(raw(libc::EPERM))
    }
}

/// Sets the group whom the calling thread is to the file system.
pub(crate) fn set_fs_gid(gid: u32) -> io::Result<()> {
    // SAFETY: takes and returns integers; affects the calling thread only.
    let now = unsafe {
        libc::setfsgid(gid);
        libc::setfsgid(u32::MAX)
    };
    if now as u32 == gid {
        Ok(())
    } else {
        Err(raw(libc::EPERM))
    }
}

thread_local! {
    /// Set once this thread has a file creation mask of its own.
    static OWN_MASK: OnceCell<()> = const { OnceCell::new() };
}

/// Gives the calling thread a program's file creation mask, which the store applies unless the
/// directory has a default access control list. The rest of the process keeps its own.
pub fn put_on_mask(mask: u32) -> io::Result<()> {
    if OWN_MASK.with(|done| done.get().is_none()) {
        // SAFETY: takes an integer. The thread gets copies of root, working directory and mask; nobody
        // relies on sharing them with it.
        if unsafe { libc::unshare(libc::CLONE_FS) } != 0 {
            return Err(io::Error::last_os_error());
        }
        OWN_MASK
            .with(|done| done.set(()))
            .expect("only this thread sets it, and it was not set");
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(mask & 0o777));
    Ok(())
}
