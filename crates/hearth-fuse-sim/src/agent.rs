//! An agent around a real kernel: one lock, completions called under it, recalls outside of it, as `hearth-agent` has it.
//! Of bytes it knows how many there are ([`crate::bytes`]).

use crate::bytes::{Buffers, Job, Told, Work, lend, length, stamp};
use crate::opened::Opened;
use crate::world::Broken;
use crate::{fs, leave};
use hearth_client::{
    AttributesLeave, AttributesRead, Done, Errno, FileKey, FileSize, Keep, NamesLeave, NamesRead,
    OpenFile, OpenedFile, Outcome, Place, ReadDone, Revoker, Session, SessionHandle, Share,
    Written,
};
use hearth_proto::msg::Envelope;
use hearth_proto::{
    CloseRule, Effect, FileId, Input, Node, NodeId, OpenRequest, Outbox, ReadInto, Reply, Request,
    RevokeId, Semantics, Ticket, Time, WriteAt,
};
use std::collections::BTreeMap;
use std::mail::{Mail, Next};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};
use std::thread;
use std::time::Duration;

/// How late a recall is that was answered early.
const LATE: Duration = Duration::from_millis(100);

/// Messages, each with how many bytes it has.
pub(crate) type Net = Mail<(Envelope, u32)>;

/// One agent.
pub(crate) struct Agent {
    me: NodeId,
    state: Mutex<State>,
    net: Arc<Net>,
    opened: Arc<Opened>,
    revoker: OnceLock<Arc<dyn Revoker>>,
    store: std::plain::Mutex<Option<mpsc::Sender<Job>>>,
    fault: Option<Broken>,
    this: Weak<Agent>,
}

struct State {
    node: Node,
    given: u64,
    waiting: BTreeMap<Ticket, Waiting>,
    due: Option<Duration>,
    buffers: Buffers,
    files: BTreeMap<SessionHandle, u64>,
}

/// How an answer of the kernel becomes one of the session.
enum Waiting {
    Open(Done<OpenedFile>),
    Size(Done<FileSize>),
    Leave(Done<Vec<AttributesLeave>>),
    Names(Done<NamesLeave>),
    Read(SessionHandle, (u64, u32), ReadDone),
    Write(SessionHandle, (u64, u32), Done<Written>),
    Truncate(Arc<OwnedFd>, Done<()>),
    Plain(Done<()>),
}

type Recall = (RevokeId, FileId);

impl Agent {
    pub(crate) fn start(
        node: Node,
        (net, opened): (Arc<Net>, Arc<Opened>),
        fault: Option<Broken>,
    ) -> Arc<Agent> {
        let (store, jobs) = mpsc::channel::<Job>();
        let agent = Arc::new_cyclic(|this| Agent {
            me: node.config().me,
            state: Mutex::new(State {
                node,
                given: 0,
                waiting: BTreeMap::new(),
                due: None,
                buffers: Buffers::default(),
                files: BTreeMap::new(),
            }),
            net,
            opened,
            revoker: OnceLock::new(),
            store: std::plain::Mutex::new(Some(store)),
            fault,
            this: Weak::clone(this),
        });
        let own = Arc::clone(&agent);
        thread::spawn(move || {
            while let Ok(job) = jobs.recv() {
                job.run(&own);
            }
        });
        agent
    }

    /// Takes in what comes from others, until the world ends.
    pub(crate) fn serve(&self) {
        loop {
            match self.net.next(self.me.0) {
                Next::Message(from, (envelope, len)) => self.step(|state| {
                    let from = NodeId(from);
                    let data = (len > 0).then(|| (state.buffers.add(len), len));
                    Input::Message {
                        from,
                        envelope,
                        data,
                    }
                }),
                Next::Due => {
                    self.with(|state| state.due = None);
                    self.drive(Input::Tick);
                }
                Next::End => break,
            }
        }
    }

    /// Ends what is its own.
    pub(crate) fn stop(&self) {
        self.store
            .lock()
            .expect("nothing panics under this lock")
            .take();
    }

