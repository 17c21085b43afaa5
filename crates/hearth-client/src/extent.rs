//! How large a file of the store can be.
//!
//! A write beyond that has to fail as it does on the store. The cache would take it, and the store would refuse it later.
//! No call tells the number, so it is found out:
//! - A seek beyond the largest size fails with `EINVAL`, in the operating system alone. The size that it allows is
//!   right for each file: ext4 has two kinds, of different largest sizes.
//! - Of a store whose client is a program, as that of GlusterFS, the operating system allows all that a number can say.
//!   The servers know, and preallocation asks them: it is refused with `EFBIG`, or brings room for what is about to be
//!   written. Neither size nor bytes change. Without preallocation nobody can be asked before the write is made.
//! - This process may be forbidden to make large files (`ulimit -f`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Every file system takes files of this size.
const ALWAYS: u64 = 1 << 31;
/// Servers are asked about files beyond this size.
const SERVERS: u64 = 1 << 40;
/// Bytes that the largest size of a file system may lack to a power of two.
const LACK_MAX: u64 = 1 << 16;
/// Type of file systems whose client is a program.
const FUSE: i64 = 0x6573_5546;

/// Knowledge of one store.
#[derive(Debug)]
pub struct Extents {
    /// Largest size that this process may make.
    limit: u64,
    /// Size that its servers are known to take; everything, if the operating system knows.
    proven: AtomicU64,
}

impl Extents {
    /// Of the store behind a root.
    pub fn of(root: impl AsFd) -> Extents {
        let is_fuse = rustix::fs::fstatfs(root).is_ok_and(|told| told.f_type == FUSE);
        let proven = if is_fuse { SERVERS } else { u64::MAX };
        Extents {
            limit: getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX),
            proven: AtomicU64::new(proven),
        }
    }

    /// True if a write that ends there needs no look at [`Extents::largest`].
    pub fn is_small(&self, end: u64) -> bool {
        end <= ALWAYS.min(self.limit)
    }

    /// The largest size of an open file, as far as the operating system knows. Moves the descriptor's offset.
    pub fn largest(&self, file: BorrowedFd<'_>) -> u64 {
        let takes = |size: u64| {
            !matches!(
                rustix::fs::seek(file, SeekFrom::Start(size)),
                Err(Errno::INVAL)
            )
        };
        let all = i64::MAX as u64;
        if takes(all) {
            return self.limit.min(all);
        }
        let (mut taken, mut refused) = (ALWAYS, all);
        while refused - taken > 1 {
            let between = taken + (refused - taken) / 2;
            if takes(between) {
                taken = between;
            } else {
                refused = between;
            }
        }
        self.limit.min(taken)
    }

    /// True if a write that ends there waits for the servers' word on it.
    pub fn asks(&self, end: u64) -> bool {
        // A hint: whoever misses another's word asks once more.
        end > self.proven.load(Ordering::Relaxed)
    }

    /// Asks the servers whether a file that is open for writing may be so large. May wait for them.
    pub fn ask(&self, file: BorrowedFd<'_>, end: u64) -> io::Result<()> {
        let room = rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, end - 1, 1);
        if let Err(error @ Errno::FBIG) = room {
            return Err(error.into());
        }
        // Largest sizes are a little less than a power of two. A refusal of another kind will be the write's own.
        let below = end.checked_next_power_of_two().unwrap_or(u64::MAX) - LACK_MAX;
        self.proven.fetch_max(below.max(end), Ordering::Relaxed);
        Ok(())
    }
}

/// How many bytes of a write fit into a file of this largest size: fewer than asked for, where it goes beyond.
pub fn fitting(largest: u64, offset: u64, len: usize) -> io::Result<usize> {
    match usize::try_from(largest.saturating_sub(offset)).unwrap_or(usize::MAX) {
        0 if len > 0 => Err(Errno::FBIG.into()),
        room => Ok(room.min(len)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Seek, Write};
    use std::os::unix::fs::FileExt;

    /// A file system takes and refuses the sizes that were found out about it.
    fn is_right(file: &File, root: impl AsFd) {
        let largest = Extents::of(root).largest(file.as_fd());
        if largest < i64::MAX as u64 {
            let refused = file.write_at(b"x", largest).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(Errno::FBIG.raw_os_error()));
        }
        assert_eq!(file.write_at(b"x", largest - 1).unwrap(), 1, "{largest}");
        assert_eq!(file.metadata().unwrap().len(), largest);
    }

    #[test]
    fn a_file_is_as_large_as_its_store_allows() {
        let file = tempfile::tempfile().unwrap();
        is_right(&file, &file);
        let shm = File::open("/dev/shm").unwrap();
        is_right(&tempfile::tempfile_in("/dev/shm").unwrap(), shm);
    }

    #[test]
    fn what_goes_beyond_is_cut_and_then_refused() {
        assert_eq!(fitting(100, 90, 10).unwrap(), 10);
        assert_eq!(fitting(100, 90, 20).unwrap(), 10);
        assert_eq!(fitting(100, 100, 0).unwrap(), 0);
        assert!(fitting(100, 100, 1).is_err());
        assert!(fitting(100, u64::MAX, 1).is_err());
    }

    #[test]
    fn servers_are_asked_once_for_sizes_up_to_the_next_power_of_two() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"x").unwrap();
        let extents = Extents {
            limit: u64::MAX,
            proven: AtomicU64::new(SERVERS),
        };
        assert!(!extents.asks(1 << 40));
        assert!(extents.asks((1 << 40) + 1));
        extents.ask(file.as_fd(), (1 << 40) + 1).unwrap();
        assert!(!extents.asks((1 << 41) - LACK_MAX));
        assert!(extents.asks(1 << 41));
        let end = file.stream_position().unwrap();
        assert_eq!((end, file.metadata().unwrap().len()), (1, 1));
        let refused = extents
            .ask(file.as_fd(), 1 << 62)
            .map_err(|error| error.raw_os_error());
        let bare = file
            .write_at(b"x", (1 << 62) - 1)
            .map_err(|error| error.raw_os_error());
        assert_eq!(refused.is_ok(), bare.is_ok());
    }
}
