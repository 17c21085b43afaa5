//! The content of regular files.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use fuser::{FileHandle, LockOwner, OpenFlags, ReplyData, ReplyEmpty, ReplyWrite, WriteFlags};
use hearth_client::belief::{CachingClient, Mounted};
use hearth_client::extent::fitting;
use hearth_client::{Keep, Outcome, Place, SessionHandle};
use rustix::io::ReadWriteFlags;

use crate::core::Core;
use crate::errors::{ask, errno, raw, served};
use crate::handles::{OpenHandle, Way};
use crate::identity::Caller;
use crate::replies::reply_empty;
use crate::written::Bringing;

/// The place that keeps the bytes of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeper {
    /// The kernel's page cache: they must be revoked before they go stale.
    Kernel,
    /// Nobody but the program.
    Nobody,
}

/// A run of bytes to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadAt {
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) keeper: Keeper,
}

/// One write request.
pub(crate) struct WriteAt {
    pub(crate) offset: u64,
    pub(crate) data: Vec<u8>,
    pub(crate) kernel: WriteFlags,
    pub(crate) open: OpenFlags,
}

impl WriteAt {
    /// Comes from a dirty shared mapping: the handle is a guess, and the pages are locked.
    fn is_write_back(&self) -> bool {
        self.kernel.contains(WriteFlags::FUSE_WRITE_CACHE)
    }

    fn place(&self) -> Place {
        if self.open.0 & libc::O_APPEND != 0 && !self.is_write_back() {
            Place::End
        } else {
            Place::At(self.offset)
        }
    }

    /// Its end; beyond every file, if no number says it.
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.data.len() as u64)
    }

    /// `O_DSYNC`, or `O_SYNC`, whose bits include those of `O_DSYNC`.
    pub(crate) fn is_synchronous(&self) -> bool {
        self.open.0 & libc::O_DSYNC != 0
    }
}

impl Core {
    pub(crate) fn read(self: &Arc<Self>, number: FileHandle, read: ReadAt, reply: ReplyData) {
        let open = match self.files.find(number) {
            Ok(open) => open,
            Err(error) => return reply.error(errno(&error)),
        };
        let Way::Session(handle) = open.way else {
            return self.read_store(&open, read, reply);
        };
        let core = Arc::clone(self);
        let keep = match read.keeper == Keeper::Kernel {
            true => Keep::FrontEnd,
            false => Keep::Pool,
        };
        let done = move |outcome: Outcome<&[&[u8]]>| match outcome {
            Outcome::Serve(pieces) => {
                if read.keeper == Keeper::Kernel {
                    let node = &open.node;
                    core.bases
                        .given(node.id, read.offset, pieces, node.is_written());
                }
                match pieces {
                    [] => reply.data(&[]),
                    [piece] => reply.data(piece),
                    pieces => reply.data(&pieces.concat()),
                }
            }
            Outcome::Bypass(_) => {
                let own = Arc::clone(&core);
                core.background
                    .later(move || own.read_store(&open, read, reply));
            }
            Outcome::Fail(error) => reply.error(fuser::Errno::from_i32(error.0)),
        };
        self.session
            .read(handle, read.offset, read.len, keep, Box::new(done));
    }

    pub(crate) fn write(
        self: &Arc<Self>,
        caller: Caller,
        number: FileHandle,
        write: WriteAt,
        reply: ReplyWrite,
    ) {
        let open = match self.writable(caller, number, &write) {
            Ok(open) => open,
            Err(error) => return reply.error(errno(&error)),
        };
        if let Way::Store = open.way {
            return self.write_store(&open, &write, reply);
        }
        let end = write.end();
        // A mapping's bytes lie within the file, and must not wait for other nodes.
        if self.extents.asks(end) && !write.is_write_back() {
            let core = Arc::clone(self);
            return self
                .background
                .run(move || match core.servers_take(&open, end) {
                    Ok(()) => core.write_fitting(open, write, reply),
                    Err(error) => reply.error(errno(&error)),
                });
        }
        self.write_fitting(open, write, reply);
    }

    /// As much of a write as fits into the largest file of the store. The kernel says of an append where it believes the
    /// end to be.
    fn write_fitting(
        self: &Arc<Self>,
        open: Arc<OpenHandle>,
        mut write: WriteAt,
        reply: ReplyWrite,
    ) {
        if !self.extents.is_small(write.end()) {
            let largest = open
                .largest
                .get_or_init(|| self.extents.largest(open.fd.as_fd()));
            match fitting(*largest, write.offset, write.data.len()) {
                Ok(len) => write.data.truncate(len),
                Err(error) => return reply.error(errno(&error)),
            }
        }
        self.write_cached(open, write, reply);
    }