    /// The waits of its kernel, in words.
    pub(crate) fn waits(&self) -> Vec<String> {
        let waits = self.with(|state| state.node.waits());
        waits
            .iter()
            .map(|wait| format!("node {}: {wait:?}", self.me.0))
            .collect()
    }

    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().expect("nothing panics under this lock"))
    }

    fn submit(&self, waiting: Waiting, request: Request) {
        self.step(|state| {
            state.given += 1;
            state.waiting.insert(Ticket(state.given), waiting);
            Input::Request(Ticket(state.given), request)
        });
    }

    fn inform(&self, request: Request) {
        self.step(|state| {
            state.given += 1;
            Input::Request(Ticket(state.given), request)
        });
    }

    pub(crate) fn drive(&self, input: Input) {
        self.step(|_| input);
    }

    fn step(&self, input: impl FnOnce(&mut State) -> Input) {
        let recalls = self.with(|state| {
            let (input, mut out, mut recalls) = (input(state), Outbox::new(), Vec::new());
            std::tell(|| format!("node {} <- {input:?}", self.me.0));
            state.node.step(now(), input, &mut out);
            for effect in out {
                std::tell(|| format!("node {} -> {effect:?}", self.me.0));
                self.carry(state, effect, &mut recalls);
            }
            let due = state.node.deadline().map(|due| Duration::from_nanos(due.0));
            if due != state.due {
                state.due = due;
                self.net.ring(self.me.0, due);
            }
            recalls
        });
        recalls.into_iter().for_each(|recall| self.recall(recall));
    }

    fn carry(&self, state: &mut State, effect: Effect, recalls: &mut Vec<Recall>) {
        match effect {
            Effect::Send { to, envelope, data } => {
                self.net.send(self.me.0, to.0, (envelope, length(&data)));
            }
            Effect::Reply { ticket, reply } => {
                if let Some(waiting) = state.waiting.remove(&ticket) {
                    waiting.answer(reply);
                }
            }
            Effect::Direct { ticket } => self.past(state, ticket),
            Effect::Stash { buf, data } => drop(state.buffers.insert(buf, length(&data))),
            Effect::Free(buf) => drop(state.buffers.take(buf)),
            Effect::Fill { .. } => {}
            Effect::Revoke { id, file, .. } => {
                std::tally("recalls");
                recalls.push((id, file));
            }
            order => self.order(state, order),
        }
    }

    /// Work of the store.
    fn order(&self, state: &mut State, effect: Effect) {
        let (op, fd, work) = match effect {
            Effect::StoreSync { op, file, .. } => (op, self.opened.of(file.0), Work::Look),
            Effect::StoreTruncate { op, ticket, size } => {
                let fd = match state.waiting.get(&ticket) {
                    Some(Waiting::Truncate(fd, _)) => Some(Arc::clone(fd)),
                    Some(_) | None => None,
                };
                (op, fd, Work::Cut(size))
            }
            Effect::StoreRead {
                op,
                file,
                offset,
                into,
            } => {
                let len = match into {
                    ReadInto::Frames(pieces) => length(&pieces),
                    ReadInto::Buf(buf, len) => {
                        state.buffers.insert(buf, len);
                        len
                    }
                };
                (op, self.opened.of(file.0), Work::Read(offset, len))
            }
            Effect::StoreWrite {
                op,
                file,
                offset,
                data,
            } => {
                let work = Work::Write(vec![(offset, length(&data))]);
                (op, self.opened.of(file.0), work)
            }
            Effect::StorePieces { op, file, data } => {
                let pieces = data.into_iter().map(|(offset, piece)| (offset, piece.len));
                (op, self.opened.of(file.0), Work::Write(pieces.collect()))
            }
            Effect::StoreThrough {
                op,
                ticket,
                offset,
                buf,
            } => {
                let len = state.buffers.take(buf);
                let fd = match state.waiting.get(&ticket) {
                    Some(Waiting::Write(handle, ..)) => self.fd_of(state, *handle),
                    Some(_) | None => None,
                };
                (op, fd, Work::Write(vec![(offset, len)]))
            }
            Effect::Release { .. } | Effect::Forgotten { .. } | Effect::Reopen { .. } => return,
            other => return std::find(format!("node {} wants {other:?}", self.me.0)),
        };
        let told = Told::Kernel(op);
        self.push(Job { fd, work, told });
    }

    fn fd_of(&self, state: &State, handle: SessionHandle) -> Option<Arc<OwnedFd>> {
        self.opened.of(*state.files.get(&handle)?)
    }

    /// A read or write of the store itself.
    fn past(&self, state: &mut State, ticket: Ticket) {
        let (handle, work, told) = match state.waiting.remove(&ticket) {
            Some(Waiting::Read(handle, (offset, len), done)) => {
                (handle, Work::Read(offset, len), Told::Reader(done))
            }
            Some(Waiting::Write(handle, (offset, len), done)) => {
                let work = Work::Write(vec![(offset, len)]);
                (handle, work, Told::Writer(offset, done))
            }
            Some(_) | None => return std::find("a call that goes past the cache is neither"),
        };
        let fd = self.fd_of(state, handle);
        self.push(Job { fd, work, told });
    }

    fn push(&self, job: Job) {
        let store = self
            .store
            .lock()
            .expect("nothing panics under this lock")
            .clone();
        let _ = store.map(|store| store.send(job));
    }

    /// Has the front end drop what it keeps.
    fn recall(&self, (id, file): Recall) {
        let file = FileKey { ino: file.0 };
        let agent = self
            .this
            .upgrade()
            .expect("it is only used through its Arc");
        let done = move || agent.drive(Input::Revoked(id));
        let Some(revoker) = self.revoker.get() else {
            return done();
        };
        match self.fault {
            Some(Broken::RecallsAnsweredEarly) => {
                done();
                let revoker = Arc::clone(revoker);
                thread::spawn(move || {
                    thread::sleep(LATE);
                    revoker.revoke(file, None, Box::new(|| ()));
                });
            }
            _ => revoker.revoke(file, None, Box::new(done)),
        }
    }
}

