//! Programs that open files of their own in one directory, write a byte and close them, again and again.
//!
//! Each asks for the attributes of its file as a FUSE mount does, and so for those of its neighbours' files, which others
//! have open now and then. Front ends let go of what they keep one after another, as a mount does. The store answers
//! whatever it is asked. Nothing fails, so nobody may wait for long.

use crate::rng::Rng;
use hearth_client::asking::{BATCH, Question};
use hearth_client::waits::{Asks, Holds};
use hearth_proto::msg::Envelope;
use hearth_proto::{
    Attributes, Buf, Config, Effect, FileId, Handle, Input, Learned, Leave, Node, NodeId,
    OpenRequest, Outbox, Policy, ReadInto, Replicas, Reply, Request, RevokeId, Semantics, Span,
    Stamp, StoreOk, StoreOpId, Ticket, Time, Wait, WriteAt,
};
use std::collections::{BTreeMap, VecDeque};

/// Names and attributes are kept for so long.
const KEPT: Span = Span(1_000_000_000);
/// A question is not open for longer.
const ANSWERED: Span = Span(1_000_000_000);
/// Nobody keeps names for long in a directory where files are made; here there is one.
const DIRECTORY: u64 = 1;

/// The herd that is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Openers {
    /// Nodes.
    pub nodes: u32,
    /// Programs of each.
    pub programs: u32,
    /// How often each opens its file.
    pub rounds: u32,
    /// Of all nodes.
    pub policy: Policy,
    /// Under policy `local`.
    pub replicas: Replicas,
    /// Tells times, and numbers of inodes, apart.
    pub seed: u64,
}

/// The work that a program is at.
#[derive(Debug)]
enum Phase {
    Rests,
    Names,
    /// Names are read under this number.
    Lists(u64),
    /// Leave was asked for along with names, under that number.
    Along(u64, Vec<FileId>),
    Leaves(Question, Vec<FileId>),
    /// Reads these; then it goes on as after this question, of which the first was to come later or not.
    Reads(Vec<Learned>, Next),
    Opens,
    Writes(Handle),
    Flushes(Handle),
    Over,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    /// Tells the directory's attributes.
    Names(u64),
    Question(Question, bool),
}

struct Program {
    node: usize,
    own: FileId,
    phase: Phase,
    holds: Holds,
    since: Time,
    left: u32,
}

struct Host {
    node: Node,
    tickets: u64,
    waiting: BTreeMap<Ticket, usize>,
    kept: BTreeMap<FileId, Time>,
    /// Orders to let go of something, one after another.
    orders: VecDeque<RevokeId>,
    ticks: Option<Time>,
    arrived: BTreeMap<NodeId, Time>,
}

#[derive(Debug)]
enum What {
    Arrives(NodeId, Envelope, Option<(Buf, u32)>),
    Stored(StoreOpId, u32),
    LetsGo,
    GoesOn(usize),
    Tick,
}

struct Yard {
    now: Time,
    hosts: Vec<Host>,
    programs: Vec<Program>,
    events: BTreeMap<(Time, u64), (usize, What)>,
    made: u64,
    stamps: BTreeMap<FileId, i64>,
    rng: Rng,
    /// Programs rest for up to so long.
    rest: Span,
    wrong: Vec<String>,
}

/// Runs it; says what was wrong.
pub fn run_openers(shape: &Openers) -> Vec<String> {
    let mut yard = Yard::new(*shape);
    for program in 0..yard.programs.len() {
        yard.later(program, Span::secs(1));
    }
    while let Some(((at, _), (node, what))) = yard.events.pop_first() {
        yard.now = at;
        yard.happens(node, what);
        yard.look_for_waits();
        if !yard.wrong.is_empty() || yard.programs.iter().all(|one| one.left == 0) {
            return yard.wrong;
        }
    }
    vec!["nothing happens any more".to_owned()]
}

impl Yard {
    fn new(shape: Openers) -> Yard {
        let mut rng = Rng::new(shape.seed, 2);
        let first = DIRECTORY + 1 + rng.below(1 << 20);
        let config = |me: u32| Config {
            policy: shape.policy,
            replicas: shape.replicas,
            frames: 64,
            ..Config::new(NodeId(me), shape.nodes)
        };
        let host = |me| Host {
            node: Node::new(config(me)),
            tickets: 0,
            waiting: BTreeMap::new(),
            kept: BTreeMap::new(),
            orders: VecDeque::new(),
            ticks: None,
            arrived: BTreeMap::new(),
        };
        let program = |number: u32| Program {
            node: (number % shape.nodes) as usize,
            own: FileId(first + u64::from(number)),
            phase: Phase::Rests,
            holds: Holds::default(),
            since: Time(0),
            left: shape.rounds,
        };
        Yard {
            now: Time(1_000_000_000),
            hosts: (0..shape.nodes).map(host).collect(),
            programs: (0..shape.nodes * shape.programs).map(program).collect(),
            events: BTreeMap::new(),
            made: 0,
            stamps: BTreeMap::new(),
            rest: Span([1_000_000, 10_000_000, 100_000_000][(shape.seed % 3) as usize]),
            rng,
            wrong: Vec::new(),
        }
    }

