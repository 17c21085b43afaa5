//! A store that does not take all words of a client that lags ([`hearth_client::belief`]): where a file ends, and that it
//! does not exist.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use hearth_client::belief::CachingClient;
use hearth_client::{Errno, FileStamp};
use hearth_shm::{FramePart, Pool};
use rustix::fs::OFlags;

use super::{Store, StoreCounts, SyncKind, parts};
use crate::files::STALE;

const GONE: Errno = Errno(rustix::io::Errno::NOENT.raw_os_error());

/// Doubts the short reads of `S`. Descriptors stand for files that exist, but such a client opens them at its servers only
/// when they are used: if the last name has gone by then it answers `ENOENT`. Others may have the file open, so that is
/// said as `ESTALE`, upon which they are asked.
#[derive(Debug)]
pub(super) struct Doubting<S>(pub(super) S);

impl<S: CachingClient + Store> Store for Doubting<S> {
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
        let read = || self.0.read(file, offset, parts, pool);
        by_descriptor(self.0.read_whole(asked, |read| *read, read))
    }

    fn read_vec(&self, file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Vec<u8>, Errno> {
        let read = || self.0.read_vec(file, offset, len);
        by_descriptor(self.0.read_whole((file, offset, len), Vec::len, read))
    }

    fn write(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        parts: &[FramePart],
        pool: &Pool,
    ) -> Result<(), Errno> {
        by_descriptor(self.0.write(file, offset, parts, pool))
    }

    fn write_bytes(&self, file: BorrowedFd<'_>, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        by_descriptor(self.0.write_bytes(file, offset, bytes))
    }

    fn append(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> Result<u64, Errno> {
        by_descriptor(self.0.append(file, bytes))
    }

    fn sync(&self, file: BorrowedFd<'_>, kind: SyncKind) -> Result<(), Errno> {
        by_descriptor(self.0.sync(file, kind))
    }

    fn truncate(&self, file: BorrowedFd<'_>, size: u64) -> Result<(), Errno> {
        by_descriptor(self.0.truncate(file, size))
    }

    fn stamp(&self, file: BorrowedFd<'_>) -> Result<FileStamp, Errno> {
        by_descriptor(self.0.stamp(file))
    }

    fn renew(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        by_descriptor(self.0.look_anew(file).map_err(Errno::from))
    }

    fn counts(&self) -> StoreCounts {
        self.0.counts()
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

/// The answer to a call by a descriptor.
fn by_descriptor<T>(answer: Result<T, Errno>) -> Result<T, Errno> {
    answer.map_err(|errno| match errno {
        GONE => STALE,
        other => other,
    })
}

#[cfg(test)]
mod tests;
