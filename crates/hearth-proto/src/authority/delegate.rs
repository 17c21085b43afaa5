//! Pages that a node writes by itself, at their home.
//!
//! A node that alone uses a page repeatedly is made its *delegate*, with the answer to a write or to a read
//! that follows one: it reads and writes the page without a message until the home calls it back.
//!
//! ```text
//!          WriteOwn, Grant(Own)                TakeBack
//!   free ───────────────────────▶ delegated ─────────────▶ called back
//!    ▲                              │ Return(Own): bytes       │ Return(Own): bytes
//!    │                              ▼                          ▼
//!    └──── Return(Nothing, Copy), the delegate is gone, the file begins a new life
//! ```
//!
//! | state | event | action | next |
//! | --- | --- | --- | --- |
//! | free | write or read of the node that alone used the page for the last so many times | answer with a grant | delegated |
//! | delegated | read, write, hold of anybody; cut; flush of all by another node; a request lacks memory | `TakeBack`, the request waits | called back |
//! | called back | the same | the request waits | same |
//! | any but free | `Return` with the number of the grant | take the bytes as one more writer's, at once | as `left` says |
//! | any | `Return` with another number | nothing: it crossed, or is of a grant that ended | same |
//! | any but free | the delegate is gone | its bytes are lost: people are told | free |
//!
//! Invariants:
//! - GRANT-1 (I1, I2): while a page is delegated nobody else has a copy of it, and its home gives none, nor shows
//!   it to its own node. The grant is given when all acknowledgements are in (A1).
//! - GRANT-2: a return counts only if it names the page's grant and comes from its delegate.
//! - GRANT-3 (I16): a returned byte never waits. The home keeps the page's frame as long as it is delegated, and
//!   delegates at most one page in [`SHARE`] of its pool; so dirty bytes exceed the limit of A5 by no
//!   more than that.
//! - GRANT-4 (I6): a flush that speaks for everybody waits for the bytes of all delegates of the file. One that
//!   speaks for its asker comes after the bytes that the asker wrote by itself.
//! - GRANT-5: a cut finds no page of the file delegated, so no grant outlives a generation.
//!
//! A page that is called back before it was worth it is delegated later the next time: a file that is
//! shared costs few messages more than without delegates.

use super::{Authority, FlushAsk, Home, PendingWrite, ReadAsk};
use crate::ctx::Ctx;
use crate::effect::{Alarm, Piece};
use crate::guard::Guard;
use crate::ids::{NodeId, Ver};
use crate::msg::{Body, Goal, Left, Use, Wanted};
use crate::time::Time;
use alloc::vec::Vec;

/// One page in so many of a pool may be delegated.
pub(super) const SHARE: u32 = 8;

/// Uses by one node alone after which it may become the delegate, if nothing is known of the page.
const USES_FIRST: u8 = 2;

/// How often that number is doubled at most.
const DOUBLED_MAX: u8 = 4;

/// The delegate of a page: the node that writes it by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Own {
    node: NodeId,
    grant: Ver,
    recalled: bool,
    /// All of the page is about to be overwritten: what it wrote does not come back.
    voided: bool,
    /// It has sent bytes back.
    wrote: bool,
}

impl Own {
    /// A grant that has just been given.
    fn new(node: NodeId, grant: Ver) -> Own {
        Own {
            node,
            grant,
            recalled: false,
            voided: false,
            wrote: false,
        }
    }

    /// The node that others may ask for the page.
    pub(super) fn lender(&self) -> Option<NodeId> {
        (!self.recalled).then_some(self.node)
    }

    pub(super) fn is_voided(&self) -> bool {
        self.voided
    }

    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    pub(super) fn grant(&self) -> Ver {
        self.grant
    }
}

/// The one node that has used a page of late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Sole {
    node: NodeId,
    uses: u8,
    wrote: bool,
    /// How often a grant was not worth it.
    vain: u8,
}

impl Sole {
    fn needed(&self) -> u8 {
        USES_FIRST << self.vain.min(DOUBLED_MAX)
    }

    /// The node has used the page once more.
    fn count(&mut self, node: NodeId, write: bool) {
        if self.node != node {
            (self.node, self.uses, self.wrote) = (node, 0, false);
        }
        self.uses = (self.uses + 1).min(USES_FIRST << DOUBLED_MAX);
        self.wrote |= write;
    }

