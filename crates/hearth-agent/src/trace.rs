//! The agent's own work, as records of a trace.
//!
//! A request of a session is one record of the cache; what it made the agent ask of peers and of the
//! store are others. Requests between agents have numbers on the wire, so both sides of one leave records that carry
//! the same number. The session's request takes the number of the first that it caused, and so does the store operation
//! of a home. It also says for which thread of a program it was made: so the call of the program that waited for it is
//! found, by that thread and the time.
//!
//! While nothing is traced every function here is one load and a branch.

use std::collections::HashMap;

use hearth_proto::effect::Reply;
use hearth_proto::msg::{Body, Envelope};
use hearth_proto::{FileId, NodeId, ReqId, Request, StoreOpId, Ticket, WriteAt};
use hearth_trace::ring::{OpFacts, tracer};
use hearth_trace::{Flags, Layer, Op};

use crate::core::State;

/// Entries of each kind that are remembered at most; those that no answer came to are forgotten at the bound.
const OPEN_MAX: usize = 1 << 16;
/// Sets requests that no peer hears of apart from those on the wire.
const OWN: u64 = 0xfff << 36;

/// The work under way.
#[derive(Default)]
pub(crate) struct Trace {
    names: HashMap<FileId, u32>,
    requests: HashMap<Ticket, Span>,
    asked: HashMap<ReqId, Span>,
    served: HashMap<ReqId, Span>,
    /// Which request made an operation on the store necessary.
    store: HashMap<StoreOpId, u64>,
    cause: Cause,
    count: u64,
}

/// The cause of the kernel's step.
#[derive(Clone, Copy, Debug, Default)]
enum Cause {
    #[default]
    Nothing,
    Session(Ticket),
    Peer(u64),
}

/// Something that has begun.
#[derive(Clone, Copy, Debug)]
struct Span {
    started: u64,
    done: OpFacts,
}

/// An operation on the store that a worker has begun; nothing while nothing is traced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreSpan(Option<(u64, OpFacts, FileId)>);

impl StoreSpan {
    /// A worker begins.
    pub(crate) fn begin(op: Op, file: FileId, offset: u64, asked: usize) -> StoreSpan {
        StoreSpan(tracer::enter().map(|started| {
            let done = OpFacts {
                layer: Layer::Store,
                offset,
                asked: asked as u64,
                ..OpFacts::new(op)
            };
            (started, done, file)
        }))
    }

    /// Nothing is recorded.
    pub(crate) fn none() -> StoreSpan {
        StoreSpan(None)
    }

    /// The store has answered: bytes, or an error's number.
    pub(crate) fn end(self, state: &mut State, op: StoreOpId, result: Result<u64, i32>) {
        let Some((started, mut done, file)) = self.0 else {
            return;
        };
        let ended = hearth_trace::clock::now();
        done.file = state.trace_name(file);
        done.request = state.trace.store.remove(&op).unwrap_or(0);
        done.result = match done.op {
            Op::StoreWrite if result.is_ok() => done.asked.cast_signed(),
            _ => outcome(result),
        };
        tracer::record(started, ended, &done);
    }
}

fn outcome(result: Result<u64, i32>) -> i64 {
    match result {
        Ok(bytes) => bytes.cast_signed(),
        Err(errno) => -i64::from(errno),
    }
}

/// The number of a request between agents, as records carry it.
fn number(request: ReqId) -> u64 {
    u64::from(request.node.0) << 48 | request.seq & 0xf_ffff_ffff
}

/// The operation that a session asks for, if it is worth a record.
fn asks(request: &Request) -> Option<(Op, u64, u64)> {
    match request {
        Request::Open(_) => Some((Op::Open, 0, 0)),
        Request::Read { offset, len, .. } => Some((Op::Pread, *offset, u64::from(*len))),
        Request::Write { at, len, .. } => {
            let offset = match at {
                WriteAt::Offset(offset) => *offset,
                WriteAt::End => 0,
            };
            Some((Op::Pwrite, offset, u64::from(*len)))
        }
        Request::Flush(_) => Some((Op::Flush, 0, 0)),
        Request::Sync(_) => Some((Op::Fsync, 0, 0)),
        Request::Truncate { size, .. } => Some((Op::Truncate, *size, 0)),
        Request::Close(_)
        | Request::Finish { .. }
        | Request::Size { .. }
        | Request::Detach(_)
        | Request::Detached { .. }
        | Request::Settle(_)
        | Request::Exchange(_)
        | Request::Laminate { .. }
        | Request::HandOver { .. }
        | Request::Restamp { .. }
        | Request::Mapped(_)
        | Request::Leave(_)
        | Request::Await(_)
        | Request::Names(_)
        | Request::Listed { .. }
        | Request::Locate(_)
        | Request::Learned(_)
        | Request::Change(_)
        | Request::Changed { .. }
        | Request::FlushAll => None,
    }
}

