//! Names and attributes that this node may keep until the session revokes them.
//!
//! Invariants:
//! - Names and attributes that were read while a revocation of them came are not kept: a reader takes a [`Mark`] before
//!   it asks for leave, and a revocation spoils it.
//! - The kernel is told to drop attributes after every answer out of this memory that could name them
//!   has reached it ([`OnItsWay`]).
//! - Nothing counts for longer than the time-to-live after the store was read: people outside of the job
//!   change the store too.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use hearth_client::FileKey;
use hearth_client::asking::Lookups;

use crate::listing::Listing;
use crate::stat::Stat;

/// Names of all directories together, and directories; at the bound all are dropped.
const KEPT_MAX: usize = 1 << 18;
/// Files with attributes; the older half goes when there are so many.
const ATTRIBUTES_MAX: usize = 1 << 16;

/// Names and attributes of one mount.
pub(crate) struct Memory {
    ttl: Duration,
    state: Mutex<State>,
    answered: Condvar,
}

#[derive(Default)]
struct State {
    attributes: Halves,
    directories: HashMap<FileKey, Directory>,
    names: usize,
    /// Files and directories that are being read, and how often each was revoked meanwhile.
    reading: HashMap<FileKey, Reading>,
    /// Answers that the kernel has not taken yet.
    on_their_way: HashMap<FileKey, u32>,
}

/// Attributes in two halves: when one is full the other, which is older, goes as a whole.
#[derive(Default)]
struct Halves {
    young: HashMap<FileKey, Kept>,
    old: HashMap<FileKey, Kept>,
}

impl Halves {
    fn get(&self, file: &FileKey) -> Option<&Kept> {
        self.young.get(file).or_else(|| self.old.get(file))
    }

    /// Returns the entries that are too many, which take time to be dropped.
    fn insert(&mut self, file: FileKey, kept: Kept) -> HashMap<FileKey, Kept> {
        self.old.remove(&file);
        self.young.insert(file, kept);
        if self.young.len() < ATTRIBUTES_MAX / 2 {
            return HashMap::new();
        }
        std::mem::replace(&mut self.old, std::mem::take(&mut self.young))
    }

    fn remove(&mut self, file: &FileKey) {
        self.young.remove(file);
        self.old.remove(file);
    }
}

struct Kept {
    stat: Stat,
    read_at: Instant,
}

struct Directory {
    since: Instant,
    lookups: Lookups,
    listing: Option<Arc<Listing>>,
    /// When a name was found to stand for another file than memory had. For a time-to-live from then on lookups go to
    /// the store, as the operating system asks for a name only once more.
    distrusted: Option<Instant>,
}

#[derive(Default)]
struct Reading {
    readers: u32,
    revocations: u32,
}

/// The answer of memory about a name.
pub(crate) enum Known {
    /// It stands for this.
    There(Stat, Duration, OnItsWay),
    /// It stands for a file or directory whose attributes are not known.
    Unread(FileKey, Arc<Listing>),
    /// The directory does not have it.
    Absent,
    /// Look in the store.
    Nothing,
    /// Many names of the directory are being asked for: it should be read.
    Burst,
}

/// A reading that was begun under a leave.
pub(crate) struct Mark {
    file: FileKey,
    revocations: u32,
}

/// An answer out of memory that the kernel has not taken yet.
pub(crate) struct OnItsWay {
    memory: Arc<Memory>,
    file: FileKey,
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        let mut state = self.memory.lock();
        if let Some(count) = state.on_their_way.get_mut(&self.file) {
            *count -= 1;
            if *count == 0 {
                state.on_their_way.remove(&self.file);
                self.memory.answered.notify_all();
            }
        }
    }
}

