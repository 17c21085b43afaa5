//! The session interface, as the agent serves it.

use crate::core::{Core, State};
use crate::leave;
use crate::placement_rules::Way;
use crate::tickets::{Opening, Waiting};
use crate::workers::kernel_stamp;
use hearth_client::{
    AttributesLeave, AttributesRead, Bypass, Done, Errno, FileKey, FileSize, FileStamp, Keep,
    NamesLeave, NamesRead, OpenFile, OpenedFile, Outcome, Place, ReadDone, Revoker, Session,
    SessionHandle, Share, Written,
};
use hearth_proto::{CloseRule, Copies, FileId, Input, OpenRequest, Request, Ticket, WriteAt};
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Programs look at a clock that is late by one of its ticks at most.
const TICK: Duration = Duration::from_millis(10);

/// Largest read or write of one call, in bytes.
const CALL_BYTES_MAX: usize = 16 << 20;

impl Core {
    /// Hands a request to the kernel under a ticket that knows how to answer it.
    fn submit(&self, make: impl FnOnce(&mut State) -> (Waiting, Request)) {
        self.await_lease();
        self.drive_with(|state| ticketed(state, make));
    }

    /// Hands a request to the kernel that is not answered.
    fn inform(&self, request: Request) {
        self.drive_with(|state| {
            let ticket: Ticket = state.tickets.next();
            Input::Request(ticket, request)
        });
    }
}

/// A request under a ticket that knows how to answer it.
fn ticketed(state: &mut State, make: impl FnOnce(&mut State) -> (Waiting, Request)) -> Input {
    let (waiting, request) = make(state);
    let ticket = state.tickets.add(waiting);
    state.trace_request(ticket, &request);
    Input::Request(ticket, request)
}

impl Session for Core {
    fn attach(&self, revoker: Arc<dyn Revoker>) {
        self.lock().revoker = Some(revoker);
    }

    fn open(&self, open: OpenFile, fd: Arc<OwnedFd>, done: Done<OpenedFile>) {
        let OpenFile {
            file,
            access,
            stamp,
            private,
            made,
        } = open;
        let placement = match made {
            true => self.placement_rules.of_new(fd.as_fd()),
            false => self.placement_rules.of(fd.as_fd()),
        };
        if placement.way == Way::Store {
            return done(Outcome::Bypass(Bypass::ByRule));
        }
        let semantics = placement.semantics;
        let file = FileId(file.ino);
        let write = access.write;
        let stamp = kernel_stamp(stamp);
        self.submit(|state| {
            if made {
                state.files.forget_telling(file);
            }
            let same_stamp = state.files.same_stamp(file, stamp);
            let request = OpenRequest {
                file,
                write,
                stamp,
                private,
                view: state.member.stamp_view_of_others(),
                semantics,
            };
            let waiting = Waiting::Open(Opening {
                request,
                fd,
                same_stamp,
                done,
            });
            (waiting, Request::Open(request))
        });
    }

    fn looking(&self, file: FileKey) -> Option<hearth_client::local::AttributeTicket> {
        self.pool.ticket(file.ino)
    }

    fn told(
        &self,
        file: FileKey,
        ticket: hearth_client::local::AttributeTicket,
        digest: u64,
        ttl: Duration,
    ) {
        let ttl = u64::try_from(ttl.saturating_sub(TICK).as_nanos()).unwrap_or(u64::MAX);
        let until = hearth_shm::monotonic_ns().saturating_add(ttl);
        self.pool.tell(file.ino, ticket, digest, until);
    }

    fn file_changed(&self, file: FileKey) {
        self.pool.file_changed(file.ino);
    }

    fn stored_in_mapping(&self, file: FileKey) {
        let file = FileId(file.ino);
        self.inform(Request::Mapped(file));
        // None of its pages is shown from here on.
        self.hide(file, Some((0, u32::MAX)));
    }

    fn names_changed(&self) {
        self.pool.names_changed();
    }

