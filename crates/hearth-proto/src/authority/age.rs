//! When dirty bytes go to the store by themselves.
//!
//! - At the flush age, counted for each page from its oldest byte that the store lacks. A page that is written
//!   for longer than that goes once in that time, not with every write. A *scattered* page, of small pieces with
//!   gaps, would be as many small store writes. It waits six times as long for the bytes between. Writers that
//!   are behind may still bring these.
//! - When more lies idle than the background bound: the oldest pages that are not scattered, down to half of the
//!   bound. So pages that are being written can gather.
//! - When a run as long as the longest store write has been written whole for the first time. So a program that
//!   writes much overlaps with the store. A run that is written again gathers.
//! - At once, with the next step, if a step had as much to send as it may.
//!
//! Invariant A8: a file's `ages` name exactly its pages with dirty bytes and no store write in flight. Each has
//! the time when it is due. `listed` is the time under which `Common::dirty` lists the file. It is the first of
//! these times. It is nowhere while its store fails or a cut holds its bytes back.

use super::flush::PIECES_A_STEP;
use super::{Authority, File, Home, Page};
use crate::ctx::Ctx;
use crate::ids::{FileId, Ver};
use crate::time::{Span, Time};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// How many times as long scattered pages may wait.
const SCATTERED_AGES: u64 = 6;

/// A page is not scattered with so few pieces, nor if they have this share of it on average.
const PIECES_FEW: usize = 3;
const PIECE_SHARE: u32 = 8;

/// The smallest share of its longest request that a store with nothing to do is given, if it is whole. It is more
/// if that is.
const EAGER_SHARE: u64 = 8;

impl Authority {
    /// Flushes pages that are old enough.
    pub(super) fn flush_aged(&mut self, ctx: &mut Ctx<'_>) {
        while let Some(&(due, id)) = self.common.dirty.first() {
            if due > ctx.now || ctx.counts.pieces >= PIECES_A_STEP {
                break;
            }
            self.home(ctx, id).flush_due();
        }
    }

    /// Flushes the oldest pages while more lies idle than it may. Flushes all of them while a request waits for
    /// memory.
    pub(crate) fn flush_excess(&mut self, ctx: &mut Ctx<'_>) {
        let bound = ctx.config.dirty_background_bytes();
        let is_starved = !self.common.starved.is_empty();
        let idle = self.idle_bytes(ctx);
        if idle <= bound {
            self.common.idle_looked = 0;
        }
        if !is_starved && idle <= bound.max(self.common.idle_looked) {
            return;
        }
        let listed: Vec<FileId> = self.common.dirty.iter().map(|&(_, id)| id).collect();
        for id in listed {
            let excess = self.idle_bytes(ctx).saturating_sub(bound / 2);
            match (is_starved, excess) {
                (true, _) => {
                    self.home(ctx, id).start_flush();
                }
                (false, 0) => break,
                (false, excess) => self.home(ctx, id).flush_oldest(excess),
            }
        }
        // Bytes that are left, if too many, are scattered. They are looked at again when there are more.
        self.common.idle_looked = self.idle_bytes(ctx) + bound / 8;
    }

    /// Dirty bytes that no store write carries.
    fn idle_bytes(&self, ctx: &Ctx<'_>) -> u64 {
        ctx.frames
            .dirty_bytes
            .saturating_sub(self.common.sent_bytes)
    }

