//! One page at its home.

use super::delegate::{Own, Sole};
use crate::frames::{Frames, Slot};
use crate::ids::{NodeId, Ver};
use crate::nodeset::NodeSet;
use crate::ranges::Ranges;
use crate::time::Time;

/// One page: what of it is known, what of it the store lacks, and who has copies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Page {
    /// Its frame, as long as that is valid.
    pub(crate) slot: Option<Slot>,
    /// Every byte is known: those below `extent` from the frame, the others are zero.
    pub(crate) filled: bool,
    /// End of the bytes that the frame holds; what lies above is zero once `filled`.
    pub(crate) extent: u32,
    /// Known bytes of a page that is not filled.
    pub(crate) valid: Ranges,
    /// Bytes that the store lacks and no store write carries.
    pub(crate) dirty: Ranges,
    /// Since when there are such bytes, and when they are due at the store (A8).
    pub(crate) since: Option<Time>,
    pub(crate) due: Option<Time>,
    /// They were to be sent, and were too much for the step.
    pub(crate) urgent: bool,
    /// Bytes that store writes in flight carry, and how many those are.
    pub(crate) writing: u64,
    pub(crate) writes: u32,
    /// One of those has failed.
    pub(crate) torn: bool,
    /// Bytes that the store took but has not synced.
    pub(crate) unsynced: Ranges,
    /// Bytes that a sync in flight covers.
    pub(crate) syncing: Ranges,
    /// Its bytes are on their way, from the store or, while it is sought, perhaps from a peer.
    pub(crate) filling: bool,
    pub(crate) sought: bool,
    /// A peer gave the bytes.
    pub(crate) lent: bool,
    /// An unfinished write will change it.
    pub(crate) reserved: bool,
    /// A daemon of the bank is being given its bytes.
    pub(crate) populating: bool,
    /// The read that gathers before all others has it.
    pub(crate) pinned: bool,
    /// The node that writes it by itself.
    pub(crate) own: Option<Own>,
    /// Nodes that read it before it was written.
    pub(crate) consumers: NodeSet,
    /// The one node that has used it of late.
    pub(crate) sole: Sole,
    /// Nodes that wrote some of the bytes that the store lacks.
    pub(crate) writers: NodeSet,
    /// Nodes that hold copies.
    pub(crate) readers: NodeSet,
    /// The last of them, where that is the one to ask once the page is evicted.
    pub(crate) lately: Option<NodeId>,
    /// Number of the last copy given of it.
    pub(crate) granted: u64,
    /// Version of the last write, and of the last that is in the store.
    pub(crate) ver: Ver,
    pub(crate) flushed: Ver,
}

impl Page {
    /// Drops the content if the frame was taken for another page.
    pub(crate) fn refresh(&mut self, frames: &Frames) {
        if self.slot.is_some_and(|slot| !frames.valid(slot)) {
            self.vacate();
        }
    }

    /// Forgets the content; who has copies stays known.
    pub(crate) fn vacate(&mut self) {
        self.slot = None;
        self.filled = false;
        self.extent = 0;
        self.valid = Ranges::default();
        self.unsynced = Ranges::default();
        self.syncing = Ranges::default();
    }

    /// These bytes are in its frame, which is valid.
    pub(crate) fn knows(&self, start: u32, end: u32) -> bool {
        let all = self.filled && end <= self.extent;
        self.slot.is_some() && (all || self.valid.covers(start, end))
    }

    /// Nothing is known and nobody cares.
    pub(crate) fn idle(&self) -> bool {
        self.slot.is_none() && self.readers.is_empty() && !self.busy()
    }

    /// Must not be evicted.
    pub(crate) fn busy(&self) -> bool {
        self.filling
            || self.reserved
            || self.populating
            || self.pinned
            || self.writes > 0
            || self.own.is_some()
            || !self.dirty.is_empty()
    }

    /// Puts the frame where it belongs: held while busy, else in the list.
    pub(crate) fn settle(&self, frames: &mut Frames) {
        if let Some(slot) = self.slot {
            if self.busy() {
                frames.hold(slot);
            } else {
                frames.release(slot);
            }
        }
    }

    /// Its delegate has been told that all of it is overwritten, and has not answered.
    pub(crate) fn is_voided(&self) -> bool {
        self.own.is_some_and(|own| own.is_voided())
    }

    /// Bytes that the store lacks.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        u64::from(self.dirty.bytes()) + self.writing
    }
}
