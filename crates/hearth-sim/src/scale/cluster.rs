//! The large world at work.

use super::host::{Content, Doing, Host, List};
use super::traffic::{MessageCounts, MessageKind};
use super::{CHUNK_PAGES, PageAccess, ScaleOutcome, Shape};
use crate::rng::Rng;
use hearth_proto::bank::{BankOk, BankOp, BankOrder, Daemon, Item, Key};
use hearth_proto::msg::Envelope;
use hearth_proto::{
    Authorities, BankConfig, Config, Effect, FileId, Input, Node, NodeId, OpenRequest, Outbox,
    Piece, ReadInto, Reply, Request, Semantics, Src, Stamp, StoreOk, StoreOpId, Ticket, Time, Ver,
    WriteAt,
};
use std::collections::{BTreeMap, VecDeque};

/// Bytes of a page; only counts depend on it.
const PAGE: u32 = 256 << 10;
/// Daemons of the bank.
const DAEMONS: u32 = 4;
/// Violations that are kept; more say nothing new.
const VIOLATIONS_MAX: usize = 16;

/// Something that will happen.
enum Event {
    Arrives {
        from: u32,
        envelope: Envelope,
        data: Option<(Content, u32)>,
    },
    StoreReads(StoreOpId, usize, ReadInto),
    StoreWrites(StoreOpId, usize, Vec<Piece>),
    StoreSyncs(StoreOpId),
    /// The node's own write goes through to the store.
    StoreTakes(StoreOpId, hearth_proto::Buf),
    Direct(Ticket),
    /// An order arrives at a daemon, and its answer at the node.
    BankRuns(BankOp, Asked),
    BankTells(BankOp, Option<Option<u32>>),
    Revoked(hearth_proto::RevokeId),
    Begins,
}

/// A question or order to a daemon.
enum Asked {
    Get(Key),
    Set(Key, u32),
    Delete(Vec<Key>),
}

type Queue = VecDeque<(Time, u32, Event)>;

pub(super) struct Cluster {
    shape: Shape,
    now: Time,
    hosts: Vec<Host>,
    /// Events that happen at once, after a hop, and after a store access; each in order of time.
    soon: Queue,
    hops: Queue,
    stores: Queue,
    /// Versions of pages: given by homes, complete, in the store.
    given: Vec<u32>,
    complete: Vec<u32>,
    /// Those that were closed.
    published: Vec<u32>,
    stored: Vec<u32>,
    out: Outbox,
    counts: MessageCounts,
    opening: u64,
    payload_bytes: u64,
    events: u64,
    own_reads: u64,
    reads: u64,
    store_reads: u64,
    store_writes: u64,
    /// Entries of all daemons; keys of two never meet.
    entries: BTreeMap<Key, u32>,
    bank_orders: u64,
    ended: u64,
    began: Time,
    last: Time,
    digest: u64,
    violations: Vec<String>,
}

impl Cluster {
    pub(super) fn new(shape: Shape) -> Cluster {
        let host = |me: u32| {
            let bank = BankConfig {
                daemons: DAEMONS,
                ..BankConfig::default()
            };
            let usual = Config::new(NodeId(me), shape.nodes);
            let config = Config {
                bank,
                policy: shape.policy,
                // Pages that one home gives another are followed one at a time.
                readahead_bytes: match shape.policy.rules().authorities {
                    Authorities::Each => PAGE,
                    Authorities::Placed => usual.readahead_bytes,
                },
                // The counts are of pages that reads themselves ask for.
                ahead_bytes: 0,
                page_bytes: PAGE,
                chunk_pages: CHUNK_PAGES,
                frames: shape.frames,
                ..usual
            };
            Host::new(Node::new(config))
        };
        let pages = shape.files() as usize * shape.file_pages as usize;
        Cluster {
            now: Time(1_000_000_000),
            hosts: (0..shape.nodes).map(host).collect(),
            soon: Queue::new(),
            hops: Queue::new(),
            stores: Queue::new(),
            given: vec![0; pages],
            complete: vec![0; pages],
            published: vec![0; pages],
            stored: vec![0; pages],
            out: Outbox::new(),
            counts: MessageCounts::default(),
            opening: 0,
            payload_bytes: 0,
            events: 0,
            own_reads: 0,
            reads: 0,
            store_reads: 0,
            store_writes: 0,
            entries: BTreeMap::new(),
            bank_orders: 0,
            ended: 0,
            began: Time(0),
            last: Time(0),
            digest: 0xCBF2_9CE4_8422_2325,
            violations: Vec::new(),
            shape,
        }
    }

