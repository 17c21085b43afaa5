//! A tier: a directory on a disk of this node, between the pool and the store.
//!
//! Flushed bytes end here; the store gets them when a flush is asked for, before a cut, and at leisure.
//! Blocks lie in real files, at the offsets that they have in the store's, each with a CRC-32C, and a
//! journal says which count ([`journal`]). An agent that starts with a tier brings what an earlier
//! life left there to the store before anybody uses the cache ([`recover`]).
//!
//! They go to the store in place. A file's number is its identity here, for open descriptors and hard links too, and a
//! file that is renamed over it has another. A rename would promise that a death in the middle leaves no mixture. The
//! tier promises the same by keeping the bytes until the store has synced them.
//!
//! T1: the tier says that it has bytes when they are in a file of it and the journal names them.
//! T2: bytes are forgotten when the store has synced them, or a cut has taken them away.
//! T3: bytes that are refused here (no room, an error) go to the store; a tier is never a reason to fail.
//! T4: nothing goes to the store while others may have gone on without this agent ([`Tier::heed`]).
//!
//! Locks: `files`, then a file's `settling`, then its `kept`, then the journal; `unsure` and `work` last, each alone.

mod block;
mod bring;
mod journal;
mod kept;
mod recover;
mod serve;
mod shelf;
mod sure;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use hearth_client::Errno;
use hearth_client::words::counted;
use hearth_proto::Synced;

use super::{Store, StoreCounts, SyncKind, parts, posix};
use block::Stand;
use journal::Record;
use kept::{Kept, errno};
use shelf::Shelf;

/// Largest write that is made of what lies here.
const RUN_BYTES: usize = 4 << 20;

/// Files with bytes that the store lacks, each with a descriptor; those of one more go to the store.
const DIRTY_FILES_MAX: usize = 1024;

/// Share of a full tier that is set free at a time, as a divisor.
const ROOM_SHARE: u64 = 16;

/// The settings that people give a tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierConfig {
    /// The directory.
    pub dir: PathBuf,
    /// Bytes that it may hold.
    pub limit: u64,
    /// How long bytes may be here alone.
    pub age: Duration,
    /// The place to which an fsync brings bytes.
    pub synced: Synced,
    /// Others keep what is here alone, and bring it to the store when this agent dies.
    pub kept_elsewhere: bool,
}

/// A tier's account of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct TierStatus {
    /// The directory.
    pub dir: String,
    /// Bytes that it may hold, and holds.
    pub limit_bytes: u64,
    /// Bytes of blocks in it.
    pub used_bytes: u64,
    /// Bytes that the store lacks.
    pub dirty_bytes: u64,
    /// Bytes written to it since the start.
    pub written_bytes: u64,
    /// Bytes read from it since the start.
    pub read_bytes: u64,
    /// Bytes that passed it by since the start: there was no room, or it refused.
    pub passed_bytes: u64,
    /// Bytes that were lost, or put aside, by name.
    pub lost: Vec<String>,
}

/// The store with a tier before it.
pub struct Tier {
    inner: Arc<dyn Store>,
    config: TierConfig,
    root: PathBuf,
    shelf: Shelf,
    files: Mutex<HashMap<u64, Arc<Entry>>>,
    uses: AtomicU64,
    written: AtomicU64,
    read: AtomicU64,
    passed: AtomicU64,
    dirty_files: AtomicUsize,
    refused: AtomicBool,
    lost: Mutex<Vec<String>>,
    /// Files to ask the store about again ([`sure`]).
    unsure: Mutex<BTreeSet<u64>>,
    work: Mutex<Work>,
    more: Condvar,
    /// Records of an earlier life, until they are recovered.
    left: Mutex<Vec<Record>>,
    lease: OnceLock<Lease>,
}

/// Returns once this agent may write to the store.
type Lease = Box<dyn Fn() + Send + Sync>;

/// One file.
#[derive(Default)]
struct Entry {
    /// Held by whoever brings the file to the store.
    settling: Mutex<()>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Work {
    ended: bool,
    /// The worker is to look again.
    news: bool,
    /// The worker knows of nothing that will be due.
    waits_for_news: bool,
    /// The worker knows of no stamp to ask for again.
    all_is_sure: bool,
}

impl Tier {
    /// Opens the tier of one agent. Before it is used, [`Tier::recover`] takes in what an earlier life left there.
    ///
    /// `root` is the store's root directory.
    pub fn open(
        config: TierConfig,
        inner: Arc<dyn Store>,
        root: BorrowedFd<'_>,
    ) -> io::Result<Arc<Tier>> {
        let (shelf, records) = Shelf::open(&config)?;
        Ok(Arc::new(Tier {
            inner,
            root: path_of(root)?,
            config,
            shelf,
            files: Mutex::default(),
            uses: AtomicU64::new(0),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            dirty_files: AtomicUsize::new(0),
            refused: AtomicBool::new(false),
            lost: Mutex::default(),
            unsure: Mutex::default(),
            work: Mutex::default(),
            more: Condvar::new(),
            left: Mutex::new(records),
            lease: OnceLock::new(),
        }))
    }

