//! Requests of the operating system and answers to them: `fuser`'s words, without a device.

use crate::os::Os;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

pub use real_fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, FileType,
    FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenAccMode,
    OpenFlags, PollEvents, PollFlags, PollNotifier, RenameFlags, RequestId, TimeOrNow, Version,
    WriteFlags,
};

/// The thread that asks.
pub(crate) struct Request;

impl Request {
    /// The owner of this process: the front end serves that one alone.
    pub fn uid(&self) -> u32 {
        real_rustix::process::geteuid().as_raw()
    }

    /// The group likewise.
    pub fn gid(&self) -> u32 {
        real_rustix::process::getegid().as_raw()
    }

    /// Each comes once.
    pub fn unique(&self) -> RequestId {
        RequestId(0)
    }

    /// It is of another process namespace.
    pub fn pid(&self) -> u32 {
        0
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It was done, and there is nothing to say.
    Done,
    /// A name that was found.
    Entry(Found),
    /// Attributes, and how long they may be kept.
    Attr(FileAttr, Duration),
    /// A handle.
    Opened(FileHandle),
    /// A new file that is open.
    Created(Found, FileHandle),
    /// So many bytes were read, or written.
    Bytes(u32),
    /// Names of a directory, each with its place behind it, and what it stands for.
    Listed(Vec<Listed>),
    /// It failed.
    Failed(i32),
    /// Something that no program of a world asks for.
    Other,
}

/// A name as the operating system may keep it.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) attr: FileAttr,
    pub(crate) attr_ttl: Duration,
    pub(crate) entry_ttl: Duration,
}

/// One name of a directory.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) name: OsString,
    pub(crate) next: u64,
    pub(crate) found: Found,
}

/// The way of an answer to who asked.
pub(crate) struct Asker(Option<Sender<Answer>>);

impl Asker {
    pub(crate) fn new(to: Sender<Answer>) -> Asker {
        Asker(Some(to))
    }

    fn tell(&mut self, answer: Answer) {
        if let Some(to) = self.0.take() {
            // A program that is no more needs none.
            let _ = to.send(answer);
        }
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        if self.0.is_some() && !std::is_over() {
            std::find("a request is dropped without an answer");
        }
    }
}

macro_rules! replies {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name(Asker, Vec<Listed>);

        impl $name {
            pub(crate) fn to(to: Sender<Answer>) -> $name {
                $name(Asker::new(to), Vec::new())
            }

            /// It failed.
            pub fn error(mut self, error: Errno) {
                self.0.tell(Answer::Failed(error.code()));
            }
        }
    )*};
}

replies! {
    /// To a question that has nothing to say but how it went.
    ReplyEmpty;
    /// To a read.
    ReplyData;
    /// To a look-up.
    ReplyEntry;
    /// To a look at attributes.
    ReplyAttr;
    /// To an open.
    ReplyOpen;
    /// To a write.
    ReplyWrite;
    /// To a question of free room.
    ReplyStatfs;
    /// To the making of a file.
    ReplyCreate;
    /// To a question of locks.
    ReplyLock;
    /// To a question that is not answered.
    ReplyBmap;
    /// To another.
    ReplyIoctl;
    /// To another.
    ReplyPoll;
    /// To a listing.
    ReplyDirectory;
    /// To a listing with attributes.
    ReplyDirectoryPlus;
    /// To a look at extended attributes.
    ReplyXattr;
    /// To a seek.
    ReplyLseek;
}

fn found(attr: &FileAttr, attr_ttl: &Duration, entry_ttl: &Duration) -> Found {
    Found {
        attr: *attr,
        attr_ttl: *attr_ttl,
        entry_ttl: *entry_ttl,
    }
}

impl ReplyEmpty {
    /// It was done.
    pub fn ok(mut self) {
        self.0.tell(Answer::Done);
    }
}

impl ReplyEntry {
    /// A name.
    pub fn entry_with_ttls(
        mut self,
        attr_ttl: &Duration,
        entry_ttl: &Duration,
        attr: &FileAttr,
        _: Generation,
    ) {
        self.0.tell(Answer::Entry(found(attr, attr_ttl, entry_ttl)));
    }
}

