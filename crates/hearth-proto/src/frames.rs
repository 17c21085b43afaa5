//! Residency: which page sits in which frame, and who must go when a frame is needed.
//!
//! Clean pages stand in one list, least recently used first; a page that is dirty, being filled,
//! being flushed or part of an unfinished write is *held* and stands in no list. A holder names its
//! frame by a [`Slot`]; taking the frame for another page ends the slot, so no machine needs to be
//! asked before an eviction: its slot is simply void afterwards.
//!
//! Invariants:
//! - FRAME-1: a frame is free, or in the list, or held; never two of these.
//! - FRAME-2: `dirty_bytes` is the sum of what the authority reported and not more than the pool (I14).

use crate::ids::{FileId, FrameId};
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

/// The owner of the page in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// A copy that this node uses.
    Client(FileId, u64),
    /// A page that this node is home of.
    Authority(FileId, u64),
    /// Bytes that this node keeps for the page's home; always held.
    Replica(FileId, u64),
}

/// A frame for as long as nobody else took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    pub(crate) frame: FrameId,
    lease: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Free,
    Listed,
    Held,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    owner: Option<Owner>,
    lease: u32,
    place: Place,
    older: u32,
    newer: u32,
}

const NONE: u32 = u32::MAX;

/// All frames of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frames {
    entries: Vec<Entry>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    listed: u32,
    /// Owners whose page went; the node tells them at the end of the step.
    pub(crate) evicted: Vec<(Owner, Slot)>,
    /// Bytes that are dirty at the authority.
    pub(crate) dirty_bytes: u64,
    /// Evictions so far.
    pub(crate) evictions: u64,
}

/// Without what is only counted.
impl Hash for Frames {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.entries.hash(hasher);
        (&self.free, self.oldest, self.newest).hash(hasher);
        (self.listed, &self.evicted, self.dirty_bytes).hash(hasher);
    }
}

impl Frames {
    pub(crate) fn new(count: u32) -> Frames {
        let entry = Entry {
            owner: None,
            lease: 0,
            place: Place::Free,
            older: NONE,
            newer: NONE,
        };
        Frames {
            entries: alloc::vec![entry; count as usize],
            free: (0..count).rev().collect(),
            oldest: NONE,
            newest: NONE,
            listed: 0,
            evicted: Vec::new(),
            dirty_bytes: 0,
            evictions: 0,
        }
    }

