//! Flush, sync, close.

use super::{Client, Desk, Job, Opened, What};
use crate::config::{CloseRule, Config};
use crate::effect::{Effect, Reply};
use crate::errno;
use crate::ids::{FileId, Handle, NodeId, Stamp, Ticket};
use crate::msg::{Body, Goal};
use crate::nodeset::NodeSet;
use crate::{RawErrno, ids};
use alloc::vec::Vec;

/// How far a flush goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Until {
    Flushed,
    Synced,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct FlushJob {
    handle: Handle,
    until: Until,
    left: u32,
    errno: Option<RawErrno>,
    /// Homes that may hold bytes of this node which the store lacked when they were asked.
    unsaved: NodeSet,
}

impl Client {
    /// True if a close of the handle is one that seals what this node wrote: if it writes the file through another one that
    /// has not been closed since, the close of that one does. Whether that handle is known to be gone does not matter: an
    /// operating system tells it later than the close.
    pub(crate) fn seals(&self, config: &Config, handle: Handle) -> bool {
        let Some(opened) = self.handles.get(&handle).filter(|opened| opened.write) else {
            return false;
        };
        let at_work = |(other, one): (&Handle, &Opened)| {
            *other != handle && one.file == opened.file && one.wrote
        };
        config.replicas_rule().shards().is_some() && !self.handles.iter().any(at_work)
    }
}

impl Desk<'_, '_> {
    pub(super) fn flush(&mut self, ticket: Ticket, handle: Handle, until: Until) {
        let Some(id) = self.client.handles.get(&handle).map(|h| h.file) else {
            return self.reply(ticket, Reply::Failed(errno::EBADF));
        };
        if self.musters(id, until) {
            self.client.jobs.insert(ticket, Job::Muster(handle, until));
            let gathered = Body::Settle { store: false };
            return self.ask_manager(id, gathered, What::Job(ticket));
        }
        self.flush_homes(ticket, handle, until);
    }

    /// True if other writers are to send what they gathered first: a sync means their bytes too, and the store is to have
    /// pages in few pieces.
    fn musters(&self, id: FileId, until: Until) -> bool {
        let Some(file) = self.client.files.get(&id) else {
            return false;
        };
        let alone = file.exact || file.bypass || file.orphan;
        let flushes = match until {
            Until::Flushed => {
                self.ctx.config.close_rule() == CloseRule::Flushed && !file.unflushed().is_empty()
            }
            Until::Synced => true,
        };
        file.semantics.gathers() && !alone && flushes
    }

    pub(super) fn flush_homes(&mut self, ticket: Ticket, handle: Handle, until: Until) {
        let Some(id) = self.client.handles.get(&handle).map(|h| h.file) else {
            return self.finish(ticket, Reply::Failed(errno::EBADF));
        };
        let seals = until == Until::Flushed && self.client.seals(self.ctx.config, handle);
        if let Some(opened) = self.client.handles.get_mut(&handle) {
            opened.wrote = false;
        }
        let file = self.client.files.entry(id).or_default();
        let homes: Vec<NodeId> = match (file.bypass, until) {
            (true, _) => Vec::new(),
            (false, Until::Flushed) if seals => file.unsealed(),
            (false, Until::Flushed) if self.ctx.config.close_rule() == CloseRule::Buffered => {
                Vec::new()
            }
            (false, Until::Flushed) => file.unflushed(),
            (false, Until::Synced) => file.all_homes(self.ctx.config, id),
        };
        if !homes.is_empty() {
            self.return_file(id);
        }
        let unsaved = match self.client.files.get_mut(&id) {
            Some(file) => file.begin_flush(&homes),
            None => NodeSet::default(),
        };
        let left = homes.len() as u32;
        self.client.jobs.insert(
            ticket,
            Job::Flush(FlushJob {
                handle,
                until,
                left,
                errno: None,
                unsaved,
            }),
        );
        if homes.is_empty() {
            return self.flushed(ticket, id);
        }
        for home in homes {
            let goal = match until {
                Until::Flushed if seals => Goal::Sealed,
                Until::Flushed => Goal::Own,
                Until::Synced => Goal::Synced,
            };
            self.ask(home, id, Body::Flush(goal), What::Home(ticket), Vec::new());
        }
    }

