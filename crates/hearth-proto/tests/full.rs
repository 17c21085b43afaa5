//! A store that takes no bytes. Nobody waits for it without end: writes fail, and files that it has are read.

use hearth_proto::{
    Buf, Config, Effect, FileId, Handle, Input, Node, NodeId, OpenRequest, Outbox, ReadInto, Reply,
    Request, Semantics, Stamp, StoreOk, Ticket, Time, WriteAt, errno,
};
use std::collections::VecDeque;

const FRAMES: u32 = 64;
const PAGE: u32 = 256 << 10;
/// A piece of a page, as small files have.
const PIECE: u32 = 4 << 10;

/// One node whose store refuses all writes.
struct Rig {
    node: Node,
    now: Time,
    names: u64,
    replies: Vec<(Ticket, Reply)>,
}

impl Rig {
    fn new() -> Rig {
        let config = Config {
            frames: FRAMES,
            page_bytes: PAGE,
            ..Config::new(NodeId(0), 1)
        };
        Rig {
            node: Node::new(config),
            now: Time(1_000_000_000),
            names: 0,
            replies: Vec::new(),
        }
    }

    fn name(&mut self) -> u64 {
        self.names += 1;
        self.names
    }

    /// Gives a request, and lets a minute go by.
    fn request(&mut self, request: Request) -> Ticket {
        let ticket = Ticket(self.name());
        self.give(Input::Request(ticket, request));
        let end = Time(self.now.0 + 60_000_000_000);
        while let Some(due) = self.node.deadline().filter(|&due| due <= end) {
            self.now = self.now.max(due);
            self.give(Input::Tick);
        }
        ticket
    }

    fn give(&mut self, input: Input) {
        let mut inbox = VecDeque::from([input]);
        while let Some(input) = inbox.pop_front() {
            let mut out = Outbox::new();
            self.node.step(self.now, input, &mut out);
            inbox.extend(out.into_iter().filter_map(|effect| self.carry(effect)));
        }
    }

    fn carry(&mut self, effect: Effect) -> Option<Input> {
        let (op, bytes) = match effect {
            Effect::StoreWrite { op, .. } | Effect::StorePieces { op, .. } => {
                return Some(Input::StoreDone(op, Err(errno::ENOSPC)));
            }
            Effect::StoreRead { op, into, .. } => match into {
                ReadInto::Frames(pieces) => (op, pieces.iter().map(|piece| piece.len).sum()),
                ReadInto::Buf(_, len) => (op, len),
            },
            Effect::StoreSync { op, .. } => (op, 0),
            Effect::Revoke { id, .. } => return Some(Input::Revoked(id)),
            Effect::Reply { ticket, reply } => {
                self.replies.push((ticket, reply));
                return None;
            }
            _ => return None,
        };
        let stamp = Stamp::default();
        Some(Input::StoreDone(op, Ok(StoreOk { bytes, stamp })))
    }

    fn open(&mut self, file: u64) -> Handle {
        let stamp = Stamp {
            size: 64 << 20,
            ..Stamp::default()
        };
        let open = OpenRequest {
            view: hearth_proto::View(1),
            file: FileId(file),
            write: true,
            stamp,
            private: false,
            semantics: Semantics::Posix,
        };
        Handle(self.request(Request::Open(open)).0)
    }

    fn write(&mut self, handle: Handle) -> Ticket {
        let buf = Buf(self.name());
        self.request(Request::Write {
            handle,
            at: WriteAt::Offset(0),
            buf,
            len: PIECE,
            mtime_ns: 0,
            aside: false,
        })
    }

    fn read(&mut self, handle: Handle, page: u32) -> Ticket {
        self.request(Request::Read {
            handle,
            offset: u64::from(page) * u64::from(PAGE),
            len: PIECE,
            keep: false,
            aside: false,
        })
    }

    fn reply_to(&self, ticket: Ticket) -> Option<&Reply> {
        let found = self.replies.iter().find(|(to, _)| *to == ticket);
        found.map(|(_, reply)| reply)
    }
}

#[test]
fn small_pieces_of_many_files_fill_no_memory_that_others_need() {
    let mut rig = Rig::new();
    let untouched = rig.open(1);
    let mut refused = 0;
    for file in 2..2 + u64::from(2 * FRAMES) {
        let handle = rig.open(file);
        let write = rig.write(handle);
        match rig.reply_to(write) {
            Some(Reply::Failed(errno::ENOSPC)) => refused += 1,
            Some(Reply::Written { .. }) => assert_eq!(refused, 0, "a later write is taken"),
            other => panic!("the write of file {file} has {other:?}"),
        }
    }
    assert!(refused >= FRAMES, "{refused} writes are refused");
    for page in 0..2 * FRAMES {
        let read = rig.read(untouched, page);
        assert!(
            rig.reply_to(read).is_some(),
            "the read of page {page} waits"
        );
    }
}