    /// The page is shared: who has used it counts anew.
    pub(super) fn forget(&mut self) {
        (self.uses, self.wrote) = (0, false);
    }

    fn has_earned(&self, node: NodeId) -> bool {
        self.node == node && self.wrote && self.uses >= self.needed()
    }
}

impl Home<'_, '_> {
    /// Somebody asks for pages: whoever used them alone does so no more.
    pub(super) fn note_user(&mut self, from: NodeId, body: &Body) {
        if !self.ctx.config.delegates() {
            return;
        }
        let config = self.ctx.config;
        let (first, count) = match *body {
            Body::Read { first, count, .. } | Body::Hold { first, count, .. } => (first, count),
            Body::Write { offset, len, .. } | Body::Stage { offset, len, .. } if len > 0 => {
                config.pages_of(offset, u64::from(len))
            }
            _ => return,
        };
        let pages = first..first.saturating_add(u64::from(count));
        for (_, page) in self.file.pages.range_mut(pages) {
            if page.sole.node != from {
                let vain = page.sole.vain;
                page.sole = Sole {
                    node: from,
                    vain,
                    ..Sole::default()
                };
            }
        }
    }

    /// True if the page can be delegated to a node as far as the home is concerned.
    fn can_delegate(&self, number: u64, to: NodeId) -> bool {
        let bound = (self.ctx.config.frames / SHARE).max(1) as usize;
        let page = self.file.pages.get(&number);
        let earned = page.is_some_and(|page| {
            let others = page.readers.iter().any(|reader| reader != to);
            page.own.is_none() && !others && page.sole.has_earned(to)
        });
        earned
            && to != self.ctx.me()
            && !self.ctx.peers.is_down(to)
            && self.file.bar.is_none()
            && self.file.failed.is_none()
            && !self
                .file
                .writes
                .iter()
                .any(|write| write.touches(number, 1))
            && self.common.delegated.len() < bound
    }

    pub(super) fn delegate(&mut self, number: u64, node: NodeId, grant: Ver) {
        self.common.take_back(self.ctx, self.id, number);
        let page = self.file.pages.entry(number).or_default();
        page.readers.remove(node);
        page.own = Some(Own::new(node, grant));
        page.settle(self.ctx.frames);
        self.common.delegated.insert((self.id, number));
    }

    /// The answer to a write that has been applied, if its page is the writer's from now on.
    pub(super) fn own_after(&mut self, write: &PendingWrite) -> Option<Body> {
        if !self.ctx.config.delegates() {
            return None;
        }
        let ask = &write.ask;
        let pages = write.first..write.first + u64::from(write.count);
        for (_, page) in self.file.pages.range_mut(pages) {
            page.sole.count(ask.from, true);
        }
        let asked = ask.alone && ask.record && write.count == 1;
        if !asked || !self.can_delegate(write.first, ask.from) {
            return None;
        }
        self.delegate(write.first, ask.from, write.ver);
        let (page, grant) = (write.first, write.ver);
        Some(Body::WriteOwn { page, grant })
    }

    /// The use for which a page is granted to its reader, if it is the reader's from now on.
    pub(super) fn own_for(&mut self, ask: &ReadAsk) -> Option<Use> {
        if !self.ctx.config.delegates() {
            return None;
        }
        let pages = ask.first..ask.first + u64::from(ask.count);
        for (_, page) in self.file.pages.range_mut(pages) {
            page.sole.count(ask.from, false);
        }
        // A way in of its node may keep bytes of the page, and would not hear of what the node writes by itself
        // (DELEGATE-3).
        let page = self.file.pages.get(&ask.first);
        let keeps = page.is_some_and(|page| page.readers.contains(ask.from));
        let asked = ask.record && !ask.keep && ask.count == 1 && !keeps;
        if !asked || !self.can_delegate(ask.first, ask.from) {
            return None;
        }
        let grant = self.common.next_ver();
        self.delegate(ask.first, ask.from, grant);
        Some(Use::Own(grant))
    }

