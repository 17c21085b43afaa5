//! A node's tier: written bytes that the store may lack, and copies of those that it has.

use super::Event;
use super::World;
use crate::plan::delay;
use hearth_proto::effect::TierGone;
use hearth_proto::{FileId, Stamp};
use std::collections::BTreeMap;

/// All files of one tier.
#[derive(Default)]
pub(crate) struct Tier {
    files: BTreeMap<FileId, Kept>,
}

/// One file: bytes by place.
#[derive(Default)]
struct Kept {
    bytes: BTreeMap<u64, Byte>,
    /// The store's stamp when it last had all of it.
    known: Option<Stamp>,
    /// A settlement has failed: nothing is written back at leisure until the next one.
    held: bool,
}

struct Byte {
    value: u8,
    dirty: bool,
}

impl Tier {
    /// Takes in written bytes of a file that has this stamp in the store.
    pub(crate) fn put(&mut self, (file, stamp): (FileId, Stamp), offset: u64, bytes: &[u8]) {
        let kept = self.files.entry(file).or_default();
        kept.known.get_or_insert(stamp);
        for (at, &value) in (offset..).zip(bytes) {
            kept.bytes.insert(at, Byte { value, dirty: true });
        }
    }

    /// Lays what is here over what the store has.
    pub(crate) fn lay_over(&self, file: FileId, offset: u64, len: u64, bytes: &mut Vec<u8>) {
        let Some(kept) = self.files.get(&file) else {
            return;
        };
        for (&at, byte) in kept.bytes.range(offset..offset + len) {
            let at = (at - offset) as usize;
            if bytes.len() <= at {
                bytes.resize(at + 1, 0);
            }
            bytes[at] = byte.value;
        }
    }

    /// Drops what is at and above `from`.
    pub(crate) fn cut(&mut self, file: FileId, from: u64, gone: TierGone) {
        let Some(kept) = self.files.get_mut(&file) else {
            return;
        };
        kept.bytes
            .retain(|at, byte| *at < from || (byte.dirty && gone == TierGone::Copies));
        kept.held = false;
        if kept.bytes.is_empty() {
            self.files.remove(&file);
        }
    }

    /// Drops copies of what is written past the tier.
    pub(crate) fn pass_by(&mut self, file: FileId, offset: u64, len: u64) {
        if let Some(kept) = self.files.get_mut(&file) {
            kept.bytes
                .retain(|at, _| *at < offset || *at >= offset + len);
        }
    }

    /// Nothing of the file may be written back at leisure.
    pub(crate) fn hold(&mut self, file: FileId) {
        if let Some(kept) = self.files.get_mut(&file) {
            kept.held = true;
        }
    }

    pub(crate) fn is_held(&self, file: FileId) -> bool {
        self.files.get(&file).is_some_and(|kept| kept.held)
    }

    /// A disk outlives its agent. Of what is there, only bytes that the store lacks are used again.
    pub(crate) fn outlive(&mut self) -> Tier {
        let mut files = std::mem::take(&mut self.files);
        for kept in files.values_mut() {
            kept.bytes.retain(|_, byte| byte.dirty);
        }
        files.retain(|_, kept| !kept.bytes.is_empty());
        Tier { files }
    }

    /// The bytes that the store lacks, which it is about to have.
    fn take_dirty(&mut self, file: FileId) -> Vec<(u64, u8)> {
        let Some(kept) = self.files.get_mut(&file) else {
            return Vec::new();
        };
        kept.held = false;
        let dirty = kept.bytes.iter_mut().filter(|(_, byte)| byte.dirty);
        dirty
            .map(|(&at, byte)| {
                byte.dirty = false;
                (at, byte.value)
            })
            .collect()
    }
}

impl World {
    /// True if the node flushes to a tier.
    pub(crate) fn has_tier(&self, node: usize) -> bool {
        self.hosts[node].node().config().has_tier()
    }

    /// Brings all that the node's tier has of a file to the store.
    pub(crate) fn settle(&mut self, node: usize, object: usize) {
        let file = self.store.objects[object].file;
        for (at, value) in self.hosts[node].tier.take_dirty(file) {
            self.write_by_client(node, object, at, &[value]);
        }
        let stamp = self.store.objects[object].stamp;
        if let Some(kept) = self.hosts[node].tier.files.get_mut(&file) {
            kept.known = Some(stamp);
        }
    }

    /// Brings to the store what the node's earlier life left, of files that nobody has written to since.
    pub(crate) fn recover(&mut self, node: usize) {
        let files = std::mem::take(&mut self.hosts[node].tier.files);
        for (file, kept) in files {
            let object = self.store.current.get(&file).copied();
            let object = object.filter(|&at| Some(self.store.objects[at].stamp) == kept.known);
            let Some(object) = object else {
                continue;
            };
            self.faults.recovered += 1;
            for (at, byte) in kept.bytes {
                self.write_by_client(node, object, at, &[byte.value]);
            }
        }
        let wait = delay(&mut self.rng, self.plan.store_delay);
        self.after(wait, Event::Recovered { node });
    }

    /// The work of agents when they end.
    pub(crate) fn settle_all(&mut self) {
        for node in 0..self.hosts.len() {
            let files: Vec<FileId> = self.hosts[node].tier.files.keys().copied().collect();
            for file in files {
                if let Some(&object) = self.store.current.get(&file) {
                    self.settle(node, object);
                }
            }
        }
    }

    /// As the agent does at leisure, at any time.
    pub(crate) fn settle_at_leisure(&mut self, node: usize, object: usize) {
        let file = self.store.objects[object].file;
        if self.has_tier(node) && !self.hosts[node].tier.is_held(file) && self.rng.chance(20) {
            self.settle(node, object);
        }
    }
}
