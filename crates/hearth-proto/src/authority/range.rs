//! Operations over several homes, at one of them.
//!
//! A write over several homes is *staged* at each: its pages are locked, copies are called back, its
//! bytes and frames are ready. When all homes have said so, the writer has all of them apply it. A read
//! that cannot have its pages at one instant otherwise *holds* them at each home until it has all.
//!
//! ```text
//!   waiting ──▶ calling ──▶ held ──Apply──▶ applied
//!      ▲                      │
//!      └────────Yield─────────┤ Release, a dead writer: nothing was written
//! ```
//!
//! Invariants:
//! - RANGE-1 (I10): nobody reads or writes a page that a write has locked, from when the home says so until
//!   it is applied or let go; nobody writes one that a read holds.
//! - RANGE-2 (I16): of two that meet, the younger gives way ([`Body::Wound`]), unless it has all its locks and so
//!   needs nothing more. Requests that wait are asked in order of age. So nothing waits for a younger one
//!   that waits itself.
//! - RANGE-3 (F5): a lock comes with its frames. A write that lacks frames counts as one that meets all locks
//!   of this node; reads that lack frames, cuts, and reads that have lost patience count as older than
//!   all.
//! - RANGE-4: a lock ends with its node.

use super::through::Stage;
use super::{Authority, Home, PATIENCE, PendingWrite, ReadAsk, Verdict, Waiting, WriteAsk};
use crate::ctx::Ctx;
use crate::effect::Piece;
use crate::errno;
use crate::guard::Guard;
use crate::ids::{Age, FileId, Gen, NodeId, ReqId};
use crate::msg::{Body, Envelope, Use, Wanted};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A read over several homes that waits for its pages here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct HoldAsk {
    pub(super) read: ReadAsk,
    age: Age,
    /// Number of the request that asked first.
    key: u64,
}

/// A write that waits for frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Hungry {
    age: Age,
    pub(super) file: FileId,
    req: ReqId,
}

/// The way in which a lock, or a request, uses its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Claim {
    Read,
    Write,
}

/// Pages of one file that an operation over several homes has here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Lock {
    from: NodeId,
    /// In which life of that node it was asked for.
    inc: u64,
    file: FileId,
    generation: Gen,
    first: u64,
    count: u32,
    claim: Claim,
    /// Number under which the node owes the end.
    debt: u64,
    wounded: bool,
}

/// Locks by age and number of their request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Locks(BTreeMap<(Age, u64), Lock>);

/// Requests that wait and have been tried before the one at hand, with their ages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Ahead {
    writes: Spans,
    holds: Spans,
    /// Reads that have lost patience, and wait for what they do not have of their pages.
    impatient: Spans,
}

/// Runs of pages, with the age of the oldest request for each. As many as there are on the same pages cost no more
/// than one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Spans {
    oldest: BTreeMap<(u64, u32), Age>,
    longest: u32,
}

impl Spans {
    fn add(&mut self, age: Age, pages: (u64, u32)) {
        let oldest = self.oldest.entry(pages).or_insert(age);
        *oldest = age.min(*oldest);
        self.longest = self.longest.max(pages.1);
    }

    /// True if one of these pages is asked for by a request that is as old or older.
    fn blocks(&self, age: Age, first: u64, count: u32) -> bool {
        let from = first.saturating_sub(u64::from(self.longest));
        let mut near = self.oldest.range((from, 0)..(first + u64::from(count), 0));
        near.any(|(&pages, &other)| other <= age && overlap(pages, first, count))
    }

    fn touches(&self, first: u64, count: u32) -> bool {
        let from = first.saturating_sub(u64::from(self.longest));
        let mut near = self.oldest.range((from, 0)..(first + u64::from(count), 0));
        near.any(|(&pages, _)| overlap(pages, first, count))
    }
}

fn overlap((f, c): (u64, u32), first: u64, count: u32) -> bool {
    f < first + u64::from(count) && first < f + u64::from(c)
}

