//! Opening.

use super::ahead::Ahead;
use super::date::Date;
use super::{Desk, Job, Opened, What};
use crate::config::Copies;
use crate::effect::Reply;
use crate::errno;
use crate::ids::{FileId, Gen, Handle, NodeId, Ticket};
use crate::input::{OpenRequest, Request};
use crate::msg::{Body, Envelope, HomeMap};

/// Homes of chunks that a client remembers of a file, though it could work them out: among thousands of
/// nodes that takes microseconds.
const CHUNK_HOMES_MAX: usize = 4096;

impl Desk<'_, '_> {
    pub(super) fn open(&mut self, ticket: Ticket, open: OpenRequest) {
        let OpenRequest {
            file: id,
            write,
            stamp,
            private,
            semantics,
            view: _,
        } = open;
        let file = self.client.files.entry(id).or_default();
        file.private |= private;
        if self.ctx.config.is_uncached() || file.bypass {
            file.bypass = true;
            return self.opened(ticket, open, stamp.size, true);
        }
        if file.orphan {
            return self.open_without_manager(ticket, open);
        }
        if write {
            self.give_up_leave(id);
        }
        self.client.jobs.insert(ticket, Job::Open(open));
        self.ask_manager(
            id,
            Body::Open {
                write,
                stamp,
                private,
                semantics,
                all: None,
            },
            What::Job(ticket),
        );
    }

    pub(super) fn open_answered(&mut self, ticket: Ticket, open: OpenRequest, answer: &Envelope) {
        if let Body::Failed(errno::EPERM) = answer.body {
            return self.finish(ticket, Reply::Failed(errno::EPERM));
        }
        if !matches!(answer.body, Body::OpenOk { .. }) {
            self.note_refusal(open.file, answer);
            return self.open_without_manager(ticket, open);
        }
        self.client.jobs.remove(&ticket);
        if self.is_bypassed(open.file) {
            return self.open_after_detach(ticket, open, answer);
        }
        let Some((size, shared)) = self.learn_opened(open.file, answer) else {
            return;
        };
        let file = self.client.files.entry(open.file).or_default();
        let renewed = core::mem::take(&mut file.renewed);
        // The operating system would be one more place that keeps the page.
        let direct = shared || self.ctx.config.rules().copies == Copies::One;
        // Without records the answer to another open, which has the operating system drop what it keeps,
        // may still be on its way there.
        let kept_valid = !renewed && file.semantics.is_recorded();
        let left = matches!(answer.body, Body::OpenOk { left: true, .. });
        self.opened_as(ticket, open, size, (direct, kept_valid), left);
    }

    /// Learns what a manager says of a file that it has let be opened: its size, and whether others write it. `None` if
    /// it says something else.
    pub(super) fn learn_opened(&mut self, id: FileId, answer: &Envelope) -> Option<(u64, bool)> {
        let Body::OpenOk {
            size,
            shared,
            homes,
            ref holders,
            semantics,
            version,
            left: _,
            dated,
        } = answer.body
        else {
            return None;
        };
        self.learn(id, answer.generation);
        if homes == HomeMap::Own {
            self.authority.meet(self.ctx, id, holders);
        }
        self.promise(id, (semantics, version));
        let file = self.client.files.entry(id).or_default();
        file.size = size;
        file.date.opened(file.writers > 0, dated);
        (file.exact, file.lapsed) = (!shared, false);
        file.gathering.no_cut_comes();
        file.homes = homes;
        if !matches!(homes, HomeMap::Ask | HomeMap::Keepers) {
            file.chunk_homes.clear();
        }
        Some((size, shared))
    }

    /// The last name is gone, or stays.
    pub(super) fn detached(&mut self, id: FileId, gone: bool) {
        if gone {
            self.client.unheard.end(id);
        }
        if let Some(manager) = self.client.unlinking.remove(&id) {
            let body = Body::Detached(gone);
            self.ask(manager, id, body, What::Whois, alloc::vec![]);
        }
    }

    /// The file was detached while it was being opened: the manager takes the open for one of the next
    /// file of that number, which it is not.
    fn open_after_detach(&mut self, ticket: Ticket, open: OpenRequest, answer: &Envelope) {
        self.learn(open.file, answer.generation);
        let body = Body::Close {
            write: open.write,
            wrote: false,
            stamp: None,
            mtime_ns: None,
        };
        self.ask_manager(open.file, body, What::Whois);
        self.opened(ticket, open, open.stamp.size, true);
    }

