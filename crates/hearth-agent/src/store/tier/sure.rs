//! When a store's stamp of a file says who wrote last.
//!
//! Two writes within one tick of the store's clock leave the same modification time. A stamp that was taken within the
//! tick of the write before it is *unsure*: the next write, by somebody else, may leave the same. It is *sure* once the
//! store says the same when the tick is over. That is asked behind the backs of all who write, so nobody waits for it;
//! a stamp that was never asked for again stays unsure.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hearth_client::FileStamp;

use super::journal::Record;
use super::kept::Kept;
use super::{DIRTY_FILES_MAX, Tier};

/// No clock that counts parts of a second ticks as slowly: operating systems tick 100 to 1000 times in one.
const TICK_MAX: Duration = Duration::from_millis(20);

/// Nor one that counts seconds: some count only every other one.
const WHOLE_TICK_MAX: Duration = Duration::from_secs(3);

/// How long stamps wait to be asked for again together.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// How long the tick may be in which a file was written that has this stamp.
fn tick_of(stamp: FileStamp) -> Duration {
    match stamp.mtime_ns % 1_000_000_000 {
        0 => WHOLE_TICK_MAX,
        _ => TICK_MAX,
    }
}

impl Kept {
    /// The store says this of the file, which nobody is writing to.
    pub(super) fn is_told(&mut self, stamp: FileStamp) -> Record {
        self.stamp = Some(stamp);
        self.is_open = false;
        self.is_sure = false;
        self.told = Some(Instant::now());
        self.closes(stamp)
    }

    /// The journal's record of a stamp.
    pub(super) fn closes(&self, stamp: FileStamp) -> Record {
        Record::Closes {
            ino: self.ino,
            stamp,
            is_sure: self.is_sure,
        }
    }

    /// How long until the tick of the stamp is over; `None` if nobody is to ask for it again.
    fn tick_left(&self, now: Instant) -> Option<Duration> {
        let told = self.told.filter(|_| !self.is_open && !self.is_sure)?;
        Some((told + tick_of(self.stamp?)).saturating_duration_since(now))
    }
}

impl Tier {
    /// A file has a stamp that is not sure.
    pub(super) fn note_unsure(&self, ino: u64) {
        self.unsure().insert(ino);
        let mut work = self.lock_work();
        if std::mem::take(&mut work.all_is_sure) {
            work.news = true;
            self.more.notify_all();
        }
    }

    /// Asks the store again for stamps whose tick is over.
    pub fn make_sure(&self, now: Instant) {
        let files = std::mem::take(&mut *self.unsure());
        for ino in files {
            let Some(entry) = self.files().get(&ino).map(Arc::clone) else {
                continue;
            };
            let mut kept = entry.kept();
            match kept.tick_left(now) {
                Some(Duration::ZERO) => self.ask_again(&mut kept),
                Some(_) => _ = self.unsure().insert(ino),
                None => {}
            }
        }
    }

    /// True if a tick that is soon over is all that a stamp from before `begun` waits for.
    pub fn is_soon_sure(&self, begun: Instant) -> bool {
        let files: Vec<u64> = self.unsure().iter().copied().collect();
        let entries = files
            .iter()
            .filter_map(|ino| self.files().get(ino).cloned());
        let entries: Vec<_> = entries.collect();
        // A tick that began before is over this soon.
        let mut left = entries
            .iter()
            .filter_map(|entry| entry.kept().tick_left(begun));
        left.any(|left| left <= TICK_MAX)
    }

    fn ask_again(&self, kept: &mut Kept) {
        kept.told = None;
        let now = kept.store.as_ref().map(|fd| self.inner.stamp(fd.as_fd()));
        if let (Some(known), Some(Ok(now))) = (kept.stamp, now)
            && now.mtime_ns == known.mtime_ns
            && !kept.blocks.is_empty()
        {
            kept.is_sure = true;
            self.shelf.note(&[kept.closes(known)]);
        }
        self.let_go(kept);
    }

    /// Closes the descriptor of a file of which the store has all, unless it is to be asked again about the file.
    pub(super) fn let_go(&self, kept: &mut Kept) {
        let many = self.dirty_files.load(Ordering::Relaxed) >= DIRTY_FILES_MAX / 4;
        let asks = kept.told.is_some() && !many;
        if !asks && !kept.is_waiting() && kept.store.take().is_some() {
            self.dirty_files.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn unsure(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.unsure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
