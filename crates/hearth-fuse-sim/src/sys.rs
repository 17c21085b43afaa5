//! System calls that `rustix` does not offer: no program of a world locks, and all are one user's.

use real_rustix::fs::Mode;
use std::io;
use std::os::fd::BorrowedFd;

/// As the front end has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeLock {
    /// Its kind.
    pub(crate) kind: i32,
    /// First byte.
    pub(crate) start: u64,
    /// Last byte.
    pub(crate) end: u64,
}

fn none<T>() -> io::Result<T> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}

/// Not in these worlds.
pub(crate) fn set_lock(_: BorrowedFd<'_>, _: RangeLock) -> io::Result<()> {
    none()
}

/// Likewise.
pub(crate) fn test_lock(_: BorrowedFd<'_>, _: RangeLock) -> io::Result<RangeLock> {
    none()
}

/// Likewise.
pub(crate) fn set_fs_uid(_: u32) -> io::Result<()> {
    none()
}

/// Likewise.
pub(crate) fn set_fs_gid(_: u32) -> io::Result<()> {
    none()
}

/// All programs have the same mask, and so has this process.
pub(crate) fn put_on_mask(mask: u32) -> io::Result<()> {
    real_rustix::process::umask(Mode::from_raw_mode(mask & 0o777));
    Ok(())
}
