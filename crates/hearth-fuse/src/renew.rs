//! Making the store's own client look again.
//!
//! A client of GlusterFS believes for a second in names and attributes that it has seen, though other clients have
//! changed them since. Agents see more than programs would alone: an agent opens files to bring bytes to the store and
//! back. So what their client still believes must not show as if it were the store's.
//!
//! Three calls get around it, measured with GlusterFS 10.3:
//! - An extended attribute that no client keeps is asked of the servers. They answer `ESTALE` for a file without a name,
//!   upon which the client forgets the file's attributes.
//! - A hard link from another file system is refused, but the operating system asks for the new name anew before.
//! - A sync of a file brings its attributes along, and so do names that are listed.
//!
//! A descriptor is open at the servers only when something was done with it. A seek for a hole is the cheapest: it moves
//! nothing, and says where the bytes of most files end.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{AtFlags, CWD, FileType, MemfdFlags, Mode, OFlags, RawDir, SeekFrom, StatxFlags};
use rustix::io::Errno;

use crate::core::Core;
use crate::errors::raw;
use crate::nodes::{Node, open_path, proc_path};
use crate::stat::Stat;

/// An attribute that no file has and no client keeps.
const UNKEPT: &str = "security.hearth";
/// In a longer directory a file that stands behind so many names is not looked for.
const LOOKED_THROUGH_MAX: usize = 4096;
const LISTING_BYTES: usize = 32 * 1024;

/// A file of no file system that anybody mounts.
static ELSEWHERE: OnceLock<Option<OwnedFd>> = OnceLock::new();

/// Whether the servers have no name any more for what a client still believes in.
fn is_gone(found: impl AsFd) -> bool {
    let mut value = [0u8; 0];
    let told = rustix::fs::getxattr(proc_path(found), UNKEPT, &mut value[..]);
    matches!(told, Err(Errno::STALE | Errno::NOENT))
}

/// Has the operating system ask the store's client what a name stands for.
fn ask_for_name(dir: impl AsFd, name: &OsStr) {
    let make = || rustix::fs::memfd_create("hearth-elsewhere", MemfdFlags::CLOEXEC).ok();
    if let Some(elsewhere) = ELSEWHERE.get_or_init(make) {
        // Refused either way: the name is there, or it is on another file system.
        let flags = AtFlags::SYMLINK_FOLLOW;
        let _ = rustix::fs::linkat(CWD, proc_path(elsewhere), dir, name, flags);
    }
}

/// Attributes of an open file as the servers have them.
fn renewed(fd: impl AsFd) -> io::Result<Stat> {
    // What comes back with a sync is kept by the client, and then told.
    rustix::fs::fsync(&fd)?;
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    rustix::fs::statx(&fd, "", flags, StatxFlags::BASIC_STATS)?;
    Stat::of(fd)
}

impl Core {
    /// What has a name: not a file that had it before, and has none now.
    pub(crate) fn open_named(&self, dir: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
        let found = open_path(&dir, name)?;
        if !self.options.store_lags || !is_gone(&found) {
            return Ok(found);
        }
        ask_for_name(&dir, name);
        open_path(dir, name)
    }

    /// Makes sure that a file which was just opened stays open when its name goes, and that its size is the store's.
    pub(crate) fn anchor(&self, node: &Node, fd: &OwnedFd) -> io::Result<()> {
        if !self.options.store_lags {
            return Ok(());
        }
        let end = match rustix::fs::seek(fd, SeekFrom::Hole(0)) {
            Ok(end) => end,
            Err(Errno::NXIO) => 0,
            Err(Errno::STALE | Errno::NOENT) => return Err(self.lost(node, fd)),
            // The store has no such call.
            Err(_) => return Ok(()),
        };
        rustix::fs::seek(fd, SeekFrom::Start(0))?;
        if Stat::of(fd)?.size() != end {
            renewed(fd)?;
        }
        Ok(())
    }

    /// The name stands for something else by now: the operating system looks it up again.
    fn lost(&self, node: &Node, fd: &OwnedFd) -> io::Error {
        if is_gone(fd)
            && let Some((parent, name)) = self.nodes.place_of(node.id)
            && let Ok(dir) = self.nodes.fd(parent)
        {
            ask_for_name(&*dir, &name);
        }
        self.nodes.gone(node.key);
        raw(libc::ESTALE)
    }

    /// Attributes of a node that were changed no earlier than at this time, if a look brings them.
    pub(crate) fn stat_since(&self, node: &Node, floor_ns: i64) -> io::Result<Stat> {
        let fd = self.nodes.fd(node.id)?;
        let stat = Stat::of(&*fd)?;
        if stat.stamp().ctime_ns >= floor_ns || !self.options.store_lags {
            return Ok(stat);
        }
        if node.kind == FileType::RegularFile {
            // Of a file that this client has written it takes no attributes along with names.
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let renews = |own: OwnedFd| renewed(own).is_ok();
            let open = rustix::fs::open(proc_path(&*fd), flags, Mode::empty());
            if open.is_ok_and(renews) {
                return Stat::of(&*fd);
            }
        }
        if let Some((parent, name)) = self.nodes.place_of(node.id) {
            list_up_to(self.nodes.fd(parent)?, &name)?;
        }
        Stat::of(&*fd)
    }
}

/// Reads names of a directory until one is among them.
fn list_up_to(dir: impl AsFd, wanted: &OsStr) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
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
            let _ = open_path(&fd, &name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_for_a_name_makes_none_and_changes_none() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("there"), b"x").expect("written");
        let root = std::fs::File::open(dir.path()).expect("opens");
        let number = || Stat::of(open_path(&root, OsStr::new("there"))?).map(|stat| stat.key());
        let before = number().expect("it is there");
        for name in ["there", "absent"] {
            ask_for_name(&root, OsStr::new(name));
        }
        assert_eq!(number().expect("it is there"), before);
        let names: Vec<_> = dir.path().read_dir().expect("a listing").collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }

    #[test]
    fn a_file_that_is_there_is_not_gone() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = std::fs::File::open(dir.path()).expect("opens");
        std::os::unix::fs::symlink("nowhere", dir.path().join("link")).expect("linked");
        std::fs::write(dir.path().join("file"), b"x").expect("written");
        for name in ["link", "file"] {
            let found = open_path(&root, OsStr::new(name)).expect("it is there");
            assert!(!is_gone(&found), "{name}");
        }
        list_up_to(&root, OsStr::new("file")).expect("lists");
        renewed(std::fs::File::open(dir.path().join("file")).expect("opens")).expect("looks");
    }
}
