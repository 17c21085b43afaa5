//! The dispatcher: each request of the operating system becomes a call of a gateway. A worker waits for its
//! answer; the file system's other workers take the next requests.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileHandle, FileType, FopenFlags, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLock, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use hearth_fuse::store::kernel_kind;
use std::os::unix::ffi::OsStrExt;

use super::requests::{Entry, TTL, at, moment, whom};
use super::tree::Store;
use crate::call::{Answer, Call, Change, Lock, Place};

/// A write of the operating system.
const WRITE_BYTES_MAX: u32 = 1 << 20;
/// A listing that is brought at once.
const LISTING_BYTES: u32 = 64 << 10;

/// The handlers that fuser calls.
pub(super) struct ProxyMountFs {
    store: Arc<Store>,
}

impl ProxyMountFs {
    pub(super) fn new(store: Arc<Store>) -> ProxyMountFs {
        ProxyMountFs { store }
    }
}

/// Nothing is kept of a file, and its close has nothing to say: it would be said to nobody when the agent is
/// killed.
fn plain() -> FopenFlags {
    FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH
}

fn errno(number: i32) -> Errno {
    Errno::from_i32(number)
}

fn reply_entry(entry: Result<Entry, i32>, reply: ReplyEntry) {
    match entry {
        Ok(Entry { attr, generation }) => reply.entry(&TTL, &attr, generation),
        Err(error) => reply.error(errno(error)),
    }
}