impl Ahead {
    pub(super) fn note(&mut self, ctx: &Ctx<'_>, ask: &Waiting) {
        match ask {
            Waiting::Write(write) => {
                let pages = ctx.config.pages_of(write.offset, u64::from(write.len));
                self.writes.add(write.age, pages);
            }
            Waiting::Hold(hold) => {
                let pages = (hold.read.first, hold.read.count);
                self.holds.add(hold.age, pages);
            }
            Waiting::Read(read) if read.since + PATIENCE <= ctx.now => {
                self.impatient.add(Age::default(), (read.first, read.count));
            }
            Waiting::Read(_) | Waiting::Flush(_) | Waiting::Peek(_) => {}
        }
    }

    /// A write over several homes that took the pages once more would be told to give way once more, for
    /// as long as the read waits for the store.
    fn robs_a_read(&self, ask: &WriteAsk, first: u64, count: u32) -> bool {
        ask.staged.is_some() && self.impatient.touches(first, count)
    }

    fn blocks_write(&self, age: Age, first: u64, count: u32) -> bool {
        self.writes.blocks(age, first, count) || self.holds.blocks(age, first, count)
    }

    fn blocks_read(&self, age: Age, first: u64, count: u32) -> bool {
        self.writes.blocks(age, first, count)
    }
}

impl Locks {
    fn id_of(&self, from: NodeId, key: u64) -> Option<(Age, u64)> {
        let mut ids = self.0.iter();
        let mine = |&(id, lock): &(&(Age, u64), &Lock)| id.1 == key && lock.from == from;
        ids.find(mine).map(|(&id, _)| id)
    }

    fn end(&mut self, ctx: &mut Ctx<'_>, id: (Age, u64)) -> Option<Lock> {
        let lock = self.0.remove(&id)?;
        ctx.peers.returned(lock.from, lock.debt);
        Some(lock)
    }

    /// Reads of a node that is gone hold nothing (RANGE-4).
    pub(super) fn drop_holds_of(&mut self, peer: NodeId) {
        self.0
            .retain(|_, lock| lock.from != peer || lock.claim == Claim::Write);
    }

    /// Tells the nodes of some locks to give way, once for each grant.
    fn wound(&mut self, ctx: &mut Ctx<'_>, who: impl Fn(&Age, &Lock) -> bool) {
        let clock = ctx.age().clock;
        for ((age, key), lock) in &mut self.0 {
            if lock.wounded || !who(age, lock) {
                continue;
            }
            lock.wounded = true;
            let req = ReqId {
                node: lock.from,
                inc: lock.inc,
                seq: *key,
            };
            let envelope = Envelope {
                view: ctx.config.view,
                file: lock.file,
                generation: lock.generation,
                req,
                body: Body::Wound { clock },
            };
            ctx.send(lock.from, envelope, Vec::new());
        }
    }
}

impl Authority {
    pub(super) fn assert_framed(&self) {
        let locks = self.common.locks.0.values();
        for lock in locks.filter(|lock| lock.claim == Claim::Write) {
            let pages = self.files.get(&lock.file).map(|file| &file.pages);
            let framed = |number: u64| {
                let page = pages.and_then(|pages| pages.get(&number));
                page.is_some_and(|page| page.reserved && page.slot.is_some())
            };
            let mut numbers = lock.first..lock.first + u64::from(lock.count);
            assert!(numbers.all(framed), "RANGE-3: a lock comes with its frames");
        }
    }
}

impl Home<'_, '_> {
    /// Takes in what begins an operation over several homes; gives everything else back.
    pub(super) fn range_request(
        &mut self,
        from: NodeId,
        req: ReqId,
        generation: Gen,
        body: Body,
        data: Option<Piece>,
    ) -> Option<(Body, Option<Piece>)> {
        let gone = self.ctx.peers.is_down(from);
        match (body, data) {
            (Body::Stage { .. } | Body::Hold { .. }, data) if gone => self.free(from, data),
            (
                Body::Stage {
                    offset,
                    len,
                    dropped,
                    age,
                },
                Some(data),
            ) if data.len == len && len > 0 => {
                self.ctx.hear_clock(age.clock);
                let ask = WriteAsk {
                    dropped,
                    age,
                    staged: Some(req.seq),
                    ..self.write_ask((from, req, generation), (offset, len), data)
                };
                self.enqueue(Waiting::Write(ask));
            }
            (Body::Hold { first, count, age }, _) if count > 0 => {
                self.ctx.hear_clock(age.clock);
                let read = self.hold_read(from, req, first, count);
                let key = req.seq;
                self.enqueue(Waiting::Hold(HoldAsk { read, age, key }));
            }
            (body, data) => return Some((body, data)),
        }
        None
    }

