//! Pages come from a peer that may hold them.
//!
//! A home may have evicted a page whose readers it remembers. It asks one of them, once, before it reads the
//! store. If every node is the home of the pages that it reads, the pages that peers hold are known by hint. Each
//! tells them with every question and every answer, and nobody takes that back. A wrong hint costs a message.
//! After [`PEEKS_MAX`] of them the store is read.
//!
//! Invariants:
//! - PEEK-1: a question is always answered. It waits at most for a store read of the answerer, never for its own
//!   questions. So no circle of homes waits for itself.
//! - PEEK-2 (I3): a page that a cut touches is not given away. A cut waits for the questions in flight that touch it.
//! - PEEK-3 (I2): a node that is recorded as a reader has the bytes that the store would give, or none. A write waits
//!   for the questions in flight, and then calls back what they found.

use super::{Home, StoreOp, Verdict, Waiting};
use crate::config::{Authorities, Evicted};
use crate::effect::{Effect, Piece, ReadInto, Src};
use crate::ids::{NodeId, ReqId};
use crate::msg::{Body, HELD_PAGES, Held};
use crate::nodeset::NodeSet;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Peers that are asked for a run of pages before the store is.
const PEEKS_MAX: usize = 2;

/// Hints that are kept of one file, each of one peer and [`HELD_PAGES`] pages. Those of the first pages go when
/// there are more.
const HINTS_MAX: usize = 64;

/// Pages of one file that peers hold, known by hint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Hints {
    held: BTreeMap<(u64, NodeId), Held>,
    /// Nodes that had the file open when this node opened it.
    holders: NodeSet,
}

impl Hints {
    fn note(&mut self, peer: NodeId, page: u64, held: Held) {
        self.holders.insert(peer);
        self.held.insert((page / HELD_PAGES, peer), held);
        if self.held.len() > HINTS_MAX {
            self.held.pop_first();
        }
    }

    pub(super) fn meet(&mut self, holders: impl Iterator<Item = NodeId>) {
        holders.for_each(|node| {
            self.holders.insert(node);
        });
    }

    pub(super) fn forget(&mut self, peer: NodeId) {
        self.holders.remove(peer);
        self.held.retain(|&(_, node), _| node != peer);
    }

    /// The node to ask for a page: one that said it has it, else one that has not said anything. The last choice
    /// is one that has the page before, because readers come in order.
    fn candidate(&self, me: NodeId, page: u64, asked: &NodeSet) -> Option<NodeId> {
        let fresh = |node: &NodeId| *node != me && !asked.contains(*node);
        let run = page / HELD_PAGES;
        let said = |node: NodeId| self.held.get(&(run, node));
        let among = |tell: &dyn Fn(NodeId) -> bool| {
            let nodes = self.holders.iter().filter(fresh);
            let nodes: Vec<NodeId> = nodes.filter(|&node| tell(node)).collect();
            let turn = page.wrapping_add(u64::from(me.0)) as usize;
            (!nodes.is_empty()).then(|| nodes[turn % nodes.len()])
        };
        let has = |page: u64| move |held: &Held| held.contains(page);
        among(&|node| said(node).is_some_and(has(page)))
            .or_else(|| among(&|node| said(node).is_none()))
            .or_else(|| {
                let before = page.checked_sub(1).filter(|b| b / HELD_PAGES == run)?;
                let guess = || among(&|node| said(node).is_some_and(has(before)));
                asked.is_empty().then(guess).flatten()
            })
    }
}

/// Pages that are being sought.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Search {
    pub(super) first: u64,
    pub(super) count: u32,
    asked: NodeSet,
    /// It would not ask if it had them.
    asker: Option<NodeId>,
}

impl Search {
    pub(super) fn new(first: u64, count: u32, asker: NodeId) -> Search {
        Search {
            first,
            count,
            asker: Some(asker),
            asked: NodeSet::default(),
        }
    }
}

/// A peer asks for pages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PeekAsk {
    pub(super) from: NodeId,
    pub(super) req: ReqId,
    pub(super) first: u64,
    pub(super) count: u32,
}

impl PeekAsk {
    pub(super) fn of(from: NodeId, req: ReqId, (first, count): (u64, u32)) -> PeekAsk {
        PeekAsk {
            from,
            req,
            first,
            count,
        }
    }
}

impl Home<'_, '_> {
    /// Another home asks for what this node may have.
    pub(super) fn take_peek(&mut self, from: NodeId, req: ReqId, first: u64, count: u32) {
        let ask = PeekAsk::of(from, req, (first, count));
        self.file.waiting.push_back(Waiting::Peek(ask));
    }

    /// Goes for pages whose frames are ready: to a peer, or to the store.
    pub(super) fn seek(&mut self, mut search: Search) {
        let Search { first, count, .. } = search;
        let Some(peer) = self.peer_for(&search) else {
            return self.fetch(first, count);
        };
        search.asked.insert(peer);
        for number in first..first + u64::from(count) {
            self.file.pages.entry(number).or_default().sought = true;
        }
        let held = self.held_around(first);
        let body = Body::Peek { first, count, held };
        let (id, generation) = (self.id, self.file.generation);
        let req = self.ctx.ask(peer, id, generation, body);
        self.common.searches.insert(req.seq, (id, search));
    }

