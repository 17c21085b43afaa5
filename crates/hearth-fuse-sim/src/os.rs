//! A double of the operating system above a mount: names, inodes and their locks, as Linux has them for FUSE.
//!
//! A name is looked up again each time, as names have no time to live where several agents are. A directory is locked
//! while a name in it is made, moved, removed, or found for the first time. Attributes count for as long as the front end
//! says, unless a notification has voided them since they were asked for.

use crate::background::WORKERS;
use crate::handlers::HearthFs;
use crate::requests::{
    Answer, FileAttr, FileHandle, Filesystem, Found, INodeNo, LockOwner, OpenFlags, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, WriteFlags,
};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::thread;
use std::time::Duration;

/// The number of the mount's root.
pub(crate) const ROOT: u64 = 1;
/// The version of attributes that come with a change: Linux takes them, whatever was voided meanwhile.
const CHANGED: u64 = u64::MAX;
/// All programs have this file creation mask.
const MASK: u32 = 0o022;

type Job = Box<dyn FnOnce(&HearthFs) + Send>;

/// An error number, as programs get it.
pub(crate) type Errno = i32;

/// A name of a directory, the number of what it stands for, and attributes.
pub(crate) type Seen = (OsString, u64, Option<FileAttr>);

/// The operating system of one node.
pub struct Os {
    requests: Mutex<Requests>,
    changed: Condvar,
    /// No other thread has a turn while this is locked.
    kept: std::plain::Mutex<Kept>,
}

#[derive(Default)]
struct Requests {
    jobs: VecDeque<Job>,
    closed: bool,
}

#[derive(Default)]
struct Kept {
    names: BTreeMap<(u64, OsString), u64>,
    inodes: BTreeMap<u64, Inode>,
    locks: BTreeMap<u64, Arc<RwLock<()>>>,
    /// Counts attributes that were taken, and notifications.
    version: u64,
}

struct Inode {
    attr: FileAttr,
    until: Duration,
    version: u64,
    /// Look-ups that the front end has counted.
    lookups: u64,
    /// Names, open files and calls under way.
    users: u32,
}

/// An open file.
pub(crate) type Open = (Held, FileHandle);

/// An inode that is in use.
pub(crate) struct Held {
    os: Arc<Os>,
    pub(crate) ino: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        let forgotten = self.os.with(|kept| kept.leave(self.ino));
        self.os.forget(forgotten);
    }
}

/// Look-ups of an inode that is gone, which the front end is told.
type Forgotten = Option<(u64, u64)>;

impl Kept {
    fn leave(&mut self, ino: u64) -> Forgotten {
        let inode = self.inodes.get_mut(&ino)?;
        inode.users -= 1;
        let lookups = (inode.users == 0).then_some(inode.lookups)?;
        self.inodes.remove(&ino);
        Some((ino, lookups))
    }

    /// Takes attributes in that were asked for at a version; `counts` if the front end has counted a look-up.
    fn take(&mut self, attr: &FileAttr, ttl: Duration, asked: u64, counts: bool) {
        self.version += 1;
        let (ino, now) = (attr.ino.0, std::clock::now());
        std::tell(|| {
            format!(
                "os {:p} takes {ino} mode {:o} for {ttl:?} asked at {asked}",
                self, attr.perm
            )
        });
        let inode = self.inodes.entry(ino).or_insert_with(|| Inode {
            attr: *attr,
            until: Duration::ZERO,
            version: 0,
            lookups: 0,
            users: 0,
        });
        inode.lookups += u64::from(counts);
        if asked == CHANGED || inode.version <= asked {
            inode.attr = *attr;
            inode.until = now + ttl;
            inode.version = self.version;
        }
    }

    fn name(&mut self, parent: u64, name: &OsStr, ino: u64) -> Forgotten {
        self.inodes.get_mut(&ino).expect("it is kept").users += 1;
        let before = self.names.insert((parent, name.to_owned()), ino);
        before.and_then(|before| self.leave(before))
    }

    fn unname(&mut self, parent: u64, name: &OsStr) -> Forgotten {
        let before = self.names.remove(&(parent, name.to_owned()))?;
        self.leave(before)
    }
}

