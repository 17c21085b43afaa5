//! Names: finding, making, moving and removing them. All of it happens in the store.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use fuser::{FileAttr, Generation};
use hearth_client::{FileKey, Session};
use rustix::fs::{AtFlags, CWD, FileType, Mode, RenameFlags};

use crate::again::Made;
use crate::attributes::{Consult, Told};
use crate::core::Core;
use crate::directories::Ahead;
use crate::errors::{ask, raw};
use crate::identity::Caller;
use crate::listing::Listing;
use crate::memory::OnItsWay;
use crate::nodes::{Inode, Moment, proc_path};
use crate::prefetch::Remembered;
use crate::stat::{Stat, device_number};
use crate::sys::put_on_mask;

/// A name in a directory that the kernel knows.
#[derive(Clone, Copy)]
pub(crate) struct Name<'a> {
    pub(crate) parent: u64,
    pub(crate) name: &'a OsStr,
}

/// A name as the kernel is told about it: it counts as one lookup of the node.
pub(crate) struct Entry {
    pub(crate) attr: FileAttr,
    pub(crate) generation: Generation,
    pub(crate) attr_ttl: Duration,
    pub(crate) entry_ttl: Duration,
    /// It comes out of memory: alive until the kernel has the answer.
    pub(crate) way: Option<OnItsWay>,
}

impl Entry {
    /// For replies that have one time for both.
    pub(crate) fn shared_ttl(&self) -> Duration {
        self.attr_ttl.min(self.entry_ttl)
    }
}

/// Lookups for one request.
pub(crate) struct Series<'a> {
    /// Names that serve it alone: they are asked for once.
    pub(crate) once: &'a mut Option<Listing>,
    /// This name and those that come next; none for a lookup of its own.
    pub(crate) ahead: &'a Ahead,
}

/// The inode that stood at a name a moment ago.
pub(crate) struct Found {
    pub(crate) fd: OwnedFd,
    pub(crate) stat: Stat,
}

/// The last name of a file, while it is taken away; the session is told what became of it.
struct Retiring<'a> {
    session: &'a dyn Session,
    file: FileKey,
    gone: bool,
}

impl Drop for Retiring<'_> {
    fn drop(&mut self) {
        self.session.detached(self.file, self.gone);
    }
}

impl Core {
    /// `LOOKUP`. May wait for the session.
    pub(crate) fn lookup(&self, caller: Caller, at: Name<'_>) -> io::Result<Entry> {
        let mut alone = Series {
            once: &mut None,
            ahead: &Ahead::new(),
        };
        self.lookup_in(caller, at, &mut alone)
    }

    /// As [`Self::lookup`], one of several for one request.
    pub(crate) fn lookup_in(
        &self,
        caller: Caller,
        at: Name<'_>,
        series: &mut Series<'_>,
    ) -> io::Result<Entry> {
        match self.remember(caller, at) {
            Remembered::Entry(entry) => return Ok(*entry),
            Remembered::Absent => return Err(raw(libc::ENOENT)),
            Remembered::No => {}
            Remembered::Perhaps => {
                if let Some(entry) = self.prefetch(caller, at, series)? {
                    return Ok(entry);
                }
            }
        }
        self.look_up(caller, at)
    }

    /// The store's answer to a lookup.
    pub(crate) fn look_up(&self, caller: Caller, at: Name<'_>) -> io::Result<Entry> {
        let asked = self.nodes.moment();
        self.session.name_unheard();
        let found = self.find(caller, at)?;
        self.enter(caller, at, (found.fd, &found.stat), asked)
    }

    pub(crate) fn find(&self, caller: Caller, at: Name<'_>) -> io::Result<Found> {
        let dir = self.nodes.fd(at.parent)?;
        let _as = self.wardrobe.assume(caller)?;
        let fd = self.open_named(&*dir, at)?;
        let stat = Stat::of(&fd)?;
        Ok(Found { fd, stat })
    }

    /// Counts a lookup and says what the kernel may know.
    pub(crate) fn enter(
        &self,
        caller: Caller,
        at: Name<'_>,
        (fd, stat): (OwnedFd, &Stat),
        asked: Moment,
    ) -> io::Result<Entry> {
        self.leave_old_place(at, stat);
        let node = self.nodes.found(at.parent, at.name, fd, stat);
        self.entry_of(caller, &node, asked)
            .inspect_err(|_| self.nodes.forget(node.id, 1))
    }

    /// Has the operating system forget the place that a directory had before another node moved it here.
    pub(crate) fn leave_old_place(&self, at: Name<'_>, stat: &Stat) {
        if let Some((parent, name)) = self.nodes.left_by(stat, at.parent, at.name) {
            self.revoker.leaving.left(parent, name);
        }
    }

