//! The store gives the number of a file that is gone to another. Nothing that was known of the first counts for that.

use hearth_proto::msg::{Body, Envelope, HomeMap, Origin, Service, Use};
use hearth_proto::{
    Buf, Config, Effect, FileId, Gen, Handle, Input, Node, NodeId, OpenRequest, Outbox, Reply,
    ReqId, Request, Semantics, Stamp, StoreOk, Ticket, Time, Ver,
};

const FILE: FileId = FileId(7);
const ME: NodeId = NodeId(0);
const PEER: NodeId = NodeId(1);

/// One node. Its store answers at once, others answer when they are told to.
struct Rig {
    node: Node,
    asked: Vec<Envelope>,
    /// Requests that are done on the store.
    direct: Vec<Ticket>,
    replies: Vec<(Ticket, Reply)>,
}

impl Rig {
    fn new(nodes: u32) -> Rig {
        Rig {
            node: Node::new(Config::new(ME, nodes)),
            asked: Vec::new(),
            direct: Vec::new(),
            replies: Vec::new(),
        }
    }

    fn give(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let mut out = Outbox::new();
            self.node.step(Time(1_000_000_000), input, &mut out);
            for effect in out {
                match effect {
                    Effect::Send { envelope, .. } => self.asked.push(envelope),
                    Effect::Reply { ticket, reply } => self.replies.push((ticket, reply)),
                    Effect::Revoke { id, .. } => inputs.push(Input::Revoked(id)),
                    Effect::Direct { ticket, .. } => self.direct.push(ticket),
                    Effect::StoreSync { op, .. } => {
                        let (bytes, stamp) = (0, Stamp::default());
                        inputs.push(Input::StoreDone(op, Ok(StoreOk { bytes, stamp })));
                    }
                    _ => {}
                }
            }
        }
    }

    fn request(&mut self, ticket: u64, request: Request) {
        self.give(Input::Request(Ticket(ticket), request));
    }

    fn open(&mut self, ticket: u64, file: FileId, (ctime_ns, size): (i64, u64), write: bool) {
        let (mtime_ns, private, semantics) = (0, false, Semantics::Job);
        let stamp = Stamp {
            ctime_ns,
            mtime_ns,
            size,
        };
        let open = OpenRequest {
            view: hearth_proto::View(1),
            file,
            write,
            stamp,
            private,
            semantics,
        };
        self.request(ticket, Request::Open(open));
    }

    /// The size that an open was told, once it is answered.
    fn opened(&self, ticket: u64) -> Option<u64> {
        let of = |&&(to, _): &&(Ticket, Reply)| to == Ticket(ticket);
        match self.replies.iter().find(of)?.1 {
            Reply::Opened { size, .. } => Some(size),
            ref other => panic!("an open is answered with {other:?}"),
        }
    }

    /// The peer answers the last question.
    fn answer(&mut self, generation: Gen, body: Body) {
        let asked = self.asked.last().expect("something was asked").clone();
        self.peer_says(asked, generation, body);
    }

    fn peer_says(&mut self, asked: Envelope, generation: Gen, body: Body) {
        self.peer_sends(asked, generation, body, None);
    }

    fn peer_sends(
        &mut self,
        asked: Envelope,
        generation: Gen,
        body: Body,
        data: Option<(Buf, u32)>,
    ) {
        let envelope = Envelope {
            generation,
            body,
            ..asked
        };
        self.give(Input::Message {
            from: PEER,
            envelope,
            data,
        });
    }
}

/// A node that has a file open, of 100 bytes, whose manager is the other one and whose home it is itself.
fn with_one_open() -> (Rig, FileId, Gen) {
    with_one_open_of(Semantics::Job, ME)
}

/// The same of another level, and with another home.
fn with_one_open_of(semantics: Semantics, home: NodeId) -> (Rig, FileId, Gen) {
    // A file whose registrar is the other node.
    let whois = |file: &FileId| {
        let mut rig = Rig::new(2);
        rig.open(1, *file, (1, 100), false);
        rig.asked.last().is_some_and(|to| to.body == Body::Whois)
    };
    let file = (1..).map(FileId).find(whois).expect("half of all files");
    let mut rig = Rig::new(2);
    rig.open(1, file, (1, 100), false);
    let life = Gen { life: 1, cut: 0 };
    rig.answer(Gen::default(), Body::WhoisOk(PEER));
    rig.answer(
        life,
        Body::OpenOk {
            size: 100,
            shared: false,
            homes: HomeMap::Fixed(home),
            holders: Vec::new(),
            semantics,
            version: 0,
            left: false,
            dated: false,
        },
    );
    assert_eq!(rig.opened(1), Some(100));
    (rig, file, life)
}