impl Os {
    /// An operating system whose mount is served by threads that begin with [`Os::serve`].
    pub(crate) fn new() -> Arc<Os> {
        Arc::new(Os {
            requests: Mutex::default(),
            changed: Condvar::new(),
            kept: std::plain::Mutex::default(),
        })
    }

    /// Starts the threads that serve the mount.
    pub(crate) fn serve(self: &Arc<Self>, fs: HearthFs) {
        let fs = Arc::new(fs);
        for _ in 0..WORKERS {
            let (os, fs) = (Arc::clone(self), Arc::clone(&fs));
            thread::spawn(move || {
                while let Some(job) = os.next() {
                    job(&fs);
                }
            });
        }
    }

    /// Ends them.
    pub(crate) fn close(&self) {
        let mut requests = self
            .requests
            .lock()
            .expect("nothing panics under this lock");
        requests.closed = true;
        self.changed.notify_all();
    }

    fn next(&self) -> Option<Job> {
        let mut requests = self
            .requests
            .lock()
            .expect("nothing panics under this lock");
        loop {
            if let Some(job) = requests.jobs.pop_front() {
                return Some(job);
            }
            if requests.closed {
                return None;
            }
            let waited = self.changed.wait(requests);
            requests = waited.expect("nothing panics under this lock");
        }
    }

    fn push(&self, job: impl FnOnce(&HearthFs) + Send + 'static) {
        let mut requests = self
            .requests
            .lock()
            .expect("nothing panics under this lock");
        requests.jobs.push_back(Box::new(job));
        self.changed.notify_one();
    }

    fn ask(
        &self,
        request: impl FnOnce(&HearthFs, Sender<Answer>) + Send + 'static,
    ) -> Result<Answer, Errno> {
        let (to, answered) = channel();
        self.push(move |fs| request(fs, to));
        match answered.recv() {
            Ok(Answer::Failed(error)) => Err(error),
            Ok(answer) => Ok(answer),
            Err(_) => Err(libc::EIO),
        }
    }

    fn with<T>(&self, look: impl FnOnce(&mut Kept) -> T) -> T {
        look(&mut self.kept.lock().expect("nothing panics under this lock"))
    }

    fn forget(&self, forgotten: Forgotten) {
        if let Some((ino, count)) = forgotten.filter(|&(ino, _)| ino != ROOT) {
            self.push(move |fs| fs.forget(&Request, INodeNo(ino), count));
        }
    }

    fn lock_of(&self, ino: u64) -> Arc<RwLock<()>> {
        self.with(|kept| Arc::clone(kept.locks.entry(ino).or_default()))
    }

    fn hold(self: &Arc<Self>, ino: u64) -> Held {
        self.with(|kept| kept.inodes.get_mut(&ino).expect("it is kept").users += 1);
        let os = Arc::clone(self);
        Held { os, ino }
    }

    fn take(self: &Arc<Self>, found: &Found, asked: u64) -> Held {
        self.with(|kept| kept.take(&found.attr, found.attr_ttl, asked, true));
        self.hold(found.attr.ino.0)
    }

    /// The front end voids what is kept of an inode. Linux remembers no such word about others.
    pub(crate) fn invalidate(&self, ino: u64) {
        self.with(|kept| {
            kept.version += 1;
            let version = kept.version;
            std::tell(|| format!("os {kept:p} voids {ino} at {version}"));
            if let Some(inode) = kept.inodes.get_mut(&ino) {
                inode.until = Duration::ZERO;
                inode.version = version;
            }
        });
    }

    /// The front end says that a name is gone.
    pub(crate) fn deleted(&self, parent: u64, child: u64, name: &OsStr) {
        let lock = self.lock_of(parent);
        let _locked = lock.write().expect("nothing panics under this lock");
        let forgotten = self.with(|kept| {
            let known = kept.names.get(&(parent, name.to_owned())) == Some(&child);
            known.then(|| kept.unname(parent, name)).flatten()
        });
        self.forget(forgotten);
    }

    /// The front end says that a name leads elsewhere.
    pub(crate) fn unnamed(&self, parent: u64, name: &OsStr) {
        let lock = self.lock_of(parent);
        let _locked = lock.write().expect("nothing panics under this lock");
        let forgotten = self.with(|kept| kept.unname(parent, name));
        self.forget(forgotten);
    }

