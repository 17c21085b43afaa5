//! Cuts: the manager takes pages away (truncation, outside change, detachment).
//!
//! While a cut lasts all requests wait. Writes under way end first, fills and flushes in flight are
//! waited for, copies are called back, then the manager is told. It resumes the home when the store
//! has followed (or has failed to), and only then the pages go: a truncation that the store refuses
//! loses nothing.
//!
//! A window is a cut of a range by a node that writes through to the store. Its pages go before the
//! manager is told, and none of them comes back until it resumes: what is read outside of the range
//! goes on, and reads of the range wait for the writer (WINDOW-1).

use super::hand_over::Handing;
use super::{Bar, File, Home, StoreOp, Waiting};
use crate::config::{Config, Grain, Writes};
use crate::effect::{Alarm, Effect, TierGone};
use crate::errno::EIO;
use crate::guard::Guard;
use crate::ids::{Gen, NodeId, ReqId};
use crate::msg::{Body, Cut};
use crate::nodeset::NodeSet;

impl Bar {
    /// True if the cut takes one of these pages away.
    pub(super) fn touches(&self, config: &Config, first: u64, count: u32) -> bool {
        let (from, pages) = pages_of(config, self.cut);
        from < first + u64::from(count) && first < end_of_pages(from, pages)
    }
}

impl Home<'_, '_> {
    pub(super) fn begin_cut(&mut self, manager: NodeId, req: ReqId, cut: Cut) {
        let generation = self.file.generation;
        let bar = Bar {
            cut,
            floor: match cut {
                Cut::Shrink(_) | Cut::Outside | Cut::HandOver(_) | Cut::Window { .. } => generation,
                Cut::Detach => end_of(generation.life),
                // Its writers learn of the next generation with the news that it is laminated.
                Cut::Laminate => Gen {
                    cut: generation.cut + 1,
                    ..generation
                },
            },
            manager,
            req,
            told: false,
            answered: false,
            resumed: false,
            done: false,
            result: Ok(()),
            awaiting: alloc::vec![],
            going: None,
            handing: Handing::default(),
        };
        self.answer_cut();
        match &self.file.bar {
            Some(last) if last.resumed => self.file.next_bar = Some(bar),
            Some(_) | None => self.raise_bar(bar),
        }
    }

    fn raise_bar(&mut self, bar: Bar) {
        self.common.take_back_all(self.ctx, self.id);
        let cut = bar.cut;
        self.file.bar = Some(bar);
        match cut {
            // The generation stays: what waits may wait on.
            Cut::Window { .. } => {}
            Cut::Shrink(_) | Cut::Outside | Cut::HandOver(_) => self.refuse_waiting(),
            Cut::Detach | Cut::Laminate => {
                self.refuse_waiting();
                self.start_flush();
            }
        }
    }

    /// Takes the next step of a cut, if there is one and it can. True if that was the last.
    pub(super) fn go_on_with_cut(&mut self) -> bool {
        let Some(bar) = &self.file.bar else {
            return false;
        };
        let busy = self.store_busy(bar) && self.ctx.config.keeps(Guard::CutQuietsStore);
        if !self.file.writes.is_empty() || busy {
            self.wound_for_cut();
            return false;
        }
        if self.calls_back_for_cut()
            || self.empties_bank()
            || self.settles_tier()
            || self.empties_wards()
        {
            return false;
        }
        let Some(bar) = &self.file.bar else {
            return false;
        };
        match (bar.cut, bar.answered, bar.resumed) {
            // Impatient reads were given bytes that their nodes have yet to drop (A2), and once the cut is
            // over nothing here would know of them. They need not drop them if nobody manages the file:
            // nobody writes.
            (_, true, true) if !bar.awaiting.is_empty() && !self.is_over(self.file.generation) => {
                false
            }
            (cut, true, true) => {
                let window = matches!(cut, Cut::Window { .. });
                if bar.done && !window {
                    let floor = bar.floor;
                    self.take_away(cut);
                    self.raise_floor(floor);
                }
                self.file.bar = None;
                self.ctx.reopen(self.id);
                // Dirty bytes that fell due meanwhile were passed over.
                self.relist();
                if let Some(next) = self.file.next_bar.take() {
                    self.raise_bar(next);
                }
                true
            }
            (_, true, false) => false,
            (cut, false, _) => {
                let told = bar.told;
                self.let_go(cut);
                // Reads of a window have no patience of their own: now that their kernel is asked to
                // let go of its pages, they may get the old bytes (A2).
                !told && matches!(cut, Cut::Window { .. })
            }
        }
    }

