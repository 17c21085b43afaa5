//! Writing through: the bytes go to the store within a window that the manager keeps open.
//!
//! The manager has everybody drop the range and hold reads of it, then lets the write go. Whatever
//! becomes of it here, the manager is told, so that the window closes.

use super::{Desk, Job, What};
use crate::effect::Effect;
use crate::errno;
use crate::ids::{Gen, NodeId, ReqId, Ticket};
use crate::input::StoreOk;
use crate::msg::{Body, Envelope};
use crate::{RawErrno, input::WriteAt};

/// The window of a write that is on its way to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Passage {
    manager: NodeId,
    generation: Gen,
    req: ReqId,
    file: crate::ids::FileId,
}

impl Desk<'_, '_> {
    pub(super) fn ask_window(&mut self, ticket: Ticket) {
        let Some(Job::Write(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        let (file, len) = (job.file, job.begin_window());
        let at = match job.at() {
            WriteAt::Offset(offset) => Some(offset),
            WriteAt::End => None,
        };
        self.ask_manager(file, Body::Window { at, len }, What::Job(ticket));
    }

    /// Nobody keeps the range: writes it.
    pub(super) fn window_open(&mut self, from: NodeId, order: &Envelope, asked: u64, offset: u64) {
        let passage = Passage {
            manager: from,
            generation: order.generation,
            req: order.req,
            file: order.file,
        };
        let ticket = match self.client.pending.get(&asked).map(|pending| pending.what) {
            Some(What::Job(ticket)) => ticket,
            Some(_) | None => return self.close_window(passage, Err(errno::ESTALE)),
        };
        let Some(Job::Write(job)) = self.client.jobs.get_mut(&ticket) else {
            return self.close_window(passage, Err(errno::ESTALE));
        };
        let buf = job.pass_through(offset);
        let op = self.ctx.new_op();
        self.client.passages.insert(op, passage);
        self.ctx.stats.flush_writes += 1;
        self.ctx.out.push(Effect::StoreThrough {
            op,
            ticket,
            offset,
            buf,
        });
    }

    /// The store has the bytes, or refused them.
    pub(super) fn passed(&mut self, passage: Passage, result: Result<StoreOk, RawErrno>) {
        self.close_window(passage, result);
    }

    fn close_window(&mut self, passage: Passage, result: Result<StoreOk, RawErrno>) {
        let Passage {
            manager,
            generation,
            req,
            file,
        } = passage;
        let body = Body::WindowOver(result.map(|ok| ok.stamp));
        self.ctx.answer(manager, file, generation, req, body);
    }
}
