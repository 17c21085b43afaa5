//! Bytes of other homes that the store lacks, kept here until it has them or such a home is gone.
//!
//! A *ward* is what one life of a home has of one file. Its home sends bytes before it acknowledges them (or
//! afterwards, if the job wants no more), and says when the store has them. When the home is gone the ward is
//! *saved*: what is kept goes to the store, and whoever waits for that is answered.
//!
//! Invariants:
//! - REPLICA-1: while the home lives, a ward's bytes of a page are not older than the store's. So saving them never
//!   takes anything back ([`crate::authority`] flushes a page only when its keepers have what the store
//!   gets).
//! - REPLICA-2: a page of a copy is taken whole or not at all, and one that is kept already is always taken.
//! - REPLICA-3: a ward is saved once its home is gone, and only then.
//! - REPLICA-4: a page that the store refused a part of is written again as a whole, when no part of the ward is on its
//!   way: one that came later says nothing of the part that was refused.
//! - REPLICA-5: a marked ward that is saved tells people, by name, that its home had more than it sent.

mod salvage;
mod shards;

use crate::RawErrno;
use crate::ctx::Ctx;
use crate::effect::{Alarm, Effect, Piece, Src, TierGone};
use crate::errno::ESTALE;
use crate::frames::{Owner, Slot};
use crate::guard::Guard;
use crate::ids::{FileId, Gen, NodeId, ReqId, StoreOpId, Ver};
use crate::input::StoreOk;
use crate::msg::{Body, Envelope, Here};
use crate::ranges::Ranges;
use crate::time::{Span, Time};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use salvage::Question;
use shards::{Ends, Shards};

/// Pause before a store that failed is tried again.
const RETRY: Span = Span::secs(1);

/// Tries in a row after which a file that the store does not have is taken for gone, if a view waits for it.
const STRAYS_MAX: u8 = 3;

/// A file, its home, and which life of that.
type Key = (FileId, NodeId, u64);

/// All wards of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Replica {
    wards: BTreeMap<Key, Ward>,
    /// All wards that wait for a time, and others that did: those that are saved, and those that somebody asks about.
    timed: BTreeSet<Key>,
    ops: BTreeMap<StoreOpId, (Key, Vec<u64>)>,
    /// Frames that wards have.
    frames: u32,
    /// The fates of shards that are not kept any more.
    ends: Ends,
    /// Questions about shards of a ward that are not answered, and store writes of what was made of them.
    shard_asks: BTreeMap<u64, (Key, Question)>,
    shard_ops: BTreeMap<StoreOpId, Key>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Ward {
    marked: bool,
    pages: BTreeMap<u64, Kept>,
    shards: Shards,
    /// The home is gone.
    saving: bool,
    /// All is in this node's tier, which brings it to the store.
    settling: bool,
    /// When the store, which failed, is tried again.
    retry: Option<Time>,
    /// Tries in a row in which the store did not have the file.
    strays: u8,
    waiting: Vec<Asker>,
}

/// The bytes of a page that are kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kept {
    slot: Slot,
    ranges: Ranges,
    ver: Ver,
    /// Store writes that carry it.
    writes: u32,
}

/// A node that waits until a ward is saved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Asker {
    from: NodeId,
    req: ReqId,
    told: (Here, Gen),
    gone: Vec<u32>,
    back: Vec<u32>,
    /// Number of the question whether the home lives, while it counts as alive.
    ping: u64,
    /// Unless the home turns out to live until then.
    until: Time,
}

/// Contiguous bytes of a ward.
struct Run {
    offset: u64,
    len: u32,
    data: Vec<Piece>,
    pages: Vec<u64>,
}

impl Ward {
    /// Some of it is on its way to the store.
    fn is_writing(&self) -> bool {
        self.pages.values().any(|kept| kept.writes > 0)
    }
}