    /// Every node has its share of the operations, at random.
    pub(super) fn draw(&mut self) {
        let (shape, nodes) = (self.shape, u64::from(self.shape.nodes));
        for (me, host) in (0..nodes).zip(&mut self.hosts) {
            host.list = List::Drawn {
                rng: Rng::new(shape.seed, me + 16),
                left: shape.ops / nodes + u64::from(me < shape.ops % nodes),
                pages: shape.file_pages,
                write_percent: shape.write_percent,
            };
        }
    }

    /// Every node does what its list says.
    pub(super) fn follow(&mut self, lists: Vec<Vec<PageAccess>>) {
        for (host, list) in self.hosts.iter_mut().zip(lists) {
            host.list = List::Given(list.into_iter());
        }
    }

    /// Every node opens its group's file for writing.
    pub(super) fn open_all(&mut self) {
        for node in 0..self.shape.nodes {
            for daemon in (0..DAEMONS).map(Daemon) {
                self.step(node, Input::BankUp(daemon));
            }
        }
        for node in 0..self.shape.nodes {
            self.open(node);
            // One after another: each is told to those before it, as at the start of a job.
            while self.next() {}
        }
        self.opening = self.counts.total();
        self.counts = MessageCounts::default();
        self.payload_bytes = 0;
        self.began = self.now;
    }

    /// All operations, in a closed loop of every node.
    pub(super) fn work(&mut self, watch: &mut impl FnMut(u64)) {
        for node in 0..self.shape.nodes {
            self.soon.push_back((self.now, node, Event::Begins));
        }
        let mut turns = 0u64;
        while self.next() || self.wait() {
            turns += 1;
            if turns.is_multiple_of(1 << 20) {
                watch(self.ended);
                self.wake();
            }
        }
        self.last = self.now;
    }

    /// Everything to the store, and the last checks.
    pub(super) fn finish(mut self) -> ScaleOutcome {
        let took = self.last - self.began;
        let counted = self.counts;
        for node in 0..self.shape.nodes {
            let ticket = Ticket(self.hosts[node as usize].new_name());
            self.step(node, Input::Request(ticket, Request::FlushAll));
        }
        while self.next() {}
        self.check_rest();
        ScaleOutcome {
            digest: self.digest,
            messages: counted,
            opening: self.opening,
            payload_bytes: self.payload_bytes,
            events: self.events,
            own_reads: self.own_reads,
            reads: self.reads,
            store_reads: self.store_reads,
            store_writes: self.store_writes,
            bank_orders: self.bank_orders,
            took,
            violations: self.violations,
        }
    }

    fn check_rest(&mut self) {
        if self.ended != self.shape.ops {
            let what = format!("{} of {} operations ended", self.ended, self.shape.ops);
            self.violate(what);
        }
        for node in 0..self.hosts.len() {
            let host = &self.hosts[node];
            let (status, bufs) = (host.node.status(), host.buffers());
            host.node.assert_valid();
            if status.dirty_bytes > 0 || status.requests_open > 0 || bufs > 0 {
                self.violate(format!(
                    "node {node} is not at rest: {status:?}, {bufs} buffers"
                ));
            }
        }
        let late = (0..self.given.len()).find(|&page| self.stored[page] != self.given[page]);
        if let Some(page) = late {
            let (stored, given) = (self.stored[page], self.given[page]);
            self.violate(format!(
                "page {page}: the store has version {stored} of {given}"
            ));
        }
    }

