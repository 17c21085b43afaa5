//! Store workers: the only threads that block on the store.

use crate::alarms::Cause;
use crate::core::{Core, State};
use crate::files::{PastCache, Purpose, STALE, StoreFile};
use crate::making::{self, Make, Work};
use crate::openers::Stuck;
use crate::store::{Store, SyncKind};
use crate::tickets::Waiting;
use crate::trace::StoreSpan;
use hearth_client::{Done, Errno, Outcome as Answer, ReadDone, Written};
use hearth_proto::errno::{EHOSTDOWN, EIO};
use hearth_proto::{
    FileId, Input, NodeId, OpenRequest, Request, StoreOk, StoreOpId, Synced, Ticket, WriteAt,
};
use hearth_shm::FramePart;
use hearth_trace::Op;
use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Threads; as many store requests are under way at most.
pub(crate) const WORKERS: usize = 4;

/// One blocking operation.
pub(crate) enum Job {
    /// Of a home, on its file.
    File(FileJob),
    /// The same, of which nobody else has the file open.
    Alone(Stuck),
    /// The same, by a node that has the file open.
    ByOpener(NodeId, Stuck),
    /// For a home elsewhere, through a descriptor that is open here.
    ForHome {
        to: NodeId,
        make: Make,
        fd: Option<Arc<OwnedFd>>,
        bytes: Vec<u8>,
    },
    /// Write a buffer through a handle's descriptor, unless that is closed, and take the stamp.
    WriteThrough {
        op: StoreOpId,
        fd: Option<Arc<OwnedFd>>,
        offset: u64,
        bytes: Vec<u8>,
    },
    /// Set the size.
    Truncate {
        op: StoreOpId,
        fd: Arc<OwnedFd>,
        size: u64,
    },
    /// Bring to the store what an earlier life left in the tier.
    Recover,
    /// Take the stamp of what a session opens, and ask the kernel once more.
    Restamp { ticket: Ticket, fd: Arc<OwnedFd> },
    /// A local read, done on the store.
    DirectRead {
        ticket: Ticket,
        from: PastCache,
        offset: u64,
        len: u32,
        done: ReadDone,
    },
    /// A local write, done on the store.
    DirectWrite {
        ticket: Ticket,
        fd: Arc<OwnedFd>,
        at: WriteAt,
        bytes: Vec<u8>,
        done: Done<Written>,
    },
}

/// An operation of a home on its file.
#[derive(Debug)]
pub(crate) struct FileJob {
    pub(crate) op: StoreOpId,
    pub(crate) file: FileId,
    pub(crate) at: Arc<StoreFile>,
    pub(crate) task: Task,
}

/// The work of an operation.
#[derive(Debug)]
pub(crate) enum Task {
    /// Fill frames.
    Read { offset: u64, parts: Vec<FramePart> },
    /// Fill a new buffer.
    ReadBuf {
        offset: u64,
        buf: hearth_proto::Buf,
        len: u32,
    },
    /// Write what the cache has.
    Write { offset: u64, from: From },
    /// Take the stamp, after an fsync that ends there.
    Sync { sync: Option<Synced> },
}

/// The outcome of an operation.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) ok: StoreOk,
    /// Bytes for a new buffer, or for another node.
    pub(crate) bytes: Option<Vec<u8>>,
}

impl std::convert::From<StoreOk> for Outcome {
    fn from(ok: StoreOk) -> Outcome {
        Outcome { ok, bytes: None }
    }
}

impl Outcome {
    pub(crate) fn of_bytes(bytes: Vec<u8>) -> Outcome {
        Outcome {
            ok: count(bytes.len()),
            bytes: Some(bytes),
        }
    }
}

impl FileJob {
    pub(crate) fn new(state: &mut State, (op, file): (StoreOpId, FileId), task: Task) -> FileJob {
        let at = state.files.file(file);
        FileJob { op, file, at, task }
    }

    /// Makes the operation through a descriptor of this node. One that the store calls stale is not used again.
    fn make(&self, core: &Core) -> Result<Outcome, Errno> {
        let reach = |purpose| {
            let store = (core.store.as_ref(), core.root.as_fd());
            self.at.reach(store, self.file, purpose)
        };
        let fd = match &self.task {
            // Bytes that were written through a descriptor are best synced through it.
            Task::Sync { .. } => match self.at.writer() {
                Some(fd) => Ok(fd),
                None => reach(Purpose::Read).or_else(|_| reach(Purpose::Write)),
            },
            task => reach(task.purpose()),
        }?;
        let made = self.task.make(core, fd.as_fd());
        if let Err(STALE) = made {
            self.at.lose();
        }
        made
    }

