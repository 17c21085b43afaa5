//! Writes that programs of this node make by themselves, to pages that were offered to them. These are pages of
//! which this node is the home ([`crate::authority`] says when), and pages that gather here.
//!
//! Invariant GATHER-6: an offered page of the second kind is gathered in the frame that was named. The next small write
//! of it would gather there. This node keeps nothing else of it, and some session has the file open for writing.
//! Bytes that are left there may make the file longer. Others hear of that with the scatter, like of all that is
//! gathered. The offer is taken back in the very step in which that ends. None ends while programs may still
//! leave bytes. Pages that are full then, or in many pieces, are due at once.

use super::file::File;
use super::gather::{AGE_MAX, Gathered, PIECES_MAX};
use super::{Client, Desk};
use crate::authority::Authority;
use crate::config::Config;
use crate::ctx::Ctx;
use crate::effect::{Effect, Piece, Src};
use crate::guard::Guard;
use crate::ids::FileId;
use crate::input::LocalWrite;
use crate::semantics::Semantics;
use crate::time::Time;
use alloc::vec::Vec;
use core::ops::Bound;

impl Client {
    /// How far such writes may reach, if the file is one for them. A session has it open for writing, it is
    /// served by homes, and nothing but `Posix` is promised of it.
    pub(crate) fn lets_write(&self, id: FileId) -> Option<u64> {
        let file = self.files.get(&id)?;
        let served = !file.bypass && !file.orphan && file.manager.is_some();
        let plain = file.semantics == Semantics::Posix && !file.mapped && file.parked.is_empty();
        (file.writers > 0 && served && plain).then_some(file.size)
    }

    /// A program of this node stores into a mapping of the file.
    pub(crate) fn is_mapped(&self, id: FileId) -> bool {
        self.files.get(&id).is_some_and(|file| file.mapped)
    }

    /// A gathered page was written through its session: the next write may come by itself.
    pub(super) fn wish_offer(&mut self, config: &Config, id: FileId, page: u64) {
        if config.offers_pages() {
            self.wished.insert((id, page));
        }
    }

    fn gathered(&self, id: FileId, page: u64) -> Option<&Gathered> {
        self.files.get(&id)?.gathering.pages.get(&page)
    }

    fn gathered_mut(&mut self, id: FileId, page: u64) -> Option<&mut Gathered> {
        self.files.get_mut(&id)?.gathering.pages.get_mut(&page)
    }

    /// How much of a gathered page is offered.
    pub(crate) fn offered(&self, config: &Config, id: FileId, page: u64) -> Option<u32> {
        let gathered = self.gathered(id, page)?;
        gathered.is_offered.then_some(config.page_bytes)
    }

    /// The end of a step. Offers what was wished for, and takes back what is not as GATHER-6 says. Pages of a file that
    /// nothing has happened to are as they were.
    pub(crate) fn review_offers(&mut self, ctx: &mut Ctx<'_>, authority: &mut Authority) {
        let mut due = core::mem::take(&mut self.wished);
        let mut next = self.offers.first().copied();
        while let Some((id, _)) = next {
            if !self.is_undisturbed(ctx, id) {
                due.extend(self.offers.range((id, 0)..=(id, u64::MAX)));
            }
            let others = (Bound::Excluded((id, u64::MAX)), Bound::Unbounded);
            next = self.offers.range(others).next().copied();
        }
        for (id, page) in due {
            self.review_offer(ctx, authority, (id, page));
        }
    }

    fn review_offer(&mut self, ctx: &mut Ctx<'_>, authority: &mut Authority, at: (FileId, u64)) {
        let lets = self.desk(ctx, authority).lets_leave(at.0, at.1);
        let careful = ctx.config.keeps(Guard::OffersTakenBack);
        let gathered = self.gathered_mut(at.0, at.1);
        let is_offered = gathered.is_some_and(|gathered| {
            match (lets, gathered.is_offered) {
                (true, false) => offer(ctx, at, gathered),
                (false, true) if careful => take_back(ctx, at, gathered),
                _ => {}
            }
            gathered.is_offered
        });
        match is_offered {
            true => self.offers.insert(at),
            false => self.offers.remove(&at),
        };
    }

    /// True if whatever of this file's pages was offered may still be, as far as the file and its nodes go.
    fn is_undisturbed(&self, ctx: &Ctx<'_>, id: FileId) -> bool {
        let Some(file) = self.files.get(&id) else {
            return false;
        };
        let idle = file.reads.is_empty() && file.wants.is_empty() && file.copies.is_empty();
        let gathers = file.semantics.gathers() && file.gathering.is_open(file.generation);
        idle && gathers && self.is_written(file) && self.owned.is_empty() && ctx.peers.are_all_up()
    }

