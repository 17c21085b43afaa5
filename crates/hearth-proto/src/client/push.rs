//! Pages that a home pushes: copies that nobody asked for.
//!
//! Invariants:
//! - PUSH-1 (I3): no pushed page is taken while this node writes it: its write may have told the home already
//!   that nothing of the page is left here.
//! - PUSH-2: a page is refused only if this node has no copy and has asked for none. A node that is recorded
//!   and has nothing loses nothing: whenever in doubt a push is dropped without a word.
//! - PUSH-3: a page whose last push nobody read is refused once, which ends the pushes.

use super::file::Copy;
use super::{Desk, Job};
use crate::effect::{Effect, Piece};
use crate::frames::Owner;
use crate::guard::Guard;
use crate::ids::{FileId, NodeId};
use crate::msg::{Body, Envelope};

impl Desk<'_, '_> {
    /// A home pushes a page.
    pub(super) fn pushed(&mut self, home: NodeId, order: &Envelope, data: Option<Piece>) {
        let Body::Push { page, number, len } = order.body else {
            return;
        };
        let id = order.file;
        let Some(file) = self.client.files.get_mut(&id) else {
            return self.refuse_push(home, order, page, number);
        };
        let known = file.copies.contains_key(&page) || file.wants.contains_key(&page);
        if known || self.client.owned.has(id, page) {
            return;
        }
        let unread = file.unread.remove(&page);
        let used = file.handles > 0 && !file.bypass && !file.orphan;
        let current = file.semantics.is_recorded() && file.generation.life == order.generation.life;
        let placed = super::home_of(self.ctx.config, id, file, page) == Some(home);
        let whole = data.map_or(0, |piece| piece.len) == len && len <= self.ctx.config.page_bytes;
        let wanted = used && current && placed && whole && !unread;
        if !wanted || self.is_written_here(id, page) {
            return self.refuse_push(home, order, page, number);
        }
        let Some(slot) = self.ctx.frames.take(Owner::Client(id, page)) else {
            return self.refuse_push(home, order, page, number);
        };
        if let Some(from) = data {
            let (frame, at) = (slot.frame, 0);
            self.ctx.out.push(Effect::Fill { frame, at, from });
        }
        self.ctx.frames.release(slot);
        let copy = Copy {
            slot,
            extent: len,
            home,
            unread: None,
            pushed: true,
        };
        if let Some(file) = self.client.files.get_mut(&id) {
            file.copies.insert(page, copy);
        }
    }

    fn refuse_push(&mut self, home: NodeId, order: &Envelope, page: u64, number: u64) {
        let (id, generation) = (order.file, order.generation);
        self.ctx
            .ask(home, id, generation, Body::PushNo { page, number });
    }

    /// True if a write of this node's is about the page (PUSH-1).
    fn is_written_here(&self, id: FileId, page: u64) -> bool {
        if !self.ctx.config.keeps(Guard::PushNotUnderWrite) {
            return false;
        }
        let file = self.client.files.get(&id);
        let mut writes = file.into_iter().flat_map(|file| file.writes.iter());
        writes.any(|ticket| match self.client.jobs.get(ticket) {
            Some(Job::Write(job)) => job.may_touch(self.ctx.config, page),
            Some(_) | None => false,
        })
    }

    /// A read has used these pages.
    pub(super) fn note_read(&mut self, id: FileId, first: u64, count: u32) {
        if let Some(file) = self.client.files.get_mut(&id) {
            let pages = first..first + u64::from(count);
            for (_, copy) in file.copies.range_mut(pages) {
                copy.pushed = false;
            }
        }
    }
}
