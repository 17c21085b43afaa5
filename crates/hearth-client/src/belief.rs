//! The beliefs of the operating system's client of a store, and how to make it look again.
//!
//! A client of GlusterFS believes for a second in names, attributes and bytes that it has seen, though other clients have
//! changed them since. Agents see more than programs would alone: an agent opens files to bring bytes to the store and
//! back. So what their client still believes must not show as if it were the store's.
//!
//! These calls get around it, measured with GlusterFS 10.3:
//! - An extended attribute that no client keeps is asked of the servers. They answer `ESTALE` for a file without a name,
//!   upon which the client forgets the file's attributes.
//! - A hard link from another file system is refused, but the operating system asks for the new name anew before. If the
//!   name is gone the client forgets the bytes of the file that had it.
//! - A sync of a file brings its attributes along. So do names that are listed, but of files that this client has written.
//!   A file whose time differs in a listing loses the bytes that the client kept of it, which no sync does.
//! - A seek for a hole is answered by the servers: it says where the bytes of most files end.
//!
//! A descriptor is open at the servers only when something was done with it. A seek is the cheapest: it moves nothing.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use rustix::fs::{AtFlags, CWD, MemfdFlags, Mode, OFlags, RawDir, SeekFrom, StatxFlags};
use rustix::io::Errno;

/// Types whose clients believe in what others have changed, and can be made to look again.
const LAGGING: &[&str] = &["fuse.glusterfs"];
/// An attribute that no file has and no client keeps.
const UNKEPT: &str = "security.hearth";
/// In a longer directory a file that stands behind so many names is not looked for.
const LOOKED_THROUGH_MAX: usize = 4096;
const LISTING_BYTES: usize = 32 * 1024;
/// The mark that the operating system appends to the path of a descriptor whose name went.
const NAMELESS: &[u8] = b" (deleted)";

/// A file of no file system that anybody mounts.
static ELSEWHERE: OnceLock<Option<OwnedFd>> = OnceLock::new();

/// Whether the client of the store behind its root is known to believe in what others have changed.
pub fn lags(root: impl AsFd) -> bool {
    let Ok(seen) = rustix::fs::fstat(root) else {
        return false;
    };
    let (major, minor) = (
        rustix::fs::major(seen.st_dev),
        rustix::fs::minor(seen.st_dev),
    );
    let device = format!("{major}:{minor}");
    let mounts = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let mounts = String::from_utf8_lossy(&mounts);
    let mut of_it = mounts
        .lines()
        .filter(|line| line.split(' ').nth(2) == Some(&device));
    let kind = |line: &str| Some(line.split_once(" - ")?.1.split(' ').next()?.to_owned());
    let kind = of_it.next().and_then(kind);
    kind.is_some_and(|kind| LAGGING.contains(&&*kind))
}

/// A client that keeps what it has seen, and whose servers can be asked past it.
pub trait CachingClient {
    /// Whether a file has bytes at an offset or behind it, as the servers say. True where they cannot be asked.
    fn reaches(&self, file: BorrowedFd<'_>, offset: u64) -> bool;

    /// Takes attributes and bytes of an open file from the servers.
    fn look_anew(&self, file: BorrowedFd<'_>) -> io::Result<()>;

    /// A read of `len` bytes, which tells how many came. It may end where the file ended a moment ago, though another
    /// client has written more since: to a program that would be zeros, or the end. So if it brings less than was asked
    /// for the servers say whether the file reaches further. Only if it does the client looks anew, and the read is made
    /// once more.
    fn read_whole<T, E: From<io::Error>>(
        &self,
        (file, offset, len): (BorrowedFd<'_>, u64, usize),
        came: impl Fn(&T) -> usize,
        mut read: impl FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        let first = read()?;
        let end = offset + came(&first) as u64;
        if end == offset + len as u64 || !self.reaches(file, end) {
            return Ok(first);
        }
        self.look_anew(file)?;
        read()
    }
}

/// The operating system's client of a store that lags.
pub struct Mounted;

impl CachingClient for Mounted {
    fn reaches(&self, file: BorrowedFd<'_>, offset: u64) -> bool {
        let Ok(before) = rustix::fs::tell(file) else {
            return true;
        };
        let found = rustix::fs::seek(file, SeekFrom::Hole(offset));
        // A program may read on from where its descriptor stood.
        let _ = rustix::fs::seek(file, SeekFrom::Start(before));
        !matches!(found, Err(Errno::NXIO))
    }

    fn look_anew(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        rustix::fs::fsync(file)?;
        // A file without a place in any tree, or in one that may not be listed, keeps its bytes for the rest of the second.
        let _ = forget_bytes(file);
        look(file)
    }
}

/// Whether the servers have no name any more for what a client still believes in.
pub fn is_gone(found: impl AsFd) -> bool {
    let mut value = [0u8; 0];
    let told = rustix::fs::getxattr(proc_path(found), UNKEPT, &mut value[..]);
    matches!(told, Err(Errno::STALE | Errno::NOENT))
}

/// Has the operating system ask the store's client what a name stands for.
pub fn ask_for_name(dir: impl AsFd, name: &OsStr) {
    let make = || rustix::fs::memfd_create("hearth-elsewhere", MemfdFlags::CLOEXEC).ok();
    if let Some(elsewhere) = ELSEWHERE.get_or_init(make) {
        // Refused either way: the name is there, or it is on another file system.
        let flags = AtFlags::SYMLINK_FOLLOW;
        let _ = rustix::fs::linkat(CWD, proc_path(elsewhere), dir, name, flags);
    }
}

/// Has the client take an open file's attributes from the servers.
pub fn renew_attributes(file: impl AsFd) -> io::Result<()> {
    // The client keeps the attributes that come back with a sync, and then tells them.
    rustix::fs::fsync(&file)?;
    look(file)
}

/// Has the operating system ask its client for a file's attributes.
pub fn look(file: impl AsFd) -> io::Result<()> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    rustix::fs::statx(file, "", flags, StatxFlags::BASIC_STATS)?;
    Ok(())
}

/// Has the client find out that bytes which it keeps of a file are old, by the name under which it was opened.
fn forget_bytes(file: impl AsFd) -> io::Result<()> {
    let path = std::fs::read_link(proc_path(&file))?;
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(dir, flags, Mode::empty())?;
    if !is_gone(&file) {
        return list_up_to(dir, name);
    }
    let name = name.as_bytes();
    ask_for_name(
        dir,
        OsStr::from_bytes(name.strip_suffix(NAMELESS).unwrap_or(name)),
    );
    Ok(())
}

/// Reads names of a directory until one is among them. Attributes come along with names.
pub fn list_up_to(dir: impl AsFd, wanted: &OsStr) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(proc_path(dir), flags, Mode::empty())?;
    let mut buffer = vec![MaybeUninit::uninit(); LISTING_BYTES];
    let mut entries = RawDir::new(&fd, &mut buffer);
    let mut passed = 0;
    while let Some(entry) = entries.next() {
        let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
        passed += 1;
        if name == wanted || passed == LOOKED_THROUGH_MAX {
            break;
        }
        if entries.is_buffer_empty() {
            // Linux has attributes come along with the next names only if somebody has looked at one of the last.
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let _ = rustix::fs::openat(&fd, &name, flags, Mode::empty());
        }
    }
    Ok(())
}

fn proc_path(fd: impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()))
}

#[cfg(test)]
mod tests;
