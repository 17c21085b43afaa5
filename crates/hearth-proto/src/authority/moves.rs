//! Pages that move to who overwrites them, at their home.
//!
//! If one node alone has a page, another may have read it and be about to overwrite all of it. This one *claims*
//! it. It becomes the page's delegate and keeps the bytes, so that none cross the network. The bytes that the
//! last delegate wrote are void, and need not come back. Others that read are told where the page is, and ask
//! there. This is the migrating variant of single-copy caching. A page that one node after another reads and
//! overwrites has its bytes sent once.
//!
//! ```text
//!                 Claim                            Claim of another
//!   at its home ─────────▶ delegated ──────────────────────────────────────────▶ delegated to that one
//!        ▲                     │      TakeBack(All), Return without bytes, WriteOwn
//!        └─────────────────────┘
//!          a partial write, a hold, a cut, a flush; a read sent on in vain (see `delegate`)
//! ```
//!
//! Invariants:
//! - MOVE-1 (I1, I3): the bytes of a delegate are void only for a write of that page alone, while nobody has a copy.
//!   Such a write waits for nothing but the delegate's word and cannot fail. A write that waits for readers may
//!   have to give one of them the old bytes (A2), so the home must have these. A delegate that goes on keeping
//!   some of the page sends them along.
//! - MOVE-2 (I6): a flush for a node follows the page that its bytes have moved on with, until the home has them
//!   or what replaced them.
//! - MOVE-3 (I13): if a later delegate dies with bytes of an earlier writer, that writer is told with its next
//!   flush.

use super::delegate::SHARE;
use super::{FlushAsk, Home, Page, PendingWrite, ReadAsk, Verdict, Waiting, WriteAsk};
use crate::effect::{Alarm, Effect, Piece, Src};
use crate::errno;
use crate::guard::Guard;
use crate::ids::{Gen, NodeId, ReqId};
use crate::msg::{Body, Goal, Left, Moved, Wanted};
use alloc::vec::Vec;

impl WriteAsk {
    /// True if the bytes stay at the writer.
    pub(super) fn is_claim(&self) -> bool {
        self.data.src == Src::Zero
    }
}

impl Home<'_, '_> {
    /// A node is about to overwrite a page, and would keep it.
    pub(super) fn take_claim(&mut self, of: (NodeId, ReqId, Gen), page: u64, dropped: bool) {
        let len = self.ctx.config.page_bytes;
        let nothing = Piece {
            src: Src::Zero,
            at: 0,
            len,
        };
        let place = (self.ctx.config.page_start(page), len);
        let ask = WriteAsk {
            dropped,
            ..self.write_ask(of, place, nothing)
        };
        self.file.waiting.push_back(Waiting::Write(ask));
    }

    /// True if the write replaces every byte of a page, and takes place whatever happens.
    fn overwrites(&self, ask: &WriteAsk, number: u64) -> bool {
        let start = self.ctx.config.page_start(number);
        let end = self.ctx.config.page_start(number + 1);
        let whole = ask.offset <= start && end <= ask.offset + u64::from(ask.len);
        whole && ask.ranges.is_none() && ask.staged.is_none() && !ask.aside
    }

    /// Calls back what is delegated of a write's pages, but those that it overwrites. True while something is.
    pub(super) fn calls_back_for(&mut self, ask: &WriteAsk, first: u64, count: u32) -> bool {
        if !self.ctx.config.moves() {
            return self.calls_back(first, count, Wanted::Part);
        }
        if !self.ctx.config.keeps(Guard::DelegateCalledBack) {
            return false;
        }
        let mut back = self.delegated(first, first.saturating_add(u64::from(count)));
        let waits = count > 1 || !self.readers_before(ask, first, count).is_empty();
        let voids = !waits || !self.ctx.config.keeps(Guard::OldBytesKept);
        back.retain(|&number| {
            let own = self.file.pages.get(&number).and_then(|page| page.own);
            // One that was called back for somebody else comes back first. So nobody chases it for ever.
            !(voids
                && self.overwrites(ask, number)
                && own.is_some_and(|own| own.lender().is_some()))
        });
        for &number in &back {
            self.call_back_page(number, Wanted::Part);
        }
        !back.is_empty()
    }

    /// Has writers that cannot be delegates send their bytes.
    pub(super) fn refuse_claim(&mut self, ask: &WriteAsk) -> Option<Verdict> {
        if !ask.is_claim() {
            return None;
        }
        let number = self.ctx.config.page_of(ask.offset);
        let page = self.file.pages.get(&number);
        let moves = page.is_some_and(|page| page.own.is_some());
        let room = self.common.delegated.len() < (self.ctx.config.frames / SHARE).max(1) as usize;
        let may = (moves || room) && ask.from != self.ctx.me() && self.file.failed.is_none();
        if may {
            return None;
        }
        let (id, generation) = (self.id, ask.generation);
        self.ctx
            .answer(ask.from, id, generation, ask.req, Body::WriteHere);
        Some(Verdict::Done)
    }