    pub(crate) fn entry_of(
        &self,
        caller: Caller,
        node: &Inode,
        asked: Moment,
    ) -> io::Result<Entry> {
        let told = self.attributes(caller, node, Consult::Here, asked)?;
        Ok(self.entry(node, told))
    }

    pub(crate) fn entry(&self, node: &Inode, told: Told) -> Entry {
        Entry {
            attr: told.attr,
            generation: Generation(node.generation),
            attr_ttl: told.ttl,
            entry_ttl: self.options.name_ttl,
            way: told.way,
        }
    }

    /// An entry for attributes out of memory.
    pub(crate) fn entry_from(
        &self,
        caller: Caller,
        node: &Inode,
        kept: (Stat, Duration, OnItsWay),
    ) -> Entry {
        self.entry(node, self.told_from(caller, node, kept))
    }

    pub(crate) fn mknod(
        &self,
        caller: Caller,
        at: Name<'_>,
        (mode, umask): (u32, u32),
        device: u32,
    ) -> io::Result<Entry> {
        let kind = FileType::from_raw_mode(mode);
        let made = Made::Inode(kind, mode, device);
        self.make(caller, (at, made), umask, |dir| {
            let permissions = Mode::from_raw_mode(mode & 0o7777);
            rustix::fs::mknodat(dir, at.name, kind, permissions, device_number(device))
        })
    }

    pub(crate) fn mkdir(
        &self,
        caller: Caller,
        at: Name<'_>,
        (mode, umask): (u32, u32),
    ) -> io::Result<Entry> {
        let made = Made::Inode(FileType::Directory, mode, 0);
        self.make(caller, (at, made), umask, |dir| {
            rustix::fs::mkdirat(dir, at.name, Mode::from_raw_mode(mode & 0o7777))
        })
    }

    pub(crate) fn symlink(&self, caller: Caller, at: Name<'_>, target: &Path) -> io::Result<Entry> {
        self.make(caller, (at, Made::Link(target)), 0, |dir| {
            rustix::fs::symlinkat(target, dir, at.name)
        })
    }

    fn make(
        &self,
        caller: Caller,
        (at, made): (Name<'_>, Made<'_>),
        umask: u32,
        create: impl FnOnce(&OwnedFd) -> rustix::io::Result<()>,
    ) -> io::Result<Entry> {
        let dir = self.nodes.fd(at.parent)?;
        let changing = self.changing(&[self.directory(at.parent)])?;
        put_on_mask(umask)?;
        let create = || {
            let _as = self.wardrobe.assume(caller)?;
            Ok(create(&dir)?)
        };
        self.at_most_once(caller, create, |code| {
            code == libc::EEXIST && self.is_like(caller, at, made)
        })?;
        drop(changing);
        let entry = self.look_up(caller, at)?;
        self.begin_life(&entry)?;
        Ok(entry)
    }

    /// Makes sure that nobody takes a new inode for one that had its number before, and that somebody
    /// outside of the job has removed.
    pub(crate) fn begin_life(&self, entry: &Entry) -> io::Result<()> {
        let id = entry.attr.ino.0;
        let node = self.nodes.node(id)?;
        let kept = self.nodes.leasable(node.key, node.kind);
        self.changing(&[kept])
            .map(drop)
            .inspect_err(|_| self.nodes.forget(id, 1))
    }

    pub(crate) fn link(&self, caller: Caller, id: u64, at: Name<'_>) -> io::Result<Entry> {
        let node = self.nodes.node(id)?;
        let dir = self.nodes.fd(at.parent)?;
        self.touch_along(&node, self.directory(at.parent), |fd| {
            let link = || {
                let _as = self.wardrobe.assume(caller)?;
                let (path, flags) = (proc_path(fd), AtFlags::SYMLINK_FOLLOW);
                Ok(rustix::fs::linkat(CWD, path, &*dir, at.name, flags)?)
            };
            self.at_most_once(caller, link, |code| {
                code == libc::EEXIST && self.is_like(caller, at, Made::Name(id))
            })
        })?;
        let asked = self.nodes.moment();
        let gone = |error: &io::Error| error.raw_os_error() == Some(libc::ENOENT);
        match self.look_up(caller, at) {
            // Another node has taken the name away since: the link was made all the same.
            Err(error) if gone(&error) => {
                let node = self.nodes.found_nameless(id)?;
                self.entry_of(caller, &node, asked)
                    .inspect_err(|_| self.nodes.forget(id, 1))
            }
            found => found,
        }
    }

    pub(crate) fn readlink(&self, id: u64) -> io::Result<Vec<u8>> {
        let fd = self.nodes.fd(id)?;
        Ok(rustix::fs::readlinkat(&*fd, "", Vec::new())?.into_bytes())
    }