    /// Checks A8.
    pub(super) fn assert_aged(&self) {
        for (&id, file) in &self.files {
            let is_idle = |page: &Page| !page.dirty.is_empty() && page.writes == 0;
            let idle = file.pages.iter().filter(|(_, page)| is_idle(page));
            let ages: BTreeSet<(Option<Time>, u64)> =
                idle.map(|(&number, page)| (page.due, number)).collect();
            let known = file
                .ages
                .iter()
                .map(|&(since, number)| (Some(since), number));
            assert!(known.eq(ages), "A8: ages are those of idle dirty pages");
            let listed = |since| self.common.dirty.contains(&(since, id));
            assert!(file.listed.is_none_or(listed), "A8: a listed file is found");
        }
        let idle: usize = self.files.values().map(|file| file.ages.len()).sum();
        assert_eq!(
            idle, self.common.idle_pages as usize,
            "A8: idle pages are counted"
        );
        let listed = self.files.values().filter(|file| file.listed.is_some());
        assert_eq!(
            listed.count(),
            self.common.dirty.len(),
            "A8: one entry for each file"
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

impl Page {
    /// Whether its dirty bytes would be many small store writes.
    fn is_scattered(&self, page_bytes: u32) -> bool {
        let pieces = self.dirty.count();
        pieces > PIECES_FEW
            && u64::from(self.dirty.bytes()) * u64::from(PIECE_SHARE)
                < pieces as u64 * u64::from(page_bytes)
    }
}

impl Home<'_, '_> {
    /// The dirty bytes of a page, or its store writes in flight, have changed.
    pub(super) fn note_age(&mut self, number: u64) {
        let File { pages, ages, .. } = &mut *self.file;
        let Some(page) = pages.get_mut(&number) else {
            return;
        };
        let since = page.since.unwrap_or(self.ctx.now);
        page.since = (!page.dirty.is_empty()).then_some(since);
        page.urgent &= page.since.is_some();
        let age = self.ctx.config.flush_age;
        let age = match page.is_scattered(self.ctx.config.page_bytes) {
            _ if page.urgent => Span(0),
            true => Span(age.0 * SCATTERED_AGES),
            false => age,
        };
        let due = page.since.filter(|_| page.writes == 0);
        let due = due.map(|since| since + age);
        if due == page.due {
            return;
        }
        if let Some(before) = page.due {
            ages.remove(&(before, number));
            self.common.idle_pages -= 1;
        }
        if let Some(due) = due {
            ages.insert((due, number));
            self.common.idle_pages += 1;
        }
        page.due = due;
    }

    /// The page is no more.
    pub(super) fn forget_age(&mut self, number: u64, page: &Page) {
        if let Some(due) = page.due {
            self.file.ages.remove(&(due, number));
            self.common.idle_pages -= 1;
        }
    }

    /// Keeps the list of dirty files by age true.
    pub(super) fn relist(&mut self) {
        let first = self.file.ages.first().map(|&(due, _)| due);
        // While the store fails the file waits for its own time to try again; what cannot be sent now
        // is looked at again when the cut is over.
        let due = match self.file.failed {
            None => first.filter(|_| !self.is_held_back()),
            Some(failure) => {
                if first.is_some() {
                    self.wake_at(failure.retry);
                }
                None
            }
        };
        if due == self.file.listed {
            return;
        }
        if let Some(before) = self.file.listed {
            self.common.dirty.remove(&(before, self.id));
        }
        if let Some(due) = due {
            self.common.dirty.insert((due, self.id));
        }
        self.file.listed = due;
    }

    /// Sends pages that are due.
    fn flush_due(&mut self) {
        let now = self.ctx.now;
        let due = self.file.ages.iter().take_while(|&&(due, _)| due <= now);
        let due = due.map(|&(_, number)| number).collect();
        self.send_with_neighbours(due);
    }

    /// Sends the oldest pages that are not scattered, until so many bytes are on their way.
    fn flush_oldest(&mut self, bytes: u64) {
        let page_bytes = self.ctx.config.page_bytes;
        let mut chosen = BTreeSet::new();
        let mut sum = 0;
        for &(_, number) in &self.file.ages {
            let page = self.file.pages.get(&number);
            let Some(page) = page.filter(|page| !page.is_scattered(page_bytes)) else {
                continue;
            };
            if sum >= bytes {
                break;
            }
            sum += u64::from(page.dirty.bytes());
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

    /// Sends the run that a page is in, if that is whole and the store has little else to do. Sends part of
    /// it if the store has nothing to do: a program that writes on will have less to wait for at the close.
    pub(super) fn send_fresh_run(&mut self, number: u64) {
        let longest = self.ctx.config.store_io_bytes;
        let count = u64::from(longest / self.ctx.config.page_bytes).max(1);
        let sent = self.common.sent_bytes;
        if sent <= u64::from(longest) && self.send_if_fresh(number, count) || sent > 0 {
            return;
        }
        let parts = (1..=EAGER_SHARE.ilog2()).map(|halvings| count >> halvings);
        let mut parts = parts.filter(|_| count > EAGER_SHARE);
        parts.any(|part| self.send_if_fresh(number, part));
    }

    /// Sends the aligned run of so many pages that a page is in, if every byte of it is new.
    fn send_if_fresh(&mut self, number: u64, count: u64) -> bool {
        let page_bytes = self.ctx.config.page_bytes;
        let first = number - number % count;
        // From the end: pages that are written in order are found short by the first look.
        let mut run = (first..first + count).rev();
        let is_fresh = run.all(|number| self.file.is_fresh(number, page_bytes));
        if is_fresh {
            self.send_dirty(&(first..first + count).collect());
        }
        is_fresh
    }
}
