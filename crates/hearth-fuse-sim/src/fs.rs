//! The store's calls: those of `rustix`, over a directory of this host, with another thread's turn before each.
//!
//! Numbers of inodes and times depend on the host. So the front end is told others: numbers in the order in which they
//! are seen, and times that keep the order which those of one inode have.

use real_rustix::fd::{AsFd, OwnedFd};
use real_rustix::path::Arg;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::thread::yield_now;

pub use real_rustix::fs::*;

type Result<T> = real_rustix::io::Result<T>;

::std::thread_local! {
    static SEEN: RefCell<Seen> = RefCell::default();
}

/// The numbers and times of a world.
#[derive(Default)]
struct Seen {
    numbers: BTreeMap<u64, u64>,
    times: BTreeMap<(u64, i64, u32), u64>,
    last: u64,
}

impl Seen {
    /// The root of the mount has 1 there, whatever it is here.
    fn number(&mut self, ino: u64) -> u64 {
        let next = self.numbers.len() as u64 + 2;
        *self.numbers.entry(ino).or_insert(next)
    }

    fn time(&mut self, ino: u64, stamp: &mut StatxTimestamp) {
        let place = (ino, stamp.tv_sec, stamp.tv_nsec);
        let last = &mut self.last;
        let told = *self.times.entry(place).or_insert_with(|| {
            *last += 1;
            *last
        });
        (stamp.tv_sec, stamp.tv_nsec) = (1_000_000 + told as i64, 0);
    }
}

/// The clock by which writes are dated: no earlier than any time that was told.
pub(crate) fn now_ns() -> i64 {
    SEEN.with_borrow(|all| (1_000_000 + all.last as i64) * 1_000_000_000)
}

/// As `rustix` has it.
pub fn statx(fd: impl AsFd, path: impl Arg, at: AtFlags, mask: StatxFlags) -> Result<Statx> {
    yield_now();
    let mut seen = real_rustix::fs::statx(fd, path, at, mask)?;
    SEEN.with_borrow_mut(|all| {
        let ino = all.number(seen.stx_ino);
        let times = [
            &mut seen.stx_btime,
            &mut seen.stx_mtime,
            &mut seen.stx_ctime,
        ];
        let mut times = times.map(|time| ((time.tv_sec, time.tv_nsec), time));
        times.sort_by_key(|(order, _)| *order);
        times.into_iter().for_each(|(_, time)| all.time(ino, time));
        // A look of anybody moves it.
        seen.stx_atime = seen.stx_btime;
        seen.stx_ino = ino;
    });
    Ok(seen)
}

/// As `rustix` has it.
pub fn openat(dir: impl AsFd, path: impl Arg, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    yield_now();
    real_rustix::fs::openat(dir, path, flags, mode)
}

/// As `rustix` has it.
pub fn open(path: impl Arg, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    yield_now();
    real_rustix::fs::open(path, flags, mode)
}

/// As `rustix` has it.
pub fn mkdirat(dir: impl AsFd, path: impl Arg, mode: Mode) -> Result<()> {
    yield_now();
    real_rustix::fs::mkdirat(dir, path, mode)
}

/// As `rustix` has it.
pub fn unlinkat(dir: impl AsFd, path: impl Arg, flags: AtFlags) -> Result<()> {
    yield_now();
    real_rustix::fs::unlinkat(dir, path, flags)
}

/// As `rustix` has it.
pub fn renameat(from: impl AsFd, old: impl Arg, to: impl AsFd, new: impl Arg) -> Result<()> {
    yield_now();
    real_rustix::fs::renameat(from, old, to, new)
}

/// As `rustix` has it.
pub fn chmod(path: impl Arg, mode: Mode) -> Result<()> {
    yield_now();
    real_rustix::fs::chmod(path, mode)
}

/// As `rustix` has it.
pub struct RawDir<'a, Fd: AsFd>(real_rustix::fs::RawDir<'a, Fd>);

/// An entry of it.
pub struct RawDirEntry<'a>(real_rustix::fs::RawDirEntry<'a>);

impl<'a, Fd: AsFd> RawDir<'a, Fd> {
    /// As `rustix` has it.
    pub fn new(fd: Fd, buffer: &'a mut [MaybeUninit<u8>]) -> RawDir<'a, Fd> {
        RawDir(real_rustix::fs::RawDir::new(fd, buffer))
    }

    /// As `rustix` has it.
    #[expect(clippy::should_implement_trait, reason = "it lends")]
    pub fn next(&mut self) -> Option<Result<RawDirEntry<'_>>> {
        if self.0.is_buffer_empty() {
            yield_now();
        }
        let next = self.0.next()?;
        Some(next.map(RawDirEntry))
    }

    /// As `rustix` has it.
    pub fn is_buffer_empty(&self) -> bool {
        self.0.is_buffer_empty()
    }
}

impl RawDirEntry<'_> {
    /// As `rustix` has it.
    pub fn file_name(&self) -> &CStr {
        self.0.file_name()
    }

    /// As `rustix` has it.
    pub fn ino(&self) -> u64 {
        SEEN.with_borrow_mut(|all| all.number(self.0.ino()))
    }

    /// As `rustix` has it.
    pub fn file_type(&self) -> FileType {
        self.0.file_type()
    }

    /// As `rustix` has it.
    pub fn next_entry_cookie(&self) -> u64 {
        self.0.next_entry_cookie()
    }
}