    /// Makes it for a file that no other node has open. It may have been renamed by one that is gone, and nobody has told of
    /// the new name.
    fn make_alone(&self, core: &Core) -> Result<Outcome, Errno> {
        let made = self.make(core);
        let may_be_left = core.keeps_for_others || core.has_views;
        let keeps = matches!(self.task, Task::Write { .. }) && may_be_left;
        let store = (core.store.as_ref(), core.root.as_fd());
        if made.is_ok() || !keeps || !self.at.search(store, self.file) {
            return made;
        }
        // A search takes a while: others may have gone on without this agent.
        core.await_lease();
        self.make(core)
    }
}

impl Task {
    pub(crate) fn purpose(&self) -> Purpose {
        self.work().0.purpose()
    }

    pub(crate) fn is_sync(&self) -> bool {
        matches!(self, Task::Sync { .. })
    }

    /// The work for another node, its offset, and its number of bytes.
    pub(crate) fn work(&self) -> (Work, u64, u32) {
        match self {
            Task::Read { offset, parts } => (Work::Read, *offset, len_of(parts) as u32),
            Task::ReadBuf { offset, len, .. } => (Work::Read, *offset, *len),
            Task::Write { offset, from } => match from {
                From::Pieces(parts) => {
                    let heads = parts.len() * making::PIECE_HEAD;
                    (Work::Pieces, 0, (heads + from.len()) as u32)
                }
                From::Frames(_) | From::Buf(..) => (Work::Write, *offset, from.len() as u32),
            },
            Task::Sync { sync: Some(_) } => (Work::Sync, 0, 0),
            Task::Sync { sync: None } => (Work::Stamp, 0, 0),
        }
    }

    /// The bytes that it writes.
    pub(crate) fn bytes(&self, core: &Core) -> Vec<u8> {
        match self {
            Task::Write { from, .. } => from.bytes(core),
            Task::Read { .. } | Task::ReadBuf { .. } | Task::Sync { .. } => Vec::new(),
        }
    }

    fn make(&self, core: &Core, fd: BorrowedFd<'_>) -> Result<Outcome, Errno> {
        let ok = match self {
            Task::Read { offset, parts } => count(core.store.read(fd, *offset, parts, &core.pool)?),
            Task::ReadBuf { offset, len, .. } => {
                let bytes = core.store.read_vec(fd, *offset, *len as usize)?;
                return Ok(Outcome::of_bytes(bytes));
            }
            Task::Write { offset, from } => {
                from.write(core, fd, *offset)?;
                StoreOk::default()
            }
            Task::Sync { sync } => stamp_after(core, fd, *sync)?,
        };
        Ok(Outcome::from(ok))
    }

    /// The outcome of an operation that another node has made.
    pub(crate) fn take(&self, core: &Core, ok: StoreOk, bytes: Vec<u8>) -> Result<Outcome, Errno> {
        let (work, _, len) = self.work();
        if work == Work::Read && bytes.len() > len as usize {
            return Err(Errno(hearth_proto::errno::EIO));
        }
        Ok(match self {
            Task::Read { parts, .. } => Outcome::from(count(fill(core, parts, &bytes))),
            Task::ReadBuf { .. } => Outcome::of_bytes(bytes),
            Task::Write { .. } => Outcome::from(StoreOk::default()),
            Task::Sync { .. } => Outcome::from(ok),
        })
    }
}

/// Fills parts of frames, in order, as far as the bytes go.
fn fill(core: &Core, parts: &[FramePart], bytes: &[u8]) -> usize {
    let mut rest = bytes;
    for part in parts {
        let (here, more) = rest.split_at(part.len.min(rest.len()));
        core.pool.write(part.frame, part.offset, here);
        rest = more;
    }
    bytes.len()
}