    fn write_cached(self: &Arc<Self>, open: Arc<OpenHandle>, write: WriteAt, reply: ReplyWrite) {
        let Way::Session(handle) = open.way else {
            return self.write_store(&open, &write, reply);
        };
        if write.is_synchronous() && !write.is_write_back() {
            let core = Arc::clone(self);
            return self
                .background
                .run(move || core.write_through(&open, write, reply));
        }
        if write.is_write_back() {
            return self.write_back(open, handle, &write, reply);
        }
        let len = write.data.len() as u32;
        let core = Arc::clone(self);
        let done = move |outcome| {
            core.session.file_changed(open.node.file());
            let written = written(outcome);
            if written.is_ok() {
                core.took_bytes(&open);
            }
            reply_written(written, len, reply);
        };
        self.session
            .write(handle, write.place(), write.data, Box::new(done));
    }

    /// Pages of a shared mapping come back: the bytes that a program has stored are written, all runs at one time.
    fn write_back(
        self: &Arc<Self>,
        open: Arc<OpenHandle>,
        handle: SessionHandle,
        write: &WriteAt,
        reply: ReplyWrite,
    ) {
        let (file, node, len) = (open.node.file(), open.node.id, write.data.len());
        self.revoker.write_back_begins(file);
        self.session.stored_in_mapping(file);
        let runs = self.bases.changed(node, write.offset, &write.data);
        let (core, offset) = (Arc::clone(self), write.offset);
        let ended = move |result: io::Result<()>| {
            core.session.file_changed(file);
            match result {
                Ok(()) => core.took_bytes(&open),
                Err(_) => core.bases.forget(node, offset, len),
            }
            reply_written(result, len as u32, reply);
            core.revoker.write_back_ends(file);
        };
        let all = Countdown::of(runs.len(), ended);
        for run in runs {
            let (place, bytes) = (
                Place::At(offset + run.start as u64),
                write.data[run].to_vec(),
            );
            let all = Arc::clone(&all);
            let done = move |outcome| all.one_ended(written(outcome));
            self.session.write(handle, place, bytes, Box::new(done));
        }
    }

