//! The kernel's cost per input does not grow with how much there is of anything.
//!
//! Each case makes something sixteen times as many and measures the processor time of this thread for one
//! input. A loop over all of it for each input would make that sixteen times as long; a sorted map makes it
//! half as long again. Times are the least of a few tries, as caches and hosts disturb them.

use hearth_proto::msg::{Body, Envelope, Goal};
use hearth_proto::{
    Buf, Config, Effect, FileId, Gen, Handle, Input, Node, NodeId, OpenRequest, Outbox, ReadInto,
    Reply, ReqId, Request, Semantics, Stamp, StoreOk, Ticket, Time, View, WriteAt,
};
use std::collections::VecDeque;

const FILE: FileId = FileId(7);
const PAGE: u64 = 256 << 10;

/// Sixteen times as many may cost so many times as much for each.
const GROWTH_MAX: f64 = 5.0;
const TRIES: usize = 6;

/// One node with a store that answers at once, unless it is told to wait.
struct Rig {
    node: Node,
    now: Time,
    names: u64,
    inbox: VecDeque<Input>,
    /// Questions to others that they owe an answer.
    asked: Vec<(NodeId, Envelope)>,
    replies: usize,
    waits: bool,
    held: VecDeque<Input>,
}

impl Rig {
    fn new(nodes: u32, frames: u32) -> Rig {
        let config = Config {
            frames,
            ..Config::new(NodeId(0), nodes)
        };
        Rig {
            node: Node::new(config),
            now: Time(1_000_000_000),
            names: 0,
            inbox: VecDeque::new(),
            asked: Vec::new(),
            replies: 0,
            waits: false,
            held: VecDeque::new(),
        }
    }

    fn name(&mut self) -> u64 {
        self.names += 1;
        self.names
    }

    fn give(&mut self, input: Input) {
        self.inbox.push_back(input);
        while let Some(input) = self.inbox.pop_front() {
            let mut out = Outbox::new();
            self.node.step(self.now, input, &mut out);
            for effect in out {
                self.carry(effect);
            }
            let due = self.node.deadline().is_some_and(|due| due <= self.now);
            if due && self.inbox.is_empty() {
                self.inbox.push_back(Input::Tick);
            }
        }
    }

    fn carry(&mut self, effect: Effect) {
        let done = match effect {
            Effect::StoreWrite { op, .. } | Effect::StorePieces { op, .. } => (op, 0),
            Effect::StoreSync { op, .. } => (op, 0),
            Effect::StoreRead { op, into, .. } => match into {
                ReadInto::Frames(pieces) => (op, pieces.iter().map(|piece| piece.len).sum()),
                ReadInto::Buf(_, len) => (op, len),
            },
            Effect::Send { to, envelope, .. } => return self.asked.push((to, envelope)),
            Effect::Reply { reply, .. } => {
                assert!(!matches!(reply, Reply::Failed(_)), "{reply:?}");
                self.replies += 1;
                return;
            }
            Effect::Revoke { id, .. } => return self.inbox.push_back(Input::Revoked(id)),
            _ => return,
        };
        let (op, bytes) = done;
        let ok = StoreOk {
            bytes,
            stamp: Stamp::default(),
        };
        match self.waits {
            true => self.held.push_back(Input::StoreDone(op, Ok(ok))),
            false => self.inbox.push_back(Input::StoreDone(op, Ok(ok))),
        }
    }

    /// The store answers what it was asked.
    fn release(&mut self) {
        self.waits = false;
        while let Some(input) = self.held.pop_front() {
            self.give(input);
        }
    }

    fn open(&mut self, write: bool) -> Handle {
        let ticket = Ticket(self.name());
        let stamp = Stamp {
            size: 1 << 40,
            ..Stamp::default()
        };
        let open = OpenRequest {
            view: hearth_proto::View(1),
            file: FILE,
            write,
            stamp,
            private: false,
            semantics: Semantics::Posix,
        };
        self.give(Input::Request(ticket, Request::Open(open)));
        Handle(ticket.0)
    }

    fn write(&mut self, handle: Handle, offset: u64, len: u32) {
        let (ticket, buf) = (Ticket(self.name()), Buf(self.name()));
        let write = Request::Write {
            handle,
            at: WriteAt::Offset(offset),
            buf,
            len,
            mtime_ns: 0,
            aside: false,
        };
        self.give(Input::Request(ticket, write));
    }

    fn request(&mut self, request: Request) {
        let ticket = Ticket(self.name());
        self.give(Input::Request(ticket, request));
    }

    /// A peer asks, or tells.
    fn hear(&mut self, from: NodeId, body: Body, data: Option<(Buf, u32)>) {
        let req = ReqId {
            node: from,
            inc: 1,
            seq: self.name(),
        };
        self.answer(from, req, body, data);
    }

    fn answer(&mut self, from: NodeId, req: ReqId, body: Body, data: Option<(Buf, u32)>) {
        let envelope = Envelope {
            view: View(1),
            file: FILE,
            generation: Gen::default(),
            req,
            body,
        };
        self.give(Input::Message {
            from,
            envelope,
            data,
        });
    }

    fn read_by(&mut self, from: NodeId, page: u64) {
        let read = Body::Read {
            first: page,
            count: 1,
            keep: true,
            record: true,
            aside: false,
            skip: 0,
            spare: 0,
            here: false,
        };
        self.hear(from, read, None);
    }

