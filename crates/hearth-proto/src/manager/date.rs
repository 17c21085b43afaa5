//! When a file was last written: whoever wants to know has those asked who write it.
//!
//! 1. A question for the time is answered when every other node has told that has the file open for writing. They answer
//!    at once: nobody waits here for somebody who waits.
//! 2. Questions that come meanwhile are put to the writers once more, as a write may have been acknowledged since. So
//!    many questions at a time cost two rounds.
//! 3. A node tells what it has not told before with its close, and when it lets go of what it keeps: before somebody
//!    sets the time, and before a cut.
//!
//! - MANAGER-9: the time that is told is that of the last write acknowledged before the question, or later, or one that
//!   was set since; the store's, once the store has the bytes and nobody writes.

use super::{Ask, Seat};
use crate::ids::NodeId;
use crate::msg::{Body, Handles};
use alloc::vec::Vec;

/// Questions for the time of the last write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Dating {
    /// Writers that have yet to tell.
    awaiting: Vec<(NodeId, u64)>,
    /// The questions that are answered then.
    asks: Vec<Ask>,
    /// The questions that have come since.
    next: Vec<Ask>,
}

impl Dating {
    pub(super) fn is_idle(&self) -> bool {
        self.awaiting.is_empty()
    }

    /// Nodes that ask, and those that have not told.
    pub(super) fn waits(&self) -> impl Iterator<Item = (NodeId, NodeId)> + '_ {
        let each = self.asks.iter().chain(&self.next);
        each.flat_map(|ask| self.awaiting.iter().map(|&(on, _)| (ask.from, on)))
    }

    pub(super) fn drop_peer(&mut self, peer: NodeId) {
        self.asks.retain(|ask| ask.from != peer);
        self.next.retain(|ask| ask.from != peer);
    }
}

impl Seat<'_, '_> {
    /// A question for size and, perhaps, time.
    pub(super) fn asked_size(&mut self, ask: Ask) {
        let dated = match ask.body {
            Body::Size { dated, mtime_ns } => {
                self.learn_date(mtime_ns);
                dated
            }
            _ => false,
        };
        match dated && self.is_written_beside(&[ask.from]) {
            false => self.tell_size(&ask),
            true if self.file.dating.is_idle() => self.ask_dates(alloc::vec![ask]),
            true => self.file.dating.next.push(ask),
        }
    }

    /// Somebody else may have written the file, and not told.
    fn is_written_beside(&self, askers: &[NodeId]) -> bool {
        let told = self.file.semantics.is_recorded();
        told && self.ctx.config.dates_writes() && !self.writers_beside(askers).is_empty()
    }

    /// Nodes that write the file; of one that asks alone the others.
    fn writers_beside(&self, askers: &[NodeId]) -> Vec<NodeId> {
        let writes = |(&node, opens): (&NodeId, &Handles)| {
            (opens.writers > 0 && askers != [node]).then_some(node)
        };
        self.file.openers.iter().filter_map(writes).collect()
    }

    fn ask_dates(&mut self, asks: Vec<Ask>) {
        let askers: Vec<NodeId> = asks.iter().map(|ask| ask.from).collect();
        let writers = self.writers_beside(&askers);
        self.file.dating.asks = asks;
        self.file.dating.awaiting = self.order(writers, &Body::Date);
        self.go_on_dating();
    }

    /// A writer has told.
    pub(super) fn told_date(&mut self, from: NodeId, seq: u64, mtime_ns: Option<i64>) {
        self.learn_date(mtime_ns);
        let awaiting = &mut self.file.dating.awaiting;
        let before = awaiting.len();
        awaiting.retain(|&one| one != (from, seq));
        if awaiting.len() < before {
            self.go_on_dating();
        }
    }

    /// Somebody wrote then. A write that was under way when another had ended counts as no older.
    pub(super) fn learn_date(&mut self, mtime_ns: Option<i64>) {
        if let (Some(at), true) = (mtime_ns, self.ctx.config.dates_writes()) {
            let at = at.max(self.file.dated_ns);
            self.file.mtime_ns = self.file.mtime_ns.max(Some(at));
        }
    }

    /// The store has the time of what was written up to now, or somebody has set it.
    pub(super) fn forget_date(&mut self) {
        if let Some(before) = self.file.mtime_ns.take() {
            self.file.dated_ns = self.file.dated_ns.max(before);
        }
    }

    fn go_on_dating(&mut self) {
        if !self.file.dating.awaiting.is_empty() {
            return;
        }
        for ask in core::mem::take(&mut self.file.dating.asks) {
            self.tell_size(&ask);
        }
        let next = core::mem::take(&mut self.file.dating.next);
        if !next.is_empty() {
            self.ask_dates(next);
        }
    }
}
