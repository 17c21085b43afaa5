//! Bytes that their writer has closed: shards of them on other nodes until the store has them.
//!
//! If the job wants shards ([`Replicas::Erasure`]) nobody is sent anything while a file is written. When a node
//! closes it, the dirty pages that it wrote are *sealed*. So many of them at a time are the data shards of a
//! *stripe*, as they are, each with zeros where nobody wrote. Parity shards are made of them. The first data
//! shard stays here, where all of the page is. Each other shard goes to a keeper of its own. The last stripe may
//! have fewer data shards. It has all parity shards, so these nodes know of every stripe which pages it is made
//! of ([`crate::replica`]).
//!
//! A stripe is never changed. A writer of sealed bytes waits until the store has all that is dirty of the file
//! and the keepers have dropped their shards. That ends the seal of the whole file. So does a keeper that is gone
//! or has no room. Then the store is the next place.
//!
//! Invariants:
//! - A12: a close is answered when of every page that its node wrote each keeper has its shard, or the store has it.
//! - A13: a page of which there are shards does not change. Else shards would not fit each other, or bring back
//!   what is older than what the store has.

use super::replicate::OnItsWay;
use super::{File, FlushAsk, Home, Verdict};
use crate::config::Replicas;
use crate::effect::{Effect, Piece, Src};
use crate::guard::Guard;
use crate::ids::{Buf, FrameId};
use crate::msg::{Body, Goal};
use crate::ranges::Ranges;
use alloc::vec::Vec;

/// Shards of a file on their way to keepers, at most: what is queued for a node has an end.
const SHARDS_MAX: usize = 32;

/// Pieces of a page that a message names, at most. As many of all pages of a stripe are still a list of the wire.
const PIECES_MAX: usize = 512;

/// The bytes of a page that a stripe has.
struct Data {
    page: u64,
    frame: FrameId,
    ranges: Ranges,
}

impl Data {
    /// The shard: so many bytes of the page, zero where nobody wrote.
    fn pieces(&self, len: u32) -> Vec<Piece> {
        let src = Src::Frame(self.frame);
        let mut pieces = Vec::new();
        let mut end = 0;
        for (from, to) in self.ranges.iter() {
            pieces.extend(zeros(from - end));
            let len = to - from;
            pieces.push(Piece { src, at: from, len });
            end = to;
        }
        pieces.extend(zeros(len - end));
        pieces
    }
}

fn zeros(len: u32) -> Option<Piece> {
    let src = Src::Zero;
    (len > 0).then_some(Piece { src, at: 0, len })
}

impl File {
    /// Fewer nodes have shards of what is sealed than the job wants.
    pub(super) fn lacks_shards(&self, rule: Replicas) -> bool {
        let wards = &self.wards;
        !wards.copied.is_empty() && (wards.full || wards.keepers.len() < rule.copies())
    }

    /// No more is sealed before the store has all.
    fn is_unsealing(&self) -> bool {
        self.wards.unsealing || self.wards.full
    }

    /// Every keeper has its shard of the page's stripe.
    fn is_sealed(&self, page: u64) -> bool {
        let wards = &self.wards;
        let under_way = wards.copying.values().any(|way| way.pages.contains(&page));
        wards.copied.contains(&page) && !under_way && !self.is_unsealing()
    }
}

impl Home<'_, '_> {
    /// Seals what a close is about; `None` if it is for the store (A12).
    pub(super) fn try_seal(&mut self, ask: &FlushAsk) -> Option<Verdict> {
        let (data, parity) = self.rule().shards()?;
        if ask.goal != Goal::Sealed || ask.need.is_empty() {
            return None;
        }
        if !self.file.wards.releasing.is_empty() {
            return Some(Verdict::Wait);
        }
        let pages = || ask.need.iter().map(|&(page, _)| page);
        if !self.may_seal() || pages().any(|page| self.is_scattered(page)) {
            return None;
        }
        let ready: Vec<u64> = pages().filter(|&page| self.is_at_rest(page)).collect();
        for stripe in ready.chunks(data) {
            if self.file.wards.copying.len() < SHARDS_MAX {
                self.send_stripe(stripe, (data, parity));
            }
        }
        let waits = pages().any(|page| !self.file.is_sealed(page));
        if waits && self.ctx.config.keeps(Guard::SealedFirst) {
            return Some(Verdict::Wait);
        }
        let (id, generation) = (self.id, self.file.generation);
        self.ctx
            .answer(ask.from, id, generation, ask.req, Body::Sealed);
        Some(Verdict::Done)
    }

    /// Enough nodes are there to have shards.
    fn may_seal(&mut self) -> bool {
        if self.file.bar.is_some() || self.file.is_unsealing() {
            return false;
        }
        let enough = self.choose_keepers();
        if !enough && self.file.wards.copied.is_empty() {
            self.file.wards.keepers.clear();
        }
        enough
    }

