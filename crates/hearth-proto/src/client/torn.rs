//! Writes of which some homes took their parts, and a home that is gone may not have taken its own; and appends, whose place
//! it may have filled.
//!
//! The rest alone is written in the next view. A part that was taken may have been read, and overwritten since.

use super::write::{Part, WriteJob};
use super::{Client, Desk};
use crate::effect::{Effect, Reply};
use crate::errno::EIO;
use crate::ids::Ticket;
use crate::input::{Request, Rest, WriteAt};
use alloc::vec::Vec;

impl Client {
    /// The rest of a write that failed in this step.
    pub(crate) fn torn(&self, ticket: Ticket) -> Option<&Rest> {
        self.torn.get(&ticket)
    }

    /// A step begins.
    pub(crate) fn forget_torn(&mut self) {
        self.torn.clear();
    }
}

impl Desk<'_, '_> {
    /// True if a home took a part, and is gone with it.
    pub(super) fn has_lost_part(&self, job: &WriteJob) -> bool {
        let is_lost = |part: &Part| part.taken && self.ctx.peers.is_down(part.home);
        let judged = self.ctx.config.goes_on && job.scattered.is_none();
        judged && job.parts.iter().any(is_lost)
    }

    /// Notes the rest of a write that has failed for a node that is gone, if homes that live took others of its bytes, or if
    /// its place has to stay its own.
    pub(super) fn note_torn(&mut self, ticket: Ticket, job: &WriteJob) {
        let peers = &self.ctx.peers;
        let has = |part: &&Part| part.taken && !peers.is_down(part.home);
        let (taken, left): (Vec<&Part>, Vec<&Part>) = job.parts.iter().partition(has);
        let is_torn = job.at == WriteAt::End || !taken.is_empty();
        if is_torn && job.is_finished_later(self.ctx.config) {
            let offset = job.offset;
            let missing = match job.parts.is_empty() {
                true => alloc::vec![(offset, job.len)],
                false => left.iter().map(|part| (part.offset, part.len)).collect(),
            };
            let last = job.rest.as_ref();
            let before = last.into_iter().flat_map(|rest| &rest.taken).copied();
            let now = taken
                .iter()
                .map(|part| (part.home, (part.offset, part.len)));
            let rest = Rest {
                at: last.map_or(job.at, |rest| rest.at),
                offset,
                missing,
                taken: before.chain(now).collect(),
            };
            self.client.torn.insert(ticket, rest);
        }
    }

    /// A write to a file that the store serves, for its last name is gone. All that homes had of it went to the store before.
    pub(super) fn write_past_homes(&mut self, ticket: Ticket, job: WriteJob) {
        match &job.rest {
            Some(rest) if rest.missing.is_empty() => {
                self.ctx.out.push(Effect::Free(job.buf));
                let (offset, size) = (job.offset, job.end());
                self.reply(ticket, Reply::Written { offset, size });
            }
            // A second append of the whole would show the taken part twice.
            Some(rest) if rest.at == WriteAt::End => self.refuse_write(ticket, job.buf, EIO),
            Some(_) | None => self.write_at_store(ticket, job.file),
        }
    }

    /// Writes the rest of a write.
    pub(super) fn finish_write(&mut self, ticket: Ticket, request: Request) {
        if let Request::Finish {
            handle,
            buf,
            len,
            mtime_ns,
            rest,
        } = request
        {
            let at = WriteAt::Offset(rest.offset);
            let mut job = WriteJob::new(handle, at, buf, len, mtime_ns);
            job.rest = Some(rest);
            self.write(ticket, job);
        }
    }
}
