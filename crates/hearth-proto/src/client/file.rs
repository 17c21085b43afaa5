//! The client's knowledge of one file.

use super::read::Found;
use crate::client::What;
use crate::client::date::Date;
use crate::client::gather::Gathering;
use crate::config::Config;
use crate::frames::Slot;
use crate::ids::{FileId, Gen, NodeId, Stamp, Ticket};
use crate::msg::{Body, HomeMap};
use crate::nodeset::NodeSet;
use crate::placement;
use crate::semantics::Semantics;
use crate::time::Time;
use crate::{RawErrno, errno};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// A page that this node may read until it is told otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Copy {
    pub(super) slot: Slot,
    /// Bytes in the frame; the rest of the page is zero.
    pub(super) extent: u32,
    pub(super) home: NodeId,
    /// It came ahead of any read, from there.
    pub(super) unread: Option<Found>,
    /// It was pushed, and nobody has read it.
    pub(super) pushed: bool,
}

/// A page that has been asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Want {
    /// Number of the request.
    pub(super) seq: u64,
    /// Reads that waited when it was sent: the only ones that a grant for one use may serve.
    pub(super) asked_by: Vec<Ticket>,
    /// A way in will keep the bytes.
    pub(super) keep: bool,
    /// End of the bytes that were asked for; below the page's only where it is for one use.
    pub(super) to: u32,
    /// A grant counted below this was overtaken by an invalidation.
    pub(super) floor: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct File {
    pub(super) manager: Option<NodeId>,
    /// Requests for the manager while it is not known who that is.
    pub(super) parked: Vec<(Body, What)>,
    pub(super) generation: Gen,
    /// The semantics that are promised, and the version of the file that this node was told last.
    pub(super) semantics: Semantics,
    pub(super) version: u64,
    /// Ways in may keep bytes of an earlier file of this number.
    pub(super) renewed: bool,
    /// Other nodes could not open it the same way.
    pub(super) private: bool,
    /// Open handles.
    pub(super) handles: u32,
    /// Those of them that write.
    pub(super) writers: u32,
    /// The file is at least so long, and exactly so long while `exact`.
    pub(super) size: u64,
    /// No other node writes: the manager will say when that ends.
    pub(super) exact: bool,
    /// When it was last written.
    pub(super) date: Date,
    pub(super) homes: HomeMap,
    /// By chunk, or by page where that has a home of its own.
    pub(super) chunk_homes: BTreeMap<u64, NodeId>,
    pub(super) chunks_asked: Vec<u64>,
    pub(super) copies: BTreeMap<u64, Copy>,
    pub(super) wants: BTreeMap<u64, Want>,
    /// Pages that were lent for one use and have not been written since.
    pub(super) read_once: BTreeSet<u64>,
    /// Pages that were pushed last in vain.
    pub(super) unread: BTreeSet<u64>,
    /// Jobs that wait for pages or for the home of a chunk.
    pub(super) reads: Vec<Ticket>,
    pub(super) writes: Vec<Ticket>,
    /// Served from the store through each handle's own descriptor.
    pub(super) bypass: bool,
    /// It has lapsed, and no manager knows of the handles: the homes that are known are those of a life that is over.
    pub(super) lapsed: bool,
    /// The manager is gone.
    pub(super) orphan: bool,
    /// The node that was taken for the manager has refused.
    pub(super) refused: bool,
    /// Nobody is asked before this who manages the file: that was done just now, and refused again.
    pub(super) again: Option<Time>,
    /// A way in may keep bytes or attributes.
    pub(super) kept: bool,
    /// A program stores into a mapping of it.
    pub(super) mapped: bool,
    /// Homes with bytes that this node wrote and has not seen flushed.
    pub(super) wrote: NodeSet,
    /// Homes that flushes of this node wait for, once per flush.
    pub(super) flushing: Vec<NodeId>,
    /// Homes with bytes that this node wrote, of which other nodes have shards.
    pub(super) sealed: NodeSet,
    /// This node wrote since it last told the manager.
    pub(super) unreported: bool,
    /// The store's latest stamp that a flush of this node brought back.
    pub(super) stamp: Option<Stamp>,
    /// Bytes that small writes have left here.
    pub(super) gathering: Gathering,
    /// Losses of bytes that this node wrote, and the error of the last.
    pub(super) losses: u32,
    pub(super) loss: RawErrno,
}