    /// More pieces of a page were written than a message names.
    fn is_scattered(&self, page: u64) -> bool {
        let page = self.file.pages.get(&page);
        page.is_some_and(|page| page.dirty.count() > PIECES_MAX)
    }

    /// The page is not sealed, and nothing is under way that changes which of its bytes the store lacks.
    fn is_at_rest(&self, number: u64) -> bool {
        let page = self.file.pages.get(&number);
        let at_rest =
            page.is_some_and(|p| p.writes == 0 && p.slot.is_some() && !p.dirty.is_empty());
        let mut writes = self.file.writes.iter();
        at_rest
            && !self.file.wards.copied.contains(&number)
            && !writes.any(|w| w.touches(number, 1))
    }

    fn send_stripe(&mut self, pages: &[u64], (data, parity): (usize, usize)) {
        let written = |&number: &u64| {
            let page = self.file.pages.get(&number)?;
            Some(Data {
                page: number,
                frame: page.slot?.frame,
                ranges: page.dirty.clone(),
            })
        };
        let shards: Vec<Data> = pages.iter().filter_map(written).collect();
        let ends = shards.iter().filter_map(|shard| shard.ranges.span());
        let len = ends.map(|(_, end)| end).max().unwrap_or(0);
        let len = len.next_multiple_of(2);
        let mut places: Vec<Option<Vec<Piece>>> = Vec::new();
        places.extend(shards.iter().map(|shard| Some(shard.pieces(len))));
        let bufs: Vec<Buf> = (0..parity).map(|_| self.ctx.new_buf()).collect();
        self.ctx.out.push(Effect::Encode {
            data: places.iter().flatten().cloned().collect(),
            parity: bufs.clone(),
        });
        places.resize(data, None);
        let whole = |buf: &Buf| Piece {
            src: Src::Buf(*buf),
            at: 0,
            len,
        };
        places.extend(bufs.iter().map(|buf| Some(alloc::vec![whole(buf)])));
        self.send_shards(&shards, places, data);
        self.ctx.out.extend(bufs.into_iter().map(Effect::Free));
        self.file.wards.copied.extend(pages);
        self.file.wards.stripes += 1;
    }

    /// Sends every shard but the first to its keeper.
    fn send_shards(&mut self, shards: &[Data], places: Vec<Option<Vec<Piece>>>, data: usize) {
        let (id, generation, ver) = (self.id, self.file.generation, self.common.next_ver());
        let keepers = self.file.wards.keepers.clone();
        let pages: Vec<u64> = shards.iter().map(|shard| shard.page).collect();
        let ranges = layout(shards);
        for (place, (&keeper, pieces)) in (1..).zip(keepers.iter().zip(places.into_iter().skip(1)))
        {
            let Some(pieces) = pieces else {
                continue;
            };
            let is_parity = place >= data;
            let told = |list: &[u64]| if is_parity { list.to_vec() } else { Vec::new() };
            let body = Body::Shard {
                stripe: self.file.wards.stripes,
                place: place as u32,
                ver,
                keepers: keepers.clone(),
                pages: told(&pages),
                ranges: if is_parity {
                    ranges.clone()
                } else {
                    Vec::new()
                },
            };
            let req = self.ctx.ask_with(keeper, id, generation, body, pieces);
            self.common.acks.insert(req.seq, id);
            let way = OnItsWay {
                keeper,
                pages: pages.clone(),
                held: true,
            };
            self.file.wards.copying.insert(req.seq, way);
        }
    }

    /// True if a write has to wait until what is sealed of the file is in the store, and nobody has shards of it
    /// (A13).
    pub(super) fn unseals(&mut self, first: u64, count: u32) -> bool {
        let guarded = self.rule().shards().is_some() && self.ctx.config.keeps(Guard::UnsealedFirst);
        if !guarded || self.file.wards.is_over() {
            return false;
        }
        let pages = first..first + u64::from(count);
        let wards = &mut self.file.wards;
        wards.unsealing |= wards.copied.range(pages).next().is_some();
        let waits = self.file.is_unsealing() || !self.file.wards.releasing.is_empty();
        if waits {
            self.start_flush();
        }
        waits
    }

    /// Nothing is sealed any more, and nobody has anything to drop. Writes go on.
    pub(super) fn go_on_unsealed(&mut self) {
        if self.rule().shards().is_some() && self.file.wards.is_over() {
            self.pump();
        }
    }

    /// A keeper is gone: the store is to have what there are too few shards of.
    pub(super) fn lose_shards(&mut self) {
        self.file.wards.unsealing = true;
        self.start_flush();
    }
}

/// The written bytes of each page: its place, the first byte and the end.
fn layout(shards: &[Data]) -> Vec<u32> {
    let ranges = |(place, shard): (u32, &Data)| {
        let ranges: Vec<(u32, u32)> = shard.ranges.iter().collect();
        ranges
            .into_iter()
            .flat_map(move |(start, end)| [place, start, end])
    };
    (0..).zip(shards).flat_map(ranges).collect()
}
