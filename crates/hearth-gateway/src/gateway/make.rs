//! Calls that a gateway makes on files: attributes, bytes, locks, space.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use hearth_fuse::store::{RangeLock, Stat, proc_path, set_lock, test_lock};
use rustix::fs::{
    Access, AtFlags, CWD, FallocateFlags, Gid, Mode, OFlags, RawDir, SeekFrom, Timespec,
    Timestamps, UTIME_NOW, UTIME_OMIT, Uid, XattrFlags,
};
use rustix::io::ReadWriteFlags;

use super::{Client, Shared};
use crate::call::{
    Answer, Asked, Call, Change, Ino, Inode, Listed, Lock, Moment, Open, Place, Refused, Space,
    Told, encode,
};

/// The longest read, and the longest value of an attribute, that is answered at once.
const BYTES_MAX: u32 = 4 << 20;

/// Flags of an open that a proxy mount's operating system has acted on, or that only make sense there.
const OPEN_FLAGS: i32 = libc::O_ACCMODE | libc::O_APPEND | libc::O_TRUNC | libc::O_NOATIME;

impl Shared {
    /// Makes a call under its caller's rights (G2). Bytes that it reads are put into `bytes`.
    pub(super) fn make(
        &self,
        client: &Client,
        asked: Asked,
        payload: &[u8],
        bytes: &mut Vec<u8>,
    ) -> Told {
        let whom = asked.caller.credentials();
        if self.only.is_some_and(|uid| uid != whom.uid) {
            return Err(Refused::Errno(libc::EACCES));
        }
        match asked.call {
            Call::Ping => Ok(Answer::Done),
            Call::Forget(inos) => {
                for ino in inos {
                    client.opened.forget(ino, &self.nodes);
                }
                Ok(Answer::Done)
            }
            call => {
                hearth_fuse::store::put_on_mask(0)?;
                match self.make_name(client, &whom, &call) {
                    Some(told) => told,
                    None => {
                        let made = By {
                            shared: self,
                            client,
                            whom: &whom,
                        };
                        made.file(call, payload, bytes)
                    }
                }
            }
        }
    }

    /// A descriptor of an inode.
    pub(super) fn reach(&self, ino: Ino) -> Result<Arc<OwnedFd>, Refused> {
        let unknown = |error: std::io::Error| match error.raw_os_error() {
            Some(libc::ESTALE) => Refused::NoInode(ino),
            _ => error.into(),
        };
        self.nodes.fd(ino).map_err(unknown)
    }
}

/// On whose behalf a call about one file is made.
struct By<'a> {
    shared: &'a Shared,
    client: &'a Client,
    whom: &'a hearth_fuse::store::Credentials,
}

