//! State that every machine of a node may use while it handles one input.

use crate::bank::BankOp;
use crate::bank::list::List;
use crate::config::Config;
use crate::effect::{Effect, Outbox, Piece};
use crate::frames::Frames;
use crate::guard::Guard;
use crate::ids::{Age, Buf, FileId, Gen, IdStarts, NodeId, ReqId, RevokeId, StoreOpId, Ticket};
use crate::msg::{Body, Envelope};
use crate::peers::{Peers, Sending};
use crate::placement;
use crate::status::KernelCounters;
use crate::time::Time;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Counts from which names are made; never go back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Counts {
    req: u64,
    op: u64,
    buf: u64,
    revoke: u64,
    scatter: u64,
    bank: u64,
    life: u64,
    /// Pieces of pages that this step has sent to the store.
    pub(crate) pieces: usize,
    /// The clock by which operations over several homes have their age.
    clock: u64,
}

impl Counts {
    pub(crate) fn after(names: &IdStarts) -> Counts {
        Counts {
            req: names.request,
            op: names.op,
            buf: names.buf,
            revoke: names.revoke,
            scatter: 0,
            bank: names.bank,
            life: 0,
            pieces: 0,
            clock: 0,
        }
    }
}

impl Counts {
    /// The clock by which operations over several homes have their age: it is compared between nodes.
    pub(crate) fn clock(&self) -> u64 {
        self.clock
    }
}

/// A message that this node gives itself: its own, or one in place of a peer that is gone.
pub(crate) type Loopback = (NodeId, Envelope, Vec<Piece>);

/// Everything outside of a machine.
pub(crate) struct Ctx<'a> {
    pub(crate) config: &'a Config,
    pub(crate) now: Time,
    pub(crate) frames: &'a mut Frames,
    pub(crate) peers: &'a mut Peers,
    pub(crate) bank: &'a mut List,
    pub(crate) counts: &'a mut Counts,
    pub(crate) stats: &'a mut KernelCounters,
    pub(crate) out: &'a mut Outbox,
    pub(crate) loopback: &'a mut VecDeque<Loopback>,
}

impl Ctx<'_> {
    pub(crate) fn me(&self) -> NodeId {
        self.config.me
    }

    /// Others have changed the file in the store, or are about to.
    pub(crate) fn reopen(&mut self, file: FileId) {
        if self.config.keeps(Guard::ChangesReopened) {
            self.out.push(Effect::Reopen { file });
        }
    }

    /// Sends a request of this node and returns its id.
    pub(crate) fn ask(&mut self, to: NodeId, file: FileId, generation: Gen, body: Body) -> ReqId {
        self.ask_with(to, file, generation, body, Vec::new())
    }

    /// Sends a request with a payload and returns its id.
    pub(crate) fn ask_with(
        &mut self,
        to: NodeId,
        file: FileId,
        generation: Gen,
        body: Body,
        data: Vec<Piece>,
    ) -> ReqId {
        self.counts.req += 1;
        let req = ReqId {
            node: self.me(),
            inc: self.config.incarnation,
            seq: self.counts.req,
        };
        self.send(
            to,
            Envelope {
                view: self.config.view,
                file,
                generation,
                req,
                body,
            },
            data,
        );
        req
    }

    /// Answers a request.
    pub(crate) fn answer(
        &mut self,
        to: NodeId,
        file: FileId,
        generation: Gen,
        req: ReqId,
        body: Body,
    ) {
        self.answer_with(to, file, generation, req, body, Vec::new());
    }

    /// Answers a request with a payload.
    pub(crate) fn answer_with(
        &mut self,
        to: NodeId,
        file: FileId,
        generation: Gen,
        req: ReqId,
        body: Body,
        data: Vec<Piece>,
    ) {
        self.send(
            to,
            Envelope {
                view: self.config.view,
                file,
                generation,
                req,
                body,
            },
            data,
        );
    }

    /// Sends a message; one to this node is handled within the same step.
    pub(crate) fn send(&mut self, to: NodeId, envelope: Envelope, data: Vec<Piece>) {
        if to == self.me() {
            self.loopback.push_back((to, envelope, data));
            return;
        }
        match self.peers.sending(self.now, to, &envelope) {
            Sending::Go => {
                self.stats.messages_sent += 1;
                self.out.push(Effect::Send { to, envelope, data });
            }
            Sending::Drop => {}
            Sending::Answer(body) => {
                self.loopback
                    .push_back((to, Envelope { body, ..envelope }, Vec::new()));
            }
        }
    }

    /// Whether whoever is to change a file can find its manager: with a dead registrar those who have not asked before
    /// change it without a word (S13), so nobody keeps its names and attributes (MANAGER-6).
    pub(crate) fn is_findable(&self, file: FileId) -> bool {
        let registrar = placement::registrar_of(self.config, file);
        !self.peers.is_down(registrar) || !self.config.keeps(Guard::ManagerFound)
    }

    /// The age of an operation over several homes that begins now.
    pub(crate) fn new_age(&mut self) -> Age {
        self.counts.clock += 1;
        let (clock, node) = (self.counts.clock, self.me());
        Age { clock, node }
    }

    /// The age of what arrives here without one: younger than all that this node has heard of.
    pub(crate) fn age(&self) -> Age {
        Age {
            clock: self.counts.clock,
            node: NodeId(u32::MAX),
        }
    }

    /// Another node's clock.
    pub(crate) fn hear_clock(&mut self, clock: u64) {
        self.counts.clock = self.counts.clock.max(clock);
    }

    /// A peer has been granted a lock: returns the number under which it owes its end.
    pub(crate) fn lend(&mut self, to: NodeId) -> u64 {
        self.counts.req += 1;
        if to != self.me() {
            self.peers.lent(self.now, to, self.counts.req);
        }
        self.counts.req
    }

    pub(crate) fn new_op(&mut self) -> StoreOpId {
        self.counts.op += 1;
        StoreOpId(self.counts.op)
    }

    pub(crate) fn new_buf(&mut self) -> Buf {
        self.counts.buf += 1;
        Buf(Buf::KERNEL | self.counts.buf)
    }

    /// Names a write that no session waits for.
    pub(crate) fn new_scatter(&mut self) -> Ticket {
        self.counts.scatter += 1;
        Ticket(Ticket::KERNEL | self.counts.scatter)
    }

    pub(crate) fn new_bank_op(&mut self) -> BankOp {
        self.counts.bank += 1;
        BankOp(self.counts.bank)
    }

    pub(crate) fn new_revoke(&mut self) -> RevokeId {
        self.counts.revoke += 1;
        RevokeId(self.counts.revoke)
    }

    /// Lives that this node gives come after this one.
    pub(crate) fn outlive(&mut self, life: u64) {
        self.counts.life = self.counts.life.max(life);
    }

    /// A generation above every one that this node gave before, in this incarnation or earlier.
    pub(crate) fn new_generation(&mut self) -> Gen {
        let floor = self.config.incarnation << 32;
        self.counts.life = self.counts.life.max(floor) + 1;
        Gen {
            life: self.counts.life,
            cut: 0,
        }
    }
}
