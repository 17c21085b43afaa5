//! The files and directories that one proxy mount has open at a gateway, and the inodes that it has
//! heard of.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use hearth_fuse::store::Nodes;

use super::lock;
use crate::call::{Ino, Open, Refused};

/// Open files, open directories, and how often each inode was told of.
#[derive(Default)]
pub(super) struct Opened {
    files: Mutex<HashMap<Open, Arc<OwnedFd>>>,
    told: Mutex<HashMap<Ino, u64>>,
}

impl Opened {
    pub(super) fn add(&self, open: Open, fd: OwnedFd) {
        lock(&self.files).insert(open, Arc::new(fd));
    }

    pub(super) fn find(&self, open: Open) -> Result<Arc<OwnedFd>, Refused> {
        let found = lock(&self.files).get(&open).cloned();
        found.ok_or(Refused::NotOpen(open))
    }

    pub(super) fn close(&self, open: Open) {
        lock(&self.files).remove(&open);
    }

    /// The proxy mount is about to be told of an inode.
    pub(super) fn tell(&self, ino: Ino) {
        *lock(&self.told).entry(ino).or_default() += 1;
    }

    /// It has forgotten one.
    pub(super) fn forget(&self, ino: Ino, nodes: &Nodes) {
        if let Some(count) = lock(&self.told).remove(&ino) {
            nodes.forget(ino, count);
        }
    }

    /// It is gone.
    pub(super) fn forget_all(&self, nodes: &Nodes) {
        for (ino, count) in lock(&self.told).drain() {
            nodes.forget(ino, count);
        }
    }
}
