//! An agent around a real kernel: one lock, the pool and the gate, as `hearth-agent` has them.

use crate::buffers::Buffers;
use crate::net::{Net, Next};
use crate::store::Store;
use crate::world::BrokenMemory;
use crate::write_rings::WriteRings;
use crate::{FrameIndex, FramePart, Pool};
use hearth_proto::{
    Buf, Copies, Effect, FileId, Handle, Input, Node, NodeId, OpenRequest, Outbox, Piece, RawErrno,
    ReadInto, Reply, Request, RevokeId, Semantics, Src, Stamp, StoreOk, StoreOpId, Ticket, Time,
    WriteAt,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, mpsc};
use std::thread;
use std::time::Duration;

/// Bytes are copied to the store in such parts.
const STORE_PART: usize = 1024;

/// One agent.
pub(crate) struct Core {
    pub(crate) pool: Pool,
    pub(crate) waker: Condvar,
    me: NodeId,
    state: Mutex<State>,
    net: Arc<Net>,
    store: Arc<Store>,
    jobs: std::plain::Mutex<Option<mpsc::Sender<Job>>>,
    fault: Option<BrokenMemory>,
}

/// The state that the lock protects.
pub(crate) struct State {
    pub(crate) node: Node,
    pub(crate) buffers: Buffers,
    pub(crate) files: Files,
    pub(crate) write_rings: WriteRings,
    waiting: BTreeMap<Ticket, Waiting>,
    given: u64,
    due: Option<Duration>,
}

/// Files of open handles.
#[derive(Default)]
pub(crate) struct Files(BTreeMap<Handle, FileId>);

impl Files {
    pub(crate) fn file_of(&self, handle: Handle) -> Option<FileId> {
        self.0.get(&handle).copied()
    }
}

/// Work that may only happen once the lock is free.
pub(crate) enum After {
    Revoke(RevokeId),
}

/// An answer to a call.
pub(crate) enum Answer {
    Opened(Handle),
    Bytes(Vec<u8>),
    Done,
    Failed(RawErrno),
}

struct Waiting {
    tell: mpsc::Sender<Answer>,
    call: Call,
}

/// The part of a call that its answer needs.
enum Call {
    Open(FileId),
    Read {
        handle: Handle,
        offset: u64,
        len: u32,
        keep: bool,
    },
    Write {
        handle: Handle,
        offset: u64,
        buf: Buf,
    },
    Plain,
}

/// Work of the store.
enum Job {
    Kernel(StoreOpId, FileId, Work),
    Call(mpsc::Sender<Answer>, FileId, Work),
}

enum Work {
    Look,
    Read(u64, u32, Into),
    Write(Vec<(u64, From)>),
}

enum Into {
    Frames(Vec<FramePart>),
    Buf(Buf),
    Call,
}

enum From {
    Frame(FramePart),
    Bytes(Vec<u8>),
}

fn now() -> Time {
    Time(std::clock::now().as_nanos() as u64)
}

impl Core {
    pub(crate) fn start(
        (node, pool): (Node, Pool),
        (net, store): (Arc<Net>, Arc<Store>),
        fault: Option<BrokenMemory>,
    ) -> Arc<Core> {
        let (sender, jobs) = mpsc::channel();
        let core = Arc::new(Core {
            pool,
            waker: Condvar::new(),
            me: node.config().me,
            state: Mutex::new(State {
                node,
                buffers: Buffers::default(),
                files: Files::default(),
                write_rings: WriteRings::default(),
                waiting: BTreeMap::new(),
                given: 0,
                due: None,
            }),
            net,
            store,
            jobs: std::plain::Mutex::new(Some(sender)),
            fault,
        });
        let own = Arc::clone(&core);
        thread::spawn(move || {
            while let Ok(job) = jobs.recv() {
                own.do_job(job);
            }
        });
        core
    }

    /// Takes in what comes from others, until the world ends.
    pub(crate) fn serve(&self) {
        loop {
            match self.net.next(self.me) {
                Next::Message(from, envelope, bytes) => self.drive_with(|state| {
                    let len = bytes.len() as u32;
                    let data = (len > 0).then(|| (state.buffers.add(bytes), len));
                    Input::Message {
                        from,
                        envelope: *envelope,
                        data,
                    }
                }),
                Next::Due => self.drive_with(|state| {
                    state.due = None;
                    Input::Tick
                }),
                Next::End => return,
            }
        }
    }

