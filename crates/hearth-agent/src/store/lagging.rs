//! A double of a network file system, for tests: each agent is a client of its own.
//!
//! A client keeps what it has learned of names, attributes and pages until the next second of a logical clock, as that of
//! GlusterFS does by its defaults, and hears nothing of what other clients do meanwhile. Descriptors that are open are
//! always right about their file, but not about its size and its bytes: a read ends where the client believes that the
//! file does. To open a file anew changes nothing of that; to be made to look anew does.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hearth_client::belief::CachingClient;
use hearth_client::{Errno, FileStamp};
use hearth_shm::{FramePart, Pool};
use rustix::fs::OFlags;
use rustix::io::Errno as Sys;

use super::{Posix, Store, StoreCounts, SyncKind, open_by_name, parts};

/// Bytes of a page that a client keeps.
const PAGE: u64 = 4096;

/// The seconds of a test: they pass when it says so.
#[derive(Clone, Debug, Default)]
pub struct Seconds(Arc<AtomicU64>);

impl Seconds {
    /// A second passes: clients look at everything anew.
    pub fn pass(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl PartialEq for Seconds {
    fn eq(&self, other: &Seconds) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Seconds {}

/// One client.
#[derive(Debug, Default)]
pub struct Lagging {
    seconds: Seconds,
    kept: Mutex<Kept>,
}

/// The beliefs that it has gained in this second.
#[derive(Debug, Default)]
struct Kept {
    second: u64,
    names: HashMap<PathBuf, rustix::io::Result<Arc<OwnedFd>>>,
    stamps: HashMap<u64, FileStamp>,
    pages: HashMap<(u64, u64), Vec<u8>>,
}

impl Lagging {
    /// A client that knows nothing yet.
    pub fn new(seconds: Seconds) -> Lagging {
        Lagging {
            seconds,
            kept: Mutex::default(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let second = self.seconds.0.load(Ordering::SeqCst);
        if kept.second != second {
            *kept = Kept {
                second,
                ..Kept::default()
            };
        }
        kept
    }

    /// The inode that this client believes a name to be.
    fn look_up(&self, root: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<Arc<OwnedFd>> {
        let mut kept = self.kept();
        let looked = kept.names.entry(path.to_owned());
        let found = looked.or_insert_with(|| open_by_name(root, path, OFlags::PATH).map(Arc::new));
        let found = found.clone()?;
        // Attributes come along with a name.
        let (number, stamp) = (number_of(found.as_fd()), Posix.stamp(found.as_fd()));
        if let (Ok(number), Ok(stamp)) = (number, stamp) {
            kept.stamps.entry(number).or_insert(stamp);
        }
        Ok(found)
    }

    fn wrote(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        self.forget(number_of(file)?);
        Ok(())
    }

    fn forget(&self, number: u64) {
        let mut kept = self.kept();
        kept.stamps.remove(&number);
        kept.pages.retain(|&(of, _), _| of != number);
    }

    /// A page, as this client believes it to be; short at the end of the file.
    fn page(&self, file: BorrowedFd<'_>, number: u64, page: u64) -> Result<Vec<u8>, Errno> {
        if let Some(bytes) = self.kept().pages.get(&(number, page)) {
            return Ok(bytes.clone());
        }
        let bytes = Posix.read_vec(file, page * PAGE, PAGE as usize)?;
        self.kept().pages.insert((number, page), bytes.clone());
        Ok(bytes)
    }
}

fn number_of(file: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(rustix::fs::fstat(file)?.st_ino)
}

impl Store for Lagging {
    fn open(
        &self,
        root: BorrowedFd<'_>,
        path: &Path,
        access: OFlags,
    ) -> rustix::io::Result<OwnedFd> {
        if path.is_absolute() {
            return open_by_name(root, path, access);
        }
        let found = self.look_up(root, path)?;
        if access.contains(OFlags::PATH) {
            return found.as_fd().try_clone_to_owned().map_err(|_| Sys::MFILE);
        }
        let again = PathBuf::from(format!("/proc/self/fd/{}", found.as_raw_fd()));
        open_by_name(root, &again, access)
    }

    fn read(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        parts: &[FramePart],
        pool: &Pool,
    ) -> Result<usize, Errno> {
        let bytes = self.read_vec(file, offset, parts::total(parts))?;
        let mut rest = bytes.as_slice();
        for part in parts {
            let (here, more) = rest.split_at(part.len.min(rest.len()));
            pool.write(part.frame, part.offset, here);
            rest = more;
        }
        Ok(bytes.len())
    }

    fn read_vec(&self, file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Vec<u8>, Errno> {
        let number = number_of(file)?;
        let first = offset / PAGE;
        let mut bytes = Vec::new();
        let skip = (offset - first * PAGE) as usize;
        for page in first.. {
            let part = self.page(file, number, page)?;
            bytes.extend_from_slice(&part);
            if part.len() < PAGE as usize || bytes.len() >= skip + len {
                break;
            }
        }
        // Nothing is asked for behind the end that this client believes in.
        let believed = self.kept().stamps.get(&number).map(|stamp| stamp.size);
        let believed = believed.map_or(usize::MAX, |size| {
            size.saturating_sub(first * PAGE) as usize
        });
        let end = bytes.len().min(skip + len).min(believed);
        Ok(bytes[skip.min(end)..end].to_vec())
    }

    fn write(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        parts: &[FramePart],
        pool: &Pool,
    ) -> Result<(), Errno> {
        Posix.write(file, offset, parts, pool)?;
        self.wrote(file)
    }

    fn write_bytes(&self, file: BorrowedFd<'_>, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        Posix.write_bytes(file, offset, bytes)?;
        self.wrote(file)
    }

    fn append(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> Result<u64, Errno> {
        let at = Posix.append(file, bytes)?;
        self.wrote(file)?;
        Ok(at)
    }

    fn sync(&self, file: BorrowedFd<'_>, kind: SyncKind) -> Result<(), Errno> {
        Posix.sync(file, kind)
    }

    fn truncate(&self, file: BorrowedFd<'_>, size: u64) -> Result<(), Errno> {
        Posix.truncate(file, size)?;
        self.wrote(file)
    }

    fn stamp(&self, file: BorrowedFd<'_>) -> Result<FileStamp, Errno> {
        let number = number_of(file)?;
        if let Some(stamp) = self.kept().stamps.get(&number) {
            return Ok(*stamp);
        }
        let stamp = Posix.stamp(file)?;
        self.kept().stamps.insert(number, stamp);
        Ok(stamp)
    }

    fn renew(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        self.wrote(file)
    }

    fn counts(&self) -> StoreCounts {
        Posix.counts()
    }

    fn describe(&self) -> String {
        "a double of a network file system, for tests".to_owned()
    }
}

impl CachingClient for Lagging {
    fn reaches(&self, file: BorrowedFd<'_>, offset: u64) -> bool {
        Posix.stamp(file).is_ok_and(|stamp| stamp.size > offset)
    }

    fn look_anew(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        self.forget(number_of(file)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