    /// Has daemons delete their entries of what the cut takes away; true while that is not done. It
    /// comes before all else, so that an entry is never looked for by a generation.
    fn empties_bank(&mut self) -> bool {
        let Some(bar) = &self.file.bar else {
            return false;
        };
        let (first, count) = pages_of(self.ctx.config, bar.cut);
        let end = end_of_pages(first, count);
        let empties = self.ctx.config.keeps(Guard::CutEmptiesBank);
        if self.ctx.config.rules().bank.is_none() || !empties {
            return false;
        }
        if bar.going.is_none() {
            if self.is_populating(first, end) {
                return true;
            }
            let going = self.empty_bank(first, end);
            if let Some(bar) = &mut self.file.bar {
                bar.going = Some(going);
            }
        }
        let going = self.file.bar.as_ref().and_then(|bar| bar.going.as_ref());
        going.is_some_and(|going| !going.is_empty())
    }

    /// Calls copies back and tells the manager when all are.
    fn let_go(&mut self, cut: Cut) {
        let Some(bar) = &self.file.bar else { return };
        let told = bar.told;
        let flushed = self.file.dirty_bytes == 0 || bar.result.is_err();
        if matches!(cut, Cut::Detach | Cut::Laminate) && !flushed {
            self.start_flush();
            return;
        }
        if !told && self.ctx.config.keeps(Guard::CutCallsBack) {
            self.call_back(cut);
        }
        let Some(bar) = &self.file.bar else { return };
        if !bar.awaiting.is_empty() {
            return;
        }
        if let Cut::HandOver(heir) = cut
            && self.hand_pages(heir)
        {
            return;
        }
        self.keep_refused(cut);
        let stays = self
            .file
            .bar
            .as_ref()
            .is_some_and(|bar| bar.result.is_err());
        self.end_delegates();
        match cut {
            Cut::HandOver(_) if stays => {}
            // Impatient reads must see what the store has: nothing can refuse an outside change any
            // more, and openers of a detached file go to the store one after the other.
            Cut::Outside | Cut::Detach | Cut::HandOver(_) => self.drop_clean(0, u32::MAX),
            Cut::Window { first, count } => self.drop_clean(first, count),
            Cut::Shrink(_) | Cut::Laminate => {}
        }
        if cut == Cut::Detach {
            self.give_up_dirty();
        }
        self.answer_cut();
    }

    /// The manager moves a file of which all was in the store. Bytes covered by an fsync that has failed
    /// since are dirty again: here they would be behind those that the next home brings there.
    fn keep_refused(&mut self, cut: Cut) {
        let moves = cut == Cut::Outside && self.ctx.config.rules().grain == Grain::File;
        let dirty = self.file.dirty_bytes > 0 || self.file.spilled;
        if let Some(bar) = self.file.bar.as_mut().filter(|_| moves && dirty) {
            bar.result = Err(EIO);
        }
    }

    /// Openers of a detached file will be told that bytes are lost: so is whoever watches the agent.
    fn give_up_dirty(&mut self) {
        let lost = self.file.dirty_bytes;
        if lost > 0 || self.file.spilled {
            let alarm = Alarm::BytesDropped(self.id, lost);
            self.ctx.out.push(Effect::Alarm(alarm));
        }
    }

    /// Tells the manager, once, that the home has let go.
    fn answer_cut(&mut self) {
        let Some(bar) = self.newest_bar().filter(|bar| !bar.answered) else {
            return;
        };
        bar.answered = true;
        let (manager, req, result) = (bar.manager, bar.req, bar.result);
        let generation = self.file.generation;
        // From here on others may write past the tier, and this node read past its pages (A6).
        self.empty_tier((0, TierGone::Copies));
        let body = Body::CutOk(result);
        self.ctx.answer(manager, self.id, generation, req, body);
    }

    /// Drops of the tier's bytes from the first of these on what a cut takes.
    pub(super) fn empty_tier(&mut self, (from, gone): (u64, TierGone)) {
        if self.ctx.config.has_tier() && self.ctx.config.keeps(Guard::CutEmptiesTier) {
            let file = self.id;
            self.ctx.out.push(Effect::TierCut { file, from, gone });
        }
    }

