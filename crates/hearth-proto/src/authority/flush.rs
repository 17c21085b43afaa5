//! Bringing dirty bytes to the store: contiguous runs become one store write.

use super::{
    Authority, Failure, File, FlushAsk, Home, Page, RETRY_FIRST, RETRY_LONGEST, StoreOp, Verdict,
    Waiting,
};
use crate::RawErrno;
use crate::config::{Spill, Synced, Writes};
use crate::ctx::Ctx;
use crate::effect::{Alarm, Effect, Piece, Src};
use crate::errno::ESTALE;
use crate::guard::Guard;
use crate::ids::{FileId, FrameId, Gen, NodeId, ReqId, Stamp, Ver};
use crate::input::StoreOk;
use crate::msg::{Body, Cut, Goal};
use crate::ranges::Ranges;
use crate::time::Span;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// A file that could not be reached for so long is not to be found any more.
const UNREACHED: Span = Span::secs(2);

/// Pieces of pages that one step sends to the store: it is as long as that takes.
pub(super) const PIECES_A_STEP: usize = 32 * PIECES_A_WRITE;

/// Pieces that one store operation brings. A page with more goes in several, which run side by side.
const PIECES_A_WRITE: usize = 1024;

/// Dirty bytes of a page on their way to the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sent {
    pub(super) number: u64,
    pub(super) ranges: Ranges,
    ver: Ver,
}

/// One store operation: pieces that touch, or pieces of one page.
#[derive(Default)]
struct Load {
    data: Vec<(u64, Piece)>,
    sent: Vec<Sent>,
    bytes: u32,
}

impl Load {
    fn end(&self) -> Option<u64> {
        self.data
            .last()
            .map(|&(offset, piece)| offset + u64::from(piece.len))
    }

    /// True if pieces that begin at `offset` may come with these.
    fn takes(&self, offset: u64, ranges: &Ranges, longest: u32) -> bool {
        self.end() == Some(offset)
            && self.bytes + ranges.bytes() <= longest
            && self.data.len() + ranges.count() <= PIECES_A_WRITE
    }
}

impl Authority {
    /// Starts flushing everything that is dirty here.
    pub(crate) fn flush_all(&mut self, ctx: &mut Ctx<'_>) {
        let ids: Vec<FileId> = self.files.keys().copied().collect();
        for id in ids {
            self.home(ctx, id).start_flush();
        }
    }

    /// Files that no name leads to, and that no node has open which lives: nobody can read what is here of them. A view
    /// that is over does not wait for such.
    pub(crate) fn give_up_unreachable(&mut self, ctx: &mut Ctx<'_>) {
        let is_lost =
            |failure: &Failure| failure.errno == ESTALE && failure.since + UNREACHED <= ctx.now;
        let files = self.files.iter();
        let lost = files
            .filter(|(_, file)| file.flushing == 0 && file.failed.as_ref().is_some_and(is_lost));
        let lost: Vec<FileId> = lost.map(|(&id, _)| id).collect();
        for id in lost {
            self.home(ctx, id).give_up();
        }
    }
}

impl Home<'_, '_> {
    /// Orders store writes for all that is dirty and not on its way. True if anything is on its way.
    pub(super) fn start_flush(&mut self) -> bool {
        self.start_flush_of(|_| true)
    }

    /// The same for the pages of which `wanted` says so.
    pub(super) fn start_flush_of(&mut self, wanted: impl Fn(u64) -> bool) -> bool {
        let idle = self.file.ages.iter().map(|&(_, number)| number);
        let chosen = idle.filter(|&number| wanted(number)).collect();
        self.send_dirty(&chosen);
        !self.is_held_back() && self.flushing_here()
    }

    /// Between the answer to a cut and its end the store must stay as the manager's node makes it.
    pub(super) fn is_held_back(&self) -> bool {
        self.file.bar.as_ref().is_some_and(|bar| bar.answered)
    }

