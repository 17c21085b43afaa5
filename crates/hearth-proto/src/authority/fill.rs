//! Filling pages from the store.

use super::peek::Search;
use super::range::HoldAsk;
use super::{Home, ReadAsk, StoreOp, Waiting};
use crate::RawErrno;
use crate::effect::{Effect, Piece, ReadInto, Src};
use crate::frames::{Owner, Slot};
use crate::ids::{Buf, ReqId};
use crate::input::StoreOk;
use alloc::vec::Vec;

impl Home<'_, '_> {
    /// True if every page of the read is filled; else starts what is missing.
    pub(super) fn fill(&mut self, ask: &mut ReadAsk) -> bool {
        if self.has_all(ask) {
            return true;
        }
        ask.filled = true;
        self.gather(ask);
        self.keep_gathered();
        let mut run: Option<(u64, u32)> = None;
        for number in ask.first..ask.first + u64::from(ask.count) {
            let page = self.file.pages.entry(number).or_default();
            // Its frame may have been taken for an earlier page of the same read.
            page.refresh(self.ctx.frames);
            if page.filled || page.filling {
                continue;
            }
            // A page that an unfinished write has reserved has its frame already.
            if page.slot.is_some() {
                self.fill_gaps(number);
                continue;
            }
            run = match run {
                Some((first, count)) if first + u64::from(count) == number => {
                    Some((first, count + 1))
                }
                Some((first, count)) => {
                    self.fill_pages(ask, first, count);
                    Some((number, 1))
                }
                None => Some((number, 1)),
            };
        }
        if let Some((first, count)) = run {
            self.fill_pages(ask, first, count + self.ahead(first, count));
        }
        false
    }

    pub(super) fn has_all(&mut self, ask: &ReadAsk) -> bool {
        let mut all = true;
        for number in ask.first..ask.first + u64::from(ask.count) {
            let page = self.file.pages.entry(number).or_default();
            page.refresh(self.ctx.frames);
            all &= page.filled;
        }
        all
    }

    /// Pages to read beyond a run: when the page before it is here, readers come in order, and one
    /// request for more bytes costs the store less than several.
    fn ahead(&self, first: u64, count: u32) -> u32 {
        let config = self.ctx.config;
        let quiet = self.file.bar.is_none() && self.file.writes.is_empty();
        let before = first
            .checked_sub(1)
            .and_then(|number| self.file.pages.get(&number));
        let bound = (config.readahead_bytes / config.page_bytes).min(self.ctx.frames.spare() / 8);
        if !quiet || before.is_none_or(|page| !page.filled) {
            return 0;
        }
        let end = first + u64::from(count);
        let unknown = |number: &u64| {
            config.chunk_of(*number) == config.chunk_of(first)
                && !self.file.pages.contains_key(number)
        };
        (end..end + u64::from(bound.saturating_sub(count)))
            .take_while(unknown)
            .count() as u32
    }

    /// Goes for a run of pages of which nothing is known.
    fn fill_pages(&mut self, ask: &ReadAsk, first: u64, count: u32) {
        let pages = first..first + u64::from(count);
        let Some(slots) = self.take_frames(ask.req, pages.clone()) else {
            self.wound_for_frames(None);
            return;
        };
        for (number, slot) in pages.zip(slots) {
            let page = self.file.pages.entry(number).or_default();
            page.slot = Some(slot);
            page.filling = true;
        }
        self.seek(Search::new(first, count, ask.from));
    }

    /// One store read for a page of which some bytes are known already.
    pub(super) fn fill_gaps(&mut self, number: u64) {
        let buf = self.ctx.new_buf();
        self.common.take_back(self.ctx, self.id, number);
        let page = self.file.pages.entry(number).or_default();
        page.filling = true;
        page.settle(self.ctx.frames);
        let offset = self.ctx.config.page_start(number);
        let into = ReadInto::Buf(buf, self.ctx.config.page_bytes);
        self.read_store(
            StoreOp::FillGaps {
                file: self.id,
                page: number,
                buf,
            },
            offset,
            into,
        );
    }

    pub(super) fn read_store(&mut self, store_op: StoreOp, offset: u64, into: ReadInto) {
        let op = self.ctx.new_op();
        self.ctx.stats.fill_reads += 1;
        self.common.ops.insert(op, store_op);
        self.ctx.out.push(Effect::StoreRead {
            op,
            file: self.id,
            offset,
            into,
        });
    }

