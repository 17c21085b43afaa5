//! Pages that move to this node when it overwrites what it has read, and come from nodes that did.
//!
//! If one node alone has a page, another is lent its bytes for one use. If all of such a page is written
//! next, this node claims it instead of sending the bytes to the home, and is its delegate from then on
//! (`delegate`). A read that a home sends on asks the page's delegate; one that has gone there in vain too
//! often asks the home to have the page back (MOVE-4: no read is sent on for ever).

use super::file::Want;
use super::write::{Part, WriteJob};
use super::{Client, Desk, Job, What};
use crate::config::Ranges;
use crate::effect::{Piece, Src};
use crate::ids::{FileId, NodeId, Ticket, Ver};
use crate::input::WriteAt;
use crate::msg::{Body, Envelope, Moved, Origin, Use};
use alloc::vec::Vec;

/// Times that a read looks for its pages before it asks their homes to have them back.
const SENT_ON_MAX: u32 = 4;

/// Pages of a file that are remembered as read for one use; those in front go when there are more.
const READ_ONCE_MAX: usize = 64;

impl Client {
    /// True if pages are on their way to this node, which overwrites them.
    pub(crate) fn is_claiming(&self) -> bool {
        self.jobs.values().any(|job| match job {
            Job::Write(job) => job.left > 0 && job.parts.iter().any(|part| part.claims),
            _ => false,
        })
    }
}

impl Desk<'_, '_> {
    /// A page was lent for one use.
    pub(super) fn note_read_once(&mut self, id: FileId, page: u64) {
        if !self.ctx.config.moves() {
            return;
        }
        if let Some(file) = self.client.files.get_mut(&id) {
            file.read_once.insert(page);
            if file.read_once.len() > READ_ONCE_MAX {
                file.read_once.pop_first();
            }
        }
    }

    /// True if a part of a write, which is of one page, need not go to the page's home, as pages move.
    pub(super) fn claims(&self, job: &WriteJob, part: &Part) -> bool {
        let config = self.ctx.config;
        let (id, page) = (job.file, config.page_of(part.offset));
        let whole = part.len == config.page_bytes;
        let plain = job.at != WriteAt::End && job.scattered.is_none() && !job.aside;
        if !whole || !plain || part.home == self.ctx.me() {
            return false;
        }
        let Some(file) = self.client.files.get(&id) else {
            return false;
        };
        let apart = self.ranges_rule(id) == Ranges::Apart && file.semantics.is_recorded();
        let within = part.offset + u64::from(part.len) <= file.size;
        let mine = self.client.owned.has(id, page);
        let read = file.read_once.contains(&page) && self.may_own_dirty(part.len);
        apart && within && (mine || read)
    }

    /// Deals with a part that claims its page, if it is this node's already or can be claimed. False if its bytes have to
    /// be sent.
    pub(super) fn send_claim(&mut self, ticket: Ticket, number: u32) -> bool {
        let Some(Job::Write(job)) = self.client.jobs.get(&ticket) else {
            return false;
        };
        let (id, buf, part) = (job.file, job.buf, job.parts[number as usize]);
        if !part.claims || self.is_bypassed(id) || self.is_laminated(id) {
            return false;
        }
        let page = self.ctx.config.page_of(part.offset);
        if let Some(home) = self.writes_by_itself(id, page, part.len) {
            let from = Piece {
                src: Src::Buf(buf),
                at: part.at,
                len: part.len,
            };
            self.put_own_write((id, page), 0, from, home);
            self.part_written(ticket, part);
            return true;
        }
        if self.client.owned.has(id, page) || !self.may_own_dirty(part.len) {
            self.claim_no_more(ticket, number);
            return false;
        }
        self.client.windows.entry(part.home).or_default().used += u64::from(part.len);
        let dropped = self.drop_own_copies(id, part.offset, part.len);
        if let Some(file) = self.client.files.get_mut(&id) {
            file.unreported = true;
            file.read_once.remove(&page);
        }
        let body = Body::Claim { page, dropped };
        let what = What::Part(ticket, number);
        self.ask(part.home, id, body, what, Vec::new());
        true
    }

    /// The bytes of a part have to go to its home after all.
    pub(super) fn claim_no_more(&mut self, ticket: Ticket, number: u32) {
        if let Some(Job::Write(job)) = self.client.jobs.get_mut(&ticket) {
            job.parts[number as usize].claims = false;
        }
    }

    /// True if a read has been sent on so often that its pages are to come back to their homes.
    pub(super) fn is_sent_on_enough(&self, readers: &[Ticket]) -> bool {
        readers
            .iter()
            .any(|ticket| match self.client.jobs.get(ticket) {
                Some(Job::Read(job)) => job.vain >= SENT_ON_MAX,
                Some(_) | None => false,
            })
    }

    /// A home says who has some of the pages that it was asked for: these are asked.
    pub(super) fn sent_on(&mut self, id: FileId, wanted: &[(u64, Want)], moved: &[Moved]) {
        for &Moved { page, node } in moved {
            let want = wanted.iter().find(|(number, _)| *number == page);
            let Some((_, want)) =
                want.filter(|(_, want)| node != self.ctx.me() && !want.asked_by.is_empty())
            else {
                continue;
            };
            let readers = want.asked_by.clone();
            let (skip, spare) = self.unwanted(node, &readers, (page, 1));
            let body = Body::Fetch { page, skip, spare };
            let seq = self.ask(node, id, body, What::Pages, Vec::new());
            self.want(id, page, seq, (readers, false));
            if let Some(file) = self.client.files.get_mut(&id)
                && let Some(want) = file.wants.get_mut(&page)
            {
                want.to -= spare;
            }
        }
    }

    /// Another node reads a page that this one may write by itself.
    pub(super) fn fetched(&mut self, from: NodeId, ask: &Envelope, (skip, spare): (u32, u32)) {
        let Body::Fetch { page, .. } = ask.body else {
            return;
        };
        let (id, generation, req) = (ask.file, ask.generation, ask.req);
        let known = self.client.files.get(&id).map(|file| file.generation.life);
        let whole = self.ctx.config.page_start(page + 1);
        let start = self.ctx.config.page_start(page);
        let bytes = self.own_bytes(id, page, start, whole);
        let Some((src, extent)) = bytes.filter(|_| known == Some(generation.life)) else {
            let body = Body::none_of(page);
            return self.ctx.answer(from, id, generation, req, body);
        };
        let end = extent.min(self.ctx.config.page_bytes.saturating_sub(spare));
        let len = end.saturating_sub(skip);
        let body = Body::Grant {
            first: page,
            skip,
            lens: alloc::vec![len],
            ver: Ver::default(),
            good: Use::Once,
            origin: Origin::Peer,
        };
        let piece = (len > 0).then_some(Piece { src, at: skip, len });
        let data = piece.into_iter().collect();
        self.ctx.answer_with(from, id, generation, req, body, data);
    }
}