impl Replica {
    /// Handles a message of a home; `data` is its payload.
    pub(crate) fn message(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: NodeId,
        envelope: &Envelope,
        data: Option<Piece>,
    ) {
        if self.shard_message(ctx, from, envelope, data) {
            return;
        }
        let key = (envelope.file, from, envelope.req.inc);
        self.outlived(ctx, key);
        let answered = match (&envelope.body, data) {
            (
                Body::Copy {
                    offset,
                    pieces,
                    ver,
                },
                Some(data),
            ) => Some(self.copy(ctx, key, (*offset, pieces, *ver), data)),
            (Body::Shard { .. }, Some(data)) => {
                Some(self.take_shard(ctx, key, &envelope.body, data))
            }
            (Body::Mark, _) => {
                self.wards.entry(key).or_default().marked = true;
                Some(true)
            }
            (&Body::Trim { first, count, ver }, _) => {
                self.trim(ctx, key, (first, count), ver);
                (count == u32::MAX).then_some(true)
            }
            _ => Some(false),
        };
        if let Some(taken) = answered {
            let body = Body::Kept(taken);
            ctx.answer(from, envelope.file, envelope.generation, envelope.req, body);
        }
    }

    /// A home speaks: its earlier lives are over.
    fn outlived(&mut self, ctx: &mut Ctx<'_>, (file, home, life): Key) {
        let wards = self.wards.range((file, home, 0)..(file, home, life));
        let over: Vec<Key> = wards.map(|(&key, _)| key).collect();
        over.into_iter().for_each(|key| self.save(ctx, key));
    }

    /// Takes bytes in; false if at least one page found no room (REPLICA-2).
    fn copy(
        &mut self,
        ctx: &mut Ctx<'_>,
        key: Key,
        (offset, pieces, ver): (u64, &[u32], Ver),
        data: Piece,
    ) -> bool {
        let (mut at, mut taken) = (0, true);
        for piece in pieces.as_chunks::<2>().0 {
            let [start, len] = *piece;
            let place = offset + u64::from(start);
            if len == 0 || at + len > data.len {
                return false;
            }
            for part in crate::authority::parts(ctx.config, place, len) {
                let from = Piece {
                    at: data.at + at + part.at,
                    len: part.end - part.start,
                    ..data
                };
                taken &= self.take(ctx, key, (part.page, part.start), from, ver);
            }
            at += len;
        }
        taken
    }

    fn take(
        &mut self,
        ctx: &mut Ctx<'_>,
        key: Key,
        (page, start): (u64, u32),
        from: Piece,
        ver: Ver,
    ) -> bool {
        let known = self.wards.get(&key).and_then(|ward| ward.pages.get(&page));
        let slot = match known {
            Some(kept) => Some(kept.slot),
            None if self.frames >= ctx.config.replica_frames() => None,
            None => ctx.frames.take(Owner::Replica(key.0, page)),
        };
        let Some(slot) = slot else {
            return false;
        };
        self.frames += u32::from(known.is_none());
        let ward = self.wards.entry(key).or_default();
        let kept = ward.pages.entry(page).or_insert_with(|| Kept {
            slot,
            ranges: Ranges::default(),
            ver,
            writes: 0,
        });
        kept.ranges.insert(start, start + from.len);
        kept.ver = kept.ver.max(ver);
        ctx.out.push(Effect::Fill {
            frame: slot.frame,
            at: start,
            from,
        });
        true
    }

    /// The store has some pages: they need not be kept.
    fn trim(&mut self, ctx: &mut Ctx<'_>, key: Key, (first, count): (u64, u32), ver: Ver) {
        let Some(ward) = self.wards.get_mut(&key) else {
            return;
        };
        let end = match count {
            u32::MAX => u64::MAX,
            count => first.saturating_add(u64::from(count)),
        };
        ward.marked &= count != u32::MAX;
        let all = count == u32::MAX;
        let old = ward.pages.range(first..end);
        let old = old.filter(|(_, kept)| kept.ver <= ver && kept.writes == 0);
        let gone: Vec<u64> = old.map(|(&page, _)| page).collect();
        for page in gone {
            if let Some(kept) = ward.pages.remove(&page) {
                ctx.frames.give_back(kept.slot);
                self.frames -= 1;
            }
        }
        if all {
            self.trim_shards(ctx, key, ver);
        }
        self.tidy(ctx, key);
    }

    /// A home is gone: what is kept of it is saved (REPLICA-3).
    pub(crate) fn peer_down(&mut self, ctx: &mut Ctx<'_>, peer: NodeId) {
        for ward in self.wards.values_mut() {
            ward.waiting.retain(|asker| asker.from != peer);
            ward.shards.gone.insert(peer);
        }
        let wards = self.wards.keys().filter(|(_, home, _)| *home == peer);
        let over: Vec<Key> = wards.copied().collect();
        over.into_iter().for_each(|key| self.save(ctx, key));
    }