fn reply_empty(done: Result<(), i32>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

fn reply_data(bytes: Result<Vec<u8>, i32>, reply: ReplyData) {
    match bytes {
        Ok(bytes) => reply.data(&bytes),
        Err(error) => reply.error(errno(error)),
    }
}

fn reply_xattr(answer: Result<(Answer, Vec<u8>), i32>, reply: ReplyXattr) {
    match answer {
        Ok((Answer::Count(len), _)) => reply.size(u32::try_from(len).unwrap_or(u32::MAX)),
        Ok((Answer::Bytes, bytes)) => reply.data(&bytes),
        Ok(_) => reply.error(Errno::EIO),
        Err(error) => reply.error(errno(error)),
    }
}

impl fuser::Filesystem for ProxyMountFs {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = [
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            InitFlags::FUSE_BIG_WRITES,
            // The gateway makes the calls under the caller's rights, and so takes set-user-id bits away with them.
            InitFlags::FUSE_HANDLE_KILLPRIV,
            InitFlags::FUSE_MAX_PAGES,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_POSIX_LOCKS,
        ];
        for flag in wanted {
            if config.add_capabilities(flag).is_err() {
                log::debug!("the kernel lacks {flag:?}");
            }
        }
        if let Err(nearest) = config.set_max_write(WRITE_BYTES_MAX) {
            let _ = config.set_max_write(nearest);
        }
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = at(parent, name);
        let call = Call::Lookup(name.clone());
        reply_entry(self.store.entry(request, name, &call), reply);
    }

    fn forget(&self, _request: &Request, ino: INodeNo, count: u64) {
        self.store.forget(ino.0, count);
    }

    fn getattr(&self, request: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.store.attributes(request, &Call::Attributes(ino.0)) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(errno(error)),
        }
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
        let change = Change {
            mode,
            uid,
            gid,
            size,
            open: fh.map(|fh| fh.0),
            atime: atime.map(moment),
            // A size sets this one by itself.
            mtime: match (size, mtime) {
                (Some(_), Some(TimeOrNow::Now)) => None,
                (_, mtime) => mtime.map(moment),
            },
        };
        match self.store.attributes(request, &Call::Change(ino.0, change)) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readlink(&self, request: &Request, ino: INodeNo, reply: ReplyData) {
        reply_data(self.store.bytes(request, &Call::ReadLink(ino.0)), reply);
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let name = at(parent, name);
        let call = Call::MakeNode(name.clone(), mode, rdev);
        reply_entry(self.store.entry(request, name, &call), reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let name = at(parent, name);
        let call = Call::MakeDir(name.clone(), mode);
        reply_entry(self.store.entry(request, name, &call), reply);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let call = Call::Unlink(at(parent, name));
        reply_empty(self.store.order(request, &call), reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let call = Call::RemoveDir(at(parent, name));
        reply_empty(self.store.order(request, &call), reply);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let name = at(parent, name);
        let target = target.as_os_str().as_bytes().to_vec();
        let call = Call::MakeLink(name.clone(), target);
        reply_entry(self.store.entry(request, name, &call), reply);
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
        let to = at(newparent, newname);
        let call = Call::Rename(at(parent, name), to.clone(), flags.bits());
        let moved = self.store.inode(request, &call);
        let done = moved.map(|moved| self.store.moved(moved.ino, to));
        reply_empty(done, reply);
    }

    fn link(
        &self,
        request: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let name = at(newparent, newname);
        let call = Call::Link(ino.0, name.clone());
        reply_entry(self.store.entry(request, name, &call), reply);
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let open = self.store.draw();
        let opened = whom(request).and_then(|whom| {
            let call = Call::Open(ino.0, open, flags.0);
            self.store.call(&whom, &call, &[])?;
            self.store.opened(open, ino.0, Some(flags.0), whom);
            Ok(())
        });
        match opened {
            Ok(()) => reply.opened(FileHandle(open), plain()),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (open, name) = (self.store.draw(), at(parent, name));
        let made = whom(request).and_then(|whom| {
            let call = Call::Create(name.clone(), open, mode, flags);
            let entry = self.store.entry(request, name, &call)?;
            self.store.opened(open, entry.attr.ino.0, Some(flags), whom);
            Ok(entry)
        });
        match made {
            Ok(Entry { attr, generation }) => {
                reply.created(&TTL, &attr, generation, FileHandle(open), plain());
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn read(
        &self,
        request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let call = Call::Read(fh.0, offset, size);
        reply_data(self.store.bytes(request, &call), reply);
    }

    fn write(
        &self,
        request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let place = Place {
            offset: (flags.0 & libc::O_APPEND == 0).then_some(offset),
            durable: flags.0 & libc::O_DSYNC != 0,
        };
        let written = self.store.count(request, &Call::Write(fh.0, place), data);
        match written {
            Ok(len) => reply.written(u32::try_from(len).unwrap_or(u32::MAX)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn release(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.store.close(fh.0, &Call::Close(fh.0));
        reply.ok();
    }

    fn fsync(
        &self,
        request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        let call = Call::Sync(fh.0, datasync);
        reply_empty(self.store.order(request, &call), reply);
    }

    fn opendir(&self, request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let open = self.store.draw();
        let opened = whom(request).and_then(|whom| {
            self.store.call(&whom, &Call::OpenDir(ino.0, open), &[])?;
            self.store.opened(open, ino.0, None, whom);
            Ok(())
        });
        match opened {
            Ok(()) => reply.opened(FileHandle(open), FopenFlags::empty()),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdir(
        &self,
        request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let call = Call::ReadDir(fh.0, offset, LISTING_BYTES);
        let listing = match self.store.listing(request, &call) {
            Ok(listing) => listing,
            Err(error) => return reply.error(errno(error)),
        };
        for entry in listing {
            let kind = kind(entry.kind);
            let name = OsStr::from_bytes(&entry.name);
            if reply.add(INodeNo(entry.ino), entry.next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.store.close(fh.0, &Call::CloseDir(fh.0));
        reply.ok();
    }

    fn fsyncdir(
        &self,
        request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        reply_empty(self.store.order(request, &Call::SyncDir(fh.0)), reply);
    }

    fn statfs(&self, request: &Request, ino: INodeNo, reply: ReplyStatfs) {
        match self.store.by(request, &Call::Space(ino.0), &[]) {
            Ok((Answer::Space(all), _)) => reply.statfs(
                all.blocks,
                all.blocks_free,
                all.blocks_available,
                all.files,
                all.files_free,
                all.block_bytes,
                all.name_max,
                all.fragment_bytes,
            ),
            Ok(_) => reply.error(Errno::EIO),
            Err(error) => reply.error(errno(error)),
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
        let call = Call::SetExtended(ino.0, name.as_bytes().to_vec(), flags);
        reply_empty(self.store.by(request, &call, value).map(drop), reply);
    }

    fn getxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        let call = Call::GetExtended(ino.0, name.as_bytes().to_vec(), size);
        reply_xattr(self.store.by(request, &call, &[]), reply);
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let call = Call::ListExtended(ino.0, size);
        reply_xattr(self.store.by(request, &call, &[]), reply);
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let call = Call::RemoveExtended(ino.0, name.as_bytes().to_vec());
        reply_empty(self.store.order(request, &call), reply);
    }

    fn access(&self, request: &Request, ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let call = Call::Access(ino.0, mask.bits());
        reply_empty(self.store.order(request, &call), reply);
    }

    fn getlk(
        &self,
        request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _lock_owner: LockOwner,
        start: u64,
        end: u64,
        typ: i32,
        _pid: u32,
        reply: ReplyLock,
    ) {
        let lock = Lock {
            kind: typ,
            start,
            end,
        };
        match self.store.by(request, &Call::TestLock(fh.0, lock), &[]) {
            Ok((Answer::Lock(lock), _)) => reply.locked(lock.start, lock.end, lock.kind, 0),
            Ok(_) => reply.error(Errno::EIO),
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Each owner of locks has a file of its own open: the agent asks for locks of open files alone.
    fn setlk(
        &self,
        request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _lock_owner: LockOwner,
        start: u64,
        end: u64,
        typ: i32,
        _pid: u32,
        _sleep: bool,
        reply: ReplyEmpty,
    ) {
        let lock = Lock {
            kind: typ,
            start,
            end,
        };
        self.store.locking(fh.0);
        reply_empty(self.store.order(request, &Call::SetLock(fh.0, lock)), reply);
    }

    fn fallocate(
        &self,
        request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let call = Call::Allocate(fh.0, offset, length, mode);
        reply_empty(self.store.order(request, &call), reply);
    }

    fn lseek(
        &self,
        request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self
            .store
            .count(request, &Call::Seek(fh.0, offset, whence), &[])
        {
            Ok(found) => reply.offset(found.cast_signed()),
            Err(error) => reply.error(errno(error)),
        }
    }
}

fn kind(mode: u32) -> FileType {
    kernel_kind(rustix::fs::FileType::from_raw_mode(mode))
}
