//! Calls that the standard library has not: through the C library, as programs make them, so that
//! the library of `hearth run` stands before them.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};

/// Closes a file, and says how that went.
pub(crate) fn close(file: File) -> io::Result<()> {
    // SAFETY: the descriptor was this file's alone, which is gone.
    checked(unsafe { libc::close(file.into_raw_fd()) })
}

/// Locks a whole file for this process alone; waits for it.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    fcntl_lock(file, libc::F_WRLCK)
}

/// Gives such a lock back.
pub(crate) fn unlock(file: &File) -> io::Result<()> {
    fcntl_lock(file, libc::F_UNLCK)
}

fn fcntl_lock(file: &File, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: a `flock` of zeros is a valid one: the whole file.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind as libc::c_short;
    range.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: the descriptor is open, and the structure lives as long as the call.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLKW, &raw mut range) })
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A file in this process's memory.
#[derive(Debug)]
pub(crate) struct Mapping {
    at: *mut libc::c_void,
    len: usize,
}

impl Mapping {
    /// Maps the first `len` bytes of a file, shared, for reading.
    pub(crate) fn of(file: &File, len: u64) -> io::Result<Mapping> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        let fd = file.as_raw_fd();
        // SAFETY: a fresh mapping at a place of the operating system's choice.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_SHARED,
                fd,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { at, len })
    }

    /// The word at an offset, which is a multiple of 8.
    pub(crate) fn word(&self, offset: u64) -> u64 {
        let offset = self.checked(offset);
        // SAFETY: within the mapping and aligned; others change it, so it is read as one volatile
        // word. Files that are mapped are never shortened in a round.
        u64::from_le(unsafe { self.at.byte_add(offset).cast::<u64>().read_volatile() })
    }

    fn checked(&self, offset: u64) -> usize {
        let offset = usize::try_from(offset).expect("offsets of a mapping fit");
        assert!(
            offset.is_multiple_of(8) && offset + 8 <= self.len,
            "a word within the mapping"
        );
        offset
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nobody has a reference into it.
        unsafe { libc::munmap(self.at, self.len) };
    }
}