    fn violate(&mut self, what: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(what);
        }
    }

    fn file_of(&self, node: u32) -> FileId {
        FileId(u64::from(node / self.shape.group) + 1)
    }

    /// First page of a file, counted through all files.
    fn base_of(&self, file: FileId) -> usize {
        (file.0 as usize - 1) * self.shape.file_pages as usize
    }

    /// Wakes nodes whose deadline has come.
    fn wake(&mut self) {
        for node in 0..self.shape.nodes {
            let due = self.hosts[node as usize].node.deadline();
            if due.is_some_and(|due| due <= self.now) {
                self.step(node, Input::Tick);
            }
        }
    }

    /// Lets time pass until a node has something to do; false if all has ended, or none ever will.
    fn wait(&mut self) -> bool {
        let due = self.hosts.iter().filter_map(|host| host.node.deadline());
        let Some(due) = due.min().filter(|_| self.ended < self.shape.ops) else {
            return false;
        };
        self.now = self.now.max(due);
        self.wake();
        let next = self.hosts.iter().filter_map(|host| host.node.deadline());
        let is_quiet = self.soon.is_empty() && self.hops.is_empty() && self.stores.is_empty();
        !is_quiet || next.min().is_some_and(|next| next > self.now)
    }

    /// The next event; false if there is none.
    fn next(&mut self) -> bool {
        let at = |queue: &Queue| queue.front().map_or(Time(u64::MAX), |&(at, ..)| at);
        let (soon, hop, store) = (at(&self.soon), at(&self.hops), at(&self.stores));
        let queue = if soon <= hop && soon <= store {
            &mut self.soon
        } else if hop <= store {
            &mut self.hops
        } else {
            &mut self.stores
        };
        let Some((at, node, event)) = queue.pop_front() else {
            return false;
        };
        self.now = at;
        self.happen(node, event);
        true
    }

    fn happen(&mut self, node: u32, event: Event) {
        match event {
            Event::Arrives {
                from,
                envelope,
                data,
            } => {
                let host = &mut self.hosts[node as usize];
                let data = data.map(|(content, len)| (host.hold(content), len));
                let from = NodeId(from);
                self.step(
                    node,
                    Input::Message {
                        from,
                        envelope,
                        data,
                    },
                );
            }
            Event::StoreReads(op, first, into) => self.store_reads(node, op, first, &into),
            Event::StoreWrites(op, first, pieces) => self.store_writes(node, op, first, &pieces),
            Event::StoreSyncs(op) => self.step(node, Input::StoreDone(op, Ok(StoreOk::default()))),
            Event::StoreTakes(op, buf) => self.store_takes(node, op, buf),
            Event::BankRuns(op, asked) => self.bank_runs(node, op, asked),
            Event::BankTells(op, found) => self.bank_tells(node, op, found),
            Event::Direct(ticket) => self.direct(node, ticket),
            Event::Revoked(id) => self.step(node, Input::Revoked(id)),
            Event::Begins => self.begin(node),
        }
    }

    fn open(&mut self, node: u32) {
        let file = self.file_of(node);
        let open = OpenRequest {
            view: hearth_proto::View(1),
            file,
            write: true,
            stamp: Stamp {
                ctime_ns: 1,
                mtime_ns: 1,
                size: u64::from(self.shape.file_pages) * u64::from(PAGE),
            },
            private: false,
            semantics: self.shape.semantics,
        };
        let base = self.base_of(file);
        let pages = base..base + self.shape.file_pages as usize;
        let host = &mut self.hosts[node as usize];
        // Of a file that is published by its lamination a node is sure of its own writes alone.
        let at_open = self.shape.semantics != Semantics::Commit;
        if at_open || host.floors.is_empty() {
            host.floors = self.published[pages].to_vec();
        }
        let ticket = Ticket(host.new_name());
        self.step(node, Input::Request(ticket, Request::Open(open)));
    }

    /// Closes the node's file if it is time to, and opens it anew.
    fn reopen(&mut self, node: u32) -> bool {
        let host = &mut self.hosts[node as usize];
        let due = self.shape.reopens.is_some_and(|ops| host.since_open >= ops);
        host.since_open = if due { 0 } else { host.since_open + 1 };
        if !due || host.list.is_empty() {
            return false;
        }
        host.opening = true;
        let (ticket, handle) = (Ticket(host.new_name()), host.handle);
        for (page, version) in std::mem::take(&mut host.wrote) {
            self.published[page] = self.published[page].max(version);
        }
        self.step(node, Input::Request(ticket, Request::Close(handle)));
        self.open(node);
        true
    }

    /// Latest version that an operation must see.
    fn floor(&self, node: u32, page: usize, write: bool) -> u32 {
        let recorded = self
            .shape
            .semantics
            .under(self.shape.policy.rules())
            .is_recorded();
        if recorded || write {
            return self.complete[page];
        }
        self.hosts[node as usize].floors[page - self.base_of(self.file_of(node))]
    }

    /// The node's session begins its next operation.
    fn begin(&mut self, node: u32) {
        if self.reopen(node) {
            return;
        }
        let base = self.base_of(self.file_of(node));
        let host = &mut self.hosts[node as usize];
        let Some(PageAccess {
            page: number,
            write,
        }) = host.list.next()
        else {
            return;
        };
        let page = base + number as usize;
        let floor = self.floor(node, page, write);
        let host = &mut self.hosts[node as usize];
        host.doing = Some(Doing { page, write, floor });
        let ticket = Ticket(host.new_name());
        let (handle, offset, len) = (host.handle, u64::from(number) * u64::from(PAGE), PAGE);
        let (ended, sent) = (self.ended, self.counts.total() + self.store_reads);
        let request = if write {
            host.given = 0;
            Request::Write {
                handle,
                at: WriteAt::Offset(offset),
                buf: host.hold(Content::Written { by: node }),
                len,
                mtime_ns: 0,
                aside: false,
            }
        } else {
            Request::Read {
                handle,
                offset,
                len,
                keep: false,
                aside: false,
            }
        };
        self.step(node, Input::Request(ticket, request));
        let is_own = self.ended > ended && self.counts.total() + self.store_reads == sent;
        self.reads += u64::from(!write);
        self.own_reads += u64::from(!write && is_own);
    }

    fn step(&mut self, node: u32, input: Input) {
        self.events += 1;
        let mut out = std::mem::take(&mut self.out);
        self.hosts[node as usize]
            .node
            .step(self.now, input, &mut out);
        self.mix(self.now.0 ^ (u64::from(node) << 40));
        for effect in out.drain(..) {
            self.carry_out(node, effect);
        }
        self.out = out;
    }

    fn mix(&mut self, value: u64) {
        self.digest = (self.digest ^ value)
            .wrapping_mul(0x0000_0100_0000_01B3)
            .rotate_left(29);
    }

    fn carry_out(&mut self, node: u32, effect: Effect) {
        match effect {
            Effect::Send { to, envelope, data } => self.send(node, to, envelope, &data),
            Effect::Fill { frame, from, .. } => self.fill(node, frame.0, &from),
            Effect::Stash { buf, data } => {
                let host = &mut self.hosts[node as usize];
                let content = data.first().and_then(|piece| host.content(piece));
                host.stash(buf, content.unwrap_or(Content::Version(0)));
            }
            Effect::Free(buf) => {
                if !self.hosts[node as usize].free(buf) {
                    self.violate(format!("node {node} frees {buf:?}, which is not there"));
                }
            }
            Effect::StoreRead {
                op,
                file,
                offset,
                into,
            } => {
                self.store_reads += 1;
                let first = self.page_at(file, offset);
                self.order(node, Event::StoreReads(op, first, into));
            }
            Effect::StoreWrite {
                op,
                file,
                offset,
                data,
            } => {
                self.store_writes += 1;
                let first = self.page_at(file, offset);
                self.order(node, Event::StoreWrites(op, first, data));
            }
            Effect::StorePieces { op, file, data } => {
                self.store_writes += 1;
                let first = self.page_at(file, data.first().map_or(0, |&(offset, _)| offset));
                let pieces = data.into_iter().map(|(_, piece)| piece).take(1).collect();
                self.order(node, Event::StoreWrites(op, first, pieces));
            }
            Effect::StoreThrough { op, buf, .. } => self.order(node, Event::StoreTakes(op, buf)),
            Effect::StoreSync { op, .. } => self.order(node, Event::StoreSyncs(op)),
            Effect::Bank { op, order, .. } => self.ask_bank(node, op, order),
            Effect::Direct { ticket } => self.order(node, Event::Direct(ticket)),
            Effect::Reply { reply, .. } => self.replied(node, &reply),
            Effect::Revoke { id, .. } => self.soon.push_back((self.now, node, Event::Revoked(id))),
            Effect::Release { .. }
            | Effect::Forgotten { .. }
            | Effect::Reopen { .. }
            | Effect::Offer { .. }
            | Effect::TakeBack { .. }
            | Effect::Refused(_) => {}
            other => self.violate(format!("node {node}: {other:?} in a world without faults")),
        }
    }

    fn page_at(&self, file: FileId, offset: u64) -> usize {
        self.base_of(file) + (offset / u64::from(PAGE)) as usize
    }

    fn order(&mut self, node: u32, event: Event) {
        let at = self.now + self.shape.store;
        self.stores.push_back((at, node, event));
    }

    fn send(&mut self, node: u32, to: NodeId, envelope: Envelope, data: &[Piece]) {
        let kind = MessageKind::of(&envelope.body);
        self.counts.add(kind);
        self.mix(kind as u64);
        let len: u32 = data.iter().map(|piece| piece.len).sum();
        self.payload_bytes += u64::from(len);
        let host = &self.hosts[node as usize];
        let content = data.first().and_then(|piece| host.content(piece));
        let event = Event::Arrives {
            from: node,
            envelope,
            data: content.map(|content| (content, len)),
        };
        self.hops
            .push_back((self.now + self.shape.hop, to.0, event));
    }

    /// A copy of a grant, or a write that its home applies: the home gives it its version.
    fn fill(&mut self, node: u32, frame: u32, from: &Piece) {
        let version = match self.hosts[node as usize].content(from) {
            Some(Content::Version(version)) => version,
            Some(Content::Written { by }) => {
                let Some(doing) = self.hosts[by as usize].doing else {
                    return self.violate(format!("node {node} applies a write that {by} ended"));
                };
                // A node that writes the page by itself from now on has it as its home has.
                let given = self.hosts[by as usize].given;
                match given > 0 && node == by {
                    true => given,
                    false => self.give(by, doing.page),
                }
            }
            None => return self.violate(format!("node {node} fills from {from:?}: not there")),
        };
        self.hosts[node as usize].frames[frame as usize] = version;
    }

    /// A write takes effect: its version.
    fn give(&mut self, by: u32, page: usize) -> u32 {
        self.given[page] += 1;
        self.hosts[by as usize].given = self.given[page];
        self.given[page]
    }

    fn store_reads(&mut self, node: u32, op: StoreOpId, first: usize, into: &ReadInto) {
        let mut bytes = 0;
        match into {
            ReadInto::Frames(pieces) => {
                for (page, piece) in (first..).zip(pieces) {
                    if let Src::Frame(frame) = piece.src {
                        self.hosts[node as usize].frames[frame.0 as usize] = self.stored[page];
                    }
                    bytes += piece.len;
                }
            }
            ReadInto::Buf(buf, len) => {
                let content = Content::Version(self.stored[first]);
                self.hosts[node as usize].stash(*buf, content);
                bytes = *len;
            }
        }
        let ok = StoreOk {
            bytes,
            ..StoreOk::default()
        };
        self.step(node, Input::StoreDone(op, Ok(ok)));
    }

    fn store_writes(&mut self, node: u32, op: StoreOpId, first: usize, pieces: &[Piece]) {
        for (page, piece) in (first..).zip(pieces) {
            match self.hosts[node as usize].content(piece) {
                Some(Content::Version(version)) => self.stored[page] = version,
                Some(Content::Written { by }) => {
                    self.given[page] += 1;
                    self.stored[page] = self.given[page];
                    self.hosts[by as usize].given = self.given[page];
                }
                None => self.violate(format!("node {node} writes {piece:?}: not there")),
            }
        }
        self.step(node, Input::StoreDone(op, Ok(StoreOk::default())));
    }

    fn store_takes(&mut self, node: u32, op: StoreOpId, buf: hearth_proto::Buf) {
        self.store_writes += 1;
        let host = &mut self.hosts[node as usize];
        let there = host.free(buf);
        match host.doing {
            Some(doing) if there => {
                self.given[doing.page] += 1;
                self.stored[doing.page] = self.given[doing.page];
                host.given = self.given[doing.page];
            }
            _ => self.violate(format!("node {node} writes {buf:?} through: not there")),
        }
        self.step(node, Input::StoreDone(op, Ok(StoreOk::default())));
    }

    fn ask_bank(&mut self, node: u32, op: BankOp, order: BankOrder) {
        self.bank_orders += 1;
        let asked = match order {
            // Operations are of one page each.
            BankOrder::Get(keys) => Asked::Get(keys[0]),
            BankOrder::Delete(keys) => Asked::Delete(keys),
            BankOrder::Set { key, data, .. } => {
                let host = &self.hosts[node as usize];
                let content = data.first().and_then(|piece| host.content(piece));
                match content {
                    Some(Content::Version(version)) => Asked::Set(key, version),
                    other => return self.violate(format!("a daemon is given {other:?}")),
                }
            }
            BankOrder::Look(_) | BankOrder::Tell { .. } => {
                return self.violate("nobody looks at attributes here".to_owned());
            }
        };
        let at = self.now + self.shape.hop;
        self.hops.push_back((at, node, Event::BankRuns(op, asked)));
    }

    fn bank_runs(&mut self, node: u32, op: BankOp, asked: Asked) {
        let found = match asked {
            Asked::Get(key) => Some(self.entries.get(&key).copied()),
            Asked::Set(key, version) => {
                self.entries.insert(key, version);
                None
            }
            Asked::Delete(keys) => {
                for key in keys {
                    self.entries.remove(&key);
                }
                None
            }
        };
        let at = self.now + self.shape.hop;
        self.hops.push_back((at, node, Event::BankTells(op, found)));
    }

    fn bank_tells(&mut self, node: u32, op: BankOp, found: Option<Option<u32>>) {
        let ok = match found {
            None => BankOk::Done,
            Some(found) => {
                let host = &mut self.hosts[node as usize];
                let data = found.map(|version| (host.hold(Content::Version(version)), PAGE));
                let item = |_| Item {
                    ver: Ver::default(),
                    len: PAGE,
                };
                let items = vec![found.map(item)];
                BankOk::Found { items, data }
            }
        };
        self.step(node, Input::BankDone(op, Ok(ok)));
    }

    /// The session's own operation on the store.
    fn direct(&mut self, node: u32, _: Ticket) {
        let Some(doing) = self.hosts[node as usize].doing else {
            return;
        };
        let version = if doing.write {
            self.store_writes += 1;
            self.given[doing.page] += 1;
            self.stored[doing.page] = self.given[doing.page];
            // The driver held the bytes of the session, and lets go of them.
            self.hosts[node as usize].let_go_of_writes();
            self.stored[doing.page]
        } else {
            self.store_reads += 1;
            self.stored[doing.page]
        };
        self.end(node, doing, version);
    }

    fn replied(&mut self, node: u32, reply: &Reply) {
        let host = &mut self.hosts[node as usize];
        match (reply, host.doing) {
            (Reply::Opened { handle, .. }, _) => {
                host.handle = *handle;
                if std::mem::take(&mut host.opening) {
                    self.soon.push_back((self.now, node, Event::Begins));
                }
            }
            (Reply::Data(pieces), Some(doing)) => {
                let content = pieces.first().and_then(|piece| host.content(piece));
                match content {
                    Some(Content::Version(version)) => self.end(node, doing, version),
                    other => self.violate(format!("node {node} is given {other:?}")),
                }
            }
            (Reply::Written { .. }, Some(doing)) => {
                let given = host.given;
                self.end(node, doing, given);
            }
            (reply, _) => self.violate(format!("node {node} is told {reply:?}")),
        }
    }

    /// An operation has ended with a version of its page.
    fn end(&mut self, node: u32, doing: Doing, version: u32) {
        let stale = if doing.write {
            version <= doing.floor
        } else {
            version < doing.floor
        };
        if stale {
            self.violate(format!(
                "node {node} ends with version {version}: {doing:?}"
            ));
        }
        let complete = &mut self.complete[doing.page];
        *complete = version.max(*complete);
        self.ended += 1;
        let number = doing.page - self.base_of(self.file_of(node));
        let host = &mut self.hosts[node as usize];
        host.doing = None;
        if doing.write {
            host.wrote.push((doing.page, version));
            host.floors[number] = version.max(host.floors[number]);
        }
        self.soon.push_back((self.now, node, Event::Begins));
    }
}