    fn at(&mut self, at: Time, node: usize, what: What) {
        self.made += 1;
        self.events.insert((at, self.made), (node, what));
    }

    fn soon(&mut self, node: usize, span: u64, what: What) {
        let at = self.now + Span(1 + self.rng.below(span));
        self.at(at, node, what);
    }

    fn later(&mut self, program: usize, span: Span) {
        let node = self.programs[program].node;
        self.soon(node, span.0, What::GoesOn(program));
    }

    fn happens(&mut self, node: usize, what: What) {
        match what {
            What::Arrives(from, envelope, data) => {
                let input = Input::Message {
                    from,
                    envelope,
                    data,
                };
                self.step(node, input);
            }
            What::Stored(op, bytes) => {
                let stamp = Stamp {
                    ctime_ns: self.now.0.cast_signed(),
                    ..Stamp::default()
                };
                self.step(node, Input::StoreDone(op, Ok(StoreOk { bytes, stamp })));
            }
            What::LetsGo => {
                if let Some(id) = self.hosts[node].orders.pop_front() {
                    self.step(node, Input::Revoked(id));
                }
                if !self.hosts[node].orders.is_empty() {
                    self.soon(node, 300_000, What::LetsGo);
                }
            }
            What::Tick => {
                self.hosts[node].ticks = None;
                self.step(node, Input::Tick);
            }
            What::GoesOn(program) => self.go_on(program),
        }
    }

    fn step(&mut self, node: usize, input: Input) {
        let mut out = Outbox::new();
        self.hosts[node].node.step(self.now, input, &mut out);
        for effect in out {
            self.carry_out(node, effect);
        }
        let due = self.hosts[node].node.deadline();
        if let Some(due) = due.filter(|due| self.hosts[node].ticks.is_none_or(|at| *due < at)) {
            self.hosts[node].ticks = Some(due);
            self.at(due.max(self.now), node, What::Tick);
        }
    }

    fn carry_out(&mut self, node: usize, effect: Effect) {
        match effect {
            Effect::Send { to, envelope, data } => {
                let bytes = data.iter().map(|piece| piece.len).sum();
                self.made += 1;
                let data = (bytes > 0).then_some((Buf(self.made << 32), bytes));
                let arrival = self.now + Span(20_000 + self.rng.below(400_000));
                let last = self.hosts[node].arrived.entry(to).or_insert(arrival);
                *last = arrival.max(*last);
                let (at, from) = (*last, NodeId(node as u32));
                self.at(at, to.0 as usize, What::Arrives(from, envelope, data));
            }
            Effect::Reply { ticket, reply } => {
                if let Some(program) = self.hosts[node].waiting.remove(&ticket) {
                    self.answered(program, reply);
                }
            }
            Effect::Revoke { id, file, .. } => {
                let host = &mut self.hosts[node];
                host.kept.remove(&file);
                host.orders.push_back(id);
                if host.orders.len() == 1 {
                    self.soon(node, 300_000, What::LetsGo);
                }
            }
            Effect::StoreRead { op, into, .. } => {
                let bytes = match into {
                    ReadInto::Frames(_) | ReadInto::Buf(..) => 0,
                };
                self.soon(node, 900_000, What::Stored(op, bytes));
            }
            Effect::StoreWrite { op, .. }
            | Effect::StorePieces { op, .. }
            | Effect::StoreThrough { op, .. }
            | Effect::StoreSync { op, .. } => self.soon(node, 900_000, What::Stored(op, 0)),
            Effect::Direct { ticket } => {
                if let Some(program) = self.hosts[node].waiting.remove(&ticket) {
                    self.later(program, Span(900_000));
                }
            }
            Effect::Disconnect { .. } | Effect::Alarm(_) => {
                self.wrong.push(format!("node {node}: {effect:?}"));
            }
            _ => {}
        }
    }

    fn request(&mut self, program: usize, request: Request) {
        let node = self.programs[program].node;
        let host = &mut self.hosts[node];
        host.tickets += 1;
        let ticket = Ticket(host.tickets);
        host.waiting.insert(ticket, program);
        self.programs[program].since = self.now;
        self.step(node, Input::Request(ticket, request));
    }

    fn tell(&mut self, program: usize, request: Request) {
        let node = self.programs[program].node;
        self.hosts[node].tickets += 1;
        let ticket = Ticket(self.hosts[node].tickets);
        self.step(node, Input::Request(ticket, request));
    }

