//! A descriptor of the program whose bytes come from the cache.
//!
//! The descriptor itself is real, and open in the store: its number, its offset, its locks and what
//! a child inherits are the operating system's. Only content and size are the session's.
//!
//! 1. Every rank reads the bytes that a call has written, once the call has returned.
//! 2. Bytes are in the store when `flush` has returned, and there safely after `sync`.
//! 3. An appending descriptor is open without `O_APPEND`, since the store would not heed offsets.

use std::ffi::c_int;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};

use hearth_client::extent::fitting;
use hearth_client::{Done, FileKey, Keep, Outcome, Place, Session, SessionHandle, Written};
use rustix::fs::SeekFrom;

use crate::memory::Memory;
use crate::sys::{borrow, number_of};
use crate::tally::Tally;

/// Bytes of one session call: what the pool must hold several times over.
const PIECE_BYTES: usize = 1 << 20;

/// Bytes of one session call of a request that is larger than the pool, and passes it by.
const ASIDE_BYTES: usize = 4 << 20;

/// Pieces of one request that are under way together.
const PIECES_MAX: usize = 4;

/// The open of a session that serves a descriptor.
pub(crate) struct Cached {
    session: Arc<dyn Session>,
    handle: SessionHandle,
    file: FileKey,
    path: Box<Path>,
    flags: c_int,
    pool_bytes: u64,
    /// The largest size that the file can have.
    largest: u64,
    /// Calls that go by the descriptor's own offset take turns.
    turn: Mutex<()>,
}

/// An open file that a session was asked to serve.
pub(crate) struct Opened<'a> {
    pub(crate) handle: SessionHandle,
    pub(crate) file: FileKey,
    pub(crate) path: &'a Path,
    /// As the program opened it.
    pub(crate) flags: c_int,
    /// Its largest size.
    pub(crate) largest: u64,
}

/// A place in a file where a call begins.
#[derive(Clone, Copy)]
pub(crate) enum Offset {
    /// Here; the descriptor's own offset stays.
    At(u64),
    /// At the descriptor's own offset, which moves.
    Own,
}

impl Offset {
    /// The offset of a call that takes one.
    pub(crate) fn given(offset: i64) -> io::Result<Offset> {
        u64::try_from(offset)
            .map(Offset::At)
            .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
    }
}

/// Starts a session call and waits for its answer; `None` means that the store must do it.
pub(crate) fn ask<T: Send + 'static>(start: impl FnOnce(Done<T>)) -> io::Result<Option<T>> {
    let (answer, answered) = mpsc::sync_channel(1);
    start(Box::new(move |outcome| drop(answer.send(outcome))));
    // An agent that ends drops what it has not answered.
    match answered.recv() {
        Ok(Outcome::Serve(value)) => Ok(Some(value)),
        Ok(Outcome::Bypass(_)) => Ok(None),
        Ok(Outcome::Fail(error)) => Err(io::Error::from_raw_os_error(error.0)),
        Err(mpsc::RecvError) => Err(io::Error::from_raw_os_error(libc::EIO)),
    }
}

fn refused<T>(outcome: Outcome<T>) -> i32 {
    match outcome {
        Outcome::Fail(error) => error.0,
        // A file that was opened through the cache cannot be ordered against it otherwise.
        Outcome::Bypass(_) | Outcome::Serve(_) => libc::EIO,
    }
}

impl Cached {
    pub(crate) fn new(session: Arc<dyn Session>, opened: &Opened<'_>) -> Cached {
        Cached {
            pool_bytes: session.pool_bytes(),
            session,
            handle: opened.handle,
            file: opened.file,
            path: opened.path.into(),
            flags: opened.flags,
            largest: opened.largest,
            turn: Mutex::default(),
        }
    }

