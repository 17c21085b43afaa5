//! Requests of sessions: those that the kernel has not answered, and those that wait at the door.

use crate::RawErrno;
use crate::effect::Reply;
use crate::ids::{Buf, NodeId, StoreOpId, Ticket};
use crate::input::{Request, Rest};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::mem;

/// Requests that are not answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Requests {
    /// The kernel has them.
    open: BTreeMap<Ticket, Request>,
    /// Buffers of open writes, and whether the kernel has freed them: a write that fails for a node that is gone needs
    /// its bytes once more.
    bufs: BTreeMap<Buf, bool>,
    /// Done by the driver, at the store.
    direct: BTreeSet<Ticket>,
    parked: VecDeque<(Ticket, Request)>,
    /// Writes whose buffers went to the store.
    spent: BTreeMap<Ticket, Spent>,
    /// Writes to be finished as soon as the next kernel begins.
    torn: Vec<(Ticket, Request)>,
}

/// A write whose buffer went to the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Spent {
    op: StoreOpId,
    offset: u64,
    /// The kernel has given it up, and so many bytes it has.
    len: Option<u64>,
    /// The store's word.
    result: Option<Result<(), RawErrno>>,
}

impl Spent {
    /// The answer to a write that the kernel has given up, once the store has answered.
    fn reply(&self) -> Option<Reply> {
        let (offset, size) = (self.offset, self.offset + self.len?);
        Some(match self.result? {
            Ok(()) => Reply::Written { offset, size },
            Err(errno) => Reply::Failed(errno),
        })
    }
}

/// True for a request that ends with an answer.
pub(super) fn is_answered(request: &Request) -> bool {
    let told = matches!(
        request,
        Request::Close(_) | Request::Listed { .. } | Request::Learned(_) | Request::FlushAll
    );
    request.is_answered() && !told
}

/// True for one that cannot be given to two kernels.
fn is_write(request: &Request) -> bool {
    matches!(
        request,
        Request::Write { .. } | Request::Finish { .. } | Request::Truncate { .. }
    )
}

/// The buffer that a request brings.
fn buf_of(request: &Request) -> Option<Buf> {
    match request {
        Request::Write { buf, .. } | Request::Finish { buf, .. } => Some(*buf),
        _ => None,
    }
}

/// The request that writes the rest of a write that has failed; the same if homes took nothing of it.
fn rest_of(request: Request, rest: Option<&Rest>) -> Request {
    match (request, rest) {
        (
            Request::Write {
                handle,
                buf,
                len,
                mtime_ns,
                ..
            }
            | Request::Finish {
                handle,
                buf,
                len,
                mtime_ns,
                ..
            },
            Some(rest),
        ) => Request::Finish {
            handle,
            buf,
            len,
            mtime_ns,
            rest: rest.clone(),
        },
        (request, _) => request,
    }
}

impl Requests {
    /// The kernel is given a request.
    pub(super) fn begin(&mut self, ticket: Ticket, request: &Request) {
        if !is_answered(request) {
            return;
        }
        if let Some(buf) = buf_of(request) {
            self.bufs.insert(buf, false);
        }
        self.open.insert(ticket, request.clone());
    }

    /// The kernel has answered a request: returns it, and the buffer to be freed.
    pub(super) fn end(&mut self, ticket: Ticket) -> Option<(Request, Option<Buf>)> {
        let request = self.open.remove(&ticket)?;
        let freed = buf_of(&request).filter(|buf| self.bufs.remove(buf) == Some(true));
        Some((request, freed))
    }

    /// The buffer of a write goes to the store.
    pub(super) fn spend(&mut self, ticket: Ticket, op: StoreOpId, (buf, offset): (Buf, u64)) {
        self.bufs.remove(&buf);
        let spent = Spent {
            op,
            offset,
            len: None,
            result: None,
        };
        self.spent.insert(ticket, spent);
    }

    /// True for a write whose buffer went to the store.
    pub(super) fn is_spent(&self, ticket: Ticket) -> bool {
        self.spent.contains_key(&ticket)
    }

    /// The kernel has answered a request.
    pub(super) fn forget_spent(&mut self, ticket: Ticket) {
        self.spent.remove(&ticket);
    }

