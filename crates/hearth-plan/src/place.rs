//! Which node a job runs on, so that as few bytes as possible have to come from elsewhere.
//!
//! A [`Situation`] says what is known: the files, who holds how much of them, the nodes with their
//! seats, and what each job reads. A [`Placement`] gives each job a node. A job that no seat is left
//! for gets none: it runs wherever it can, and all of its bytes count as moved.

mod exact;
mod greedy;
mod shared;

use alloc::vec::Vec;

use crate::units::{Bytes, FileIndex, NodeIndex};

pub use exact::{bound_shared, cheapest};
pub use greedy::{literal, paper};
pub use shared::cheapest_shared;

/// All that is known when jobs are placed.
#[derive(Clone, Debug, Default)]
pub struct Situation {
    /// The size of each file.
    pub sizes: Vec<Bytes>,
    /// For each file who holds bytes of it, each node once.
    pub held: Vec<Vec<(NodeIndex, Bytes)>>,
    /// For each node how many jobs it takes.
    pub seats: Vec<u32>,
    /// For each job the files that it reads, each once.
    pub jobs: Vec<Vec<FileIndex>>,
}

/// A node for each job, or none where no seat was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement(pub Vec<Option<NodeIndex>>);

impl Situation {
    /// Bytes of a file that a node lacks.
    pub fn missing(&self, file: FileIndex, node: NodeIndex) -> Bytes {
        let holders = &self.held[file.index()];
        let held = holders.iter().find(|(holder, _)| *holder == node);
        self.sizes[file.index()].saturating_sub(held.map_or(Bytes::ZERO, |(_, bytes)| *bytes))
    }

    /// Bytes that a job reads.
    pub fn reads(&self, job: usize) -> Bytes {
        let files = self.jobs[job].iter();
        files.map(|file| self.sizes[file.index()]).sum()
    }

    /// Bytes that a job would have moved to a node.
    pub fn moved_by(&self, job: usize, node: NodeIndex) -> Bytes {
        let files = self.jobs[job].iter();
        files.map(|file| self.missing(*file, node)).sum()
    }

    /// Bytes that a placement moves if every job fetches for itself.
    pub fn moved(&self, placement: &Placement) -> Bytes {
        let jobs = placement.0.iter().enumerate();
        jobs.map(|(job, node)| match node {
            Some(node) => self.moved_by(job, *node),
            None => self.reads(job),
        })
        .sum()
    }

    /// Bytes that a placement moves if jobs on one node share what they fetch.
    pub fn moved_once(&self, placement: &Placement) -> Bytes {
        let mut fetched = alloc::collections::BTreeSet::new();
        let jobs = placement.0.iter().enumerate();
        jobs.map(|(job, node)| match node {
            Some(node) => {
                let files = self.jobs[job].iter();
                let new = files.filter(|file| fetched.insert((*node, **file)));
                new.map(|file| self.missing(*file, *node)).sum()
            }
            None => self.reads(job),
        })
        .sum()
    }

    /// Nodes that hold something of what a job reads, with the bytes held, in the nodes' order.
    fn holders(&self, job: usize) -> Vec<(NodeIndex, Bytes)> {
        let mut held = alloc::collections::BTreeMap::new();
        for file in &self.jobs[job] {
            for (node, bytes) in &self.held[file.index()] {
                *held.entry(*node).or_insert(Bytes::ZERO) += (*bytes).min(self.sizes[file.index()]);
            }
        }
        held.into_iter().collect()
    }

    /// How many jobs read each file.
    fn readers(&self) -> Vec<u32> {
        let mut readers = alloc::vec![0; self.sizes.len()];
        for file in self.jobs.iter().flatten() {
            readers[file.index()] += 1;
        }
        readers
    }
}
