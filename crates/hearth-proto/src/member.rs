//! One agent through all views: it has a kernel for each.
//!
//! A kernel knows its members for good. When they change, all of them end what they do, bring all to the store, and begin
//! anew with what sessions have open. So no kernel has to know what a node that is gone, late or back may still
//! hold.
//!
//! ```text
//!   view n     Ending    writes wait at the door; those under way end
//!      │         ├── Quiet      no write is under way here
//!      │       all are quiet
//!      │       Settling  every byte goes to the store; then new members bring what earlier lives left in tiers
//!      │         ├── Settled    the store has all that was here
//!      │       all are settled
//!      │       Still     requests wait; store operations end
//!   view n+1   Beginning ways in let go, managers are told of handles
//!      │         ├── Begun      so it is here
//!      │       all have begun: writes go on
//! ```
//!
//! Reads go on until the short wait of *Still*. A page of the operating system may be locked until its read is answered,
//! and a write may wait for that page.
//!
//! Invariants:
//! - VIEW-1 (I3, I6): no kernel begins in a view before every member has settled, and none takes a write before every
//!   member has begun. So a write meets no copy of an earlier view.
//! - VIEW-2: a kernel gets no message of another view. One of a later view waits, one of an earlier is dropped. One of a
//!   view that this member goes past is answered as if it was gone: its sender began there, and may wait for it.
//! - VIEW-3: a request of a session is answered once. One that was not is given to the next kernel, a write only if the
//!   last one failed it for a node that is gone. No session is told that a node is gone.
//! - VIEW-4 (I16): while a change is under way, a request that a locked page may depend on is let in.
//! - VIEW-5: what an earlier life left in a tier goes to the store when nobody writes there, and before any kernel begins
//!   that could read what it replaces.

mod brackets;
mod change;
mod requests;

use crate::config::Config;
use crate::effect::{Effect, Outbox, Reply};
use crate::errno::EHOSTDOWN;
use crate::ids::{Buf, FileId, Gen, Handle, NodeId, ReqId, Ticket, View};
use crate::input::{Input, Request};
use crate::msg::{Body, Envelope};
use crate::node::Node;
use crate::peers::in_its_place;
use crate::time::Time;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use brackets::Brackets;
use change::{Change, Reached};
use core::mem;
use requests::Requests;

pub use change::ViewStage;

/// A message with its payload.
type Mail = (NodeId, Envelope, Option<(Buf, u32)>);

/// One agent's protocol, view after view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    node: Node,
    requests: Requests,
    brackets: Brackets,
    change: Option<Change>,
    reached: Reached,
    /// Messages of kernels of later views, in order.
    early: Vec<Mail>,
    /// Answers to writes that were finished before all have begun: ways in elsewhere may keep what was there before.
    finished: Vec<Effect>,
    /// Handles that the kernel is to close, of opens that are begun anew.
    unwanted: Vec<Handle>,
    /// Those that it has been told to close, and has not released. Nobody else knows of them.
    unreleased: BTreeSet<Handle>,
    /// Store operations and orders to daemons that are not over: they use frames of the kernel.
    store_ops: u32,
    recovery: Recovery,
}

/// The state of what an earlier life of this agent may have left in its tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Recovery {
    /// It is there until all others have settled.
    Due,
    /// It is on its way to the store.
    UnderWay,
    /// There is nothing.
    Done,
}

impl Recovery {
    /// A kernel without a view is the first of its agent's life.
    fn of(config: &Config) -> Recovery {
        match config.has_tier() && config.view == View(0) {
            true => Recovery::Due,
            false => Recovery::Done,
        }
    }
}

/// True for an answer that a kernel gives while nodes are gone, and that the store may know better in a moment: what a
/// file's manager knew of its size.
fn is_uncertain(request: &Request, reply: &Reply) -> bool {
    match (request, reply) {
        (Request::Open(_) | Request::Size { .. }, reply) => !matches!(reply, Reply::Failed(_)),
        (Request::Read { len, .. }, Reply::Data(pieces)) => {
            let told: u32 = pieces.iter().map(|piece| piece.len).sum();
            told < *len
        }
        _ => false,
    }
}

/// True for a read whose pages are locked until it is answered.
fn is_locking(request: &Request) -> bool {
    matches!(request, Request::Read { keep: true, .. })
}

/// Answers as a node that is gone is taken to have.
fn refuse((to, envelope, data): Mail, out: &mut Outbox) {
    out.extend(data.map(|(buf, _)| Effect::Free(buf)));
    if let Some(body) = in_its_place(&envelope.body) {
        let envelope = Envelope { body, ..envelope };
        let data = Vec::new();
        out.push(Effect::Send { to, envelope, data });
    }
}

