//! An observer: counts requests, bytes and errors of the store it wraps.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use hearth_client::{Errno, FileStamp};
use hearth_shm::{FramePart, Pool};
use rustix::fs::OFlags;

use super::{Store, StoreCounts, SyncKind, parts};

/// Counts what passes to `S`. A call counts as one request, however many system calls it takes.
#[derive(Debug, Default)]
pub struct Counted<S> {
    inner: S,
    reads: Tally,
    writes: Tally,
    syncs: Tally,
    // Only errors are counted of these.
    others: Tally,
}

#[derive(Debug, Default)]
struct Tally {
    requests: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
}

impl Tally {
    // Relaxed: statistics; nobody concludes anything from their order.
    fn note<T>(
        &self,
        result: Result<T, Errno>,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Result<T, Errno> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        match &result {
            Ok(value) => self.bytes.fetch_add(bytes(value) as u64, Ordering::Relaxed),
            Err(_) => self.errors.fetch_add(1, Ordering::Relaxed),
        };
        result
    }
}

impl<S> Counted<S> {
    /// Counts from zero.
    pub fn new(inner: S) -> Self {
        let [reads, writes, syncs, others] = std::array::from_fn(|_| Tally::default());
        Self {
            inner,
            reads,
            writes,
            syncs,
            others,
        }
    }

    /// The store that is counted.
    pub fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S: Store> Store for Counted<S> {
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
        self.reads
            .note(self.inner.read(file, offset, parts, pool), |&read| read)
    }

    fn read_vec(&self, file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Vec<u8>, Errno> {
        self.reads
            .note(self.inner.read_vec(file, offset, len), Vec::len)
    }

    fn write(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        parts: &[FramePart],
        pool: &Pool,
    ) -> Result<(), Errno> {
        let written = self.inner.write(file, offset, parts, pool);
        self.writes.note(written, |()| parts::total(parts))
    }

    fn write_bytes(&self, file: BorrowedFd<'_>, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.writes
            .note(self.inner.write_bytes(file, offset, bytes), |()| {
                bytes.len()
            })
    }

    fn append(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> Result<u64, Errno> {
        self.writes
            .note(self.inner.append(file, bytes), |_| bytes.len())
    }

    fn sync(&self, file: BorrowedFd<'_>, kind: SyncKind) -> Result<(), Errno> {
        self.syncs.note(self.inner.sync(file, kind), |()| 0)
    }

    fn truncate(&self, file: BorrowedFd<'_>, size: u64) -> Result<(), Errno> {
        self.others.note(self.inner.truncate(file, size), |()| 0)
    }

    fn stamp(&self, file: BorrowedFd<'_>) -> Result<FileStamp, Errno> {
        self.others.note(self.inner.stamp(file), |_| 0)
    }

    fn renew(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        self.others.note(self.inner.renew(file), |()| 0)
    }

    fn counts(&self) -> StoreCounts {
        let now = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let tallies = [&self.reads, &self.writes, &self.syncs, &self.others];
        StoreCounts {
            read_requests: now(&self.reads.requests),
            write_requests: now(&self.writes.requests),
            sync_requests: now(&self.syncs.requests),
            read_bytes: now(&self.reads.bytes),
            write_bytes: now(&self.writes.bytes),
            errors: tallies.iter().map(|tally| now(&tally.errors)).sum(),
        }
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[cfg(test)]
mod tests;