    /// Ends what is its own.
    pub(crate) fn stop(&self) {
        let mut jobs = self.jobs.lock().expect("nothing panics under this lock");
        *jobs = None;
        drop(jobs);
        self.end_write_rings();
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    fn drive_with(&self, input: impl FnOnce(&mut State) -> Input) {
        self.turn(|state, after| {
            let input = input(state);
            self.step(state, input, after);
        });
    }

    /// Does steps under the lock, and what follows from them when it is free.
    pub(crate) fn turn<R>(&self, steps: impl FnOnce(&mut State, &mut Vec<After>) -> R) -> R {
        let mut after = Vec::new();
        let mut state = self.lock();
        match self.fault {
            Some(BrokenMemory::GateLeftOpen) => {}
            _ => self.shut(&mut state, &mut after),
        }
        let result = steps(&mut state, &mut after);
        self.end_turn(state, after);
        result
    }

    /// Ends a turn: does the work that follows a step, or several.
    pub(crate) fn end_turn(&self, mut state: MutexGuard<'_, State>, after: Vec<After>) {
        self.open(&mut state);
        let due = state.node.deadline().map(|due| Duration::from_nanos(due.0));
        if due != state.due {
            state.due = due;
            self.net.ring(self.me, due);
        }
        drop(state);
        for After::Revoke(id) in after {
            // The mount keeps no pages.
            self.drive_with(|_| Input::Revoked(id));
        }
    }

    pub(crate) fn step(&self, state: &mut State, input: Input, after: &mut Vec<After>) {
        std::tell(|| format!("node {} <- {input:?}", self.me.0));
        let mut out = Outbox::new();
        state.node.step(now(), input, &mut out);
        for effect in out {
            std::tell(|| format!("node {} -> {effect:?}", self.me.0));
            self.carry(state, effect, after);
        }
    }

    fn carry(&self, state: &mut State, effect: Effect, after: &mut Vec<After>) {
        match effect {
            Effect::Send { to, envelope, data } => {
                let bytes = self.bytes_of(state, &data);
                self.net.send(self.me, to, (envelope, bytes));
            }
            Effect::Fill { frame, at, from } => self.fill(state, FrameIndex(frame.0), at, from),
            Effect::Stash { buf, data } => {
                let bytes = self.bytes_of(state, &data);
                state.buffers.insert(buf, bytes);
            }
            Effect::Free(buf) => state.buffers.free(buf),
            Effect::Reply { ticket, reply } => self.reply(state, ticket, reply),
            Effect::Direct { ticket } => self.past(state, ticket),
            Effect::Revoke { id, file, pages } => {
                std::tally("pages called back");
                match self.fault {
                    Some(BrokenMemory::PagesStayShown) => {}
                    _ => self.hide(file, pages),
                }
                after.push(After::Revoke(id));
            }
            Effect::Release { handle } => drop(state.files.0.remove(&handle)),
            Effect::Offer {
                file,
                page,
                frame,
                limit,
            } => {
                std::tally("pages offered");
                self.offered(state, (file, page), frame, limit);
            }
            Effect::TakeBack { frame, .. } => self.took_back(state, frame),
            Effect::Refused(buf) => {
                std::tally("writes refused");
                state.write_rings.refuse(buf);
            }
            Effect::Reopen { .. } | Effect::Forgotten { .. } => {}
            order => self.order(state, order),
        }
    }

    /// Work of the store.
    fn order(&self, state: &State, effect: Effect) {
        let (op, file, work) = match effect {
            Effect::StoreSync { op, file, .. } => (op, file, Work::Look),
            Effect::StoreRead {
                op,
                file,
                offset,
                into,
            } => {
                let (len, into) = match into {
                    ReadInto::Frames(pieces) => {
                        let parts: Vec<FramePart> = pieces.iter().filter_map(part_of).collect();
                        let len = parts.iter().map(|part| part.len as u32).sum();
                        (len, Into::Frames(parts))
                    }
                    ReadInto::Buf(buf, len) => (len, Into::Buf(buf)),
                };
                (op, file, Work::Read(offset, len, into))
            }
            Effect::StoreWrite {
                op,
                file,
                mut offset,
                data,
            } => {
                let mut parts = Vec::new();
                for piece in data {
                    parts.push((offset, self.source_of(state, &piece)));
                    offset += u64::from(piece.len);
                }
                (op, file, Work::Write(parts))
            }
            Effect::StorePieces { op, file, data } => {
                let parts = data
                    .iter()
                    .map(|(at, piece)| (*at, self.source_of(state, piece)));
                (op, file, Work::Write(parts.collect()))
            }
            Effect::StoreThrough {
                op,
                ticket,
                offset,
                buf,
            } => {
                let bytes = state.buffers.get(buf).to_vec();
                let file = state
                    .waiting
                    .get(&ticket)
                    .and_then(|waiting| match waiting.call {
                        Call::Write { handle, .. } => state.files.file_of(handle),
                        _ => None,
                    });
                let Some(file) = file else {
                    return std::find("a write through of no file");
                };
                (op, file, Work::Write(vec![(offset, From::Bytes(bytes))]))
            }
            other => return std::find(format!("node {} wants {other:?}", self.me.0)),
        };
        self.push(Job::Kernel(op, file, work));
    }

    fn source_of(&self, state: &State, piece: &Piece) -> From {
        match part_of(piece) {
            Some(part) => From::Frame(part),
            None => From::Bytes(self.bytes_of(state, std::slice::from_ref(piece))),
        }
    }

    fn push(&self, job: Job) {
        let jobs = self.jobs.lock().expect("nothing panics under this lock");
        let sender = jobs.clone();
        drop(jobs);
        let _ = sender.map(|jobs| jobs.send(job));
    }

    fn do_job(&self, job: Job) {
        match job {
            Job::Kernel(op, file, work) => {
                let (read, into) = self.work(file, work);
                let stamp = self.store.stamp(file.0);
                let ok = StoreOk {
                    bytes: read.len() as u32,
                    stamp,
                };
                self.drive_with(|state| {
                    if let Some((buf, len)) = into {
                        let mut bytes = read;
                        bytes.resize(len as usize, 0);
                        state.buffers.insert(buf, bytes);
                    }
                    Input::StoreDone(op, Ok(ok))
                });
            }
            Job::Call(tell, file, work) => {
                let is_read = matches!(work, Work::Read(..));
                let (read, _) = self.work(file, work);
                let _ = tell.send(match is_read {
                    true => Answer::Bytes(read),
                    false => Answer::Done,
                });
            }
        }
    }

    fn work(&self, file: FileId, work: Work) -> (Vec<u8>, Option<(Buf, u32)>) {
        match work {
            Work::Look => (Vec::new(), None),
            Work::Read(offset, len, into) => {
                let bytes = self.store.read(file.0, offset, len as usize);
                let into = match into {
                    Into::Frames(parts) => {
                        let mut rest = &bytes[..];
                        for part in parts {
                            let (here, more) = rest.split_at(rest.len().min(part.len));
                            self.pool.write(part.frame, part.offset, here);
                            rest = more;
                        }
                        None
                    }
                    Into::Buf(buf) => Some((buf, len)),
                    Into::Call => None,
                };
                (bytes, into)
            }
            Work::Write(parts) => {
                for (offset, from) in parts {
                    self.write_store(file, offset, from);
                }
                (Vec::new(), None)
            }
        }
    }

    fn write_store(&self, file: FileId, offset: u64, from: From) {
        let part = match from {
            From::Bytes(bytes) => return self.store.write(file.0, offset, &bytes),
            From::Frame(part) => part,
        };
        for at in (0..part.len).step_by(STORE_PART) {
            let mut bytes = vec![0; STORE_PART.min(part.len - at)];
            self.pool.read(part.frame, part.offset + at, &mut bytes);
            self.store.write(file.0, offset + at as u64, &bytes);
        }
    }

    /// A read or write of the store itself.
    fn past(&self, state: &mut State, ticket: Ticket) {
        let Some(Waiting { tell, call }) = state.waiting.remove(&ticket) else {
            return;
        };
        let (handle, work) = match call {
            Call::Read {
                handle,
                offset,
                len,
                ..
            } => (handle, Work::Read(offset, len, Into::Call)),
            Call::Write {
                handle,
                offset,
                buf,
            } => {
                let bytes = state.buffers.take(buf);
                (handle, Work::Write(vec![(offset, From::Bytes(bytes))]))
            }
            Call::Open(_) | Call::Plain => {
                return std::find("a call that goes past the cache is neither");
            }
        };
        match state.files.file_of(handle) {
            Some(file) => self.push(Job::Call(tell, file, work)),
            None => std::find("a call without a file"),
        }
    }

    fn fill(&self, state: &State, frame: FrameIndex, at: u32, from: Piece) {
        let (start, len) = (from.at as usize, from.len as usize);
        match from.src {
            Src::Buf(buf) if self.fill_left(state, frame, at, buf) => {}
            Src::Buf(buf) => {
                let bytes = &state.buffers.get(buf)[start..start + len];
                self.pool.write(frame, at as usize, bytes);
            }
            Src::Zero => self.pool.zero(frame, at as usize..at as usize + len),
            Src::Frame(_) => {
                let part = part_of(&from).expect("it is of a frame");
                self.pool.copy(part, frame, at as usize);
            }
        }
    }

    fn bytes_of(&self, state: &State, pieces: &[Piece]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for piece in pieces {
            let range = piece.at as usize..(piece.at + piece.len) as usize;
            match piece.src {
                Src::Buf(buf) => bytes.extend_from_slice(&state.buffers.get(buf)[range]),
                Src::Zero => bytes.resize(bytes.len() + range.len(), 0),
                Src::Frame(frame) => self.pool.with(FrameIndex(frame.0), range, |lent| {
                    bytes.extend_from_slice(lent);
                }),
            }
        }
        bytes
    }

    fn reply(&self, state: &mut State, ticket: Ticket, reply: Reply) {
        let Some(Waiting { tell, call }) = state.waiting.remove(&ticket) else {
            return;
        };
        let answer = match (call, reply) {
            (Call::Open(file), Reply::Opened { handle, .. }) => {
                state.files.0.insert(handle, file);
                Answer::Opened(handle)
            }
            (
                Call::Read {
                    handle,
                    offset,
                    keep,
                    ..
                },
                Reply::Data(pieces),
            ) => {
                if keep {
                    self.show(state, handle, offset, &pieces);
                }
                Answer::Bytes(self.bytes_of(state, &pieces))
            }
            (Call::Write { .. }, Reply::Written { .. }) | (Call::Plain, Reply::Done) => {
                Answer::Done
            }
            (_, Reply::Failed(errno)) => Answer::Failed(errno),
            (_, reply) => return std::find(format!("an answer that nobody asked for: {reply:?}")),
        };
        // A program that is gone needs none.
        let _ = tell.send(answer);
    }
}

/// Calls, as a mount makes them.
impl Core {
    fn call(&self, call: impl FnOnce(&mut State) -> (Call, Request)) -> Answer {
        let (tell, told) = mpsc::channel();
        self.drive_with(|state| {
            let (call, request) = call(state);
            state.given += 1;
            let ticket = Ticket(state.given);
            state.waiting.insert(ticket, Waiting { tell, call });
            Input::Request(ticket, request)
        });
        told.recv().unwrap_or(Answer::Failed(0))
    }

