//! Bytes of a home that other nodes keep until the store has them.
//!
//! Nodes that do so are its *keepers* for a file: the first live ones of an order that everybody can work
//! out. [`Replicas`] says what they are sent, and when a write is acknowledged. Bytes go to keepers beside
//! the calls to readers, from the writer's buffer. Bytes that have to go to them later *lag*, and go from the
//! page's frame: all bytes, if the job wants no more than that, and those of a keeper that is gone.
//!
//! Invariants:
//! - A9: a write is acknowledged when as many keepers as the job wants have it, or the store has; where keepers are
//!   sent it later, when one knows that the file has such bytes.
//! - A10: a page is flushed only when no keeper has older bytes of it than the store is going to get: it would bring them
//!   back. A keeper that has nothing of it yet does no harm. Its keepers are told to drop it only when the store has it.
//! - A15: a node that has not said that it dropped what it kept is a keeper again before others are: what it is sent then
//!   comes after the word to drop all. If the home died before that word had come, it would bring old bytes back.
//! - A14: bytes that a tier has and a keeper lacks are sent from memory as well, or go on to the store. A
//!   sync that ends at the tier waits for that: the bytes that keepers bring when the home dies would have
//!   the tier's put aside.

use super::flush::Sent;
use super::{File, FlushAsk, Home, PendingWrite, StoreOp, Waiting, WriteAsk};
use crate::config::Replicas;
use crate::ctx::Ctx;
use crate::effect::{Effect, Piece, Src};
use crate::guard::Guard;
use crate::ids::{FileId, NodeId, ReqId, Ver};
use crate::msg::{Body, Cut, Goal};
use crate::placement;
use crate::ranges::Ranges;
use crate::time::{Span, Time};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Pages on their way to keepers of a file, at most: what lags must not fill the way of what is waited for.
const COPIES_MAX: usize = 32;

/// Bytes that a tier has alone, and keepers keep in memory, go to the store after this.
const SETTLE_AFTER: Span = Span::secs(5);

/// The same where keepers lack some of it, and between two tries.
const SETTLE_PAUSE: Span = Span::secs(1);

/// The state of one file at its keepers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Wards {
    pub(super) keepers: Vec<NodeId>,
    /// Every keeper has been told that the file has bytes that may be lost.
    marked: bool,
    /// Keepers that have not said that they know, and numbers of those questions.
    marking: Vec<(NodeId, u64)>,
    /// Some of them are keepers in the place of one that is gone, while there are such bytes.
    marking_anew: bool,
    /// Pages with bytes that no keeper, or not every one, has been sent.
    lag: BTreeSet<u64>,
    /// Those of their bytes that a tier has.
    lag_in_tier: BTreeMap<u64, Ranges>,
    /// Pages for which a keeper had no room. They are not sent again, but go to the store.
    refused: BTreeSet<u64>,
    /// Lagging pages that are on their way, by number of the message.
    pub(super) copying: BTreeMap<u64, OnItsWay>,
    /// Pages of which keepers may have something.
    pub(super) copied: BTreeSet<u64>,
    /// Keepers that have yet to drop all, for a cut.
    emptying: Option<Vec<(NodeId, u64)>>,
    /// Nodes that were keepers, and have not said that they dropped all: a cut must not overtake that, as they would
    /// bring it back.
    pub(super) releasing: Vec<(NodeId, u64)>,
    /// A tier has bytes that a keeper lacks, which came later.
    behind: bool,
    /// Bytes that a tier has alone go to the store then: keepers have less room than tiers.
    settle_due: Option<Time>,
    /// A keeper had no room, or there were too few: what lags is not sent before the next write.
    pub(super) full: bool,
    /// Stripes that keepers have shards of.
    pub(super) stripes: u32,
    /// There are no more stripes, and what is sealed goes to the store.
    pub(super) unsealing: bool,
}

/// Pages on their way to a keeper.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OnItsWay {
    pub(super) keeper: NodeId,
    pub(super) pages: Vec<u64>,
    /// They are not flushed before it is there.
    pub(super) held: bool,
}

impl Wards {
    /// Nobody keeps anything, and nobody is told. Keepers stay keepers until they are told to drop all, as a word
    /// about some pages is not answered.
    pub(super) fn idle(&self) -> bool {
        let kept = !self.keepers.is_empty() || !self.copying.is_empty() || !self.marking.is_empty();
        !kept && !self.behind && !self.unsealing
    }