    /// `UNLINK`. May wait for the session.
    pub(crate) fn unlink(&self, caller: Caller, at: Name<'_>) -> io::Result<()> {
        while !self.is_taken_away(caller, at) && !self.try_unlink(caller, at)? {}
        Ok(())
    }

    /// Takes a name away, unless it leads to another file by the time that this one is retired.
    fn try_unlink(&self, caller: Caller, at: Name<'_>) -> io::Result<bool> {
        let victim = self.find(caller, at)?;
        // Before the file is given up: whose attributes are kept is not asked of the next of its number.
        let _changing = self.changing(&[self.kept(&victim.stat), self.directory(at.parent)])?;
        let retiring = self.retire(&victim.stat)?;
        if !self.still_leads(caller, at, (&victim, retiring.as_ref())) {
            return Ok(false);
        }
        let dir = self.nodes.fd(at.parent)?;
        self.once(caller, || {
            let _as = self.wardrobe.assume(caller)?;
            Ok(rustix::fs::unlinkat(&*dir, at.name, AtFlags::empty())?)
        })?;
        self.lost_a_name(&victim, retiring);
        Ok(true)
    }

    /// Takes back a file that was just made and cannot be opened. A program that asked for one of its own would else find
    /// its name taken, by itself. The store alone is asked: the agents that manage the file may be gone.
    pub(crate) fn unmake(&self, caller: Caller, at: Name<'_>, id: u64) {
        let is_it = |found: &Found| {
            let node = self.nodes.node(id);
            found.stat.size() == 0 && node.is_ok_and(|node| node.is(&found.stat))
        };
        let removed = self.find(caller, at).ok().filter(is_it).map(|found| {
            let dir = self.nodes.fd(at.parent)?;
            let _as = self.wardrobe.assume(caller)?;
            rustix::fs::unlinkat(&*dir, at.name, AtFlags::empty())?;
            self.nodes.gone(found.stat.key());
            io::Result::Ok(())
        });
        if let Some(Err(error)) = removed {
            log::warn!("a file that could not be opened stays behind: {error}");
        }
        self.session.names_changed();
    }

    pub(crate) fn rmdir(&self, caller: Caller, at: Name<'_>) -> io::Result<()> {
        if self.is_taken_away(caller, at) {
            return Ok(());
        }
        let victim = self.find(caller, at)?;
        let _changing = self.changing(&[self.kept(&victim.stat), self.directory(at.parent)])?;
        let victim = self.believed(caller, at)?.unwrap_or(victim);
        let dir = self.nodes.fd(at.parent)?;
        self.once(caller, || {
            let _as = self.wardrobe.assume(caller)?;
            Ok(rustix::fs::unlinkat(&*dir, at.name, AtFlags::REMOVEDIR)?)
        })?;
        self.nodes.gone(victim.stat.key());
        Ok(())
    }

    /// The directory that the kernel believes at a name, if it believes one. If the store has something else there, the
    /// kernel would hold the wrong one for removed. After `ESTALE` it looks the name up again, and asks once more.
    fn believed(&self, caller: Caller, at: Name<'_>) -> io::Result<Option<Found>> {
        let Some(believed) = self.nodes.directory_at(at.parent, at.name) else {
            return Ok(None);
        };
        match self.find(caller, at) {
            Ok(found) if found.stat.key() == believed => Ok(Some(found)),
            Ok(_) | Err(_) => Err(raw(libc::ESTALE)),
        }
    }

    /// The session's key of an inode whose attributes may be kept.
    fn kept(&self, stat: &Stat) -> Option<FileKey> {
        self.nodes.leasable(stat.key(), stat.kind())
    }

