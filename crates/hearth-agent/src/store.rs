//! The file system behind the cache, as the agent's store threads see it.
//!
//! Names, rights and directories are the front end's business; here a file is an open descriptor, and
//! a call moves bytes between it and frames of the pool, sets its size, or makes it durable. Calls
//! block. One adapter does the work ([`Posix`]); the others wrap one another around it:
//!
//! - [`Counted`] counts what passes,
//! - [`Model`] makes a directory as slow as the I/O servers it models,
//! - [`Fault`] breaks what a script tells it to break,
//! - `Doubting` asks the servers where a file ends, if a client that lags has brought less than was asked for.
//!
//! [`Lagging`] takes its place in tests: a client of a network file system, which believes in old names for a second.
//!
//! [`StoreSpec`] is the way to name a store on a command line.

mod counted;
mod doubting;
mod fault;
mod lagging;
mod model;
mod parts;
mod posix;
mod room;
mod spec;
mod tier;

pub use counted::Counted;
pub use fault::{Fault, FaultPlan, PlanError};
pub use lagging::{Lagging, Seconds};
pub use model::{Model, ModelConfig, ModelError};
pub use posix::Posix;
pub use spec::{SpecError, StoreSpec, build};
pub use tier::{Tier, TierConfig, TierStatus};

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use hearth_client::{Errno, FileStamp};
use hearth_proto::effect::TierGone;
use hearth_shm::{FramePart, Pool};
use rustix::fs::{Mode, OFlags, ResolveFlags};

/// Moves bytes between open files and the pool. Calls block; every one may run on many threads.
///
/// Descriptors must not be in append mode: the kernel would ignore the offset of a write.
pub trait Store: Send + Sync {
    /// Opens what has a name below `root`, or what an absolute path names. A name must not lead out of the store. It may
    /// be wrong: who opens by name looks at what was opened.
    fn open(
        &self,
        root: BorrowedFd<'_>,
        path: &Path,
        access: OFlags,
    ) -> rustix::io::Result<OwnedFd> {
        open_by_name(root, path, access)
    }

    /// Fills `parts`, in order, from `offset`. Comes back with less only at the end of the file, as the servers know it;
    /// the rest of the parts is then as it was, or has bytes that count for nothing.
    fn read(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        parts: &[FramePart],
        pool: &Pool,
    ) -> Result<usize, Errno>;

    /// Reads `len` bytes at `offset`; less only at the end of the file.
    fn read_vec(&self, file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Vec<u8>, Errno>;

    /// Writes all of `parts`, in order, at `offset`. On an error any part of the bytes may be in
    /// the file.
    fn write(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        parts: &[FramePart],
        pool: &Pool,
    ) -> Result<(), Errno>;

    /// Writes all of `bytes` at `offset`. On an error any part of them may be in the file.
    fn write_bytes(&self, file: BorrowedFd<'_>, offset: u64, bytes: &[u8]) -> Result<(), Errno>;

    /// Writes all of `bytes` at the end of the file, wherever that is, and returns where they begin.
    fn append(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> Result<u64, Errno>;

    /// Makes what was written before durable. After an error nobody knows what is durable, and
    /// a second success proves nothing about the first bytes.
    fn sync(&self, file: BorrowedFd<'_>, kind: SyncKind) -> Result<(), Errno>;

    /// Sets the size of a file.
    fn truncate(&self, file: BorrowedFd<'_>, size: u64) -> Result<(), Errno>;

    /// The store's stamp of the file's content now.
    fn stamp(&self, file: BorrowedFd<'_>) -> Result<FileStamp, Errno>;

    /// Makes this node's client look at the file anew: another has changed it. A client that keeps bytes between opens
    /// forgets them.
    fn renew(&self, file: BorrowedFd<'_>) -> Result<(), Errno>;

    /// Brings to the store what a tier has of the file.
    fn settle(&self, _file: BorrowedFd<'_>) -> Result<(), Errno> {
        Ok(())
    }

    /// Makes durable what a tier has of the file, without bringing it to the store.
    fn sync_tier(&self, _file: BorrowedFd<'_>) -> Result<(), Errno> {
        Ok(())
    }

    /// Bytes of a file at and above `from` are gone from a tier; at once, and without waiting for the
    /// store.
    fn cut_tier(&self, _ino: u64, _from: u64, _gone: TierGone) {}

    /// Nobody will say any more when copies that a tier has of a file are void.
    fn forget_tier(&self, _ino: u64) {}

    /// The requests and bytes that have passed so far; zeros if no [`Counted`] is in the stack.
    fn counts(&self) -> StoreCounts;

    /// One line for people: what this store is, and whether it is the real thing.
    fn describe(&self) -> String;
}

/// Opens as the operating system's client of the store finds it.
fn open_by_name(root: BorrowedFd<'_>, path: &Path, access: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = access | OFlags::CLOEXEC;
    if path.is_absolute() {
        return rustix::fs::open(path, flags, Mode::empty());
    }
    // A peer's path must not lead out of the store.
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, path, flags, Mode::empty(), resolve)
}

/// The extent of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncKind {
    /// The bytes, and what is needed to find them again (`fdatasync`).
    Data,
    /// All of the file's attributes too (`fsync`).
    All,
}

/// Requests and bytes of a store since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Calls of [`Store::read`] and [`Store::read_vec`], failed ones too.
    pub read_requests: u64,
    /// Calls of [`Store::write`] and [`Store::write_bytes`], failed ones too.
    pub write_requests: u64,
    /// Calls of [`Store::sync`], failed ones too.
    pub sync_requests: u64,
    /// Bytes that reads brought.
    pub read_bytes: u64,
    /// Bytes of the writes that succeeded.
    pub write_bytes: u64,
    /// Calls of any kind that failed.
    pub errors: u64,
}

#[cfg(test)]
mod testing;
