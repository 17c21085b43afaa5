//! The sum of a ledger's facts.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::RawFd;

use hearth_shm::records::{each, push};

use super::fact::{Fact, Lock, Opened, Tried};
use crate::init::Agreed;

/// Changes that cannot be made twice, and that are remembered. The operating system asks for fewer at one time.
const TRIED_MAX: usize = 4096;
/// Names of a node, the last one found at the end.
const NAMES_MAX: usize = 9;

/// All that the operating system knows of a mount, and more perhaps.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// The agreement with the operating system, and the place of the mount.
    pub(crate) agreed: Option<(Agreed, Vec<u8>)>,
    pub(crate) nodes: HashMap<u64, KnownNode>,
    pub(crate) handles: HashMap<u64, KnownHandle>,
    /// Descriptors of open directories, and the requests that opened them.
    pub(crate) directories: HashMap<u64, (RawFd, u64)>,
    /// The descriptor of each holder of locks, and the handle that it goes with.
    pub(crate) locks: HashMap<Lock, (RawFd, u64)>,
    /// By the number of the request.
    pub(crate) tried: BTreeMap<u64, Tried>,
    /// Handles had numbers up to this one.
    pub(crate) numbered: u64,
}

/// A node that the operating system may know.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KnownNode {
    pub(crate) generation: u64,
    pub(crate) key: (u64, u64),
    pub(crate) mode: u32,
    pub(crate) born: Option<i64>,
    pub(crate) lookups: u64,
    pub(crate) is_gone: bool,
    /// Directories and names, the last one found at the end.
    pub(crate) names: Vec<(u64, Vec<u8>)>,
}

/// A handle that programs may have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KnownHandle {
    pub(crate) opened: Opened,
    /// Bytes were taken through it that the store may lack.
    pub(crate) is_written: bool,
}

impl Known {
    /// The sum of some records.
    pub(crate) fn read(bytes: &[u8]) -> Known {
        let mut known = Known::default();
        each(bytes)
            .filter_map(Fact::decoded)
            .for_each(|fact| known.add(fact));
        known
    }

    /// Numbers of descriptors that handles, directories and locks have.
    pub(crate) fn descriptors(bytes: &[u8]) -> Vec<RawFd> {
        let mut known = Known::default();
        for fact in each(bytes).filter_map(Fact::decoded) {
            match fact {
                Fact::Opened(_) | Fact::Closed(_) => known.add(fact),
                Fact::DirectoryOpened(..) | Fact::DirectoryClosed(_) => known.add(fact),
                Fact::Locked(..) | Fact::Unlocked(_) => known.add(fact),
                _ => {}
            }
        }
        let files = known.handles.values().map(|handle| handle.opened.fd);
        let locks = known.locks.values().map(|(fd, _)| *fd);
        let directories = known.directories.values().map(|(fd, _)| *fd);
        files.chain(directories).chain(locks).collect()
    }

    fn add(&mut self, fact: Fact<'_>) {
        match fact {
            Fact::Agreed(agreed, point) => self.agreed = Some((agreed, point.to_vec())),
            Fact::Node {
                id,
                generation,
                key,
                mode,
                born,
                lookups,
            } => {
                let node = KnownNode {
                    generation,
                    key,
                    mode,
                    born,
                    lookups,
                    is_gone: false,
                    names: Vec::new(),
                };
                self.nodes.insert(id, node);
            }
            Fact::Found(id) => self.change(id, |node| node.lookups += 1),
            Fact::Forgotten(id, count) => self.forget(id, count),
            Fact::Named(id, parent, name) => self.change(id, |node| node.named(parent, name)),
            Fact::Gone(id) => self.change(id, |node| node.is_gone = true),
            Fact::Opened(opened) => self.open(opened),
            Fact::Closed(number) => drop(self.handles.remove(&number)),
            Fact::Written(number) => self.write(number, true),
            Fact::Synced(number) => self.write(number, false),
            Fact::DirectoryOpened(number, fd, request) => {
                self.numbered = self.numbered.max(number);
                self.directories.insert(number, (fd, request));
            }
            Fact::DirectoryClosed(number) => drop(self.directories.remove(&number)),
            Fact::Locked(lock, fd, through) => drop(self.locks.insert(lock, (fd, through))),
            Fact::Unlocked(lock) => drop(self.locks.remove(&lock)),
            Fact::Tried(request, tried) => self.try_change(request, tried),
            Fact::Numbered(number) => self.numbered = self.numbered.max(number),
        }
    }

    fn change(&mut self, id: u64, change: impl FnOnce(&mut KnownNode)) {
        if let Some(node) = self.nodes.get_mut(&id) {
            change(node);
        }
    }

    fn forget(&mut self, id: u64, count: u64) {
        self.change(id, |node| node.lookups = node.lookups.saturating_sub(count));
        if self.nodes.get(&id).is_some_and(|node| node.lookups == 0) {
            self.nodes.remove(&id);
        }
    }

    fn open(&mut self, opened: Opened) {
        self.numbered = self.numbered.max(opened.number);
        let is_written = false;
        self.handles
            .insert(opened.number, KnownHandle { opened, is_written });
    }

    fn write(&mut self, number: u64, is_written: bool) {
        if let Some(handle) = self.handles.get_mut(&number) {
            handle.is_written = is_written;
        }
    }

    fn try_change(&mut self, request: u64, tried: Tried) {
        self.tried.insert(request, tried);
        if self.tried.len() > TRIED_MAX {
            // The operating system counts its requests.
            self.tried.pop_first();
        }
    }

    /// Records that say the same.
    pub(crate) fn written(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut note = |fact: Fact<'_>| fact.encoded(|record| push(&mut bytes, record));
        if let Some((agreed, point)) = &self.agreed {
            note(Fact::Agreed(*agreed, point));
        }
        note(Fact::Numbered(self.numbered));
        for (&id, node) in &self.nodes {
            node.each_fact(id, &mut note);
        }
        for (&number, handle) in &self.handles {
            note(Fact::Opened(handle.opened));
            if handle.is_written {
                note(Fact::Written(number));
            }
        }
        for (&number, &(fd, request)) in &self.directories {
            note(Fact::DirectoryOpened(number, fd, request));
        }
        for (&lock, &(fd, through)) in &self.locks {
            note(Fact::Locked(lock, fd, through));
        }
        for (&request, &tried) in &self.tried {
            note(Fact::Tried(request, tried));
        }
        bytes
    }
}

impl KnownNode {
    fn named(&mut self, parent: u64, name: &[u8]) {
        self.names
            .retain(|(known, other)| (*known, &other[..]) != (parent, name));
        self.names.push((parent, name.to_vec()));
        if self.names.len() > NAMES_MAX {
            self.names.remove(0);
        }
    }

    fn each_fact(&self, id: u64, note: &mut impl FnMut(Fact<'_>)) {
        note(Fact::Node {
            id,
            generation: self.generation,
            key: self.key,
            mode: self.mode,
            born: self.born,
            lookups: self.lookups,
        });
        for (parent, name) in &self.names {
            note(Fact::Named(id, *parent, name));
        }
        if self.is_gone {
            note(Fact::Gone(id));
        }
    }
}
