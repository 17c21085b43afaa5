//! Mapped memory: the segments of the pool, and files of shared words.
//!
//! A [`Segment`] is cut into frames, each guarded by a lock. [`Shared`] and [`Exclusive`] are the
//! only ways to Rust references into a frame, so two threads can never race on its bytes. The
//! kernel may read a frame at any time through a [`Span`]: that is no Rust access, and costs at
//! worst a torn read on its side.
//!
//! Invariants:
//! - M1: a mapping stays valid, at its full length, for the life of its owner. Segments are sealed
//!   against shrinking; the file of a [`Words`] belongs to the job and is never shortened.
//! - M2: a `&[u8]` into a frame exists only under its shared lock, a `&mut [u8]` only under its
//!   exclusive lock, and the kernel writes into a frame only under its exclusive lock.
//! - M3: other processes can only read a segment (sealed against further writable mappings).

use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{self, AtomicU32, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::index::protocol::{Board, Look};

/// Most pieces that one vectored call may name (`IOV_MAX` of Linux).
pub(crate) const PIECES_MAX: usize = 1024;

/// The size of a huge page on the processors of most machines.
pub(crate) const HUGE_BYTES: usize = 2 << 20;

/// Takes addresses without memory behind them, from a multiple of a huge page on.
pub(crate) fn reserve(len: usize) -> io::Result<NonNull<u8>> {
    let all = len.checked_add(HUGE_BYTES);
    let all = all.ok_or(io::ErrorKind::OutOfMemory)?;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: with a null hint and no MAP_FIXED the kernel picks unused addresses.
    let start = unsafe {
        rustix::mm::mmap_anonymous(std::ptr::null_mut(), all, ProtFlags::empty(), flags)?
    };
    /// Of the operating system; where it is more, what is behind stays taken.
    const PAGE: usize = 4096;
    let before = start.addr().wrapping_neg() % HUGE_BYTES;
    let taken = start.wrapping_byte_add(before);
    let end = (before + len).next_multiple_of(PAGE);
    // SAFETY: what lies before and behind was just taken, and nobody knows of it. A failure, which a
    // length of 0 is, leaves it taken.
    unsafe {
        let _ = rustix::mm::munmap(start, before);
        let _ = rustix::mm::munmap(start.wrapping_byte_add(end), all.saturating_sub(end));
    }
    NonNull::new(taken.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// A shared, writable mapping of the first `len` bytes of a file; unmapped on drop.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; access to the bytes is ordered by
// the owners of the mapping (M2, or atomics).
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(fd: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        // SAFETY: with a null hint and no MAP_FIXED the kernel picks unused addresses, so no
        // memory that Rust knows of is replaced.
        let start = unsafe {
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, fd, 0)?
        };
        let start = NonNull::new(start.cast()).expect("mmap without MAP_FIXED never returns null");
        Ok(Self { start, len })
    }

    /// The same, from a multiple of a huge page on.
    fn aligned(fd: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        let start = reserve(len)?;
        // SAFETY: the addresses were just reserved for this, and nobody knows of them.
        unsafe {
            let (prot, at) = (ProtFlags::READ | ProtFlags::WRITE, start.as_ptr().cast());
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            if let Err(error) = rustix::mm::mmap(at, len, prot, flags, fd, 0) {
                let _ = rustix::mm::munmap(at, len);
                return Err(error.into());
            }
        }
        Ok(Self { start, len })
    }

    /// Address of `range`, which is checked against the mapping.
    fn at(&self, range: Range<usize>) -> NonNull<[u8]> {
        assert!(range.start <= range.end, "range {range:?} is reversed");
        assert!(
            range.end <= self.len,
            "range {range:?} leaves the mapping of {} bytes",
            self.len
        );
        // SAFETY: `range.start <= self.len`, so the result is inside the mapping or one past it.
        let start = unsafe { self.start.add(range.start) };
        NonNull::slice_from_raw_parts(start, range.len())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `new`; everything that points into it borrows from
        // its owner, so nothing outlives this call. Failure would leave it mapped, which is safe.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A run of frames in one memfd.
#[derive(Debug)]
pub(crate) struct Segment {
    fd: OwnedFd,
    map: Mapping,
    frame_bytes: usize,
    locks: Box<[RwLock<()>]>,
}

impl Segment {
    /// Makes, maps and seals a segment. Its memory is taken from the system on first use.
    pub(crate) fn new(name: &str, frame_bytes: usize, frames: usize) -> io::Result<Self> {
        let fd = unsealed(name, frame_bytes * frames)?;
        let map = Mapping::aligned(fd.as_fd(), frame_bytes * frames)?;
        seal(fd.as_fd())?;
        let locks = (0..frames).map(|_| RwLock::new(())).collect();
        Ok(Self {
            fd,
            map,
            frame_bytes,
            locks,
        })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// How many frames it has.
    pub(crate) fn frames(&self) -> usize {
        self.locks.len()
    }

    /// Has the operating system move so many frames into huge pages. A thread that touches them
    /// waits.
    pub(crate) fn gather(&self, first: usize, frames: usize) -> io::Result<()> {
        /// The request's number, on all machines.
        const MADV_COLLAPSE: libc::c_int = 25;
        let start = first * self.frame_bytes;
        let bytes = self.map.at(start..start + frames * self.frame_bytes);
        // SAFETY: the bytes are mapped (M1), and stay where they are and what they are.
        match unsafe { libc::madvise(bytes.as_ptr().cast(), bytes.len(), MADV_COLLAPSE) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Locks a frame for reading; waits for its writer.
    pub(crate) fn shared(&self, index: usize) -> Shared<'_> {
        let lock = self.locks[index]
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        Shared {
            bytes: self.frame(index),
            _lock: lock,
        }
    }

    /// Locks a frame for writing; waits for its readers and writer.
    pub(crate) fn exclusive(&self, index: usize) -> Exclusive<'_> {
        let lock = self.locks[index]
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        Exclusive {
            bytes: self.frame(index),
            _lock: lock,
        }
    }

    /// Names bytes of a frame for the kernel to read, without a lock.
    pub(crate) fn span(&self, index: usize, range: Range<usize>) -> Span<'_> {
        assert!(
            range.end <= self.frame_bytes,
            "range {range:?} leaves the frame"
        );
        let start = index * self.frame_bytes;
        Span {
            iovec: iovec(self.map.at(start + range.start..start + range.end)),
            _segment: self,
        }
    }

    fn frame(&self, index: usize) -> NonNull<[u8]> {
        let start = index * self.frame_bytes;
        self.map.at(start..start + self.frame_bytes)
    }
}

/// Makes memory of so many zeros, maps it, and seals it: others can only read it.
fn sealed(name: &str, len: usize) -> io::Result<(OwnedFd, Mapping)> {
    let fd = unsealed(name, len)?;
    let map = Mapping::new(fd.as_fd(), len)?;
    seal(fd.as_fd())?;
    Ok((fd, map))
}

fn unsealed(name: &str, len: usize) -> io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&fd, len as u64)?;
    Ok(fd)
}

/// Forbids resizing for ever and, where the kernel knows how (5.1), any writer but our mapping.
fn seal(fd: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let size = SealFlags::SHRINK | SealFlags::GROW;
    match rustix::fs::fcntl_add_seals(fd, size | SealFlags::FUTURE_WRITE) {
        Err(rustix::io::Errno::INVAL) => rustix::fs::fcntl_add_seals(fd, size),
        sealed => sealed,
    }
}

/// A frame locked for reading.
// A pointer, not `&[u8]`: a reference in an argument must stay valid for the whole call, and a
// call that drops the guard releases the lock before it returns (`std::cell::Ref` does the same).
pub(crate) struct Shared<'a> {
    bytes: NonNull<[u8]>,
    _lock: RwLockReadGuard<'a, ()>,
}