    pub(super) fn flush_answered(&mut self, ticket: Ticket, id: FileId, home: NodeId, body: &Body) {
        let Some(Job::Flush(job)) = self.client.jobs.get(&ticket) else {
            return;
        };
        let (synced, unsaved) = (job.until == Until::Synced, job.unsaved.contains(home));
        if let Some(file) = self.client.files.get_mut(&id) {
            let at_tier = synced && self.ctx.config.syncs_at_tier();
            // The bytes of a dead home are lost, which is told as such.
            let has_more = match body {
                Body::FlushOk(_) => at_tier,
                Body::Sealed => false,
                _ => !self.ctx.peers.is_down(home),
            };
            if unsaved {
                file.end_flush(home, has_more);
                if *body == Body::Sealed {
                    file.sealed.insert(home);
                }
            }
            if let (Body::FlushOk(stamp), false) = (body, at_tier) {
                file.stamp = file.stamp.max(known(*stamp));
            }
        }
        let Some(Job::Flush(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        job.left -= 1;
        if let Body::Failed(errno) = body {
            job.errno = Some(*errno);
        }
        if job.left == 0 {
            self.flushed(ticket, id);
        }
    }

    fn flushed(&mut self, ticket: Ticket, id: FileId) {
        let Some(Job::Flush(job)) = self.client.jobs.get(&ticket) else {
            return;
        };
        let (handle, failed, until) = (job.handle, job.errno, job.until);
        let file = self.client.files.get(&id);
        let (losses, loss) = file.map_or((0, errno::EIO), |file| (file.losses, file.loss));
        let opened = self.client.handles.get_mut(&handle);
        let lost = opened.is_some_and(|opened| {
            let news = opened.losses_told < losses;
            // A close may be that of a duplicate, as when a child becomes another program: nobody sees its error.
            if until == Until::Synced {
                opened.losses_told = losses;
            }
            news && (opened.write || until == Until::Synced)
        });
        if lost {
            self.client.unheard.end(id);
        }
        let reply = match failed {
            _ if lost => Reply::Failed(loss),
            Some(errno) => Reply::Failed(errno),
            None => Reply::Done,
        };
        match until {
            Until::Flushed => self.finish(ticket, reply),
            Until::Synced => self.end_sync(ticket, id, reply),
        }
    }

    pub(super) fn close(&mut self, handle: Handle) {
        let Some(opened) = self.client.handles.remove(&handle) else {
            return;
        };
        let id = opened.file;
        let Some(file) = self.client.files.get_mut(&id) else {
            return self.ctx.out.push(Effect::Release { handle });
        };
        file.handles -= 1;
        file.mapped &= file.handles > 0;
        file.writers -= u32::from(opened.write);
        if file.writers == 0 {
            self.give_back_file(id);
        }
        if !opened.write || !self.lingers(id, handle) {
            self.ctx.out.push(Effect::Release { handle });
        }
        if !self.close_behind_gathered(id, opened.write) {
            self.tell_closed(id, opened.write);
        }
    }

    /// Tells the manager of a close, now or later.
    pub(super) fn tell_closed(&mut self, id: FileId, write: bool) {
        if !self.client.is_closed_later(self.ctx.config, id, write) {
            self.say_closed(id, write);
        }
    }

    pub(super) fn say_closed(&mut self, id: FileId, write: bool) {
        let unknown = self.client.is_unknown(id);
        let Some(file) = self.client.files.get_mut(&id) else {
            return;
        };
        let cached = !self.ctx.config.is_uncached() && !file.bypass && !file.orphan && !unknown;
        if cached {
            let wrote = write && file.unreported;
            // Of what is on its way through another handle the close of that one tells, too.
            let rests = file.writes.is_empty();
            file.unreported &= !(wrote && rests);
            let stamp = file
                .stamp
                .filter(|_| wrote && rests && file.unflushed().is_empty());
            let mtime_ns = file.date.tell();
            let body = Body::Close {
                write,
                wrote,
                stamp,
                mtime_ns,
            };
            self.ask_manager(id, body, What::Whois);
            return;
        }
        if super::idle::is_idle(self.client, id) {
            self.revoke_quietly(id);
            self.client.files.remove(&id);
        } else if let Some(file) = self.client.files.get_mut(&id)
            && file.handles == 0
            && file.writes.is_empty()
        {
            // Questions and answers may be on their way, but the next open is one of another file of that number.
            file.bypass = false;
        }
    }
}

/// A stamp, unless the home had nothing of the file and so took none.
fn known(stamp: ids::Stamp) -> Option<Stamp> {
    Some(stamp).filter(|stamp| *stamp != Stamp::default())
}