    /// It may ask that now.
    fn check(&mut self, program: usize, asks: Asks) {
        if let Some(why) = self.programs[program].holds.forbids(asks) {
            self.wrong
                .push(format!("program {program} asks {asks:?}: {why}"));
        }
    }

    fn has(&self, program: usize, file: FileId) -> bool {
        let host = &self.hosts[self.programs[program].node];
        let until = host.kept.get(&file);
        until.is_some_and(|until| self.now < *until)
    }

    fn keep(&mut self, program: usize, file: FileId) {
        let until = self.now + KEPT;
        let node = self.programs[program].node;
        self.hosts[node].kept.insert(file, until);
    }

    /// The program does the next step.
    fn go_on(&mut self, program: usize) {
        match std::mem::replace(&mut self.programs[program].phase, Phase::Rests) {
            Phase::Rests => self.look_up(program),
            Phase::Lists(number) => self.ask_along(program, number),
            Phase::Reads(learned, next) => self.tell_read(program, learned, next),
            Phase::Over => self.rest(program),
            // The store did it.
            Phase::Writes(handle) => self.flush(program, handle),
            Phase::Flushes(handle) => self.close(program, handle),
            phase => self
                .wrong
                .push(format!("program {program} goes on in {phase:?}")),
        }
    }

    fn look_up(&mut self, program: usize) {
        if !self.has(program, FileId(DIRECTORY)) {
            self.check(program, Asks::Names);
            self.programs[program].phase = Phase::Names;
            return self.request(program, Request::Names(FileId(DIRECTORY)));
        }
        self.look(program);
    }

    fn look(&mut self, program: usize) {
        match self.has(program, self.programs[program].own) {
            true => self.open(program),
            false => {
                let is_shared = self.rng.chance(20);
                self.question(program, Question::first(is_shared));
            }
        }
    }

    /// The wanted file, and others behind it and round to it.
    fn unread(&self, program: usize) -> Vec<FileId> {
        let all = self.programs.len();
        let place = |at: usize| self.programs[(program + at) % all].own;
        let files = (0..all).map(place);
        files.filter(|&file| !self.has(program, file)).collect()
    }

    fn question(&mut self, program: usize, question: Question) {
        let mut files = self.unread(program);
        let own = self.programs[program].own;
        if files.first() != Some(&own) {
            return self.open(program);
        }
        match question {
            Question::Alone => files.truncate(1),
            Question::Own => files.retain(|file| file.0 % 2 == own.0 % 2),
            Question::Near | Question::Awaited | Question::Unread => files.truncate(BATCH),
        }
        let (asks, request) = match question {
            Question::Awaited => (Asks::Read, Request::Await(files.clone())),
            _ if files.len() == 1 => (Asks::Read, Request::Leave(files.clone())),
            _ => (Asks::AtOnce, Request::Leave(files.clone())),
        };
        self.check(program, asks);
        self.programs[program].phase = Phase::Leaves(question, files);
        self.request(program, request);
    }

    fn ask_along(&mut self, program: usize, number: u64) {
        let files = self.unread(program);
        if files.len() < 2 {
            return self.told_names(program, number, Vec::new());
        }
        self.check(program, Asks::AtOnce);
        self.programs[program].phase = Phase::Along(number, files.clone());
        self.request(program, Request::Leave(files));
    }

    /// Others are told the names; then it reads the files.
    fn told_names(&mut self, program: usize, number: u64, reads: Vec<Learned>) {
        let names = self.programs.iter().map(|one| {
            let name = format!("{:08}", one.own.0).into_bytes();
            (name, one.own)
        });
        let listed = Request::Listed {
            dir: FileId(DIRECTORY),
            number,
            first: 0,
            names: Some(names.collect()),
            more: false,
        };
        self.tell(program, listed);
        self.read(program, reads, Next::Names(number));
    }

    fn read(&mut self, program: usize, reads: Vec<Learned>, next: Next) {
        let span = Span(1 + 900_000 * reads.len() as u64);
        self.programs[program].holds.given_files(reads.len());
        self.programs[program].phase = Phase::Reads(reads, next);
        self.later(program, span);
    }

    fn tell_read(&mut self, program: usize, learned: Vec<Learned>, next: Next) {
        for one in &learned {
            self.keep(program, one.file);
        }
        self.programs[program].holds.told_files(learned.len());
        if !learned.is_empty() {
            self.tell(program, Request::Learned(learned));
        }
        match next {
            Next::Names(number) => {
                let file = FileId(DIRECTORY);
                let attributes = Some(attributes(0));
                let one = Learned {
                    file,
                    number,
                    attributes,
                };
                self.keep(program, file);
                self.programs[program].holds.told_names();
                self.tell(program, Request::Learned(vec![one]));
                self.look(program);
            }
            Next::Question(question, later) => match question.next(later) {
                Some(question) => self.question(program, question),
                None => self.open(program),
            },
        }
    }