    /// A held frame for `owner`: a free one, or that of the least recently used clean page.
    pub(crate) fn take(&mut self, owner: Owner) -> Option<Slot> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.evict()?,
        };
        let entry = &mut self.entries[index as usize];
        entry.owner = Some(owner);
        entry.place = Place::Held;
        Some(Slot {
            frame: FrameId(index),
            lease: entry.lease,
        })
    }

    /// True while the frame still holds what the slot was given for.
    pub(crate) fn valid(&self, slot: Slot) -> bool {
        self.entries[slot.frame.0 as usize].lease == slot.lease
    }

    /// The page is clean and idle: it may be evicted, after all pages used longer ago.
    pub(crate) fn release(&mut self, slot: Slot) {
        if !self.valid(slot) {
            return;
        }
        self.unlink(slot.frame.0);
        self.link_newest(slot.frame.0);
    }

    /// The page must stay.
    pub(crate) fn hold(&mut self, slot: Slot) {
        debug_assert!(
            self.valid(slot),
            "FRAME-1: only a resident page can be held"
        );
        self.unlink(slot.frame.0);
        self.entries[slot.frame.0 as usize].place = Place::Held;
    }

    /// The page was used.
    pub(crate) fn touch(&mut self, slot: Slot) {
        if self.valid(slot) && self.entries[slot.frame.0 as usize].place == Place::Listed {
            self.release(slot);
        }
    }

    /// The page is gone.
    pub(crate) fn give_back(&mut self, slot: Slot) {
        if !self.valid(slot) {
            return;
        }
        self.unlink(slot.frame.0);
        self.vacate(slot.frame.0);
        self.free.push(slot.frame.0);
    }

    /// The least recently used clean page goes, if there is one.
    pub(crate) fn shed(&mut self) {
        if let Some(index) = self.evict() {
            self.free.push(index);
        }
    }

    /// Frames that are not free.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = FrameId> + '_ {
        let used = |&(_, entry): &(usize, &Entry)| entry.place != Place::Free;
        let entries = self.entries.iter().enumerate().filter(used);
        entries.map(|(index, _)| FrameId(index as u32))
    }

    /// Pages that could be evicted.
    pub(crate) fn listed(&self) -> u32 {
        self.listed
    }

    /// Frames that could be taken now.
    pub(crate) fn spare(&self) -> u32 {
        self.free.len() as u32 + self.listed
    }

    /// Frames in which nothing is.
    pub(crate) fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// The owners of the pages that have been used longest ago, among so many.
    pub(crate) fn oldest(&self, most: usize) -> impl Iterator<Item = Owner> + '_ {
        let newer = |&at: &u32| Some(self.entries[at as usize].newer).filter(|&at| at != NONE);
        let oldest = Some(self.oldest).filter(|&at| at != NONE);
        let entries = core::iter::successors(oldest, newer).take(most);
        entries.filter_map(|at| self.entries[at as usize].owner)
    }

    /// Frames in use.
    pub(crate) fn used(&self) -> u32 {
        (self.entries.len() - self.free.len()) as u32
    }

    fn evict(&mut self) -> Option<u32> {
        let index = self.oldest;
        if index == NONE {
            return None;
        }
        let entry = &self.entries[index as usize];
        if let Some(owner) = entry.owner {
            self.evicted.push((
                owner,
                Slot {
                    frame: FrameId(index),
                    lease: entry.lease,
                },
            ));
        }
        self.unlink(index);
        self.vacate(index);
        self.evictions += 1;
        Some(index)
    }

    fn vacate(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        entry.owner = None;
        entry.place = Place::Free;
        entry.lease = entry.lease.wrapping_add(1);
    }

    fn link_newest(&mut self, index: u32) {
        let newest = self.newest;
        let entry = &mut self.entries[index as usize];
        entry.place = Place::Listed;
        self.listed += 1;
        entry.older = newest;
        entry.newer = NONE;
        match newest {
            NONE => self.oldest = index,
            other => self.entries[other as usize].newer = index,
        }
        self.newest = index;
    }

    fn unlink(&mut self, index: u32) {
        let Entry {
            place,
            older,
            newer,
            ..
        } = self.entries[index as usize];
        if place != Place::Listed {
            return;
        }
        self.listed -= 1;
        match older {
            NONE => self.oldest = newer,
            other => self.entries[other as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            other => self.entries[other as usize].older = older,
        }
    }

    pub(crate) fn assert_valid(&self) {
        let place = |p| self.entries.iter().filter(|e| e.place == p).count();
        let mut listed = 0;
        let mut at = self.oldest;
        while at != NONE {
            listed += 1;
            at = self.entries[at as usize].newer;
        }
        assert_eq!(
            listed,
            place(Place::Listed),
            "FRAME-1: the list holds what is listed"
        );
        assert_eq!(
            self.free.len(),
            place(Place::Free),
            "FRAME-1: the free frames are those marked free"
        );
        assert!(
            self.entries
                .iter()
                .all(|e| e.owner.is_some() == (e.place != Place::Free)),
            "FRAME-1"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(page: u64) -> Owner {
        Owner::Client(FileId(1), page)
    }

    #[test]
    fn the_least_recently_used_clean_page_goes_first() {
        let mut frames = Frames::new(3);
        let slots: Vec<Slot> = (0..3)
            .map(|p| frames.take(owner(p)).expect("a free frame"))
            .collect();
        slots.iter().for_each(|&s| frames.release(s));
        frames.touch(slots[0]);
        frames.take(owner(3)).expect("page 1 can go");
        assert!(!frames.valid(slots[1]) && frames.valid(slots[0]) && frames.valid(slots[2]));
        assert_eq!(frames.evicted.len(), 1);
        frames.assert_valid();
    }

    #[test]
    fn held_pages_are_never_evicted() {
        let mut frames = Frames::new(2);
        let a = frames.take(owner(0)).expect("a free frame");
        let b = frames.take(owner(1)).expect("a free frame");
        assert!(frames.take(owner(2)).is_none());
        frames.release(b);
        frames.take(owner(2)).expect("page 1 can go");
        assert!(frames.valid(a) && !frames.valid(b));
        frames.assert_valid();
    }

    #[test]
    fn a_void_slot_changes_nothing() {
        let mut frames = Frames::new(1);
        let a = frames.take(owner(0)).expect("a free frame");
        frames.give_back(a);
        let b = frames.take(owner(1)).expect("a free frame");
        frames.give_back(a);
        frames.release(a);
        assert!(frames.valid(b));
        frames.assert_valid();
    }
}
