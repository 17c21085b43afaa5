//! Writes over several homes: each home locks its part, then all of them apply theirs.
//!
//! ```text
//!   asked ──▶ held ─┬─ all are held ──▶ Apply to all ──▶ answered
//!     ▲             │
//!     └── wounded ──┘   (wound-wait; where homes are asked one after another, all is begun anew)
//! ```
//!
//! Invariants:
//! - APPLY-1 (I10): no home is told to apply before each has said that it holds its part.
//! - APPLY-2: a write that ends otherwise has released what it was given, and nothing of it is written.
//! - APPLY-3: the bytes fit into the windows of all homes before any is asked, so that what is under way
//!   never waits for what is not.

use super::write::Part;
use super::{Desk, Job, What};
use crate::RawErrno;
use crate::config::Ranges;
use crate::effect::{Piece, Src};
use crate::errno::EHOSTDOWN;
use crate::guard::Guard;
use crate::ids::{Age, FileId, NodeId, Ticket};
use crate::input::WriteAt;
use crate::msg::{Body, Envelope};
use crate::semantics::Semantics;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Bytes that one home holds for one write at most: they need frames at one instant. A write with more
/// for a home is not made one.
const HOME_BYTES_MAX: u64 = 8 << 20;

/// The owner of a lock that a home was asked for: a job, and which part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Locked {
    pub(super) ticket: Ticket,
    pub(super) part: u32,
    pub(super) home: NodeId,
}

/// How far one part has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Lock {
    /// Its turn has not come.
    Unasked,
    /// The home was asked by the request of this number.
    Asked(u64),
    /// The home has said yes.
    Held(u64),
    /// The home is to apply it.
    Applying,
}

impl Lock {
    pub(super) fn key(self) -> Option<u64> {
        match self {
            Lock::Unasked | Lock::Applying => None,
            Lock::Asked(key) | Lock::Held(key) => Some(key),
        }
    }

    pub(super) fn is_held(self) -> bool {
        matches!(self, Lock::Held(_))
    }
}

/// A write over several homes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Range {
    age: Age,
    locks: Vec<Lock>,
}

/// The fate of a write whose parts are let go.
enum Instead {
    /// It begins anew: a home has moved on to another generation, or must have its lock back.
    Again,
    Fail(RawErrno),
}

impl Desk<'_, '_> {
    /// How reads and writes of the file are made one over several homes.
    pub(super) fn ranges_rule(&self, id: FileId) -> Ranges {
        let file = self.client.files.get(&id);
        let semantics = file.map_or(Semantics::Posix, |file| file.semantics);
        self.ctx.config.ranges_rule(semantics)
    }

    /// True if the parts have several homes and must be taken together. One home takes a run at once.
    pub(super) fn is_ranged(&self, id: FileId, parts: &[Part]) -> bool {
        if parts.len() < 2 || self.ranges_rule(id) == Ranges::Apart {
            return false;
        }
        let mut bytes: BTreeMap<NodeId, u64> = BTreeMap::new();
        for part in parts {
            *bytes.entry(part.home).or_default() += u64::from(part.len);
        }
        bytes.values().all(|&bytes| bytes <= HOME_BYTES_MAX)
    }

    /// True if the write is one over several homes that has not been applied.
    pub(super) fn is_staging(&self, ticket: Ticket) -> bool {
        match self.client.jobs.get(&ticket) {
            Some(Job::Write(job)) => job.range.is_some(),
            Some(_) | None => false,
        }
    }

