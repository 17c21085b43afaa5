//! Reads at the home.

use super::through::Stage;
use super::{Authority, Bar, Home, PATIENCE, ReadAsk, Verdict, Waiting, cut};
use crate::config::{Config, Copies, Evicted};
use crate::ctx::Ctx;
use crate::effect::{Effect, Piece, Src};
use crate::frames::{Frames, Slot};
use crate::guard::Guard;
use crate::ids::{FileId, NodeId, ReqId};
use crate::msg::{Body, Cut, Origin, Use, Wanted};
use crate::semantics::Semantics;
use alloc::vec::Vec;

/// The effect of an unfinished write or cut on a read of its pages.
enum Obstacle {
    Clear,
    /// The reader's own acknowledgement is awaited: it gets the old bytes for one use (A2).
    Once,
    /// It has waited long enough: as `Once`, and its acknowledgement is awaited from now on.
    Join,
    Wait,
    /// A window, or a write on its way to the store: it waits for its end. The store may have the new bytes at
    /// any moment.
    Closed,
    /// It has waited long enough for a write over several homes, which has to give way.
    Locked,
}

impl ReadAsk {
    /// The bytes of a page that are wanted: the first, and the end. A page that is not for one use is wanted
    /// whole.
    pub(super) fn wants_of(&self, config: &Config, good: Use, number: u64) -> (u32, u32) {
        let whole = config.page_bytes;
        if good != Use::Once {
            return (0, whole);
        }
        let from = if number == self.first { self.skip } else { 0 };
        let last = number + 1 == self.first + u64::from(self.count);
        let to = whole.saturating_sub(if last { self.spare } else { 0 });
        (from.min(whole), to)
    }
}

impl Home<'_, '_> {
    /// Takes in a request for pages.
    pub(super) fn take_read(&mut self, from: NodeId, req: ReqId, body: &Body) {
        if let Body::Read {
            first,
            count,
            keep,
            record,
            aside,
            skip,
            spare,
            here,
        } = *body
        {
            self.file.waiting.push_back(Waiting::Read(ReadAsk {
                from,
                req,
                first,
                count,
                keep,
                record,
                aside: aside && !keep && self.passes_by(),
                skip,
                spare,
                here,
                since: self.ctx.now,
                filled: false,
            }));
        }
    }

    pub(super) fn try_read(&mut self, ask: &mut ReadAsk) -> Verdict {
        let obstacle = self.obstacle(ask);
        match obstacle {
            Obstacle::Wait => {
                self.wake_at(ask.since + PATIENCE);
                return Verdict::Wait;
            }
            Obstacle::Closed => return Verdict::Wait,
            Obstacle::Locked => {
                self.wound_writers(ask.first, ask.count);
                return Verdict::Wait;
            }
            Obstacle::Clear | Obstacle::Once | Obstacle::Join => {}
        }
        if matches!(obstacle, Obstacle::Clear) && self.sends_on(ask) {
            return Verdict::Done;
        }
        if self.calls_back(ask.first, ask.count, Wanted::Bytes) {
            return Verdict::Wait;
        }
        if matches!(obstacle, Obstacle::Clear) && ask.aside && !self.has_all(ask) {
            return self.try_aside(ask);
        }
        if !self.fill(ask) {
            return Verdict::Wait;
        }
        match obstacle {
            Obstacle::Clear => {
                let good = self.own_for(ask).unwrap_or(self.good_for(ask.from));
                self.grant(ask, good);
                let blocks = ask.first..ask.first + u64::from(ask.count);
                for block in blocks {
                    self.populate(block);
                }
            }
            Obstacle::Once => {
                self.grant(ask, Use::Once);
                self.forget_detached();
            }
            Obstacle::Join => {
                self.grant(ask, Use::Once);
                self.forget_detached();
                self.join(ask);
            }
            Obstacle::Wait | Obstacle::Closed | Obstacle::Locked => {}
        }
        Verdict::Done
    }

    /// How long bytes that nothing is about to change are good for a reader.
    fn good_for(&self, reader: NodeId) -> Use {
        match self.ctx.config.rules().copies {
            Copies::One if reader != self.ctx.me() => Use::Once,
            Copies::One | Copies::Many => Use::Copy,
        }
    }