    pub(crate) fn open_file(&self, file: u64, stamp: Stamp) -> Answer {
        let file = FileId(file);
        let open = OpenRequest {
            file,
            write: true,
            stamp,
            private: false,
            semantics: Semantics::default(),
        };
        self.call(|_| (Call::Open(file), Request::Open(open)))
    }

    pub(crate) fn read(&self, handle: Handle, offset: u64, len: u32) -> Answer {
        self.call(|state| {
            let keep = state.node.config().rules().copies == Copies::Many;
            let call = Call::Read {
                handle,
                offset,
                len,
                keep,
            };
            let request = Request::Read {
                handle,
                offset,
                len,
                keep,
                aside: false,
            };
            (call, request)
        })
    }

    pub(crate) fn write(&self, handle: Handle, offset: u64, bytes: Vec<u8>) -> Answer {
        let len = bytes.len() as u32;
        self.call(|state| {
            self.want_write_rings(state);
            let buf = state.buffers.add(bytes);
            let call = Call::Write {
                handle,
                offset,
                buf,
            };
            let request = Request::Write {
                handle,
                at: WriteAt::Offset(offset),
                buf,
                len,
                mtime_ns: crate::session::wall_clock_ns(),
                aside: false,
            };
            (call, request)
        })
    }

    pub(crate) fn plain(&self, request: Request) -> Answer {
        self.call(|_| (Call::Plain, request))
    }

    /// Tells what nobody waits for.
    pub(crate) fn inform(&self, input: Input) {
        self.drive_with(|_| input);
    }

    pub(crate) fn close(&self, handle: Handle) {
        self.drive_with(|state| {
            state.given += 1;
            Input::Request(Ticket(state.given), Request::Close(handle))
        });
    }
}

fn part_of(piece: &Piece) -> Option<FramePart> {
    match piece.src {
        Src::Frame(frame) => Some(FramePart {
            frame: FrameIndex(frame.0),
            offset: piece.at as usize,
            len: piece.len as usize,
        }),
        Src::Buf(_) | Src::Zero => None,
    }
}