    /// Orders store writes for the dirty bytes of some pages, of which none is on its way. Pages that are too
    /// many for one step are due at once, and go with the next.
    pub(super) fn send_dirty(&mut self, pages: &BTreeSet<u64>) {
        self.put_off_copied(pages);
        if !self.is_held_back() {
            let mut load = Load::default();
            for &number in pages {
                self.load_page(&mut load, number);
            }
            self.send(load);
        }
        self.relist();
    }

    /// Takes what is dirty of a page, unless a store write of it is in flight (A3).
    fn load_page(&mut self, load: &mut Load, number: u64) {
        let is_free = !self.file.wards.has_older(number);
        let Some(page) = self.file.pages.get_mut(&number) else {
            return;
        };
        let Some(slot) = page.slot.filter(|_| page.writes == 0 && is_free) else {
            return;
        };
        let pieces = page.dirty.count();
        let is_first = self.ctx.counts.pieces == 0;
        page.urgent = !is_first && self.ctx.counts.pieces + pieces > PIECES_A_STEP;
        if page.urgent {
            self.ctx.counts.pieces = self.ctx.counts.pieces.max(PIECES_A_STEP);
            return self.note_age(number);
        }
        self.ctx.counts.pieces += pieces;
        let mut ranges = page.dirty.take();
        let ver = page.ver;
        page.writing += u64::from(ranges.bytes());
        page.writes += pieces.div_ceil(PIECES_A_WRITE) as u32;
        self.note_age(number);
        while !ranges.is_empty() {
            let rest = ranges.split_off(PIECES_A_WRITE);
            let sent = Sent {
                number,
                ranges,
                ver,
            };
            self.load(load, sent, slot.frame);
            ranges = rest;
        }
    }

    /// Adds pieces of a page to what goes to the store, or begins another load with them.
    fn load(&mut self, load: &mut Load, sent: Sent, frame: FrameId) {
        let base = self.ctx.config.page_start(sent.number);
        let first = sent.ranges.span().map_or(0, |(start, _)| start);
        let longest = self.ctx.config.store_io_bytes;
        if !load.takes(base + u64::from(first), &sent.ranges, longest) {
            self.send(core::mem::take(load));
        }
        let piece = |(start, end)| Piece {
            src: Src::Frame(frame),
            at: start,
            len: end - start,
        };
        let pieces = sent.ranges.iter().map(piece);
        let placed = pieces.map(|piece| (base + u64::from(piece.at), piece));
        load.data.extend(placed);
        load.bytes += sent.ranges.bytes();
        load.sent.push(sent);
    }

    fn send(&mut self, load: Load) {
        let Load { data, sent, bytes } = load;
        let Some(&(offset, _)) = data.first() else {
            return;
        };
        let (op, file) = (self.ctx.new_op(), self.id);
        self.ctx.stats.flush_writes += 1;
        self.common.sent_bytes += u64::from(bytes);
        self.common.ops.insert(op, StoreOp::Write { file, sent });
        self.file.flushing += 1;
        let end = data
            .last()
            .map(|&(last, piece)| last + u64::from(piece.len));
        let is_run = end == Some(offset + u64::from(bytes));
        self.ctx.out.push(match is_run {
            true => Effect::StoreWrite {
                op,
                file,
                offset,
                data: data.into_iter().map(|(_, piece)| piece).collect(),
            },
            false => Effect::StorePieces { op, file, data },
        });
    }

    /// True while store writes of dirty bytes are in flight.
    pub(super) fn flushing_here(&self) -> bool {
        self.file.flushing > 0
    }

    pub(super) fn written(&mut self, sent: Vec<Sent>, result: Result<StoreOk, RawErrno>) {
        self.file.flushing = self.file.flushing.saturating_sub(1);
        if result.is_ok() {
            self.keep_lagging(&sent);
        }
        let pages: BTreeSet<u64> = sent.iter().map(|sent| sent.number).collect();
        for sent in sent {
            self.page_written(sent, result.is_ok());
        }
        match result {
            Ok(_) => {
                self.stop_lagging(pages.iter().copied());
                self.trim(pages.into_iter());
                self.file.failed = None;
                self.file.spilled |= self.ctx.config.has_tier();
            }
            Err(errno) => self.flush_failed(errno),
        }
        self.relist();
    }

