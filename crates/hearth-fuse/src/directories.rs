//! Reading directories.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use fuser::{FileHandle, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use rustix::fs::{FileType, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;

use crate::core::Core;
use crate::identity::Caller;
use crate::ledger::Fact;
use crate::names::{Entry, Name, Series};
use crate::stat::{Stat, kernel_kind};

const BATCH_BYTES: usize = 32 * 1024;
/// No place in a directory.
const NOWHERE: u64 = u64::MAX;

/// One open directory: the store's descriptor and what was read ahead from it.
pub(crate) struct OpenDirectory {
    fd: OwnedFd,
    listing: Mutex<Listing>,
}

struct Listing {
    /// The place at which the next entry of `ahead`, or else of the descriptor, begins.
    at: u64,
    ahead: Ahead,
}

/// One name, with the position behind it.
pub(crate) struct Item {
    name: OsString,
    ino: u64,
    kind: FileType,
    next: u64,
}

/// Names of a directory in the order in which a program is told them.
pub(crate) type Ahead = VecDeque<Item>;

impl Item {
    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    fn is_dot(&self) -> bool {
        self.name == "." || self.name == ".."
    }
}

impl OpenDirectory {
    /// A directory that was open before this agent: its places are true for the descriptor, wherever that stands.
    pub(crate) fn restored(fd: OwnedFd) -> OpenDirectory {
        let (at, ahead) = (NOWHERE, Ahead::new());
        let listing = Mutex::new(Listing { at, ahead });
        OpenDirectory { fd, listing }
    }

    fn lock(&self) -> MutexGuard<'_, Listing> {
        self.listing.lock().expect("nothing panics under this lock")
    }

    /// Feeds entries from `offset` on to `take`, until it is full or the directory ends. Each comes with all that were read
    /// from it on.
    fn each(
        &self,
        offset: u64,
        mut take: impl FnMut(&Item, &Ahead) -> io::Result<Room>,
    ) -> io::Result<()> {
        let mut listing = self.lock();
        if listing.at != offset {
            let sought = rustix::fs::seek(&self.fd, SeekFrom::Start(offset));
            sought.map_err(|errno| self.why_not(errno))?;
            listing.ahead.clear();
            listing.at = offset;
        }
        loop {
            if listing.ahead.is_empty() && !self.read_ahead(&mut listing)? {
                return Ok(());
            }
            while let Some(item) = listing.ahead.front() {
                if let Room::Full = take(item, &listing.ahead)? {
                    return Ok(());
                }
                listing.at = item.next;
                listing.ahead.pop_front();
            }
        }
    }

    /// The error of a place in a directory: some stores know no place in one that was removed.
    fn why_not(&self, errno: Errno) -> Errno {
        let is_gone = || Stat::of(&self.fd).is_ok_and(|stat| stat.links() == 0);
        match errno {
            Errno::INVAL if is_gone() => Errno::NOENT,
            errno => errno,
        }
    }

    /// Whether there was more.
    fn read_ahead(&self, listing: &mut Listing) -> io::Result<bool> {
        let mut buffer = vec![MaybeUninit::uninit(); BATCH_BYTES];
        let mut entries = RawDir::new(&self.fd, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            listing.ahead.push_back(Item {
                name: OsStr::from_bytes(entry.file_name().to_bytes()).to_owned(),
                ino: entry.ino(),
                kind: entry.file_type(),
                next: entry.next_entry_cookie(),
            });
            if entries.is_buffer_empty() {
                break;
            }
        }
        Ok(!listing.ahead.is_empty())
    }
}

/// Whether a reply takes more.
enum Room {
    Left,
    Full,
}

fn room(full: bool) -> Room {
    if full { Room::Full } else { Room::Left }
}

