//! Attributes: the store's, overlaid with what the session knows better.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{AccessFlags, FileAttr, FileHandle, TimeOrNow};
use hearth_client::local::{AttributeTicket, VolatileAttributes};
use hearth_client::{FileKey, Owner};
use rustix::fs::{Access, AtFlags, CWD, Gid, Mode, OFlags, StatVfs, Timespec, Timestamps, Uid};
use rustix::fs::{UTIME_NOW, UTIME_OMIT};

use crate::core::Core;
use crate::errors::{Sought, ask, ask_soon, raw};
use crate::handles::OpenHandle;
use crate::identity::Caller;
use crate::memory::OnItsWay;
use crate::nodes::{Inode, Moment, proc_path};
use crate::options::ShownOwners;
use crate::revoke::HeldBack;
use crate::stat::Stat;

/// Permission bits that let somebody write.
const WRITE_BITS: u32 = 0o222;

/// Attributes, and how long the kernel may believe them.
pub(crate) struct Told {
    pub(crate) attr: FileAttr,
    pub(crate) ttl: Duration,
    /// They come out of memory: alive until the kernel has the answer.
    pub(crate) way: Option<OnItsWay>,
}

/// Whether other nodes are consulted about a file's size.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consult {
    /// This node's knowledge will do; it may be asked again soon.
    Here,
    /// The answer must be exact.
    Everywhere,
}

/// The changes that `SETATTR` asks for.
#[derive(Default)]
pub(crate) struct Change {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) atime: Option<TimeOrNow>,
    pub(crate) mtime: Option<TimeOrNow>,
    pub(crate) handle: Option<FileHandle>,
}

impl Change {
    /// Whether times are to be set beyond what a change of size sets anyway.
    fn sets_times(&self) -> bool {
        let implied =
            self.size.is_some() && !matches!(self.mtime, Some(TimeOrNow::SpecificTime(_)));
        self.atime.is_some() || (self.mtime.is_some() && !implied)
    }
}

/// Attributes that the kernel was told, as programs see them.
fn shown(attr: &FileAttr) -> VolatileAttributes {
    let moment = |time: SystemTime| match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (
            since.as_secs().cast_signed(),
            u64::from(since.subsec_nanos()),
        ),
        Err(error) => {
            let before = error.duration();
            let nanos = before.subsec_nanos();
            let seconds = -before.as_secs().cast_signed() - i64::from(nanos > 0);
            (seconds, u64::from((1_000_000_000 - nanos) % 1_000_000_000))
        }
    };
    VolatileAttributes {
        size: attr.size,
        blocks: attr.blocks,
        mode: u32::from(attr.perm),
        links: u64::from(attr.nlink),
        owner: (attr.uid, attr.gid),
        accessed: moment(attr.atime),
        modified: moment(attr.mtime),
        changed: moment(attr.ctime),
    }
}

impl Core {
    /// `GETATTR`. May wait for the session.
    pub(crate) fn getattr(&self, caller: Caller, id: u64) -> io::Result<Told> {
        if let Some(told) = self.told_at_once(caller, id) {
            return Ok(told);
        }
        let asked = self.nodes.moment();
        let node = self.nodes.node(id)?;
        if self.memory.is_on()
            && (self.session.looks_alone() || self.options.client_lags)
            && let Some(told) = self.look_alone(caller, &node)
        {
            return Ok(told);
        }
        // Before the look: what changes meanwhile must not be told to programs.
        let ticket = self.looking(&node);
        let told = self.attributes(caller, &node, Consult::Everywhere, asked)?;
        self.tell_programs(&node, ticket, &told);
        Ok(told)
    }

    /// A node's attributes have changed, or those that decide who may pass a directory.
    pub(crate) fn changed(&self, id: u64) {
        match self.nodes.node(id) {
            Ok(node) if self.nodes.is_cached(&node) => self.session.file_changed(node.file()),
            Ok(_) | Err(_) => self.session.names_changed(),
        }
    }

    /// The attributes of a node, as memory has them.
    pub(crate) fn told_at_once(&self, caller: Caller, id: u64) -> Option<Told> {
        let node = self.nodes.node(id).ok()?;
        let file = self.nodes.leasable(node.key, node.kind)?;
        let kept = self.memory.attributes(file)?;
        // A number that the store gave to another file is found out by its time of birth.
        node.is(&kept.0)
            .then(|| self.told_from(caller, &node, kept))
    }