    /// The same, and nobody has anything yet to drop.
    pub(super) fn is_over(&self) -> bool {
        self.idle() && self.releasing.is_empty()
    }

    /// A keeper may have older bytes of a page than the store would get (A10).
    pub(super) fn has_older(&self, page: u64) -> bool {
        let held = |way: &OnItsWay| way.held && way.pages.contains(&page);
        let lags = self.copied.contains(&page) && self.lag.contains(&page);
        lags || self.copying.values().any(held)
    }
}

impl File {
    /// Fewer nodes have all that the store lacks of it, or know of that, than the job wants.
    fn is_short(&self, rule: Replicas) -> bool {
        let wards = &self.wards;
        let unsaved = self.dirty_bytes > 0 || self.spilled;
        if rule.shards().is_some() {
            return unsaved && self.lacks_shards(rule);
        }
        let lags = !wards.lag.is_empty() || !wards.copying.is_empty() || !wards.refused.is_empty();
        let lags = lags && matches!(rule, Replicas::Sync(_));
        let unknown = matches!(rule, Replicas::Async(_)) && !wards.marked || wards.marking_anew;
        let few = wards.keepers.len() < rule.copies();
        wards.behind || unsaved && (few || unknown || lags)
    }

    /// A keeper has answered.
    pub(super) fn kept(&mut self, from: NodeId, seq: u64, taken: bool) {
        let other = |&mut entry: &mut (NodeId, u64)| entry != (from, seq);
        for write in &mut self.writes {
            let before = write.copying.len();
            write.copying.retain_mut(|entry| other(entry));
            write.through |= write.copying.len() < before && !taken;
        }
        let marks = self.wards.marking.len();
        self.wards.marking.retain_mut(|entry| other(entry));
        self.wards.marked &= taken || self.wards.marking.len() == marks;
        self.wards.marking_anew &= !self.wards.marking.is_empty();
        self.wards.releasing.retain_mut(|entry| other(entry));
        if let Some(emptying) = &mut self.wards.emptying {
            emptying.retain_mut(|entry| other(entry));
        }
        if let Some(way) = self.wards.copying.remove(&seq)
            && !taken
        {
            self.wards.full = true;
            self.wards.refused.extend(way.pages);
        }
    }
}

impl Home<'_, '_> {
    pub(super) fn rule(&self) -> Replicas {
        self.ctx.config.replicas_rule()
    }

    /// Makes the keepers as many as there are to be, as far as nodes are there; true if there are.
    pub(super) fn choose_keepers(&mut self) -> bool {
        let wanted = self.rule().copies();
        if self.file.wards.keepers.len() >= wanted {
            return true;
        }
        let before = self.file.wards.keepers.len();
        let turns = self.common.refusals;
        let order = placement::keepers_of(self.ctx.config, self.ctx.me(), turns);
        let first = match self.ctx.config.keeps(Guard::SameKeepers) {
            true => self.file.wards.releasing.clone(),
            false => Vec::new(),
        };
        for node in first.into_iter().map(|(node, _)| node).chain(order) {
            let keepers = &mut self.file.wards.keepers;
            let known = keepers.contains(&node) || self.ctx.peers.is_down(node);
            if keepers.len() < wanted && !known {
                keepers.push(node);
            }
        }
        if self.file.wards.keepers.len() > before && self.ctx.config.keeps(Guard::CopiedAnew) {
            // The new keepers lack the bytes that others were sent before.
            self.lag_all();
        }
        self.file.wards.keepers.len() >= wanted
    }

    /// A write begins: whoever must know of it, or have it, before it is acknowledged is told; returns whose answer
    /// to await, and whether the store must have it before.
    pub(super) fn replicate(&mut self, ask: &WriteAsk, ver: Ver) -> (Vec<(NodeId, u64)>, bool) {
        match self.rule() {
            Replicas::None | Replicas::Erasure(..) => (Vec::new(), false),
            Replicas::Async(_) => {
                self.file.wards.full = false;
                let marking = self.mark();
                (marking, self.file.wards.keepers.is_empty())
            }
            Replicas::Sync(_) => {
                self.file.wards.full = false;
                let enough = self.choose_keepers();
                (self.copy_write(ask, ver), !enough)
            }
        }
    }