    pub(crate) fn file(&self) -> FileKey {
        self.file
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn flags(&self) -> c_int {
        self.flags
    }

    /// True if a request is larger than the pool, which then keeps nothing of it.
    fn passes_by(&self, len: usize) -> bool {
        len as u64 > self.pool_bytes
    }

    fn may_read(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_WRONLY
    }

    fn may_write(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_RDONLY
    }

    /// Fills the program's memory.
    pub(crate) fn read(&self, fd: c_int, into: Memory, from: Offset) -> io::Result<usize> {
        crate::loose::before_read(self)?;
        let at = |offset| self.begin_read(into, offset)?.finish();
        match from {
            Offset::At(offset) => at(offset),
            Offset::Own => self.moving(fd, at),
        }
    }

    /// Takes bytes out of the program's memory.
    pub(crate) fn write(&self, fd: c_int, from: &Memory, to: Offset) -> io::Result<usize> {
        if self.flags & libc::O_APPEND != 0 {
            return self.append(fd, from, to);
        }
        let at = |offset| {
            let written = self.begin_write(from, offset)?.finish()?;
            crate::loose::after_write(self)?;
            self.settle_synchronous()?;
            Ok(written)
        };
        match to {
            Offset::At(offset) => at(offset),
            Offset::Own => self.moving(fd, at),
        }
    }

    /// A read that goes on when this returns; the memory is filled until the tally is complete.
    pub(crate) fn begin_read(&self, into: Memory, offset: u64) -> io::Result<Arc<Tally>> {
        if !self.may_read() {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        let tally = Arc::new(Tally::default());
        let into = Arc::new(into);
        // Nothing is kept here: every read asks, so nothing has to be called back.
        let (keep, most) = match self.passes_by(into.len()) {
            true => (Keep::Nobody, ASIDE_BYTES),
            false => (Keep::Pool, PIECE_BYTES),
        };
        for (from, len) in pieces(into.len(), most) {
            tally.wait_below(PIECES_MAX);
            let slot = tally.add(len);
            let into = Arc::clone(&into);
            let done = Box::new(move |outcome: Outcome<&[&[u8]]>| match outcome {
                Outcome::Serve(parts) => {
                    let mut at = from;
                    for part in parts {
                        into.put(at, part);
                        at += part.len();
                    }
                    slot.fill(Ok(at - from));
                }
                other => slot.fill(Err(refused(other))),
            });
            let offset = offset + from as u64;
            self.session
                .read(self.handle, offset, len as u32, keep, done);
        }
        Ok(tally)
    }

    /// A write that goes on when this returns; the bytes have been taken.
    pub(crate) fn begin_write(&self, from: &Memory, offset: u64) -> io::Result<Arc<Tally>> {
        if !self.may_write() {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        let tally = Arc::new(Tally::default());
        let whole = fitting(self.largest, offset, from.len())?;
        let aside = self.passes_by(whole);
        let most = if aside { ASIDE_BYTES } else { PIECE_BYTES };
        for (begin, len) in pieces(whole, most) {
            tally.wait_below(PIECES_MAX);
            let slot = tally.add(len);
            let done = Box::new(move |outcome: Outcome<Written>| match outcome {
                Outcome::Serve(_) => slot.fill(Ok(len)),
                other => slot.fill(Err(refused(other))),
            });
            let offset = offset + begin as u64;
            let place = match aside {
                true => Place::Aside(offset),
                false => Place::At(offset),
            };
            self.session
                .write(self.handle, place, from.take(begin, len), done);
        }
        Ok(tally)
    }

    /// Pieces go one after the other, each to a place of its own at the end.
    fn append(&self, fd: c_int, from: &Memory, to: Offset) -> io::Result<usize> {
        if !self.may_write() {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        let mut end = None;
        // Files come near their largest size by truncation, of which the store knows.
        let known = rustix::fs::fstat(borrow(fd))?.st_size.cast_unsigned();
        let whole = fitting(self.largest, known, from.len())?;
        for (begin, len) in pieces(whole, PIECE_BYTES) {
            let bytes = from.take(begin, len);
            let written = ask(|done| self.session.write(self.handle, Place::End, bytes, done));
            match written {
                Ok(Some(written)) => end = Some(written.offset + len as u64),
                Ok(None) => return Err(io::Error::from_raw_os_error(libc::EIO)),
                Err(_) if begin > 0 => return Ok(begin),
                Err(error) => return Err(error),
            }
        }
        if let (Offset::Own, Some(end)) = (to, end) {
            rustix::fs::seek(borrow(fd), SeekFrom::Start(end))?;
        }
        crate::loose::after_write(self)?;
        self.settle_synchronous()?;
        Ok(whole)
    }

    /// Does something at the descriptor's own offset, and moves it.
    fn moving(&self, fd: c_int, run: impl FnOnce(u64) -> io::Result<usize>) -> io::Result<usize> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = rustix::fs::seek(borrow(fd), SeekFrom::Current(0))?;
        let len = run(offset)?;
        rustix::fs::seek(borrow(fd), SeekFrom::Start(offset + len as u64))?;
        Ok(len)
    }

    /// As `lseek`; the end is where the cache knows it to be.
    pub(crate) fn seek(&self, fd: c_int, offset: i64, whence: c_int) -> io::Result<i64> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
        let target = match whence {
            libc::SEEK_SET => u64::try_from(offset).map_err(|_| invalid())?,
            libc::SEEK_END => {
                let size = self.size(fd)?;
                size.checked_add_signed(offset).ok_or_else(invalid)?
            }
            libc::SEEK_CUR => {
                return Ok(rustix::fs::seek(borrow(fd), SeekFrom::Current(offset))?.cast_signed());
            }
            // Holes are what the store says they are, once it has every byte.
            libc::SEEK_DATA | libc::SEEK_HOLE => {
                self.settle()?;
                let from = u64::try_from(offset).map_err(|_| invalid())?;
                match whence {
                    libc::SEEK_DATA => {
                        return Ok(
                            rustix::fs::seek(borrow(fd), SeekFrom::Data(from))?.cast_signed()
                        );
                    }
                    _ => {
                        return Ok(
                            rustix::fs::seek(borrow(fd), SeekFrom::Hole(from))?.cast_signed()
                        );
                    }
                }
            }
            _ => return Err(invalid()),
        };
        Ok(rustix::fs::seek(borrow(fd), SeekFrom::Start(target))?.cast_signed())
    }

    /// The size, wherever its last bytes are.
    pub(crate) fn size(&self, fd: c_int) -> io::Result<u64> {
        if let Some(size) = self.known_size()? {
            return Ok(size);
        }
        let stat = rustix::fs::fstat(borrow(fd))?;
        Ok(stat.st_size.cast_unsigned())
    }

    /// The size if the store does not know it.
    pub(crate) fn known_size(&self) -> io::Result<Option<u64>> {
        let known = ask(|done| self.session.size(self.file, true, done))?;
        Ok(known.and_then(|known| known.size))
    }

    /// Sets the size, here and in the store.
    pub(crate) fn truncate(&self, fd: OwnedFd, size: i64) -> io::Result<()> {
        let size = u64::try_from(size).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        if !self.may_write() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        self.resize(fd, size)
    }

    /// The same for a file opened to be emptied.
    pub(crate) fn resize(&self, fd: OwnedFd, size: u64) -> io::Result<()> {
        let direct = rustix::io::dup(&fd)?;
        match ask(|done| self.session.truncate(self.file, fd, size, done))? {
            Some(()) => Ok(()),
            None => Ok(rustix::fs::ftruncate(direct, size)?),
        }
    }

    /// Every byte that this rank wrote is in the store.
    pub(crate) fn flush(&self) -> io::Result<()> {
        if self.may_write() {
            ask(|done| self.session.flush(self.handle, done))?;
        }
        Ok(())
    }

    /// Every byte of the file is in the store, and the store has made it safe.
    pub(crate) fn sync(&self, fd: c_int) -> io::Result<()> {
        match ask(|done| self.session.sync(self.handle, done))? {
            Some(()) => Ok(()),
            None => Ok(rustix::fs::fsync(borrow(fd))?),
        }
    }

    /// Other ranks can see what this one wrote, and it what they wrote.
    pub(crate) fn exchange(&self) -> io::Result<()> {
        ask(|done| self.session.exchange(self.handle, done)).map(drop)
    }

    /// Every dirty byte of any rank is in the store.
    pub(crate) fn settle(&self) -> io::Result<()> {
        ask(|done| self.session.settle(self.file, done)).map(drop)
    }

    /// The file's last name is about to go; what became of it is to be told to [`Cached::detached`], if this is true.
    pub(crate) fn detach(&self) -> bool {
        match ask(|done| self.session.detach(self.file, done)) {
            Ok(_) => true,
            Err(error) => {
                log::warn!("cannot empty the cache of {}: {error}", self.path.display());
                false
            }
        }
    }

    /// The name is gone, or stays.
    pub(crate) fn detached(&self, gone: bool) {
        self.session.detached(self.file, gone);
    }

    /// Space for `len` bytes at `offset`, with the file at least so long.
    pub(crate) fn allocate(&self, fd: c_int, offset: i64, len: i64) -> io::Result<()> {
        let end = offset
            .checked_add(len)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EFBIG))?;
        if offset < 0 || len <= 0 {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        self.settle()?;
        if self.size(fd)?.cast_signed() < end {
            self.truncate(crate::open::duplicate(fd)?, end)?;
        }
        Ok(())
    }

    /// Syncs a write if `O_SYNC` or `O_DSYNC` asks for it; the bits of `O_SYNC` include those of `O_DSYNC`.
    fn settle_synchronous(&self) -> io::Result<()> {
        if self.flags & libc::O_DSYNC != 0 {
            ask(|done| self.session.sync(self.handle, done))?;
        }
        Ok(())
    }
}

impl Drop for Cached {
    fn drop(&mut self) {
        self.session.close(self.handle);
    }
}

/// Cuts a request into what one session call takes.
fn pieces(len: usize, most: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..len)
        .step_by(most)
        .map(move |from| (from, (len - from).min(most)))
}

/// The value that a call of the C library returns for a result, with `errno` as it must be.
pub(crate) trait Answer<T> {
    /// The value, or -1 and an error number.
    fn answer(self) -> T;
}

impl Answer<isize> for io::Result<usize> {
    fn answer(self) -> isize {
        self.map_or_else(failed, usize::cast_signed)
    }
}

impl Answer<i64> for io::Result<i64> {
    fn answer(self) -> i64 {
        self.unwrap_or_else(failed)
    }
}

impl Answer<c_int> for io::Result<()> {
    fn answer(self) -> c_int {
        self.map_or_else(failed, |()| 0)
    }
}

fn failed<T: From<i8>>(error: io::Error) -> T {
    crate::sys::set_errno(number_of(&error));
    T::from(-1)
}
