//! Changes of names and attributes that were let through and are not over.
//!
//! A front end asks before it changes attributes or takes a last name, does so in the store, and tells when it has. The
//! next kernel has to know of those between, or it would let others keep what is about to change.

use crate::effect::Reply;
use crate::ids::{FileId, Ticket};
use crate::input::Request;
use alloc::vec::Vec;

/// Set in tickets of this machine's own requests, besides [`Ticket::KERNEL`].
const OWN: u64 = Ticket::KERNEL | 1 << 62;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Change,
    Detach,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Bracket {
    kind: Kind,
    file: FileId,
    /// The next kernel has been asked under this ticket, and has not answered.
    asked: Option<Ticket>,
    /// The front end has told the end meanwhile.
    ended: Option<(Ticket, Request)>,
}

/// All of them, in the order in which they were let through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Brackets {
    open: Vec<Bracket>,
    asked: u64,
}

fn end_of(request: &Request) -> Option<(Kind, FileId)> {
    match request {
        Request::Changed { file, .. } => Some((Kind::Change, *file)),
        Request::Detached { file, .. } => Some((Kind::Detach, *file)),
        _ => None,
    }
}

impl Brackets {
    /// A request was answered: a change begins if it was let through.
    pub(super) fn begin(&mut self, request: &Request, reply: &Reply) {
        let (kind, file) = match request {
            Request::Change(file) => (Kind::Change, *file),
            Request::Detach(file) => (Kind::Detach, *file),
            _ => return,
        };
        if *reply == Reply::Done {
            self.open.push(Bracket {
                kind,
                file,
                asked: None,
                ended: None,
            });
        }
    }

    /// A change is over. True if the kernel cannot be told yet.
    pub(super) fn ends_early(&mut self, ticket: Ticket, request: &Request) -> bool {
        let Some((kind, file)) = end_of(request) else {
            return false;
        };
        let its = |one: &Bracket| one.kind == kind && one.file == file && one.ended.is_none();
        let told = |one: &Bracket| its(one) && one.asked.is_none();
        if let Some(at) = self.open.iter().position(told) {
            self.open.remove(at);
            return false;
        }
        let asked = self.open.iter_mut().find(|one| its(one));
        let end = (ticket, request.clone());
        asked.map(|one| one.ended = Some(end)).is_some()
    }

    /// The requests by which the next kernel hears of them.
    pub(super) fn renew(&mut self) -> Vec<(Ticket, Request)> {
        let mut requests = Vec::new();
        for one in &mut self.open {
            self.asked += 1;
            let ticket = Ticket(OWN | self.asked);
            one.asked = Some(ticket);
            let request = match one.kind {
                Kind::Change => Request::Change(one.file),
                Kind::Detach => Request::Detach(one.file),
            };
            requests.push((ticket, request));
        }
        requests
    }

    /// The kernel has answered. True if it was one of these requests.
    pub(super) fn renewed(&mut self, ticket: Ticket) -> bool {
        let mut asked = self.open.iter_mut();
        let one = asked.find(|one| one.asked == Some(ticket));
        one.map(|one| one.asked = None).is_some()
    }

    /// The ends that the kernel can be told now.
    pub(super) fn take_ended(&mut self) -> Vec<(Ticket, Request)> {
        let over = |one: &mut Bracket| one.asked.is_none() && one.ended.is_some();
        let over = self.open.extract_if(.., over);
        over.filter_map(|one| one.ended).collect()
    }

    pub(super) fn are_renewed(&self) -> bool {
        self.open.iter().all(|one| one.asked.is_none())
    }
}
