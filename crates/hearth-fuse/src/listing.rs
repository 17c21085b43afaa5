//! All names of a directory, as they were read at once, and how far this node is with their attributes.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hearth_client::asking::batch;
use hearth_client::{FileKey, NamesRead, Share};

use crate::readdirplus::second;

/// Names of a directory, in the order of their bytes.
pub(crate) struct Listing {
    names: Vec<Named>,
    /// Other nodes ask for the same files.
    is_shared: AtomicBool,
    /// Batches that were asked for, and those of this node's own part.
    asked: AtomicU32,
    asked_own: AtomicU32,
    /// The clock's second in which this node last read the names from the store.
    read_in: Mutex<Option<u64>>,
}

struct Named {
    name: Box<OsStr>,
    /// The file or directory, if its attributes may be kept.
    file: Option<FileKey>,
}

impl Listing {
    /// Names that another node has read.
    pub(crate) fn new(mut names: NamesRead) -> Listing {
        names.sort_unstable();
        let named = |(name, file)| Named {
            name: OsString::from_vec(name).into_boxed_os_str(),
            file,
        };
        Listing {
            names: names.into_iter().map(named).collect(),
            is_shared: AtomicBool::new(false),
            asked: AtomicU32::new(0),
            asked_own: AtomicU32::new(0),
            read_in: Mutex::new(None),
        }
    }

    /// Names that this node has read from the store just now.
    pub(crate) fn just_read(names: NamesRead) -> Listing {
        let listing = Listing::new(names);
        *listing.read_in() = Some(second());
        listing
    }

    /// The clock's second in which this node last read the names from the store.
    pub(crate) fn read_in(&self) -> MutexGuard<'_, Option<u64>> {
        self.read_in.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of names.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    fn place(&self, name: &OsStr) -> Option<usize> {
        let name = name.as_bytes();
        let order = |named: &Named| named.name.as_bytes().cmp(name);
        self.names.binary_search_by(order).ok()
    }

    /// Files whose attributes may be kept, from a name on and round to it.
    pub(crate) fn from(&self, name: &OsStr) -> impl Iterator<Item = (FileKey, &OsStr)> + '_ {
        let at = self.place(name).unwrap_or(0);
        let (before, behind) = self.names.split_at(at);
        kept(behind).chain(kept(before))
    }

    /// All that may be kept.
    pub(crate) fn all(&self) -> impl Iterator<Item = (FileKey, &OsStr)> + '_ {
        kept(&self.names)
    }

    /// A node's part of what may be kept.
    pub(crate) fn part(&self, share: Share) -> impl Iterator<Item = (FileKey, &OsStr)> + '_ {
        let at = |part: usize| part * self.names.len() / share.parts;
        kept(&self.names[at(share.part)..at(share.part + 1)])
    }

    /// The target of a name: a file whose attributes may be kept or something else, if it is there.
    pub(crate) fn find(&self, name: &OsStr) -> Option<Option<FileKey>> {
        self.place(name).map(|at| self.names[at].file)
    }

    /// As it is told to other nodes.
    pub(crate) fn told(&self) -> NamesRead {
        let plain = |named: &Named| (named.name.as_bytes().to_vec(), named.file);
        self.names.iter().map(plain).collect()
    }

    /// Whether other nodes ask for the same files.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    pub(crate) fn share(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
    }

    /// Files of the next batch.
    pub(crate) fn next_asked(&self) -> usize {
        doubled(&self.asked)
    }

    /// Files of the next batch of this node's own part.
    pub(crate) fn next_own(&self) -> usize {
        doubled(&self.asked_own)
    }
}

/// Only a matter of speed, so any order will do.
fn doubled(count: &AtomicU32) -> usize {
    batch(count.fetch_add(1, Ordering::Relaxed))
}

fn kept(names: &[Named]) -> impl Iterator<Item = (FileKey, &OsStr)> + '_ {
    let one = |named: &'_ Named| named.file;
    names
        .iter()
        .filter_map(move |named| one(named).map(|file| (file, &*named.name)))
}