    /// Somebody is to do something about a file that nodes may have had bytes of which are gone, or are back.
    pub(crate) fn rescue(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: NodeId,
        envelope: &Envelope,
        (gone, back): (&[u32], &[u32]),
        told: (Here, Gen),
    ) {
        let (file, req) = (envelope.file, envelope.req);
        let mine = (file, NodeId(0), 0)..=(file, NodeId(u32::MAX), u64::MAX);
        // The asker may have been away when another home went.
        let counts = |(key, ward): &(&Key, &Ward)| {
            ward.saving || gone.contains(&key.1.0) || back.contains(&key.1.0)
        };
        let wards = self.wards.range(mine).filter(counts);
        for key in wards.map(|(&key, _)| key).collect::<Vec<Key>>() {
            let own = key.1 == from;
            if own && key.2 < req.inc || ctx.peers.is_down(key.1) {
                self.save(ctx, key);
            }
            let Some(ward) = self.wards.get_mut(&key).filter(|_| !own || key.2 < req.inc) else {
                continue;
            };
            // A home that this node takes for alive: either it is found gone soon, or it answers. Then who takes it for
            // gone is cut off from it, and who takes it for back means an earlier life.
            let alive = !ward.saving;
            let ping =
                alive.then(|| ctx.ask(key.1, FileId::default(), envelope.generation, Body::Ping));
            let until = ctx.now + Span(ctx.config.give_up_after.0 * 2);
            self.timed.insert(key);
            return ward.waiting.push(Asker {
                from,
                req,
                told,
                back: back.to_vec(),
                gone: gone.to_vec(),
                ping: ping.map_or(0, |ping| ping.seq),
                until,
            });
        }
        rescued(ctx, (from, req), file, told);
    }

    /// A home lives that somebody takes for gone, or for back.
    pub(crate) fn lives(&mut self, ctx: &mut Ctx<'_>, home: NodeId, req: ReqId) {
        let mut answered = Vec::new();
        for (key, ward) in self
            .wards
            .iter_mut()
            .filter(|(key, ward)| key.1 == home && !ward.saving)
        {
            let at = ward.waiting.iter().position(|asker| asker.ping == req.seq);
            answered.extend(at.map(|at| (key.0, ward.waiting.remove(at))));
        }
        for (file, mut asker) in answered {
            if asker.gone.contains(&home.0) {
                let body = Body::Failed(crate::errno::EHOSTDOWN);
                ctx.answer(asker.from, file, Gen::default(), asker.req, body);
                continue;
            }
            asker.back.retain(|&node| node != home.0);
            self.ask_again(ctx, file, &asker);
        }
    }

    fn ask_again(&mut self, ctx: &mut Ctx<'_>, file: FileId, asker: &Asker) {
        let envelope = Envelope {
            view: ctx.config.view,
            file,
            generation: Gen::default(),
            req: asker.req,
            body: Body::Ping,
        };
        let nodes = (&asker.gone[..], &asker.back[..]);
        self.rescue(ctx, asker.from, &envelope, nodes, asker.told);
    }

    /// Brings a ward to the store.
    fn save(&mut self, ctx: &mut Ctx<'_>, key: Key) {
        let Some(ward) = self.wards.get_mut(&key) else {
            return;
        };
        if core::mem::replace(&mut ward.saving, true) {
            return;
        }
        self.timed.insert(key);
        if core::mem::take(&mut ward.marked) && ctx.config.keeps(Guard::LossTold) {
            ctx.out.push(Effect::Alarm(Alarm::HomeLost(key.0, key.1)));
        }
        if !ctx.config.keeps(Guard::WardSaved) {
            self.drop_pages(ctx, key);
        }
        self.write(ctx, key);
    }

    /// Orders store writes for all that is kept and not on its way.
    fn write(&mut self, ctx: &mut Ctx<'_>, key: Key) {
        let Some(ward) = self.wards.get_mut(&key) else {
            return;
        };
        ward.retry = None;
        for run in runs(ctx, ward) {
            let op = ctx.new_op();
            for page in &run.pages {
                if let Some(kept) = ward.pages.get_mut(page) {
                    kept.writes += 1;
                }
            }
            self.ops.insert(op, (key, run.pages));
            ctx.out.push(Effect::StoreWrite {
                op,
                file: key.0,
                offset: run.offset,
                data: run.data,
            });
        }
        self.salvage(ctx, key);
        self.tidy(ctx, key);
    }