fn note(leave: &hearth_proto::Leave) {
    std::tally(match leave {
        hearth_proto::Leave::No => "leave refused",
        hearth_proto::Leave::Later => "leave later",
        hearth_proto::Leave::Read { .. } => "leave to read",
        hearth_proto::Leave::Known(_) => "attributes told by others",
        hearth_proto::Leave::Once(_) => "attributes told once",
    });
}

fn now() -> Time {
    Time(std::clock::now().as_nanos() as u64)
}

impl Waiting {
    fn answer(self, reply: Reply) {
        match (self, reply) {
            (
                Waiting::Open(done),
                Reply::Opened {
                    handle,
                    direct,
                    kept_valid,
                    size,
                    left,
                },
            ) => done(Outcome::Serve(OpenedFile {
                handle: SessionHandle(handle.0),
                direct,
                kept_valid,
                size,
                left,
            })),
            (
                Waiting::Size(done),
                Reply::Size {
                    size,
                    mtime_ns,
                    keep,
                },
            ) => done(Outcome::Serve(FileSize {
                size,
                mtime_ns,
                keep,
            })),
            (Waiting::Leave(done), Reply::Leaves(leaves)) => {
                leaves.iter().for_each(note);
                done(Outcome::Serve(leave::all_for_front_end(leaves)));
            }
            (Waiting::Names(done), Reply::Names { leave, names }) => {
                match names.is_some() {
                    true => std::tally("names told by others"),
                    false => note(&leave),
                }
                done(Outcome::Serve(leave::names_for_front_end(leave, names)));
            }
            (Waiting::Read(.., done), Reply::Data(pieces)) => lend(length(&pieces), done),
            (Waiting::Write(.., done), Reply::Written { offset, size }) => {
                done(Outcome::Serve(Written { offset, size }));
            }
            (Waiting::Truncate(_, done) | Waiting::Plain(done), Reply::Done) => {
                done(Outcome::Serve(()));
            }
            (waiting, Reply::Failed(errno)) => waiting.fail(Errno(errno)),
            (_, reply) => std::find(format!("an answer that nobody asked for: {reply:?}")),
        }
    }

