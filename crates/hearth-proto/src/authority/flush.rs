//! Bringing dirty bytes to the store: contiguous runs become one store write.

use super::{
    Authority, FlushAsk, Home, Page, RETRY_FIRST, RETRY_LONGEST, StoreOp, Verdict, Waiting,
};
use crate::Errno;
use crate::config::Writes;
use crate::ctx::Ctx;
use crate::effect::{Alarm, Effect, Piece, Src};
use crate::guard::Guard;
use crate::ids::{FileId, Gen, NodeId, ReqId, Stamp, Ver};
use crate::input::StoreOk;
use crate::msg::{Body, Cut, Goal};
use crate::time::Span;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Contiguous dirty bytes.
struct Run {
    offset: u64,
    len: u32,
    data: Vec<Piece>,
    ranges: Vec<(u64, u32, u32, Ver)>,
}

impl Authority {
    /// Starts flushing everything that is dirty here.
    pub(crate) fn flush_all(&mut self, ctx: &mut Ctx<'_>) {
        let ids: Vec<FileId> = self.files.keys().copied().collect();
        for id in ids {
            self.home(ctx, id).start_flush();
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

    /// Orders store writes for the dirty bytes of some pages, of which none is on its way.
    pub(super) fn send_dirty(&mut self, pages: &BTreeSet<u64>) {
        self.put_off_copied(pages);
        let runs = match self.is_held_back() {
            true => Vec::new(),
            false => self.dirty_runs(pages),
        };
        for run in runs {
            for &(number, start, end, _) in &run.ranges {
                let page = self
                    .file
                    .pages
                    .get_mut(&number)
                    .expect("a run is made of pages");
                page.dirty = without(&page.dirty, start, end);
                page.writing += u64::from(end - start);
                page.writes += 1;
                self.note_age(number);
            }
            self.send_run(run);
        }
        self.relist();
    }

    fn send_run(&mut self, run: Run) {
        let op = self.ctx.new_op();
        self.ctx.stats.flush_writes += 1;
        let Run {
            offset,
            len,
            data,
            ranges,
        } = run;
        self.common.sent_bytes += u64::from(len);
        self.common.ops.insert(
            op,
            StoreOp::Write {
                file: self.id,
                ranges,
            },
        );
        self.ctx.out.push(Effect::StoreWrite {
            op,
            file: self.id,
            offset,
            data,
        });
    }

    pub(super) fn flushing_here(&self) -> bool {
        self.file.pages.values().any(|page| page.writes > 0)
    }

    /// Dirty ranges of these pages, less those with a store write in flight (A3), joined where they
    /// touch.
    fn dirty_runs(&self, pages: &BTreeSet<u64>) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for &number in pages {
            let page = self.file.pages.get(&number);
            let free = !self.file.wards.has_older(number);
            let Some((page, slot)) = page
                .filter(|page| page.writes == 0 && free)
                .and_then(|page| Some((page, page.slot?)))
            else {
                continue;
            };
            let base = self.ctx.config.page_start(number);
            for (start, end) in page.dirty.iter() {
                let offset = base + u64::from(start);
                let len = end - start;
                let piece = Piece {
                    src: Src::Frame(slot.frame),
                    at: start,
                    len,
                };
                let range = (number, start, end, page.ver);
                match runs.last_mut() {
                    Some(run)
                        if run.offset + u64::from(run.len) == offset
                            && run.len + len <= self.ctx.config.store_io_bytes =>
                    {
                        run.len += len;
                        run.data.push(piece);
                        run.ranges.push(range);
                    }
                    Some(_) | None => runs.push(Run {
                        offset,
                        len,
                        data: alloc::vec![piece],
                        ranges: alloc::vec![range],
                    }),
                }
            }
        }
        runs
    }

    pub(super) fn written(
        &mut self,
        ranges: &[(u64, u32, u32, Ver)],
        result: Result<StoreOk, Errno>,
    ) {
        for &(number, start, end, ver) in ranges {
            let len = u64::from(end - start);
            self.common.sent_bytes -= len;
            let Some(page) = self.file.pages.get_mut(&number) else {
                continue;
            };
            page.writing -= len;
            page.writes -= 1;
            let kept = match result {
                Ok(_) => {
                    page.unsynced.insert(start, end);
                    0
                }
                Err(_) => {
                    page.torn = true;
                    u64::from(page.dirty.insert(start, end))
                }
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
        match result {
            Ok(_) => {
                self.keep_lagging(ranges);
                let pages: BTreeSet<u64> = ranges.iter().map(|range| range.0).collect();
                self.trim(pages.into_iter());
                self.file.failed = None;
                self.file.spilled |= self.ctx.config.has_tier();
            }
            Err(errno) => self.flush_failed(errno),
        }
        self.relist();
    }

    fn flush_failed(&mut self, errno: Errno) {
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
        self.file.failed = Some(super::Failure {
            errno,
            retry,
            pause,
        });
        self.wake_at(retry);
        self.fail_flushes(errno);
    }

    fn fail_flushes(&mut self, errno: Errno) {
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
        let dirty = self
            .file
            .pages
            .iter()
            .filter(|(_, page)| page.dirty_bytes() > 0);
        let pages = dirty.filter(|(_, page)| concerned(page));
        let mut need: Vec<(u64, Ver)> = pages.map(|(&number, page)| (number, page.ver)).collect();
        let recalled = self.call_back_for_flush(from, goal);
        if self.ctx.config.moves() {
            // What replaces them is on its way, and is needed instead when it is there.
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
        let pages = &self.file.pages;
        ask.need.retain(|(number, ver)| {
            pages
                .get(number)
                .is_some_and(|page| page.flushed < *ver && page.dirty_bytes() > 0)
        });
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
        self.file.unstamped = false;
        self.file.spilled &= sync && self.ctx.config.syncs_at_tier();
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

    /// A sync begins: it covers what the store has taken. Of a page whose frame goes for a write past it nothing could be
    /// sent again.
    fn cover(&mut self) {
        let writes = &self.file.writes;
        let goes = |number| writes.iter().any(|w| w.ask.aside && w.touches(number, 1));
        for (_, page) in self
            .file
            .pages
            .iter_mut()
            .filter(|(number, _)| !goes(**number))
        {
            for (start, end) in page.unsynced.take().iter() {
                page.syncing.insert(start, end);
            }
        }
    }

    /// The store's fsync came back. After a failure the bytes that it covered are dirty again as far
    /// as they are still here: the store may have dropped them.
    pub(super) fn synced(
        &mut self,
        (from, req, write): (NodeId, ReqId, Option<Gen>),
        result: Result<StoreOk, Errno>,
    ) {
        let mut changed = Vec::new();
        for (&number, page) in &mut self.file.pages {
            let covered = page.syncing.take();
            if result.is_ok() || covered.is_empty() {
                continue;
            }
            let mut again = 0;
            for (start, end) in covered.iter() {
                again += u64::from(page.dirty.insert(start, end));
            }
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
        let sync = false;
        self.ctx.out.push(Effect::StoreSync { op, file, sync });
        true
    }

    /// True while a truncation takes place. What the store refused of a tier before that would come there after it.
    fn is_truncated_meanwhile(&self) -> bool {
        let shrinks = |bar: &&super::Bar| matches!(bar.cut, Cut::Shrink(_));
        let bars = self.file.bar.iter().chain(&self.file.next_bar);
        let mut bars = bars.filter(shrinks);
        bars.any(|bar| bar.answered) && self.ctx.config.has_tier()
    }

    /// The tier has brought its bytes to the store, or could not.
    pub(super) fn settled(&mut self, result: Result<StoreOk, Errno>) {
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

/// `ranges` less one of its own members.
fn without(ranges: &crate::ranges::Ranges, start: u32, end: u32) -> crate::ranges::Ranges {
    let mut rest = crate::ranges::Ranges::default();
    for (s, e) in ranges.iter().filter(|&r| r != (start, end)) {
        rest.insert(s, e);
    }
    rest
}