    fn obstacle(&self, ask: &ReadAsk) -> Obstacle {
        let writes = || {
            self.file
                .writes
                .iter()
                .filter(|w| w.touches(ask.first, ask.count))
        };
        let barred = self.is_barred(ask.first, ask.count);
        let kept = self.ctx.config.keeps(Guard::BusyPagesWait);
        if (writes().next().is_none() || !kept) && !barred {
            return Obstacle::Clear;
        }
        let unread = self.ctx.config.keeps(Guard::StagedUnread);
        if unread && writes().any(|write| write.stage == Stage::Held) {
            // Another home may have applied it already: old bytes would be a step back.
            return match ask.since + PATIENCE > self.ctx.now {
                true => Obstacle::Wait,
                false => Obstacle::Locked,
            };
        }
        let awaited = |list: &[(NodeId, u64)]| list.iter().any(|&(node, _)| node == ask.from);
        let mut bars = self.file.bar.iter();
        // Each of them must be able to tell when the reader's kernel has let go of the bytes.
        if bars.all(|bar| awaited(&bar.awaiting)) && writes().all(|w| awaited(&w.awaiting)) {
            return Obstacle::Once;
        }
        let window = |bar: &Bar| matches!(bar.cut, Cut::Window { .. });
        let storing = writes().any(|write| write.stage != Stage::Calling);
        let emptying = self.file.bar.as_ref().is_some_and(|bar| bar.empties());
        if barred && self.file.bar.as_ref().is_some_and(window) || storing || barred && emptying {
            return Obstacle::Closed;
        }
        if ask.since + PATIENCE > self.ctx.now {
            Obstacle::Wait
        } else {
            Obstacle::Join
        }
    }

    /// The reader got old bytes and may keep them in its kernel: await its acknowledgement as well. That is for
    /// all that the write or cut changes, so that it may be given more of it.
    fn join(&mut self, ask: &ReadAsk) {
        let ver = self.common.ver();
        for at in 0..self.file.writes.len() {
            let write = &self.file.writes[at];
            if !write.touches(ask.first, ask.count) || write.awaits(ask.from) {
                continue;
            }
            let (first, count) = (write.first, write.count);
            let more = self.invalidate(core::iter::once(ask.from), first, count, ver);
            self.file.writes[at].awaiting.extend(more);
        }
        let Some(cut) = self.file.bar.as_ref().map(|bar| bar.cut) else {
            return;
        };
        let (first, count) = cut::pages_of(self.ctx.config, cut);
        let more = self.invalidate(core::iter::once(ask.from), first, count, ver);
        if let Some(bar) = &mut self.file.bar {
            bar.awaiting.extend(more);
        }
    }

    /// Some opener of a file that is being detached may write to the store already. The next read that comes here
    /// must see that.
    fn forget_detached(&mut self) {
        let left = |bar: &Bar| bar.cut == Cut::Detach && bar.answered;
        if !self.file.bar.as_ref().is_some_and(left) {
            return;
        }
        self.ctx.reopen(self.id);
        // One read of the store may have filled pages for several, and a read may gather some: it begins anew.
        for page in self.file.pages.values_mut() {
            page.pinned = false;
            if page.busy() {
                continue;
            }
            if let Some(slot) = page.slot {
                self.ctx.frames.give_back(slot);
            }
            page.vacate();
        }
        self.file.pages.retain(|_, page| !page.idle());
    }

    /// True if a write or cut that is under way touches the page.
    fn is_changing(&self, number: u64) -> bool {
        let bar = self.file.bar.as_ref();
        let cut = bar.is_some_and(|bar| bar.touches(self.ctx.config, number, 1));
        cut || self.file.writes.iter().any(|w| w.touches(number, 1))
    }

    pub(super) fn grant(&mut self, ask: &ReadAsk, good: Use) {
        let me = self.ctx.me();
        let end = self.shown_end();
        let asks_readers = self.ctx.config.rules().evicted == Evicted::Readers;
        let mut lens = Vec::with_capacity(ask.count as usize);
        let mut data = Vec::with_capacity(ask.count as usize);
        for number in ask.first..ask.first + u64::from(ask.count) {
            let kept = match good {
                Use::Copy => ask.from != me || ask.keep,
                Use::Own(_) => false,
                // The kernel keeps what it reads; the write under way calls back only its own pages.
                Use::Once => ask.keep && !self.is_changing(number),
            };
            let page = self
                .file
                .pages
                .get_mut(&number)
                .expect("try_read filled every page");
            let slot = page.slot.expect("a filled page has a frame");
            let below = end.saturating_sub(self.ctx.config.page_start(number));
            let (from, to) = ask.wants_of(self.ctx.config, good, number);
            let to = u64::from(page.extent.min(to)).min(below) as u32;
            let len = to.saturating_sub(from);
            lens.push(len);
            if len > 0 {
                data.push(Piece {
                    src: Src::Frame(slot.frame),
                    at: from,
                    len,
                });
            }
            if kept {
                self.common.grants += 1;
                page.granted = self.common.grants;
                self.common.take_back(self.ctx, self.id, number);
                if ask.record && self.ctx.config.keeps(Guard::ReaderRecorded) {
                    page.readers.insert(ask.from);
                    page.lately = asks_readers.then_some(ask.from);
                }
            }
            self.ctx.frames.touch(slot);
        }
        if ask.from == me {
            data = self.stash_own(good, data);
        }
        self.send_grant(ask, good, self.origin_of(ask), (lens, data));
    }