    /// A store operation ended; false if it is not one of a ward's.
    pub(crate) fn store_done(
        &mut self,
        ctx: &mut Ctx<'_>,
        op: StoreOpId,
        result: Result<StoreOk, RawErrno>,
    ) -> bool {
        let Some((key, pages)) = self.ops.remove(&op) else {
            return self.salvage_stored(ctx, op, result);
        };
        let Some(ward) = self.wards.get_mut(&key) else {
            return true;
        };
        ward.settling &= !pages.is_empty();
        for page in &pages {
            if let Some(kept) = ward.pages.get_mut(page) {
                kept.writes -= 1;
            }
        }
        match result {
            Ok(_) => {
                ward.strays = 0;
                self.stored(ctx, key, pages);
            }
            Err(errno) if ward.retry.is_none() => {
                ward.retry = Some(ctx.now + RETRY);
                ward.strays = match errno {
                    ESTALE => ward.strays.saturating_add(1),
                    _ => 0,
                };
                let alarm = Alarm::FlushFails(key.0, errno);
                ctx.out.push(Effect::Alarm(alarm));
            }
            Err(_) => {}
        }
        self.tidy(ctx, key);
        true
    }

    /// Pages are in the store; or in this node's tier, which brings them there once all are.
    fn stored(&mut self, ctx: &mut Ctx<'_>, key: Key, pages: Vec<u64>) {
        let Some(ward) = self.wards.get_mut(&key) else {
            return;
        };
        let at_work = ward.is_writing();
        if ward.retry.is_some() || ward.settling {
            return;
        }
        let gone = match (ctx.config.has_tier(), pages.is_empty()) {
            (false, _) => pages,
            (true, true) => {
                // Others write the file from now on, past this node's tier: its copies of it would be old.
                let (file, gone) = (key.0, TierGone::Copies);
                let from = 0;
                ctx.out.push(Effect::TierCut { file, from, gone });
                ward.pages.keys().copied().collect()
            }
            (true, false) if at_work => return,
            (true, false) => {
                ward.settling = true;
                let (op, file, sync) = (ctx.new_op(), key.0, None);
                self.ops.insert(op, (key, Vec::new()));
                return ctx.out.push(Effect::StoreSync { op, file, sync });
            }
        };
        let idle = |page: &u64| ward.pages.get(page).is_some_and(|kept| kept.writes == 0);
        for page in gone.into_iter().filter(idle).collect::<Vec<u64>>() {
            if let Some(kept) = ward.pages.remove(&page) {
                ctx.frames.give_back(kept.slot);
                self.frames -= 1;
            }
        }
    }

