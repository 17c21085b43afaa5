//! A peer is gone: it holds nothing here and waits for nothing.

use super::{File, FlushAsk, Home, PeekAsk, ReadAsk, Waiting};
use crate::guard::Guard;
use crate::ids::NodeId;

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
        let has_replicas = self.ctx.config.has_replicas();
        if let Some(bar) = self.newest_bar().filter(|bar| bar.manager == peer) {
            // Whether the file was detached after all nobody knows: its life goes on.
            bar.floor = generation;
            // Before this home has answered, or if it could not let go, nothing can have been done in the store; and
            // bytes that keepers have are not given up for what was not done.
            let done = bar.answered && bar.result.is_ok() || !has_replicas;
            self.resume(done);
        }
    }
}