impl ReplyAttr {
    /// Attributes.
    pub fn attr(mut self, ttl: &Duration, attr: &FileAttr) {
        self.0.tell(Answer::Attr(*attr, *ttl));
    }
}

impl ReplyOpen {
    /// A handle.
    pub fn opened(mut self, handle: FileHandle, _: FopenFlags) {
        self.0.tell(Answer::Opened(handle));
    }
}

impl ReplyCreate {
    /// A new file.
    pub fn created(
        mut self,
        ttl: &Duration,
        attr: &FileAttr,
        _: Generation,
        handle: FileHandle,
        _: FopenFlags,
    ) {
        self.0.tell(Answer::Created(found(attr, ttl, ttl), handle));
    }
}

impl ReplyData {
    /// Bytes.
    pub fn data(mut self, bytes: &[u8]) {
        self.0.tell(Answer::Bytes(bytes.len() as u32));
    }
}

impl ReplyWrite {
    /// So many bytes.
    pub fn written(mut self, len: u32) {
        self.0.tell(Answer::Bytes(len));
    }
}

/// Names that fit into one answer.
const LISTED_MAX: usize = 8;

impl ReplyDirectoryPlus {
    /// One more name; true if there is no room for it.
    pub fn add<T: AsRef<OsStr>>(
        &mut self,
        _: INodeNo,
        next: u64,
        name: T,
        ttl: &Duration,
        attr: &FileAttr,
        _: Generation,
    ) -> bool {
        let is_full = self.1.len() == LISTED_MAX;
        if !is_full {
            let (name, found) = (name.as_ref().to_owned(), found(attr, ttl, ttl));
            self.1.push(Listed { name, next, found });
        }
        is_full
    }

    /// All that there is room for.
    pub fn ok(mut self) {
        let listed = std::mem::take(&mut self.1);
        self.0.tell(Answer::Listed(listed));
    }
}

impl ReplyDirectory {
    /// Not used by programs of a world.
    pub fn add<T: AsRef<OsStr>>(&mut self, _: INodeNo, _: u64, _: FileType, _: T) -> bool {
        true
    }

    /// Likewise.
    pub fn ok(mut self) {
        self.0.tell(Answer::Other);
    }
}

macro_rules! unused {
    ($($reply:ident::$name:ident($($what:ty),*);)*) => {$(
        impl $reply {
            /// Not used by programs of a world.
            #[allow(clippy::too_many_arguments, reason = "the words are `fuser`'s")]
            pub fn $name(mut self, $(_: $what),*) {
                self.0.tell(Answer::Other);
            }
        }
    )*};
}

unused! {
    ReplyStatfs::statfs(u64, u64, u64, u64, u64, u32, u32, u32);
    ReplyLock::locked(u64, u64, i32, u32);
    ReplyXattr::size(u32);
    ReplyLseek::offset(i64);
}

impl ReplyXattr {
    /// Not used by programs of a world.
    pub fn data(mut self, _: &[u8]) {
        self.0.tell(Answer::Other);
    }
}

/// The way of the front end to the operating system.
#[derive(Clone)]
pub(crate) struct Notifier(pub(crate) Weak<Os>);

impl Notifier {
    fn os(&self) -> std::io::Result<Arc<Os>> {
        let gone = || std::io::Error::from_raw_os_error(libc::ENOTCONN);
        self.0.upgrade().ok_or_else(gone)
    }

    /// Voids all that is kept of an inode.
    pub fn inval_inode(&self, ino: INodeNo, _: i64, _: i64) -> std::io::Result<()> {
        self.os()?.invalidate(ino.0);
        Ok(())
    }

    /// A name leads elsewhere.
    pub fn inval_entry(&self, parent: INodeNo, name: &OsStr) -> std::io::Result<()> {
        self.os()?.unnamed(parent.0, name);
        Ok(())
    }

    /// A name, and what it stood for, are gone.
    pub fn delete(&self, parent: INodeNo, child: INodeNo, name: &OsStr) -> std::io::Result<()> {
        self.os()?.deleted(parent.0, child.0, name);
        Ok(())
    }
}

