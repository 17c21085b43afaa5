//! Space inside files: preallocation, holes.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use fuser::FileHandle;
use rustix::fs::FallocateFlags;

use crate::core::Core;
use crate::errors::{Sought, ask, ask_soon, raw};
use crate::handles::{OpenHandle, Way};
use crate::stat::Stat;

/// A run of bytes to allocate.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) mode: i32,
}

impl Core {
    /// `FALLOCATE`. May wait for the session.
    ///
    /// Through the session only the modes that leave content alone are offered: punching and
    /// shifting would change bytes behind the caches of all nodes. Programs fall back to writing.
    pub(crate) fn fallocate(&self, number: FileHandle, extent: Extent) -> io::Result<()> {
        let open = self.files.find(number)?;
        let flags = FallocateFlags::from_bits_retain(extent.mode as u32);
        if let Way::Store = open.way {
            return Ok(rustix::fs::fallocate(
                &*open.fd,
                flags,
                extent.offset,
                extent.len,
            )?);
        }
        if !FallocateFlags::KEEP_SIZE.contains(flags) {
            return Err(raw(libc::EOPNOTSUPP));
        }
        let end = extent
            .offset
            .checked_add(extent.len)
            .ok_or(raw(libc::EFBIG))?;
        self.settle(&open)?;
        self.allocate(&open, extent)?;
        if flags.is_empty() {
            self.grow(&open, end)?;
        }
        Ok(())
    }

    /// Allocates without touching size or content.
    fn allocate(&self, open: &OpenHandle, extent: Extent) -> io::Result<()> {
        self.touch(&open.node, |_| {
            let flags = FallocateFlags::KEEP_SIZE;
            Ok(rustix::fs::fallocate(
                &*open.fd,
                flags,
                extent.offset,
                extent.len,
            )?)
        })
    }

    /// Asks the servers of the store whether a file may be so large. May wait for the session.
    pub(crate) fn servers_take(&self, open: &OpenHandle, end: u64) -> io::Result<()> {
        self.touch(&open.node, |_| self.extents.ask(open.fd.as_fd(), end))
    }

    fn grow(&self, open: &OpenHandle, end: u64) -> io::Result<()> {
        let file = open.node.file();
        let known = ask_soon(Sought::of("the size", file), |done| {
            self.session.size(file, true, done)
        })?;
        let size = match known.and_then(|known| known.size) {
            Some(size) => size,
            None => Stat::of(&*open.fd)?.size(),
        };
        if end <= size {
            return Ok(());
        }
        let fd = open.fd.try_clone()?;
        match ask(|done| self.session.truncate(file, fd, end, done))? {
            Some(()) => Ok(()),
            None => Ok(rustix::fs::ftruncate(&*open.fd, end)?),
        }
    }

    /// `LSEEK` for data and holes, which only the store knows. May wait for the session.
    pub(crate) fn lseek(&self, number: FileHandle, offset: i64, whence: i32) -> io::Result<i64> {
        let open = self.files.find(number)?;
        let from = u64::try_from(offset).map_err(|_| raw(libc::ENXIO))?;
        let target = match whence {
            libc::SEEK_DATA => SeekTarget::Data,
            libc::SEEK_HOLE => SeekTarget::Hole,
            _ => return Err(raw(libc::EINVAL)),
        };
        self.settle(&open)?;
        // Nobody reads at the position of this descriptor, so moving it harms nobody.
        let found = match target {
            SeekTarget::Data => rustix::fs::seek(&*open.fd, rustix::fs::SeekFrom::Data(from)),
            SeekTarget::Hole => rustix::fs::seek(&*open.fd, rustix::fs::SeekFrom::Hole(from)),
        }?;
        i64::try_from(found).map_err(|_| raw(libc::EOVERFLOW))
    }

    fn settle(&self, open: &Arc<OpenHandle>) -> io::Result<()> {
        if let Way::Session(_) = open.way {
            ask(|done| self.session.settle(open.node.file(), done))?;
        }
        Ok(())
    }
}

enum SeekTarget {
    Data,
    Hole,
}