    /// Puts what programs have left where it is gathered; gives back what is not for here.
    pub(crate) fn gather_left(
        &mut self,
        ctx: &mut Ctx<'_>,
        mut writes: Vec<LocalWrite>,
    ) -> Vec<LocalWrite> {
        if !self.offers.is_empty() {
            writes.retain(|write| !self.gathers_left(ctx, write));
        }
        writes
    }

    fn gathers_left(&mut self, ctx: &mut Ctx<'_>, write: &LocalWrite) -> bool {
        let (page, page_bytes) = (ctx.config.page_of(write.offset), ctx.config.page_bytes);
        let start = (write.offset - ctx.config.page_start(page)) as u32;
        let end = start
            .checked_add(write.len)
            .filter(|&end| end <= page_bytes);
        let gathered = self.gathered_mut(write.file, page);
        let (Some(end), Some(gathered)) = (end, gathered.filter(|it| it.is_offered)) else {
            return false;
        };
        ctx.out.push(Effect::Fill {
            frame: gathered.slot.frame,
            at: start,
            from: Piece {
                src: Src::Buf(write.buf),
                at: 0,
                len: write.len,
            },
        });
        gathered.mtime_ns = write.mtime_ns;
        gathered.ranges.insert(start, end);
        let due = gathered.is_due(page_bytes);
        ctx.stats.writes += 1;
        ctx.stats.written_bytes += u64::from(write.len);
        if due {
            self.wished.insert((write.file, page));
        }
        if due && let Some(file) = self.files.get_mut(&write.file) {
            file.gathering.since = Some(Time(ctx.now.0.saturating_sub(AGE_MAX.0)));
        }
        true
    }

    /// Checks what GATHER-6 says of pages and files; who would gather is asked at the end of each step.
    pub(crate) fn assert_offers(&self, config: &Config) {
        if !config.keeps(Guard::OffersTakenBack) {
            return;
        }
        for (&id, file) in &self.files {
            let pages = file.gathering.pages.iter();
            for (&page, _) in pages.filter(|(_, gathered)| gathered.is_offered) {
                assert!(
                    self.offers.contains(&(id, page)),
                    "GATHER-6: page {page} of {id:?} is listed"
                );
                assert!(
                    self.is_alone(file, id, page),
                    "GATHER-6: page {page} of {id:?} is offered"
                );
            }
        }
    }

    /// A session writes the file, by its homes, and no way in keeps any of it.
    fn is_written(&self, file: &File) -> bool {
        let writes = file.writers > 0 && !file.bypass && !file.orphan && !file.kept;
        writes && !file.mapped && file.parked.is_empty() && file.manager.is_some()
    }

    /// Such a file, and nothing else is kept here of the page.
    fn is_alone(&self, file: &File, id: FileId, page: u64) -> bool {
        self.is_written(file) && !file.copies.contains_key(&page) && !self.owned.has(id, page)
    }

    /// One of them is applied: what any write of this node leaves behind.
    pub(crate) fn wrote_here(&mut self, ctx: &mut Ctx<'_>, write: &LocalWrite) {
        ctx.stats.writes += 1;
        ctx.stats.written_bytes += u64::from(write.len);
        if let Some(file) = self.files.get_mut(&write.file) {
            file.wrote.insert(ctx.me());
            file.unreported = true;
            file.date.wrote(ctx.config, write.mtime_ns);
        }
    }
}

impl Gathered {
    /// It goes to its home before it grows.
    fn is_due(&self, page_bytes: u32) -> bool {
        self.ranges.covers(0, page_bytes) || self.ranges.count() >= PIECES_MAX
    }
}

/// Programs may leave bytes of a gathered page.
fn offer(ctx: &mut Ctx<'_>, (file, page): (FileId, u64), gathered: &mut Gathered) {
    gathered.is_offered = true;
    ctx.out.push(Effect::Offer {
        file,
        page,
        frame: gathered.slot.frame,
        limit: ctx.config.page_bytes,
    });
}

/// They may no longer.
pub(super) fn take_back(ctx: &mut Ctx<'_>, (file, page): (FileId, u64), gathered: &mut Gathered) {
    if core::mem::take(&mut gathered.is_offered) {
        let frame = gathered.slot.frame;
        ctx.out.push(Effect::TakeBack { file, page, frame });
    }
}

impl Desk<'_, '_> {
    /// True if a gathered page is one that GATHER-6 lets programs write.
    fn lets_leave(&self, id: FileId, page: u64) -> bool {
        let Some(file) = self.client.files.get(&id) else {
            return false;
        };
        let config = self.ctx.config;
        let gathered = self.client.gathered(id, page);
        let small = gathered.is_some_and(|gathered| !gathered.is_due(config.page_bytes));
        let lets = small && config.offers_pages() && self.client.is_alone(file, id, page);
        lets && self.may_gather(id, config.page_start(page), 1)
    }

    /// A program stores into a mapping of the file.
    pub(super) fn mapped(&mut self, id: FileId) {
        if let Some(file) = self.client.files.get_mut(&id) {
            file.mapped = file.handles > 0;
        }
    }
}