    fn page_written(&mut self, sent: Sent, taken: bool) {
        let Sent {
            number,
            ranges,
            ver,
        } = sent;
        let len = u64::from(ranges.bytes());
        self.common.sent_bytes -= len;
        let Some(page) = self.file.pages.get_mut(&number) else {
            return;
        };
        page.writing -= len;
        page.writes -= 1;
        page.torn |= !taken;
        let kept = match taken {
            true => {
                page.unsynced.insert_all(ranges);
                self.file.unsynced.insert(number);
                0
            }
            false => u64::from(page.dirty.insert_all(ranges)),
        };
        // All writes in flight of a page carry one version of it (A3).
        if page.writes == 0 && !core::mem::take(&mut page.torn) {
            page.flushed = page.flushed.max(ver);
        }
        self.file.dirty_bytes -= len - kept;
        self.ctx.frames.dirty_bytes -= len - kept;
        if page.dirty_bytes() == 0 && page.own.is_none() {
            page.writers.clear();
        }
        page.settle(self.ctx.frames);
        self.note_age(number);
    }

    fn flush_failed(&mut self, errno: RawErrno) {
        self.common.errno = Some(errno);
        let pause = self
            .file
            .failed
            .map_or(RETRY_FIRST, |f| Span(f.pause.0 * 2).min(RETRY_LONGEST));
        if self.file.failed.is_none() {
            self.ctx
                .out
                .push(Effect::Alarm(Alarm::FlushFails(self.id, errno)));
        }
        let retry = self.ctx.now + pause;
        self.file.failed = Some(Failure {
            errno,
            since: self.file.failed.map_or(self.ctx.now, |f| f.since),
            retry,
            pause,
        });
        self.wake_at(retry);
        self.fail_flushes(errno);
    }

    /// Gives up what the store does not have of a file.
    fn give_up(&mut self) {
        let lost = self.file.dirty_bytes;
        if lost > 0 {
            let alarm = Alarm::BytesDropped(self.id, lost);
            self.ctx.out.push(Effect::Alarm(alarm));
        }
        self.drop_pages(0);
        self.file.unsynced.clear();
        self.file.failed = None;
    }

    fn fail_flushes(&mut self, errno: RawErrno) {
        let waiting = core::mem::take(&mut self.file.waiting);
        for ask in waiting {
            match ask {
                Waiting::Flush(flush) => self.fail(flush.from, flush.req, errno),
                other => self.file.waiting.push_back(other),
            }
        }
        if let Some(bar) = &mut self.file.bar {
            bar.result = Err(errno);
        }
    }

    /// Tries again after a failure, when its pause is over.
    pub(super) fn retry_flush(&mut self) {
        match &mut self.file.failed {
            Some(failure) if failure.retry <= self.ctx.now => {
                failure.retry = self.ctx.now + failure.pause;
                self.start_flush();
            }
            Some(failure) => {
                let retry = failure.retry;
                self.wake_at(retry);
            }
            None => {}
        }
    }

    /// A node closes or syncs. A close brings to the store what its node wrote and no more: pages that
    /// others still write would go in pieces, at each close again.
    pub(super) fn asked_to_flush(&mut self, from: NodeId, req: ReqId, goal: Goal) {
        if self.tells_loss(from, req, goal) {
            return;
        }
        self.pay_all();
        let concerned = |page: &Page| match goal {
            Goal::Own | Goal::Sealed => page.writers.contains(from),
            Goal::All | Goal::Synced => true,
        };
        let is_dirty = self.file.dirty_bytes > 0;
        let pages = self.file.pages.iter().filter(|_| is_dirty);
        let dirty = pages.filter(|(_, page)| page.dirty_bytes() > 0);
        let pages = dirty.filter(|(_, page)| concerned(page));
        let mut need: Vec<(u64, Ver)> = pages.map(|(&number, page)| (number, page.ver)).collect();
        let recalled = self.call_back_for_flush(from, goal);
        if self.ctx.config.moves() {
            // The bytes that replace them are on their way, and are needed instead when they are there.
            let comes = |number| recalled.binary_search_by_key(&number, |&(called, _)| called);
            need.retain(|&(number, _)| comes(number).is_err());
        }
        let ask = FlushAsk {
            from,
            req,
            goal,
            need,
            copies: self.lagging(goal),
            recalled,
            write: None,
        };
        if goal != Goal::Sealed {
            self.start_flush_for(&ask);
        }
        self.file.waiting.push_back(Waiting::Flush(ask));
    }