    /// Attributes out of memory, as the kernel is told them.
    pub(crate) fn told_from(
        &self,
        caller: Caller,
        node: &Inode,
        (mut stat, ttl, way): (Stat, Duration, OnItsWay),
    ) -> Told {
        if let (Some(bytes), true) = (self.options.request_bytes, self.nodes.is_cached(node)) {
            stat.best_served_in(bytes);
        }
        self.nodes.tell(node.id, stat.size(), self.nodes.moment());
        let told = Told {
            way: Some(way),
            ..self.told(caller, node, stat, ttl)
        };
        // A revocation since the look waits for this answer, and then voids what is told here.
        self.tell_programs(node, self.looking(node), &told);
        told
    }

    /// Attributes that nobody can call back: the kernel must not keep them.
    pub(crate) fn told_once(&self, caller: Caller, node: &Inode, mut stat: Stat) -> Told {
        if let (Some(bytes), true) = (self.options.request_bytes, self.nodes.is_cached(node)) {
            stat.best_served_in(bytes);
        }
        self.nodes.tell(node.id, stat.size(), self.nodes.moment());
        self.told(caller, node, stat, Duration::ZERO)
    }

    /// The beginning of a look at attributes that programs may keep.
    fn looking(&self, node: &Inode) -> Option<AttributeTicket> {
        let cached = self.nodes.is_cached(node);
        cached.then(|| self.session.looking(node.file())).flatten()
    }

    /// The operating system is about to be told this.
    fn tell_programs(&self, node: &Inode, ticket: Option<AttributeTicket>, told: &Told) {
        if let Some(ticket) = ticket.filter(|_| !told.ttl.is_zero()) {
            let digest = shown(&told.attr).digest();
            self.session.told(node.file(), ticket, digest, told.ttl);
        }
    }

    /// The attributes of a node, for a request that came at a moment. With [`Consult::Here`] nothing waits, unless the
    /// store lags. The reason is that the kernel cuts reads of a file that it did not know at the size which it is told
    /// here, until it has taken another answer. It ignores answers that a revocation overtakes.
    pub(crate) fn attributes(
        &self,
        caller: Caller,
        node: &Inode,
        consult: Consult,
        asked: Moment,
    ) -> io::Result<Told> {
        let fd = self.nodes.fd(node.id)?;
        if !self.nodes.is_cached(node) {
            let stat = Stat::of(&*fd)?;
            return Ok(self.told(caller, node, stat, self.options.name_ttl));
        }
        let exact = consult == Consult::Everywhere;
        // The session first: what it knows may reach the store between the two looks, not leave it.
        let others = exact || self.store_is_behind;
        let sought = Sought::of("the size", node.file());
        let known = ask_soon(sought, |done| self.session.size(node.file(), others, done))?;
        // The store's own client may be wrong of what nobody else tells.
        let stat = match known.filter(|known| known.size.is_some()) {
            Some(known) => Stat::of(&*fd).map(|stat| stat.overlaid(known)),
            None => self.stat(node, &fd),
        };
        let mut stat = stat?;
        if let Some(bytes) = self.options.request_bytes {
            stat.best_served_in(bytes);
        }
        let keep = known.is_some_and(|known| known.keep);
        let ttl = match keep && exact {
            true => self.options.attr_ttl,
            false => Duration::ZERO,
        };
        if others || (keep && known.is_some_and(|known| known.size.is_some())) {
            self.nodes.tell(node.id, stat.size(), asked);
        } else {
            stat.set_size(self.nodes.tell_no_less(node.id, stat.size(), asked));
        }
        Ok(self.told(caller, node, stat, ttl))
    }

    fn told(&self, caller: Caller, node: &Inode, mut stat: Stat, ttl: Duration) -> Told {
        if self.options.ids == ShownOwners::Mine {
            stat.owned_by(caller.uid, caller.gid);
        }
        Told {
            attr: stat.attr(node.id),
            ttl,
            way: None,
        }
    }

