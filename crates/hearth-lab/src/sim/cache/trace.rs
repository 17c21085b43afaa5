//! A trace in memory: objects by number, as caches want them.

use std::collections::HashMap;
use std::hash::Hash;

use hearth_plan::retain::Queue;
use hearth_plan::{Bytes, FileIndex};

/// Reads in order. An object keeps the size that it was first seen with.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) queue: Queue,
    /// Lines that name no read.
    pub(super) skipped: u64,
}

impl Trace {
    /// Bytes of all objects.
    pub(super) fn footprint(&self) -> Bytes {
        let objects = 0..self.queue.files() as u32;
        objects
            .map(|object| self.queue.size(FileIndex(object)))
            .sum()
    }
}

/// Gives numbers to objects.
#[derive(Debug)]
pub(super) struct Builder<K> {
    objects: HashMap<K, FileIndex>,
    reads: Vec<FileIndex>,
    sizes: Vec<Bytes>,
    pub(super) skipped: u64,
}

impl<K: Hash + Eq> Builder<K> {
    pub(super) fn new() -> Builder<K> {
        Builder {
            objects: HashMap::new(),
            reads: Vec::new(),
            sizes: Vec::new(),
            skipped: 0,
        }
    }

    /// An object is read.
    pub(super) fn read(&mut self, key: K, size: u64) {
        let sizes = &mut self.sizes;
        let object = *self.objects.entry(key).or_insert_with(|| {
            sizes.push(Bytes(size));
            FileIndex(sizes.len() as u32 - 1)
        });
        self.reads.push(object);
    }

    pub(super) fn done(self) -> Trace {
        Trace {
            queue: Queue::new(self.reads, self.sizes),
            skipped: self.skipped,
        }
    }
}