    fn open(&mut self, program: usize) {
        let file = self.programs[program].own;
        let stamp = Stamp {
            ctime_ns: self.stamps.get(&file).copied().unwrap_or(1),
            ..Stamp::default()
        };
        self.programs[program].phase = Phase::Opens;
        self.request(
            program,
            Request::Open(OpenRequest {
                view: hearth_proto::View(1),
                file,
                write: true,
                stamp,
                private: false,
                semantics: Semantics::Posix,
            }),
        );
    }

    fn flush(&mut self, program: usize, handle: Handle) {
        self.programs[program].phase = Phase::Flushes(handle);
        self.request(program, Request::Flush(handle));
    }

    fn close(&mut self, program: usize, handle: Handle) {
        self.tell(program, Request::Close(handle));
        self.programs[program].phase = Phase::Over;
        self.later(program, Span(1));
    }

    fn rest(&mut self, program: usize) {
        let left = &mut self.programs[program].left;
        *left = left.saturating_sub(1);
        let span = match self.rng.chance(10) {
            true => KEPT,
            false => self.rest,
        };
        self.later(program, span);
    }

    fn answered(&mut self, program: usize, reply: Reply) {
        let phase = std::mem::replace(&mut self.programs[program].phase, Phase::Rests);
        match (phase, reply) {
            (Phase::Names, Reply::Names { leave, .. }) => self.named(program, leave),
            (Phase::Along(number, files), Reply::Leaves(leaves)) => {
                let reads = self.reads(program, &files, &leaves);
                self.told_names(program, number, reads);
            }
            (Phase::Leaves(question, files), Reply::Leaves(leaves)) => {
                let reads = self.reads(program, &files, &leaves);
                let later = leaves.first() == Some(&Leave::Later);
                self.read(program, reads, Next::Question(question, later));
            }
            (Phase::Opens, Reply::Opened { handle, .. }) => {
                self.programs[program].phase = Phase::Writes(handle);
                self.made += 1;
                let request = Request::Write {
                    handle,
                    at: WriteAt::Offset(0),
                    buf: Buf(self.made << 32),
                    len: 1,
                    mtime_ns: self.now.0.cast_signed(),
                    aside: false,
                };
                self.request(program, request);
            }
            (Phase::Writes(handle), Reply::Written { .. }) => self.flush(program, handle),
            (Phase::Flushes(handle), Reply::Done) => self.close(program, handle),
            (phase, reply) => self
                .wrong
                .push(format!("program {program}: {reply:?} in {phase:?}")),
        }
    }

    fn named(&mut self, program: usize, leave: Leave) {
        match leave {
            Leave::Read { number, .. } => {
                self.programs[program].holds.given_names();
                self.programs[program].phase = Phase::Lists(number);
                self.later(program, Span(900_000));
            }
            Leave::Known(_) => {
                self.keep(program, FileId(DIRECTORY));
                self.look(program);
            }
            // The store is asked.
            Leave::No | Leave::Later | Leave::Once(_) => self.open(program),
        }
    }

    /// The attributes that it is to read of files that it asked for; those that are known are kept.
    fn reads(&mut self, program: usize, files: &[FileId], leaves: &[Leave]) -> Vec<Learned> {
        let mut reads = Vec::new();
        for (&file, leave) in files.iter().zip(leaves) {
            match *leave {
                Leave::Known(_) => self.keep(program, file),
                Leave::Read { number, floor_ns } => reads.push(Learned {
                    file,
                    number,
                    attributes: Some(attributes(floor_ns)),
                }),
                Leave::No | Leave::Later | Leave::Once(_) => {}
            }
        }
        reads
    }

    /// Nobody waits for long.
    fn look_for_waits(&mut self) {
        let waits = |one: &&Program| {
            let rests = matches!(one.phase, Phase::Rests | Phase::Over);
            !rests && one.left > 0 && one.since + ANSWERED < self.now
        };
        let Some(one) = self.programs.iter().find(waits) else {
            return;
        };
        let mut wrong = vec![format!("node {} waits: {:?}", one.node, one.phase)];
        let hosts = self.hosts.iter();
        wrong.extend(
            hosts
                .flat_map(|host| host.node.waits())
                .map(|wait: Wait| wait.to_string()),
        );
        self.wrong.extend(wrong);
    }
}

fn attributes(ctime_ns: i64) -> Attributes {
    Attributes {
        links: 1,
        ctime_ns,
        ..Attributes::default()
    }
}