    /// `SETATTR`. May wait for the session.
    pub(crate) fn setattr(&self, caller: Caller, id: u64, change: &Change) -> io::Result<Told> {
        let asked = self.nodes.moment();
        let node = self.nodes.node(id)?;
        let handle = change
            .handle
            .and_then(|number| self.files.find(number).ok());
        self.set_rights(caller, &node, change)?;
        if change.mode.is_some_and(|mode| mode & WRITE_BITS == 0) {
            self.laminate(&node)?;
        }
        if let Some(size) = change.size {
            self.resize(caller, &node, handle.as_deref(), size)?;
            self.bases.forget_from(node.id, size);
        }
        if change.sets_times() {
            self.set_times(caller, &node, change)?;
        }
        let told = self.attributes(caller, &node, Consult::Everywhere, asked)?;
        // Linux takes the answer to a change also if a recall has overtaken it.
        Ok(Told {
            ttl: Duration::ZERO,
            ..told
        })
    }

    /// Until this is dropped, nobody waits for pages of a file that a program here may have mapped.
    pub(crate) fn truncation_begins(&self, id: u64) -> Option<HeldBack> {
        let node = self.nodes.node(id).ok()?;
        let may_be_mapped = self.nodes.is_cached(&node) && node.is_open();
        may_be_mapped.then(|| self.revoker.truncation_begins(node.file()))
    }

    fn set_rights(&self, caller: Caller, node: &Inode, change: &Change) -> io::Result<()> {
        if change.mode.is_none() && change.uid.is_none() && change.gid.is_none() {
            return Ok(());
        }
        self.touch(node, |fd| {
            // A mode that comes with a size is the kernel's own: it takes set-user-id away from a
            // file that is being truncated, which its writer need not own.
            let _as = match change.size {
                None => Some(self.wardrobe.assume(caller)?),
                Some(_) => None,
            };
            // Mode before owner: the old owner may change both, and not after giving the file away.
            if let Some(mode) = change.mode {
                set_mode(fd, mode)?;
            }
            if change.uid.is_some() || change.gid.is_some() {
                self.may_be_meant(fd, change)?;
                let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
                rustix::fs::chownat(fd, "", uid, gid, AtFlags::EMPTY_PATH)?;
            }
            Ok(())
        })
    }

    /// A program in whose eyes all is its own says so of a copy of anything. It is refused aloud what
    /// would take a true owner away.
    fn may_be_meant(&self, fd: &OwnedFd, change: &Change) -> io::Result<()> {
        if self.options.ids == ShownOwners::AsStored {
            return Ok(());
        }
        let now = rustix::fs::fstat(fd)?;
        let is_same = change.uid.is_none_or(|uid| uid == now.st_uid)
            && change.gid.is_none_or(|gid| gid == now.st_gid);
        match is_same {
            true => Ok(()),
            false => Err(raw(libc::EPERM)),
        }
    }

    /// Gives an inode to the owner that is meant.
    pub(crate) fn give(&self, caller: Caller, node: &Inode, owner: Owner) -> io::Result<()> {
        let told = |id: u32| (id != u32::MAX).then_some(id);
        let (uid, gid) = (told(owner.uid), told(owner.gid));
        self.touch(node, |fd| {
            let _as = self.wardrobe.assume(caller)?;
            let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
            Ok(rustix::fs::chownat(fd, "", uid, gid, AtFlags::EMPTY_PATH)?)
        })
    }

    /// The store lets nobody write the file any more: where that publishes it, it is whole from now on.
    fn laminate(&self, node: &Inode) -> io::Result<()> {
        if !self.nodes.is_cached(node) {
            return Ok(());
        }
        let stamp = Stat::of(&*self.nodes.fd(node.id)?)?.stamp();
        ask(|done| self.session.laminate(node.file(), stamp, done))?;
        Ok(())
    }

    fn set_times(&self, caller: Caller, node: &Inode, change: &Change) -> io::Result<()> {
        if self.nodes.is_cached(node) {
            // Bytes that reached the store later would move the times again.
            ask(|done| self.session.settle(node.file(), done))?;
        }
        let times = Timestamps {
            last_access: timespec(change.atime),
            last_modification: timespec(change.mtime),
        };
        self.touch(node, |fd| {
            let _as = self.wardrobe.assume(caller)?;
            Ok(rustix::fs::utimensat(
                CWD,
                proc_path(fd),
                &times,
                AtFlags::empty(),
            )?)
        })
    }

