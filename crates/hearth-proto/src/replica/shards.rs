//! Shards of what homes have sealed, kept until the store has what they are of.
//!
//! A shard says nothing by itself; [`super::salvage`] has what is made of them when such a home is gone.
//!
//! Invariants:
//! - SHARD-1: while its home lives, or a salvage may need it, a shard is kept.
//! - SHARD-2: shards that are given up though the store lacks what they are of are told of, by name.

use super::salvage::Salvage;
use super::{Key, Replica};
use crate::Gen;
use crate::ctx::Ctx;
use crate::effect::{Alarm, Effect, Piece, Src};
use crate::frames::{Owner, Slot};
use crate::guard::Guard;
use crate::ids::{NodeId, ReqId, Ver};
use crate::msg::{Body, Envelope, Fate};
use crate::nodeset::NodeSet;
use crate::ranges::Ranges;
use crate::time::Time;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// The sealed bytes of a ward.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Shards {
    pub(super) stripes: BTreeMap<u32, Shard>,
    /// The nodes that have the places of a stripe, from 1 on.
    pub(super) keepers: Vec<NodeId>,
    /// The nodes that want to know its fate.
    askers: Vec<(NodeId, ReqId)>,
    /// The node that was asked that, and has not answered.
    pub(super) asked: Option<NodeId>,
    /// The nodes that have answered that they never had anything.
    pub(super) unknowing: BTreeSet<NodeId>,
    /// The nodes that were found gone since they were named as keepers. Any other that cannot be asked has
    /// not been met yet.
    pub(super) gone: NodeSet,
    /// Those are waited for until then.
    pub(super) patience: Option<Time>,
    pub(super) salvage: Option<Salvage>,
}

/// A shard of a stripe.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shard {
    pub(super) slot: Slot,
    pub(super) place: u32,
    pub(super) len: u32,
    pub(super) ver: Ver,
    /// Of a parity shard: the pages of the data shards, and what was written in each.
    pub(super) pages: Vec<(u64, Ranges)>,
}

/// The fates of shards that are not kept any more, for nodes that ask later. Bounded by `idle_files_max`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Ends(BTreeMap<Key, (Ver, Fate)>);

impl Ends {
    fn note(&mut self, key: Key, end: (Ver, Fate), most: usize) {
        self.0.insert(key, end);
        if self.0.len() > most {
            let other = self.0.keys().copied().find(|other| *other != key);
            other.map(|other| self.0.remove(&other));
        }
    }

    fn of(&self, key: Key, ver: Ver) -> Fate {
        let end = self.0.get(&key).filter(|(last, _)| *last >= ver);
        end.map_or(Fate::Unknown, |&(_, fate)| fate)
    }
}

impl Shards {
    pub(super) fn is_empty(&self) -> bool {
        self.stripes.is_empty()
    }

    /// Frames that it has.
    pub(super) fn frames(&self) -> usize {
        let found = self.salvage.as_ref().map_or(0, Salvage::frames);
        self.stripes.len() + found
    }

    /// True if some of these nodes cannot be asked, and one of them may yet have a shard.
    pub(super) fn awaits(&self, ctx: &Ctx<'_>, mut nodes: impl Iterator<Item = NodeId>) -> bool {
        let patient = self.patience.is_none_or(|until| ctx.now < until);
        patient && nodes.any(|node| ctx.peers.is_down(node) && !self.gone.contains(node))
    }

    /// The last count of its shards.
    pub(super) fn ver(&self) -> Ver {
        let counts = self.stripes.values().map(|shard| shard.ver);
        counts.max().unwrap_or_default()
    }

    /// Nodes but this one that have a shard of the stripe of `shard`, those first whose shards are pages. The first
    /// page was the home's.
    pub(super) fn others(&self, shard: &Shard, data: u32) -> Vec<(u32, NodeId)> {
        let parity = data..=self.keepers.len() as u32;
        let places = (1..shard.pages.len() as u32).chain(parity);
        let keeper = |place: u32| self.keepers.get(place.checked_sub(1)? as usize);
        let there = |place: u32| Some((place, *keeper(place)?));
        let others = places.filter(|&place| place != shard.place);
        others.filter_map(there).collect()
    }
}

impl Replica {
    /// Handles what nodes with shards say to each other; false if it is something else.
    pub(super) fn shard_message(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: NodeId,
        envelope: &Envelope,
        data: Option<Piece>,
    ) -> bool {
        let (file, req) = (envelope.file, envelope.req);
        match envelope.body {
            Body::Over { home, life, ver } => {
                self.asked_for_end(ctx, (from, req), (file, home, life), ver);
            }
            Body::Gather {
                home,
                life,
                stripe,
                ver,
            } => self.asked_for_shard(ctx, (from, req), (file, home, life), (stripe, ver)),
            Body::OverIs(fate) => self.end_told(ctx, from, req.seq, fate),
            Body::Gathered => self.shard_came(ctx, req.seq, data),
            _ => return false,
        }
        true
    }

