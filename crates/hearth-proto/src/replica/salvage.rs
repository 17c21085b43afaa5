//! Bytes made again of shards when the home that had these sent is gone.
//!
//! Nodes with parity shards know what a stripe is made of. The first of them that lives, in the order of the
//! keepers, *salvages*. One stripe at a time it gathers as many shards as there are pages, and has the missing
//! pages made again. It brings to the store what had been written of them. The others ask it what became of it
//! all, and keep their shards until it answers. It may die, or never have had anything: then the next is asked.
//! If nobody is left to ask, or a stripe has too few shards, bytes are lost (SHARD-2). A node that the home has told
//! that the store has all says so instead.
//!
//! The home chose keepers that it knew. One that has come back may not have met the others yet when the home is gone: it
//! is waited for, so far as that was not seen to end since.

use super::shards::Shard;
use super::{Key, RETRY, Replica};
use crate::ctx::Ctx;
use crate::effect::{Alarm, Effect, Piece, Src};
use crate::frames::{Owner, Slot};
use crate::ids::{NodeId, StoreOpId};
use crate::input::StoreOk;
use crate::msg::{Body, Fate};
use crate::time::Span;
use crate::{Gen, RawErrno};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// Bytes on their way from shards to the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Salvage {
    /// Stripes that are not done; the first is at work.
    left: VecDeque<u32>,
    /// The nodes that may have a shard of that one and have not been asked, by place.
    untried: Option<VecDeque<(u32, NodeId)>>,
    /// Places that were asked for, by number of the question.
    asked: BTreeMap<u64, u32>,
    /// Shards that came, or were made.
    found: BTreeMap<u32, Slot>,
    /// Store writes that have not ended, and whether one failed.
    writes: u32,
    failed: bool,
    /// A stripe had too few shards.
    lost: bool,
}

/// A question about the shards of a ward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Question {
    /// Their fate.
    End,
    /// A shard.
    Shard,
}

impl Salvage {
    pub(super) fn frames(&self) -> usize {
        self.found.len()
    }

    pub(super) fn into_frames(self) -> impl Iterator<Item = Slot> {
        self.found.into_values()
    }
}

/// How many data and parity shards a whole stripe has.
fn shards_of(ctx: &Ctx<'_>) -> (u32, u32) {
    let (data, parity) = ctx.config.replicas_rule().shards().unwrap_or((1, 1));
    (data as u32, parity as u32)
}

impl Replica {
    /// Takes the next step about the shards of a home that is gone.
    pub(super) fn salvage(&mut self, ctx: &mut Ctx<'_>, key: Key) {
        let Some(ward) = self.wards.get_mut(&key) else {
            return;
        };
        let shards = &mut ward.shards;
        let waits = ward.retry.is_some() || shards.asked.is_some();
        if !ward.saving || waits || shards.is_empty() {
            return;
        }
        if shards.salvage.is_some() {
            return self.gather(ctx, key);
        }
        let data = shards_of(ctx).0 as usize;
        let knowing = shards.keepers.iter().skip(data - 1).copied();
        let mut lives = knowing.clone().filter(|&node| !ctx.peers.is_down(node));
        match lives.find(|node| !shards.unknowing.contains(node)) {
            None if shards.awaits(ctx, knowing) => self.wait_for_unmet(ctx, key),
            None => self.end_shards(ctx, key, Fate::Lost),
            Some(node) if node == ctx.me() => {
                shards.salvage = Some(Salvage {
                    left: shards.stripes.keys().copied().collect(),
                    ..Salvage::default()
                });
                self.gather(ctx, key);
            }
            Some(node) => {
                let (home, life, ver) = (key.1, key.2, shards.ver());
                shards.asked = Some(node);
                let body = Body::Over { home, life, ver };
                let req = ctx.ask(node, key.0, Gen::default(), body);
                self.shard_asks.insert(req.seq, (key, Question::End));
            }
        }
    }

    /// The salvage of a ward, and the shard that this node has of the stripe at work.
    fn at_work(&mut self, key: Key) -> Option<(&mut Salvage, &Shard)> {
        let shards = &mut self.wards.get_mut(&key)?.shards;
        let work = shards.salvage.as_mut()?;
        let stripe = *work.left.front()?;
        Some((work, shards.stripes.get(&stripe)?))
    }

