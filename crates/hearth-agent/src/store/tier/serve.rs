//! A tier as the store that it stands before: what it takes in, and what it answers.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use hearth_client::{Errno, FileStamp};
use hearth_proto::effect::TierGone;
use hearth_shm::{FramePart, Pool};
use rustix::fs::OFlags;

use super::block::{self, Stand};
use super::journal::JOURNAL_MAX;
use super::kept::{Durable, Kept, errno};
use super::{
    DIRTY_FILES_MAX, Entry, Haste, ROOM_SHARE, Store, StoreCounts, SyncKind, Tier, ino_of, parts,
    posix,
};

impl Tier {
    /// Takes written bytes in, if there is room; false if they must go to the store.
    pub(super) fn put(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<bool, Errno> {
        self.make_room(bytes.len() as u64);
        let entry = self.entry_for(ino_of(file)?);
        let long = self.shelf.journal().bytes() > JOURNAL_MAX;
        let mut kept = entry.kept();
        let many = self.dirty_files.load(Ordering::Relaxed) >= DIRTY_FILES_MAX;
        if long || (many && kept.store.is_none()) {
            self.tell_worker(Haste::Now);
            return Ok(false);
        }
        self.verify(&mut kept, file)?;
        if kept.store.is_none() {
            let fd = rustix::io::fcntl_dupfd_cloexec(file, 0).map_err(posix::from_rustix)?;
            self.has_store(&mut kept, fd);
        }
        if kept.blocks.is_empty() {
            kept.path = self.place_of(file)?;
            kept.stamp = None;
            kept.is_open = false;
        }
        let mut told = None;
        // Known before bytes come that the store lacks: later changes are then somebody else's.
        if kept.stamp.is_none() && !kept.is_open {
            let closes = kept.is_told(self.inner.stamp(file)?);
            if !kept.blocks.is_empty() {
                self.shelf.note(&[closes]);
            }
            told = Some(kept.ino);
        }
        kept.used = self.uses.fetch_add(1, Ordering::Relaxed);
        match kept.put(&self.shelf, offset, bytes) {
            Ok(()) => {
                self.written
                    .fetch_add(bytes.len() as u64, Ordering::Relaxed);
                drop(kept);
                told.into_iter().for_each(|ino| self.note_unsure(ino));
                self.tell_worker(self.haste());
                Ok(true)
            }
            Err(error) => {
                drop(kept);
                self.note_refusal(&error);
                Ok(false)
            }
        }
    }

    /// Writes past the tier: what it has of the range goes to the store first, and is forgotten.
    fn pass_by(&self, file: BorrowedFd<'_>, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.passed.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let Some(entry) = self.entry(file)? else {
            return self.inner.write_bytes(file, offset, bytes);
        };
        let _settling = entry
            .settling
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.bring(&entry, Durable::NotYet)?;
        let mut kept = entry.kept();
        self.inner.write_bytes(file, offset, bytes)?;
        kept.passed(&self.shelf, offset, bytes.len());
        if !kept.blocks.is_empty() {
            let closes = kept.is_told(self.inner.stamp(file)?);
            self.shelf.note(&[closes]);
            self.note_unsure(kept.ino);
        }
        Ok(())
    }

    /// If `bytes` more do not fit, drops copies of files that were used longest ago.
    pub(super) fn make_room(&self, bytes: u64) {
        let limit = self.shelf.limit();
        let long = self.shelf.journal().bytes() > JOURNAL_MAX;
        if self.shelf.used() + bytes + 2 * block::BLOCK as u64 <= limit && !long {
            return;
        }
        let entries: Vec<_> = self.files().values().cloned().collect();
        let idle = |entry: &Entry| {
            let kept = entry.kept();
            (!kept.is_dirty()).then_some(kept.used)
        };
        let copies = entries.into_iter();
        let mut copies: Vec<_> = copies
            .filter_map(|entry| Some((idle(&entry)?, entry)))
            .collect();
        copies.sort_by_key(|(used, _)| *used);
        for (_, entry) in copies {
            if !long && self.shelf.used() + bytes + limit / ROOM_SHARE <= limit {
                break;
            }
            let mut kept = entry.kept();
            if !kept.is_dirty() {
                kept.drop_where(&self.shelf, |_, _| true);
            }
        }
        let mut files = self.files();
        files.retain(|_, entry| {
            let is_used = |kept: &Kept| !kept.blocks.is_empty() || kept.store.is_some();
            Arc::strong_count(entry) > 1 || is_used(&entry.kept())
        });
        let mut journal = self.shelf.journal();
        if files.is_empty() && journal.bytes() > JOURNAL_MAX {
            let _ = journal.clear();
        }
    }