    fn writable(
        &self,
        caller: Caller,
        number: FileHandle,
        write: &WriteAt,
    ) -> io::Result<Arc<OpenHandle>> {
        let open = self.files.find(number)?;
        if !open.access.write {
            return Err(raw(libc::EBADF));
        }
        if write.kernel.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID)
            // A flag of its own; nothing else is published through it.
            && !open.privileges_dropped.swap(true, Ordering::Relaxed)
        {
            self.drop_privileges(caller, &open.node)?;
        }
        Ok(open)
    }

    /// A write that is in the store when it ends. Waits for the session.
    fn write_through(&self, open: &OpenHandle, write: WriteAt, reply: ReplyWrite) {
        let Way::Session(handle) = open.way else {
            return self.write_store(open, &write, reply);
        };
        let len = write.data.len() as u32;
        let written = ask(|done| self.session.write(handle, write.place(), write.data, done))
            .and_then(|written| written.ok_or(raw(libc::EIO)))
            .and_then(|_| ask(|done| self.session.sync(handle, done)));
        self.session.file_changed(open.node.file());
        match written {
            Ok(_) => reply.written(len),
            Err(error) => reply.error(errno(&error)),
        }
    }

    /// A read past the cache.
    fn read_store(&self, open: &OpenHandle, read: ReadAt, reply: ReplyData) {
        let _call = self.calls.begin("a read", open.node.id);
        if read.keeper == Keeper::Kernel {
            self.bases
                .forget(open.node.id, read.offset, read.len as usize);
        }
        let mut buffer = vec![0; read.len as usize];
        let asked = (open.fd.as_fd(), read.offset, buffer.len());
        let mut fill = || read_full(&*open.fd, &mut buffer, read.offset);
        let filled = match self.options.client_lags {
            true => Mounted.read_whole(asked, |len| *len, fill),
            false => fill(),
        };
        match filled {
            Ok(len) => reply.data(&buffer[..len]),
            Err(error) => reply.error(errno(&error)),
        }
    }

    /// A sync past the cache.
    fn sync_store(&self, open: &OpenHandle, reply: ReplyEmpty) {
        let _call = self.calls.begin("a sync", open.node.id);
        reply_empty(rustix::fs::fsync(&*open.fd).map_err(io::Error::from), reply);
    }

    /// A write past the cache.
    fn write_store(&self, open: &OpenHandle, write: &WriteAt, reply: ReplyWrite) {
        let _call = self.calls.begin("a write", open.node.id);
        let mut flags = ReadWriteFlags::empty();
        flags.set(ReadWriteFlags::APPEND, write.place() == Place::End);
        flags.set(ReadWriteFlags::DSYNC, write.is_synchronous());
        let data = [IoSlice::new(&write.data)];
        let written = if flags.is_empty() {
            rustix::io::pwrite(&*open.fd, &write.data, write.offset)
        } else {
            rustix::io::pwritev2(&*open.fd, &data, write.offset, flags)
        };
        self.changed(open.node.id);
        match written {
            Ok(len) => reply.written(len as u32),
            Err(error) => reply.error(errno(&error.into())),
        }
    }

    /// `FLUSH`: one for every `close(2)`.
    pub(crate) fn flush(self: &Arc<Self>, number: FileHandle, owner: LockOwner, reply: ReplyEmpty) {
        let open = match self.files.find(number) {
            Ok(open) => open,
            Err(error) => return reply.error(errno(&error)),
        };
        let core = Arc::clone(self);
        let node = open.node.id;
        match open.way {
            // Others may have a lock when they can see what was written under it.
            Way::Session(handle) if open.access.write && self.session.gathers(handle) => {
                let flush = move || core.release_and_flush(owner, (open, handle), reply);
                let own = Arc::clone(self);
                let shown = Box::new(move |_| own.background.later(flush));
                self.session.exchange(handle, shown);
            }
            Way::Session(handle) if open.access.write => {
                self.release_and_flush(owner, (open, handle), reply);
            }
            Way::Session(_) | Way::Store => {
                self.locks.release_ranges(node, owner);
                reply.ok();
            }
        }
    }

    fn release_and_flush(
        self: &Arc<Self>,
        owner: LockOwner,
        (open, handle): (Arc<OpenHandle>, SessionHandle),
        reply: ReplyEmpty,
    ) {
        self.locks.release_ranges(open.node.id, owner);
        let bringing = match self.store_is_behind {
            true => Bringing::EmptyFlush,
            false => Bringing::Flush,
        };
        let (core, covered) = (Arc::clone(self), self.brings_bytes(&open));
        let done = move |outcome| {
            let flushed = served(outcome).map(drop);
            reply_empty(
                core.brought_bytes(&open, (bringing, covered), flushed),
                reply,
            );
        };
        self.session.flush(handle, Box::new(done));
    }

    /// `FSYNC`.
    pub(crate) fn fsync(self: &Arc<Self>, number: FileHandle, reply: ReplyEmpty) {
        let open = match self.files.find(number) {
            Ok(open) => open,
            Err(error) => return reply.error(errno(&error)),
        };
        let Way::Session(handle) = open.way else {
            return self.sync_store(&open, reply);
        };
        let (core, covered) = (Arc::clone(self), self.brings_bytes(&open));
        let done = move |outcome| match served(outcome) {
            Ok(None) => {
                let own = Arc::clone(&core);
                core.background.later(move || own.sync_store(&open, reply));
            }
            served => {
                let synced = served.map(drop);
                reply_empty(
                    core.brought_bytes(&open, (Bringing::Sync, covered), synced),
                    reply,
                );
            }
        };
        self.session.sync(handle, Box::new(done));
    }

    /// `RELEASE`: the last descriptor and the last mapping are gone.
    pub(crate) fn release(&self, number: FileHandle, flock_owner: Option<LockOwner>) {
        if let Ok(open) = self.files.find(number)
            && let Some(owner) = flock_owner
        {
            self.locks.release_all(open.node.id, owner);
        }
        self.locks.release_through(number);
        self.close(number);
    }
}

/// Several writes that have one answer.
struct Countdown<F> {
    left: Mutex<(usize, io::Result<()>, Option<F>)>,
}

impl<F: FnOnce(io::Result<()>)> Countdown<F> {
    /// Of none the answer comes at once.
    fn of(count: usize, ended: F) -> Arc<Countdown<F>> {
        let mut ended = Some(ended);
        if count == 0 {
            ended.take().into_iter().for_each(|ended| ended(Ok(())));
        }
        let left = Mutex::new((count, Ok(()), ended));
        Arc::new(Countdown { left })
    }

    /// The first error is the answer.
    fn one_ended(&self, result: io::Result<()>) {
        let mut left = self.left.lock().expect("nothing panics under this lock");
        left.0 -= 1;
        if left.1.is_ok() {
            left.1 = result;
        }
        if left.0 > 0 {
            return;
        }
        let (result, ended) = (std::mem::replace(&mut left.1, Ok(())), left.2.take());
        drop(left);
        if let Some(ended) = ended {
            ended(result);
        }
    }
}

/// A write that the cache refuses after the file was opened through it cannot be ordered.
fn written<T>(outcome: Outcome<T>) -> io::Result<()> {
    served(outcome)?.map(drop).ok_or(raw(libc::EIO))
}

fn reply_written(result: io::Result<()>, len: u32, reply: ReplyWrite) {
    match result {
        Ok(()) => reply.written(len),
        Err(error) => reply.error(errno(&error)),
    }
}

/// A short read means the end of the file to FUSE, so a store's short reads are continued.
fn read_full(fd: impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::pread(&fd, &mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(len) => filled += len,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}