impl Deref for Shared<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are mapped (M1), initialised (memfd memory starts as zeros), and not
        // written while the shared lock is held (M2).
        unsafe { self.bytes.as_ref() }
    }
}

/// A frame locked for writing.
pub(crate) struct Exclusive<'a> {
    bytes: NonNull<[u8]>,
    _lock: RwLockWriteGuard<'a, ()>,
}

impl Deref for Exclusive<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: as in `Shared`; the exclusive lock keeps every other access out (M2).
        unsafe { self.bytes.as_ref() }
    }
}

impl DerefMut for Exclusive<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the exclusive lock makes this guard the only way to the bytes (M2), and the
        // borrow of the guard makes this the only reference through it.
        unsafe { self.bytes.as_mut() }
    }
}

/// Bytes of a frame, for the kernel to read.
pub(crate) struct Span<'a> {
    iovec: libc::iovec,
    _segment: &'a Segment,
}

/// Writes `spans`, in order, at `offset` of `fd`. May write less than all, as `pwritev(2)` does.
pub(crate) fn pwritev(fd: BorrowedFd<'_>, spans: &[Span<'_>], offset: u64) -> io::Result<usize> {
    let vector: Vec<libc::iovec> = spans.iter().map(|span| span.iovec).collect();
    let (count, offset) = (vector_len(&vector)?, file_offset(offset)?);
    // SAFETY: each entry lies in a mapping that its span borrows (M1). The kernel only reads the
    // bytes, so a thread that writes them meanwhile races with no Rust access.
    let done = unsafe { libc::pwritev(fd.as_raw_fd(), vector.as_ptr(), count, offset) };
    usize::try_from(done).map_err(|_| io::Error::last_os_error())
}

