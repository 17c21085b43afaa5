//! The directory of a tier: where blocks lie, what is remembered of them, and how full it is.

use std::fs::{self, File};
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hearth_proto::Synced;
use rustix::fs::Advice;

use super::TierConfig;
use super::block::{BLOCK, Place};
use super::journal::{Journal, Record};

/// A shorter run waits for others to join it on their way to the disk.
const RUN_BYTES_MIN: u64 = 1 << 20;

/// The state that all files of a tier share.
#[derive(Debug)]
pub(super) struct Shelf {
    dir: PathBuf,
    blocks: PathBuf,
    lost: PathBuf,
    journal: Mutex<Journal>,
    /// Bytes of blocks that are here, each counted whole.
    used: AtomicU64,
    limit: u64,
    synced: Synced,
    /// Held for as long as the tier is in use.
    _lock: File,
}

impl Shelf {
    /// Takes a directory for this process alone.
    pub(super) fn open(config: &TierConfig) -> io::Result<(Shelf, Vec<Record>)> {
        let dir = &config.dir;
        let (blocks, lost) = (dir.join("blocks"), dir.join("lost"));
        // Blocks may hold bytes that others may not read in the store.
        let mut private = fs::DirBuilder::new();
        private.recursive(true).mode(0o700).create(&blocks)?;
        let lock = File::create(dir.join("lock"))?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| io::Error::other("another agent uses it, or one that has yet to end"))?;
        let (journal, records) = Journal::open(&dir.join("journal"))?;
        sync_names(dir)?;
        let shelf = Shelf {
            dir: dir.to_owned(),
            blocks,
            lost,
            journal: Mutex::new(journal),
            used: AtomicU64::new(0),
            limit: config.limit,
            synced: config.synced,
            _lock: lock,
        };
        Ok((shelf, records))
    }

    pub(super) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what has already happened. Work that cannot be remembered is done again after a restart, if nobody has
    /// written to the file since.
    pub(super) fn note(&self, records: &[Record]) {
        if let Err(error) = self.journal().append(records) {
            log::warn!("tier `{}` cannot be written: {error}", self.dir.display());
        }
    }

    /// Begins the journal anew with these records alone. One that was not renamed yet does not count.
    pub(super) fn rewrite(&self, records: &[Record]) -> io::Result<()> {
        let mut journal = self.journal();
        let (old, new) = (self.dir.join("journal"), self.dir.join("journal.new"));
        let _ = fs::remove_file(&new);
        let (mut fresh, _) = Journal::open(&new)?;
        fresh.append(records)?;
        fresh.sync()?;
        fs::rename(&new, &old)?;
        *journal = fresh;
        sync_names(&self.dir)
    }

    /// Room for so many more bytes is taken, if there is any.
    pub(super) fn reserve(&self, bytes: u64) -> bool {
        // Relaxed: a count; nothing else is read on the strength of it.
        let fits = |used: u64| (used + bytes <= self.limit).then_some(used + bytes);
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        taken.is_ok()
    }

    /// Counts what an earlier life left here, whether it fits or not.
    pub(super) fn count(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn write(&self, ino: u64, place: Place, at: u64, bytes: &[u8]) -> io::Result<()> {
        let options = || File::options().write(true).create(true).clone();
        let file = options().truncate(false).open(self.path(ino, place))?;
        file.write_all_at(bytes, at)
    }

    /// Has the operating system send a long run to the disk now, where an fsync will wait for it: so the disk works
    /// while the program goes on. Bytes that are on their way are not dropped. True if the run is long enough.
    pub(super) fn begin_sync(&self, ino: u64, place: Place, run: &Range<u64>) -> bool {
        let len = NonZeroU64::new(run.end - run.start).filter(|len| len.get() >= RUN_BYTES_MIN);
        if let (Synced::Tier, Some(_)) = (self.synced, len)
            && let Ok(file) = File::open(self.path(ino, place))
        {
            // An advice: a file system that does not heed it loses time alone.
            let _ = rustix::fs::fadvise(file, run.start, len, Advice::DontNeed);
        }
        len.is_some()
    }

    /// Reads what is there; the rest stays as it was.
    pub(super) fn read(&self, ino: u64, place: Place, at: u64, into: &mut [u8]) -> io::Result<()> {
        let file = File::open(self.path(ino, place))?;
        let mut done = 0;
        while done < into.len() {
            match file.read_at(&mut into[done..], at + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Gives the room of a block back. Room that cannot be given back goes with the file.
    pub(super) fn punch(&self, ino: u64, place: Place, number: u64) {
        use rustix::fs::FallocateFlags as How;
        if let Ok(file) = File::options().write(true).open(self.path(ino, place)) {
            let how = How::PUNCH_HOLE | How::KEEP_SIZE;
            let _ = rustix::fs::fallocate(&file, how, number * BLOCK as u64, BLOCK as u64);
        }
    }

    /// Makes what was written of a file durable.
    pub(super) fn sync(&self, ino: u64) -> io::Result<()> {
        for place in [Place::Main, Place::Other] {
            match File::open(self.path(ino, place)) {
                Ok(file) => file.sync_data()?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        // Its name too: the file may be new.
        sync_names(&self.blocks)
    }

    /// Nothing of the file is wanted any more.
    pub(super) fn remove(&self, ino: u64) {
        for place in [Place::Main, Place::Other] {
            let _ = fs::remove_file(self.path(ino, place));
        }
    }

    /// Puts what cannot be brought to the store aside, for people; says where.
    pub(super) fn put_aside(&self, ino: u64) -> io::Result<PathBuf> {
        fs::create_dir_all(&self.lost)?;
        let to = self.lost.join(ino.to_string());
        for (place, name) in [(Place::Main, to.clone()), (Place::Other, to.join(".other"))] {
            match fs::rename(self.path(ino, place), &name) {
                Err(error) if place == Place::Main => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(to)
    }

    fn path(&self, ino: u64, place: Place) -> PathBuf {
        self.blocks.join(match place {
            Place::Main => ino.to_string(),
            Place::Other => format!("{ino}.other"),
        })
    }
}

/// Makes the names of a directory durable. The journal's has to be before a record of it is relied on.
fn sync_names(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