    fn ask_name(self: &Arc<Self>, parent: u64, name: &OsStr) -> Result<Held, Errno> {
        let (asked, own) = (self.with(|kept| kept.version), name.to_owned());
        let request = move |fs: &HearthFs, to| {
            fs.lookup(&Request, INodeNo(parent), &own, ReplyEntry::to(to));
        };
        match self.ask(request)? {
            Answer::Entry(found) => {
                if !found.entry_ttl.is_zero() {
                    std::find("a name may be kept though others change names, too");
                }
                Ok(self.take(&found, asked))
            }
            other => unexpected(&other),
        }
    }

    /// The inode that a name stands for. The caller may have locked the directory.
    fn find(self: &Arc<Self>, parent: u64, name: &OsStr, is_locked: bool) -> Result<Held, Errno> {
        let key = (parent, name.to_owned());
        if let Some(known) = self.with(|kept| kept.names.get(&key).copied()) {
            let _used = self.hold(known);
            if let Ok(found) = self.ask_name(parent, name)
                && found.ino == known
            {
                return Ok(found);
            }
            let forgotten = self.with(|kept| {
                let is_it = kept.names.get(&key) == Some(&known);
                is_it.then(|| kept.unname(parent, name)).flatten()
            });
            self.forget(forgotten);
        }
        let lock = self.lock_of(parent);
        let _locked = (!is_locked).then(|| lock.read().expect("nothing panics under this lock"));
        let found = self.ask_name(parent, name)?;
        let forgotten = self.with(|kept| kept.name(parent, name, found.ino));
        self.forget(forgotten);
        Ok(found)
    }

    /// A directory of the root.
    pub(crate) fn dir(self: &Arc<Self>, name: &str) -> Result<Held, Errno> {
        self.find(ROOT, OsStr::new(name), false)
    }

    /// `stat(2)`.
    pub(crate) fn stat(self: &Arc<Self>, dir: &str, name: &str) -> Result<FileAttr, Errno> {
        self.retrying(|| {
            let dir = self.dir(dir)?;
            let found = self.find(dir.ino, OsStr::new(name), false)?;
            self.attributes(&found)
        })
    }

    /// `fstat(2)`: no name is looked up.
    pub(crate) fn attributes(self: &Arc<Self>, of: &Held) -> Result<FileAttr, Errno> {
        let (ino, now) = (of.ino, std::clock::now());
        let (asked, kept) = self.with(|kept| {
            let inode = kept.inodes.get(&ino).filter(|inode| inode.until > now);
            (kept.version, inode.map(|inode| inode.attr))
        });
        if let Some(attr) = kept {
            std::tally("attributes that were kept");
            return Ok(attr);
        }
        let request = move |fs: &HearthFs, to| {
            fs.getattr(&Request, INodeNo(ino), None, ReplyAttr::to(to));
        };
        self.told_attributes(self.ask(request)?, asked)
    }

    fn told_attributes(&self, answer: Answer, asked: u64) -> Result<FileAttr, Errno> {
        match answer {
            Answer::Attr(attr, ttl) => {
                self.with(|kept| kept.take(&attr, ttl, asked, false));
                Ok(attr)
            }
            other => unexpected(&other),
        }
    }

    /// A stale answer has the path walked once more.
    fn retrying<T>(&self, call: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        match call() {
            Err(libc::ESTALE) => call(),
            other => other,
        }
    }

    /// `chmod(2)` or `truncate(2)`; `begins` hears which file it is.
    pub(crate) fn change(
        self: &Arc<Self>,
        (dir, name): (&str, &str),
        (mode, size): (Option<u32>, Option<u64>),
        begins: impl Fn(u64),
    ) -> Result<(), Errno> {
        let dir = self.dir(dir)?;
        let found = self.find(dir.ino, OsStr::new(name), false)?;
        let lock = self.lock_of(found.ino);
        let _locked = lock.write().expect("nothing panics under this lock");
        begins(found.ino);
        let ino = found.ino;
        let request = move |fs: &HearthFs, to| {
            let (request, ino, reply) = (&Request, INodeNo(ino), ReplyAttr::to(to));
            fs.setattr(
                request, ino, mode, None, None, size, None, None, None, None, None, None, None,
                None, reply,
            );
        };
        let answer = self.ask(request)?;
        self.told_attributes(answer, CHANGED).map(drop)
    }

