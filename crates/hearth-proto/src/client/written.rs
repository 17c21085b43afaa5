//! The end of a write.

use super::write::Phase;
use super::{Desk, Job};
use crate::effect::{Effect, Reply};
use crate::ids::{FileId, Ticket};
use crate::input::WriteAt;
use crate::{RawErrno, errno};

impl Desk<'_, '_> {
    /// The file was detached under a write whose parts have all been dealt with: what homes took is in
    /// the store, what they refused is not.
    pub(super) fn detached_under(&mut self, ticket: Ticket) {
        let Some(Job::Write(job)) = self.client.jobs.get(&ticket) else {
            return;
        };
        // One that was staged and let go has no parts any more.
        let done = !job.refused && job.parts.iter().all(|part| part.taken);
        if job.failed.is_some() || done {
            return self.end_write(ticket);
        }
        // A second append of the whole would show the taken part twice.
        if job.is_begun() && job.at == WriteAt::End {
            return self.fail_write(ticket, errno::EIO);
        }
        self.redirect(ticket);
    }

    pub(super) fn fail_write(&mut self, ticket: Ticket, errno: RawErrno) {
        if let Some(Job::Write(job)) = self.client.jobs.get_mut(&ticket) {
            job.failed = Some(errno);
        }
        self.end_write(ticket);
    }

    /// Fails a write of which nothing is on its way.
    pub(super) fn fail_unplaced(&mut self, ticket: Ticket, errno: RawErrno) {
        if let Some(Job::Write(job)) = self.client.jobs.get(&ticket)
            && job.phase == Phase::Locating
        {
            self.fail_write(ticket, errno);
        }
    }

    /// A write has ended here, without its home.
    pub(super) fn end_own_write(&mut self, ticket: Ticket) {
        if let Some(Job::Write(job)) = self.client.jobs.get(&ticket)
            && let Some(file) = self.client.files.get_mut(&job.file)
        {
            file.date.wrote(self.ctx.config, job.mtime_ns);
        }
        self.end_write(ticket);
    }

    pub(super) fn end_write(&mut self, ticket: Ticket) {
        let Some(Job::Write(mut job)) = self.client.jobs.remove(&ticket) else {
            return;
        };
        if self.has_lost_part(&job) {
            job.failed = job.failed.or(Some(errno::EHOSTDOWN));
        }
        let size = match self.client.files.get_mut(&job.file) {
            Some(file) => {
                file.writes.retain(|&write| write != ticket);
                file.size
            }
            None => 0,
        };
        self.note_torn(ticket, &job);
        if !job.spent {
            self.ctx.out.push(Effect::Free(job.buf));
        }
        if job.scattered.is_some() {
            return self.scattered(&job);
        }
        let reply = match job.failed {
            Some(errno) => Reply::Failed(errno),
            None => Reply::Written {
                offset: job.offset,
                size: size.max(job.end()),
            },
        };
        self.reply(ticket, reply);
    }

    /// The file was detached: writes that no home has taken go to the store.
    pub(super) fn redirect_writes(&mut self, id: FileId) {
        let waiting = self
            .client
            .files
            .get(&id)
            .map(|file| file.writes.clone())
            .unwrap_or_default();
        for ticket in waiting {
            if let Some(Job::Write(job)) = self.client.jobs.get(&ticket)
                && matches!(job.phase, Phase::Placing | Phase::Locating | Phase::Passing)
                && !job.spent
            {
                self.redirect(ticket);
            }
        }
    }

    /// The driver still holds the bytes of the ticket and writes them to the store itself.
    pub(super) fn redirect(&mut self, ticket: Ticket) {
        let Some(Job::Write(job)) = self.client.jobs.remove(&ticket) else {
            return;
        };
        if let Some(file) = self.client.files.get_mut(&job.file) {
            file.writes.retain(|&write| write != ticket);
        }
        match job.scattered {
            Some(_) => self.abandon_scatter(job),
            None => self.write_at_store(ticket, job.file),
        }
    }
}