/// Bytes of a locked frame, for the kernel to fill: the index of its guard, and where in the frame.
pub(crate) struct Target {
    pub(crate) guard: usize,
    pub(crate) range: Range<usize>,
}

/// Fills `targets`, in order, from `offset` of `fd`. May fill less than all, as `preadv(2)` does.
pub(crate) fn preadv(
    fd: BorrowedFd<'_>,
    guards: &mut [Exclusive<'_>],
    targets: &[Target],
    offset: u64,
) -> io::Result<usize> {
    let vector: Vec<libc::iovec> = targets
        .iter()
        .map(|target| iovec(within(guards[target.guard].bytes, &target.range)))
        .collect();
    let (count, offset) = (vector_len(&vector)?, file_offset(offset)?);
    // SAFETY: each entry lies in a frame whose exclusive guard is borrowed mutably for this call,
    // so no Rust reference to its bytes exists while the kernel writes them (M1, M2).
    let done = unsafe { libc::preadv(fd.as_raw_fd(), vector.as_ptr(), count, offset) };
    usize::try_from(done).map_err(|_| io::Error::last_os_error())
}

fn within(frame: NonNull<[u8]>, range: &Range<usize>) -> NonNull<[u8]> {
    assert!(range.start <= range.end, "range {range:?} is reversed");
    assert!(range.end <= frame.len(), "range {range:?} leaves the frame");
    // SAFETY: `range.start <= frame.len()`, so the result is inside the frame or one past it.
    let start = unsafe { frame.cast::<u8>().add(range.start) };
    NonNull::slice_from_raw_parts(start, range.len())
}

fn iovec(bytes: NonNull<[u8]>) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_ptr().cast(),
        iov_len: bytes.len(),
    }
}

