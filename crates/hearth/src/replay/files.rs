//! Files that a replayed process has open, and what an operation does to them.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hearth_trace::Op;
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use super::step::Traced;

/// Bytes that one call moves; more becomes several calls.
pub(crate) const CALL_BYTES_MAX: usize = 8 << 20;

/// Open flags that are given again. Direct I/O is not: it would need the program's alignment.
const FLAGS: OFlags = OFlags::ACCMODE
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::TRUNC)
    .union(OFlags::APPEND)
    .union(OFlags::SYNC)
    .union(OFlags::DSYNC)
    .union(OFlags::NOFOLLOW);

/// A file as a process opened it.
struct Handle {
    fd: OwnedFd,
    reads: bool,
    writes: bool,
}

/// The open files of one process.
#[derive(Default)]
pub(crate) struct Process {
    open: Mutex<HashMap<u32, Vec<Arc<Handle>>>>,
}

/// The memory that a thread reads into and writes from.
pub(crate) struct Buffer(Vec<u8>);

impl Buffer {
    pub(crate) fn new() -> Buffer {
        Buffer(Vec::new())
    }

    fn of(&mut self, bytes: u64) -> &mut [u8] {
        let bytes =
            usize::try_from(bytes).map_or(CALL_BYTES_MAX, |bytes| bytes.min(CALL_BYTES_MAX));
        if self.0.len() < bytes {
            self.0.resize(bytes, 0);
        }
        &mut self.0[..bytes]
    }
}

impl Process {
    /// Does one operation. Bytes moved, or 0.
    pub(crate) fn act(&self, what: &Traced, path: &Path, buffer: &mut Buffer) -> io::Result<u64> {
        match what.op {
            Op::Open => self.open(what, path),
            Op::Close => {
                self.close(what.file);
                Ok(0)
            }
            Op::Fsync => done(rustix::fs::fsync(&self.handle(what, path)?.fd)),
            Op::Fdatasync => done(rustix::fs::fdatasync(&self.handle(what, path)?.fd)),
            Op::Fstat => done(rustix::fs::fstat(&self.handle(what, path)?.fd)),
            Op::Stat => done(rustix::fs::stat(path)),
            Op::Access => done(rustix::fs::access(path, rustix::fs::Access::EXISTS)),
            Op::Statfs => done(rustix::fs::statfs(path)),
            Op::Mkdir => done(rustix::fs::mkdir(path, Mode::from_raw_mode(0o777))),
            Op::Rmdir => done(rustix::fs::rmdir(path)),
            Op::Unlink => done(rustix::fs::unlink(path)),
            Op::Rename => done(rustix::fs::rename(path, renamed(path))),
            Op::Opendir => {
                fs::read_dir(path)?.try_for_each(|entry| entry.map(drop))?;
                Ok(0)
            }
            Op::Truncate => done(rustix::fs::ftruncate(
                &self.writable(what, path)?.fd,
                what.offset,
            )),
            Op::Fallocate => self.allocate(what, path),
            op if op.is_write() => self.write(what, path, buffer),
            _ => self.read(what, path, buffer),
        }
    }

    fn open(&self, what: &Traced, path: &Path) -> io::Result<u64> {
        let asked = OFlags::from_bits_retain(what.asked as u32);
        if asked.contains(OFlags::DIRECTORY) {
            return done(rustix::fs::open(
                path,
                OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            ));
        }
        let flags = asked & FLAGS;
        let handle = open(path, flags)?;
        self.keep(what.file, handle);
        Ok(0)
    }

    fn keep(&self, file: u32, handle: Handle) -> Arc<Handle> {
        let handle = Arc::new(handle);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.entry(file).or_default().push(handle.clone());
        handle
    }

    /// Which of several descriptors of a file was closed, a trace does not tell: the newest.
    fn close(&self, file: u32) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = open.get_mut(&file).and_then(Vec::pop);
        if open.get(&file).is_some_and(Vec::is_empty) {
            open.remove(&file);
        }
        drop(open);
        // The call that closes it is made outside of the lock.
        drop(closed);
    }

    fn handle(&self, what: &Traced, path: &Path) -> io::Result<Arc<Handle>> {
        self.find(what.file, |_| true)
            .map_or_else(|| Ok(self.keep(what.file, open(path, OFlags::RDONLY)?)), Ok)
    }

    fn writable(&self, what: &Traced, path: &Path) -> io::Result<Arc<Handle>> {
        let found = self.find(what.file, |handle| handle.writes);
        // It was open before the trace began, or came from another process.
        let open = || open(path, OFlags::RDWR | OFlags::CREATE);
        found.map_or_else(|| Ok(self.keep(what.file, open()?)), Ok)
    }

    fn find(&self, file: u32, fits: impl Fn(&Handle) -> bool) -> Option<Arc<Handle>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let handles = open.get(&file)?;
        handles.iter().rev().find(|handle| fits(handle)).cloned()
    }

    fn read(&self, what: &Traced, path: &Path, buffer: &mut Buffer) -> io::Result<u64> {
        let handle = match self.find(what.file, |handle| handle.reads) {
            Some(handle) => handle,
            None => self.keep(what.file, open(path, OFlags::RDONLY)?),
        };
        let mut moved = 0;
        while moved < what.asked {
            let into = buffer.of(what.asked - moved);
            let count = rustix::io::pread(&handle.fd, &mut *into, what.offset + moved)?;
            moved += count as u64;
            if count < into.len() {
                break;
            }
        }
        Ok(moved)
    }

    fn write(&self, what: &Traced, path: &Path, buffer: &mut Buffer) -> io::Result<u64> {
        let handle = self.writable(what, path)?;
        let mut moved = 0;
        while moved < what.bytes() {
            let from = buffer.of(what.bytes() - moved);
            let count = rustix::io::pwrite(&handle.fd, &*from, what.offset + moved)?;
            moved += count as u64;
            if count == 0 {
                break;
            }
        }
        Ok(moved)
    }

    fn allocate(&self, what: &Traced, path: &Path) -> io::Result<u64> {
        let fd = &self.writable(what, path)?.fd;
        let bytes = what.asked.max(1);
        done(rustix::fs::fallocate(
            fd,
            FallocateFlags::empty(),
            what.offset,
            bytes,
        ))
    }
}

fn open(path: &Path, flags: OFlags) -> io::Result<Handle> {
    let mode = Mode::from_raw_mode(0o666);
    let access = flags & OFlags::ACCMODE;
    Ok(Handle {
        fd: rustix::fs::open(path, flags | OFlags::CLOEXEC, mode)?,
        reads: access != OFlags::WRONLY,
        writes: access != OFlags::RDONLY,
    })
}

/// A trace has the old name of a rename only. So the file goes where no other name is.
fn renamed(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".renamed");
    PathBuf::from(name)
}

fn done<T>(result: Result<T, Errno>) -> io::Result<u64> {
    Ok(result.map(|_| 0)?)
}