impl Member {
    /// A member of the first view; of none yet if the kernel's is 0. If no kernel is to follow this one
    /// ([`Config::goes_on`]), the kernel alone acts.
    pub fn new(node: Node) -> Member {
        Member {
            recovery: Recovery::of(node.config()),
            node,
            requests: Requests::default(),
            brackets: Brackets::default(),
            change: None,
            reached: Reached::default(),
            early: Vec::new(),
            unwanted: Vec::new(),
            unreleased: BTreeSet::new(),
            finished: Vec::new(),
            store_ops: 0,
        }
    }

    /// The kernel of the present view.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The kernel of the present view, to set it up.
    pub fn node_mut(&mut self) -> &mut Node {
        &mut self.node
    }

    /// The view that it is in, or goes over to.
    pub fn view(&self) -> View {
        let change = self.change.as_ref().map(|change| change.view);
        change.unwrap_or(self.config().view)
    }

    /// The view to be told of a stamp that is taken from now on.
    pub fn stamp_view(&self) -> View {
        match self.change {
            Some(_) => View(0),
            None => self.config().view,
        }
    }

    /// The view to be told of a stamp that was taken by somebody who does not know when views change: none but the first.
    pub fn stamp_view_of_others(&self) -> View {
        match self.stamp_view() {
            first @ View(1) => first,
            _ => View(0),
        }
    }

    /// How far it has come in going over to that; `None` if it is in it.
    pub fn stage(&self) -> Option<ViewStage> {
        self.change.as_ref().map(|change| change.stage)
    }

    /// When [`Input::Tick`] is due.
    pub fn deadline(&self) -> Option<Time> {
        if self.has_left() {
            return None;
        }
        let settles = self.change.as_ref().and_then(|change| change.settles_again);
        self.node.deadline().into_iter().chain(settles).min()
    }

    /// Applies one input; orders go to `out` in the order in which they must happen.
    pub fn step(&mut self, now: Time, input: Input, out: &mut Outbox) {
        if !self.config().goes_on {
            return self.node.step(now, input, out);
        }
        match input {
            Input::View {
                view,
                members,
                leaving,
                gone,
            } => {
                let change = Change::new(view, members, leaving);
                self.begin_change(now, (change, &gone), out);
            }
            // The membership says who lives.
            Input::PeerUp(_) | Input::PeerDown(_) => {}
            Input::Directed(ticket) => self.requests.directed(ticket),
            Input::Recovered => self.recovery = Recovery::Done,
            Input::Request(ticket, request) => self.request(now, (ticket, request), out),
            Input::Message {
                from,
                envelope,
                data,
            } => self.message(now, (from, envelope, data), out),
            Input::StoreDone(op, result) => {
                self.store_ops = self.store_ops.saturating_sub(1);
                let ended = self.requests.stored(op, result.map(|_| ()));
                out.extend(ended.map(|(ticket, reply)| Effect::Reply { ticket, reply }));
                self.drive(now, input, out);
            }
            Input::BankDone(..) => {
                self.store_ops = self.store_ops.saturating_sub(1);
                self.drive(now, input, out);
            }
            input => self.drive(now, input, out),
        }
        loop {
            for handle in mem::take(&mut self.unwanted) {
                self.unreleased.insert(handle);
                let close = Request::Close(handle);
                self.drive(now, Input::Request(Ticket(handle.0), close), out);
            }
            for (ticket, request) in self.brackets.take_ended() {
                self.drive(now, Input::Request(ticket, request), out);
            }
            self.answer_pressed(now, out);
            if !self.go_on(now, out) {
                break;
            }
        }
    }

    /// True once it has left in order: nothing is asked of it any more.
    pub fn has_left(&self) -> bool {
        self.stage() == Some(ViewStage::Left)
    }

    fn config(&self) -> &Config {
        self.node.config()
    }

    fn me(&self) -> NodeId {
        self.config().me
    }

    /// A session asks.
    fn request(&mut self, now: Time, (ticket, request): (Ticket, Request), out: &mut Outbox) {
        if self.holds_back(&request) {
            return self.requests.park(ticket, request);
        }
        if self.brackets.ends_early(ticket, &request) {
            return;
        }
        if let Request::Open(open) = &request
            && open.view != self.config().view
        {
            return out.push(Effect::Restamp { ticket });
        }
        self.requests.begin(ticket, &request);
        self.drive(now, Input::Request(ticket, request), out);
    }

    fn holds_back(&self, request: &Request) -> bool {
        let Some(change) = &self.change else {
            return self.config().view == View(0) && requests::is_answered(request);
        };
        match request {
            Request::Read { .. } => matches!(change.stage, ViewStage::Still | ViewStage::Left),
            request => requests::is_answered(request),
        }
    }