    /// Keepers learn that the file has bytes that may be lost.
    fn mark(&mut self) -> Vec<(NodeId, u64)> {
        let marks = matches!(self.rule(), Replicas::Async(_));
        if !self.file.wards.marked && marks {
            self.choose_keepers();
            for keeper in self.file.wards.keepers.clone() {
                self.mark_at(keeper);
            }
        }
        self.file.wards.marking.clone()
    }

    /// There was no keeper any more, though there are bytes that may be lost: who is one now is told so.
    fn mark_anew(&mut self) {
        let marking = self.mark();
        self.file.wards.marking_anew |= !marking.is_empty();
    }

    fn mark_at(&mut self, keeper: NodeId) {
        let generation = self.file.generation;
        let req = self.ctx.ask(keeper, self.id, generation, Body::Mark);
        self.common.acks.insert(req.seq, self.id);
        self.file.wards.marking.push((keeper, req.seq));
        self.file.wards.marked = true;
    }

    /// The bytes of a write go to every keeper.
    fn copy_write(&mut self, ask: &WriteAsk, ver: Ver) -> Vec<(NodeId, u64)> {
        let (id, generation) = (self.id, self.file.generation);
        let (first, count) = self.ctx.config.pages_of(ask.offset, u64::from(ask.len));
        let (offset, pieces) = match &ask.ranges {
            None => (ask.offset, alloc::vec![0, ask.len]),
            Some(ranges) => {
                let pieces = ranges.iter().flat_map(|(start, end)| [start, end - start]);
                (self.ctx.config.page_start(first), pieces.collect())
            }
        };
        let body = Body::Copy {
            offset,
            pieces,
            ver,
        };
        let pages = first..first + u64::from(count);
        if !self.file.wards.keepers.is_empty() {
            self.file.wards.copied.extend(pages);
        }
        self.common.copying += u64::from(ask.len);
        let mut sent = Vec::new();
        for keeper in self.file.wards.keepers.clone() {
            let data = alloc::vec![ask.data];
            let req = self
                .ctx
                .ask_with(keeper, id, generation, body.clone(), data);
            self.common.acks.insert(req.seq, id);
            sent.push((keeper, req.seq));
        }
        sent
    }

    /// True if no more may be on its way to keepers for now: what is queued for a node has an end.
    pub(super) fn copies_enough(&mut self, ask: &WriteAsk) -> bool {
        let (under_way, most) = (self.common.copying, self.ctx.config.write_window_bytes);
        let sync = matches!(self.rule(), Replicas::Sync(_));
        let enough = sync && under_way > 0 && under_way + u64::from(ask.len) > most;
        if enough {
            self.common.starved.insert(self.id);
        }
        enough
    }

    /// A write waits for keepers no more.
    pub(super) fn copied(&mut self, ask: &WriteAsk) {
        if let Replicas::Sync(_) = self.rule() {
            self.common.copying -= u64::from(ask.len);
        }
    }

    /// True while a write waits for keepers.
    pub(super) fn awaits_keepers(&self, write: &PendingWrite) -> bool {
        let guard = match self.rule() {
            Replicas::Sync(_) => Guard::ReplicatedFirst,
            _ => Guard::MarkedFirst,
        };
        !write.copying.is_empty() && self.ctx.config.keeps(guard)
    }

    /// A write is applied: what keepers are sent later lags.
    pub(super) fn lags(&mut self, write: &PendingWrite) {
        if let Replicas::Async(_) = self.rule() {
            let pages = write.first..write.first + u64::from(write.count);
            self.file.wards.lag.extend(pages);
        }
    }

    /// A write that too few keepers took is answered when the store has it.
    pub(super) fn answer_through(&mut self, write: &PendingWrite) {
        let pages = write.first..write.first + u64::from(write.count);
        let dirty = self.file.pages.range(pages);
        let need = dirty.map(|(&number, page)| (number, page.ver)).collect();
        let WriteAsk {
            from,
            req,
            generation,
            ..
        } = write.ask;
        let ask = FlushAsk {
            from,
            req,
            goal: Goal::All,
            need,
            copies: Vec::new(),
            recalled: Vec::new(),
            write: Some(generation),
        };
        self.start_flush_for(&ask);
        self.file.waiting.push_back(Waiting::Flush(ask));
    }

