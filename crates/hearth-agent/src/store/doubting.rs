//! A reader that does not take the word of a client that lags for where a file ends ([`hearth_client::belief`]).

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use hearth_client::belief::Client;
use hearth_client::{Errno, Stamp};
use hearth_shm::{FramePart, Pool};
use rustix::fs::OFlags;

use super::{Store, StoreCounts, SyncKind, parts};

/// Doubts the short reads of `S`.
#[derive(Debug)]
pub(super) struct Doubting<S>(pub(super) S);

impl<S: Client + Store> Store for Doubting<S> {
    fn open(
        &self,
        root: BorrowedFd<'_>,
        path: &Path,
        access: OFlags,
    ) -> rustix::io::Result<OwnedFd> {
        self.0.open(root, path, access)
    }

    fn read(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        parts: &[FramePart],
        pool: &Pool,
    ) -> Result<usize, Errno> {
        let asked = (file, offset, parts::total(parts));
        self.0.read_whole(
            asked,
            |read| *read,
            || self.0.read(file, offset, parts, pool),
        )
    }

    fn read_vec(&self, file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Vec<u8>, Errno> {
        self.0.read_whole((file, offset, len), Vec::len, || {
            self.0.read_vec(file, offset, len)
        })
    }

    fn write(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        parts: &[FramePart],
        pool: &Pool,
    ) -> Result<(), Errno> {
        self.0.write(file, offset, parts, pool)
    }

    fn write_bytes(&self, file: BorrowedFd<'_>, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.0.write_bytes(file, offset, bytes)
    }

    fn append(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> Result<u64, Errno> {
        self.0.append(file, bytes)
    }

    fn sync(&self, file: BorrowedFd<'_>, kind: SyncKind) -> Result<(), Errno> {
        self.0.sync(file, kind)
    }

    fn truncate(&self, file: BorrowedFd<'_>, size: u64) -> Result<(), Errno> {
        self.0.truncate(file, size)
    }

    fn stamp(&self, file: BorrowedFd<'_>) -> Result<Stamp, Errno> {
        self.0.stamp(file)
    }

    fn renew(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        Ok(self.0.look_anew(file)?)
    }

    fn counts(&self) -> StoreCounts {
        self.0.counts()
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

#[cfg(test)]
mod tests;