    /// A write has begun. The bytes that delegates of its pages wrote are void (MOVE-1). True if there are such.
    pub(super) fn void(&mut self, first: u64, count: u32) -> bool {
        let pages = match self.ctx.config.moves() {
            true => self.delegated(first, first.saturating_add(u64::from(count))),
            false => Vec::new(),
        };
        for &number in &pages {
            self.call_back_page(number, Wanted::All);
            if let Some(page) = self.file.pages.get_mut(&number) {
                page.writers.extend(page.own.map(|own| own.node()));
            }
        }
        !pages.is_empty()
    }

    /// A delegate whose page is about to be written has gone on keeping some of it. It is called back like any
    /// reader.
    pub(super) fn await_kept(&mut self, number: u64, node: NodeId, left: Left) {
        if left != Left::Copy {
            return;
        }
        let ver = self.common.ver();
        for at in 0..self.file.writes.len() {
            let write = &self.file.writes[at];
            if !write.touches(number, 1) || write.awaits(node) {
                continue;
            }
            let (first, count) = (write.first, write.count);
            let more = self.invalidate(core::iter::once(node), first, count, ver);
            self.file.writes[at].awaiting.extend(more);
        }
    }

    /// Nobody has the page any more but who claimed it.
    pub(super) fn apply_claim(&mut self, write: &PendingWrite) {
        let (number, ask) = (write.first, &write.ask);
        let page = self.file.pages.entry(number).or_default();
        page.readers.clear();
        page.reserved = false;
        if self.ctx.peers.is_down(ask.from) {
            page.settle(self.ctx.frames);
            if write.voids {
                let alarm = Alarm::BytesLost(self.id, ask.from);
                self.ctx.out.push(Effect::Alarm(alarm));
                self.note_bereft(number, ask.from);
            }
            return;
        }
        page.writers.insert(ask.from);
        self.delegate(number, ask.from, write.ver);
        let (page, grant) = (number, write.ver);
        let body = Body::WriteOwn { page, grant };
        self.ctx
            .answer(ask.from, self.id, ask.generation, ask.req, body);
    }

    /// Tells a reader which of its pages delegates have; false if they are to be called back.
    pub(super) fn sends_on(&mut self, ask: &ReadAsk) -> bool {
        if !self.ctx.config.moves() || ask.keep || ask.aside || ask.here {
            return false;
        }
        let pages = self.delegated(ask.first, ask.first.saturating_add(u64::from(ask.count)));
        let moved = |&page: &u64| {
            let own = self.file.pages.get(&page)?.own?;
            let node = own.lender().filter(|&node| node != ask.from)?;
            Some(Moved { page, node })
        };
        let Some(moved) = pages.iter().map(moved).collect::<Option<Vec<Moved>>>() else {
            return false;
        };
        if moved.is_empty() {
            return false;
        }
        let (id, generation) = (self.id, self.file.generation);
        let body = Body::Elsewhere(moved);
        self.ctx.answer(ask.from, id, generation, ask.req, body);
        true
    }

    /// True if a page has moved on with, or instead of, what the node wrote of it (MOVE-2).
    pub(super) fn has_moved_from(&self, page: &Page, node: NodeId) -> bool {
        self.ctx.config.moves()
            && self.ctx.config.keeps(Guard::MovedFollowed)
            && page.writers.contains(node)
    }

    /// Calls pages back that moved on after they had been called back for a flush (MOVE-2).
    pub(super) fn follow_moved(&mut self, ask: &mut FlushAsk) {
        for (number, grant) in &mut ask.recalled {
            let own = self.file.pages.get(number).and_then(|page| page.own);
            let moved = own.filter(|own| own.grant() != *grant);
            if let Some(own) = moved.filter(|_| self.ctx.config.keeps(Guard::MovedFollowed)) {
                *grant = own.grant();
                self.call_back_page(*number, Wanted::Bytes);
            }
        }
    }

    /// True while a page is between two delegates.
    pub(super) fn is_moving(&self, number: u64) -> bool {
        let moves = |write: &PendingWrite| write.voids && write.touches(number, 1);
        self.file.writes.iter().any(moves)
    }

    /// A delegate is gone, and with it bytes of a page that others wrote (MOVE-3).
    pub(super) fn note_bereft(&mut self, number: u64, peer: NodeId) {
        let page = self.file.pages.get(&number);
        if let Some(page) = page.filter(|_| self.ctx.config.moves()) {
            let others = page.writers.iter().filter(|&node| node != peer);
            self.file.bereft.extend(others);
        }
    }

    /// Fails the flush of a node whose bytes are lost, once (MOVE-3).
    pub(super) fn tells_loss(&mut self, from: NodeId, req: ReqId, goal: Goal) -> bool {
        let told = goal != Goal::All && self.file.bereft.remove(from);
        if told {
            self.fail(from, req, errno::EIO);
        }
        told
    }
}
