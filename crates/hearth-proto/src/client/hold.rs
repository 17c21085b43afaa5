//! Reads of several pages that return bytes of one instant.
//!
//! Copies and pages whose home is here are good until this node is told otherwise, so what of them is
//! here at one instant is of that instant, and costs no message. Bytes lent for one use are good together if
//! they came in one answer.
//!
//! A read that has neither after [`ROUNDS_MAX`] rounds, or whose pages nobody may keep and that have
//! several homes, has each home hold its part until all have answered.
//!
//! Invariant:
//! - HOLD-1 (I10): the bytes that a read returns were there at one instant between its beginning and its end.

use super::once::Granted;
use super::range::{Lock, Locked};
use super::read::{Found, ReadJob};
use super::{Desk, Job, What};
use crate::config::{Copies, Ranges};
use crate::effect::Piece;
use crate::errno::EHOSTDOWN;
use crate::ids::{Age, NodeId, Ticket};
use crate::msg::{Body, Envelope, Origin};
use alloc::vec::Vec;

/// Rounds that a read makes without locks.
const ROUNDS_MAX: u32 = 2;

/// Pages that one home holds for a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Run {
    home: NodeId,
    first: u64,
    count: u32,
    lock: Lock,
}

/// A read that homes hold pages for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Holding {
    age: Age,
    pub(super) end: u64,
    runs: Vec<Run>,
}

impl Holding {
    pub(super) fn has_all(&self) -> bool {
        self.runs.iter().all(|run| run.lock.is_held())
    }

    fn keys(&self) -> Vec<u64> {
        self.runs.iter().filter_map(|run| run.lock.key()).collect()
    }
}

impl Desk<'_, '_> {
    /// True if the bytes of a read must be of one instant. A way in keeps bytes by the page.
    pub(super) fn is_whole(&self, job: &ReadJob, end: u64) -> bool {
        let (_, count) = self.ctx.config.pages_of(job.offset, end - job.offset);
        count > 1 && !job.keep && self.ranges_rule(job.file) != Ranges::Apart
    }

