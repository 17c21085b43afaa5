//! Writes of which some homes took their parts, and a home that is gone may not have taken its own.
//!
//! The rest alone is written in the next view. A part that was taken may have been read, and overwritten since.

use super::write::{Part, WriteJob};
use super::{Client, Desk, Job};
use crate::errno::EHOSTDOWN;
use crate::ids::Ticket;
use crate::input::{Request, Rest, WriteAt};
use alloc::vec::Vec;

impl WriteJob {
    /// The bytes that no home has said it took, if some home took others.
    fn rest(&self) -> Option<Rest> {
        let is_torn = self.failed == Some(EHOSTDOWN) && self.scattered.is_none();
        let (taken, left): (Vec<&Part>, Vec<&Part>) =
            self.parts.iter().partition(|part| part.taken);
        let missing = left.iter().map(|part| (part.offset, part.len)).collect();
        let offset = self.offset;
        (is_torn && !taken.is_empty()).then_some(Rest { offset, missing })
    }
}

impl Client {
    /// Notes a write that has failed.
    pub(super) fn note_torn(&mut self, ticket: Ticket, job: &WriteJob) {
        if let Some(rest) = job.rest() {
            self.torn.insert(ticket, rest);
        }
    }

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

    /// False for a byte that a home has already, of a write that is being finished.
    pub(super) fn is_wanting(&self, ticket: Ticket, at: u64) -> bool {
        match self.client.jobs.get(&ticket) {
            Some(Job::Write(job)) => job.rest.as_ref().is_none_or(|rest| rest.lacks(at)),
            Some(_) | None => true,
        }
    }
}