impl Memory {
    pub(crate) fn new(ttl: Duration) -> Arc<Memory> {
        Arc::new(Memory {
            ttl,
            state: Mutex::default(),
            answered: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Whether anything is kept at all.
    pub(crate) fn is_on(&self) -> bool {
        !self.ttl.is_zero()
    }

    /// The answer of memory about a name; counts one lookup.
    pub(crate) fn name(self: &Arc<Self>, dir: FileKey, name: &OsStr) -> Known {
        let mut guard = self.lock();
        let state = &mut *guard;
        if state.directories.len() >= KEPT_MAX {
            state.directories.clear();
            state.names = 0;
        }
        let directory = state.directories.entry(dir).or_insert_with(Directory::new);
        if directory
            .distrusted
            .is_some_and(|at| at.elapsed() < self.ttl)
        {
            return Known::Nothing;
        }
        if directory.since.elapsed() > self.ttl {
            state.names -= directory.forget();
            directory.since = Instant::now();
            directory.lookups.begin_anew();
        }
        directory.lookups.count();
        let Some(listing) = &directory.listing else {
            return match directory.lookups.is_burst() {
                true => Known::Burst,
                false => Known::Nothing,
            };
        };
        match listing.find(name) {
            None => Known::Absent,
            Some(None) => Known::Nothing,
            Some(Some(file)) => {
                let listing = Arc::clone(listing);
                // Programs keep what the name leads to as long as the attributes.
                let left = self.ttl.saturating_sub(directory.since.elapsed());
                let told = self.take(state, file);
                told.map_or(Known::Unread(file, listing), |(stat, ttl, way)| {
                    Known::There(stat, ttl.min(left), way)
                })
            }
        }
    }

    /// The file that a name stands for in names that are kept.
    pub(crate) fn stands_for(&self, dir: FileKey, name: &OsStr) -> Option<FileKey> {
        let state = self.lock();
        let directory = state.directories.get(&dir)?;
        let is_old = |at: Instant| at.elapsed() > self.ttl;
        if is_old(directory.since) || directory.distrusted.is_some_and(|at| !is_old(at)) {
            return None;
        }
        directory.listing.as_ref()?.find(name)?
    }

    /// Attributes of a file, how long they count, and word that they were given out.
    pub(crate) fn attributes(
        self: &Arc<Self>,
        file: FileKey,
    ) -> Option<(Stat, Duration, OnItsWay)> {
        self.take(&mut self.lock(), file)
    }

    fn take(
        self: &Arc<Self>,
        state: &mut State,
        file: FileKey,
    ) -> Option<(Stat, Duration, OnItsWay)> {
        let kept = state.attributes.get(&file)?;
        let left = self.ttl.checked_sub(kept.read_at.elapsed())?;
        *state.on_their_way.entry(file).or_default() += 1;
        let memory = Arc::clone(self);
        Some((kept.stat, left, OnItsWay { memory, file }))
    }

    /// Whether attributes of a file are here, and fresh.
    pub(crate) fn has(&self, file: FileKey) -> bool {
        let state = self.lock();
        let kept = state.attributes.get(&file);
        kept.is_some_and(|kept| kept.read_at.elapsed() < self.ttl)
    }

    /// Whether there is leave for a file though its attributes are too old by now.
    pub(crate) fn is_stale(&self, file: FileKey) -> bool {
        let state = self.lock();
        let kept = state.attributes.get(&file);
        kept.is_some_and(|kept| kept.read_at.elapsed() >= self.ttl)
    }

    /// Whether there is leave for a file: a revocation comes before its attributes change.
    pub(crate) fn has_leave(&self, file: FileKey) -> bool {
        self.lock().attributes.get(&file).is_some()
    }

    /// To be called before leave is asked for.
    pub(crate) fn begin(&self, file: FileKey) -> Mark {
        let mut state = self.lock();
        let reading = state.reading.entry(file).or_default();
        reading.readers += 1;
        Mark {
            file,
            revocations: reading.revocations,
        }
    }

    /// Keeps attributes that were read since the mark, unless they were revoked since.
    pub(crate) fn keep(&self, mark: Mark, stat: Option<Stat>) {
        let mut state = self.lock();
        let file = mark.file;
        let good = state.end(&mark);
        let Some(stat) = stat.filter(|_| good) else {
            return;
        };
        let read_at = Instant::now();
        let gone = state.attributes.insert(file, Kept { stat, read_at });
        drop(state);
        drop(gone);
    }

    /// Keeps a listing that was read since the mark, likewise.
    pub(crate) fn keep_listing(&self, mark: Mark, listing: Option<Listing>) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let good = state.end(&mark);
        let directory = state.directories.entry(mark.file);
        let directory = directory.or_insert_with(Directory::new);
        state.names -= directory.forget();
        directory.since = Instant::now();
        let Some(listing) = listing.filter(|_| good) else {
            directory.lookups.refused();
            return;
        };
        let names = listing.len();
        if state.names + names > KEPT_MAX {
            let others = state.directories.values_mut();
            others.for_each(|other| drop(other.listing.take()));
            state.names = 0;
        }
        state.names += names;
        let directory = state.directories.entry(mark.file);
        let directory = directory.or_insert_with(Directory::new);
        directory.lookups.listed(names);
        directory.listing = Some(Arc::new(listing));
    }

    /// Nothing is kept of a file or directory from now on; what is being read of it is not taken.
    pub(crate) fn drop_all_of(&self, file: FileKey) {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.attributes.remove(&file);
        if let Some(directory) = state.directories.get_mut(&file) {
            state.names -= directory.forget();
            directory.lookups.begin_anew();
        }
        if let Some(reading) = state.reading.get_mut(&file) {
            reading.revocations += 1;
        }
    }

    /// Names of a directory are not what the store has: lookups go there for a while.
    pub(crate) fn distrust(&self, dir: FileKey) {
        self.drop_all_of(dir);
        let mut state = self.lock();
        let directory = state.directories.entry(dir);
        directory.or_insert_with(Directory::new).distrusted = Some(Instant::now());
    }

    /// Waits until the kernel has taken every answer that names attributes of a file. Nobody who writes
    /// such an answer waits for anything.
    pub(crate) fn wait_for_answers(&self, file: FileKey) {
        let mut state = self.lock();
        while state.on_their_way.contains_key(&file) {
            state = self
                .answered
                .wait(state)
                .expect("nothing panics under this lock");
        }
    }
}

impl State {
    /// True if nothing was revoked since the mark.
    fn end(&mut self, mark: &Mark) -> bool {
        let Some(reading) = self.reading.get_mut(&mark.file) else {
            return false;
        };
        let good = reading.revocations == mark.revocations;
        reading.readers -= 1;
        if reading.readers == 0 {
            self.reading.remove(&mark.file);
        }
        good
    }
}

impl Directory {
    fn new() -> Directory {
        Directory {
            since: Instant::now(),
            lookups: Lookups::default(),
            listing: None,
            distrusted: None,
        }
    }

    /// Drops the listing; returns how many names it had.
    fn forget(&mut self) -> usize {
        let listing = self.listing.take();
        listing.map_or(0, |listing| listing.len())
    }
}