    /// Asks for as many shards of the stripe at work as are lacking, or makes pages of them.
    fn gather(&mut self, ctx: &mut Ctx<'_>, key: Key) {
        let (data, _) = shards_of(ctx);
        let Some(shards) = self.wards.get_mut(&key).map(|ward| &mut ward.shards) else {
            return;
        };
        let Some(mut work) = shards.salvage.take() else {
            return;
        };
        let stripe = work.left.front().copied();
        let shard = stripe.and_then(|stripe| shards.stripes.get(&stripe));
        let Some((stripe, shard)) = stripe.zip(shard) else {
            let fate = if work.lost { Fate::Lost } else { Fate::Stored };
            shards.salvage = Some(work);
            return self.end_shards(ctx, key, fate);
        };
        let others = || shards.others(shard, data).into();
        let mut untried = work.untried.take().unwrap_or_else(others);
        let (ver, needed) = (shard.ver, shard.pages.len());
        let (home, life) = (key.1, key.2);
        while work.writes == 0 && 1 + work.found.len() + work.asked.len() < needed {
            let Some((place, node)) = untried.pop_front() else {
                break;
            };
            let body = Body::Gather {
                home,
                life,
                stripe,
                ver,
            };
            let req = ctx.ask(node, key.0, Gen::default(), body);
            work.asked.insert(req.seq, place);
            self.shard_asks.insert(req.seq, (key, Question::Shard));
        }
        let waits = work.writes > 0 || !work.asked.is_empty();
        let enough = 1 + work.found.len() >= needed;
        let others = shards.others(shard, data).into_iter();
        let comes = shards.awaits(ctx, others.map(|(_, node)| node));
        work.untried = Some(untried);
        work.lost |= !waits && !enough && !comes;
        shards.salvage = Some(work);
        match (waits, enough) {
            (true, _) => {}
            (false, false) if comes => self.wait_for_unmet(ctx, key),
            (false, true) => self.restore(ctx, key),
            (false, false) => self.leave_stripe(ctx, key),
        }
    }

    /// Somebody says what became of what a home had sealed.
    pub(super) fn end_told(&mut self, ctx: &mut Ctx<'_>, from: NodeId, seq: u64, fate: Fate) {
        let Some((key, question)) = self.shard_asks.remove(&seq) else {
            return;
        };
        let shards = self.wards.get_mut(&key).map(|ward| &mut ward.shards);
        let Some(shards) = shards.filter(|shards| !shards.is_empty()) else {
            return;
        };
        if question == Question::End {
            shards.asked = None;
            shards.unknowing.insert(from);
        } else if let Some(work) = &mut shards.salvage {
            work.asked.remove(&seq);
        }
        match (fate, question) {
            (Fate::Stored, _) | (Fate::Lost, Question::End) => self.end_shards(ctx, key, fate),
            (Fate::Lost | Fate::Unknown, _) => self.salvage(ctx, key),
        }
        self.tidy(ctx, key);
    }

    /// A shard came that was asked for.
    pub(super) fn shard_came(&mut self, ctx: &mut Ctx<'_>, seq: u64, data: Option<Piece>) {
        let Some((key, _)) = self.shard_asks.remove(&seq) else {
            return;
        };
        let Some((work, shard)) = self.at_work(key) else {
            return;
        };
        let Some(place) = work.asked.remove(&seq) else {
            return;
        };
        // A piece that is no shard of the stripe is as if there was none.
        let len = shard.len;
        if let Some(from) = data.filter(|piece| piece.len == len) {
            self.found(ctx, key, place, from);
        }
        self.salvage(ctx, key);
        self.tidy(ctx, key);
    }

    fn found(&mut self, ctx: &mut Ctx<'_>, key: Key, place: u32, from: Piece) {
        let Some(slot) = self.frame_of(ctx, key) else {
            return self.pause(ctx, key);
        };
        let (frame, at) = (slot.frame, 0);
        ctx.out.push(Effect::Fill { frame, at, from });
        if let Some((work, _)) = self.at_work(key) {
            work.found.insert(place, slot);
        }
    }

    /// A frame for the time of a stripe.
    fn frame_of(&mut self, ctx: &mut Ctx<'_>, key: Key) -> Option<Slot> {
        let slot = ctx.frames.take(Owner::Replica(key.0, 0))?;
        self.frames += 1;
        Some(slot)
    }

    /// There is no frame, or the store failed: the stripe is tried again later.
    fn pause(&mut self, ctx: &mut Ctx<'_>, key: Key) {
        self.start_anew(ctx, key);
        if let Some(ward) = self.wards.get_mut(&key) {
            ward.retry = Some(ctx.now + RETRY);
        }
    }