    /// Copies from before are only good if nobody has changed the file since.
    fn verify(&self, kept: &mut Kept, file: BorrowedFd<'_>) -> Result<(), Errno> {
        if kept.is_verified || kept.blocks.is_empty() {
            return Ok(());
        }
        if kept.is_sure && kept.stamp == Some(self.inner.stamp(file)?) {
            kept.is_verified = true;
            return Ok(());
        }
        // A block that was given to the store and not synced is a copy: it would be taken for newer than what came
        // since.
        let is_copy = |stand: Stand| stand == Stand::Clean || stand == Stand::Written;
        let is_open = kept.is_open;
        kept.drop_where(&self.shelf, |_, block| match is_open {
            true => block.stand == Stand::Clean,
            false => is_copy(block.stand),
        });
        Ok(())
    }

    fn read_bytes(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> Result<Option<Vec<u8>>, Errno> {
        let Some(entry) = self.entry(file)? else {
            return Ok(None);
        };
        let mut kept = entry.kept();
        self.verify(&mut kept, file)?;
        if kept.blocks.is_empty() {
            return Ok(None);
        }
        kept.used = self.uses.fetch_add(1, Ordering::Relaxed);
        let mut from_store = 0;
        let read = kept.read(&self.shelf, (offset, len), || {
            let bytes = self.inner.read_vec(file, offset, len)?;
            from_store = bytes.len();
            Ok(bytes)
        });
        if read.is_err() {
            self.note_lost(&kept);
        }
        let bytes = read?;
        let here = bytes.len().saturating_sub(from_store) as u64;
        self.read.fetch_add(here, Ordering::Relaxed);
        Ok(Some(bytes))
    }
}

impl Store for Tier {
    fn open(
        &self,
        root: BorrowedFd<'_>,
        path: &Path,
        access: OFlags,
    ) -> rustix::io::Result<OwnedFd> {
        self.inner.open(root, path, access)
    }

    fn read(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        parts: &[FramePart],
        pool: &Pool,
    ) -> Result<usize, Errno> {
        let Some(bytes) = self.read_bytes(file, offset, parts::total(parts))? else {
            return self.inner.read(file, offset, parts, pool);
        };
        let mut rest = bytes.as_slice();
        for part in parts {
            let (now, later) = rest.split_at(rest.len().min(part.len));
            pool.write(part.frame, part.offset, now);
            rest = later;
        }
        Ok(bytes.len())
    }

    fn read_vec(&self, file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Vec<u8>, Errno> {
        match self.read_bytes(file, offset, len)? {
            Some(bytes) => Ok(bytes),
            None => self.inner.read_vec(file, offset, len),
        }
    }

    fn write(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        parts: &[FramePart],
        pool: &Pool,
    ) -> Result<(), Errno> {
        // A copy: the pool's bytes may change meanwhile, and then the checksum would be of others.
        let mut bytes = vec![0; parts::total(parts)];
        let mut rest = bytes.as_mut_slice();
        for part in parts {
            let (now, later) = rest.split_at_mut(part.len);
            pool.read(part.frame, part.offset, now);
            rest = later;
        }
        if self.put(file, offset, &bytes)? {
            return Ok(());
        }
        self.pass_by(file, offset, &bytes)
    }

    fn write_bytes(&self, file: BorrowedFd<'_>, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.pass_by(file, offset, bytes)
    }

    fn append(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> Result<u64, Errno> {
        self.settle(file)?;
        self.inner.append(file, bytes)
    }

    fn sync(&self, file: BorrowedFd<'_>, kind: SyncKind) -> Result<(), Errno> {
        self.inner.sync(file, kind)
    }

    fn truncate(&self, file: BorrowedFd<'_>, size: u64) -> Result<(), Errno> {
        self.inner.truncate(file, size)
    }

    fn stamp(&self, file: BorrowedFd<'_>) -> Result<FileStamp, Errno> {
        self.inner.stamp(file)
    }

    fn renew(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        self.inner.renew(file)
    }

    fn counts(&self) -> StoreCounts {
        self.inner.counts()
    }

    fn describe(&self) -> String {
        format!("{} behind a tier", self.inner.describe())
    }

    fn settle(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        match self.entry(file)? {
            Some(entry) => self.settle_entry(&entry, Durable::NotYet),
            None => Ok(()),
        }
    }

    fn sync_tier(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        if let Some(entry) = self.entry(file)? {
            let ino = entry.kept().ino;
            self.shelf.sync(ino).map_err(|error| errno(&error))?;
        }
        self.shelf.journal().sync().map_err(|error| errno(&error))
    }

    fn cut_tier(&self, ino: u64, from: u64, gone: TierGone) {
        let Some(entry) = self.files().get(&ino).cloned() else {
            return;
        };
        let mut kept = entry.kept();
        let from = from / block::BLOCK as u64;
        let goes = |stand: Stand| {
            gone == TierGone::All || stand == Stand::Clean || stand == Stand::Written
        };
        kept.drop_where(&self.shelf, |number, block| {
            number >= from && goes(block.stand)
        });
        kept.is_held = false;
        kept.stamp = None;
        if !kept.is_waiting() && kept.store.take().is_some() {
            self.dirty_files.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn forget_tier(&self, ino: u64) {
        if let Some(entry) = self.files().get(&ino).cloned() {
            entry.kept().is_verified = false;
        }
    }
}
