//! Files by their names below the root of a mount.

use std::os::fd::{BorrowedFd, IntoRawFd, RawFd};

use pyo3::prelude::*;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use crate::memory;
use crate::os_error;

/// Times that a walk is made again because somebody moved a directory meanwhile.
const WALKS_MAX: u32 = 64;

/// Opens a name below the directory `root`, and returns the descriptor. A way out of the directory fails with EXDEV: what lies
/// there is not of the mount.
#[pyfunction]
pub(crate) fn open_beneath(
    py: Python<'_>,
    root: RawFd,
    path: &[u8],
    flags: u32,
    mode: u32,
) -> PyResult<RawFd> {
    let root = memory::borrowed(root)?;
    for _ in 0..WALKS_MAX {
        match py.detach(|| open(root, path, flags, mode)) {
            Ok(fd) => return Ok(fd),
            Err(Errno::INTR) => py.check_signals()?,
            Err(Errno::AGAIN) => {}
            Err(error) => return Err(os_error(error)),
        }
    }
    Err(os_error(Errno::AGAIN))
}

fn open(root: BorrowedFd<'_>, path: &[u8], flags: u32, mode: u32) -> Result<RawFd, Errno> {
    let flags = OFlags::from_bits_retain(flags) | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let fd = openat2(root, path, flags, Mode::from_raw_mode(mode), within)?;
    Ok(fd.into_raw_fd())
}