    /// A node that may have a shard has not been met: the same, for as long as it takes to give a node up twice.
    fn wait_for_unmet(&mut self, ctx: &mut Ctx<'_>, key: Key) {
        let patience = ctx.now + Span(ctx.config.give_up_after.0 * 2);
        if let Some(ward) = self.wards.get_mut(&key) {
            ward.shards.patience.get_or_insert(patience);
        }
        self.pause(ctx, key);
    }

    /// Lets go of what was gathered of a stripe.
    fn start_anew(&mut self, ctx: &mut Ctx<'_>, key: Key) {
        let Some((work, _)) = self.at_work(key) else {
            return;
        };
        let old = core::mem::take(work);
        work.left.clone_from(&old.left);
        work.lost = old.lost;
        for slot in old.into_frames() {
            ctx.frames.give_back(slot);
            self.frames -= 1;
        }
    }

    /// The stripe is done, or lost.
    fn leave_stripe(&mut self, ctx: &mut Ctx<'_>, key: Key) {
        self.start_anew(ctx, key);
        if let Some((work, _)) = self.at_work(key) {
            work.left.pop_front();
        }
        self.gather(ctx, key);
    }

    /// Makes the pages that are missing, and orders store writes for what was written of all.
    fn restore(&mut self, ctx: &mut Ctx<'_>, key: Key) {
        let (data, parity) = shards_of(ctx);
        let Some((work, shard)) = self.at_work(key) else {
            return;
        };
        let (shard, had) = (shard.clone(), work.found.clone());
        let count = shard.pages.len() as u32;
        // A short stripe is coded as what it is: its parity shards follow its pages.
        let coded = |place: u32| match place < data {
            true => place,
            false => place - data + count,
        };
        let held = had.iter().map(|(&place, slot)| (coded(place), slot.frame));
        let at_hand = held.chain([(coded(shard.place), shard.slot.frame)]);
        let at_hand: Vec<_> = at_hand.collect();
        let mut lost = Vec::new();
        for place in (0..count).filter(|place| !had.contains_key(place)) {
            let Some(slot) = self.frame_of(ctx, key) else {
                return self.pause(ctx, key);
            };
            lost.push((place, slot.frame));
            if let Some((work, _)) = self.at_work(key) {
                work.found.insert(place, slot);
            }
        }
        ctx.out.push(Effect::Restore {
            shards: (count, parity),
            len: shard.len,
            at_hand,
            lost,
        });
        self.write_stripe(ctx, key, &shard);
    }

    /// Brings to the store what had been written of the pages of a stripe.
    fn write_stripe(&mut self, ctx: &mut Ctx<'_>, key: Key, shard: &Shard) {
        let mut ops = Vec::new();
        let Some((work, _)) = self.at_work(key) else {
            return;
        };
        for (place, (page, ranges)) in (0..).zip(&shard.pages) {
            let Some(slot) = work.found.get(&place) else {
                continue;
            };
            let src = Src::Frame(slot.frame);
            for (at, end) in ranges.iter() {
                let op = ctx.new_op();
                ops.push(op);
                let len = end - at;
                ctx.out.push(Effect::StoreWrite {
                    op,
                    file: key.0,
                    offset: ctx.config.page_start(*page) + u64::from(at),
                    data: alloc::vec![Piece { src, at, len }],
                });
            }
        }
        work.writes = ops.len() as u32;
        self.shard_ops.extend(ops.into_iter().map(|op| (op, key)));
    }

    /// A store write of salvaged bytes ended; false if it is not one.
    pub(super) fn salvage_stored(
        &mut self,
        ctx: &mut Ctx<'_>,
        op: StoreOpId,
        result: Result<StoreOk, RawErrno>,
    ) -> bool {
        let Some(key) = self.shard_ops.remove(&op) else {
            return false;
        };
        let Some((work, _)) = self.at_work(key) else {
            return true;
        };
        work.writes -= 1;
        let news = result.is_err() && !work.failed;
        work.failed |= result.is_err();
        let (left, failed) = (work.writes, work.failed);
        if let Err(errno) = result
            && news
        {
            let alarm = Alarm::FlushFails(key.0, errno);
            ctx.out.push(Effect::Alarm(alarm));
        }
        match (left, failed) {
            (0, true) => self.pause(ctx, key),
            (0, false) => self.leave_stripe(ctx, key),
            _ => {}
        }
        self.tidy(ctx, key);
        true
    }
}