    fn name_unheard(&self) {
        self.pool.name_unheard();
    }

    fn names_are_kept(&self) {
        self.pool.keep_names();
    }

    fn close(&self, handle: SessionHandle) {
        self.inform(Request::Close(kernel_handle(handle)));
    }

    fn read(&self, handle: SessionHandle, offset: u64, len: u32, keep: Keep, done: ReadDone) {
        let handle = kernel_handle(handle);
        if len as usize > CALL_BYTES_MAX || offset > i64::MAX as u64 {
            return done(Outcome::Fail(Errno(hearth_proto::errno::EFBIG)));
        }
        let shared = self.pool.is_shared();
        self.submit(|state| {
            // Pages that programs read in the pool are called back like those that a front end keeps.
            let copies = state.node().config().rules().copies;
            let aside = keep == Keep::Nobody;
            let keep = keep == Keep::FrontEnd || (shared && !aside && copies == Copies::Many);
            let waiting = Waiting::Read {
                handle,
                offset,
                len,
                keep,
                done,
            };
            (
                waiting,
                Request::Read {
                    handle,
                    offset,
                    len,
                    keep,
                    aside,
                },
            )
        });
    }

    fn write(&self, handle: SessionHandle, place: Place, data: Vec<u8>, done: Done<Written>) {
        let handle = kernel_handle(handle);
        if data.is_empty() || data.len() > CALL_BYTES_MAX {
            return done(Outcome::Fail(Errno(hearth_proto::errno::EFBIG)));
        }
        let at = match place {
            Place::At(offset) | Place::Aside(offset) => WriteAt::Offset(offset),
            Place::End => WriteAt::End,
        };
        let aside = matches!(place, Place::Aside(_));
        let len = data.len() as u32;
        let mtime_ns = wall_clock_ns();
        let make = |state: &mut State| {
            self.want_write_rings(state);
            let buf = state.buffers.add(data);
            let waiting = Waiting::Write {
                handle,
                at,
                buf,
                done,
            };
            let request = Request::Write {
                handle,
                at,
                buf,
                len,
                mtime_ns,
                aside,
            };
            (waiting, request)
        };
        self.drive_write(|state| ticketed(state, make));
    }

    fn pool_bytes(&self) -> u64 {
        self.lock().node().config().pool_bytes()
    }

    fn flush(&self, handle: SessionHandle, done: Done<()>) {
        self.submit(|_| (Waiting::Plain(done), Request::Flush(kernel_handle(handle))));
    }

    fn sync(&self, handle: SessionHandle, done: Done<()>) {
        self.submit(|_| (Waiting::Plain(done), Request::Sync(kernel_handle(handle))));
    }

    fn gathers(&self, handle: SessionHandle) -> bool {
        self.lock().node().gathers(kernel_handle(handle))
    }

    fn is_posix(&self, handle: SessionHandle) -> bool {
        self.lock().node().is_posix(kernel_handle(handle))
    }

    fn exchange(&self, handle: SessionHandle, done: Done<()>) {
        let request = Request::Exchange(kernel_handle(handle));
        self.submit(|_| (Waiting::Plain(done), request));
    }

    fn size(&self, file: FileKey, ask: bool, done: Done<FileSize>) {
        self.submit(|_| {
            (
                Waiting::Size(done),
                Request::Size {
                    file: FileId(file.ino),
                    ask,
                },
            )
        });
    }

    fn store_is_behind(&self) -> bool {
        self.lock().node().config().close_rule() == CloseRule::Buffered
    }

    fn truncate(&self, file: FileKey, fd: OwnedFd, size: u64, done: Done<()>) {
        let fd = Arc::new(fd);
        let file = FileId(file.ino);
        self.submit(|state| {
            // Homes may have to be told where the file is, though nobody has it open.
            state.files.seen(file, &fd);
            (
                Waiting::Truncate { fd, done },
                Request::Truncate { file, size },
            )
        });
    }