    fn hold_read(&self, from: NodeId, req: ReqId, first: u64, count: u32) -> ReadAsk {
        ReadAsk {
            from,
            req,
            first,
            count,
            keep: false,
            record: true,
            aside: false,
            skip: 0,
            spare: 0,
            here: true,
            since: self.ctx.now,
            filled: false,
        }
    }

    /// It comes behind all that are older: one that gives way and stood before them once more would have
    /// its lock back at once. Reads that wait already are not overtaken: those that have lost patience would
    /// have whoever overtakes them give way once more.
    fn enqueue(&mut self, ask: Waiting) {
        let age = ask.age();
        let first = |other: &Waiting| other.age().is_none_or(|other| Some(other) <= age);
        let before = self.file.waiting.iter().rposition(first);
        let at = before.map_or(0, |last| last + 1);
        self.file.waiting.insert(at, ask);
    }

    /// True if a write must wait for an older one that waits, or for a read that counts as older. If runs are
    /// locked one after another a write could so wait for itself: the older one may wait for an earlier run
    /// of this write.
    pub(super) fn waits_behind(&self, ask: &WriteAsk, ahead: &Ahead, pages: (u64, u32)) -> bool {
        let one_by_one = ask.staged.is_some() && self.ctx.config.asks_in_turn();
        ahead.robs_a_read(ask, pages.0, pages.1)
            || (!one_by_one && ahead.blocks_write(ask.age, pages.0, pages.1))
    }

    /// True if locks keep a request out of some pages; younger ones are told to give way (RANGE-2).
    pub(super) fn is_locked(&mut self, claim: Claim, age: Age, first: u64, count: u32) -> bool {
        let file = self.id;
        let honoured = self.ctx.config.keeps(Guard::HoldsHonoured);
        let meets = |lock: &Lock| {
            let apart = (claim, lock.claim) == (Claim::Read, Claim::Read);
            let ignored = lock.claim == Claim::Read && !honoured;
            let pages = (lock.first, lock.count);
            lock.file == file && !apart && !ignored && overlap(pages, first, count)
        };
        let first_come = self.ctx.config.asks_in_turn();
        if !first_come && self.ctx.config.keeps(Guard::OlderFirst) {
            let younger = |other: &Age, lock: &Lock| age < *other && meets(lock);
            self.common.locks.wound(self.ctx, younger);
        }
        self.common.locks.0.values().any(meets)
    }

    /// A read has waited long enough for writes that have locked its pages.
    pub(super) fn wound_writers(&mut self, first: u64, count: u32) {
        let file = self.id;
        self.common.locks.wound(self.ctx, |_, lock| {
            let pages = (lock.first, lock.count);
            lock.file == file && lock.claim == Claim::Write && overlap(pages, first, count)
        });
    }

    /// A cut waits for the writes of the file.
    pub(super) fn wound_for_cut(&mut self) {
        let file = self.id;
        if self.ctx.config.keeps(Guard::CutsFirst) {
            let held = |_: &Age, lock: &Lock| lock.file == file && lock.claim == Claim::Write;
            self.common.locks.wound(self.ctx, held);
        }
    }

    /// Something lacks frames: writes that are younger give theirs back (RANGE-3).
    pub(super) fn wound_for_frames(&mut self, age: Option<Age>) {
        if self.ctx.config.keeps(Guard::FramesBack) {
            let younger = |other: &Age, lock: &Lock| {
                lock.claim == Claim::Write && age.is_none_or(|age| age < *other)
            };
            self.common.locks.wound(self.ctx, younger);
        }
    }

    /// True if an older write must have frames first.
    pub(super) fn stands_back(&self, ask: &WriteAsk) -> bool {
        let oldest = self.common.hungry.first();
        oldest.is_some_and(|hungry| hungry.age < ask.age)
    }