    /// From now on `lease` is called before the store is written to.
    pub(crate) fn heed(&self, lease: Lease) {
        // Set by the one agent that has the tier, when it starts.
        let _ = self.lease.set(lease);
    }

    fn await_lease(&self) {
        if let Some(lease) = self.lease.get() {
            lease();
        }
    }

    /// The status of the tier, for people.
    pub fn status(&self) -> TierStatus {
        // Relaxed: statistics.
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let entries: Vec<_> = self.files().values().cloned().collect();
        TierStatus {
            dir: self.config.dir.display().to_string(),
            limit_bytes: self.shelf.limit(),
            used_bytes: self.shelf.used(),
            dirty_bytes: entries.iter().map(|entry| entry.kept().dirty_bytes()).sum(),
            written_bytes: count(&self.written),
            read_bytes: count(&self.read),
            passed_bytes: count(&self.passed),
            lost: self.lost().clone(),
        }
    }

    /// Runs of bytes that are here and whole, each with the number of its file.
    pub(crate) fn held(&self) -> Vec<(u64, u64, u64)> {
        let entries: Vec<_> = self.files().values().cloned().collect();
        let mut all = Vec::new();
        for entry in entries {
            let kept = entry.kept();
            all.extend(kept.held().map(|(start, end)| (kept.ino, start, end)));
        }
        all
    }

    fn has_store(&self, kept: &mut Kept, fd: OwnedFd) {
        kept.store = Some(fd);
        self.dirty_files.fetch_add(1, Ordering::Relaxed);
    }

    fn haste(&self) -> Haste {
        let used = self.shelf.used();
        let many = self.dirty_files.load(Ordering::Relaxed) >= DIRTY_FILES_MAX / 2;
        if used > self.shelf.limit() / 2 || many {
            Haste::Now
        } else {
            Haste::AtLeisure
        }
    }

    /// The entry of a file, made if there is none.
    fn entry_for(&self, ino: u64) -> Arc<Entry> {
        let mut files = self.files();
        let entry = files.entry(ino).or_insert_with(|| {
            let entry = Arc::<Entry>::default();
            entry.kept().ino = ino;
            entry
        });
        Arc::clone(entry)
    }

    fn entry(&self, file: BorrowedFd<'_>) -> Result<Option<Arc<Entry>>, Errno> {
        if self.files().is_empty() {
            return Ok(None);
        }
        let ino = ino_of(file)?;
        Ok(self.files().get(&ino).cloned())
    }

    fn place_of(&self, file: BorrowedFd<'_>) -> Result<PathBuf, Errno> {
        let path = path_of(file).map_err(|error| errno(&error))?;
        Ok(path
            .strip_prefix(&self.root)
            .map(Path::to_owned)
            .unwrap_or(path))
    }

    fn note_refusal(&self, error: &io::Error) {
        let full = error.raw_os_error() == Some(rustix::io::Errno::NOSPC.raw_os_error());
        if !full && !self.refused.swap(true, Ordering::Relaxed) {
            let dir = self.config.dir.display();
            self.note(format!(
                "tier `{dir}` refuses bytes ({error}): they go to the store"
            ));
        }
        self.tell_worker(Haste::Now);
    }

    fn note_lost(&self, kept: &Kept) {
        let lost = kept
            .blocks
            .values()
            .filter(|block| block.stand == Stand::Lost);
        let bytes: u64 = lost.map(|block| u64::from(block.valid.bytes())).sum();
        if bytes > 0 {
            let (path, dir) = (kept.path.display(), self.config.dir.display());
            let bytes = counted(bytes, "byte");
            self.note(format!("tier `{dir}` does not have {bytes} of `{path}` as written, and the store lacks them"));
        }
    }

    fn note(&self, text: String) {
        let mut lost = self.lost();
        if !lost.contains(&text) {
            log::warn!("{text}");
            lost.push(text);
        }
    }

    /// The worker looks at once, or only if it knows of nothing that it waits for.
    fn tell_worker(&self, haste: Haste) {
        let mut work = self.lock_work();
        if haste == Haste::Now || work.waits_for_news {
            work.waits_for_news = false;
            work.news = true;
            self.more.notify_all();
        }
    }

    fn files(&self) -> MutexGuard<'_, HashMap<u64, Arc<Entry>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost(&self) -> MutexGuard<'_, Vec<String>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When the worker looks for what is due.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Haste {
    Now,
    AtLeisure,
}

impl Entry {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ino_of(file: BorrowedFd<'_>) -> Result<u64, Errno> {
    Ok(rustix::fs::fstat(file).map_err(posix::from_rustix)?.st_ino)
}

fn path_of(file: BorrowedFd<'_>) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[cfg(test)]
mod tests;
