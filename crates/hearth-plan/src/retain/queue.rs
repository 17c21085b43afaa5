//! The reads of a node, in order, and where each file is read next.

use alloc::vec;
use alloc::vec::Vec;

use crate::units::{Bytes, FileIndex};

/// A sequence of reads of whole files.
#[derive(Clone, Debug)]
pub struct Queue {
    reads: Vec<FileIndex>,
    sizes: Vec<Bytes>,
    next: Vec<Option<usize>>,
    previous: Vec<Option<usize>>,
}

impl Queue {
    /// `reads` in order; `sizes` by file.
    ///
    /// # Panics
    ///
    /// If a file that is read has no size.
    pub fn new(reads: Vec<FileIndex>, sizes: Vec<Bytes>) -> Queue {
        let mut next = vec![None; reads.len()];
        let mut previous = vec![None; reads.len()];
        let mut last = vec![None; sizes.len()];
        for (at, file) in reads.iter().enumerate() {
            assert!(
                file.index() < sizes.len(),
                "every file that is read has a size"
            );
            if let Some(before) = last[file.index()].replace(at) {
                next[before] = Some(at);
                previous[at] = Some(before);
            }
        }
        Queue {
            reads,
            sizes,
            next,
            previous,
        }
    }

    /// Files `0..sizes.len()` one after another, over and over, for so many reads.
    pub fn round_robin(sizes: Vec<Bytes>, reads: usize) -> Queue {
        let files = (0..sizes.len() as u32).map(FileIndex).cycle().take(reads);
        Queue::new(files.collect(), sizes)
    }

    /// The number of reads.
    pub fn len(&self) -> usize {
        self.reads.len()
    }

    /// Whether nothing is read.
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    /// The number of files, read or not.
    pub fn files(&self) -> usize {
        self.sizes.len()
    }

    /// The file that is read at a place.
    pub fn file(&self, at: usize) -> FileIndex {
        self.reads[at]
    }

    /// The size of a file.
    pub fn size(&self, file: FileIndex) -> Bytes {
        self.sizes[file.index()]
    }

    /// The size of the file that is read at a place.
    pub fn size_at(&self, at: usize) -> Bytes {
        self.size(self.reads[at])
    }

    /// The position of the next read of the file that is read here.
    pub fn next(&self, at: usize) -> Option<usize> {
        self.next[at]
    }

    /// The position of the read before of the file that is read here.
    pub fn previous(&self, at: usize) -> Option<usize> {
        self.previous[at]
    }

    /// How often each file is read.
    pub fn references(&self) -> Vec<usize> {
        let mut references = vec![0; self.sizes.len()];
        for file in &self.reads {
            references[file.index()] += 1;
        }
        references
    }

    /// All bytes that are read.
    pub fn total(&self) -> Bytes {
        (0..self.len()).map(|at| self.size_at(at)).sum()
    }
}