    pub(super) fn start_flush_for(&mut self, ask: &FlushAsk) {
        let needs = |number| ask.need.binary_search_by_key(&number, |&(n, _)| n).is_ok();
        self.start_flush_of(needs);
    }

    pub(super) fn try_flush(&mut self, ask: &mut FlushAsk) -> Verdict {
        if self.awaits_return(ask) {
            return Verdict::Wait;
        }
        self.forget_flushed(ask.goal, &mut ask.need);
        if let Some(verdict) = self.try_seal(ask) {
            return verdict;
        }
        if !ask.need.is_empty() {
            self.start_flush_for(ask);
        }
        if !ask.need.is_empty() && self.ctx.config.keeps(Guard::FlushWaits) {
            return Verdict::Wait;
        }
        if self.awaits_copies(ask) {
            return Verdict::Wait;
        }
        let sync = ask.goal == Goal::Synced;
        // A sync reaches the store even when no page is left here: those that were may have been
        // written and evicted since the last one.
        let at_rest = !self.file.unstamped && !self.file.spilled;
        if let Some(generation) = ask.write
            && !self.file.spilled
        {
            let (from, req) = (ask.from, ask.req);
            self.ctx
                .answer(from, self.id, generation, req, Body::WriteOk);
            return Verdict::Done;
        }
        if self.file.pages.is_empty() && !sync && at_rest {
            let body = Body::FlushOk(Stamp::default());
            self.ctx
                .answer(ask.from, self.id, self.file.generation, ask.req, body);
            return Verdict::Done;
        }
        if self.is_truncated_meanwhile() {
            return Verdict::Wait;
        }
        if sync {
            self.cover();
        }
        let sync = sync.then(|| self.end_of_sync());
        self.file.unstamped = false;
        self.file.spilled &= sync == Some(Synced::Tier);
        let op = self.ctx.new_op();
        let FlushAsk {
            from, req, write, ..
        } = *ask;
        self.common.ops.insert(
            op,
            StoreOp::Sync {
                file: self.id,
                from,
                req,
                write,
            },
        );
        self.ctx.out.push(Effect::StoreSync {
            op,
            file: self.id,
            sync,
        });
        Verdict::Done
    }

    /// Pages that the store has are needed no more. Only the last are looked at, up to one that it lacks: each is
    /// found in its turn, so that a flush of many pages costs no look at all of them for each that is written.
    fn forget_flushed(&self, goal: Goal, need: &mut Vec<(u64, Ver)>) {
        let lacks = |&(number, ver): &(u64, Ver)| {
            let page = self.file.pages.get(&number);
            page.is_some_and(|page| page.flushed < ver && page.dirty_bytes() > 0)
        };
        match goal {
            // Stripes are made of what is still here.
            Goal::Sealed => need.retain(lacks),
            Goal::Own | Goal::All | Goal::Synced => {
                while need.pop_if(|need| !lacks(need)).is_some() {}
            }
        }
    }

    /// A sync begins: it covers what the store has taken. Of a page whose frame goes for a write past it nothing could be
    /// sent again.
    fn cover(&mut self) {
        let File {
            pages,
            writes,
            unsynced,
            syncing,
            ..
        } = &mut *self.file;
        let goes = |number| writes.iter().any(|w| w.ask.aside && w.touches(number, 1));
        unsynced.retain(|&number| {
            let stays = goes(number);
            if let Some(page) = pages.get_mut(&number).filter(|_| !stays) {
                page.syncing.insert_all(page.unsynced.take());
                syncing.insert(number);
            }
            stays
        });
    }