#[test]
fn an_open_asks_the_manager_though_questions_of_the_file_before_are_on_their_way() {
    let (mut rig, file, life) = with_one_open();
    let (node, inc, seq) = (PEER, 0, 1);
    let order = Envelope {
        req: ReqId { node, inc, seq },
        ..rig.asked.last().expect("the open").clone()
    };
    let (size, service) = (u64::MAX, Service::Store);
    rig.peer_says(order, life, Body::Forget { size, service });
    // Another rename found the file at the name that it replaces.
    rig.request(2, Request::Detach(file));
    rig.request(1, Request::Close(Handle(1)));
    rig.open(3, file, (2, 0), false);
    assert_eq!(rig.opened(3), None, "nobody was asked");
}

#[test]
fn who_opens_a_file_whose_manager_is_gone_reads_it_as_the_store_has_it() {
    let (mut rig, file, _) = with_one_open();
    rig.request(1, Request::Close(Handle(1)));
    // Another file has the number by now, and a name that leads to it is about to go.
    rig.request(2, Request::Detach(file));
    rig.give(Input::PeerDown(PEER));
    rig.open(3, file, (2, 40), false);
    assert_eq!(rig.opened(3), Some(40));
    let (handle, offset, len) = (Handle(3), 0, 200);
    let (keep, aside) = (false, false);
    rig.request(
        4,
        Request::Read {
            handle,
            offset,
            len,
            keep,
            aside,
        },
    );
    assert_eq!(rig.direct, [Ticket(4)]);
}

#[test]
fn a_file_that_nobody_knows_is_given_up_by_one_at_a_time() {
    let mut rig = Rig::new(1);
    for ticket in [1, 2] {
        rig.request(ticket, Request::Detach(FILE));
    }
    assert_eq!(rig.replies, [(Ticket(1), Reply::Done)]);
    let (file, gone) = (FILE, true);
    rig.request(3, Request::Detached { file, gone });
    assert_eq!(rig.replies.last(), Some(&(Ticket(2), Reply::Done)));
}

#[test]
fn what_an_open_of_a_file_without_a_name_was_told_does_not_count_for_the_next_of_its_number() {
    let mut rig = Rig::new(1);
    rig.request(1, Request::Detach(FILE));
    // It was found by its name before.
    rig.open(2, FILE, (1, 100), false);
    assert_eq!(rig.opened(2), None, "the name is about to go");
    let (file, gone) = (FILE, true);
    rig.request(3, Request::Detached { file, gone });
    assert_eq!(rig.opened(2), Some(100));
    rig.request(2, Request::Close(Handle(2)));
    rig.open(4, FILE, (2, 0), true);
    assert_eq!(rig.opened(4), Some(0));
}

/// A node whose copy of the one page of a file no home has recorded, and the life of that file.
fn with_one_copy() -> (Rig, Gen) {
    let (mut rig, _, life) = with_one_open_of(Semantics::Cto, PEER);
    let (handle, offset, len) = (Handle(1), 0, 100);
    let (keep, aside) = (false, false);
    let read = Request::Read {
        handle,
        offset,
        len,
        keep,
        aside,
    };
    rig.request(2, read);
    let grant = Body::Grant {
        first: 0,
        skip: 0,
        lens: vec![100],
        ver: Ver::default(),
        good: Use::Copy,
        origin: Origin::Memory,
    };
    let asked = rig.asked.last().expect("a read").clone();
    let data = Some((Buf(1), 100));
    rig.peer_sends(asked, life, grant, data);
    (rig, life)
}

#[test]
fn a_node_that_is_not_told_of_a_file_any_more_keeps_no_copy_of_it() {
    let size = u64::MAX;
    let forget = |service| Body::Forget { size, service };
    let (still_open, closed) = (false, true);
    for (is_closed, order) in [
        (closed, Body::Recall),
        (closed, forget(Service::Store)),
        (still_open, forget(Service::Store)),
    ] {
        let (mut rig, life) = with_one_copy();
        if is_closed {
            rig.request(1, Request::Close(Handle(1)));
        }
        assert_eq!(rig.node.status().frames_used, 1, "{order:?}");
        let (node, inc, seq) = (PEER, 0, 1);
        let asked = Envelope {
            req: ReqId { node, inc, seq },
            ..rig.asked.last().expect("a close").clone()
        };
        rig.peer_says(asked, life, order);
        assert_eq!(rig.node.status().frames_used, 0);
    }
}