    fn fail(self, errno: Errno) {
        match self {
            Waiting::Open(done) => done(Outcome::Fail(errno)),
            Waiting::Read(.., done) => done(Outcome::Fail(errno)),
            Waiting::Write(.., done) => done(Outcome::Fail(errno)),
            Waiting::Size(done) => done(Outcome::Fail(errno)),
            Waiting::Leave(done) => done(Outcome::Fail(errno)),
            Waiting::Names(done) => done(Outcome::Fail(errno)),
            Waiting::Truncate(_, done) | Waiting::Plain(done) => done(Outcome::Fail(errno)),
        }
    }
}

fn ids(files: &[FileKey]) -> Vec<FileId> {
    files.iter().map(|file| FileId(file.ino)).collect()
}

impl Session for Agent {
    fn attach(&self, revoker: Arc<dyn Revoker>) {
        // Once per mount.
        let _ = self.revoker.set(revoker);
    }

    fn open(&self, open: OpenFile, fd: Arc<OwnedFd>, done: Done<OpenedFile>) {
        self.opened.seen(open.file.ino, &fd);
        let request = Request::Open(OpenRequest {
            view: hearth_proto::View(1),
            file: FileId(open.file.ino),
            write: open.access.write,
            stamp: stamp(open.stamp),
            private: open.private,
            semantics: Semantics::default(),
        });
        let file = open.file.ino;
        self.step(|state| {
            state.given += 1;
            // The ticket becomes the handle.
            state.files.insert(SessionHandle(state.given), file);
            state
                .waiting
                .insert(Ticket(state.given), Waiting::Open(done));
            Input::Request(Ticket(state.given), request)
        });
    }

    fn close(&self, handle: SessionHandle) {
        self.inform(Request::Close(hearth_proto::Handle(handle.0)));
    }

    fn read(&self, handle: SessionHandle, offset: u64, len: u32, keep: Keep, done: ReadDone) {
        let request = Request::Read {
            handle: hearth_proto::Handle(handle.0),
            offset,
            len,
            keep: keep == Keep::FrontEnd,
            aside: keep == Keep::Nobody,
        };
        self.submit(Waiting::Read(handle, (offset, len), done), request);
    }

    fn write(&self, handle: SessionHandle, place: Place, data: Vec<u8>, done: Done<Written>) {
        let Place::At(offset) = place else {
            return std::find("no program of a world appends");
        };
        let len = data.len() as u32;
        self.step(|state| {
            state.given += 1;
            let waiting = Waiting::Write(handle, (offset, len), done);
            state.waiting.insert(Ticket(state.given), waiting);
            let request = Request::Write {
                handle: hearth_proto::Handle(handle.0),
                at: WriteAt::Offset(offset),
                buf: state.buffers.add(len),
                len,
                mtime_ns: fs::now_ns(),
                aside: false,
            };
            Input::Request(Ticket(state.given), request)
        });
    }

    fn gathers(&self, handle: SessionHandle) -> bool {
        self.with(|state| state.node.gathers(hearth_proto::Handle(handle.0)))
    }

    fn exchange(&self, handle: SessionHandle, done: Done<()>) {
        let request = Request::Exchange(hearth_proto::Handle(handle.0));
        self.submit(Waiting::Plain(done), request);
    }

    fn store_is_behind(&self) -> bool {
        self.with(|state| state.node.config().close_rule() == CloseRule::Buffered)
    }

    fn flush(&self, handle: SessionHandle, done: Done<()>) {
        let request = Request::Flush(hearth_proto::Handle(handle.0));
        self.submit(Waiting::Plain(done), request);
    }

