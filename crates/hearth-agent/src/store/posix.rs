//! A mounted directory: plain system calls.

use std::io;
use std::os::fd::BorrowedFd;

use hearth_client::belief::{CachingClient, Mounted};
use hearth_client::{Errno, FileStamp};
use hearth_shm::{FramePart, Pool};
use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::retry_on_intr;

use super::room::with_room;
use super::{Store, StoreCounts, SyncKind, parts};

/// The store as the kernel offers it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Posix;

impl Store for Posix {
    fn read(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        parts: &[FramePart],
        pool: &Pool,
    ) -> Result<usize, Errno> {
        transfer(parts::total(parts), |done| match done {
            0 => pool.preadv(file, parts, offset),
            _ => pool.preadv(file, &parts::after(parts, done), offset + done as u64),
        })
    }

    fn read_vec(&self, file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; len];
        let read = transfer(len, |done| {
            Ok(rustix::io::pread(
                file,
                &mut bytes[done..],
                offset + done as u64,
            )?)
        })?;
        bytes.truncate(read);
        Ok(bytes)
    }

    fn write(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        parts: &[FramePart],
        pool: &Pool,
    ) -> Result<(), Errno> {
        let len = parts::total(parts);
        let write = || {
            transfer(len, |done| match done {
                0 => pool.pwritev(file, parts, offset),
                _ => pool.pwritev(file, &parts::after(parts, done), offset + done as u64),
            })
        };
        all_of(len, with_room(write)?)
    }

    fn write_bytes(&self, file: BorrowedFd<'_>, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let write = || {
            transfer(bytes.len(), |done| {
                Ok(rustix::io::pwrite(
                    file,
                    &bytes[done..],
                    offset + done as u64,
                )?)
            })
        };
        all_of(bytes.len(), with_room(write)?)
    }

    fn append(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> Result<u64, Errno> {
        use rustix::io::ReadWriteFlags;
        let slices = [std::io::IoSlice::new(bytes)];
        let end = rustix::fs::fstat(file).map_err(from_rustix)?.st_size as u64;
        // The kernel finds the end under the inode's lock; what it does not take goes after that.
        let written =
            retry_on_intr(|| rustix::io::pwritev2(file, &slices, 0, ReadWriteFlags::APPEND))
                .map_err(from_rustix)?;
        if written < bytes.len() {
            self.write_bytes(file, end + written as u64, &bytes[written..])?;
        }
        let after = rustix::fs::fstat(file).map_err(from_rustix)?.st_size as u64;
        Ok(after.saturating_sub(bytes.len() as u64).max(end))
    }

    fn sync(&self, file: BorrowedFd<'_>, kind: SyncKind) -> Result<(), Errno> {
        retry_on_intr(|| match kind {
            SyncKind::Data => rustix::fs::fdatasync(file),
            SyncKind::All => rustix::fs::fsync(file),
        })
        .map_err(from_rustix)
    }

    fn truncate(&self, file: BorrowedFd<'_>, size: u64) -> Result<(), Errno> {
        retry_on_intr(|| rustix::fs::ftruncate(file, size)).map_err(from_rustix)
    }

    fn stamp(&self, file: BorrowedFd<'_>) -> Result<FileStamp, Errno> {
        let stat = rustix::fs::fstat(file).map_err(from_rustix)?;
        Ok(FileStamp {
            ctime_ns: stat.st_ctime * 1_000_000_000 + stat.st_ctime_nsec as i64,
            mtime_ns: stat.st_mtime * 1_000_000_000 + stat.st_mtime_nsec as i64,
            size: u64::try_from(stat.st_size).expect("sizes are not negative"),
        })
    }

    fn renew(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
        let wanted = StatxFlags::BASIC_STATS;
        let looked = rustix::fs::statx(file, "", flags, wanted);
        looked.map(drop).map_err(from_rustix)
    }

    fn counts(&self) -> StoreCounts {
        StoreCounts::default()
    }

    fn describe(&self) -> String {
        "posix".to_owned()
    }
}

impl CachingClient for Posix {
    fn reaches(&self, file: BorrowedFd<'_>, offset: u64) -> bool {
        Mounted.reaches(file, offset)
    }

    fn look_anew(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        Mounted.look_anew(file)
    }
}

/// Calls `step` with the bytes done so far until `len` are done or it does none.
fn transfer(len: usize, mut step: impl FnMut(usize) -> io::Result<usize>) -> Result<usize, Errno> {
    let mut done = 0;
    while done < len {
        match step(done) {
            Ok(0) => break,
            Ok(moved) => done += moved,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(errno(&error)),
        }
    }
    Ok(done)
}

/// A file system that takes no more bytes and gives no reason is broken.
fn all_of(len: usize, written: usize) -> Result<(), Errno> {
    if written == len {
        Ok(())
    } else {
        Err(from_rustix(rustix::io::Errno::IO))
    }
}

fn errno(error: &io::Error) -> Errno {
    // Without a number the call never reached the kernel: no file has such an offset.
    Errno(
        error
            .raw_os_error()
            .unwrap_or(rustix::io::Errno::INVAL.raw_os_error()),
    )
}

pub(super) fn from_rustix(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}

#[cfg(test)]
mod tests;