    /// Learns a generation. A new life is one of a file with the number of one that is gone: what is
    /// left of that goes, here at once, in the ways in at the next open.
    pub(super) fn learn(&mut self, id: FileId, generation: Gen) {
        let file = self.client.files.get(&id);
        if file.is_some_and(|file| generation.life > file.generation.life) {
            self.lose_own(id, None);
            self.authority.outlived(self.ctx, id, generation);
        }
        let Some(file) = self.client.files.get_mut(&id) else {
            return;
        };
        let known = file.generation;
        if generation.life > known.life {
            file.unread.clear();
        }
        file.generation = known.max(generation);
        if generation.life == known.life
            && generation.cut > known.cut
            && !file.semantics.is_recorded()
        {
            self.drop_unrecorded(id);
        }
        if generation.life <= known.life {
            return;
        }
        let Some(file) = self.client.files.get_mut(&id) else {
            return;
        };
        for copy in core::mem::take(&mut file.copies).values() {
            self.ctx.frames.give_back(copy.slot);
        }
        file.renewed |= known.life != 0;
        file.chunk_homes.clear();
        file.stamp = None;
        file.date = Date::default();
        file.unreported = false;
        self.drop_gathered(id, None);
    }

    /// The manager is gone: a reader is served from the store, a writer is refused.
    pub(super) fn open_without_manager(&mut self, ticket: Ticket, open: OpenRequest) {
        self.client.jobs.remove(&ticket);
        let orphan = self.client.files.get(&open.file).is_some_and(|f| f.orphan);
        // While the file lapses it waits, as what the manager is told then stands for all handles (C7).
        if self.client.has_lapsed(open.file) || !orphan && self.may_ask_again(open.file) {
            return self.request(ticket, Request::Open(open));
        }
        let file = self.client.files.entry(open.file).or_default();
        file.orphan = true;
        // Without a handle the homes and the size that are known may be those of an earlier file of the number.
        file.lapsed |= file.handles == 0;
        if open.write {
            return self.reply(ticket, Reply::Failed(errno::EHOSTDOWN));
        }
        self.opened(ticket, open, open.stamp.size, true);
    }

    fn opened(&mut self, ticket: Ticket, open: OpenRequest, size: u64, direct: bool) {
        self.opened_as(ticket, open, size, (direct, false), false);
    }

    fn opened_as(
        &mut self,
        ticket: Ticket,
        open: OpenRequest,
        size: u64,
        (direct, kept_valid): (bool, bool),
        left: bool,
    ) {
        let handle = Handle(ticket.0);
        let losses_told = self.client.losses_heard(open.file);
        let file = self.client.files.entry(open.file).or_default();
        file.handles += 1;
        file.writers += u32::from(open.write);
        let opened = Opened {
            file: open.file,
            write: open.write,
            wrote: false,
            losses_told,
            ahead: Ahead::default(),
        };
        self.client.handles.insert(handle, opened);
        self.reply(
            ticket,
            Reply::Opened {
                handle,
                direct,
                kept_valid,
                size,
                left,
            },
        );
    }

    /// The home of a page; if only the manager knows, asks it. `alone` says that no other page is wanted with it.
    pub(super) fn home_or_ask(&mut self, id: FileId, page: u64, alone: bool) -> Option<NodeId> {
        let file = self.client.files.get_mut(&id)?;
        if let Some(home) = super::home_of(self.ctx.config, id, file, page) {
            if file.homes == HomeMap::Slot && file.chunk_homes.len() < CHUNK_HOMES_MAX {
                file.chunk_homes
                    .insert(self.ctx.config.chunk_of(page), home);
            }
            return Some(home);
        }
        let by_page = file.homes == HomeMap::Keepers;
        let chunk = match by_page {
            true => page,
            false => self.ctx.config.chunk_of(page),
        };
        if file.chunks_asked.contains(&chunk) {
            return None;
        }
        let asked = u32::try_from(file.chunks_asked.len()).unwrap_or(u32::MAX);
        file.chunks_asked.push(chunk);
        // A node that asks for one page will use it; of a run its others may be used elsewhere as much.
        let has = match alone {
            true => 0,
            false => self.authority.pages_of(id).saturating_add(asked),
        };
        let (body, what) = (Body::HomeOf { chunk, has }, What::HomeOf(chunk));
        if by_page {
            let keeper = self.ctx.config.member_at(page);
            self.ask(keeper, id, body, what, alloc::vec![]);
        } else {
            self.ask_manager(id, body, what);
        }
        None
    }

    /// The keeper of a page is gone, and with it the knowledge of who holds the page: what only reads
    /// is done on the store, all else fails.
    fn without_keeper(&mut self, id: FileId, page: u64) {
        for ticket in self.readers_of(id, page, 1) {
            self.direct(ticket);
        }
        self.fail_locating(id, page);
    }

    pub(super) fn home_known(&mut self, id: FileId, chunk: u64, body: &Body) {
        let Some(file) = self.client.files.get_mut(&id) else {
            return;
        };
        file.chunks_asked.retain(|&asked| asked != chunk);
        if let Body::HomeIs { home, .. } = body {
            file.chunk_homes.insert(chunk, *home);
        } else if file.homes == HomeMap::Keepers {
            return self.without_keeper(id, chunk);
        } else {
            file.orphan = true;
        }
        for ticket in file.reads.clone() {
            self.go_on_reading(ticket);
        }
        let writes = self
            .client
            .files
            .get(&id)
            .map(|f| f.writes.clone())
            .unwrap_or_default();
        for ticket in writes {
            self.go_on_writing(ticket);
        }
    }
}