    fn sync(&self, handle: SessionHandle, done: Done<()>) {
        let request = Request::Sync(hearth_proto::Handle(handle.0));
        self.submit(Waiting::Plain(done), request);
    }

    fn size(&self, file: FileKey, ask: bool, done: Done<FileSize>) {
        let file = FileId(file.ino);
        self.submit(Waiting::Size(done), Request::Size { file, ask });
    }

    fn truncate(&self, file: FileKey, fd: OwnedFd, size: u64, done: Done<()>) {
        let fd = Arc::new(fd);
        self.opened.seen(file.ino, &fd);
        let file = FileId(file.ino);
        self.submit(
            Waiting::Truncate(fd, done),
            Request::Truncate { file, size },
        );
    }

    fn detach(&self, file: FileKey, done: Done<()>) {
        self.submit(Waiting::Plain(done), Request::Detach(FileId(file.ino)));
    }

    fn detached(&self, file: FileKey, gone: bool) {
        let file = FileId(file.ino);
        self.inform(Request::Detached { file, gone });
    }

    fn settle(&self, file: FileKey, done: Done<()>) {
        self.submit(Waiting::Plain(done), Request::Settle(FileId(file.ino)));
    }

    fn laminate(&self, file: FileKey, after: hearth_client::FileStamp, done: Done<()>) {
        let (file, stamp) = (FileId(file.ino), stamp(after));
        self.submit(Waiting::Plain(done), Request::Laminate { file, stamp });
    }

    fn restamp(
        &self,
        file: FileKey,
        before: hearth_client::FileStamp,
        after: hearth_client::FileStamp,
    ) {
        self.inform(Request::Restamp {
            file: FileId(file.ino),
            before: stamp(before),
            after: stamp(after),
        });
    }

    fn share(&self) -> Share {
        self.with(|state| {
            let config = state.node.config();
            Share {
                part: config.me.0 as usize,
                parts: config.nodes as usize,
            }
        })
    }

    fn leave(&self, files: Vec<FileKey>, done: Done<Vec<AttributesLeave>>) {
        if self.fault == Some(Broken::LeaveAskedAlone) && files.len() > 1 {
            return self.leave_each(files, Vec::new(), done);
        }
        self.submit(Waiting::Leave(done), Request::Leave(ids(&files)));
    }

    fn await_leave(&self, files: Vec<FileKey>, done: Done<Vec<AttributesLeave>>) {
        self.submit(Waiting::Leave(done), Request::Await(ids(&files)));
    }

    fn names(&self, dir: FileKey, done: Done<NamesLeave>) {
        self.submit(Waiting::Names(done), Request::Names(FileId(dir.ino)));
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
        self.submit(Waiting::Plain(done), Request::Locate(ids(&files)));
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
        self.submit(Waiting::Plain(done), Request::Change(FileId(file.ino)));
    }

    fn changed(&self, file: FileKey, ctime_ns: i64) {
        let file = FileId(file.ino);
        self.inform(Request::Changed { file, ctime_ns });
    }
}

impl Agent {
    /// A question about several files as one about each: it may wait, and who asks may be awaited.
    fn leave_each(
        &self,
        mut files: Vec<FileKey>,
        mut so_far: Vec<AttributesLeave>,
        done: Done<Vec<AttributesLeave>>,
    ) {
        if files.is_empty() {
            return done(Outcome::Serve(so_far));
        }
        let (first, agent) = (files.remove(0), self.this.clone());
        let next = move |outcome| {
            if let Outcome::Serve(leaves) = outcome {
                so_far.extend::<Vec<AttributesLeave>>(leaves);
            }
            // Not under the lock.
            thread::spawn(move || {
                let agent = agent.upgrade().expect("the world lives");
                agent.leave_each(files, so_far, done);
            });
        };
        let request = Request::Leave(ids(&[first]));
        self.submit(Waiting::Leave(Box::new(next)), request);
    }
}