    /// Tries stores again that failed, and ends what was asked in vain.
    pub(crate) fn tick(&mut self, ctx: &mut Ctx<'_>) {
        let now = ctx.now;
        let waits = |ward: &Ward| ward.saving || !ward.waiting.is_empty();
        let wards = &self.wards;
        self.timed.retain(|key| wards.get(key).is_some_and(waits));
        let due = |ward: &Ward| ward.retry.is_some_and(|at| at <= now) && !ward.is_writing();
        let timed: Vec<Key> = self.timed.iter().copied().collect();
        for &key in &timed {
            if self.wards.get(&key).is_some_and(due) && !self.ends_stray(ctx, key) {
                self.write(ctx, key);
            }
        }
        for key in timed {
            let Some(ward) = self.wards.get_mut(&key).filter(|ward| !ward.saving) else {
                continue;
            };
            let late = |asker: &Asker| asker.until <= now;
            let (over, rest) = ward.waiting.drain(..).partition(late);
            ward.waiting = rest;
            for asker in Vec::<Asker>::into_iter(over) {
                let body = Body::Failed(crate::errno::EHOSTDOWN);
                ctx.answer(asker.from, key.0, Gen::default(), asker.req, body);
            }
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        let late = |ward: &Ward| match ward.saving {
            true => ward.retry.filter(|_| !ward.is_writing()),
            false => ward.waiting.iter().map(|asker| asker.until).min(),
        };
        let timed = self.timed.iter().filter_map(|key| self.wards.get(key));
        timed.filter_map(late).min()
    }

    /// Gives up a ward whose file nobody has open, and that is not where it was: its last name went, and its home before
    /// that had let go. Else all members would wait for its bytes before the next view.
    fn ends_stray(&mut self, ctx: &mut Ctx<'_>, key: Key) -> bool {
        let Some(ward) = self.wards.get(&key) else {
            return false;
        };
        if !ctx.config.goes_on || ward.strays < STRAYS_MAX {
            return false;
        }
        let kept = ward.pages.values();
        let bytes = kept.map(|kept| u64::from(kept.ranges.bytes())).sum();
        ctx.out
            .push(Effect::Alarm(Alarm::BytesDropped(key.0, bytes)));
        self.drop_pages(ctx, key);
        self.tidy(ctx, key);
        true
    }

    fn drop_pages(&mut self, ctx: &mut Ctx<'_>, key: Key) {
        if let Some(ward) = self.wards.get_mut(&key) {
            for kept in core::mem::take(&mut ward.pages).values() {
                ctx.frames.give_back(kept.slot);
                self.frames -= 1;
            }
        }
    }

    /// A ward of which nothing is left ends; whoever waited for that is answered.
    fn tidy(&mut self, ctx: &mut Ctx<'_>, key: Key) {
        let over = |ward: &Ward| ward.pages.is_empty() && !ward.marked && ward.shards.is_empty();
        if !self.wards.get(&key).is_some_and(over) {
            return;
        }
        let ward = self.wards.remove(&key).unwrap_or_default();
        for asker in ward.waiting {
            // There may be wards of other homes, or lives.
            self.ask_again(ctx, key.0, &asker);
        }
        ctx.out.push(Effect::Forgotten { file: key.0 });
    }

    /// True while something of a file is kept.
    pub(crate) fn has(&self, file: FileId) -> bool {
        let mine = (file, NodeId(0), 0)..=(file, NodeId(u32::MAX), u64::MAX);
        self.wards.range(mine).next().is_some()
    }

    /// Bytes that are kept for homes.
    pub(crate) fn bytes(&self) -> u64 {
        let pages = self.wards.values().flat_map(|ward| ward.pages.values());
        let copies: u64 = pages.map(|kept| u64::from(kept.ranges.bytes())).sum();
        copies + self.shard_bytes()
    }

    /// Files of homes that are gone, on their way to the store.
    pub(crate) fn saving(&self) -> impl Iterator<Item = FileId> + '_ {
        let saving = self.wards.iter().filter(|(_, ward)| ward.saving);
        saving.map(|(key, _)| key.0)
    }

    /// Checks what must hold between steps.
    pub(crate) fn assert_valid(&self, down: impl Fn(NodeId) -> bool) {
        let frames = |ward: &Ward| ward.pages.len() + ward.shards.frames();
        let frames: usize = self.wards.values().map(frames).sum();
        assert_eq!(
            frames, self.frames as usize,
            "REPLICA-2: a frame for each page"
        );
        for (key, ward) in &self.wards {
            let saved = ward.saving || !down(key.1);
            assert!(saved, "REPLICA-3: a ward is saved once its home is gone");
        }
    }
}

/// Nothing of the file is kept for nodes that are gone.
fn rescued(
    ctx: &mut Ctx<'_>,
    (to, req): (NodeId, ReqId),
    file: FileId,
    (here, known): (Here, Gen),
) {
    ctx.answer(to, file, known, req, Body::Rescued(here));
}

/// The bytes that a ward has and no store write carries, joined where they touch.
fn runs(ctx: &Ctx<'_>, ward: &Ward) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (&page, kept) in ward.pages.iter().filter(|(_, kept)| kept.writes == 0) {
        for (start, end) in kept.ranges.iter() {
            let offset = ctx.config.page_start(page) + u64::from(start);
            let piece = Piece {
                src: Src::Frame(kept.slot.frame),
                at: start,
                len: end - start,
            };
            match runs.last_mut() {
                Some(run)
                    if run.offset + u64::from(run.len) == offset
                        && run.len + piece.len <= ctx.config.store_io_bytes =>
                {
                    run.len += piece.len;
                    run.data.push(piece);
                    run.pages.push(page);
                }
                Some(_) | None => runs.push(Run {
                    offset,
                    len: piece.len,
                    data: alloc::vec![piece],
                    pages: alloc::vec![page],
                }),
            }
        }
    }
    runs
}