    fn detach(&self, file: FileKey, done: Done<()>) {
        self.submit(|_| (Waiting::Plain(done), Request::Detach(FileId(file.ino))));
    }

    fn detached(&self, file: FileKey, gone: bool) {
        let file = FileId(file.ino);
        self.inform(Request::Detached { file, gone });
    }

    fn settle(&self, file: FileKey, done: Done<()>) {
        self.submit(|_| (Waiting::Plain(done), Request::Settle(FileId(file.ino))));
    }

    fn laminate(&self, file: FileKey, stamp: FileStamp, done: Done<()>) {
        let (file, stamp) = (FileId(file.ino), kernel_stamp(stamp));
        self.submit(|_| (Waiting::Plain(done), Request::Laminate { file, stamp }));
    }

    fn restamp(&self, file: FileKey, before: FileStamp, after: FileStamp) {
        let (before, after) = (kernel_stamp(before), kernel_stamp(after));
        self.inform(Request::Restamp {
            file: FileId(file.ino),
            before,
            after,
        });
    }

    fn share(&self) -> Share {
        let state = self.lock();
        let config = state.node().config();
        Share {
            part: config.me.0 as usize,
            parts: config.nodes as usize,
        }
    }

    fn looks_alone(&self) -> bool {
        let state = self.lock();
        let config = state.node().config();
        config.daemon_of_attributes(FileId::default()).is_some()
    }

    fn leave(&self, files: Vec<FileKey>, done: Done<Vec<AttributesLeave>>) {
        let files = files.iter().map(|file| FileId(file.ino)).collect();
        self.submit(|_| (Waiting::Leave(done), Request::Leave(files)));
    }

    fn await_leave(&self, files: Vec<FileKey>, done: Done<Vec<AttributesLeave>>) {
        let files = files.iter().map(|file| FileId(file.ino)).collect();
        self.submit(|_| (Waiting::Leave(done), Request::Await(files)));
    }

    fn names(&self, dir: FileKey, done: Done<NamesLeave>) {
        self.submit(|_| (Waiting::Names(done), Request::Names(FileId(dir.ino))));
    }

    fn listed(&self, dir: FileKey, number: u64, names: Option<NamesRead>) {
        let mut parts = leave::parts_for_kernel(names).peekable();
        let mut first = 0;
        while let Some(names) = parts.next() {
            let count = names.as_ref().map_or(0, Vec::len);
            self.inform(Request::Listed {
                dir: FileId(dir.ino),
                number,
                first: first as u32,
                names,
                more: parts.peek().is_some(),
            });
            first += count;
        }
    }

    fn locate(&self, files: Vec<FileKey>, done: Done<()>) {
        let files = files.iter().map(|file| FileId(file.ino)).collect();
        self.submit(|_| (Waiting::Plain(done), Request::Locate(files)));
    }

    fn learned(&self, learned: Vec<AttributesRead>) {
        let told = learned.iter().map(|one| hearth_proto::Learned {
            file: FileId(one.file.ino),
            number: one.number,
            attributes: one.attributes.map(leave::for_kernel),
        });
        self.inform(Request::Learned(told.collect()));
    }

    fn change(&self, file: FileKey, done: Done<()>) {
        self.submit(|_| (Waiting::Plain(done), Request::Change(FileId(file.ino))));
    }

    fn changed(&self, file: FileKey, ctime_ns: i64) {
        let file = FileId(file.ino);
        self.inform(Request::Changed { file, ctime_ns });
    }
}

fn kernel_handle(handle: SessionHandle) -> hearth_proto::Handle {
    hearth_proto::Handle(handle.0)
}

/// When a write is made. The store's clock may go in ticks: a finer one would be ahead of what the store says when the
/// bytes get there, and times would go back.
pub(crate) fn wall_clock_ns() -> i64 {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    now.tv_sec
        .saturating_mul(1_000_000_000)
        .saturating_add(now.tv_nsec)
}