    /// `open(2)` of a file that is there.
    pub(crate) fn open(
        self: &Arc<Self>,
        (dir, name): (&str, &str),
        flags: i32,
    ) -> Result<Open, Errno> {
        self.retrying(|| {
            let dir = self.dir(dir)?;
            let found = self.find(dir.ino, OsStr::new(name), false)?;
            self.open_found(found, flags)
        })
    }

    fn open_found(&self, found: Held, flags: i32) -> Result<Open, Errno> {
        let ino = found.ino;
        let request = move |fs: &HearthFs, to| {
            fs.open(&Request, INodeNo(ino), OpenFlags(flags), ReplyOpen::to(to));
        };
        match self.ask(request)? {
            Answer::Opened(handle) => Ok((found, handle)),
            other => unexpected(&other),
        }
    }

    /// `open(2)` with `O_CREAT`, and perhaps `O_EXCL`.
    pub(crate) fn create(
        self: &Arc<Self>,
        (dir, name): (&str, &str),
        flags: i32,
    ) -> Result<Open, Errno> {
        let dir = self.dir(dir)?;
        let (parent, name) = (dir.ino, OsStr::new(name));
        let lock = self.lock_of(parent);
        let _locked = lock.write().expect("nothing panics under this lock");
        match self.find(parent, name, true) {
            Err(libc::ENOENT) => {}
            Err(error) => return Err(error),
            Ok(_) if flags & libc::O_EXCL != 0 => return Err(libc::EEXIST),
            Ok(found) => return self.open_found(found, flags & !libc::O_CREAT),
        }
        let (asked, own) = (self.with(|kept| kept.version), name.to_owned());
        let request = move |fs: &HearthFs, to| {
            let (parent, reply) = (INodeNo(parent), ReplyCreate::to(to));
            fs.create(&Request, parent, &own, 0o100_644, MASK, flags, reply);
        };
        match self.ask(request)? {
            Answer::Created(found, handle) => {
                let held = self.take(&found, asked);
                let forgotten = self.with(|kept| kept.name(parent, name, held.ino));
                self.forget(forgotten);
                Ok((held, handle))
            }
            other => unexpected(&other),
        }
    }

    /// `pread(2)` of a handle that keeps nothing.
    pub(crate) fn read(&self, open: &Open, offset: u64, len: u32) -> Result<u32, Errno> {
        let (ino, handle) = (INodeNo(open.0.ino), open.1);
        let request = move |fs: &HearthFs, to| {
            let (reply, owner) = (ReplyData::to(to), Some(LockOwner(1)));
            fs.read(
                &Request,
                ino,
                handle,
                offset,
                len,
                OpenFlags(0),
                owner,
                reply,
            );
        };
        match self.ask(request)? {
            Answer::Bytes(len) => Ok(len),
            other => unexpected(&other),
        }
    }

    /// `pwrite(2)`.
    pub(crate) fn write(&self, open: &Open, offset: u64, len: u32) -> Result<u32, Errno> {
        let lock = self.lock_of(open.0.ino);
        let _locked = lock.write().expect("nothing panics under this lock");
        let (ino, handle) = (INodeNo(open.0.ino), open.1);
        let request = move |fs: &HearthFs, to| {
            let (data, kernel, flags) = (vec![0; len as usize], WriteFlags::empty(), OpenFlags(2));
            let reply = ReplyWrite::to(to);
            fs.write(
                &Request, ino, handle, offset, &data, kernel, flags, None, reply,
            );
        };
        match self.ask(request)? {
            Answer::Bytes(len) => {
                self.invalidate(ino.0);
                Ok(len)
            }
            other => unexpected(&other),
        }
    }

    /// `close(2)`.
    pub(crate) fn close_file(&self, (held, handle): Open) -> Result<(), Errno> {
        let ino = INodeNo(held.ino);
        let flush = move |fs: &HearthFs, to| {
            fs.flush(&Request, ino, handle, LockOwner(1), ReplyEmpty::to(to));
        };
        self.ask(flush)?;
        // Nobody waits for that.
        self.push(move |fs| {
            let (to, _) = channel();
            let (flags, reply) = (OpenFlags(0), ReplyEmpty::to(to));
            fs.release(&Request, ino, handle, flags, None, false, reply);
        });
        Ok(())
    }

