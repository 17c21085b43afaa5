//! The calls of the command to the system and its library that Rust cannot check.

#![allow(
    unsafe_code,
    reason = "nothing else in this crate may; each block says why it is sound"
)]

use std::fs::{self, File};
use std::io;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd, RawFd};

use rustix::process::Pid;
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// A thread's own view of some of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Namespaces {
    /// Mounts; needs root.
    Mounts,
    /// Users, and with the rights inside of it, mounts.
    UsersAndMounts,
}

/// Moves this process, which must have one thread, into namespaces of its own.
pub(crate) fn unshare(namespaces: Namespaces) -> io::Result<()> {
    let flags = match namespaces {
        Namespaces::Mounts => UnshareFlags::NEWNS,
        Namespaces::UsersAndMounts => UnshareFlags::NEWUSER | UnshareFlags::NEWNS,
    };
    // SAFETY: descriptors stay shared, since `FILES` is in neither of the two sets of flags.
    unsafe { unshare_unsafe(flags) }.map_err(io::Error::from)
}

/// Closes every descriptor above the three standard ones. The starting command inherited them, and the agent would hold
/// them open for as long as it lives.
///
/// Called first thing, before this process has opened anything itself.
pub(crate) fn close_inherited() -> io::Result<()> {
    let open: Vec<RawFd> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2)
        .collect();
    for fd in open {
        // The listing had one too, which is closed by now.
        if fs::symlink_metadata(format!("/proc/self/fd/{fd}")).is_err() {
            continue;
        }
        // SAFETY: nothing in this process owns a descriptor above 2 yet, so none is closed behind
        // its owner's back; that it is open was seen above, and there is no other thread.
        unsafe { rustix::io::close(fd) };
    }
    Ok(())
}

/// Gives memory that is free back to the operating system, where the library can.
pub(crate) fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number, and touches nothing but what is free.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Closes a file, and says how that went: what was written may be refused there.
pub(crate) fn close(file: File) -> io::Result<()> {
    // SAFETY: the descriptor was the file's alone, which is gone, and it is not used again.
    unsafe { rustix::io::try_close(file.into_raw_fd()) }.map_err(io::Error::from)
}

/// The two processes of a [`split`].
pub(crate) enum Half {
    /// The one that was there before, and the number of the other.
    Old(Pid),
    /// The one that has begun.
    New,
}

/// Begins a process that has a copy of this one's memory and shares its descriptors: what either of them opens or closes,
/// it opens or closes for both. They last until both processes are over. This process must have one thread.
pub(crate) fn split() -> io::Result<Half> {
    begin_process(libc::CLONE_FILES)
}

/// The same with a table of descriptors of its own: whatever it closes, and whenever, is closed for itself alone.
pub(crate) fn split_apart() -> io::Result<Half> {
    begin_process(0)
}

fn begin_process(shared: libc::c_int) -> io::Result<Half> {
    let flags = libc::c_long::from(shared | libc::SIGCHLD);
    // SAFETY: memory is not shared, and no stack is given: as after `fork`, the new process goes on with a copy of its own.
    // There is one thread, so no lock of the library is held by one that the new process lacks.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
        0 => Ok(Half::New),
        pid => i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .filter(|pid| pid.as_raw_nonzero().get() > 0)
            .map(Half::Old)
            .ok_or_else(io::Error::last_os_error),
    }
}

/// A descriptor of its own for what a number stands for.
pub(crate) fn copy_of(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: it is looked at only while this call lasts; one that is not open is refused.
    let copy = rustix::io::fcntl_dupfd_cloexec(unsafe { BorrowedFd::borrow_raw(fd) }, 3)?;
    Ok(copy)
}