    /// Pages that keepers must have first are due later.
    pub(super) fn put_off_copied(&mut self, pages: &BTreeSet<u64>) {
        for &number in pages {
            if self.file.wards.has_older(number)
                && let Some(page) = self.file.pages.get_mut(&number)
            {
                page.since = Some(self.ctx.now);
                page.urgent = false;
                self.note_age(number);
            }
        }
    }

    /// Sends keepers what lags, as far as may be on its way at once.
    pub(super) fn send_lagging(&mut self) {
        let many = self.file.wards.copying.len() >= COPIES_MAX;
        if many || self.file.wards.lag.is_empty() || self.is_held_back() {
            return;
        }
        if self.file.wards.keepers.is_empty() {
            self.file.wards.full |= !self.choose_keepers();
            self.mark_anew();
        }
        // A keeper that has some of a page takes all of it (REPLICA-2), and must: else the page could never be
        // flushed.
        let Wards {
            lag, full, copied, ..
        } = &self.file.wards;
        let sendable = |page: &&u64| !full || copied.contains(page);
        let pages: Vec<u64> = lag.iter().filter(sendable).copied().collect();
        for number in pages {
            if self.file.wards.copying.len() >= COPIES_MAX {
                return;
            }
            self.send_page(number);
        }
    }

    /// Pages that keepers must have before a sync is over that ends at a tier (A14).
    pub(super) fn lagging(&self, goal: Goal) -> Vec<u64> {
        let wards = &self.file.wards;
        if goal != Goal::Synced || !self.ctx.config.syncs_at_tier() {
            return Vec::new();
        }
        let sent = wards.copying.values().flat_map(|way| &way.pages);
        let pages: BTreeSet<u64> = wards.lag.iter().chain(sent).copied().collect();
        pages.into_iter().collect()
    }

    /// True while keepers that have room lack pages that a sync is about.
    pub(super) fn awaits_copies(&self, ask: &mut FlushAsk) -> bool {
        let wards = &self.file.wards;
        let sent = |page: &u64| wards.copying.values().any(|way| way.pages.contains(page));
        ask.copies
            .retain(|page| wards.lag.contains(page) || sent(page));
        let keeps = !wards.full && !wards.keepers.is_empty();
        !ask.copies.is_empty() && keeps
    }

    /// Sends what the store lacks of a page to every keeper.
    fn send_page(&mut self, number: u64) {
        let pending = self
            .file
            .writes
            .iter()
            .any(|write| write.touches(number, 1));
        let page = self.file.pages.get_mut(&number);
        if pending || page.as_ref().is_some_and(|page| page.writes > 0) {
            return;
        }
        let wards = &mut self.file.wards;
        wards.lag.remove(&number);
        let in_tier = wards.lag_in_tier.remove(&number).unwrap_or_default();
        let Some(page) = page else {
            wards.behind |= !in_tier.is_empty();
            return;
        };
        page.refresh(self.ctx.frames);
        let mut ranges = page.dirty.clone();
        for (start, end) in in_tier.iter() {
            // The tier brings bytes to the store that are not in memory any more (A14).
            match page.knows(start, end) {
                true => _ = ranges.insert(start, end),
                false => wards.behind = true,
            }
        }
        let Some(slot) = page.slot.filter(|_| !ranges.is_empty()) else {
            return;
        };
        let ver = page.ver;
        let piece = |(start, end): (u32, u32)| Piece {
            src: Src::Frame(slot.frame),
            at: start,
            len: end - start,
        };
        let data: Vec<Piece> = ranges.iter().map(piece).collect();
        let body = Body::Copy {
            offset: self.ctx.config.page_start(number),
            pieces: data
                .iter()
                .flat_map(|piece| [piece.at, piece.len])
                .collect(),
            ver,
        };
        let (id, generation) = (self.id, self.file.generation);
        let held = !self.file.wards.copied.insert(number);
        for keeper in self.file.wards.keepers.clone() {
            let body = body.clone();
            let req = self
                .ctx
                .ask_with(keeper, id, generation, body, data.clone());
            self.common.acks.insert(req.seq, id);
            let way = OnItsWay {
                keeper,
                pages: alloc::vec![number],
                held,
            };
            self.file.wards.copying.insert(req.seq, way);
        }
    }

