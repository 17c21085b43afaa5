//! Helpers that the tests of the stores share.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use hearth_client::Errno;
use hearth_shm::{FrameIndex, FramePart, Pool, PoolConfig};
use rustix::fs::MemfdFlags;
use rustix::io::Errno as Sys;

use super::{Posix, Store};

pub(super) const FRAME: usize = 4096;
pub(super) const EIO: Errno = Errno(Sys::IO.raw_os_error());
pub(super) const ENOSPC: Errno = Errno(Sys::NOSPC.raw_os_error());

pub(super) fn pool(frames: u32) -> Pool {
    Pool::new(PoolConfig::new(FRAME, frames)).unwrap()
}

pub(super) fn part(frame: u32, offset: usize, len: usize) -> FramePart {
    FramePart {
        frame: FrameIndex(frame),
        offset,
        len,
    }
}

/// A file in memory with some content.
pub(super) fn file(content: &[u8]) -> File {
    let fd = rustix::fs::memfd_create("store-test", MemfdFlags::CLOEXEC).unwrap();
    Posix.write_bytes(fd.as_fd(), 0, content).unwrap();
    File::from(fd)
}

pub(super) fn content(file: impl AsFd) -> Vec<u8> {
    let size = Posix.stamp(file.as_fd()).unwrap().size;
    Posix.read_vec(file.as_fd(), 0, size as usize).unwrap()
}

/// A directory that is removed with all it holds.
pub(super) struct Scratch(PathBuf, File);

impl Scratch {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("hearth-store-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        let dir = File::open(&path).unwrap();
        Self(path, dir)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.1.as_fd()
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A file system of its own, attached to no directory: it is gone with its descriptor.
pub(super) struct TinyFs(OwnedFd);

impl TinyFs {
    /// `Err` says why this machine cannot have one.
    pub(super) fn new(size: &str) -> Result<Self, String> {
        use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
        let made = || {
            let fs = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
            rustix::mount::fsconfig_set_string(fs.as_fd(), "size", size)?;
            rustix::mount::fsconfig_create(fs.as_fd())?;
            rustix::mount::fsmount(
                fs.as_fd(),
                FsMountFlags::FSMOUNT_CLOEXEC,
                MountAttrFlags::empty(),
            )
        };
        made()
            .map(Self)
            .map_err(|error: Sys| format!("cannot make a small tmpfs (root?): {error}"))
    }

    /// Its path, for calls that take one.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    pub(super) fn create(&self, name: &str) -> File {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR).unwrap();
        File::from(fd)
    }
}

/// The write end refuses offsets: the plainest descriptor on which every call fails.
pub(super) fn pipe_end() -> OwnedFd {
    let (_, write) = std::io::pipe().unwrap();
    write.into()
}

pub(super) fn fd(file: &impl AsFd) -> BorrowedFd<'_> {
    file.as_fd()
}