    /// `unlink(2)`.
    pub(crate) fn unlink(self: &Arc<Self>, (dir, name): (&str, &str)) -> Result<(), Errno> {
        let dir = self.dir(dir)?;
        let (parent, name) = (dir.ino, OsStr::new(name));
        let lock = self.lock_of(parent);
        let _locked = lock.write().expect("nothing panics under this lock");
        let victim = self.find(parent, name, true)?;
        let lock = self.lock_of(victim.ino);
        let _victim = lock.write().expect("nothing panics under this lock");
        let own = name.to_owned();
        self.ask(move |fs, to| {
            fs.unlink(&Request, INodeNo(parent), &own, ReplyEmpty::to(to));
        })?;
        let forgotten = self.with(|kept| kept.unname(parent, name));
        self.forget(forgotten);
        Ok(())
    }

    /// `rename(2)` within a directory; false if both names are of one file, which is nothing to do.
    pub(crate) fn rename(
        self: &Arc<Self>,
        dir: &str,
        (from, to): (&str, &str),
    ) -> Result<bool, Errno> {
        let dir = self.dir(dir)?;
        let (parent, from, to) = (dir.ino, OsStr::new(from), OsStr::new(to));
        let lock = self.lock_of(parent);
        let _locked = lock.write().expect("nothing panics under this lock");
        let moved = self.find(parent, from, true)?;
        let other = match self.find(parent, to, true) {
            Err(libc::ENOENT) => None,
            found => Some(found?),
        };
        if other.as_ref().is_some_and(|other| other.ino == moved.ino) {
            return Ok(false);
        }
        let (old, new) = (from.to_owned(), to.to_owned());
        self.ask(move |fs, told| {
            let (parent, flags) = (INodeNo(parent), RenameFlags::empty());
            let reply = ReplyEmpty::to(told);
            fs.rename(&Request, parent, &old, parent, &new, flags, reply);
        })?;
        let forgotten = self.with(|kept| {
            let over = kept.name(parent, to, moved.ino);
            [over, kept.unname(parent, from)]
        });
        forgotten
            .into_iter()
            .for_each(|forgotten| self.forget(forgotten));
        Ok(true)
    }

    /// All names of a directory, with what they stand for. Programs see no attributes that may not be kept.
    pub(crate) fn list(self: &Arc<Self>, dir: &str) -> Result<Vec<Seen>, Errno> {
        let dir = self.dir(dir)?;
        let ino = INodeNo(dir.ino);
        let open = move |fs: &HearthFs, to| {
            fs.opendir(&Request, ino, OpenFlags(0), ReplyOpen::to(to));
        };
        let handle = match self.ask(open)? {
            Answer::Opened(handle) => handle,
            other => return unexpected(&other),
        };
        let (mut all, mut at) = (Vec::new(), 0);
        let listed = loop {
            let lock = self.lock_of(dir.ino);
            let _locked = lock.read().expect("nothing panics under this lock");
            let asked = self.with(|kept| kept.version);
            let request = move |fs: &HearthFs, to| {
                fs.readdirplus(&Request, ino, handle, at, ReplyDirectoryPlus::to(to));
            };
            let some = match self.ask(request) {
                Ok(Answer::Listed(some)) if some.is_empty() => break Ok(()),
                Ok(Answer::Listed(some)) => some,
                Ok(other) => return unexpected(&other),
                Err(error) => break Err(error),
            };
            for one in some {
                at = one.next;
                if one.name == "." || one.name == ".." {
                    continue;
                }
                let found = self.take(&one.found, asked);
                let forgotten = self.with(|kept| kept.name(dir.ino, &one.name, found.ino));
                self.forget(forgotten);
                let is_shown = !one.found.attr_ttl.is_zero();
                let attr = is_shown.then_some(one.found.attr);
                all.push((one.name, found.ino, attr));
            }
        };
        self.ask(move |fs, to| {
            fs.releasedir(&Request, ino, handle, OpenFlags(0), ReplyEmpty::to(to));
        })?;
        listed.map(|()| all)
    }
}

fn unexpected<T>(answer: &Answer) -> Result<T, Errno> {
    std::find(format!("an answer to another question: {answer:?}"));
    Err(libc::EIO)
}