    /// Sets the size of a file, in the cache and in the store. May wait for the session.
    pub(crate) fn resize(
        &self,
        caller: Caller,
        node: &Inode,
        handle: Option<&OpenHandle>,
        size: u64,
    ) -> io::Result<()> {
        let fd = match handle {
            Some(handle) if handle.access.write => handle.fd.try_clone()?,
            Some(_) | None => self.open_node(caller, node, OFlags::WRONLY)?,
        };
        if self.nodes.is_cached(node) {
            let own = fd.try_clone()?;
            if ask(|done| self.session.truncate(node.file(), own, size, done))?.is_some() {
                return Ok(());
            }
        }
        Ok(rustix::fs::ftruncate(fd, size)?)
    }

    /// `ACCESS`: the store says what the caller may do.
    pub(crate) fn access(&self, caller: Caller, id: u64, mask: AccessFlags) -> io::Result<()> {
        let fd = self.nodes.fd(id)?;
        let wanted = Access::from_bits_truncate(mask.bits() as u32);
        let _as = self.wardrobe.assume(caller)?;
        Ok(rustix::fs::accessat(
            CWD,
            proc_path(&*fd),
            wanted,
            AtFlags::EACCESS,
        )?)
    }

    /// `STATFS`.
    pub(crate) fn statfs(&self, id: u64) -> io::Result<StatVfs> {
        Ok(rustix::fs::fstatvfs(&*self.nodes.fd(id)?)?)
    }

    /// Opens a node's file under the caller's rights.
    pub(crate) fn open_node(
        &self,
        caller: Caller,
        node: &Inode,
        flags: OFlags,
    ) -> io::Result<OwnedFd> {
        let fd = self.nodes.named_fd(node.id)?;
        let _as = self.wardrobe.assume(caller)?;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        Ok(rustix::fs::open(proc_path(&*fd), flags, Mode::empty())?)
    }

    /// Opens a file that the caller may execute and not read, for the operating system alone.
    pub(crate) fn open_to_execute(&self, caller: Caller, node: &Inode) -> io::Result<OwnedFd> {
        let fd = self.nodes.named_fd(node.id)?;
        let path = proc_path(&*fd);
        {
            let _as = self.wardrobe.assume(caller)?;
            rustix::fs::accessat(CWD, &path, Access::EXEC_OK, AtFlags::EACCESS)?;
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
        Ok(rustix::fs::open(path, flags, Mode::empty())?)
    }

    /// Changes something about an inode in the store, and tells the session that it was us.
    pub(crate) fn touch(
        &self,
        node: &Inode,
        change: impl FnOnce(&OwnedFd) -> io::Result<()>,
    ) -> io::Result<()> {
        self.touch_along(node, None, change)
    }

    /// The same where names of a directory change as well: both are asked for at once, in order.
    pub(crate) fn touch_along(
        &self,
        node: &Inode,
        dir: Option<FileKey>,
        change: impl FnOnce(&OwnedFd) -> io::Result<()>,
    ) -> io::Result<()> {
        let fd = self.nodes.fd(node.id)?;
        let file = self.nodes.leasable(node.key, node.kind);
        let mut changing = self.changing(&[file, dir])?;
        if !self.nodes.is_cached(node) {
            let result = change(&fd);
            let after = Stat::of(&*fd).ok();
            changing.ctime = file.zip(after.map(|after| after.stamp().ctime_ns));
            return result;
        }
        let before = Stat::of(&*fd)?;
        let result = change(&fd);
        // Part of a change may have happened before it failed.
        let after = Stat::of(&*fd)?;
        changing.ctime = file.map(|file| (file, after.stamp().ctime_ns));
        self.restamp(&before, &after);
        result
    }
}

/// Sets permission bits through an `O_PATH` descriptor.
pub(crate) fn set_mode(fd: impl AsFd, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::chmod(
        proc_path(fd),
        Mode::from_raw_mode(mode & 0o7777),
    )?)
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    match time {
        None => Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        Some(TimeOrNow::Now) => Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        },
        Some(TimeOrNow::SpecificTime(time)) => since_epoch(time),
    }
}

fn since_epoch(time: SystemTime) -> Timespec {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Timespec {
            tv_sec: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(after.subsec_nanos()),
        },
        // fuser 0.18 makes (-11 s, +0.5 s) a time 11.5 s before the epoch, where it stands for 10.5 s
        // before: its parts are taken apart the way it put them together.
        Err(error) => {
            let (seconds, nanos) = (error.duration().as_secs(), error.duration().subsec_nanos());
            Timespec {
                tv_sec: i64::try_from(seconds).map_or(i64::MIN, |seconds| -seconds),
                tv_nsec: i64::from(nanos),
            }
        }
    }
}