    /// Empties the cache of a file whose last name is about to go.
    fn retire(&self, victim: &Stat) -> io::Result<Option<Retiring<'_>>> {
        match victim.links() {
            1 => self.give_up(victim),
            _ => Ok(None),
        }
    }

    /// Has homes bring to the store what they have of a file, and hold what comes until its name is gone or stays.
    fn give_up(&self, victim: &Stat) -> io::Result<Option<Retiring<'_>>> {
        if !self.nodes.is_cacheable(victim) {
            return Ok(None);
        }
        let file = FileKey {
            ino: victim.key().ino,
        };
        ask(|done| self.session.detach(file, done))?;
        Ok(Some(Retiring {
            session: &*self.session,
            file,
            gone: false,
        }))
    }

    /// Whether a name leads to the file that was found there. Two changes can have found one file at it; the second to
    /// retire that waits for the first, whose file has the name then and would lose it with bytes that the store lacks.
    /// A file that was found without a name has been replaced since.
    fn still_leads(
        &self,
        caller: Caller,
        at: Name<'_>,
        (found, retiring): (&Found, Option<&Retiring<'_>>),
    ) -> bool {
        if retiring.is_none() && found.stat.links() > 0 {
            return true;
        }
        let now = self.find(caller, at);
        now.is_ok_and(|now| now.stat.key() == found.stat.key())
    }

    /// A name was taken away. Some stores do not answer for an inode without names, so a look that
    /// fails says nothing against the change, which is done: the count of names before it decides.
    fn lost_a_name(&self, victim: &Found, retiring: Option<Retiring<'_>>) {
        let now = Stat::of(&victim.fd).ok();
        let left = now.map_or(victim.stat.links().saturating_sub(1), |now| now.links());
        if left == 0 {
            // The other names went beside this one, by others who did not take theirs for the last either. The number stays
            // this file's until the descriptor of the victim is closed.
            let late = || self.give_up(&victim.stat).ok().flatten();
            if let Some(mut retiring) = retiring.or_else(late) {
                retiring.gone = true;
            }
            self.nodes.gone(victim.stat.key());
        } else {
            self.stamp_again(victim);
        }
    }

    /// After a change of a name: what the store says of the file's times now is our own doing.
    fn stamp_again(&self, found: &Found) {
        if let Ok(now) = Stat::of(&found.fd) {
            self.restamp(&found.stat, &now);
        }
    }

    /// `RENAME` in all its forms. May wait for the session.
    pub(crate) fn rename(
        &self,
        caller: Caller,
        from: Name<'_>,
        to: Name<'_>,
        flags: RenameFlags,
    ) -> io::Result<()> {
        if self.is_renamed(caller, (from, to), flags) {
            return self.was_renamed(caller, (from, to), flags);
        }
        while !self.try_rename(caller, from, to, flags)? {}
        Ok(())
    }

    /// The agent before has made a rename, and may not have noted the new places.
    fn was_renamed(
        &self,
        caller: Caller,
        (from, to): (Name<'_>, Name<'_>),
        flags: RenameFlags,
    ) -> io::Result<()> {
        let is_exchange = flags.contains(RenameFlags::EXCHANGE);
        for at in [Some(to), is_exchange.then_some(from)]
            .into_iter()
            .flatten()
        {
            // Others may have moved it on since.
            if let Ok(found) = self.find(caller, at) {
                self.nodes.moved(found.stat.key(), at.parent, at.name);
            }
        }
        Ok(())
    }

    /// Gives a file a name, unless that leads to another file by the time that the one there is retired.
    fn try_rename(
        &self,
        caller: Caller,
        from: Name<'_>,
        to: Name<'_>,
        flags: RenameFlags,
    ) -> io::Result<bool> {
        let moved = self.find(caller, from)?;
        let other = match self.find(caller, to) {
            Ok(found) => Some(found),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => None,
            Err(error) => return Err(error),
        };
        if other.is_some() && flags.contains(RenameFlags::NOREPLACE) {
            return Err(raw(libc::EEXIST));
        }
        let exchange = flags.contains(RenameFlags::EXCHANGE);
        // Two names of one file: rename does nothing, so nobody is a victim.
        let other = other.filter(|other| other.stat.key() != moved.stat.key());
        let _changing = self.changing(&[
            self.kept(&moved.stat),
            other.as_ref().and_then(|other| self.kept(&other.stat)),
            self.directory(from.parent),
            self.directory(to.parent),
        ])?;
        let retiring = match other.as_ref().filter(|_| !exchange) {
            Some(victim) => self.retire(&victim.stat)?,
            None => None,
        };
        if let Some(victim) = &other
            && !self.still_leads(caller, to, (victim, retiring.as_ref()))
        {
            return Ok(false);
        }
        if moved.stat.kind() == FileType::Directory && !exchange {
            self.believed(caller, from)?;
            self.believed(caller, to)?;
        }
        self.rename_in_store(caller, from, to, flags)?;
        self.stamp_again(&moved);
        self.nodes.moved(moved.stat.key(), to.parent, to.name);
        match other {
            Some(other) if exchange => {
                self.stamp_again(&other);
                self.nodes.moved(other.stat.key(), from.parent, from.name);
            }
            Some(victim) => self.lost_a_name(&victim, retiring),
            None => {}
        }
        Ok(true)
    }

    fn rename_in_store(
        &self,
        caller: Caller,
        from: Name<'_>,
        to: Name<'_>,
        flags: RenameFlags,
    ) -> io::Result<()> {
        let (old, new) = (self.nodes.fd(from.parent)?, self.nodes.fd(to.parent)?);
        let (from, to) = (from.name.as_bytes(), to.name.as_bytes());
        self.once(caller, || {
            let _as = self.wardrobe.assume(caller)?;
            if flags.is_empty() {
                // Old kernels and some stores know only the call without flags.
                rustix::fs::renameat(&*old, from, &*new, to)?;
            } else {
                rustix::fs::renameat_with(&*old, from, &*new, to, flags)?;
            }
            Ok(())
        })
    }
}