    /// There were no frames for a write.
    pub(super) fn go_without(&mut self, ask: &WriteAsk) {
        self.common.starved.insert(self.id);
        self.common.lacks_frames = true;
        self.common.hungry.insert(Hungry {
            age: ask.age,
            file: self.id,
            req: ask.req,
        });
        self.wound_for_frames(Some(ask.age));
    }

    /// A write of this file that still lacks frames will say so again.
    pub(super) fn forget_hunger(&mut self) {
        let file = self.id;
        if !self.common.hungry.is_empty() {
            self.common.hungry.retain(|hungry| hungry.file != file);
        }
    }

    /// Pages that other parts of the same write have reserved here.
    pub(super) fn staged_with(&self, ask: &WriteAsk) -> u32 {
        let same = |write: &&PendingWrite| {
            ask.staged.is_some() && write.ask.staged.is_some() && write.ask.age == ask.age
        };
        let writes = self.file.writes.iter();
        writes.filter(same).map(|write| write.count).sum()
    }

    /// No older copy of a staged write's pages is left: its writer is told.
    pub(super) fn lock_write(&mut self, at: usize) {
        let write = &mut self.file.writes[at];
        write.stage = Stage::Held;
        let (ask, first, count) = (write.ask.clone(), write.first, write.count);
        let key = ask.staged.unwrap_or_default();
        self.lock(ask.req, (ask.age, key), (first, count), Claim::Write);
        let clock = self.ctx.age().clock;
        let body = Body::Staged { clock };
        self.ctx
            .answer(ask.from, self.id, ask.generation, ask.req, body);
    }

    fn lock(&mut self, req: ReqId, id: (Age, u64), (first, count): (u64, u32), claim: Claim) {
        let from = req.node;
        let lock = Lock {
            from,
            inc: req.inc,
            file: self.id,
            generation: self.file.generation,
            first,
            count,
            claim,
            debt: self.ctx.lend(from),
            wounded: false,
        };
        self.common.locks.0.insert(id, lock);
    }

    /// A read over several homes gets its pages, and keeps others from writing them.
    pub(super) fn try_hold(&mut self, ask: &mut HoldAsk, ahead: &Ahead) -> Verdict {
        let (first, count) = (ask.read.first, ask.read.count);
        let locked = self.is_locked(Claim::Read, ask.age, first, count);
        let busy = self.file.writes.iter().any(|w| w.touches(first, count));
        let behind = !self.ctx.config.asks_in_turn() && ahead.blocks_read(ask.age, first, count);
        if locked || busy || behind || self.is_barred(first, count) {
            return Verdict::Wait;
        }
        if self.calls_back(first, count, Wanted::Bytes) {
            return Verdict::Wait;
        }
        if !self.fill(&mut ask.read) {
            return Verdict::Wait;
        }
        let id = (ask.age, ask.key);
        self.lock(ask.read.req, id, (first, count), Claim::Read);
        self.grant(&ask.read, Use::Once);
        Verdict::Done
    }

    /// All homes have the write.
    pub(super) fn apply_staged(&mut self, from: NodeId, req: ReqId, of: u64) {
        let Some(mut write) = self.take_staged(from, of) else {
            return self.fail(from, req, errno::EIO);
        };
        write.ask.req = req;
        self.apply(&write);
    }

    /// Takes a write that is locked here off the list.
    fn take_staged(&mut self, from: NodeId, of: u64) -> Option<PendingWrite> {
        let id = self.common.locks.id_of(from, of)?;
        let mut writes = self.file.writes.iter();
        let mine = |w: &PendingWrite| w.ask.from == from && w.ask.staged == Some(of);
        let at = writes.position(mine)?;
        self.common.locks.end(self.ctx, id)?;
        Some(self.file.writes.remove(at))
    }

    /// A lock goes to whoever is older; the request waits again.
    pub(super) fn give_way(&mut self, from: NodeId, req: ReqId, of: u64) {
        if let Some(write) = self.take_staged(from, of) {
            self.unreserve(&write);
            let mut ask = write.ask;
            ask.req = req;
            ask.tried = false;
            return self.wait_again(from, ask.generation, Waiting::Write(ask));
        }
        let held = self.common.locks.id_of(from, of);
        let held = held.and_then(|id| Some((id, self.common.locks.end(self.ctx, id)?)));
        match held {
            Some(((age, key), lock)) => {
                let read = self.hold_read(from, req, lock.first, lock.count);
                let ask = Waiting::Hold(HoldAsk { read, age, key });
                self.wait_again(from, lock.generation, ask);
            }
            None => self.fail(from, req, errno::EIO),
        }
    }