    pub(super) fn begin_range(&mut self, ticket: Ticket) {
        let age = self.ctx.new_age();
        let in_turn = self.ctx.config.asks_in_turn();
        let Some(Job::Write(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        if in_turn {
            job.parts.sort_by_key(|part| (part.home, part.offset));
        }
        let homes: Vec<NodeId> = job.parts.iter().map(|part| part.home).collect();
        job.range = Some(Range {
            age,
            locks: alloc::vec![Lock::Unasked; homes.len()],
        });
        for (part, home) in (0..).zip(homes) {
            let window = self.client.windows.entry(home).or_default();
            window.waiting.push_back((ticket, part));
        }
        self.stage_when_open(ticket);
    }

    /// Sends the write if it is the first in line for the windows of all its homes and fits into them
    /// (APPLY-3). False if it has to wait. It stands in all lines at once, so the oldest is first in each.
    pub(super) fn stage_when_open(&mut self, ticket: Ticket) -> bool {
        let Some(Job::Write(job)) = self.client.jobs.get(&ticket) else {
            return false;
        };
        let mut bytes: BTreeMap<NodeId, u64> = BTreeMap::new();
        for part in &job.parts {
            *bytes.entry(part.home).or_default() += u64::from(part.len);
        }
        let limit = self.ctx.config.write_window_bytes;
        let open = |(home, &len): (&NodeId, &u64)| {
            let Some(window) = self.client.windows.get(home) else {
                return true;
            };
            let first = window
                .waiting
                .front()
                .is_none_or(|&(next, _)| next == ticket);
            first && (window.used == 0 || window.used + len <= limit)
        };
        if !bytes.iter().all(open) {
            return false;
        }
        for (home, len) in bytes {
            let window = self.client.windows.entry(home).or_default();
            window.waiting.retain(|&(next, _)| next != ticket);
            window.used += len;
        }
        self.stage_next(ticket);
        true
    }

    /// Asks the homes: all of them, or the next where they are asked one after another.
    fn stage_next(&mut self, ticket: Ticket) {
        let together = !self.ctx.config.asks_in_turn();
        let Some(Job::Write(job)) = self.client.jobs.get(&ticket) else {
            return;
        };
        let Some(range) = &job.range else { return };
        let unasked = (0..)
            .zip(&range.locks)
            .filter(|(_, l)| **l == Lock::Unasked);
        let next: Vec<u32> = unasked.map(|(number, _)| number).collect();
        let most = if together { next.len() } else { 1 };
        for number in next.into_iter().take(most) {
            self.stage(ticket, number);
        }
    }

    fn stage(&mut self, ticket: Ticket, number: u32) {
        let Some(Job::Write(job)) = self.client.jobs.get(&ticket) else {
            return;
        };
        let (id, part) = (job.file, job.parts[number as usize]);
        let placed = (job.at == WriteAt::End).then_some(job.generation);
        let Some(age) = job.range.as_ref().map(|range| range.age) else {
            return;
        };
        let data = Piece {
            src: Src::Buf(job.buf),
            at: part.at,
            len: part.len,
        };
        let dropped = self.drop_own_copies(id, part.offset, part.len);
        let body = Body::Stage {
            offset: part.offset,
            len: part.len,
            dropped,
            age,
        };
        let known = self.client.files.get(&id).map(|file| file.generation);
        let generation = placed.or(known).unwrap_or_default();
        let what = What::Part(ticket, number);
        let key = self.ask_in(generation, part.home, id, body, what, alloc::vec![data]);
        let locked = Locked {
            ticket,
            part: number,
            home: part.home,
        };
        self.client.locks.insert(key, locked);
        self.set_lock(ticket, number, Lock::Asked(key));
    }

    fn set_lock(&mut self, ticket: Ticket, number: u32, lock: Lock) {
        if let Some(Job::Write(job)) = self.client.jobs.get_mut(&ticket)
            && let Some(range) = &mut job.range
        {
            range.locks[number as usize] = lock;
        }
    }

    fn range(&self, ticket: Ticket) -> Option<&Range> {
        match self.client.jobs.get(&ticket) {
            Some(Job::Write(job)) => job.range.as_ref(),
            Some(_) | None => None,
        }
    }

    /// A home has answered for its part of a write that is not applied yet, or has applied it.
    pub(super) fn stage_answered(&mut self, ticket: Ticket, number: u32, answer: &Envelope) {
        let Some(range) = self.range(ticket) else {
            return;
        };
        let key = match range.locks[number as usize] {
            Lock::Applying => return self.part_applied(ticket, number, answer),
            Lock::Asked(key) => key,
            Lock::Unasked | Lock::Held(_) => return,
        };
        match answer.body {
            Body::Staged { clock } => {
                self.ctx.hear_clock(clock);
                self.set_lock(ticket, number, Lock::Held(key));
                self.go_on_staging(ticket, number);
            }
            Body::OldGeneration => {
                self.forget_lock(ticket, number, key);
                self.let_go(ticket, &Instead::Again);
            }
            Body::Failed(errno) => {
                self.forget_lock(ticket, number, key);
                self.let_go(ticket, &Instead::Fail(errno));
            }
            _ => {}
        }
    }

    /// The home knows nothing of the part any more.
    fn forget_lock(&mut self, ticket: Ticket, number: u32, key: u64) {
        self.client.locks.remove(&key);
        self.set_lock(ticket, number, Lock::Unasked);
    }

    fn go_on_staging(&mut self, ticket: Ticket, number: u32) {
        let Some(Job::Write(job)) = self.client.jobs.get(&ticket) else {
            return;
        };
        let Some(range) = &job.range else { return };
        if self.is_bypassed(job.file) {
            return self.let_go(ticket, &Instead::Again);
        }
        let mut homes = job.parts.iter().map(|part| part.home);
        if homes.any(|home| self.ctx.peers.is_down(home)) {
            return self.let_go(ticket, &Instead::Fail(EHOSTDOWN));
        }
        let all = range.locks.iter().all(|lock| lock.is_held());
        let apart = !self.ctx.config.keeps(Guard::AppliedTogether);
        match (all, apart) {
            (true, false) => self.apply_all(ticket),
            (false, false) => self.stage_next(ticket),
            (_, true) => {
                self.apply(ticket, number);
                self.stage_next(ticket);
            }
        }
    }

    /// Every home holds its part: all of them are to put it in place (APPLY-1).
    fn apply_all(&mut self, ticket: Ticket) {
        let parts = self.range(ticket).map_or(0, |range| range.locks.len());
        for number in 0..parts as u32 {
            self.apply(ticket, number);
        }
    }

    fn apply(&mut self, ticket: Ticket, number: u32) {
        let lock = self.range(ticket).map(|range| range.locks[number as usize]);
        let Some(Lock::Held(key)) = lock else { return };
        self.set_lock(ticket, number, Lock::Applying);
        let Some(Job::Write(job)) = self.client.jobs.get(&ticket) else {
            return;
        };
        let (id, home) = (job.file, job.parts[number as usize].home);
        self.client.locks.remove(&key);
        if let Some(file) = self.client.files.get_mut(&id) {
            file.unreported = true;
        }
        let what = What::Part(ticket, number);
        self.ask(home, id, Body::Apply { of: key }, what, Vec::new());
    }

    /// A home has put its part in place.
    fn part_applied(&mut self, ticket: Ticket, number: u32, answer: &Envelope) {
        let Some(Job::Write(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        let (id, part) = (job.file, job.parts[number as usize]);
        match answer.body {
            Body::WriteOk => {
                job.part_taken(answer.generation, part);
                if let Some(file) = self.client.files.get_mut(&id) {
                    file.wrote.insert(part.home);
                }
            }
            Body::Failed(errno) => job.failed = Some(errno),
            _ => {}
        }
        self.part_over(ticket);
        self.free_window(part.home, part.len);
    }

    /// Somebody else goes first. A request that has all its locks ends soon and needs nothing more.
    pub(super) fn wounded(&mut self, key: u64, clock: u64) {
        self.ctx.hear_clock(clock);
        let Some(&Locked { ticket, part, .. }) = self.client.locks.get(&key) else {
            return;
        };
        let one_by_one = self.ctx.config.asks_in_turn();
        match self.client.jobs.get(&ticket) {
            Some(Job::Write(_)) if one_by_one => self.let_go(ticket, &Instead::Again),
            Some(Job::Write(_)) => {
                self.set_lock(ticket, part, Lock::Asked(key));
                self.yield_lock(key, What::Part(ticket, part));
            }
            Some(Job::Read(_)) if one_by_one => self.hold_again(ticket),
            Some(Job::Read(_)) => self.yield_hold(ticket, part, key),
            Some(_) | None => {}
        }
    }

    /// Lets somebody else go first; the request waits again.
    pub(super) fn yield_lock(&mut self, key: u64, what: What) {
        let Some(&Locked { ticket, home, .. }) = self.client.locks.get(&key) else {
            return;
        };
        let id = match self.client.jobs.get(&ticket) {
            Some(Job::Write(job)) => job.file,
            Some(Job::Read(job)) => job.file,
            Some(_) | None => return,
        };
        self.ask(home, id, Body::Yield { of: key }, what, Vec::new());
    }

    /// Gives a lock back, or the request for one.
    pub(super) fn release_lock(&mut self, id: FileId, key: u64) {
        let Some(Locked { ticket, part, home }) = self.client.locks.remove(&key) else {
            return;
        };
        let mine =
            |what: What| what == What::Part(ticket, part) || what == What::Hold(ticket, part);
        self.client.pending.give_up(id, mine);
        let known = self.client.files.get(&id).map(|file| file.generation);
        let body = Body::Release { of: key };
        self.ctx.ask(home, id, known.unwrap_or_default(), body);
    }

    /// Gives back what homes hold for a write; then it fails or begins anew (APPLY-2).
    fn let_go(&mut self, ticket: Ticket, instead: &Instead) {
        let Some(Job::Write(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        let Some(range) = job.range.take() else {
            return;
        };
        let (id, parts) = (job.file, core::mem::take(&mut job.parts));
        job.left = 0;
        match (instead, job.at) {
            (Instead::Fail(errno), _) => job.failed = Some(*errno),
            (Instead::Again, WriteAt::End) => job.refused = true,
            (Instead::Again, WriteAt::Offset(_)) => {}
        }
        let anew = job.failed.is_none() && !job.refused;
        for key in range.locks.iter().filter_map(|lock| lock.key()) {
            self.release_lock(id, key);
        }
        match anew {
            true => self.place(ticket),
            false => self.all_sent(ticket),
        }
        for part in parts {
            self.free_window(part.home, part.len);
        }
    }

    /// A home is gone, and with it what it had locked.
    pub(super) fn lose_locks(&mut self, peer: NodeId) {
        let there = |(_, locked): &(&u64, &Locked)| locked.home == peer;
        let lost = self.client.locks.iter().filter(there);
        let mut tickets: Vec<Ticket> = lost.map(|(_, locked)| locked.ticket).collect();
        tickets.dedup();
        for ticket in tickets {
            match self.client.jobs.get(&ticket) {
                Some(Job::Write(_)) => self.let_go(ticket, &Instead::Fail(EHOSTDOWN)),
                Some(Job::Read(_)) => self.direct(ticket),
                Some(_) | None => {}
            }
        }
    }
}
