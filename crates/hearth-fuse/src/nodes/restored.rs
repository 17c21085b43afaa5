//! Nodes that the kernel knows from an agent that is gone. They have no descriptors: each is found again by its names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use rustix::fs::FileType;

use super::{Entry, Inode, Nodes, Place, ROOT, SPARE_FIRST, StoreKey, Table};
use crate::ledger::KnownNode;

impl Nodes {
    /// Adds a node that the kernel knows.
    pub(crate) fn restore(&self, id: u64, known: &KnownNode) {
        if id != ROOT {
            self.lock().restore(id, known);
        }
    }

    /// Numbers of all nodes.
    pub(crate) fn ids(&self) -> Vec<u64> {
        self.lock().entries.keys().copied().collect()
    }
}

impl Table {
    fn restore(&mut self, id: u64, known: &KnownNode) {
        let node = Arc::new(Inode {
            id,
            key: StoreKey {
                dev: known.key.0,
                ino: known.key.1,
            },
            kind: FileType::from_raw_mode(known.mode),
            generation: known.generation,
            gone: AtomicBool::new(known.is_gone),
            handles: AtomicUsize::new(0),
            writers: AtomicUsize::new(0),
            born: known.born,
        });
        self.insert(id, Entry::new(node, None, None, known.lookups));
        for (parent, name) in &known.names {
            let name = OsStr::from_bytes(name).into();
            let parent = *parent;
            self.put_at(id, Place { parent, name });
        }
        self.spare_next = self.spare_next.max(if id >= SPARE_FIRST { id } else { 0 });
    }
}
