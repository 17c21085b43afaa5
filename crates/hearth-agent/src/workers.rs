//! Store workers: the only threads that block on the store.

use crate::core::Core;
use crate::files::{Purpose, StoreFile};
use crate::store::{Store, SyncKind};
use crate::trace::StoreSpan;
use hearth_client::{Done, Errno, Outcome, ReadDone, Written};
use hearth_proto::{FileId, Input, Op, StoreOk, WriteAt};
use hearth_shm::FramePart;
use hearth_trace::Op as Traced;
use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Threads; as many store requests are under way at most.
pub(crate) const WORKERS: usize = 4;

/// One blocking operation.
pub(crate) enum Job {
    /// Fill frames.
    Read {
        op: Op,
        file: FileId,
        at: Arc<StoreFile>,
        offset: u64,
        parts: Vec<FramePart>,
    },
    /// Fill a new buffer.
    ReadBuf {
        op: Op,
        file: FileId,
        at: Arc<StoreFile>,
        offset: u64,
        buf: hearth_proto::Buf,
        len: u32,
    },
    /// Write what the cache has.
    Write {
        op: Op,
        file: FileId,
        at: Arc<StoreFile>,
        offset: u64,
        from: From,
    },
    /// Write a buffer through a handle's descriptor, unless that is closed, and take the stamp.
    WriteThrough {
        op: Op,
        fd: Option<Arc<OwnedFd>>,
        offset: u64,
        bytes: Vec<u8>,
    },
    /// Take the stamp, after fsync if asked.
    Sync {
        op: Op,
        file: FileId,
        at: Arc<StoreFile>,
        sync: bool,
    },
    /// Set the size.
    Truncate { op: Op, fd: Arc<OwnedFd>, size: u64 },
    /// A local read, done on the store.
    DirectRead {
        fd: Arc<OwnedFd>,
        offset: u64,
        len: u32,
        done: ReadDone,
    },
    /// A local write, done on the store.
    DirectWrite {
        fd: Arc<OwnedFd>,
        at: WriteAt,
        bytes: Vec<u8>,
        done: Done<Written>,
    },
}

/// Where bytes are that go to the store.
pub(crate) enum From {
    /// In frames.
    Frames(Vec<FramePart>),
    /// In frames, each with its place in the file: there are gaps between them.
    Pieces(Vec<(u64, FramePart)>),
    /// In a part of one buffer: they went past the frames.
    Buf(Arc<Vec<u8>>, Range<usize>),
}

impl From {
    fn len(&self) -> usize {
        match self {
            From::Frames(parts) => len_of(parts),
            From::Pieces(parts) => parts.iter().map(|(_, part)| part.len).sum(),
            From::Buf(_, range) => range.len(),
        }
    }

    fn write(self, core: &Core, fd: BorrowedFd<'_>, offset: u64) -> Result<(), Errno> {
        match self {
            From::Frames(parts) => core.store.write(fd, offset, &parts, &core.pool),
            From::Pieces(parts) => parts
                .iter()
                .try_for_each(|&(offset, part)| core.store.write(fd, offset, &[part], &core.pool)),
            From::Buf(bytes, range) => core.store.write_bytes(fd, offset, &bytes[range]),
        }
    }
}

/// Jobs that wait for a worker.
#[derive(Default)]
pub(crate) struct Queue {
    inner: Mutex<Pending>,
    more: Condvar,
}

#[derive(Default)]
struct Pending {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl Queue {
    pub(crate) fn push(&self, job: Job) {
        self.lock().jobs.push_back(job);
        self.more.notify_one();
    }

