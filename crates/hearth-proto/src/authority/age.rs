//! When dirty bytes go to the store by themselves.
//!
//! - At the flush age, counted for each page from its oldest byte that the store lacks: a page that
//!   is written for longer than that goes once in that time, not with every write.
//! - When more lies idle than the background bound: the oldest pages, down to half of the bound, so
//!   that what is being written can gather.
//! - When a run as long as the longest store write has been written whole for the first time: a
//!   program that writes much overlaps with the store. What is written again gathers.
//!
//! Invariant A6: a file's `ages` name exactly its pages with dirty bytes and no store write in flight,
//! each at the time since when it has such bytes; `listed` is where `Common::dirty` has the file: at
//! its oldest age, or nowhere while its store fails or a cut holds its bytes back.

use super::{Authority, File, Home, Page};
use crate::ctx::Ctx;
use crate::ids::{FileId, Ver};
use crate::time::Time;
use alloc::collections::BTreeSet;

impl Authority {
    /// Flushes pages that are old enough.
    pub(super) fn flush_aged(&mut self, ctx: &mut Ctx<'_>) {
        while let Some(&(since, id)) = self.common.dirty.first() {
            if since + ctx.config.flush_age > ctx.now {
                break;
            }
            self.home(ctx, id).flush_due();
        }
    }

    /// Flushes the oldest pages while more lies idle than it may, and all of them while a request
    /// waits for memory.
    pub(super) fn flush_excess(&mut self, ctx: &mut Ctx<'_>) {
        let bound = ctx.config.dirty_background_bytes();
        let rest = match (self.common.starved.is_empty(), self.idle_bytes(ctx)) {
            (true, idle) if idle <= bound => return,
            (true, _) => bound / 2,
            (false, _) => 0,
        };
        while let Some(&(_, id)) = self.common.dirty.first() {
            let excess = self.idle_bytes(ctx).saturating_sub(rest);
            if excess == 0 {
                break;
            }
            self.home(ctx, id).flush_oldest(excess);
        }
    }

    /// Dirty bytes that no store write carries.
    fn idle_bytes(&self, ctx: &Ctx<'_>) -> u64 {
        ctx.frames
            .dirty_bytes
            .saturating_sub(self.common.sent_bytes)
    }

    /// Checks A6.
    pub(super) fn assert_aged(&self) {
        for (&id, file) in &self.files {
            let is_idle = |page: &Page| !page.dirty.is_empty() && page.writes == 0;
            let idle = file.pages.iter().filter(|(_, page)| is_idle(page));
            let ages: BTreeSet<(Option<Time>, u64)> =
                idle.map(|(&number, page)| (page.since, number)).collect();
            let known = file
                .ages
                .iter()
                .map(|&(since, number)| (Some(since), number));
            assert!(known.eq(ages), "A6: ages are those of idle dirty pages");
            let listed = |since| self.common.dirty.contains(&(since, id));
            assert!(file.listed.is_none_or(listed), "A6: a listed file is found");
        }
        let listed = self.files.values().filter(|file| file.listed.is_some());
        assert_eq!(
            listed.count(),
            self.common.dirty.len(),
            "A6: one entry for each file"
        );
    }
}

impl File {
    /// A page whose every byte waits to be written to the store for the first time.
    fn is_fresh(&self, number: u64, page_bytes: u32) -> bool {
        self.pages.get(&number).is_some_and(|page| {
            let is_first = page.writes == 0 && page.flushed == Ver::default();
            is_first && page.dirty.covers(0, page_bytes)
        })
    }
}

impl Home<'_, '_> {
    /// The dirty bytes of a page, or its store writes in flight, have changed.
    pub(super) fn note_age(&mut self, number: u64) {
        let File { pages, ages, .. } = &mut *self.file;
        let Some(page) = pages.get_mut(&number) else {
            return;
        };
        if let Some(since) = page.since {
            ages.remove(&(since, number));
        }
        let since = page.since.unwrap_or(self.ctx.now);
        page.since = (!page.dirty.is_empty()).then_some(since);
        if let Some(since) = page.since.filter(|_| page.writes == 0) {
            ages.insert((since, number));
        }
    }

    /// The page is no more.
    pub(super) fn forget_age(&mut self, number: u64, page: &Page) {
        if let Some(since) = page.since {
            self.file.ages.remove(&(since, number));
        }
    }

    /// Keeps the list of dirty files by age true.
    pub(super) fn relist(&mut self) {
        let oldest = self.file.ages.first().map(|&(since, _)| since);
        // While the store fails the file waits for its own time to try again; what cannot be sent now
        // is looked at again when the cut is over.
        let since = match self.file.failed {
            None => oldest.filter(|_| !self.is_held_back()),
            Some(failure) => {
                if oldest.is_some() {
                    self.wake_at(failure.retry);
                }
                None
            }
        };
        let place = |since: Time| -> (Time, FileId) { (since, self.id) };
        if since == self.file.listed {
            return;
        }
        if let Some(before) = self.file.listed {
            self.common.dirty.remove(&place(before));
        }
        if let Some(since) = since {
            self.common.dirty.insert(place(since));
        }
        self.file.listed = since;
    }

    /// Sends pages that have been dirty for the flush age.
    fn flush_due(&mut self) {
        let (age, now) = (self.ctx.config.flush_age, self.ctx.now);
        let ages = self.file.ages.iter();
        let due = ages.take_while(|&&(since, _)| since + age <= now);
        let due = due.map(|&(_, number)| number).collect();
        self.send_with_neighbours(due);
    }

    /// Sends the oldest pages, until so many bytes are on their way.
    fn flush_oldest(&mut self, bytes: u64) {
        let mut chosen = BTreeSet::new();
        let mut sum = 0;
        for &(_, number) in &self.file.ages {
            if sum >= bytes {
                break;
            }
            let page = self.file.pages.get(&number);
            sum += page.map_or(0, |page| u64::from(page.dirty.bytes()));
            chosen.insert(number);
        }
        self.send_with_neighbours(chosen);
    }

    /// Sends pages, and with them those that follow and are whole: they make longer runs, and nothing
    /// of them is still to come.
    fn send_with_neighbours(&mut self, mut pages: BTreeSet<u64>) {
        let page_bytes = self.ctx.config.page_bytes;
        let most = u64::from(self.ctx.config.store_io_bytes / page_bytes);
        for number in pages.clone() {
            let next = (number + 1..number + most)
                .take_while(|&next| !pages.contains(&next) && self.file.is_fresh(next, page_bytes));
            let next: BTreeSet<u64> = next.collect();
            pages.extend(next);
        }
        self.send_dirty(&pages);
    }

    /// Sends the run that a page is in, if that is whole and the store has little else to do.
    pub(super) fn send_fresh_run(&mut self, number: u64) {
        let page_bytes = self.ctx.config.page_bytes;
        let longest = self.ctx.config.store_io_bytes;
        let count = u64::from(longest / page_bytes).max(1);
        let first = number - number % count;
        let is_busy = self.common.sent_bytes > u64::from(longest);
        // From the end: pages that are written in order are found short by the first look.
        let mut run = (first..first + count).rev();
        if !is_busy && run.all(|number| self.file.is_fresh(number, page_bytes)) {
            self.send_dirty(&(first..first + count).collect());
        }
    }
}
