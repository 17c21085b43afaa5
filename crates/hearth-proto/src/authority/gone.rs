//! A peer is gone: it holds nothing here and waits for nothing.

use super::{Authority, Bar, File, FlushAsk, Home, PeekAsk, ReadAsk, Waiting};
use crate::ctx::Ctx;
use crate::guard::Guard;
use crate::ids::{FileId, NodeId};
use crate::msg::Cut;
use alloc::vec::Vec;

impl Authority {
    /// Nobody will call back what this node holds of a file any more: all of it goes.
    pub(crate) fn sever(&mut self, ctx: &mut Ctx<'_>, id: FileId) {
        if !self.files.contains_key(&id) {
            return;
        }
        let mut home = self.home(ctx, id);
        let generation = home.file.generation;
        home.clear_out(Cut::Outside, generation);
        home.pump();
        self.tidy(ctx, id);
    }

    /// A peer is gone: it holds nothing and waits for nothing.
    pub(crate) fn peer_down(&mut self, ctx: &mut Ctx<'_>, peer: NodeId) {
        self.give_up_legacies(ctx);
        for hints in self.common.hints.values_mut() {
            hints.forget(peer);
        }
        if ctx.config.keeps(Guard::GoneLetGo) {
            self.common.locks.drop_holds_of(peer);
        }
        let ids: Vec<FileId> = self.files.keys().copied().collect();
        for id in ids {
            let mut home = self.home(ctx, id);
            home.drop_peer(peer);
            home.pump();
            self.tidy(ctx, id);
        }
    }
}

impl File {
    /// Takes a peer off the lists of those whose acknowledgement is awaited.
    pub(super) fn forget_ack(&mut self, peer: NodeId, seq: Option<u64>) {
        let other = |&(n, s): &(NodeId, u64)| n != peer || seq.is_some_and(|seq| seq != s);
        for write in &mut self.writes {
            write.awaiting.retain(other);
        }
        if let Some(bar) = &mut self.bar {
            bar.awaiting.retain(other);
        }
    }
}

impl Home<'_, '_> {
    /// Nothing is expected of the peer any more.
    pub(super) fn drop_peer(&mut self, peer: NodeId) {
        for page in self.file.pages.values_mut() {
            page.readers.remove(peer);
            page.consumers.remove(peer);
        }
        self.lose_delegate(peer);
        self.file.forget_ack(peer, None);
        self.lose_keeper(peer);
        self.file.orphaned.retain(|&(from, _)| from != peer);
        if self.ctx.config.keeps(Guard::GoneLetGo) {
            self.drop_staged_of(peer);
        }
        let waiting = core::mem::take(&mut self.file.waiting);
        for ask in waiting {
            match ask {
                Waiting::Read(ReadAsk { from, .. })
                | Waiting::Flush(FlushAsk { from, .. })
                | Waiting::Peek(PeekAsk { from, .. })
                    if from == peer => {}
                Waiting::Write(write) if write.from == peer => self.free(peer, Some(write.data)),
                Waiting::Hold(hold) if hold.read.from == peer => {}
                other => self.file.waiting.push_back(other),
            }
        }
        let generation = self.file.generation;
        let is_kept = self.ctx.config.has_replicas() || self.ctx.config.goes_on;
        // The word that it has given of the end of a cut stands.
        let its = |bar: &&mut Bar| bar.manager == peer && !bar.resumed;
        if let Some(bar) = self.newest_bar().filter(its) {
            // Whether the file was detached after all nobody knows: its life goes on.
            bar.floor = generation;
            // Before this home has answered, or if it could not let go, nothing can have been done in the store; and
            // bytes that keepers or the next view have are not given up for what was not done.
            let done = bar.answered && bar.result.is_ok() || !is_kept;
            self.resume(done);
        }
    }
}