    /// The store's fsync came back. After a failure the bytes that it covered are dirty again as far
    /// as they are still here: the store may have dropped them.
    pub(super) fn synced(
        &mut self,
        (from, req, write): (NodeId, ReqId, Option<Gen>),
        result: Result<StoreOk, RawErrno>,
    ) {
        let mut changed = Vec::new();
        for number in core::mem::take(&mut self.file.syncing) {
            let Some(page) = self.file.pages.get_mut(&number) else {
                continue;
            };
            let covered = page.syncing.take();
            if result.is_ok() || covered.is_empty() {
                continue;
            }
            let again = u64::from(page.dirty.insert_all(covered));
            // No version of the page counts as being in the store, nor will the one that is under way.
            page.flushed = Ver::default();
            page.torn |= page.writes > 0;
            self.file.dirty_bytes += again;
            self.ctx.frames.dirty_bytes += again;
            page.settle(self.ctx.frames);
            changed.push(number);
        }
        for number in changed {
            self.note_age(number);
        }
        self.relist();
        self.file.spilled |= result.is_err() && self.ctx.config.has_tier();
        self.file.unstamped |= result.is_err() && self.ctx.config.rules().writes != Writes::Behind;
        self.catch_up();
        let body = match result {
            Ok(_) if write.is_some() => Body::WriteOk,
            Ok(ok) => Body::FlushOk(ok.stamp),
            Err(errno) => Body::Failed(errno),
        };
        let generation = write.unwrap_or(self.file.generation);
        self.ctx.answer(from, self.id, generation, req, body);
    }

    /// Has the tier bring its bytes to the store before a cut is answered (A6); true while that is not
    /// done, unless the store has refused.
    pub(super) fn settles_tier(&mut self) -> bool {
        let settles = self.file.spilled && self.ctx.config.keeps(Guard::CutSettlesTier);
        let open = self.file.bar.as_ref();
        if !settles || !open.is_some_and(|bar| !bar.answered && bar.result.is_ok()) {
            return false;
        }
        self.file.spilled = false;
        let (op, file) = (self.ctx.new_op(), self.id);
        self.common.ops.insert(op, StoreOp::Settle { file });
        let sync = None;
        self.ctx.out.push(Effect::StoreSync { op, file, sync });
        true
    }

    /// In the next view others have the file, and not this tier.
    fn end_of_sync(&self) -> Synced {
        match self.ctx.config.spill {
            Spill::Tier(synced) if !self.common.settles => synced,
            Spill::Tier(_) | Spill::Store => Synced::Store,
        }
    }

    /// True while a truncation takes place. Bytes of a tier that the store refused before the truncation
    /// would come there after it.
    fn is_truncated_meanwhile(&self) -> bool {
        let shrinks = |bar: &&super::Bar| matches!(bar.cut, Cut::Shrink(_));
        let bars = self.file.bar.iter().chain(&self.file.next_bar);
        let mut bars = bars.filter(shrinks);
        bars.any(|bar| bar.answered) && self.ctx.config.has_tier()
    }

    /// The tier has brought its bytes to the store, or could not.
    pub(super) fn settled(&mut self, result: Result<StoreOk, RawErrno>) {
        if let Err(errno) = result {
            self.file.spilled = true;
            if let Some(bar) = &mut self.file.bar {
                bar.result = Err(errno);
            }
        }
        self.catch_up();
    }
}

impl Authority {
    /// True while a tier is on its way to having brought all of a file to the store. If it fails, the
    /// tier still has bytes of this life of the file.
    pub(super) fn is_settling(&self, ctx: &Ctx<'_>, id: FileId) -> bool {
        let mine = |op: &StoreOp| match *op {
            StoreOp::Sync { file, .. } | StoreOp::Settle { file } => file == id,
            _ => false,
        };
        ctx.config.has_tier() && self.common.ops.values().any(mine)
    }
}