    /// Takes a shard in; false if there is no room.
    pub(super) fn take_shard(
        &mut self,
        ctx: &mut Ctx<'_>,
        key: Key,
        body: &Body,
        from: Piece,
    ) -> bool {
        let Body::Shard {
            stripe,
            place,
            ver,
            keepers,
            pages,
            ranges,
        } = body
        else {
            return false;
        };
        let Some(pages) = layout_of(pages, ranges, from.len) else {
            return false;
        };
        if !fits(ctx, *place, keepers, &pages, from.len) {
            return false;
        }
        let room = self.frames < ctx.config.replica_frames();
        let owner = Owner::Replica(key.0, u64::from(*stripe));
        let Some(slot) = room.then(|| ctx.frames.take(owner)).flatten() else {
            return false;
        };
        self.frames += 1;
        let (frame, at) = (slot.frame, 0);
        ctx.out.push(Effect::Fill { frame, at, from });
        let shards = &mut self.wards.entry(key).or_default().shards;
        shards.keepers.clone_from(keepers);
        let shard = Shard {
            slot,
            place: *place,
            len: from.len,
            ver: *ver,
            pages,
        };
        if let Some(old) = shards.stripes.insert(*stripe, shard) {
            ctx.frames.give_back(old.slot);
            self.frames -= 1;
        }
        true
    }

    /// The store has all that the home sealed.
    pub(super) fn trim_shards(&mut self, ctx: &mut Ctx<'_>, key: Key, ver: Ver) {
        let shards = self.wards.get(&key).map(|ward| &ward.shards);
        let old = |s: &Shards| !s.is_empty() && s.ver() <= ver && s.salvage.is_none();
        if shards.is_some_and(old) {
            self.end_shards(ctx, key, Fate::Stored);
        }
    }

    /// The fate of the bytes is known: shards of them need not be kept (SHARD-1, SHARD-2).
    pub(super) fn end_shards(&mut self, ctx: &mut Ctx<'_>, key: Key, fate: Fate) {
        let Some(ward) = self.wards.get_mut(&key) else {
            return;
        };
        let shards = core::mem::take(&mut ward.shards);
        let end = (shards.ver(), fate);
        self.ends.note(key, end, ctx.config.idle_files_max);
        if fate == Fate::Lost && ctx.config.keeps(Guard::LossTold) {
            ctx.out.push(Effect::Alarm(Alarm::HomeLost(key.0, key.1)));
        }
        let found = shards.salvage.into_iter().flat_map(Salvage::into_frames);
        let kept = shards.stripes.into_values().map(|shard| shard.slot);
        for slot in kept.chain(found) {
            ctx.frames.give_back(slot);
            self.frames -= 1;
        }
        for (from, req) in shards.askers {
            ctx.answer(from, key.0, Gen::default(), req, Body::OverIs(fate));
        }
    }

    fn asked_for_end(&mut self, ctx: &mut Ctx<'_>, asker: (NodeId, ReqId), key: Key, ver: Ver) {
        let shards = self.wards.get_mut(&key).map(|ward| &mut ward.shards);
        if let Some(shards) = shards.filter(|shards| !shards.is_empty()) {
            return shards.askers.push(asker);
        }
        let body = Body::OverIs(self.ends.of(key, ver));
        ctx.answer(asker.0, key.0, Gen::default(), asker.1, body);
    }

    fn asked_for_shard(
        &mut self,
        ctx: &mut Ctx<'_>,
        (from, req): (NodeId, ReqId),
        key: Key,
        (stripe, ver): (u32, Ver),
    ) {
        let ward = self.wards.get(&key);
        let shard = ward.and_then(|ward| ward.shards.stripes.get(&stripe));
        let (body, data) = match shard.filter(|shard| shard.ver == ver) {
            Some(shard) => {
                let (src, len) = (Src::Frame(shard.slot.frame), shard.len);
                (Body::Gathered, alloc::vec![Piece { src, at: 0, len }])
            }
            None => (Body::OverIs(self.ends.of(key, ver)), Vec::new()),
        };
        ctx.answer_with(from, key.0, Gen::default(), req, body, data);
    }

    /// Bytes of shards that are kept for homes.
    pub(super) fn shard_bytes(&self) -> u64 {
        let shards = self.wards.values().flat_map(|w| w.shards.stripes.values());
        shards.map(|shard| u64::from(shard.len)).sum()
    }
}

/// True for what a home of this job can have sent: a shard of a place that there is, and with parity the pages.
fn fits(ctx: &Ctx<'_>, place: u32, keepers: &[NodeId], pages: &[(u64, Ranges)], len: u32) -> bool {
    let Some((data, parity)) = ctx.config.replicas_rule().shards() else {
        return false;
    };
    let whole = len > 0 && len <= ctx.config.page_bytes && len.is_multiple_of(2);
    let known = match (place as usize) < data {
        true => pages.is_empty(),
        false => (1..=data).contains(&pages.len()),
    };
    let there = keepers.iter().all(|keeper| keeper.0 < ctx.config.nodes);
    let all = there && keepers.len() + 1 == data + parity;
    whole && known && all && place > 0 && (place as usize) < data + parity
}

/// The pages of a stripe and what was written of each; `None` for what no home says.
fn layout_of(pages: &[u64], ranges: &[u32], len: u32) -> Option<Vec<(u64, Ranges)>> {
    let blank = |&page: &u64| (page, Ranges::default());
    let mut layout: Vec<(u64, Ranges)> = pages.iter().map(blank).collect();
    let (triples, rest) = ranges.as_chunks::<3>();
    for &[place, start, end] in triples {
        let page = layout.get_mut(place as usize);
        let page = page.filter(|_| start < end && end <= len)?;
        page.1.insert(start, end);
    }
    rest.is_empty().then_some(layout)
}