    fn message(&mut self, now: Time, (from, envelope, data): Mail, out: &mut Outbox) {
        if let Body::Reached(stage) = envelope.body {
            return self.reached.note(from, envelope.view, stage);
        }
        let ours = self.config().view;
        match envelope.view.cmp(&ours) {
            // A member that goes past our view would wait for the kernel that was here before.
            core::cmp::Ordering::Less if self.reached.is_past(from, ours) => {
                refuse((from, envelope, data), out);
            }
            core::cmp::Ordering::Less => out.extend(data.map(|(buf, _)| Effect::Free(buf))),
            core::cmp::Ordering::Greater if self.goes_past(envelope.view) => {
                refuse((from, envelope, data), out);
            }
            core::cmp::Ordering::Greater => self.early.push((from, envelope, data)),
            core::cmp::Ordering::Equal => {
                let input = Input::Message {
                    from,
                    envelope,
                    data,
                };
                self.drive(now, input, out);
            }
        }
    }

    /// True for a view that others may have begun, and that this member never will.
    fn goes_past(&self, view: View) -> bool {
        self.config().view < view && view < self.view()
    }

    /// Gives the kernel an input, and passes on what it orders.
    fn drive(&mut self, now: Time, input: Input, out: &mut Outbox) {
        let mut effects = Vec::new();
        self.node.step(now, input, &mut effects);
        for effect in effects {
            self.pass(effect, out);
        }
    }

    fn pass(&mut self, effect: Effect, out: &mut Outbox) {
        match effect {
            Effect::Reply { ticket, reply } => self.replied(ticket, reply, out),
            Effect::Free(buf) if self.requests.frees_later(buf) => {}
            Effect::Release { handle } if self.unreleased.remove(&handle) => {}
            Effect::Direct { ticket } => {
                self.requests.direct(ticket);
                out.push(effect);
            }
            Effect::StoreThrough {
                op,
                ticket,
                offset,
                buf,
            } => {
                self.requests.spend(ticket, op, (buf, offset));
                self.store_ops += 1;
                out.push(effect);
            }
            Effect::StoreRead { .. }
            | Effect::StoreWrite { .. }
            | Effect::StorePieces { .. }
            | Effect::StoreSync { .. }
            | Effect::StoreTruncate { .. }
            | Effect::Bank { .. } => {
                self.store_ops += 1;
                out.push(effect);
            }
            effect => out.push(effect),
        }
    }

    fn replied(&mut self, ticket: Ticket, reply: Reply, out: &mut Outbox) {
        if self.brackets.renewed(ticket) {
            return;
        }
        let Some((request, freed)) = self.requests.end(ticket) else {
            return out.push(Effect::Reply { ticket, reply });
        };
        if self.change.is_some() && is_uncertain(&request, &reply) && !self.is_pressed(&request) {
            if let Reply::Opened { handle, .. } = reply {
                self.unwanted.push(handle);
            }
            return self.requests.park(ticket, request);
        }
        if reply == Reply::Failed(EHOSTDOWN) && self.requests.is_spent(ticket) {
            let reply = self.requests.left_to_store(ticket, &request);
            return out.extend(reply.map(|reply| Effect::Reply { ticket, reply }));
        }
        self.requests.forget_spent(ticket);
        // Others may have gone over to a view that this member has not heard of yet.
        if reply == Reply::Failed(EHOSTDOWN) {
            let rest = self.node.torn(ticket);
            return self.requests.again(ticket, request, rest);
        }
        self.brackets.begin(&request, &reply);
        out.extend(freed.map(Effect::Free));
        let reply = Effect::Reply { ticket, reply };
        match (&request, &self.change) {
            (Request::Finish { .. }, Some(_)) => self.finished.push(reply),
            _ => out.push(reply),
        }
    }

    /// True for a request that has to be answered as well as can be: somebody may wait for the pages that it locks.
    fn is_pressed(&self, request: &Request) -> bool {
        is_locking(request) && self.node.lets_go()
    }

    /// Reads that wait for the next kernel are put to this one, if somebody has come to wait for their pages.
    fn answer_pressed(&mut self, now: Time, out: &mut Outbox) {
        if self.change.is_none() || !self.node.lets_go() {
            return;
        }
        for (ticket, request) in self.requests.take_locking() {
            match self.holds_back(&request) {
                true => self.requests.park(ticket, request),
                false => {
                    self.requests.begin(ticket, &request);
                    self.drive(now, Input::Request(ticket, request), out);
                }
            }
        }
    }

    /// Tells the others of the next view how far this member has come.
    fn announce(&self, stage: ViewStage, out: &mut Outbox) {
        let Some(change) = &self.change else {
            return;
        };
        let config = self.config();
        for to in change.everybody().filter(|&to| to != config.me) {
            let envelope = Envelope {
                view: change.view,
                file: FileId::default(),
                generation: Gen::default(),
                req: ReqId {
                    node: config.me,
                    inc: config.incarnation,
                    seq: 0,
                },
                body: Body::Reached(stage),
            };
            let data = Vec::new();
            out.push(Effect::Send { to, envelope, data });
        }
    }
}