    /// Calls back what is delegated of these pages; true while something is.
    pub(super) fn calls_back(&mut self, first: u64, count: u32, wanted: Wanted) -> bool {
        if !self.ctx.config.keeps(Guard::DelegateCalledBack) {
            return false;
        }
        let pages = self.delegated(first, first.saturating_add(u64::from(count)));
        for &number in &pages {
            self.call_back_page(number, wanted);
        }
        !pages.is_empty()
    }

    /// The same for a cut (GRANT-5).
    pub(super) fn calls_back_for_cut(&mut self) -> bool {
        if !self.ctx.config.keeps(Guard::CutCallsDelegates) {
            return false;
        }
        let pages = self.delegated(0, u64::MAX);
        for &number in &pages {
            self.call_back_page(number, Wanted::Part);
        }
        !pages.is_empty()
    }

    pub(super) fn delegated(&self, first: u64, end: u64) -> Vec<u64> {
        let range = (self.id, first)..(self.id, end);
        let pages = self.common.delegated.range(range);
        pages.map(|&(_, number)| number).collect()
    }

    pub(super) fn call_back_page(&mut self, page: u64, wanted: Wanted) {
        let (id, generation) = (self.id, self.file.generation);
        let own = self.file.pages.get_mut(&page);
        let Some(own) = own.and_then(|page| page.own.as_mut()) else {
            return;
        };
        if core::mem::replace(&mut own.recalled, true) {
            return;
        }
        own.voided = wanted == Wanted::All;
        let (node, grant) = (own.node, own.grant);
        let body = Body::TakeBack {
            page,
            grant,
            wanted,
        };
        self.ctx.ask(node, id, generation, body);
    }

    /// Calls back what others write by themselves, for a flush that speaks for everybody (GRANT-4): pages and
    /// the numbers of their grants.
    pub(super) fn call_back_for_flush(&mut self, from: NodeId, goal: Goal) -> Vec<(u64, Ver)> {
        if !self.ctx.config.keeps(Guard::FlushCallsBack) {
            return Vec::new();
        }
        let follows = self.ctx.config.moves() && self.ctx.config.keeps(Guard::MovedFollowed);
        // A node that syncs has sent back what it wrote; a manager asks for everybody, its own node too. A
        // page that a node has claimed, and has sent nothing of, may have come to it after it asked for this.
        let is_back = |own: &Own| goal != Goal::All && own.node == from && (own.wrote || !follows);
        let mut called = Vec::new();
        for number in self.delegated(0, u64::MAX) {
            let Some(page) = self.file.pages.get(&number) else {
                continue;
            };
            let concerned = match goal {
                Goal::Own | Goal::Sealed => self.has_moved_from(page, from),
                Goal::All | Goal::Synced => true,
            };
            if let Some(own) = page.own.filter(|own| concerned && !is_back(own)) {
                self.call_back_page(number, Wanted::Bytes);
                called.push((number, own.grant));
            }
        }
        called
    }

    /// True while pages that were called back for a flush are out; those that are back are part of it.
    pub(super) fn awaits_return(&mut self, ask: &mut FlushAsk) -> bool {
        self.follow_moved(ask);
        let pages = &self.file.pages;
        let need = &mut ask.need;
        ask.recalled.retain(|&(number, grant)| {
            let page = pages.get(&number);
            let own = page.and_then(|page| page.own);
            if own.is_some_and(|own| own.grant == grant) || self.is_moving(number) {
                return true;
            }
            if let Some(page) = page.filter(|page| page.dirty_bytes() > 0) {
                match need.binary_search_by_key(&number, |&(known, _)| known) {
                    Ok(at) => need[at].1 = page.ver,
                    Err(at) => need.insert(at, (number, page.ver)),
                }
            }
            false
        });
        !ask.recalled.is_empty()
    }

    /// A delegate has sent bytes back.
    pub(super) fn returned(&mut self, from: NodeId, body: &Body, data: Option<Piece>) {
        if let Body::Return {
            page,
            grant,
            ranges,
            left,
        } = body
        {
            let own = self.file.pages.get(page).and_then(|page| page.own);
            let careful = self.ctx.config.keeps(Guard::GrantMatched);
            let named = |own: &Own| own.node == from && own.grant == *grant;
            if let Some(own) = own.filter(|own| named(own) || !careful) {
                let wrote = self.take_ranges((*page, own.node), ranges, data);
                self.go_on_or_end(*page, wrote, *left);
                self.await_kept(*page, own.node, *left);
            }
        }
        self.free(from, data);
    }

