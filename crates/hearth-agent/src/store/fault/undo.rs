//! The changes that a crash of the store takes back: everything written since the last sync that
//! succeeded.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use hearth_client::Errno;
use rustix::fs::{Mode, OFlags};

use crate::store::{Posix, Store, posix};

/// Changes of files that no sync has covered yet.
#[derive(Debug, Default)]
pub(super) struct UndoLog {
    files: Vec<UndoFile>,
}

#[derive(Debug)]
struct UndoFile {
    identity: (u64, u64),
    // Our own, readable and writable: the caller's may be neither, and may be closed by then.
    file: OwnedFd,
    changes: Vec<Change>,
}

/// Bytes and size of a file before one change of it.
#[derive(Debug)]
struct Change {
    offset: u64,
    bytes: Vec<u8>,
    size: u64,
}

impl UndoLog {
    /// Remembers what a write of `len` bytes, or a cut at `offset`, is about to replace.
    pub(super) fn remember(
        &mut self,
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> Result<(), Errno> {
        let undo = self.file(file)?;
        let size = Posix.stamp(undo.file.as_fd())?.size;
        let bytes = Posix.read_vec(undo.file.as_fd(), offset, len)?;
        undo.changes.push(Change {
            offset,
            bytes,
            size,
        });
        Ok(())
    }

    /// The file is durable as it is.
    pub(super) fn forget(&mut self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        let identity = identity(file)?;
        self.files.retain(|undo| undo.identity != identity);
        Ok(())
    }

    /// Puts every file back to its last durable content.
    pub(super) fn restore(&mut self) -> Result<(), Errno> {
        for undo in self.files.drain(..) {
            for change in undo.changes.iter().rev() {
                Posix.write_bytes(undo.file.as_fd(), change.offset, &change.bytes)?;
                Posix.truncate(undo.file.as_fd(), change.size)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, file: BorrowedFd<'_>) -> Result<&mut UndoFile, Errno> {
        let identity = identity(file)?;
        let known = self.files.iter().position(|undo| undo.identity == identity);
        let index = match known {
            Some(index) => index,
            None => {
                let file = reopen(file)?;
                self.files.push(UndoFile {
                    identity,
                    file,
                    changes: Vec::new(),
                });
                self.files.len() - 1
            }
        };
        Ok(&mut self.files[index])
    }
}

fn identity(file: BorrowedFd<'_>) -> Result<(u64, u64), Errno> {
    let stat = rustix::fs::fstat(file).map_err(posix::from_rustix)?;
    Ok((stat.st_dev, stat.st_ino))
}

fn reopen(file: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(posix::from_rustix)
}
