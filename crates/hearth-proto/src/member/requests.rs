//! Requests of sessions: those that the kernel has not answered, and those that wait at the door.

use crate::effect::Reply;
use crate::ids::{Buf, Ticket};
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
    /// Writes whose buffers went to the store, and where.
    spent: BTreeMap<Ticket, u64>,
    /// Writes to be finished as soon as the next kernel begins.
    torn: Vec<(Ticket, Request)>,
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
    pub(super) fn spend(&mut self, ticket: Ticket, (buf, offset): (Buf, u64)) {
        self.bufs.remove(&buf);
        self.spent.insert(ticket, offset);
    }

    /// The answer to a write that the store has; it is over.
    pub(super) fn spent(&mut self, ticket: Ticket, request: &Request) -> Option<Reply> {
        let offset = self.spent.remove(&ticket)?;
        let len = match request {
            Request::Write { len, .. } | Request::Finish { len, .. } => u64::from(*len),
            _ => 0,
        };
        let size = offset + len;
        Some(Reply::Written { offset, size })
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
        self.are_directed() && !self.open.values().any(is_write)
    }

    /// A request has failed, since a node is gone: it waits for the next kernel.
    pub(super) fn again(&mut self, ticket: Ticket, request: Request, rest: Option<&Rest>) {
        match rest_of(request, rest) {
            finish @ Request::Finish { .. } => self.torn.push((ticket, finish)),
            request => self.park(ticket, request),
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