    /// Lets the workers end once the queue is empty.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.more.notify_all();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Pending> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pop(&self) -> Option<Job> {
        let mut pending = self.lock();
        loop {
            match pending.jobs.pop_front() {
                Some(job) => return Some(job),
                None if pending.closed => return None,
                None => {
                    pending = self
                        .more
                        .wait(pending)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

/// The life of one worker.
pub(crate) fn work(core: &Core) {
    while let Some(job) = core.queue.pop() {
        run(core, job);
    }
}

/// Makes one operation, and tells the kernel how it went.
pub(crate) fn run(core: &Core, job: Job) {
    let span = span_of(&job);
    match job {
        Job::Read {
            op,
            file,
            at,
            offset,
            parts,
        } => {
            let read = reach(core, file, &at, Purpose::Read)
                .and_then(|fd| core.store.read(fd.as_fd(), offset, &parts, &core.pool));
            done(core, (op, span), read.map(bytes));
        }
        Job::ReadBuf {
            op,
            file,
            at,
            offset,
            buf,
            len,
        } => {
            let read = reach(core, file, &at, Purpose::Read)
                .and_then(|fd| core.store.read_vec(fd.as_fd(), offset, len as usize));
            core.store_filled((op, span), buf, len, read);
        }
        Job::Write {
            op,
            file,
            at,
            offset,
            from,
        } => {
            let written = reach(core, file, &at, Purpose::Write)
                .and_then(|fd| from.write(core, fd.as_fd(), offset));
            done(core, (op, span), written.map(|()| StoreOk::default()));
        }
        Job::WriteThrough {
            op,
            fd,
            offset,
            bytes,
        } => {
            let stamp = write_through(core, fd, offset, &bytes);
            done(core, (op, span), stamp);
        }
        Job::Sync { op, file, at, sync } => {
            done(core, (op, span), stamp_after(core, file, &at, sync));
        }
        Job::Truncate { op, fd, size } => {
            done(core, (op, span), truncate(core, &fd, size));
        }
        Job::DirectRead {
            fd,
            offset,
            len,
            done,
        } => {
            direct_read(core.store.as_ref(), &fd, offset, len, done);
        }
        Job::DirectWrite {
            fd,
            at,
            bytes,
            done,
        } => {
            done(direct_write(core.store.as_ref(), &fd, at, &bytes));
        }
    }
}

/// The record that a job begins.
fn span_of(job: &Job) -> StoreSpan {
    let (op, file, offset, len) = match job {
        Job::Read {
            file,
            offset,
            parts,
            ..
        } => (Traced::StoreRead, *file, *offset, len_of(parts)),
        Job::ReadBuf {
            file, offset, len, ..
        } => (Traced::StoreRead, *file, *offset, *len as usize),
        Job::Write {
            file, offset, from, ..
        } => (Traced::StoreWrite, *file, *offset, from.len()),
        Job::WriteThrough { offset, bytes, .. } => {
            (Traced::StoreWrite, NO_FILE, *offset, bytes.len())
        }
        Job::Sync {
            file, sync: true, ..
        } => (Traced::StoreSync, *file, 0, 0),
        Job::Sync { file, .. } => (Traced::StoreOther, *file, 0, 0),
        Job::Truncate { size, .. } => (Traced::StoreOther, NO_FILE, *size, 0),
        Job::DirectRead { .. } | Job::DirectWrite { .. } => return StoreSpan::none(),
    };
    StoreSpan::begin(op, file, offset, len)
}

/// A file that is known by a descriptor only.
const NO_FILE: FileId = FileId(0);

fn len_of(parts: &[FramePart]) -> usize {
    parts.iter().map(|part| part.len).sum()
}

fn done(core: &Core, (op, span): (Op, StoreSpan), result: Result<StoreOk, Errno>) {
    let result = result.map_err(raw);
    core.drive_with(|state| {
        let bytes = result.as_ref().map(|ok| u64::from(ok.bytes));
        span.end(state, op, bytes.map_err(|errno| *errno));
        Input::StoreDone(op, result)
    });
}

fn reach(
    core: &Core,
    file: FileId,
    at: &StoreFile,
    purpose: Purpose,
) -> Result<Arc<OwnedFd>, Errno> {
    at.reach(core.root.as_fd(), file, purpose, || core.ask_where(file))
}

fn stamp_after(core: &Core, file: FileId, at: &StoreFile, sync: bool) -> Result<StoreOk, Errno> {
    let fd =
        reach(core, file, at, Purpose::Read).or_else(|_| reach(core, file, at, Purpose::Write))?;
    if sync && core.lock().node.config().syncs_at_tier() {
        // Not in the store: no stamp of it may count.
        core.store.sync_tier(fd.as_fd())?;
        return Ok(StoreOk::default());
    }
    core.store.settle(fd.as_fd())?;
    if sync {
        core.store.sync(fd.as_fd(), SyncKind::All)?;
    }
    Ok(stamped(core.store.stamp(fd.as_fd())?))
}

fn truncate(core: &Core, fd: &OwnedFd, size: u64) -> Result<StoreOk, Errno> {
    core.store.truncate(fd.as_fd(), size)?;
    core.store.stamp(fd.as_fd()).map(stamped)
}

fn write_through(
    core: &Core,
    fd: Option<Arc<OwnedFd>>,
    offset: u64,
    bytes: &[u8],
) -> Result<StoreOk, Errno> {
    let fd = fd.ok_or(Errno(hearth_proto::errno::EBADF))?;
    core.store.write_bytes(fd.as_fd(), offset, bytes)?;
    core.store.stamp(fd.as_fd()).map(stamped)
}

fn stamped(stamp: hearth_client::Stamp) -> StoreOk {
    StoreOk {
        bytes: 0,
        stamp: kernel_stamp(stamp),
    }
}

fn direct_read(store: &dyn Store, fd: &OwnedFd, offset: u64, len: u32, done: ReadDone) {
    match store.read_vec(fd.as_fd(), offset, len as usize) {
        Ok(bytes) => done(Outcome::Serve(&[&bytes])),
        Err(errno) => done(Outcome::Fail(errno)),
    }
}

fn direct_write(store: &dyn Store, fd: &OwnedFd, at: WriteAt, bytes: &[u8]) -> Outcome<Written> {
    let written = match at {
        WriteAt::Offset(offset) => store
            .write_bytes(fd.as_fd(), offset, bytes)
            .map(|()| offset),
        WriteAt::End => store.append(fd.as_fd(), bytes),
    };
    match written {
        Ok(offset) => Outcome::Serve(Written {
            offset,
            size: offset + bytes.len() as u64,
        }),
        Err(errno) => Outcome::Fail(errno),
    }
}

fn bytes(count: usize) -> StoreOk {
    StoreOk {
        bytes: count as u32,
        ..StoreOk::default()
    }
}

pub(crate) fn raw(errno: Errno) -> i32 {
    errno.0
}

/// The session's stamp as the kernel has it.
pub(crate) fn kernel_stamp(stamp: hearth_client::Stamp) -> hearth_proto::Stamp {
    let hearth_client::Stamp {
        ctime_ns,
        mtime_ns,
        size,
    } = stamp;
    hearth_proto::Stamp {
        ctime_ns,
        mtime_ns,
        size,
    }
}