    /// Ends a cut, as soon as no store operation is in flight.
    pub(super) fn resume(&mut self, done: bool) {
        // The manager may have given up waiting for the answer, but it is still owed.
        self.answer_cut();
        if let Some(bar) = self.newest_bar() {
            bar.done = done;
            bar.resumed = true;
        }
    }

    pub(super) fn newest_bar(&mut self) -> Option<&mut Bar> {
        let File { bar, next_bar, .. } = &mut *self.file;
        next_bar.as_mut().or(bar.as_mut())
    }

    /// Drops everything as soon as no store operation is in flight.
    pub(super) fn clear_out(&mut self, cut: Cut, floor: Gen) {
        self.common.take_back_all(self.ctx, self.id);
        self.refuse_waiting();
        self.end_delegates();
        self.answer_cut();
        self.file.next_bar = None;
        self.file.bar = Some(Bar {
            cut,
            floor,
            manager: self.ctx.me(),
            req: ReqId::default(),
            told: true,
            answered: true,
            resumed: true,
            done: true,
            result: Ok(()),
            awaiting: alloc::vec![],
            going: None,
            handing: Handing::default(),
        });
    }

    /// Requests that wait were sent before the sender knew the new generation: it must ask again.
    fn refuse_waiting(&mut self) {
        let (id, generation) = (self.id, self.file.generation);
        let waiting = core::mem::take(&mut self.file.waiting);
        for ask in waiting {
            let (from, req) = match &ask {
                Waiting::Read(read) => (read.from, read.req),
                Waiting::Write(write) => {
                    self.free(write.from, Some(write.data));
                    (write.from, write.req)
                }
                Waiting::Hold(hold) => (hold.read.from, hold.read.req),
                Waiting::Flush(_) => {
                    self.file.waiting.push_back(ask);
                    continue;
                }
                Waiting::Peek(peek) => {
                    self.refuse_peek(peek);
                    continue;
                }
            };
            self.ctx
                .answer(from, id, generation, req, Body::OldGeneration);
        }
    }

    /// True while bytes of the file that the cut concerns are on their way.
    fn store_busy(&self, bar: &Bar) -> bool {
        let unguarded = self.ctx.config.rules().writes == Writes::ThroughUnguarded;
        let concerned = |first, count| match bar.cut {
            Cut::Window { .. } => !unguarded && bar.touches(self.ctx.config, first, count),
            Cut::Shrink(_) | Cut::Outside | Cut::Detach | Cut::Laminate | Cut::HandOver(_) => true,
        };
        let mine = |op: &StoreOp| match *op {
            StoreOp::FillPages { file, first, count } => file == self.id && concerned(first, count),
            StoreOp::FillGaps { file, page, .. } => file == self.id && concerned(page, 1),
            StoreOp::FillAside { file, ref ask, .. } => {
                file == self.id && concerned(ask.first, ask.count)
            }
            StoreOp::Write { file, .. }
            | StoreOp::Through { file, .. }
            | StoreOp::Settle { file } => file == self.id,
            // If there is a tier this is a settlement too.
            StoreOp::Sync { file, .. } => file == self.id && self.ctx.config.has_tier(),
        };
        let sought = |(file, search): &(_, super::Search)| {
            *file == self.id && concerned(search.first, search.count)
        };
        self.common.ops.values().any(mine) || self.common.searches.values().any(sought)
    }

    fn call_back(&mut self, cut: Cut) {
        let (first, count) = pages_of(self.ctx.config, cut);
        let readers: NodeSet = self
            .file
            .pages
            .range(first..end_of_pages(first, count))
            .flat_map(|(_, page)| page.readers.iter())
            .collect();
        let ver = self.common.next_ver();
        let awaiting = self.invalidate(readers.iter(), first, count, ver);
        if let Some(bar) = &mut self.file.bar {
            bar.told = true;
            bar.awaiting = awaiting;
        }
    }

    fn take_away(&mut self, cut: Cut) {
        self.empty_tier(gone_from_tier(cut));
        match cut {
            Cut::Shrink(size) => self.shrink(size),
            Cut::Outside | Cut::HandOver(_) => self.drop_clean(0, u32::MAX),
            Cut::Window { first, count } => self.drop_clean(first, count),
            Cut::Laminate => self.refuse_waiting(),
            Cut::Detach => {
                let bar = self.file.bar.as_ref();
                if bar.is_none_or(|bar| bar.result.is_ok()) {
                    self.give_up_dirty();
                }
                self.file.spilled = false;
                self.drop_pages(0);
                self.file.unstamped = false;
                self.refuse_waiting();
            }
        }
    }

