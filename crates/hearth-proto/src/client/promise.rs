//! Copies that no home has recorded: good until this node looks whether the file is another.

use super::{Client, Desk};
use crate::effect::Reply;
use crate::errno;
use crate::guard::Guard;
use crate::ids::{FileId, Handle, Ticket};
use crate::semantics::Semantics;

impl Client {
    /// Open files of which something else is promised than `Posix`.
    pub(crate) fn promises(&self) -> impl Iterator<Item = (FileId, Semantics)> + '_ {
        let open = self.files.iter().filter(|(_, file)| file.handles > 0);
        let promised = open.map(|(&id, file)| (id, file.semantics));
        promised.filter(|&(_, semantics)| semantics != Semantics::Posix)
    }
}

impl Desk<'_, '_> {
    /// Learns at an open what is promised, and which version of the file is the present one (V1).
    pub(super) fn promise(&mut self, id: FileId, promised: (Semantics, u64)) {
        let Some(file) = self.client.files.get_mut(&id) else {
            return;
        };
        let known = (file.semantics, file.version);
        let stale = !file.semantics.is_recorded() && known != promised;
        (file.semantics, file.version) = promised;
        if stale && self.ctx.config.keeps(Guard::OldVersionDropped) {
            self.drop_unrecorded(id);
        }
    }

    /// Drops every copy of a file here, and what ways in keep; what is on its way serves only the reads
    /// that wait for it.
    pub(super) fn drop_unrecorded(&mut self, id: FileId) {
        self.drop_copies(id);
        self.revoke_quietly(id);
    }

    /// Drops every copy of a file here; what is on its way serves only the reads that wait for it.
    pub(super) fn drop_copies(&mut self, id: FileId) {
        let Some(file) = self.client.files.get_mut(&id) else {
            return;
        };
        for copy in core::mem::take(&mut file.copies).values() {
            self.ctx.frames.give_back(copy.slot);
        }
        if self.ctx.config.keeps(Guard::LateGrantOnce) {
            let me = self.ctx.me();
            for want in file.wants.values_mut() {
                // A page of which this node is home is read in place, as it is then.
                let asked = self.client.pending.get(&want.seq);
                if asked.is_some_and(|pending| pending.to != me) {
                    want.floor = u64::MAX;
                }
            }
        }
    }

    /// The bytes that this node had gathered are at the homes: later reads see what others have brought
    /// there.
    pub(super) fn exchange(&mut self, ticket: Ticket, handle: Handle) {
        let opened = self.client.handles.get(&handle);
        let Some(id) = opened.map(|opened| opened.file) else {
            return self.reply(ticket, Reply::Failed(errno::EBADF));
        };
        if !self.client.gathers(handle) {
            return self.reply(ticket, Reply::Done);
        }
        self.drop_unrecorded(id);
        self.revoke_before(id, ticket);
    }

    /// A sync is over: under `mpi` later reads see what others have synced.
    pub(super) fn end_sync(&mut self, ticket: Ticket, id: FileId, reply: Reply) {
        let file = self.client.files.get(&id);
        let looks = file.is_some_and(|file| file.semantics == Semantics::Mpi && !file.bypass);
        if !looks || reply != Reply::Done {
            return self.finish(ticket, reply);
        }
        self.drop_unrecorded(id);
        self.revoke_before(id, ticket);
    }

    /// True if the file is laminated.
    pub(super) fn is_laminated(&self, id: FileId) -> bool {
        let file = self.client.files.get(&id);
        file.is_some_and(|file| file.semantics == Semantics::Laminated)
    }
}