    /// The store has taken bytes that not every keeper has been sent: until then they lag, as it may fail.
    /// Bytes that a tier has taken lag on (A14).
    pub(super) fn keep_lagging(&mut self, taken: &[Sent]) {
        let tier = self.ctx.config.has_tier();
        let wards = &mut self.file.wards;
        for Sent { number, ranges, .. } in taken {
            let refused = wards.refused.contains(number);
            if tier && !refused && !wards.full && wards.lag.contains(number) {
                let in_tier = wards.lag_in_tier.entry(*number).or_default();
                in_tier.insert_all(ranges.clone());
            }
        }
    }

    /// Of pages that the store has whole nothing lags but what only a tier has.
    pub(super) fn stop_lagging(&mut self, taken: impl Iterator<Item = u64>) {
        let tier = self.ctx.config.has_tier();
        let File { wards, pages, .. } = &mut *self.file;
        for number in taken {
            let refused = wards.refused.contains(&number);
            let in_tier = tier && !refused && !wards.full;
            if in_tier || !refused && !wards.lag.contains(&number) {
                continue;
            }
            wards.behind |= tier;
            if pages
                .get(&number)
                .is_none_or(|page| page.dirty_bytes() == 0)
            {
                wards.lag.remove(&number);
                wards.refused.remove(&number);
            }
        }
    }

    /// Pages for which a keeper has no room go to the store; those that are not dirty are there, or in the
    /// tier alone.
    fn pass_refused(&mut self) {
        let alone = self.ctx.config.has_tier() && (self.file.spilled || self.is_syncing());
        let File { wards, pages, .. } = &mut *self.file;
        let before = wards.refused.len();
        let dirty = |number: &u64| pages.get(number).is_some_and(|page| page.dirty_bytes() > 0);
        wards.refused.retain(dirty);
        wards.behind |= alone && wards.refused.len() < before;
        self.start_flush();
    }

    /// The store has what was dirty of these pages: keepers may drop them (A10).
    pub(super) fn trim(&mut self, pages: impl Iterator<Item = u64>) {
        // Of a file that is clean they are told so at once, and of all of it.
        let clean = self.file.dirty_bytes == 0 && self.file.writes.is_empty();
        let sealed = self.rule().shards().is_some();
        if !self.ctx.config.has_replicas() || self.ctx.config.has_tier() || clean || sealed {
            return;
        }
        let afterwards = matches!(self.rule(), Replicas::Async(_));
        let mut runs: Vec<(u64, u32, Ver)> = Vec::new();
        for number in pages {
            let page = self.file.pages.get(&number);
            let clean = page.is_none_or(|page| page.dirty_bytes() == 0);
            if !clean || !self.file.wards.copied.contains(&number) {
                continue;
            }
            // Bytes that an unfinished write has sent are of a higher count, and stay.
            let pending = self
                .file
                .writes
                .iter()
                .any(|write| write.touches(number, 1));
            // Bytes that are sent afterwards may reach the store before: until all are told of all, a keeper
            // may not have heard.
            if !pending && !afterwards {
                self.file.wards.copied.remove(&number);
            }
            let ver = page.map_or(self.common.ver(), |page| page.ver);
            match runs.last_mut() {
                Some((first, count, last))
                    if *first + u64::from(*count) == number && *last == ver =>
                {
                    *count += 1;
                }
                _ => runs.push((number, 1, ver)),
            }
        }
        for (first, count, ver) in runs {
            self.tell_keepers(&Body::Trim { first, count, ver });
        }
    }

    fn tell_keepers(&mut self, body: &Body) -> Vec<(NodeId, u64)> {
        let (id, generation) = (self.id, self.file.generation);
        let keepers = self.file.wards.keepers.clone();
        let tell = |keeper: NodeId| {
            let req = self.ctx.ask(keeper, id, generation, body.clone());
            (keeper, req.seq)
        };
        keepers.into_iter().map(tell).collect()
    }