impl By<'_> {
    fn file(&self, call: Call, payload: &[u8], bytes: &mut Vec<u8>) -> Told {
        match call {
            Call::Attributes(ino) => self.attributes(ino),
            Call::Change(ino, change) => self.change(ino, &change),
            Call::Open(ino, open, flags) => self.open(ino, open, flags),
            Call::ReadLink(ino) => {
                let fd = self.shared.reach(ino)?;
                *bytes = rustix::fs::readlinkat(&*fd, "", Vec::new())?.into_bytes();
                Ok(Answer::Bytes)
            }
            Call::Read(open, offset, len) => self.read(open, offset, len, bytes),
            Call::Write(open, place) => self.write(open, place, payload),
            Call::Sync(open, data) => self.sync(open, data),
            Call::Close(open) | Call::CloseDir(open) => {
                self.client.opened.close(open);
                Ok(Answer::Done)
            }
            Call::OpenDir(ino, open) => self.open_with(ino, open, OFlags::DIRECTORY),
            Call::ReadDir(open, offset, len) => self.list(open, offset, len, bytes),
            Call::SyncDir(open) => self.sync(open, false),
            Call::Space(ino) => self.space(ino),
            Call::Access(ino, mask) => self.access(ino, mask),
            Call::TestLock(open, lock) => self.test(open, lock),
            Call::SetLock(open, lock) => self.lock(open, lock),
            Call::Allocate(open, offset, len, mode) => self.allocate(open, (offset, len), mode),
            Call::Seek(open, offset, whence) => self.seek(open, offset, whence),
            other => self.extended(other, payload, bytes),
        }
    }

    fn attributes(&self, ino: Ino) -> Told {
        let fd = self.shared.reach(ino)?;
        let stat = Stat::of(&*fd)?;
        Ok(Answer::Inode(Inode::new(ino, 0, &stat)))
    }

    fn change(&self, ino: Ino, change: &Change) -> Told {
        let fd = self.shared.reach(ino)?;
        let open = change
            .open
            .map(|open| self.client.opened.find(open))
            .transpose()?;
        {
            let _as = self.shared.wardrobe.assume_all(self.whom)?;
            // Mode before owner: the old owner may change both, and not after giving the file away.
            if let Some(mode) = change.mode {
                rustix::fs::chmod(proc_path(&*fd), Mode::from_raw_mode(mode & 0o7777))?;
            }
            if change.uid.is_some() || change.gid.is_some() {
                let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
                rustix::fs::chownat(&*fd, "", uid, gid, AtFlags::EMPTY_PATH)?;
            }
            if let Some(size) = change.size {
                resize(&fd, open.as_deref(), size)?;
            }
            if change.atime.is_some() || change.mtime.is_some() {
                let times = Timestamps {
                    last_access: timespec(change.atime),
                    last_modification: timespec(change.mtime),
                };
                let path = proc_path(&*fd);
                rustix::fs::utimensat(CWD, path, &times, AtFlags::empty())?;
            }
        }
        self.attributes(ino)
    }

    fn open(&self, ino: Ino, open: Open, flags: i32) -> Told {
        let kept = OFlags::from_bits_retain((flags & OPEN_FLAGS).cast_unsigned());
        self.open_with(ino, open, kept)
    }

    fn open_with(&self, ino: Ino, open: Open, flags: OFlags) -> Told {
        let fd = self.shared.reach(ino)?;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let opened = {
            let _as = self.shared.wardrobe.assume_all(self.whom)?;
            rustix::fs::open(proc_path(&*fd), flags, Mode::empty())?
        };
        self.client.opened.add(open, opened);
        Ok(Answer::Done)
    }

    fn read(&self, open: Open, offset: u64, len: u32, bytes: &mut Vec<u8>) -> Told {
        let fd = self.client.opened.find(open)?;
        bytes.resize(len.min(BYTES_MAX) as usize, 0);
        let mut filled = 0;
        // A short read means the end of the file to the other side.
        while filled < bytes.len() {
            match rustix::io::pread(&*fd, &mut bytes[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(len) => filled += len,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        bytes.truncate(filled);
        Ok(Answer::Bytes)
    }

    fn write(&self, open: Open, place: Place, payload: &[u8]) -> Told {
        let fd = self.client.opened.find(open)?;
        let mut flags = ReadWriteFlags::empty();
        flags.set(ReadWriteFlags::APPEND, place.offset.is_none());
        flags.set(ReadWriteFlags::DSYNC, place.durable);
        let offset = place.offset.unwrap_or(0);
        // Under the writer's rights, so that set-user-id bits go as they should.
        let _as = self.shared.wardrobe.assume_all(self.whom)?;
        let written = if flags.is_empty() {
            rustix::io::pwrite(&*fd, payload, offset)
        } else {
            rustix::io::pwritev2(&*fd, &[IoSlice::new(payload)], offset, flags)
        }?;
        Ok(Answer::Count(written as u64))
    }

    fn sync(&self, open: Open, data: bool) -> Told {
        let fd = self.client.opened.find(open)?;
        match data {
            true => rustix::fs::fdatasync(&*fd)?,
            false => rustix::fs::fsync(&*fd)?,
        }
        Ok(Answer::Done)
    }

    fn list(&self, open: Open, offset: u64, len: u32, bytes: &mut Vec<u8>) -> Told {
        let fd = self.client.opened.find(open)?;
        rustix::fs::seek(&*fd, SeekFrom::Start(offset))?;
        let mut buffer = vec![MaybeUninit::uninit(); len.clamp(4096, BYTES_MAX) as usize];
        let mut entries = RawDir::new(&*fd, &mut buffer);
        let mut listing = Vec::new();
        while let Some(entry) = entries.next() {
            let entry = entry?;
            listing.push(Listed {
                name: entry.file_name().to_bytes().to_vec(),
                ino: entry.ino(),
                kind: entry.file_type().as_raw_mode(),
                next: entry.next_entry_cookie(),
            });
            if entries.is_buffer_empty() {
                break;
            }
        }
        *bytes = encode(&listing);
        Ok(Answer::Listing)
    }

    fn space(&self, ino: Ino) -> Told {
        let all = rustix::fs::fstatvfs(&*self.shared.reach(ino)?)?;
        Ok(Answer::Space(Space {
            blocks: all.f_blocks,
            blocks_free: all.f_bfree,
            blocks_available: all.f_bavail,
            files: all.f_files,
            files_free: all.f_ffree,
            block_bytes: all.f_bsize as u32,
            name_max: all.f_namemax as u32,
            fragment_bytes: all.f_frsize as u32,
        }))
    }

    fn access(&self, ino: Ino, mask: i32) -> Told {
        let fd = self.shared.reach(ino)?;
        let wanted = Access::from_bits_truncate(mask.cast_unsigned());
        let _as = self.shared.wardrobe.assume_all(self.whom)?;
        rustix::fs::accessat(CWD, proc_path(&*fd), wanted, AtFlags::EACCESS)?;
        Ok(Answer::Done)
    }

    fn test(&self, open: Open, lock: Lock) -> Told {
        let fd = self.client.opened.find(open)?;
        let RangeLock { kind, start, end } = test_lock(fd.as_fd(), range(lock))?;
        Ok(Answer::Lock(Lock { kind, start, end }))
    }

    fn lock(&self, open: Open, lock: Lock) -> Told {
        let fd = self.client.opened.find(open)?;
        set_lock(fd.as_fd(), range(lock))?;
        Ok(Answer::Done)
    }

    fn allocate(&self, open: Open, (offset, len): (u64, u64), mode: i32) -> Told {
        let fd = self.client.opened.find(open)?;
        let flags = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        let _as = self.shared.wardrobe.assume_all(self.whom)?;
        rustix::fs::fallocate(&*fd, flags, offset, len)?;
        Ok(Answer::Done)
    }

    fn seek(&self, open: Open, offset: i64, whence: i32) -> Told {
        let fd = self.client.opened.find(open)?;
        let from = u64::try_from(offset).map_err(|_| Refused::Errno(libc::ENXIO))?;
        let to = match whence {
            libc::SEEK_DATA => SeekFrom::Data(from),
            libc::SEEK_HOLE => SeekFrom::Hole(from),
            _ => return Err(Refused::Errno(libc::EINVAL)),
        };
        Ok(Answer::Count(rustix::fs::seek(&*fd, to)?))
    }

    fn extended(&self, call: Call, payload: &[u8], bytes: &mut Vec<u8>) -> Told {
        let (Call::GetExtended(ino, ..)
        | Call::ListExtended(ino, ..)
        | Call::SetExtended(ino, ..)
        | Call::RemoveExtended(ino, ..)) = &call
        else {
            return Err(Refused::Errno(libc::ENOSYS));
        };
        let fd = self.shared.reach(*ino)?;
        let path = proc_path(&*fd);
        let _as = self.shared.wardrobe.assume_all(self.whom)?;
        match &call {
            Call::GetExtended(_, name, 0) => {
                return count(rustix::fs::getxattr_query(path, name.as_slice()));
            }
            Call::ListExtended(_, 0) => return count(rustix::fs::listxattr_query(path)),
            Call::GetExtended(_, name, size) => {
                bytes.resize((*size).min(BYTES_MAX) as usize, 0);
                let len = rustix::fs::getxattr(path, name.as_slice(), &mut bytes[..])?;
                bytes.truncate(len);
                return Ok(Answer::Bytes);
            }
            Call::ListExtended(_, size) => {
                bytes.resize((*size).min(BYTES_MAX) as usize, 0);
                let len = rustix::fs::listxattr(path, &mut bytes[..])?;
                bytes.truncate(len);
                return Ok(Answer::Bytes);
            }
            Call::SetExtended(_, name, flags) => {
                let flags = XattrFlags::from_bits(flags.cast_unsigned());
                let flags = flags.ok_or(Refused::Errno(libc::EINVAL))?;
                rustix::fs::setxattr(path, name.as_slice(), payload, flags)?;
            }
            Call::RemoveExtended(_, name) => rustix::fs::removexattr(path, name.as_slice())?,
            _ => unreachable!("it is one of the four"),
        }
        Ok(Answer::Done)
    }
}

fn count(len: rustix::io::Result<usize>) -> Told {
    Ok(Answer::Count(len? as u64))
}

fn range(Lock { kind, start, end }: Lock) -> RangeLock {
    RangeLock { kind, start, end }
}

/// By the open file if there is one: it may be open for what its mode forbids by now.
fn resize(fd: &OwnedFd, open: Option<&OwnedFd>, size: u64) -> Result<(), Refused> {
    if let Some(open) = open {
        return Ok(rustix::fs::ftruncate(open, size)?);
    }
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(proc_path(fd), flags, Mode::empty())?;
    Ok(rustix::fs::ftruncate(opened, size)?)
}

fn timespec(time: Option<Moment>) -> Timespec {
    let (tv_sec, tv_nsec) = match time {
        None => (0, UTIME_OMIT),
        Some(Moment::Now) => (0, UTIME_NOW),
        Some(Moment::At(seconds, nanos)) => (seconds, i64::from(nanos)),
    };
    Timespec { tv_sec, tv_nsec }
}
