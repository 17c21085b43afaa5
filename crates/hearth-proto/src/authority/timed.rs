//! Files that want to be tried again at some time.

use crate::ids::FileId;
use crate::time::Time;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// When each is due, and in what order: the first is asked for after every step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Timed {
    at: BTreeMap<FileId, Time>,
    order: BTreeSet<(Time, FileId)>,
}

impl Timed {
    /// Wants a file tried at a time, or before.
    pub(super) fn wake(&mut self, id: FileId, at: Time) {
        if self.at.get(&id).is_some_and(|&known| known <= at) {
            return;
        }
        self.remove(id);
        self.at.insert(id, at);
        self.order.insert((at, id));
    }

    pub(super) fn remove(&mut self, id: FileId) {
        if let Some(at) = self.at.remove(&id) {
            self.order.remove(&(at, id));
        }
    }

    /// When the first is due.
    pub(super) fn first(&self) -> Option<Time> {
        self.order.first().map(|&(at, _)| at)
    }

    /// Takes those that are due, in the order of their numbers.
    pub(super) fn take_due(&mut self, now: Time) -> Vec<FileId> {
        let mut due = Vec::new();
        while let Some(&(at, id)) = self.order.first().filter(|&&(at, _)| at <= now) {
            self.order.remove(&(at, id));
            self.at.remove(&id);
            due.push(id);
        }
        due.sort_unstable();
        due
    }
}