impl Core {
    pub(crate) fn opendir(&self, caller: Caller, id: u64) -> io::Result<FileHandle> {
        self.close_unanswered(caller);
        let node = self.nodes.node(id)?;
        let fd = self.open_node(caller, &node, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let listing = Mutex::new(Listing {
            at: 0,
            ahead: Ahead::new(),
        });
        let descriptor = fd.as_raw_fd();
        let number = self.directories.insert(OpenDirectory { fd, listing });
        let request = caller.request.number();
        self.ledger
            .note(Fact::DirectoryOpened(number.0, descriptor, request));
        Ok(number)
    }

    /// `RELEASEDIR`.
    pub(crate) fn closedir(&self, number: FileHandle) {
        // Its descriptor's number may be another's as soon as it is closed.
        self.ledger.note(Fact::DirectoryClosed(number.0));
        self.directories.remove(number);
    }

    pub(crate) fn readdir(
        &self,
        number: FileHandle,
        offset: u64,
        reply: &mut ReplyDirectory,
    ) -> io::Result<()> {
        self.directories.find(number)?.each(offset, |item, _| {
            let kind = kernel_kind(item.kind);
            Ok(room(reply.add(
                INodeNo(item.ino),
                item.next,
                kind,
                &item.name,
            )))
        })
    }

    /// Names with attributes. Every entry but the dots counts as a lookup.
    pub(crate) fn readdirplus(
        &self,
        caller: Caller,
        at: DirectoryAt,
        reply: &mut ReplyDirectoryPlus,
    ) -> io::Result<()> {
        let directory = self.directories.find(at.handle)?;
        let mut once = None;
        directory.each(at.offset, |item, ahead| {
            if item.is_dot() {
                return self.add_dot(item, &directory, reply);
            }
            let name = Name {
                parent: at.parent,
                name: &item.name,
            };
            let mut series = Series {
                once: &mut once,
                ahead,
            };
            match self.lookup_listed(caller, name, &mut series) {
                Ok(entry) => {
                    let id = entry.attr.ino.0;
                    let full = add(reply, item, &entry);
                    if full {
                        self.nodes.forget(id, 1);
                    }
                    Ok(room(full))
                }
                // Gone since the directory was read.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(Room::Left),
                Err(error) => Err(error),
            }
        })
    }

    /// The entry of a name that is told to whoever may read the directory. That caller may not be allowed to search it:
    /// then the kernel has to ask at each use of the name.
    fn lookup_listed(
        &self,
        caller: Caller,
        name: Name<'_>,
        series: &mut Series<'_>,
    ) -> io::Result<Entry> {
        let (mut entry, may_use) = match self.lookup_in(caller, name, series) {
            Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
                (self.lookup_in(self.wardrobe.own(), name, series)?, false)
            }
            found => (found?, true),
        };
        // The reply leaves after more than this entry is found.
        if entry.way.is_some() || !may_use {
            entry.attr_ttl = Duration::ZERO;
        }
        Ok(entry)
    }

    /// The kernel takes only name and number of a dot.
    fn add_dot(
        &self,
        item: &Item,
        directory: &OpenDirectory,
        reply: &mut ReplyDirectoryPlus,
    ) -> io::Result<Room> {
        let attr = Stat::of(&directory.fd)?.attr(item.ino);
        let entry = Entry {
            attr,
            generation: Generation(0),
            attr_ttl: Duration::ZERO,
            entry_ttl: Duration::ZERO,
            way: None,
        };
        Ok(room(add(reply, item, &entry)))
    }

    pub(crate) fn fsyncdir(&self, number: FileHandle) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.directories.find(number)?.fd)?)
    }
}

/// A place in an open directory.
#[derive(Clone, Copy)]
pub(crate) struct DirectoryAt {
    pub(crate) parent: u64,
    pub(crate) handle: FileHandle,
    pub(crate) offset: u64,
}

fn add(reply: &mut ReplyDirectoryPlus, item: &Item, entry: &Entry) -> bool {
    let attr = &entry.attr;
    reply.add(
        attr.ino,
        item.next,
        &item.name,
        &entry.shared_ttl(),
        attr,
        entry.generation,
    )
}