fn vector_len(vector: &[libc::iovec]) -> io::Result<libc::c_int> {
    assert!(
        vector.len() <= PIECES_MAX,
        "{} pieces in one vectored call",
        vector.len()
    );
    libc::c_int::try_from(vector.len()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn file_offset(offset: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// The first words of a file, shared with other processes.
#[derive(Debug)]
pub(crate) struct Words {
    map: Mapping,
}

impl Words {
    /// Maps `count` words of a file that is at least that long (M1).
    pub(crate) fn new(fd: BorrowedFd<'_>, count: usize) -> io::Result<Self> {
        Ok(Self {
            map: Mapping::new(fd, count * size_of::<u64>())?,
        })
    }

    /// New memory of `count` words that other processes can only read.
    pub(crate) fn sealed(name: &str, count: usize) -> io::Result<(OwnedFd, Self)> {
        let (fd, map) = sealed(name, count * size_of::<u64>())?;
        Ok((fd, Self { map }))
    }

    /// New memory of `count` words that other processes can write, too, but not shorten.
    pub(crate) fn open_to_all(name: &str, count: usize) -> io::Result<(OwnedFd, Self)> {
        let len = count * size_of::<u64>();
        let fd = unsealed(name, len)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW)?;
        let map = Mapping::new(fd.as_fd(), len)?;
        Ok((fd, Self { map }))
    }

    /// A child that this process forks does not have the mapping.
    pub(crate) fn keep_from_children(&self) -> io::Result<()> {
        let all = self.map.at(0..self.map.len);
        // SAFETY: nobody but this owner points into the mapping, and a child has no use for it.
        unsafe {
            let start = all.as_ptr().cast();
            rustix::mm::madvise(start, self.map.len, rustix::mm::Advice::LinuxDontFork)?;
        }
        Ok(())
    }

    /// Copies bytes into the memory from `start` on, where no word is that is used as such.
    #[inline(always)]
    pub(crate) fn copy_in(&self, start: usize, bytes: &[u8]) {
        let place = self.map.at(start..start + bytes.len());
        // SAFETY: inside of the mapping (checked by `at`, M1). Other processes may read or write there at
        // the same time: the bytes are no object of this program, only the C library's `memcpy` touches
        // them.
        unsafe { libc::memcpy(place.as_ptr().cast(), bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Copies bytes out of it; what others write meanwhile may show in part.
    #[inline(always)]
    pub(crate) fn copy_out(&self, start: usize, into: &mut [u8]) {
        let place = self.map.at(start..start + into.len());
        // SAFETY: as in `copy_in`.
        unsafe { libc::memcpy(into.as_mut_ptr().cast(), place.as_ptr().cast(), into.len()) };
    }

    /// The same behind the end of `into`.
    pub(crate) fn append(&self, start: usize, len: usize, into: &mut Vec<u8>) {
        let place = self.map.at(start..start + len);
        into.reserve(len);
        // SAFETY: as in `copy_in`; the vector has room for `len` more, which are set once `memcpy` is done.
        unsafe {
            let end = into.as_mut_ptr().add(into.len());
            libc::memcpy(end.cast(), place.as_ptr().cast(), len);
            into.set_len(into.len() + len);
        }
    }

    #[inline]
    pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
        let start = index * size_of::<u64>();
        let word = self
            .map
            .at(start..start + size_of::<u64>())
            .cast::<AtomicU64>();
        // SAFETY: inside the mapping (checked by `at`, M1), aligned because mappings start on a
        // page, and only ever accessed atomically, here and in the other processes.
        unsafe { word.as_ref() }
    }

    /// The first half of a word, for what the operating system writes in halves. Such a word is
    /// never accessed as a whole.
    pub(crate) fn half(&self, index: usize) -> &AtomicU32 {
        let start = index * size_of::<u64>();
        let half = self
            .map
            .at(start..start + size_of::<u32>())
            .cast::<AtomicU32>();
        // SAFETY: as in `word`.
        unsafe { half.as_ref() }
    }
}

impl Look for Words {
    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.word(word).load(order)
    }

    fn fence(&self, order: Ordering) {
        atomic::fence(order);
    }
}

impl Board for Words {
    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.word(word).store(value, order);
    }
}