/// The place of bytes that go to the store.
#[derive(Debug)]
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

    fn write(&self, core: &Core, fd: BorrowedFd<'_>, offset: u64) -> Result<(), Errno> {
        match self {
            From::Frames(parts) => core.store.write(fd, offset, parts, &core.pool),
            From::Pieces(parts) => parts
                .iter()
                .try_for_each(|&(offset, part)| core.store.write(fd, offset, &[part], &core.pool)),
            From::Buf(bytes, range) => core.store.write_bytes(fd, offset, &bytes[range.clone()]),
        }
    }

    /// For another node: bytes, or pieces with their places.
    fn bytes(&self, core: &Core) -> Vec<u8> {
        let copy = |bytes: &mut Vec<u8>, part: &FramePart| {
            let at = bytes.len();
            bytes.resize(at + part.len, 0);
            core.pool.read(part.frame, part.offset, &mut bytes[at..]);
        };
        let mut bytes = Vec::with_capacity(self.len());
        match self {
            From::Frames(parts) => parts.iter().for_each(|part| copy(&mut bytes, part)),
            From::Pieces(parts) => {
                for (offset, part) in parts {
                    making::begin_piece(&mut bytes, *offset, part.len);
                    copy(&mut bytes, part);
                }
            }
            From::Buf(lent, range) => bytes.extend_from_slice(&lent[range.clone()]),
        }
        bytes
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
    // Others may have gone on without this agent: then nothing that it has may reach the store.
    core.await_lease();
    let span = span_of(&job);
    match job {
        Job::File(job) => match job.make(core) {
            Err(STALE) => core.seek_opener(Stuck::new(job, span)),
            made => finish(core, Stuck::new(job, span), made),
        },
        Job::Alone(stuck) => {
            let made = stuck.job.make_alone(core);
            finish(core, stuck, made);
        }
        Job::ByOpener(node, stuck) => core.have_made(node, stuck),
        Job::ForHome {
            to,
            make,
            fd,
            bytes,
        } => core.make_for(to, &make, fd, &bytes),
        Job::WriteThrough {
            op,
            fd,
            offset,
            bytes,
        } => {
            let stamp = write_through(core, fd, offset, &bytes);
            done(core, (op, span), stamp);
        }
        Job::Truncate { op, fd, size } => {
            done(core, (op, span), truncate(core, &fd, size));
        }
        Job::Recover => recover(core),
        Job::Restamp { ticket, fd } => restamp(core, ticket, &fd),
        Job::DirectRead {
            ticket,
            from,
            offset,
            len,
            done,
        } => {
            direct_read(core.store.as_ref(), &from, offset, len, done);
            core.directed(ticket);
        }
        Job::DirectWrite {
            ticket,
            fd,
            at,
            bytes,
            done,
        } => {
            done(direct_write(core.store.as_ref(), &fd, at, &bytes));
            core.directed(ticket);
        }
    }
}

/// Members of an earlier view may have written since the stamp of an open was taken: it is taken again.
fn restamp(core: &Core, ticket: Ticket, fd: &OwnedFd) {
    let view = core.lock().member.stamp_view();
    let stamp = core.store.stamp(fd.as_fd()).map(kernel_stamp);
    core.drive_with(|state| {
        let open = match state.tickets.get(ticket) {
            Some(Waiting::Open(open)) => open.request,
            Some(_) | None => return Input::Tick,
        };
        // An old stamp is as good as any of a file that the store does not show.
        let stamp = stamp.unwrap_or(open.stamp);
        let again = OpenRequest {
            stamp,
            view,
            ..open
        };
        Input::Request(ticket, Request::Open(again))
    });
}

/// The record that a job begins.
fn span_of(job: &Job) -> StoreSpan {
    let (op, file, offset, len) = match job {
        Job::File(job) => {
            let (work, offset, len) = job.task.work();
            let traced = match work {
                Work::Read => Op::StoreRead,
                Work::Write | Work::Pieces => Op::StoreWrite,
                Work::Sync => Op::StoreSync,
                Work::Stamp => Op::StoreOther,
            };
            (traced, job.file, offset, len as usize)
        }
        Job::WriteThrough { offset, bytes, .. } => (Op::StoreWrite, NO_FILE, *offset, bytes.len()),
        Job::Truncate { size, .. } => (Op::StoreOther, NO_FILE, *size, 0),
        Job::Alone(_)
        | Job::ByOpener(..)
        | Job::ForHome { .. }
        | Job::Recover
        | Job::Restamp { .. }
        | Job::DirectRead { .. }
        | Job::DirectWrite { .. } => return StoreSpan::none(),
    };
    StoreSpan::begin(op, file, offset, len)
}