    pub(super) fn pages_filled(
        &mut self,
        first: u64,
        count: u32,
        result: Result<StoreOk, RawErrno>,
    ) {
        let page_bytes = self.ctx.config.page_bytes;
        let mut left = result.as_ref().map_or(0, |ok| ok.bytes);
        for number in first..first + u64::from(count) {
            let page = self.file.pages.entry(number).or_default();
            page.filling = false;
            match result {
                Ok(_) => {
                    page.lent = false;
                    page.filled = true;
                    page.extent = left.min(page_bytes);
                    left -= page.extent;
                    page.settle(self.ctx.frames);
                }
                Err(_) => {
                    if let Some(slot) = page.slot {
                        self.ctx.frames.give_back(slot);
                    }
                    page.vacate();
                }
            }
        }
        if let Err(errno) = result {
            self.fail_reads(first, count, errno);
        }
        self.drop_unread_end(first, count);
    }

    /// Reading ahead went beyond the end of the file: pages without a byte go, unless somebody waits
    /// for them.
    fn drop_unread_end(&mut self, first: u64, count: u32) {
        let waiting = &self.file.waiting;
        let awaited = |number: u64| {
            waiting.iter().any(|ask| match ask {
                Waiting::Read(read) => {
                    (read.first..read.first + u64::from(read.count)).contains(&number)
                }
                Waiting::Hold(hold) => {
                    let read = &hold.read;
                    (read.first..read.first + u64::from(read.count)).contains(&number)
                }
                Waiting::Peek(peek) => peek.first == number,
                Waiting::Write(_) | Waiting::Flush(_) => false,
            })
        };
        for number in first..first + u64::from(count) {
            let Some(page) = self.file.pages.get_mut(&number) else {
                continue;
            };
            if page.extent == 0 && !page.busy() && !awaited(number) {
                if let Some(slot) = page.slot {
                    self.ctx.frames.give_back(slot);
                }
                page.vacate();
            }
            if page.idle() {
                self.file.pages.remove(&number);
            }
        }
    }

    pub(super) fn gaps_filled(&mut self, number: u64, buf: Buf, result: Result<StoreOk, RawErrno>) {
        let page_bytes = self.ctx.config.page_bytes;
        let page = self.file.pages.entry(number).or_default();
        page.filling = false;
        if let (Ok(ok), Some(slot)) = (result, page.slot) {
            let known_end = page.valid.iter().last().map_or(0, |(_, end)| end);
            page.extent = known_end.max(ok.bytes.min(page_bytes));
            for (start, end) in page.valid.gaps(page.extent) {
                let from = Piece {
                    src: Src::Buf(buf),
                    at: start,
                    len: end - start,
                };
                self.ctx.out.push(Effect::Fill {
                    frame: slot.frame,
                    at: start,
                    from,
                });
            }
            page.filled = true;
        }
        page.settle(self.ctx.frames);
        self.ctx.out.push(Effect::Free(buf));
        if let Err(errno) = result {
            self.fail_reads(number, 1, errno);
        }
    }

    fn fail_reads(&mut self, first: u64, count: u32, errno: RawErrno) {
        let waiting = core::mem::take(&mut self.file.waiting);
        for ask in waiting {
            match ask {
                Waiting::Read(read)
                    if read.first < first + u64::from(count)
                        && first < read.first + u64::from(read.count) =>
                {
                    self.fail(read.from, read.req, errno);
                }
                Waiting::Hold(HoldAsk { read, .. })
                    if read.first < first + u64::from(count)
                        && first < read.first + u64::from(read.count) =>
                {
                    self.fail(read.from, read.req, errno);
                }
                other => self.file.waiting.push_back(other),
            }
        }
    }

    /// Frames for pages that have none, all or nothing; without success the file is tried again
    /// when memory moves.
    pub(super) fn take_frames(
        &mut self,
        req: ReqId,
        pages: impl Iterator<Item = u64> + Clone,
    ) -> Option<Vec<Slot>> {
        let enough = pages.clone().count() <= self.ctx.frames.spare() as usize;
        if !enough {
            self.go_hungry(req);
        }
        if !enough || self.must_stand_back(req) {
            self.starve();
            return None;
        }
        let take = |number| self.ctx.frames.take(Owner::Authority(self.id, number));
        pages.map(take).collect()
    }

    /// Waits for memory, and makes dirty bytes go so that some comes.
    pub(super) fn starve(&mut self) {
        self.common.starved.insert(self.id);
        self.common.lacks_frames = true;
        // A store that fails has its own time to be tried again.
        if self.file.failed.is_none() {
            self.start_flush();
        }
    }
}
