//! Files whose manager is gone.
//!
//! Nobody tells a home of such a file which other nodes write or read it, and a node that cannot ask a
//! manager goes to the store. So the store has to have all of it first, and to stay ahead. A node that finds
//! that nobody manages a file has every node bring there what it has, and take no write of the lives that the
//! file has had ([`crate::rescue`]). Reads go on. The next manager begins another life.
//!
//! Invariant A11: a node that has been told so answers when the store has all that it had of the file as home, and
//! acknowledges no write of those lives after that.

use super::through::Stage;
use super::{Authority, Home, PendingWrite, Waiting};
use crate::ctx::Ctx;
use crate::effect::TierGone;
use crate::errno::EHOSTDOWN;
use crate::guard::Guard;
use crate::ids::{FileId, Gen, NodeId};
use crate::msg::{Body, Envelope, Here};
use alloc::vec::Vec;

impl Authority {
    /// Nobody manages a file any more.
    pub(crate) fn orphaned(&mut self, ctx: &mut Ctx<'_>, from: NodeId, told: &Envelope) {
        let (id, life) = (told.file, told.generation.life);
        if life == 0 || !ctx.config.keeps(Guard::OrphanSettled) {
            return ctx.answer(
                from,
                id,
                told.generation,
                told.req,
                Body::Rescued(Here::Nothing),
            );
        }
        let known = self.common.orphans.entry(id).or_default();
        *known = life.max(*known);
        if self.common.orphans.len() > ctx.config.idle_files_max {
            self.common.orphans.pop_first();
        }
        let mut home = self.home(ctx, id);
        home.file.orphaned.push((from, told.req));
        home.refuse_orphans();
        home.pump();
        self.tidy(ctx, id);
    }

    /// True if this home has let go for a cut, and has not heard the end of it.
    pub(crate) fn awaits_resume(&self, id: FileId) -> bool {
        let file = self.files.get(&id);
        let bar = file.and_then(|file| file.next_bar.as_ref().or(file.bar.as_ref()));
        bar.is_some_and(|bar| bar.answered && !bar.resumed)
    }

    /// The generation that this node knows as home of the file, though it may have nothing of the file any more.
    pub(crate) fn generation(&self, id: FileId) -> Gen {
        let floor = self.common.floors.get(&id).copied().unwrap_or_default();
        let file = self.files.get(&id);
        file.map_or(floor, |file| file.generation.max(floor))
    }

    /// True for a life of a file whose manager is gone, as far as this node was told.
    pub(crate) fn is_over(&self, id: FileId, generation: Gen) -> bool {
        let last = self.common.orphans.get(&id);
        last.is_some_and(|&last| generation.life <= last)
    }

    /// This node has heard of another life of a file. Its own sessions would read the pages of one that is
    /// over, and nobody would call these back: the store has all of them.
    pub(crate) fn outlived(&mut self, ctx: &mut Ctx<'_>, id: FileId, generation: Gen) {
        let over = |file: &super::File| self.is_over(id, file.generation);
        if !self.files.get(&id).is_some_and(|file| over(file))
            || !ctx.config.keeps(Guard::LifeAdopted)
        {
            return;
        }
        let mut home = self.home(ctx, id);
        home.adopt(generation);
        home.pump();
        self.tidy(ctx, id);
    }
}

impl Home<'_, '_> {
    /// True for a request that would change a file of a life whose manager is gone.
    pub(super) fn is_orphan(&self, generation: Gen, body: &Body) -> bool {
        let writes = matches!(
            body,
            Body::Write { .. } | Body::Claim { .. } | Body::Scatter { .. } | Body::Stage { .. }
        );
        writes && self.is_over(generation)
    }

    /// True for a life whose manager is gone.
    pub(super) fn is_over(&self, generation: Gen) -> bool {
        let last = self.common.orphans.get(&self.id);
        last.is_some_and(|&last| generation.life <= last)
    }

    /// Writes that are not applied fail: those that wait, and those whose readers and keepers have not all
    /// answered. Keepers drop their bytes of them with all that they have.
    fn refuse_orphans(&mut self) {
        for ask in core::mem::take(&mut self.file.waiting) {
            match ask {
                Waiting::Write(write) if self.is_over(write.generation) => {
                    self.refuse(&write, EHOSTDOWN);
                }
                other => self.file.waiting.push_back(other),
            }
        }
        let writes = core::mem::take(&mut self.file.writes);
        let (over, rest) = writes
            .into_iter()
            .partition(|write| write.stage == Stage::Calling && self.is_over(write.ask.generation));
        self.file.writes = rest;
        for write in Vec::<PendingWrite>::into_iter(over) {
            self.common.reserved -= write.count;
            self.copied(&write.ask);
            for number in write.first..write.first + u64::from(write.count) {
                if let Some(page) = self.file.pages.get_mut(&number) {
                    page.reserved = false;
                    page.settle(self.ctx.frames);
                    self.note_age(number);
                }
            }
            self.refuse(&write.ask, EHOSTDOWN);
        }
        self.relist();
    }

    /// Brings all to the store; whoever waits for that is answered when it is done and nobody else keeps anything, or
    /// when the store refuses it.
    pub(super) fn settle_orphan(&mut self) {
        if self.file.orphaned.is_empty() {
            return;
        }
        let rests = self.file.dirty_bytes == 0 && !self.file.spilled && !self.is_syncing();
        let body = match self.file.failed {
            Some(failure) if !rests => Body::Failed(failure.errno),
            _ if rests && self.file.wards.is_over() => Body::Rescued(Here::Home),
            _ if self.file.dirty_bytes > 0 => {
                self.start_flush();
                return;
            }
            _ => return self.settle_now(),
        };
        // The next home may be another node, which writes past this tier (A6).
        self.empty_tier((0, TierGone::Copies));
        for (to, req) in core::mem::take(&mut self.file.orphaned) {
            let generation = self.file.generation;
            self.ctx.answer(to, self.id, generation, req, body.clone());
        }
    }
}
