//! Pages that programs of this node may write by themselves, without asking first.
//!
//! A page is *offered* when a write of this node was applied to it and nobody has a copy. A program
//! writes it by leaving the bytes where the driver finds them, and is done. The driver brings all that
//! was left as [`crate::Input::Locals`] before any other input, so to the kernel such a write happened
//! before whatever comes next.
//!
//! Invariant A7: an offered page is one whose write is applied at once, and which nobody would have to be
//! told of. Its frame stays. Nobody has a copy or is being given one or writes it by itself. No write, cut or
//! fill of it is under way, and its bytes reach the store. Some session has the file open for writing, and
//! the offer ends where the file is known to reach. The offer is taken back in the very step in which any of
//! that ends.

use super::write::Part;
use super::{Authority, Common, File, Home};
use crate::client::Client;
use crate::config::{Config, Policy, Ranges};
use crate::ctx::Ctx;
use crate::effect::{Effect, Piece, Src};
use crate::frames::{Frames, Slot};
use crate::guard::Guard;
use crate::ids::FileId;
use crate::input::LocalWrite;
use crate::semantics::Semantics;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// A page that is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Offer {
    slot: Slot,
    /// End of the bytes that may be written, within the page.
    limit: u32,
}

/// Offered pages, and pages of which writes were applied since those were last looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Offers {
    pages: BTreeMap<FileId, BTreeMap<u64, Offer>>,
    wanted: BTreeSet<(FileId, u64)>,
}

impl Config {
    /// True if pages are offered at all.
    pub(crate) fn offers_pages(&self) -> bool {
        let placed = matches!(self.policy, Policy::Home | Policy::HomePlus);
        let apart = self.ranges_rule(Semantics::Posix) == Ranges::Apart;
        self.offers && placed && apart && !self.has_tier()
    }
}

impl File {
    /// True if nothing of the file stands in the way of writes that are applied at once.
    fn lets_write(&self) -> bool {
        self.bar.is_none() && self.next_bar.is_none() && self.failed.is_none()
    }

    fn lets_write_page(&self, frames: &Frames, number: u64) -> Option<Slot> {
        let page = self.pages.get(&number)?;
        let free = page.readers.is_empty() && !page.filling && !page.reserved && !page.populating;
        let free = free && page.own.is_none();
        let free = free && !self.writes.iter().any(|write| write.touches(number, 1));
        page.slot.filter(|&slot| free && frames.valid(slot))
    }
}

impl Common {
    /// Files with pages that are offered.
    pub(super) fn offered_files(&self) -> impl Iterator<Item = FileId> + '_ {
        self.offers.pages.keys().copied()
    }

    /// The page is not what A7 says any more, or will not be in a moment.
    pub(super) fn take_back(&mut self, ctx: &mut Ctx<'_>, file: FileId, number: u64) {
        if self.offers.pages.is_empty() || !ctx.config.keeps(Guard::OffersTakenBack) {
            return;
        }
        let Some(pages) = self.offers.pages.get_mut(&file) else {
            return;
        };
        if let Some(offer) = pages.remove(&number) {
            let frame = offer.slot.frame;
            let page = number;
            ctx.out.push(Effect::TakeBack { file, page, frame });
        }
        if pages.is_empty() {
            self.offers.pages.remove(&file);
        }
    }

    /// As [`Common::take_back`], for all pages of a file.
    pub(super) fn take_back_all(&mut self, ctx: &mut Ctx<'_>, file: FileId) {
        for (page, offer) in self.offers.pages.remove(&file).into_iter().flatten() {
            let frame = offer.slot.frame;
            ctx.out.push(Effect::TakeBack { file, page, frame });
        }
    }
}

impl Home<'_, '_> {
    /// A write of this node was applied: the next one of the page may come by itself.
    pub(super) fn wish_offer(&mut self, first: u64, count: u32) {
        if self.ctx.config.offers_pages() {
            let pages = first..first + u64::from(count);
            let wanted = pages.map(|number| (self.id, number));
            self.common.offers.wanted.extend(wanted);
        }
    }
}