    /// The manager that was to be told of a write is gone, and its buffer went to the store: the store's word is the answer.
    /// Returns it if it is there.
    pub(super) fn left_to_store(&mut self, ticket: Ticket, request: &Request) -> Option<Reply> {
        let spent = self.spent.get_mut(&ticket)?;
        spent.len = match request {
            Request::Write { len, .. } | Request::Finish { len, .. } => Some(u64::from(*len)),
            _ => Some(0),
        };
        let reply = spent.reply()?;
        self.spent.remove(&ticket);
        Some(reply)
    }

    /// The store has answered. Returns the answer to a write that waited for nothing else.
    pub(super) fn stored(
        &mut self,
        op: StoreOpId,
        result: Result<(), RawErrno>,
    ) -> Option<(Ticket, Reply)> {
        let mut all = self.spent.iter_mut();
        let (&ticket, spent) = all.find(|(_, spent)| spent.op == op)?;
        spent.result = Some(result);
        let reply = spent.reply()?;
        self.spent.remove(&ticket);
        Some((ticket, reply))
    }

    /// True for the buffer of an open write, which is freed when that is answered.
    pub(super) fn frees_later(&mut self, buf: Buf) -> bool {
        let open = self.bufs.get_mut(&buf);
        open.map(|freed| *freed = true).is_some()
    }

    /// The driver is to do a request, and to answer it.
    pub(super) fn direct(&mut self, ticket: Ticket) {
        if self.end(ticket).is_some() {
            self.direct.insert(ticket);
        }
    }

    pub(super) fn directed(&mut self, ticket: Ticket) {
        self.direct.remove(&ticket);
    }

    pub(super) fn are_directed(&self) -> bool {
        self.direct.is_empty()
    }

    /// True if no write is under way.
    pub(super) fn are_quiet(&self) -> bool {
        let waits = self.spent.values().any(|spent| spent.len.is_some());
        self.are_directed() && !waits && !self.open.values().any(is_write)
    }

    /// A request has failed, since a node is gone: it waits for the next kernel.
    pub(super) fn again(&mut self, ticket: Ticket, request: Request, rest: Option<&Rest>) {
        match rest_of(request, rest) {
            finish @ Request::Finish { .. } => self.torn.push((ticket, finish)),
            request => self.park(ticket, request),
        }
    }

    /// A node is gone: parts that it took of writes which are to be finished are missing again.
    pub(super) fn lose(&mut self, node: NodeId) {
        for (_, request) in &mut self.torn {
            if let Request::Finish { rest, .. } = request {
                rest.lose(node);
            }
        }
    }

    /// Writes to be finished, in order.
    pub(super) fn take_torn(&mut self) -> Vec<(Ticket, Request)> {
        mem::take(&mut self.torn)
    }

    /// True until they are finished.
    pub(super) fn are_torn(&self) -> bool {
        let mut open = self.open.values();
        !self.torn.is_empty() || open.any(|request| matches!(request, Request::Finish { .. }))
    }

    pub(super) fn park(&mut self, ticket: Ticket, request: Request) {
        self.parked.push_back((ticket, request));
    }

    pub(super) fn take_parked(&mut self) -> VecDeque<(Ticket, Request)> {
        mem::take(&mut self.parked)
    }

    /// Parked reads whose pages are locked until they are answered.
    pub(super) fn take_locking(&mut self) -> Vec<(Ticket, Request)> {
        let all = mem::take(&mut self.parked).into_iter();
        let (locking, parked): (Vec<_>, Vec<_>) =
            all.partition(|(_, request)| super::is_locking(request));
        self.parked = parked.into();
        locking
    }

    /// Reads that the last kernel has not answered, or was not given. All else that it has not answered waits.
    pub(super) fn take_reads(&mut self) -> Vec<(Ticket, Request)> {
        let is_read = |(_, request): &(Ticket, Request)| matches!(request, Request::Read { .. });
        let all = mem::take(&mut self.open).into_iter();
        let all = all.chain(mem::take(&mut self.parked));
        let (reads, parked): (Vec<_>, Vec<_>) = all.partition(is_read);
        self.parked = parked.into();
        reads
    }
}
