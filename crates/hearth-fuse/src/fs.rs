//! The dispatcher: each kernel request becomes one call of the part that knows about it.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, FileHandle, FopenFlags, INodeNo, IoctlFlags,
    KernelConfig, LockOwner, OpenFlags, PollEvents, PollNotifier, RenameFlags, ReplyAttr,
    ReplyBmap, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLock, ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr,
    Request, TimeOrNow, WriteFlags,
};

use crate::attributes::Change;
use crate::calls::Call;
use crate::core::Core;
use crate::directories::DirectoryAt;
use crate::errors::{errno, raw};
use crate::files::{Keeper, ReadAt, WriteAt};
use crate::identity::Caller;
use crate::locks::{LockRequest, Patience};
use crate::names::Name;
use crate::open::{Created, NewFile, Opened, Origin, StoreOpen, truncates};
use crate::prefetch::Remembered;
use crate::replies::{
    reply_attr, reply_create, reply_empty, reply_entry, reply_look_up, reply_open, reply_xattr,
};
use crate::space::Extent;
use crate::sys::RangeLock;
use crate::xattrs::NewValue;
use hearth_client::caller::work_for;

/// Longer names have an error of the store's, not that of a name which is not there.
const NAME_BYTES_MAX: usize = 255;

/// The handlers that fuser calls.
pub(crate) struct HearthFs {
    core: Arc<Core>,
}

impl HearthFs {
    pub(crate) fn new(core: Arc<Core>) -> HearthFs {
        HearthFs { core }
    }