/// The operation that one agent asks of another, on the asking side and on the other, if it is about bytes.
fn between(body: &Body, page: u64) -> Option<(Op, Op, u64, u64)> {
    let pages = |first: u64, count: u32| (first.saturating_mul(page), u64::from(count) * page);
    match body {
        Body::Read { first, count, .. }
        | Body::Peek { first, count, .. }
        | Body::Hold { first, count, .. } => {
            let (offset, bytes) = pages(*first, *count);
            Some((Op::PeerGet, Op::ServeGet, offset, bytes))
        }
        Body::Fetch { page: at, .. } => {
            let (offset, bytes) = pages(*at, 1);
            Some((Op::PeerGet, Op::ServeGet, offset, bytes))
        }
        Body::Write { offset, len, .. } | Body::Stage { offset, len, .. } => {
            Some((Op::PeerPut, Op::ServePut, *offset, u64::from(*len)))
        }
        Body::Scatter { page: at, ranges } => {
            let bytes = u64::from(ranges.bytes());
            Some((Op::PeerPut, Op::ServePut, pages(*at, 0).0, bytes))
        }
        Body::Inval { first, .. } => Some((Op::Recall, Op::Recall, pages(*first, 0).0, 0)),
        _ => None,
    }
}

impl State {
    /// A session asks something.
    pub(crate) fn trace_request(&mut self, ticket: Ticket, request: &Request) {
        let Some(started) = tracer::enter() else {
            return;
        };
        let Some((op, offset, asked)) = asks(request) else {
            return;
        };
        let file = match request {
            Request::Open(open) => Some(open.file),
            Request::Truncate { file, .. } => Some(*file),
            Request::Read { handle, .. }
            | Request::Write { handle, .. }
            | Request::Flush(handle)
            | Request::Sync(handle) => self.files.file_of(*handle),
            _ => None,
        };
        let done = OpFacts {
            layer: Layer::Cache,
            flags: Flags::HIT,
            offset,
            asked,
            file: file.map_or(0, |file| self.trace_name(file)),
            caller: hearth_client::caller::current(),
            ..OpFacts::new(op)
        };
        self.trace.cause = Cause::Session(ticket);
        remember(&mut self.trace.requests, ticket, Span { started, done });
    }

    /// A session is answered.
    pub(crate) fn trace_reply(&mut self, ticket: Ticket, reply: &Reply) {
        let Some(Span { started, mut done }) = self.trace.requests.remove(&ticket) else {
            return;
        };
        done.result = match reply {
            Reply::Data(pieces) => pieces.iter().map(|piece| i64::from(piece.len)).sum(),
            Reply::Written { .. } => done.asked.cast_signed(),
            Reply::Failed(errno) => -i64::from(*errno),
            Reply::Opened { .. } | Reply::Size { .. } => 0,
            Reply::Leaves(_) | Reply::Names { .. } | Reply::Done => 0,
        };
        let is_at_once = matches!(self.trace.cause, Cause::Session(own) if own == ticket);
        if done.flags.has(Flags::HIT) && !is_at_once && matches!(done.op, Op::Pread) {
            // It waited for what another request had fetched.
            done.flags = Flags(done.flags.0 & !Flags::HIT.0) | Flags::MISS;
        }
        if done.flags.has(Flags::HIT) {
            done.near = u32::try_from(done.result).unwrap_or(0);
        }
        if done.request == 0 {
            done.request = self.own_request();
        }
        tracer::leave(started, &done);
    }