    fn raise_floor(&mut self, floor: Gen) {
        if floor == end_of(floor.life) {
            self.common.ended.push((self.id, floor.life));
        }
        let known = self.common.floors.entry(self.id).or_default();
        *known = floor.max(*known);
        if self.common.floors.len() > self.ctx.config.idle_files_max {
            self.common.floors.pop_first();
        }
    }

    fn shrink(&mut self, size: u64) {
        let boundary = self.ctx.config.page_of(size);
        let end = (size - self.ctx.config.page_start(boundary)) as u32;
        self.drop_pages(if end == 0 { boundary } else { boundary + 1 });
        if let Some(page) = self.file.pages.get_mut(&boundary).filter(|_| end > 0) {
            page.readers.clear();
            page.extent = page.extent.min(end);
            page.valid.clip(end);
            page.unsynced.clip(end);
            // A sync in flight may fail, and what it covered is dirty again then.
            page.syncing.clip(end);
            let gone = u64::from(page.dirty.clip(end));
            self.file.dirty_bytes -= gone;
            self.ctx.frames.dirty_bytes -= gone;
            page.settle(self.ctx.frames);
            self.note_age(boundary);
        }
        self.relist();
    }

    /// Drops every page from `first` on, dirty or not. No store operation names them any more.
    pub(super) fn drop_pages(&mut self, first: u64) {
        let gone = self.file.pages.split_off(&first);
        for (&number, page) in &gone {
            self.forget_age(number, page);
            let dirty = page.dirty_bytes();
            self.file.dirty_bytes -= dirty;
            self.ctx.frames.dirty_bytes -= dirty;
            if let Some(slot) = page.slot {
                self.ctx.frames.give_back(slot);
            }
        }
        self.relist();
    }

    /// Drops what the store could say better; dirty bytes stay and win over the outside writer.
    fn drop_clean(&mut self, first: u64, count: u32) {
        self.ctx.reopen(self.id);
        let pages = first..end_of_pages(first, count);
        for (_, page) in self.file.pages.range_mut(pages) {
            page.readers.clear();
            if page.filling {
                // Only an unguarded window lets such a page live on.
                continue;
            }
            if page.dirty.is_empty() {
                if let Some(slot) = page.slot {
                    self.ctx.frames.give_back(slot);
                }
                page.vacate();
            } else {
                page.filled = false;
                page.extent = 0;
                page.valid = page.dirty.clone();
            }
        }
        self.file.pages.retain(|_, page| !page.idle());
    }
}

/// Pages that a cut takes away: the first and how many, `u32::MAX` to the end.
pub(super) fn pages_of(config: &Config, cut: Cut) -> (u64, u32) {
    match cut {
        Cut::Shrink(size) => (config.page_of(size), u32::MAX),
        Cut::Outside | Cut::Detach | Cut::HandOver(_) => (0, u32::MAX),
        Cut::Laminate => (0, 0),
        Cut::Window { first, count } => (first, count),
    }
}

/// The first byte that a cut takes out of a tier, and what of it. A tier never stands beside windows.
fn gone_from_tier(cut: Cut) -> (u64, TierGone) {
    match cut {
        Cut::Shrink(size) => (size, TierGone::All),
        Cut::Detach => (0, TierGone::All),
        Cut::Outside | Cut::Laminate | Cut::HandOver(_) | Cut::Window { .. } => {
            (0, TierGone::Copies)
        }
    }
}

/// The page after those that a first page and a count stand for.
pub(super) fn end_of_pages(first: u64, count: u32) -> u64 {
    match count {
        u32::MAX => u64::MAX,
        count => first.saturating_add(u64::from(count)),
    }
}

/// A generation after every one of a life.
pub(super) fn end_of(life: u64) -> Gen {
    Gen {
        life,
        cut: u32::MAX,
    }
}

impl File {
    /// True if a cut holds requests for these pages.
    pub(super) fn is_barred(&self, config: &Config, first: u64, count: u32) -> bool {
        self.bar.as_ref().is_some_and(|bar| match bar.cut {
            Cut::Window { .. } => bar.touches(config, first, count),
            Cut::Shrink(_) | Cut::Outside | Cut::Detach | Cut::Laminate | Cut::HandOver(_) => true,
        })
    }
}

impl Home<'_, '_> {
    pub(super) fn is_barred(&self, first: u64, count: u32) -> bool {
        self.file.is_barred(self.ctx.config, first, count)
    }
}