    fn wait_again(&mut self, from: NodeId, generation: Gen, ask: Waiting) {
        if generation >= self.file.generation {
            return self.enqueue(ask);
        }
        let current = self.file.generation;
        let req = match ask {
            Waiting::Write(write) => {
                self.free(from, Some(write.data));
                write.req
            }
            Waiting::Hold(hold) => hold.read.req,
            Waiting::Read(_) | Waiting::Flush(_) | Waiting::Peek(_) => return,
        };
        self.ctx
            .answer(from, self.id, current, req, Body::OldGeneration);
    }

    /// The operation has ended, or was given up.
    pub(super) fn release(&mut self, from: NodeId, of: u64) {
        if let Some(write) = self.take_staged(from, of) {
            self.unreserve(&write);
            return self.free(from, Some(write.ask.data));
        }
        if let Some(id) = self.common.locks.id_of(from, of) {
            self.common.locks.end(self.ctx, id);
            return;
        }
        self.drop_calling(|write| write.ask.from == from && write.ask.staged == Some(of));
        self.drop_waiting(from, of);
    }

    /// A request is given up that was not answered: it is, so that nothing is owed.
    fn drop_waiting(&mut self, from: NodeId, of: u64) {
        let mine = |ask: &Waiting| match ask {
            Waiting::Write(write) => write.from == from && write.staged == Some(of),
            Waiting::Hold(hold) => hold.read.from == from && hold.key == of,
            Waiting::Read(_) | Waiting::Flush(_) | Waiting::Peek(_) => false,
        };
        let Some(at) = self.file.waiting.iter().position(mine) else {
            return;
        };
        match self.file.waiting.remove(at) {
            Some(Waiting::Write(write)) => {
                self.free(from, Some(write.data));
                self.fail(from, write.req, errno::EIO);
            }
            Some(Waiting::Hold(hold)) => self.fail(from, hold.read.req, errno::EIO),
            Some(_) | None => {}
        }
    }

    /// Drops staged writes whose readers have not all answered.
    fn drop_calling(&mut self, whose: impl Fn(&PendingWrite) -> bool) {
        let calling = |write: &PendingWrite| write.stage == Stage::Calling && whose(write);
        while let Some(at) = self.file.writes.iter().position(calling) {
            let write = self.file.writes.remove(at);
            self.unreserve(&write);
            let ask = &write.ask;
            self.free(ask.from, Some(ask.data));
            self.fail(ask.from, ask.req, errno::EIO);
        }
    }

    /// Writes of a node that is gone are let go where they are not to be applied yet (RANGE-4).
    pub(super) fn drop_staged_of(&mut self, peer: NodeId) {
        let of = |w: &PendingWrite| w.ask.staged.filter(|_| w.ask.from == peer);
        let all: Vec<u64> = self.file.writes.iter().filter_map(of).collect();
        for of in all {
            self.release(peer, of);
        }
    }

    /// A write gives its frames back; what of the pages was known stays.
    fn unreserve(&mut self, write: &PendingWrite) {
        self.common.reserved -= write.count;
        let pages = write.first..write.first + u64::from(write.count);
        for (_, page) in self.file.pages.range_mut(pages) {
            page.reserved = false;
            let blank = !page.filled && page.valid.is_empty() && !page.busy();
            match page.slot.filter(|_| blank) {
                Some(slot) => {
                    self.ctx.frames.give_back(slot);
                    page.vacate();
                }
                None => page.settle(self.ctx.frames),
            }
        }
        self.file.pages.retain(|_, page| !page.idle());
    }
}

impl Waiting {
    /// When it began, if that decides who goes first.
    fn age(&self) -> Option<Age> {
        match self {
            Waiting::Write(write) => Some(write.age),
            Waiting::Hold(hold) => Some(hold.age),
            Waiting::Read(_) | Waiting::Flush(_) | Waiting::Peek(_) => None,
        }
    }
}