    fn peer_for(&self, search: &Search) -> Option<NodeId> {
        let rules = self.ctx.config.rules();
        match (rules.authorities, rules.evicted) {
            (Authorities::Each, _) => self.hinted_peer(search),
            (Authorities::Placed, Evicted::Readers) => self.reader_for(search),
            (Authorities::Placed, Evicted::Store) => None,
        }
    }

    /// The reader that was given the first page last, unless one was asked before. It is the likeliest to have it
    /// still.
    fn reader_for(&self, search: &Search) -> Option<NodeId> {
        let page = self.file.pages.get(&search.first)?;
        let reader = page.lately.filter(|node| page.readers.contains(*node))?;
        let me = self.ctx.me();
        let is_other = reader != me && Some(reader) != search.asker;
        let fresh = is_other && !self.ctx.peers.is_down(reader) && search.asked.is_empty();
        fresh.then_some(reader)
    }

    fn hinted_peer(&self, search: &Search) -> Option<NodeId> {
        if search.asked.len() >= PEEKS_MAX {
            return None;
        }
        let hints = self.common.hints.get(&self.id)?;
        hints.candidate(self.ctx.me(), search.first, &search.asked)
    }

    fn fetch(&mut self, first: u64, count: u32) {
        let page_bytes = self.ctx.config.page_bytes;
        let mut parts = Vec::with_capacity(count as usize);
        for number in first..first + u64::from(count) {
            let page = self.file.pages.entry(number).or_default();
            page.sought = false;
            let slot = page.slot.expect("a page that is sought has a frame");
            parts.push(Piece {
                src: Src::Frame(slot.frame),
                at: 0,
                len: page_bytes,
            });
        }
        let offset = self.ctx.config.page_start(first);
        let file = self.id;
        let op = StoreOp::FillPages { file, first, count };
        self.read_store(op, offset, ReadInto::Frames(parts));
    }

    /// A peer has answered: takes what it gave, and goes on with the rest.
    pub(super) fn peeked(
        &mut self,
        from: NodeId,
        mut search: Search,
        (lens, held): (&[u32], Held),
        data: Option<Piece>,
    ) {
        if self.ctx.config.is_home_to_itself() {
            self.hinted(from, search.first, held);
        }
        let mut rest = data.unwrap_or(Piece {
            src: Src::Zero,
            at: 0,
            len: 0,
        });
        for &len in lens.iter().take(search.count as usize) {
            if len > rest.len || len > self.ctx.config.page_bytes {
                break;
            }
            self.take_in(search.first, Piece { len, ..rest });
            rest.at += len;
            rest.len -= len;
            search.first += 1;
            search.count -= 1;
        }
        self.free(from, data);
        if search.count > 0 {
            self.seek(search);
        }
    }

    fn take_in(&mut self, number: u64, from: Piece) {
        let page = self.file.pages.entry(number).or_default();
        let slot = page.slot.expect("a page that is sought has a frame");
        if from.len > 0 {
            self.ctx.out.push(Effect::Fill {
                frame: slot.frame,
                at: 0,
                from,
            });
        }
        page.filling = false;
        page.sought = false;
        page.lent = true;
        page.filled = true;
        page.extent = from.len;
        page.settle(self.ctx.frames);
    }

    /// Answers a peer, unless the store is about to bring the page.
    pub(super) fn try_peek(&mut self, ask: &PeekAsk) -> Verdict {
        let page = self.file.pages.get(&ask.first);
        let coming = page.is_some_and(|page| page.filling && !page.sought);
        if coming && !self.is_barred(ask.first, 1) {
            return Verdict::Wait;
        }
        let mut lens = Vec::new();
        let mut data = Vec::new();
        for number in ask.first..ask.first + u64::from(ask.count) {
            let Some(page) = self.file.pages.get_mut(&number) else {
                break;
            };
            page.refresh(self.ctx.frames);
            let Some(slot) = page.slot.filter(|_| page.filled) else {
                break;
            };
            let len = page.extent;
            if self.is_barred(number, 1) {
                break;
            }
            self.ctx.frames.touch(slot);
            lens.push(len);
            if len > 0 {
                data.push(Piece {
                    src: Src::Frame(slot.frame),
                    at: 0,
                    len,
                });
            }
        }
        self.tell_peeker(ask, lens, data);
        Verdict::Done
    }

    /// Answers a peer that it must look elsewhere.
    pub(super) fn refuse_peek(&mut self, ask: &PeekAsk) {
        self.tell_peeker(ask, Vec::new(), Vec::new());
    }

    fn tell_peeker(&mut self, ask: &PeekAsk, lens: Vec<u32>, data: Vec<Piece>) {
        let held = self.held_around(ask.first);
        let body = Body::Peeked {
            first: ask.first,
            lens,
            held,
        };
        let generation = self.file.generation;
        self.ctx
            .answer_with(ask.from, self.id, generation, ask.req, body, data);
    }

    /// Notes what a peer says it holds.
    pub(super) fn hinted(&mut self, peer: NodeId, page: u64, held: Held) {
        let hints = self.common.hints.entry(self.id).or_default();
        hints.note(peer, page, held);
    }

    fn held_around(&self, page: u64) -> Held {
        let start = page - page % HELD_PAGES;
        let mut held = Held::default();
        let around = self.file.pages.range(start..start + HELD_PAGES);
        let valid = |slot| self.ctx.frames.valid(slot);
        around
            .filter(|(_, page)| page.filled && page.slot.is_some_and(valid))
            .for_each(|(&number, _)| held.insert(number));
        held
    }
}
