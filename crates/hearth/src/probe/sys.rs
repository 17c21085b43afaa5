//! Locks, mappings and handles of probes.

#![allow(
    unsafe_code,
    reason = "calls that no library of ours offers; each block says why it is sound"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

/// Longest handle of any file system.
const HANDLE_MAX: usize = 128;

/// Takes or returns a lock of an open file description, without waiting.
pub(super) fn lock_description(file: &File, take: bool) -> io::Result<()> {
    let kind = if take { libc::F_WRLCK } else { libc::F_UNLCK };
    // SAFETY: all zeros is a `flock`: the whole file, and no process.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind as libc::c_short;
    // SAFETY: the descriptor is open, and the kernel reads a `flock` that lives until the call ends.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &range) };
    checked(done.into()).map(drop)
}

/// Stores bytes by a shared mapping, if there are any, and returns what the mapping shows.
///
/// The file is longer than `len`.
pub(super) fn through_mapping(
    file: &File,
    len: usize,
    store: Option<&[u8]>,
) -> io::Result<Vec<u8>> {
    let protection = match store {
        Some(_) => ProtFlags::READ | ProtFlags::WRITE,
        None => ProtFlags::READ,
    };
    let hint = std::ptr::null_mut();
    // SAFETY: a new mapping, of which nobody else knows, and which is taken away below.
    let at = unsafe { mmap(hint, len, protection, MapFlags::SHARED, file, 0) }?;
    let mut shown = vec![0; len];
    let mut synced = Ok(());
    if let Some(bytes) = store {
        let count = bytes.len().min(len);
        // SAFETY: the mapping is writable and `len` long; `bytes` lies elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at.cast(), count) };
        // SAFETY: the whole of the mapping.
        synced = unsafe { msync(at, len, MsyncFlags::SYNC) };
    }
    // SAFETY: the mapping is readable and `len` long, as is the buffer.
    unsafe { std::ptr::copy_nonoverlapping(at.cast::<u8>(), shown.as_mut_ptr(), len) };
    // SAFETY: nothing points there any more.
    unsafe { munmap(at, len) }?;
    synced?;
    Ok(shown)
}

/// A handle as the operating system writes it.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    data: [u8; HANDLE_MAX],
}

/// Asks for a file's handle, and opens the file by it.
pub(super) fn open_by_handle(dir: &File, path: &Path) -> io::Result<File> {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    let mut handle = Handle {
        bytes: HANDLE_MAX as u32,
        kind: 0,
        data: [0; HANDLE_MAX],
    };
    let mut mount: libc::c_int = 0;
    let (none, here) = (AtFlags::empty().bits(), CWD.as_raw_fd());
    // SAFETY: the path ends with a zero, and the handle has the room that it says.
    let got = unsafe {
        let call = libc::SYS_name_to_handle_at;
        libc::syscall(
            call,
            here,
            path.as_ptr(),
            &raw mut handle,
            &raw mut mount,
            none,
        )
    };
    checked(got)?;
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the handle is as the kernel wrote it.
    let opened = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            dir.as_raw_fd(),
            &raw const handle,
            flags,
        )
    };
    let fd = i32::try_from(checked(opened)?).map_err(io::Error::other)?;
    // SAFETY: a new descriptor, which nobody else has.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

fn checked(done: libc::c_long) -> io::Result<libc::c_long> {
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(done)
}
