//! Making the store's own client look again ([`hearth_client::belief`]) where names and attributes are asked for.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use hearth_client::belief;
use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use crate::core::Core;
use crate::errors::raw;
use crate::names::Name;
use crate::nodes::{Inode, open_path, proc_path};
use crate::stat::Stat;

impl Core {
    /// Opens the file that has a name: not a file that had it before, and has none now.
    pub(crate) fn open_named(&self, dir: impl AsFd, at: Name<'_>) -> io::Result<OwnedFd> {
        let found = open_path(&dir, at.name)?;
        if !self.options.client_lags || self.is_kept(at, &found) || !belief::is_gone(&found) {
            return Ok(found);
        }
        belief::ask_for_name(&dir, at.name);
        open_path(dir, at.name)
    }

    /// Whether this is what the name stands for in names that this node may keep: they are called back before they change.
    fn is_kept(&self, at: Name<'_>, found: &OwnedFd) -> bool {
        let file = || {
            let stat = Stat::of(found).ok()?;
            self.nodes.leasable(stat.key(), stat.kind())
        };
        let dir = self.directory(at.parent).filter(|_| self.memory.is_on());
        let kept = dir.and_then(|dir| self.memory.stands_for(dir, at.name));
        kept.is_some() && kept == file()
    }

    /// Makes sure that a file which was just opened stays open when its name goes, and that its size is the store's.
    pub(crate) fn anchor(&self, node: &Inode, fd: &OwnedFd) -> io::Result<()> {
        if !self.options.client_lags {
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
            belief::renew_attributes(fd)?;
        }
        Ok(())
    }

    /// The name stands for something else by now: the operating system looks it up again.
    fn lost(&self, node: &Inode, fd: &OwnedFd) -> io::Error {
        if belief::is_gone(fd)
            && let Some((parent, name)) = self.nodes.place_of(node.id)
            && let Ok(dir) = self.nodes.fd(parent)
        {
            belief::ask_for_name(&*dir, &name);
        }
        self.nodes.gone(node.key);
        raw(libc::ESTALE)
    }

    /// Attributes of a node by its descriptor. Of an open file without a name a client that lags believes that it has
    /// one, and is as long as it was, until it hears of it.
    pub(crate) fn stat(&self, node: &Inode, fd: &OwnedFd) -> io::Result<Stat> {
        if self.options.client_lags && node.is_open() && belief::is_gone(fd) {
            belief::look(fd)?;
        }
        Stat::of(fd)
    }

    /// Attributes of a node that were changed no earlier than at this time, if a look brings them.
    pub(crate) fn stat_since(&self, node: &Inode, floor_ns: i64) -> io::Result<Stat> {
        let fd = self.nodes.fd(node.id)?;
        let stat = self.stat(node, &fd)?;
        if stat.stamp().ctime_ns >= floor_ns || !self.options.client_lags {
            return Ok(stat);
        }
        if node.kind == FileType::RegularFile {
            // Of a file that this client has written it takes no attributes along with names.
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let renews = |own: OwnedFd| belief::renew_attributes(own).is_ok();
            let open = rustix::fs::open(proc_path(&*fd), flags, Mode::empty());
            if open.is_ok_and(renews) {
                return Stat::of(&*fd);
            }
        }
        if let Some((parent, name)) = self.nodes.place_of(node.id) {
            belief::list_up_to(self.nodes.fd(parent)?, &name)?;
        }
        Stat::of(&*fd)
    }
}