    /// Puts returned bytes in place; true if there were any.
    fn take_ranges(&mut self, of: (u64, NodeId), ranges: &[u32], data: Option<Piece>) -> bool {
        let (number, writer) = of;
        let Some(mut rest) = data else { return false };
        let ver = self.common.next_ver();
        for range in ranges.chunks_exact(2) {
            let (start, len) = (range[0], range[1]);
            let end = start.saturating_add(len);
            if len == 0 || len > rest.len || end > self.ctx.config.page_bytes {
                break;
            }
            self.put_bytes(number, start, Piece { len, ..rest }, (writer, ver));
            rest.at += len;
            rest.len -= len;
        }
        self.note_age(number);
        self.relist();
        true
    }

    fn go_on_or_end(&mut self, number: u64, wrote: bool, left: Left) {
        let now = self.ctx.now.0;
        let Some(page) = self.file.pages.get_mut(&number) else {
            return;
        };
        let Some(own) = page.own.as_mut() else {
            return;
        };
        own.wrote |= wrote;
        match left {
            // They have been dirty for a while, where they were written.
            Left::Own => {
                let age = self.ctx.config.flush_age;
                page.since = page.since.map(|_| Time(now.saturating_sub(age.0)));
                self.note_age(number);
                return self.relist();
            }
            Left::Copy => {
                let node = own.node;
                self.common.grants += 1;
                page.granted = self.common.grants;
                page.readers.insert(node);
                page.lately = Some(node);
            }
            Left::Nothing => {}
        }
        page.sole.vain = match page.own.is_some_and(|own| own.wrote) {
            true => page.sole.vain.saturating_sub(1),
            false => (page.sole.vain + 1).min(DOUBLED_MAX),
        };
        self.end_grant(number);
    }

    fn end_grant(&mut self, number: u64) {
        self.common.delegated.remove(&(self.id, number));
        if let Some(page) = self.file.pages.get_mut(&number) {
            page.own = None;
            if page.dirty_bytes() == 0 && !page.reserved {
                page.writers.clear();
            }
            page.settle(self.ctx.frames);
            if page.idle() {
                self.file.pages.remove(&number);
            }
        }
    }

    /// The delegate of some pages is gone, and what it had not sent back with it.
    pub(super) fn lose_delegate(&mut self, peer: NodeId) {
        self.file.bereft.remove(peer);
        let mut lost = self.delegated(0, u64::MAX);
        lost.retain(|number| {
            let own = self.file.pages.get(number).and_then(|page| page.own);
            own.is_some_and(|own| own.node == peer)
        });
        if !lost.is_empty() {
            let alarm = Alarm::BytesLost(self.id, peer);
            self.ctx.out.push(crate::Effect::Alarm(alarm));
        }
        for number in lost {
            self.note_bereft(number, peer);
            self.end_grant(number);
        }
    }

    /// The file that delegates write is gone.
    pub(super) fn end_delegates(&mut self) {
        self.file.bereft.clear();
        for number in self.delegated(0, u64::MAX) {
            self.end_grant(number);
        }
    }
}

impl Authority {
    /// A request lacks memory: frames of delegated pages would help.
    pub(super) fn recall_for_frames(&mut self, ctx: &mut Ctx<'_>) {
        if !self.common.lacks_frames {
            return;
        }
        for (id, number) in self.common.delegated.clone() {
            self.home(ctx, id).call_back_page(number, Wanted::Bytes);
        }
    }

    /// Checks that the list of delegated pages is what pages say (GRANT-3).
    pub(super) fn assert_delegated(&self) {
        let pages = self.files.iter().flat_map(|(&id, file)| {
            let owned = file.pages.iter().filter(|(_, page)| page.own.is_some());
            owned.map(move |(&number, page)| ((id, number), page.slot.is_some()))
        });
        let listed = self.common.delegated.iter().map(|&page| (page, true));
        assert!(
            pages.eq(listed),
            "GRANT-3: delegated pages are listed and have frames"
        );
    }
}
