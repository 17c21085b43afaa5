//! A small set of nodes, in order. Most pages have few readers, so a sorted vector is the least.

use crate::ids::NodeId;
use alloc::vec::Vec;

/// Nodes, each once, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeSet(Vec<NodeId>);

impl NodeSet {
    /// Adds a node; true if it was not there.
    pub fn insert(&mut self, node: NodeId) -> bool {
        match self.0.binary_search(&node) {
            Ok(_) => false,
            Err(at) => {
                self.0.insert(at, node);
                true
            }
        }
    }

    /// Takes a node out; true if it was there.
    pub fn remove(&mut self, node: NodeId) -> bool {
        match self.0.binary_search(&node) {
            Ok(at) => {
                self.0.remove(at);
                true
            }
            Err(_) => false,
        }
    }

    /// True if the node is in.
    pub fn contains(&self, node: NodeId) -> bool {
        self.0.binary_search(&node).is_ok()
    }

    /// True if nobody is in.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many are in.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes everybody out.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The nodes, ascending.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.0.iter().copied()
    }
}

impl Extend<NodeId> for NodeSet {
    fn extend<T: IntoIterator<Item = NodeId>>(&mut self, nodes: T) {
        for node in nodes {
            self.insert(node);
        }
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<T: IntoIterator<Item = NodeId>>(nodes: T) -> NodeSet {
        let mut set = NodeSet::default();
        set.extend(nodes);
        set
    }
}