    fn write_by(&mut self, from: NodeId, page: u64) {
        let write = Body::Write {
            offset: page * PAGE,
            len: 8,
            dropped: true,
            record: true,
            alone: false,
            aside: false,
        };
        let buf = Buf(self.name());
        self.hear(from, write, Some((buf, 8)));
    }

    /// Everybody who was told to drop a copy has.
    fn drop_copies(&mut self) -> usize {
        let asked = std::mem::take(&mut self.asked);
        let told = asked
            .into_iter()
            .filter(|(_, envelope)| matches!(envelope.body, Body::Inval { .. }));
        let told: Vec<_> = told.collect();
        for (node, envelope) in &told {
            self.answer(*node, envelope.req, Body::InvalOk, None);
        }
        told.len()
    }
}

/// Nanoseconds for which this thread has had a processor; giving that away brings the count up to date.
fn spent() -> u64 {
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    let first = text.split(' ').next().expect("a count");
    first.parse().expect("a count of nanoseconds")
}

/// Cost of one of `count`, the least of a few tries.
fn cost(count: u64, case: &impl Fn(u64)) -> f64 {
    let measure = || {
        let before = spent();
        case(count);
        (spent() - before) as f64 / count as f64
    };
    (0..3).map(|_| measure()).fold(f64::MAX, f64::min)
}

fn grows_little(what: &str, few: u64, case: impl Fn(u64)) {
    case(few);
    let mut least = f64::MAX;
    for _ in 0..TRIES {
        least = least.min(cost(few * 16, &case) / cost(few, &case));
        if least <= GROWTH_MAX {
            return;
        }
    }
    panic!("{what}: sixteen times as many cost {least:.1} times as much each");
}

fn pieces_flushed(count: u64, at: impl Fn(u64) -> u64) {
    let mut rig = Rig::new(1, 64);
    let handle = rig.open(true);
    for piece in 0..count {
        rig.write(handle, at(piece), 4);
    }
    rig.request(Request::Sync(handle));
    assert_eq!(rig.node.status().dirty_bytes, 0);
    assert_eq!(rig.replies as u64, count + 2);
}

#[test]
fn pieces_of_a_page() {
    grows_little("pieces", 1000, |count| {
        pieces_flushed(count, |piece| piece * 8)
    });
}

#[test]
fn pieces_of_a_page_from_the_end() {
    grows_little("pieces from the end", 1000, |count| {
        pieces_flushed(count, |piece| (count - piece) * 8);
    });
}

#[test]
fn pages_of_a_file() {
    grows_little("pages", 512, |count| {
        let mut rig = Rig::new(1, 4 * count as u32);
        let handle = rig.open(true);
        for page in 0..count {
            rig.write(handle, page * PAGE, 4);
        }
        rig.request(Request::Sync(handle));
        assert_eq!(rig.node.status().dirty_bytes, 0);
    });
}

#[test]
fn pages_that_the_store_brings() {
    grows_little("pages read", 512, |count| {
        let mut rig = Rig::new(2, 4 * count as u32);
        for page in 0..count {
            rig.read_by(NodeId(1), page * 3);
        }
    });
}

#[test]
fn readers_of_a_page() {
    grows_little("readers", 64, |count| {
        let mut rig = Rig::new(count as u32 + 1, 64);
        for reader in 1..=count {
            rig.read_by(NodeId(reader as u32), 0);
        }
        rig.asked.clear();
        rig.write_by(NodeId(1), 0);
        assert_eq!(rig.drop_copies() as u64, count - 1);
    });
}

#[test]
fn handles_of_a_file() {
    grows_little("handles", 512, |count| {
        let mut rig = Rig::new(1, 64);
        let handles: Vec<Handle> = (0..count).map(|_| rig.open(true)).collect();
        for handle in handles {
            rig.write(handle, 0, 4);
            rig.request(Request::Flush(handle));
            rig.request(Request::Close(handle));
        }
    });
}

#[test]
fn reads_that_wait_for_a_page() {
    grows_little("waiting reads", 256, |count| {
        let mut rig = Rig::new(64, 64);
        rig.waits = true;
        for ask in 0..count {
            rig.read_by(NodeId(1 + (ask % 63) as u32), 0);
        }
        rig.release();
        assert_eq!(rig.asked.len() as u64, count);
    });
}

#[test]
fn writes_that_wait_for_a_page() {
    grows_little("waiting writes", 256, |count| {
        let mut rig = Rig::new(64, 64);
        rig.waits = true;
        rig.read_by(NodeId(1), 0);
        for ask in 0..count {
            rig.write_by(NodeId(2 + (ask % 62) as u32), 0);
        }
        rig.release();
        rig.drop_copies();
        let answers = rig.asked.iter();
        let written = answers.filter(|(_, answer)| answer.body == Body::WriteOk);
        assert_eq!(written.count() as u64, count);
    });
}

#[test]
fn flushes_that_wait() {
    grows_little("waiting flushes", 256, |count| {
        let mut rig = Rig::new(64, 64);
        rig.waits = true;
        rig.write_by(NodeId(1), 0);
        for ask in 0..count {
            rig.hear(NodeId(1 + (ask % 63) as u32), Body::Flush(Goal::All), None);
        }
        rig.release();
    });
}
