//! Handles whose descriptors outlive their close.
//!
//! A close may leave dirty bytes at a home elsewhere (`--close buffered`, or a flush that the store refused). That home
//! finds the file by a name, which may be wrong by the time it writes: the file was renamed, or its last name is gone.
//! The descriptor of who wrote is always right. So it stays open until all homes have said that the store has the bytes:
//!
//! 1. A close with bytes elsewhere keeps the descriptor, one for each file. The manager hears of the close as ever.
//! 2. After the flush age, when homes bring the bytes to the store by themselves, they are asked to, and again until
//!    they have.
//!
//! Invariant C8: while a home elsewhere has bytes of this node that the store lacks, this node has the file open, or may
//! be told so.

use super::{Client, Desk};
use crate::authority::Authority;
use crate::ctx::Ctx;
use crate::effect::Effect;
use crate::ids::{FileId, Handle};
use crate::time::Time;
use alloc::collections::{BTreeMap, BTreeSet};

/// Descriptors that stay at most before the oldest is hurried.
const LINGERING_MAX: usize = 1024;

/// Descriptors that stay, and when homes are asked to need them no more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Lingering {
    files: BTreeMap<FileId, (Handle, Time)>,
    due: BTreeSet<(Time, FileId)>,
}

impl Lingering {
    /// Files of which one stays.
    pub(super) fn files(&self) -> impl Iterator<Item = FileId> + '_ {
        self.files.keys().copied()
    }

    pub(super) fn has(&self, id: FileId) -> bool {
        self.files.contains_key(&id)
    }

    /// Notes a descriptor; hands back an older one of the file.
    fn put(&mut self, id: FileId, handle: Handle, due: Time) -> Option<Handle> {
        let older = self.take(id);
        self.files.insert(id, (handle, due));
        self.due.insert((due, id));
        older
    }

    fn take(&mut self, id: FileId) -> Option<Handle> {
        let (handle, due) = self.files.remove(&id)?;
        self.due.remove(&(due, id));
        Some(handle)
    }

    /// The file that is due first, if homes are to be asked by then.
    fn next(&self, by: Time) -> Option<FileId> {
        let &(due, id) = self.due.first()?;
        (due <= by).then_some(id)
    }
}

impl Client {
    /// When homes are asked next.
    pub(crate) fn linger_due(&self) -> Option<Time> {
        self.lingering.due.first().map(|&(due, _)| due)
    }

    /// Asks homes for which descriptors have been kept for long enough.
    pub(super) fn end_lingering(&mut self, ctx: &mut Ctx<'_>, authority: &mut Authority) {
        while let Some(id) = self.lingering.next(ctx.now) {
            self.desk(ctx, authority).hurry(id);
        }
    }
}

impl Desk<'_, '_> {
    /// A handle was closed. True if its descriptor stays.
    pub(super) fn lingers(&mut self, id: FileId, handle: Handle) -> bool {
        if self.has_all_in_store(id) {
            return false;
        }
        let due = self.ctx.now + self.ctx.config.flush_age;
        let older = self.client.lingering.put(id, handle, due);
        self.release(older);
        // A file whose home was asked is due later again, so each new one hurries one that was not.
        let oldest = self.client.lingering.next(due);
        if let Some(oldest) = oldest.filter(|_| self.client.lingering.files.len() > LINGERING_MAX) {
            self.hurry(oldest);
        }
        true
    }

    /// True if no home elsewhere has bytes of this node that the store lacks, or the file is gone.
    fn has_all_in_store(&self, id: FileId) -> bool {
        let file = self.client.files.get(&id);
        file.is_none_or(|file| file.bypass || file.orphan || file.is_settled(self.ctx.me()))
    }

    /// Has homes bring to the store what this node wrote, or lets go of the descriptor.
    fn hurry(&mut self, id: FileId) {
        if self.stops_lingering(id) {
            return;
        }
        if let Some(handle) = self.client.lingering.take(id) {
            let due = self.ctx.now + self.ctx.config.flush_age;
            self.client.lingering.put(id, handle, due);
        }
        // First what this node alone has: a home that is asked before counts as one that has all.
        self.return_file(id);
        self.scatter_file(id);
        let file = self.client.files.get(&id);
        if file.is_some_and(|file| file.gathering.is_idle()) {
            self.settle_homes(id);
        }
    }

    /// Lets go of the descriptor if no home needs it.
    pub(super) fn stops_lingering(&mut self, id: FileId) -> bool {
        let over = self.client.lingering.has(id) && self.has_all_in_store(id);
        if over {
            self.lingers_no_more(id);
        }
        over
    }

    /// Lets go of the descriptor: whether a home needs it does not count.
    pub(super) fn lingers_no_more(&mut self, id: FileId) {
        let handle = self.client.lingering.take(id);
        self.release(handle);
    }

    fn release(&mut self, handle: Option<Handle>) {
        let release = handle.map(|handle| Effect::Release { handle });
        self.ctx.out.extend(release);
    }
}
