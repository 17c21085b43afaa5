//! Bringing a tier's bytes to the store: when somebody asks for it, and at leisure.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use hearth_client::Errno;

use super::block::Stand;
use super::journal::{JOURNAL_MAX, Record};
use super::kept::{Durable, Kept, errno};
use super::sure::PAUSE;
use super::{DIRTY_FILES_MAX, Entry, RUN_BYTES, SyncKind, Tier, Work};

impl Tier {
    /// Brings everything to the store and has it synced.
    pub fn settle_all(&self) -> Result<(), Errno> {
        let entries: Vec<_> = self.files().values().cloned().collect();
        let mut result = Ok(());
        for entry in entries {
            result = self.settle_entry(&entry, Durable::Yes).and(result);
        }
        result
    }

    /// Brings bytes to the store at leisure, until [`Tier::end`].
    pub(crate) fn work(&self) {
        loop {
            let (due, wait) = self.due();
            for entry in &due {
                if self.settle_entry(entry, Durable::Yes).is_err() {
                    entry.kept().since = Some(Instant::now());
                }
            }
            if !due.is_empty() {
                self.make_room(0);
                continue;
            }
            self.make_sure(Instant::now());
            let mut work = self.lock_work();
            work.waits_for_news = wait.is_none();
            work.all_is_sure = self.unsure().is_empty();
            let idle = |work: &mut Work| !work.ended && !work.news;
            let wait = wait.unwrap_or(Duration::MAX);
            let wait = match work.all_is_sure {
                true => wait,
                false => wait.min(PAUSE),
            };
            let waited = self.more.wait_timeout_while(work, wait, idle);
            work = waited.unwrap_or_else(PoisonError::into_inner).0;
            if work.ended {
                return;
            }
            work.news = false;
        }
    }

    /// Lets [`Tier::work`] return.
    pub(crate) fn end(&self) {
        self.lock_work().ended = true;
        self.more.notify_all();
    }

    /// The files whose bytes have been here long enough, the oldest first, or how long until one has.
    /// When half of the tier is bytes that the store lacks, all have.
    fn due(&self) -> (Vec<Arc<Entry>>, Option<Duration>) {
        let entries: Vec<_> = self.files().values().cloned().collect();
        let mut waiting: Vec<(Instant, Arc<Entry>)> = Vec::new();
        let mut dirty = 0;
        for entry in entries {
            let kept = entry.kept();
            let since = kept.since.filter(|_| !kept.is_held);
            if let Some(since) = since {
                dirty += kept.dirty_bytes();
                drop(kept);
                waiting.push((since, entry));
            }
        }
        waiting.sort_by_key(|(since, _)| *since);
        let full = dirty > self.shelf.limit() / 2
            || self.shelf.journal().bytes() > JOURNAL_MAX
            || self.dirty_files.load(Ordering::Relaxed) >= DIRTY_FILES_MAX / 2;
        let age = self.config.age;
        let left = waiting
            .first()
            .map(|(since, _)| age.saturating_sub(since.elapsed()));
        let due = waiting.into_iter();
        let due = due.filter(|(since, _)| full || since.elapsed() >= age);
        (due.map(|(_, entry)| entry).collect(), left)
    }

    /// Brings a file's bytes to the store.
    pub(super) fn settle_entry(&self, entry: &Entry, durable: Durable) -> Result<(), Errno> {
        let settling = entry.settling.lock();
        let _settling = settling.unwrap_or_else(PoisonError::into_inner);
        let settled = self.bring(entry, durable);
        entry.kept().is_held = settled.is_err();
        settled
    }

    /// No lock of the file is held while the store works: who cuts or writes must not wait for it.
    pub(super) fn bring(&self, entry: &Entry, durable: Durable) -> Result<(), Errno> {
        loop {
            let (run, fd) = {
                let mut kept = entry.kept();
                match kept.next_run(&self.shelf, RUN_BYTES) {
                    Ok(None) => break,
                    // Marked as lost, and not met again.
                    Err(_) => continue,
                    Ok(Some(run)) => (run, self.open_for_writing(&mut kept)?),
                }
            };
            for (offset, bytes) in &run.writes {
                self.await_lease();
                self.inner.write_bytes(fd.as_fd(), *offset, bytes)?;
            }
            entry.kept().taken(&self.shelf, &run);
        }
        self.close(entry, durable)?;
        let mut kept = entry.kept();
        self.note_lost(&kept);
        match std::mem::take(&mut kept.is_untold) {
            true => Err(Errno(hearth_proto::errno::EIO)),
            false => Ok(()),
        }
    }

    /// Before the first byte goes: from now on the store's stamp may be one of ours.
    fn open_for_writing(&self, kept: &mut Kept) -> Result<OwnedFd, Errno> {
        if !kept.is_open {
            let ino = kept.ino;
            let opens = self.shelf.journal().append(&[Record::Opens { ino }]);
            opens.map_err(|error| errno(&error))?;
            kept.is_open = true;
        }
        let Some(fd) = &kept.store else {
            return Err(Errno(hearth_proto::errno::ESTALE));
        };
        fd.try_clone().map_err(|error| errno(&error))
    }

    /// All bytes are in the store: takes its stamp, after a sync if they are to be durable.
    fn close(&self, entry: &Entry, durable: Durable) -> Result<(), Errno> {
        let mut kept = entry.kept();
        let written = |kept: &Kept| {
            kept.blocks
                .values()
                .any(|block| block.stand == Stand::Written)
        };
        let Some(fd) = kept.store.as_ref().map(|fd| fd.try_clone()) else {
            return Ok(());
        };
        let fd = fd.map_err(|error| errno(&error))?;
        if durable == Durable::Yes && written(&kept) {
            // No lock: reads and writes go on while the store syncs. Bytes that are written meanwhile are dirty again
            // and not touched below.
            drop(kept);
            let synced = self.inner.sync(fd.as_fd(), SyncKind::Data);
            kept = entry.kept();
            if synced.is_err() {
                // A second sync would prove nothing about these bytes: they have to be written again.
                kept.write_again();
            }
            synced?;
        }
        if kept.is_open {
            let stamp = self.inner.stamp(fd.as_fd())?;
            kept.settle(&self.shelf, stamp, durable);
        } else if durable == Durable::Yes
            && let Some(stamp) = kept.stamp
        {
            kept.settle(&self.shelf, stamp, durable);
        }
        self.let_go(&mut kept);
        let ino = kept.ino;
        drop(kept);
        self.note_unsure(ino);
        Ok(())
    }
}