    /// Takes the next step of a read that has not found its pages as they were at one instant.
    pub(super) fn read_whole(&mut self, ticket: Ticket, end: u64) {
        let Some(Job::Read(job)) = self.client.jobs.get(&ticket) else {
            return;
        };
        if job.holding.is_some() {
            return;
        }
        if self.is_on_its_way(job, end) {
            return self.ask_for_pages(ticket, end);
        }
        let id = job.file;
        let Some(runs) = self.runs_of(ticket, end) else {
            return;
        };
        if runs.iter().any(|run| self.is_lost(id, run.home)) {
            return self.direct(ticket);
        }
        let Some(Job::Read(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        job.rounds += 1;
        let spoiled = job.rounds > ROUNDS_MAX;
        self.forget_lent(ticket);
        let lends = self.ctx.config.rules().copies == Copies::One;
        if spoiled || lends && runs.len() > 1 {
            self.hold(ticket, end, runs);
        } else {
            self.ask_for_pages(ticket, end);
        }
    }

    /// True if some page of the read has been asked for.
    fn is_on_its_way(&self, job: &ReadJob, end: u64) -> bool {
        let (first, count) = self.ctx.config.pages_of(job.offset, end - job.offset);
        let file = self.client.files.get(&job.file);
        let pages = first..first + u64::from(count);
        file.is_some_and(|file| file.wants.range(pages).next().is_some())
    }

    /// The read's pages by homes; `None` while a home is not known, and is asked for.
    fn runs_of(&mut self, ticket: Ticket, end: u64) -> Option<Vec<Run>> {
        let Some(Job::Read(job)) = self.client.jobs.get(&ticket) else {
            return None;
        };
        let id = job.file;
        let (first, count) = self.ctx.config.pages_of(job.offset, end - job.offset);
        let in_turn = self.ctx.config.asks_in_turn();
        let most = super::read::run_max(self.ctx.config);
        let mut runs: Vec<Run> = Vec::new();
        let mut unknown = false;
        for page in first..first + u64::from(count) {
            if self.has_unknown_home(id, page) {
                self.direct(ticket);
                return None;
            }
            let Some(home) = self.home_or_ask(id, page, count == 1) else {
                unknown = true;
                continue;
            };
            match runs.last_mut() {
                Some(run)
                    if run.home == home
                        && run.first + u64::from(run.count) == page
                        && run.count < most =>
                {
                    run.count += 1;
                }
                Some(_) | None => runs.push(Run {
                    home,
                    first: page,
                    count: 1,
                    lock: Lock::Unasked,
                }),
            }
        }
        if in_turn {
            runs.sort_by_key(|run| (run.home, run.first));
        }
        (!unknown).then_some(runs)
    }

    fn hold(&mut self, ticket: Ticket, end: u64, runs: Vec<Run>) {
        let age = self.ctx.new_age();
        let Some(Job::Read(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        job.holding = Some(Holding { age, end, runs });
        self.hold_next(ticket);
    }

    fn hold_next(&mut self, ticket: Ticket) {
        let together = !self.ctx.config.asks_in_turn();
        let Some(Job::Read(job)) = self.client.jobs.get(&ticket) else {
            return;
        };
        let Some(holding) = &job.holding else { return };
        let (id, age) = (job.file, holding.age);
        let unasked = (0..)
            .zip(&holding.runs)
            .filter(|(_, run)| run.lock == Lock::Unasked);
        let next: Vec<(u32, Run)> = unasked.map(|(number, run)| (number, *run)).collect();
        let most = if together { next.len() } else { 1 };
        for (
            number,
            Run {
                home, first, count, ..
            },
        ) in next.into_iter().take(most)
        {
            let body = Body::Hold { first, count, age };
            let key = self.ask(home, id, body, What::Hold(ticket, number), Vec::new());
            let part = number;
            self.client.locks.insert(key, Locked { ticket, part, home });
            self.set_hold(ticket, number, Lock::Asked(key));
        }
    }

    fn set_hold(&mut self, ticket: Ticket, number: u32, lock: Lock) {
        if let Some(Job::Read(job)) = self.client.jobs.get_mut(&ticket)
            && let Some(holding) = &mut job.holding
        {
            holding.runs[number as usize].lock = lock;
        }
    }

    /// A home holds its part of a read, and here are the bytes; or it does not.
    pub(super) fn hold_answered(
        &mut self,
        ticket: Ticket,
        number: u32,
        from: NodeId,
        answer: &Envelope,
        data: Option<Piece>,
    ) {
        let Some(Job::Read(job)) = self.client.jobs.get(&ticket) else {
            return;
        };
        let Some(run) = job.holding.as_ref().map(|h| h.runs[number as usize]) else {
            return;
        };
        let key = run.lock.key().unwrap_or_default();
        match &answer.body {
            Body::Grant {
                first,
                lens,
                origin,
                ..
            } => {
                self.set_hold(ticket, number, Lock::Held(key));
                self.lend_run(ticket, from, (*first, lens, *origin), data);
                self.hold_next(ticket);
                self.go_on_reading(ticket);
            }
            Body::OldGeneration => {
                self.client.locks.remove(&key);
                self.hold_again(ticket);
            }
            Body::Failed(EHOSTDOWN) => self.direct(ticket),
            Body::Failed(errno) => {
                let errno = *errno;
                self.client.locks.remove(&key);
                self.end_read(ticket);
                self.reply(ticket, crate::effect::Reply::Failed(errno));
            }
            _ => {}
        }
    }

    fn lend_run(
        &mut self,
        ticket: Ticket,
        from: NodeId,
        (first, lens, origin): (u64, &[u32], Origin),
        data: Option<Piece>,
    ) {
        let mut at = data.map_or(0, |piece| piece.at);
        for (page, &extent) in (first..).zip(lens) {
            let found = match origin {
                Origin::Store => Some(Found::Store),
                Origin::Memory if from == self.ctx.me() => None,
                Origin::Memory | Origin::Peer => Some(Found::Peer),
            };
            if let Some(found) = found {
                self.found(ticket, page, found);
            }
            let granted = Granted {
                page,
                from: 0,
                to: self.ctx.config.page_bytes,
                extent,
                at,
                data,
                origin,
            };
            self.lend(ticket, &granted, 0);
            at += extent;
        }
    }

    /// Somebody else goes first at one home: its bytes will be others.
    pub(super) fn yield_hold(&mut self, ticket: Ticket, part: u32, key: u64) {
        self.set_hold(ticket, part, Lock::Asked(key));
        self.yield_lock(key, What::Hold(ticket, part));
    }

    /// Bytes that were lent to a read are of an instant that it must not mix with others.
    fn forget_lent(&mut self, ticket: Ticket) {
        let Some(Job::Read(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        let lent = core::mem::take(&mut job.once);
        for buf in lent.into_values().filter_map(|once| once.buf) {
            self.unborrow(buf);
        }
    }

    /// Begins anew.
    pub(super) fn hold_again(&mut self, ticket: Ticket) {
        self.end_holding(ticket);
        self.forget_lent(ticket);
        if let Some(Job::Read(job)) = self.client.jobs.get_mut(&ticket) {
            job.rounds = 0;
        }
        self.go_on_reading(ticket);
    }

    /// Gives back what homes hold for a read.
    pub(super) fn end_holding(&mut self, ticket: Ticket) {
        let Some(Job::Read(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        let Some(holding) = job.holding.take() else {
            return;
        };
        let id = job.file;
        for key in holding.keys() {
            self.release_lock(id, key);
        }
    }
}
