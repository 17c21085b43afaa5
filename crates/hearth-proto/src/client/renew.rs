//! A new view: of all that this side knows, it keeps what sessions have.
//!
//! Those are open handles, and losses that they have not been told of. Before the view ended every byte went to the store,
//! so nothing else is needed. Files that are open *lapse* ([`super::lapse`]): ways in drop what they keep, and the
//! manager in the new view is told of all handles. Reads go to the store until then. It is also told of files without a name,
//! which go there for good: the last view may have ended before all members were.

use super::unheard::Unheard;
use super::{Client, Desk, File, Opened, Tell, What};
use crate::authority::Authority;
use crate::ctx::Ctx;
use crate::effect::Effect;
use crate::guard::Guard;
use crate::ids::{FileId, Handle, NodeId};
use crate::msg::{Body, Goal};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The state that outlives a view.
pub(crate) struct Carried {
    handles: BTreeMap<Handle, Opened>,
    files: BTreeMap<FileId, Box<File>>,
    /// Files of which ways in may keep bytes or attributes.
    kept: Vec<FileId>,
    unheard: Unheard,
}

impl File {
    /// The same file, of which nothing is known but what sessions have.
    fn carried(&self) -> File {
        File {
            semantics: self.semantics,
            private: self.private,
            handles: self.handles,
            writers: self.writers,
            size: self.size,
            bypass: self.bypass,
            lapsed: true,
            orphan: !self.bypass,
            kept: self.kept,
            mapped: self.mapped,
            losses: self.losses,
            loss: self.loss,
            ..File::default()
        }
    }
}

impl Client {
    /// Takes out what outlives the view, and lets go of all else.
    pub(crate) fn end(&mut self, ctx: &mut Ctx<'_>, authority: &mut Authority) -> Carried {
        let mut desk = self.desk(ctx, authority);
        let lingering: Vec<FileId> = desk.client.lingering.files().collect();
        for id in lingering {
            desk.lingers_no_more(id);
        }
        for &buf in self.lent.keys() {
            ctx.out.push(Effect::Free(buf));
        }
        let used = self.files.iter().filter(|(_, file)| file.handles > 0);
        let files = used.map(|(&id, file)| (id, Box::new(file.carried())));
        let files: BTreeMap<FileId, Box<File>> = files.collect();
        let of_bytes = self.files.iter().filter(|(_, file)| file.kept);
        let kept = of_bytes.map(|(&id, _)| id).chain(self.kept.keys().copied());
        let kept = kept.filter(|id| files.get(id).is_none_or(|file| file.bypass));
        Carried {
            kept: kept.collect(),
            handles: core::mem::take(&mut self.handles),
            unheard: core::mem::take(&mut self.unheard),
            files,
        }
    }

    /// The side of a new view.
    pub(crate) fn begin(&mut self, ctx: &mut Ctx<'_>, authority: &mut Authority, carried: Carried) {
        (self.handles, self.files) = (carried.handles, carried.files);
        self.unheard = carried.unheard;
        for opened in self.handles.values_mut() {
            opened.ahead = Default::default();
        }
        let (left, open): (Vec<FileId>, Vec<FileId>) =
            self.files.keys().partition(|&id| self.has_left(*id));
        let mut desk = self.desk(ctx, authority);
        for id in carried.kept {
            desk.revoke(id, Some((0, u32::MAX)), Tell::Nobody);
        }
        for id in open {
            // Another node may have written pages of which this one is the home now.
            desk.ctx.reopen(id);
            desk.begin_lapse(id);
        }
        for id in left {
            desk.tell_left(id);
        }
    }

    /// True until ways in keep nothing of the last view, and managers know of all handles.
    pub(crate) fn is_beginning(&self) -> bool {
        !self.revocations.is_empty() || self.is_lapsing() || !self.telling_left.is_empty()
    }

    /// Has this home sync to the store what it has brought there: the next one may reach it through another client.
    pub(crate) fn sync_here(&mut self, ctx: &mut Ctx<'_>, authority: &mut Authority) {
        let me = ctx.me();
        let ids: Vec<FileId> = authority.unsynced().collect();
        let mut desk = self.desk(ctx, authority);
        for id in ids {
            desk.sync_at(me, id);
        }
    }

    /// True until that is done.
    pub(crate) fn is_syncing(&self) -> bool {
        self.pending
            .values()
            .any(|pending| pending.what == What::Settled)
    }
}

impl Desk<'_, '_> {
    /// The manager hears that handles go to the store: others have to do so as well, who were not told before the view ended.
    fn tell_left(&mut self, id: FileId) {
        if !self.ctx.config.is_uncached() && self.ctx.config.keeps(Guard::LeftTogether) {
            self.client.telling_left.insert(id);
            self.ask_manager(id, Body::HasLeft, What::Reopen);
        }
    }

    fn sync_at(&mut self, home: NodeId, id: FileId) {
        let generation = self.authority.generation(id);
        let body = Body::Flush(Goal::Synced);
        self.ask_in(generation, home, id, body, What::Settled, Vec::new());
    }
}