    /// Runs a request that may wait for the session about this node, elsewhere if need be.
    fn run_for(
        &self,
        (what, id): (&'static str, INodeNo),
        job: impl FnOnce(&Arc<Core>) + Send + 'static,
    ) {
        match self.core.nodes.node(id.0) {
            Ok(node) if self.core.nodes.is_cached(&node) => self.run((what, id), job),
            Ok(_) | Err(_) => {
                let _call = self.begin(what, id);
                job(&self.core);
            }
        }
    }

    /// Does what changes names; programs hear of that before they are answered.
    fn rename_by<T>(core: &Core, work: impl FnOnce(&Core) -> T) -> T {
        let done = work(core);
        core.session.names_changed();
        done
    }

    /// The same for attributes of a node.
    fn change_by<T>(core: &Core, id: INodeNo, work: impl FnOnce(&Core) -> T) -> T {
        let done = work(core);
        core.changed(id.0);
        done
    }

    /// Runs a request that may wait for the session.
    fn run(
        &self,
        (what, id): (&'static str, INodeNo),
        job: impl FnOnce(&Arc<Core>) + Send + 'static,
    ) {
        let (core, call) = (Arc::clone(&self.core), self.begin(what, id));
        self.core.background.run(move || {
            job(&core);
            drop(call);
        });
    }

    fn begin(&self, what: &'static str, id: INodeNo) -> Call {
        self.core.calls.begin(what, id.0)
    }
}

/// `CREATE`. May wait for the session.
fn create(core: &Arc<Core>, caller: Caller, new: NewFile<'_>, reply: ReplyCreate) {
    let Created {
        entry,
        open,
        origin,
    } = match HearthFs::rename_by(core, |core| core.create_store(caller, new)) {
        Ok(created) => created,
        Err(error) => return reply.error(errno(&error)),
    };
    if origin == Origin::Found && truncates(new.flags) {
        let node = open.node.file();
        let opened = core.open_truncated(caller, open);
        core.session.file_changed(node);
        reply_create(core, &entry, opened, reply);
    } else {
        let (own, parent, name) = (Arc::clone(core), new.at.parent, new.at.name.to_owned());
        let is_own = origin == Origin::Made && new.flags.0 & libc::O_EXCL != 0;
        core.admit(open, move |opened| match opened {
            Err(error) if is_own => Arc::clone(&own).background.later(move || {
                let name = &name;
                own.unmake(caller, Name { parent, name }, entry.attr.ino.0);
                reply_create(&own, &entry, Err(error), reply);
            }),
            opened => reply_create(&own, &entry, opened, reply),
        });
    }
}

fn open_existing(core: &Arc<Core>, open: StoreOpen, reply: ReplyOpen) {
    core.admit(open, move |opened| reply_open(opened, reply));
}

impl fuser::Filesystem for HearthFs {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        self.core.agree(config)
    }

    fn destroy(&mut self) {
        self.core.close_all();
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _call = self.begin("a look-up", parent);
        let at = Name {
            parent: parent.0,
            name,
        };
        let caller = Caller::from(request);
        if name.len() > NAME_BYTES_MAX {
            return reply_look_up(&self.core, at, self.core.look_up(caller, at), reply);
        }
        // A look-up that waits for a place to be forgotten needs a thread, as one that asks others does.
        let known = match self.core.revoker.leaving.is_leaving() {
            true => Remembered::Perhaps,
            false => self.core.remember(caller, at),
        };
        match known {
            Remembered::Entry(entry) => reply_entry(Ok(*entry), reply),
            Remembered::Absent => reply_look_up(&self.core, at, Err(raw(libc::ENOENT)), reply),
            Remembered::No if !self.core.store_is_behind => {
                reply_look_up(&self.core, at, self.core.look_up(caller, at), reply);
            }
            Remembered::No | Remembered::Perhaps => {
                let name = name.to_owned();
                self.run(("a look-up", parent), move |core| {
                    let at = Name {
                        parent: parent.0,
                        name: &name,
                    };
                    core.revoker.leaving.until_left();
                    reply_look_up(core, at, core.lookup(caller, at), reply);
                });
            }
        }
    }

    fn forget(&self, _request: &Request, ino: INodeNo, count: u64) {
        self.core.nodes.forget(ino.0, count);
    }

    fn getattr(&self, request: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        let caller = Caller::from(request);
        if let Some(told) = self.core.told_at_once(caller, ino.0) {
            return reply_attr(Ok(told), reply);
        }
        self.run_for(("a look at attributes", ino), move |core| {
            reply_attr(core.getattr(caller, ino.0), reply)
        });
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        work_for(request.pid());
        let caller = Caller::from(request);
        let change = Change {
            mode,
            uid,
            gid,
            size,
            atime,
            mtime,
            handle: fh,
        };
        // The kernel holds write-backs back already, though the job may have to wait for a thread.
        let truncation = size.and_then(|_| self.core.truncation_begins(ino.0));
        self.run(("a change of attributes", ino), move |core| {
            let done = Self::change_by(core, ino, |core| core.setattr(caller, ino.0, &change));
            drop(truncation);
            reply_attr(done, reply)
        });
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        let _call = self.begin("a look at a link", ino);
        match self.core.readlink(ino.0) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let (caller, name) = (Caller::from(request), name.to_owned());
        self.run(("the making of a name", parent), move |core| {
            let at = Name {
                parent: parent.0,
                name: &name,
            };
            reply_entry(
                Self::rename_by(core, |core| core.mknod(caller, at, (mode, umask), rdev)),
                reply,
            );
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let (caller, name) = (Caller::from(request), name.to_owned());
        self.run(("the making of a directory", parent), move |core| {
            let at = Name {
                parent: parent.0,
                name: &name,
            };
            reply_entry(
                Self::rename_by(core, |core| core.mkdir(caller, at, (mode, umask))),
                reply,
            );
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (caller, name) = (Caller::from(request), name.to_owned());
        self.run(("a removal", parent), move |core| {
            let at = Name {
                parent: parent.0,
                name: &name,
            };
            reply_empty(Self::rename_by(core, |core| core.unlink(caller, at)), reply);
        });
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (caller, name) = (Caller::from(request), name.to_owned());
        self.run(("a removal", parent), move |core| {
            let at = Name {
                parent: parent.0,
                name: &name,
            };
            reply_empty(Self::rename_by(core, |core| core.rmdir(caller, at)), reply);
        });
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let (caller, name) = (Caller::from(request), name.to_owned());
        let target = target.to_owned();
        self.run(("the making of a link", parent), move |core| {
            let at = Name {
                parent: parent.0,
                name: &name,
            };
            reply_entry(
                Self::rename_by(core, |core| core.symlink(caller, at, &target)),
                reply,
            );
        });
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let caller = Caller::from(request);
        let (name, newname) = (name.to_owned(), newname.to_owned());
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        self.run(("a rename", parent), move |core| {
            let from = Name {
                parent: parent.0,
                name: &name,
            };
            let to = Name {
                parent: newparent.0,
                name: &newname,
            };
            let done = Self::rename_by(core, |core| core.rename(caller, from, to, flags));
            reply_empty(done, reply);
        });
    }

    fn link(
        &self,
        request: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let (caller, name) = (Caller::from(request), newname.to_owned());
        self.run(("the making of a link", newparent), move |core| {
            let at = Name {
                parent: newparent.0,
                name: &name,
            };
            reply_entry(
                Self::rename_by(core, |core| core.link(caller, ino.0, at)),
                reply,
            );
        });
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let _call = self.begin("an open", ino);
        work_for(request.pid());
        let caller = Caller::from(request);
        if let Some(opened) = self.core.open_idle(caller, ino.0, flags) {
            return reply_open(Ok(opened), reply);
        }
        let open = match self.core.open_store(caller, ino.0, flags) {
            Ok(open) => open,
            Err(error) => return reply.error(errno(&error)),
        };
        if truncates(flags) {
            self.run(("an open", ino), move |core| {
                let done = Self::change_by(core, ino, |_| core.open_truncated(caller, open));
                reply_open(done, reply)
            });
        } else {
            open_existing(&self.core, open, reply);
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        work_for(request.pid());
        let caller = Caller::from(request);
        let (name, flags) = (name.to_owned(), OpenFlags(flags));
        self.run(("the making of a file", parent), move |core| {
            work_for(caller.tid);
            let at = Name {
                parent: parent.0,
                name: &name,
            };
            let new = NewFile {
                at,
                mode,
                umask,
                flags,
            };
            create(core, caller, new, reply);
        });
    }

    fn read(
        &self,
        request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        work_for(request.pid());
        // The kernel names the owner only when it reads on behalf of a program. It fills its page
        // cache without, even through a direct handle when that is mapped.
        let keeper = if lock_owner.is_some() {
            Keeper::Nobody
        } else {
            Keeper::Kernel
        };
        self.core.read(
            fh,
            ReadAt {
                offset,
                len: size,
                keeper,
            },
            reply,
        );
    }

    fn write(
        &self,
        request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        work_for(request.pid());
        let write = WriteAt {
            offset,
            data: data.to_vec(),
            kernel: write_flags,
            open: flags,
        };
        self.core.write(request.into(), fh, write, reply);
    }

    fn flush(
        &self,
        request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        work_for(request.pid());
        self.core.flush(fh, lock_owner, reply);
    }

    fn release(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.core.release(fh, lock_owner);
        reply.ok();
    }

    fn fsync(
        &self,
        request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        work_for(request.pid());
        self.core.fsync(fh, reply);
    }

    fn opendir(&self, request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let _call = self.begin("an open", ino);
        let opened = self.core.opendir(request.into(), ino.0);
        reply_open(
            opened.map(|handle| Opened {
                handle,
                flags: FopenFlags::empty(),
            }),
            reply,
        );
    }

    fn readdir(
        &self,
        _request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let _call = self.begin("a listing", ino);
        match self.core.readdir(fh, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn readdirplus(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let at = DirectoryAt {
            parent: ino.0,
            handle: fh,
            offset,
        };
        let caller = Caller::from(request);
        self.run(("a listing", ino), move |core| {
            match core.readdirplus(caller, at, &mut reply) {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn releasedir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.core.closedir(fh);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let _call = self.begin("a sync", ino);
        reply_empty(self.core.fsyncdir(fh), reply);
    }

    fn statfs(&self, _request: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let _call = self.begin("a look at free room", ino);
        match self.core.statfs(ino.0) {
            Ok(s) => reply.statfs(
                s.f_blocks,
                s.f_bfree,
                s.f_bavail,
                s.f_files,
                s.f_ffree,
                s.f_bsize as u32,
                s.f_namemax as u32,
                s.f_frsize as u32,
            ),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let (caller, name, value) = (Caller::from(request), name.to_owned(), value.to_owned());
        self.run(("a change of attributes", ino), move |core| {
            let new = NewValue {
                name: &name,
                value: &value,
                flags,
            };
            reply_empty(
                Self::change_by(core, ino, |core| core.setxattr(caller, ino.0, new)),
                reply,
            );
        });
    }

    fn getxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        let _call = self.begin("a look at attributes", ino);
        reply_xattr(self.core.getxattr(request.into(), ino.0, name, size), reply);
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let _call = self.begin("a look at attributes", ino);
        reply_xattr(self.core.listxattr(request.into(), ino.0, size), reply);
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (caller, name) = (Caller::from(request), name.to_owned());
        self.run(("a change of attributes", ino), move |core| {
            let done = Self::change_by(core, ino, |core| core.removexattr(caller, ino.0, &name));
            reply_empty(done, reply)
        });
    }

    fn access(&self, request: &Request, ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let _call = self.begin("a question of rights", ino);
        reply_empty(self.core.access(request.into(), ino.0, mask), reply);
    }

    fn getlk(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        lock_owner: LockOwner,
        start: u64,
        end: u64,
        typ: i32,
        _pid: u32,
        reply: ReplyLock,
    ) {
        let lock = RangeLock {
            kind: typ,
            start,
            end,
        };
        match self.core.getlk(LockRequest {
            handle: fh,
            owner: lock_owner,
            lock,
        }) {
            // The holder may be on another node: no process number would mean anything.
            Ok(found) => reply.locked(found.start, found.end, found.kind, 0),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn setlk(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        lock_owner: LockOwner,
        start: u64,
        end: u64,
        typ: i32,
        _pid: u32,
        sleep: bool,
        reply: ReplyEmpty,
    ) {
        let lock = RangeLock {
            kind: typ,
            start,
            end,
        };
        let patience = if sleep { Patience::Wait } else { Patience::Try };
        let wanted = LockRequest {
            handle: fh,
            owner: lock_owner,
            lock,
        };
        let call = self.begin("a lock", ino);
        self.core
            .setlk((request.into(), call), wanted, patience, reply);
    }

    fn bmap(&self, _request: &Request, _ino: INodeNo, _block: u32, _index: u64, reply: ReplyBmap) {
        reply.error(fuser::Errno::ENOSYS);
    }

    fn ioctl(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        _cmd: u32,
        _in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(fuser::Errno::ENOTTY);
    }

    fn poll(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _notifier: PollNotifier,
        _events: PollEvents,
        _flags: fuser::PollFlags,
        reply: ReplyPoll,
    ) {
        // The kernel then takes every file for always ready, which regular files are.
        reply.error(fuser::Errno::ENOSYS);
    }

    fn fallocate(
        &self,
        _request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let extent = Extent {
            offset,
            len: length,
            mode,
        };
        self.run_for(("an allocation", ino), move |core| {
            reply_empty(
                Self::change_by(core, ino, |core| core.fallocate(fh, extent)),
                reply,
            )
        });
    }

    fn lseek(
        &self,
        _request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.run_for(("a seek", ino), move |core| {
            match core.lseek(fh, offset, whence) {
                Ok(found) => reply.offset(found),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn copy_file_range(
        &self,
        _request: &Request,
        _ino_in: INodeNo,
        _fh_in: FileHandle,
        _offset_in: u64,
        _ino_out: INodeNo,
        _fh_out: FileHandle,
        _offset_out: u64,
        _len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        // The kernel then reads and writes through the cache.
        reply.error(fuser::Errno::ENOSYS);
    }
}