    /// Bytes that a tier has alone, and keepers keep in memory, go to the store.
    fn settle_kept(&mut self) {
        let lacks = self.lacks_keepers();
        let at_rest = self.file.dirty_bytes == 0 && self.file.writes.is_empty() || lacks;
        let copied = self.rule().copies() > 0 && !self.file.wards.idle();
        if !copied || !self.file.spilled || !at_rest || self.file.bar.is_some() || self.is_syncing()
        {
            return;
        }
        let now = self.ctx.now;
        let wards = &mut self.file.wards;
        let due = *wards.settle_due.get_or_insert(match lacks {
            true => now,
            false => now + SETTLE_AFTER,
        });
        // A settlement that waits at leisure has come to be urgent.
        let due = if lacks {
            due.min(now + SETTLE_PAUSE)
        } else {
            due
        };
        wards.settle_due = Some(due);
        if due > now {
            return self.wake_at(due);
        }
        wards.settle_due = Some(now + SETTLE_PAUSE);
        self.settle_now();
    }

    /// A tier has bytes that keepers lack, or they have no room for more.
    fn lacks_keepers(&self) -> bool {
        let wards = &self.file.wards;
        wards.behind || wards.full || !wards.refused.is_empty()
    }

    pub(super) fn settle_now(&mut self) {
        if core::mem::take(&mut self.file.spilled) {
            let (op, file) = (self.ctx.new_op(), self.id);
            self.common.ops.insert(op, StoreOp::Settle { file });
            let sync = None;
            self.ctx.out.push(Effect::StoreSync { op, file, sync });
        }
    }

    /// Brings on what keepers have, and lets them go when the store has it.
    pub(super) fn tidy_wards(&mut self) {
        self.settle_kept();
        self.release_wards();
        self.go_on_unsealed();
    }

    /// Once the store has all of the file, nobody keeps anything of it.
    fn release_wards(&mut self) {
        let clean = self.file.dirty_bytes == 0 && !self.file.spilled && self.file.writes.is_empty();
        let settling = self.ctx.config.has_tier() && self.is_syncing();
        let guard = match self.rule().shards() {
            Some(_) => Guard::ShardsKept,
            None => Guard::TrimmedLate,
        };
        let idle = self.file.writes.is_empty() && self.file.waiting.is_empty();
        let early = !self.ctx.config.keeps(guard) && idle;
        if self.file.wards.idle() || self.file.bar.is_some() || !(clean && !settling || early) {
            return;
        }
        let mut releasing = self.empty_wards();
        releasing.append(&mut self.file.wards.releasing);
        self.file.wards = Wards {
            releasing,
            ..Wards::default()
        };
    }

    pub(super) fn is_syncing(&self) -> bool {
        let mine = |op: &StoreOp| match *op {
            StoreOp::Sync { file, .. } | StoreOp::Settle { file } => file == self.id,
            _ => false,
        };
        self.common.ops.values().any(mine)
    }

    /// Keepers drop all that they have.
    fn empty_wards(&mut self) -> Vec<(NodeId, u64)> {
        let (first, count, ver) = (0, u32::MAX, self.common.ver());
        let told = self.tell_keepers(&Body::Trim { first, count, ver });
        for &(_, seq) in &told {
            self.common.acks.insert(seq, self.id);
        }
        told
    }

    /// Has keepers drop all before a cut is answered; true while that is not done. Their bytes must be in the
    /// store first: else the cut could take them away, and a keeper bring them back. If the store refuses
    /// them they keep them, and the cut fails; unless the bytes are given up with the file.
    pub(super) fn empties_wards(&mut self) -> bool {
        let empties = self.ctx.config.keeps(Guard::CutEmptiesWards);
        let Some(bar) = self.file.bar.as_ref().filter(|bar| !bar.answered) else {
            return false;
        };
        // Bytes that are not sealed yet may be sealed before the cut: bytes that the cut of a dying manager
        // would take go first.
        let kept = self.rule().shards().is_some() && self.file.dirty_bytes > 0;
        let over = self.file.wards.is_over() && self.file.wards.emptying.is_none();
        if !empties || over && !kept {
            return false;
        }
        let failed = bar.result.is_err();
        let gives_up = failed && bar.cut == Cut::Detach;
        if failed && !gives_up || self.file.dirty_bytes > 0 && !failed {
            let told = self.file.wards.emptying.take();
            self.file.wards.releasing.extend(told.into_iter().flatten());
            if !failed {
                self.start_flush();
            }
            return !failed;
        }
        if self.file.wards.emptying.is_none() {
            let mut told = self.empty_wards();
            told.append(&mut self.file.wards.releasing);
            self.file.wards = Wards {
                emptying: Some(told),
                ..Wards::default()
            };
        }
        let emptying = self.file.wards.emptying.as_ref();
        let waits = emptying.is_some_and(|emptying| !emptying.is_empty());
        if !waits {
            self.file.wards.emptying = None;
        }
        if !waits && self.file.dirty_bytes > 0 {
            // The store takes nothing, and the bytes stay: they are as they were before the cut.
            self.mark_anew();
            self.copy_all_anew();
        }
        waits
    }