/// A file that is known by a descriptor only.
const NO_FILE: FileId = FileId(0);

fn len_of(parts: &[FramePart]) -> usize {
    parts.iter().map(|part| part.len).sum()
}

fn done(core: &Core, (op, span): (StoreOpId, StoreSpan), result: Result<StoreOk, Errno>) {
    let result = result.map_err(raw);
    core.drive_with(|state| {
        let bytes = result.as_ref().map(|ok| u64::from(ok.bytes));
        span.end(state, op, bytes.map_err(|errno| *errno));
        Input::StoreDone(op, result)
    });
}

/// Tells the kernel how an operation on a file went.
pub(crate) fn finish(core: &Core, stuck: Stuck, made: Result<Outcome, Errno>) {
    let Stuck { job, span, .. } = stuck;
    match job.task {
        Task::ReadBuf { buf, len, .. } => {
            let bytes = made.map(|outcome| outcome.bytes.unwrap_or_default());
            core.store_filled((job.op, span), buf, len, bytes);
        }
        Task::Write { .. } => {
            if made.is_ok() {
                let now = core.now();
                core.lock().alarms.end(Cause::Refused(job.file), now);
            }
            done(core, (job.op, span), made.map(|outcome| outcome.ok));
        }
        Task::Read { .. } | Task::Sync { .. } => {
            done(core, (job.op, span), made.map(|outcome| outcome.ok));
        }
    }
}

fn stamp_after(core: &Core, fd: BorrowedFd<'_>, sync: Option<Synced>) -> Result<StoreOk, Errno> {
    if sync == Some(Synced::Tier) {
        // Not in the store: no stamp of it may count.
        core.store.sync_tier(fd)?;
        return Ok(StoreOk::default());
    }
    core.store.settle(fd)?;
    if sync.is_some() {
        core.store.sync(fd, SyncKind::All)?;
    }
    Ok(stamped(core.store.stamp(fd)?))
}

fn recover(core: &Core) {
    let recovered = core
        .tier
        .as_ref()
        .map(|tier| tier.recover(core.root.as_fd()));
    if let Some(Err(error)) = recovered {
        let text = format!("cannot write down what the tier has: {error}");
        core.lock().alarms.raise(Cause::Loss, text);
    }
    core.drive(Input::Recovered);
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

fn stamped(stamp: hearth_client::FileStamp) -> StoreOk {
    StoreOk {
        bytes: 0,
        stamp: kernel_stamp(stamp),
    }
}

fn direct_read(store: &dyn Store, from: &PastCache, offset: u64, len: u32, done: ReadDone) {
    let read = |fd| store.read_vec(fd, offset, len as usize);
    match from.up_to_date(store).and_then(read) {
        Ok(bytes) => done(Answer::Serve(&[&bytes])),
        Err(errno) => done(Answer::Fail(errno)),
    }
}

fn direct_write(store: &dyn Store, fd: &OwnedFd, at: WriteAt, bytes: &[u8]) -> Answer<Written> {
    let written = match at {
        WriteAt::Offset(offset) => store
            .write_bytes(fd.as_fd(), offset, bytes)
            .map(|()| offset),
        WriteAt::End => store.append(fd.as_fd(), bytes),
    };
    match written {
        Ok(offset) => Answer::Serve(Written {
            offset,
            size: offset + bytes.len() as u64,
        }),
        Err(errno) => Answer::Fail(errno),
    }
}

fn count(bytes: usize) -> StoreOk {
    StoreOk {
        bytes: bytes as u32,
        ..StoreOk::default()
    }
}

/// A store's error as the kernel has it. `EHOSTDOWN` is the kernel's own word for an agent that is gone.
pub(crate) fn raw(errno: Errno) -> i32 {
    match errno.0 {
        EHOSTDOWN => EIO,
        errno => errno,
    }
}

/// The session's stamp as the kernel has it.
pub(crate) fn kernel_stamp(stamp: hearth_client::FileStamp) -> hearth_proto::Stamp {
    let hearth_client::FileStamp {
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
