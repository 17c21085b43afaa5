//! Size, truncation.

use super::{Desk, Job, What};
use crate::RawErrno;
use crate::effect::{Effect, Reply};
use crate::ids::{FileId, Stamp, Ticket};
use crate::msg::{Body, Envelope};

impl Desk<'_, '_> {
    pub(super) fn size(&mut self, ticket: Ticket, id: FileId, ask: bool) {
        let store = |keep| Reply::Size {
            size: None,
            mtime_ns: None,
            keep,
        };
        if self.ctx.config.is_uncached() {
            // Nobody hears of what another node changes.
            return self.reply(ticket, store(self.ctx.config.members_count() == 1));
        }
        if let Some(file) = self.client.files.get(&id) {
            let ours = Reply::Size {
                size: Some(file.size),
                mtime_ns: file.date.own(),
                keep: false,
            };
            // Not "as the store says": a home may hold bytes that the store would not take so far.
            let size = Some(file.size);
            let known = |keep| Reply::Size {
                size,
                mtime_ns: None,
                keep,
            };
            let at_rest = file.writers == 0 && file.unflushed().is_empty() && file.date.is_stored();
            let dated = file.date.is_known(file.writers > 0);
            match (file.bypass || file.orphan, file.handles > 0, file.exact) {
                (true, _, _) => return self.reply(ticket, store(false)),
                (false, true, true) if at_rest => {
                    let keep = self.keep_size(id);
                    return self.reply(ticket, known(keep));
                }
                (false, true, true) if dated || !ask => return self.reply(ticket, ours),
                (false, true, false) if !ask => return self.reply(ticket, ours),
                (false, _, _) => {}
            }
        }
        if !ask {
            return self.reply(ticket, store(false));
        }
        self.client.jobs.insert(ticket, Job::Size(id));
        let file = self.client.files.get_mut(&id);
        let question = Body::Size {
            dated: true,
            mtime_ns: file.and_then(|file| file.date.tell()),
        };
        self.ask_manager(id, question, What::Job(ticket));
    }

    pub(super) fn size_answered(&mut self, ticket: Ticket, body: &Body) {
        let asked = match self.client.jobs.get(&ticket) {
            Some(&Job::Size(id)) => Some(id),
            Some(_) | None => None,
        };
        let reply = match *body {
            Body::SizeIs { keep: true, .. } => Reply::Size {
                size: None,
                mtime_ns: None,
                keep: asked.is_some_and(|id| self.keep_size(id)),
            },
            Body::SizeIs {
                size,
                mtime_ns,
                keep,
            } => Reply::Size {
                size,
                mtime_ns,
                keep,
            },
            _ => Reply::Size {
                size: None,
                mtime_ns: None,
                keep: false,
            },
        };
        self.finish(ticket, reply);
    }

    pub(super) fn truncate(&mut self, ticket: Ticket, id: FileId, size: u64) {
        self.client.jobs.insert(
            ticket,
            Job::Truncate {
                file: id,
                size,
                go: None,
            },
        );
        if self.uncached(id) {
            return self.truncate_store(ticket, size);
        }
        self.ask_manager(id, Body::Truncate(size), What::Job(ticket));
    }

    fn truncate_store(&mut self, ticket: Ticket, size: u64) {
        let op = self.ctx.new_op();
        self.client.truncations.insert(op, ticket);
        self.ctx
            .out
            .push(Effect::StoreTruncate { op, ticket, size });
    }

    pub(super) fn truncate_answered(
        &mut self,
        ticket: Ticket,
        id: FileId,
        size: u64,
        answer: &Envelope,
    ) {
        match answer.body {
            Body::TruncateGo => self.truncate_store(ticket, size),
            Body::TruncateOk => {
                self.learn(id, answer.generation);
                if let Some(file) = self.client.files.get_mut(&id) {
                    file.size = size;
                }
                self.finish(ticket, Reply::Done);
            }
            Body::Failed(errno) => self.finish(ticket, Reply::Failed(errno)),
            _ => {}
        }
    }

    /// The store has a new size, or refused it.
    pub(super) fn truncated_in_store(&mut self, ticket: Ticket, result: Result<Stamp, RawErrno>) {
        let Some(&Job::Truncate { file, go, .. }) = self.client.jobs.get(&ticket) else {
            return;
        };
        if let Some(manager) = go {
            let body = Body::Truncated(result);
            self.ask(manager, file, body, What::Job(ticket), alloc::vec![]);
            return;
        }
        self.finish(ticket, result.map_or_else(Reply::Failed, |_| Reply::Done));
    }

    fn uncached(&self, file: FileId) -> bool {
        self.ctx.config.is_uncached()
            || self.client.files.get(&file).is_some_and(|file| file.bypass)
    }
}