    /// The place where granted bytes were found.
    fn origin_of(&self, ask: &ReadAsk) -> Origin {
        let lent = |number: u64| self.file.pages.get(&number).is_some_and(|page| page.lent);
        match ask.filled {
            false => Origin::Memory,
            true if (ask.first..ask.first + u64::from(ask.count)).all(lent) => Origin::Peer,
            true => Origin::Store,
        }
    }

    /// Answers with so many bytes of each page.
    pub(super) fn send_grant(
        &mut self,
        ask: &ReadAsk,
        good: Use,
        origin: Origin,
        (lens, data): (Vec<u32>, Vec<Piece>),
    ) {
        let ver = self.common.ver();
        let body = Body::Grant {
            first: ask.first,
            skip: ask.wants_of(self.ctx.config, good, ask.first).0,
            lens,
            ver,
            good,
            origin,
        };
        let (file, generation) = (self.id, self.file.generation);
        self.ctx
            .answer_with(ask.from, file, generation, ask.req, body, data);
    }

    /// End of the bytes that may be shown. The manager may have told everybody of a truncation. This home has
    /// agreed to it, and may have yet to be told that it is done.
    pub(super) fn shown_end(&self) -> u64 {
        match &self.file.bar {
            Some(bar) if bar.answered && bar.result.is_ok() => match bar.cut {
                Cut::Shrink(size) => size,
                Cut::Outside
                | Cut::Detach
                | Cut::Laminate
                | Cut::HandOver(_)
                | Cut::Window { .. } => u64::MAX,
            },
            Some(_) | None => u64::MAX,
        }
    }

    /// This node reads a granted page in place, but bytes for one use must not change under it.
    pub(super) fn stash_own(&mut self, good: Use, data: Vec<Piece>) -> Vec<Piece> {
        if good == Use::Copy || data.is_empty() {
            return Vec::new();
        }
        let buf = self.ctx.new_buf();
        let len = data.iter().map(|piece| piece.len).sum();
        self.ctx.out.push(Effect::Stash { buf, data });
        alloc::vec![Piece {
            src: Src::Buf(buf),
            at: 0,
            len
        }]
    }
}

impl Authority {
    /// The frame and known length of a page that can be read here and now without asking anybody.
    pub(crate) fn readable(&self, ctx: &Ctx<'_>, id: FileId, number: u64) -> Option<(Slot, u32)> {
        self.readable_in(ctx.config, ctx.frames, id, number)
    }

    /// The same between steps.
    pub(crate) fn readable_in(
        &self,
        config: &Config,
        frames: &Frames,
        id: FileId,
        number: u64,
    ) -> Option<(Slot, u32)> {
        let file = self.files.get(&id)?;
        if file.is_barred(config, number, 1) || file.writes.iter().any(|w| w.touches(number, 1)) {
            return None;
        }
        let page = file.pages.get(&number)?;
        let slot = page.slot.filter(|&slot| frames.valid(slot))?;
        let called = page.own.is_none() || !config.keeps(Guard::DelegateCalledBack);
        (page.filled && called).then_some((slot, page.extent))
    }

    /// Remembers that this node's own way in keeps bytes of a page it is home of.
    pub(crate) fn keep_here(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: FileId,
        number: u64,
        semantics: Semantics,
    ) {
        self.common.take_back(ctx, id, number);
        if let Some(page) = self
            .files
            .get_mut(&id)
            .and_then(|f| f.pages.get_mut(&number))
        {
            self.common.grants += 1;
            page.granted = self.common.grants;
            if semantics.is_recorded() {
                page.readers.insert(ctx.me());
            }
        }
    }
}