    /// A node is gone: writes that it should have taken count it out, and another takes its place.
    pub(super) fn lose_keeper(&mut self, peer: NodeId) {
        let others = |entry: &(NodeId, u64)| entry.0 != peer;
        let had =
            matches!(self.rule(), Replicas::Sync(_)) && self.file.wards.keepers.contains(&peer);
        for write in &mut self.file.writes {
            let before = write.copying.len();
            write.copying.retain(others);
            // Bytes that it had taken already count no more, either.
            write.through |= had || write.copying.len() < before;
        }
        let wards = &mut self.file.wards;
        wards.marking.retain(others);
        wards.releasing.retain(others);
        wards.copying.retain(|_, way| way.keeper != peer);
        if let Some(emptying) = &mut wards.emptying {
            emptying.retain(others);
        }
        let before = wards.keepers.len();
        wards.keepers.retain(|&keeper| keeper != peer);
        let careful = self.ctx.config.keeps(Guard::CopiedAnew);
        if self.file.wards.keepers.len() == before || !careful {
            return;
        }
        if self.rule().shards().is_some() {
            return self.lose_shards();
        }
        let known = self.file.wards.keepers.clone();
        self.choose_keepers();
        if self.file.wards.marked {
            let new = self.file.wards.keepers.clone().into_iter();
            let new: Vec<NodeId> = new.filter(|keeper| !known.contains(keeper)).collect();
            new.into_iter().for_each(|keeper| self.mark_at(keeper));
            self.file.wards.marking_anew = !self.file.wards.marking.is_empty();
        }
        if self.file.wards.keepers.is_empty() {
            self.file.wards.marked = false;
            self.file.wards.copied.clear();
            self.start_flush();
        }
        self.copy_all_anew();
    }

    /// All that the store lacks goes to the keepers once more; what only a tier has goes to the store.
    fn copy_all_anew(&mut self) {
        if self.rule().copies() == 0 {
            return;
        }
        self.file.wards.full = false;
        self.file.wards.refused.clear();
        self.lag_all();
        self.settle_now();
    }

    /// Not every keeper has what the store lacks. Of shards nothing lags: a seal sends them.
    fn lag_all(&mut self) {
        if self.rule().shards().is_some() {
            return;
        }
        let dirty = self
            .file
            .pages
            .iter()
            .filter(|(_, page)| page.dirty_bytes() > 0);
        let pages: Vec<u64> = dirty.map(|(&number, _)| number).collect();
        self.file.wards.lag.extend(pages);
        let tier_alone = self.ctx.config.has_tier() && (self.file.spilled || self.is_syncing());
        self.file.wards.behind |= tier_alone;
    }

    /// The tier has brought to the store what it had, or some of it.
    pub(super) fn catch_up(&mut self) {
        let rest = self.file.spilled || self.is_syncing();
        self.file.wards.behind &= rest;
    }
}

impl super::Authority {
    /// A keeper has answered.
    pub(super) fn kept(&mut self, ctx: &mut Ctx<'_>, from: NodeId, req: ReqId, taken: bool) {
        let Some(file) = self.common.acks.remove(&req.seq) else {
            return;
        };
        let mut home = self.home(ctx, file);
        home.file.kept(from, req.seq, taken);
        home.common.refusals = home.common.refusals.wrapping_add(u32::from(!taken));
        if !home.file.wards.refused.is_empty() {
            home.pass_refused();
        }
        home.pump();
        self.tidy(ctx, file);
    }

    /// Files of which fewer nodes have all bytes than the job wants.
    pub(crate) fn short_of_copies(
        &self,
        config: &crate::config::Config,
    ) -> impl Iterator<Item = FileId> + '_ {
        let rule = config.replicas_rule();
        let files = self
            .files
            .iter()
            .filter(move |(_, file)| file.is_short(rule));
        files.map(|(&id, _)| id)
    }
}