    /// The kernel orders a message to a peer: a request begins, or one that was served ends.
    pub(crate) fn trace_sent(
        &mut self,
        to: NodeId,
        envelope: &Envelope,
        (page, bytes): (u64, u64),
    ) {
        let Some(started) = tracer::enter() else {
            return;
        };
        if let Some(mut span) = self.trace.served.remove(&envelope.req) {
            span.done.result = answer(envelope, &span.done, bytes);
            tracer::leave(span.started, &span.done);
            return;
        }
        let Some((op, _, offset, asked)) = between(&envelope.body, page) else {
            return;
        };
        let request = number(envelope.req);
        self.trace.attribute(request, Flags::PEER, to);
        let done = OpFacts {
            layer: Layer::PeerClient,
            offset,
            asked,
            file: self.trace_name(envelope.file),
            request,
            peer: to.0 as u16,
            ..OpFacts::new(op)
        };
        remember(&mut self.trace.asked, envelope.req, Span { started, done });
    }

    /// A message of a peer has come: a request ends, or one to serve begins.
    pub(crate) fn trace_came(
        &mut self,
        from: NodeId,
        envelope: &Envelope,
        (page, bytes): (u64, u64),
    ) {
        let Some(started) = tracer::enter() else {
            return;
        };
        if let Some(mut span) = self.trace.asked.remove(&envelope.req) {
            span.done.result = answer(envelope, &span.done, bytes);
            tracer::leave(span.started, &span.done);
            return;
        }
        let Some((_, op, offset, asked)) = between(&envelope.body, page) else {
            return;
        };
        let request = number(envelope.req);
        self.trace.cause = Cause::Peer(request);
        let done = OpFacts {
            layer: Layer::PeerServer,
            offset,
            asked,
            file: self.trace_name(envelope.file),
            request,
            peer: from.0 as u16,
            ..OpFacts::new(op)
        };
        remember(&mut self.trace.served, envelope.req, Span { started, done });
    }

    /// The kernel orders an operation on the store.
    pub(crate) fn trace_ordered(&mut self, op: StoreOpId) {
        if !tracer::is_on() {
            return;
        }
        let request = match self.trace.cause {
            Cause::Nothing => return,
            Cause::Peer(request) => request,
            Cause::Session(_) => {
                let own = self.own_request();
                self.trace.attribute(own, Flags::MISS, NodeId(0))
            }
        };
        remember(&mut self.trace.store, op, request);
    }

    /// The number of a request that no peer hears of.
    fn own_request(&mut self) -> u64 {
        let me = u64::from(self.node().config().me.0);
        self.trace.count += 1;
        me << 48 | OWN | self.trace.count & 0xf_ffff_ffff
    }

    /// The step is over; the next is about something else.
    pub(crate) fn trace_step_over(&mut self) {
        self.trace.cause = Cause::Nothing;
    }

    /// The name of a file in records.
    fn trace_name(&mut self, file: FileId) -> u32 {
        if let Some(known) = self.trace.names.get(&file) {
            return *known;
        }
        let Some(path) = self.files.whole_path(file) else {
            return 0;
        };
        let name = tracer::file(path.as_os_str().as_encoded_bytes());
        remember(&mut self.trace.names, file, name);
        name
    }
}

impl Trace {
    /// The session's request that this step is about was not served here; it takes `request` for its
    /// number if it has none. The answer is the number that it has.
    fn attribute(&mut self, request: u64, flag: Flags, peer: NodeId) -> u64 {
        let Cause::Session(ticket) = self.cause else {
            return request;
        };
        let Some(span) = self.requests.get_mut(&ticket) else {
            return request;
        };
        let kept = span.done.flags.0 & !Flags::HIT.0;
        span.done.flags = Flags(kept) | Flags::MISS | flag;
        if span.done.request == 0 {
            span.done.request = request;
            span.done.peer = peer.0 as u16;
        }
        span.done.request
    }
}

/// Bytes that an answer stands for, or its error.
fn answer(envelope: &Envelope, asked: &OpFacts, bytes: u64) -> i64 {
    match envelope.body {
        Body::Failed(errno) => -i64::from(errno),
        _ if matches!(asked.op, Op::PeerPut | Op::ServePut) => asked.asked.cast_signed(),
        _ => bytes.cast_signed(),
    }
}

fn remember<K: std::hash::Hash + Eq, V>(map: &mut HashMap<K, V>, key: K, value: V) {
    if map.len() >= OPEN_MAX {
        map.clear();
    }
    map.insert(key, value);
}