impl Authority {
    /// The end of a step: offers what was wished for, and takes back whole files.
    pub(crate) fn review_offers(&mut self, ctx: &mut Ctx<'_>, client: &Client) {
        let offers = &mut self.common.offers;
        if offers.pages.is_empty() && offers.wanted.is_empty() {
            return;
        }
        let wanted = core::mem::take(&mut offers.wanted);
        let all = &self.common.offers.pages;
        let over: Vec<FileId> = all
            .iter()
            .filter(|&(&id, pages)| !self.may_offer(ctx.config, client, id, pages))
            .map(|(&id, _)| id)
            .collect();
        for id in over {
            self.common.take_back_all(ctx, id);
        }
        for (id, number) in wanted {
            self.offer(ctx, client, id, number);
        }
    }

    /// True if what A7 says of the file as a whole holds.
    fn may_offer(
        &self,
        config: &Config,
        client: &Client,
        id: FileId,
        pages: &BTreeMap<u64, Offer>,
    ) -> bool {
        let end = pages.last_key_value().map_or(0, |(&number, offer)| {
            config.page_start(number) + u64::from(offer.limit)
        });
        let known = client.lets_write(id).is_some_and(|size| end <= size);
        known && self.files.get(&id).is_some_and(|file| file.lets_write())
    }

    fn offer(&mut self, ctx: &mut Ctx<'_>, client: &Client, id: FileId, number: u64) {
        let size = client.lets_write(id).unwrap_or(0);
        let below = size.saturating_sub(ctx.config.page_start(number));
        let limit = below.min(u64::from(ctx.config.page_bytes)) as u32;
        let file = self.files.get(&id).filter(|file| file.lets_write());
        let slot = file.and_then(|file| file.lets_write_page(ctx.frames, number));
        let here = client.is_home(ctx.config, id, number);
        let Some(slot) = slot.filter(|_| here && limit > 0) else {
            return;
        };
        let offer = Offer { slot, limit };
        let pages = self.common.offers.pages.entry(id).or_default();
        pages.insert(number, offer);
        ctx.out.push(Effect::Offer {
            file: id,
            page: number,
            frame: slot.frame,
            limit,
        });
    }

    /// How much of a page is offered.
    pub(crate) fn offered(&self, id: FileId, number: u64) -> Option<u32> {
        let offer = self.common.offers.pages.get(&id)?.get(&number)?;
        Some(offer.limit)
    }

    /// Applies writes that programs have left; refuses what is not offered.
    pub(crate) fn local_writes(
        &mut self,
        ctx: &mut Ctx<'_>,
        writes: &[LocalWrite],
        mut taken: impl FnMut(&mut Ctx<'_>, &LocalWrite),
    ) {
        let mut touched = Vec::new();
        for write in writes {
            let number = ctx.config.page_of(write.offset);
            let start = (write.offset - ctx.config.page_start(number)) as u32;
            let end = start.checked_add(write.len).filter(|&end| end > start);
            let limit = self.offered(write.file, number);
            let (Some(end), Some(limit)) = (end, limit) else {
                ctx.out.push(Effect::Refused(write.buf));
                continue;
            };
            if end > limit {
                ctx.out.push(Effect::Refused(write.buf));
                continue;
            }
            taken(ctx, write);
            let part = Part {
                page: number,
                start,
                end,
                at: 0,
            };
            let data = Piece {
                src: Src::Buf(write.buf),
                at: 0,
                len: write.len,
            };
            let mut home = self.home(ctx, write.file);
            let (me, ver) = (home.ctx.me(), home.common.next_ver());
            home.apply_part(&part, (me, data), ver);
            if touched.last() != Some(&(write.file, number)) {
                touched.push((write.file, number));
            }
        }
        touched.sort_unstable();
        touched.dedup();
        for (id, number) in touched {
            let mut home = self.home(ctx, id);
            home.relist();
            home.send_fresh_run(number);
        }
    }

    /// Checks A7.
    pub(crate) fn assert_offers(&self, config: &Config, frames: &Frames, client: &Client) {
        for (&id, pages) in &self.common.offers.pages {
            if !config.keeps(Guard::OffersTakenBack) {
                return;
            }
            assert!(
                self.may_offer(config, client, id, pages),
                "A7: {id:?} is offered"
            );
            let file = &self.files[&id];
            for (&number, offer) in pages {
                let slot = file.lets_write_page(frames, number);
                assert_eq!(
                    slot,
                    Some(offer.slot),
                    "A7: page {number} of {id:?} is offered"
                );
            }
        }
    }
}