impl Default for File {
    fn default() -> File {
        File {
            manager: None,
            parked: Vec::new(),
            generation: Gen::default(),
            semantics: Semantics::default(),
            version: 0,
            renewed: false,
            private: false,
            handles: 0,
            writers: 0,
            size: 0,
            exact: false,
            date: Date::default(),
            homes: HomeMap::Slot,
            chunk_homes: BTreeMap::new(),
            chunks_asked: Vec::new(),
            copies: BTreeMap::new(),
            wants: BTreeMap::new(),
            read_once: BTreeSet::new(),
            unread: BTreeSet::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            bypass: false,
            lapsed: false,
            orphan: false,
            refused: false,
            again: None,
            kept: false,
            mapped: false,
            wrote: NodeSet::default(),
            flushing: Vec::new(),
            sealed: NodeSet::default(),
            unreported: false,
            stamp: None,
            gathering: Gathering::default(),
            losses: 0,
            loss: errno::EIO,
        }
    }
}

impl File {
    pub(super) fn unused(&self) -> bool {
        self.handles == 0
            && self.parked.is_empty()
            && self.reads.is_empty()
            && self.writes.is_empty()
            && self.gathering.is_idle()
    }

    /// Reads are done on the store. If the manager is gone, homes that it told of still serve their pages,
    /// and have bytes that the store has not. A node that keeps its own pages has nobody left who would say
    /// when they become old, nor has one whose copies no home records. One that never heard of homes can ask
    /// none. A gateway that was manager and home is gone as both, and another may be by now.
    pub(super) fn is_read_from_store(&self, config: &Config) -> bool {
        let gateway = config.rules().bank.is_some() && matches!(self.homes, HomeMap::Fixed(_));
        let told = self.semantics.is_recorded() && self.homes != HomeMap::Own && !gateway;
        self.bypass || (self.orphan && (self.lapsed || !(told && self.generation.life > 0)))
    }

    /// Homes that may hold bytes of this node which the store lacks.
    pub(super) fn unflushed(&self) -> Vec<NodeId> {
        let unsealed = self.unsealed().into_iter();
        let homes: NodeSet = unsealed.chain(self.sealed.iter()).collect();
        homes.iter().collect()
    }

    /// Those of them of which it is not known that others have shards of all these bytes.
    pub(super) fn unsealed(&self) -> Vec<NodeId> {
        let flushing = self.flushing.iter().copied();
        let homes: NodeSet = self.wrote.iter().chain(flushing).collect();
        homes.iter().collect()
    }

    /// Homes are asked to flush: which of them may hold bytes of this node that the store lacks. Bytes that
    /// are written while they are at it count as not flushed.
    pub(super) fn begin_flush(&mut self, homes: &[NodeId]) -> NodeSet {
        let unsaved: NodeSet = self.unflushed().into_iter().collect();
        let asked = homes.iter().copied().filter(|&home| unsaved.contains(home));
        let unsaved: NodeSet = asked.collect();
        for home in unsaved.iter() {
            self.wrote.remove(home);
            self.sealed.remove(home);
            self.flushing.push(home);
        }
        unsaved
    }

    /// One of them has answered.
    pub(super) fn end_flush(&mut self, home: NodeId, has_more: bool) {
        if let Some(at) = self.flushing.iter().position(|&node| node == home) {
            self.flushing.swap_remove(at);
        }
        if has_more {
            self.wrote.insert(home);
        }
    }

    /// Pages whose copy a node granted.
    pub(super) fn copies_of(&self, home: NodeId) -> Vec<u64> {
        self.copies
            .iter()
            .filter(|(_, copy)| copy.home == home)
            .map(|(&page, _)| page)
            .collect()
    }

    /// Every node that may be home of a page of the file.
    pub(super) fn all_homes(&self, config: &Config, id: FileId) -> Vec<NodeId> {
        let chunks = config.chunk_of(config.page_of(self.size)) + 1;
        match self.homes {
            HomeMap::Fixed(node) => alloc::vec![node],
            HomeMap::Slot if self.exact && chunks < u64::from(config.members_count()) => {
                let home = |chunk| crate::placement::home_of_chunk(config, id, chunk);
                let homes: NodeSet = (0..chunks).map(home).chain(self.wrote.iter()).collect();
                homes.iter().collect()
            }
            HomeMap::Slot | HomeMap::Ask | HomeMap::Own | HomeMap::Keepers => {
                config.homes().collect()
            }
        }
    }
}

/// The home of a page, if it is known.
pub(super) fn home_of(config: &Config, id: FileId, file: &File, page: u64) -> Option<NodeId> {
    let chunk = config.chunk_of(page);
    match file.homes {
        HomeMap::Slot => {
            let known = file.chunk_homes.get(&chunk).copied();
            known.or_else(|| Some(placement::home_of_chunk(config, id, chunk)))
        }
        HomeMap::Fixed(node) => Some(node),
        HomeMap::Own => Some(config.me),
        HomeMap::Keepers => file.chunk_homes.get(&page).copied(),
        HomeMap::Ask => file.chunk_homes.get(&chunk).copied(),
    }
}