macro_rules! filesystem {
    ($($name:ident($($what:ty),*);)*) => {
        /// The requests of the operating system.
        #[allow(clippy::too_many_arguments, reason = "the words are `fuser`'s")]
        pub(crate) trait Filesystem {
            /// The mount begins.
            fn init(&mut self, request: &Request, config: &mut KernelConfig) -> std::io::Result<()>;
            /// The mount ends.
            fn destroy(&mut self);
            /// The operating system forgets.
            fn forget(&self, request: &Request, ino: INodeNo, count: u64);
            $(
                /// One of the requests.
                fn $name(&self, request: &Request, $(_: $what),*);
            )*
        }
    };
}

type Time = Option<SystemTime>;

filesystem! {
    lookup(INodeNo, &OsStr, ReplyEntry);
    getattr(INodeNo, Option<FileHandle>, ReplyAttr);
    setattr(INodeNo, Option<u32>, Option<u32>, Option<u32>, Option<u64>, Option<TimeOrNow>,
        Option<TimeOrNow>, Time, Option<FileHandle>, Time, Time, Time, Option<BsdFileFlags>, ReplyAttr);
    readlink(INodeNo, ReplyData);
    mknod(INodeNo, &OsStr, u32, u32, u32, ReplyEntry);
    mkdir(INodeNo, &OsStr, u32, u32, ReplyEntry);
    unlink(INodeNo, &OsStr, ReplyEmpty);
    rmdir(INodeNo, &OsStr, ReplyEmpty);
    symlink(INodeNo, &OsStr, &Path, ReplyEntry);
    rename(INodeNo, &OsStr, INodeNo, &OsStr, RenameFlags, ReplyEmpty);
    link(INodeNo, INodeNo, &OsStr, ReplyEntry);
    open(INodeNo, OpenFlags, ReplyOpen);
    create(INodeNo, &OsStr, u32, u32, i32, ReplyCreate);
    read(INodeNo, FileHandle, u64, u32, OpenFlags, Option<LockOwner>, ReplyData);
    write(INodeNo, FileHandle, u64, &[u8], WriteFlags, OpenFlags, Option<LockOwner>, ReplyWrite);
    flush(INodeNo, FileHandle, LockOwner, ReplyEmpty);
    release(INodeNo, FileHandle, OpenFlags, Option<LockOwner>, bool, ReplyEmpty);
    fsync(INodeNo, FileHandle, bool, ReplyEmpty);
    opendir(INodeNo, OpenFlags, ReplyOpen);
    readdir(INodeNo, FileHandle, u64, ReplyDirectory);
    readdirplus(INodeNo, FileHandle, u64, ReplyDirectoryPlus);
    releasedir(INodeNo, FileHandle, OpenFlags, ReplyEmpty);
    fsyncdir(INodeNo, FileHandle, bool, ReplyEmpty);
    statfs(INodeNo, ReplyStatfs);
    setxattr(INodeNo, &OsStr, &[u8], i32, u32, ReplyEmpty);
    getxattr(INodeNo, &OsStr, u32, ReplyXattr);
    listxattr(INodeNo, u32, ReplyXattr);
    removexattr(INodeNo, &OsStr, ReplyEmpty);
    access(INodeNo, AccessFlags, ReplyEmpty);
    getlk(INodeNo, FileHandle, LockOwner, u64, u64, i32, u32, ReplyLock);
    setlk(INodeNo, FileHandle, LockOwner, u64, u64, i32, u32, bool, ReplyEmpty);
    bmap(INodeNo, u32, u64, ReplyBmap);
    ioctl(INodeNo, FileHandle, IoctlFlags, u32, &[u8], u32, ReplyIoctl);
    poll(INodeNo, FileHandle, PollNotifier, PollEvents, PollFlags, ReplyPoll);
    fallocate(INodeNo, FileHandle, u64, u64, i32, ReplyEmpty);
    lseek(INodeNo, FileHandle, i64, i32, ReplyLseek);
    copy_file_range(INodeNo, FileHandle, u64, INodeNo, FileHandle, u64, u64, CopyFileRangeFlags, ReplyWrite);
}
