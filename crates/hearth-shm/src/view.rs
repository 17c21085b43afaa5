//! A program's side of the pool: it maps what the agent lends, and copies pages out of it.
//!
//! Nothing here allocates, takes a lock or makes a system call once it is mapped, so a copy can be
//! made anywhere, in a signal handler too.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{self, AtomicU32, AtomicU64, Ordering};

use rustix::fs::SealFlags;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::index::layout::{CONTROL, DOORBELL, LEASE, LIFE, Layout};
use crate::index::protocol::{
    Found, Look, NamesMark, PageName, ToldAttributes, are_heard_since, gate, look, names, offered,
    still, still_told, told,
};
use crate::{lease, life, pool, segment};

/// Pages that one copy may touch.
const PAGES_MAX: usize = 16;

/// Memory of another process, mapped for reading; unmapped on drop.
struct Foreign {
    start: NonNull<u8>,
    len: usize,
}

impl Foreign {
    /// Maps all of a sealed memory, at its very size.
    fn map(fd: BorrowedFd<'_>) -> io::Result<Foreign> {
        let len = sealed_len(fd)?;
        // SAFETY: with a null hint and no MAP_FIXED the kernel picks unused addresses.
        let start = unsafe {
            mmap(
                ptr::null_mut(),
                len,
                ProtFlags::READ,
                MapFlags::SHARED,
                fd,
                0,
            )?
        };
        Ok(Foreign {
            start: NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?,
            len,
        })
    }

    /// Takes addresses for what is yet to be mapped, from where a huge page can begin.
    fn reserve(len: usize) -> io::Result<Foreign> {
        let start = segment::reserve(len)?;
        Ok(Foreign { start, len })
    }

    /// Maps all of a sealed memory over the reserved addresses from `at` on; says how long it is.
    fn fill(&self, at: usize, fd: BorrowedFd<'_>) -> io::Result<usize> {
        let len = sealed_len(fd)?;
        if len > self.len - at {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: the addresses are within those that `reserve` took, and nothing is there yet.
        unsafe {
            mmap(
                self.start.as_ptr().add(at).cast(),
                len,
                ProtFlags::READ,
                flags,
                fd,
                0,
            )?
        };
        Ok(len)
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // SAFETY: made by `map` or `reserve`, and nothing borrows it any more. A failure leaves it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Length of memory that can never get shorter: else to read it could end this process.
fn sealed_len(fd: BorrowedFd<'_>) -> io::Result<usize> {
    let seals = rustix::fs::fcntl_get_seals(fd)?;
    let len = usize::try_from(rustix::fs::fstat(fd)?.st_size);
    match len {
        Ok(len) if seals.contains(SealFlags::SHRINK) && len > 0 => Ok(len),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The pool of an agent, as a program sees it.
pub struct PoolView {
    index: Foreign,
    frames: Foreign,
    /// Bytes of the frames that are mapped.
    mapped: usize,
    layout: Layout,
}

// SAFETY: the memory is mapped for the process, and only read.
unsafe impl Send for PoolView {}
// SAFETY: as for `Send`.
unsafe impl Sync for PoolView {}

/// How a copy out of the pool went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// All of it is there.
    All,
    /// A page is not in the pool, or is not known as far.
    Missing,
    /// A page was called back meanwhile; what was copied of it is to be thrown away.
    Changed,
    /// The agent is gone.
    Dead,
    /// It touches more pages than one copy may.
    Long,
}

impl PoolView {
    /// Maps an index. The frames follow with [`PoolView::add`].
    pub fn of(index: OwnedFd) -> io::Result<PoolView> {
        let index = Foreign::map(index.as_fd())?;
        if index.len < CONTROL * size_of::<u64>() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let layout = Layout::read(|word| index.word(word).load(Ordering::Acquire));
        let layout = layout.ok_or(io::ErrorKind::InvalidData)?;
        if index.len / size_of::<u64>() < layout.words() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let bytes = usize::try_from(u64::from(layout.frames) * layout.frame_bytes);
        let bytes = bytes.map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(PoolView {
            index,
            frames: Foreign::reserve(bytes)?,
            mapped: 0,
            layout,
        })
    }

    /// Maps the next segment of the pool. True once all of it is there.
    pub fn add(&mut self, segment: OwnedFd) -> io::Result<bool> {
        self.mapped += self.frames.fill(self.mapped, segment.as_fd())?;
        Ok(self.mapped == self.frames.len)
    }

    /// Segments that [`PoolView::add`] is to be called with.
    pub fn segments(&self) -> usize {
        self.frames.len.div_ceil(pool::SEGMENT_BYTES)
    }

    /// Whether the agent is there.
    #[inline(always)]
    pub fn is_alive(&self) -> bool {
        life::is_alive(self.index.half(LIFE))
    }

    /// Whether what the agent shows is current: it hears of what others write.
    #[inline(always)]
    pub(crate) fn is_current(&self) -> bool {
        self.is_alive() && lease::holds(self.index.word(LEASE).load(Ordering::Acquire))
    }

    /// The attributes that the agent last told the operating system of a file.
    pub fn told(&self, file: u64) -> Option<ToldAttributes> {
        told(self, &self.layout, file)
    }

    /// Whether no attribute of the file and no name has changed since, and the agent is there.
    #[inline(always)]
    pub fn is_still_told(&self, told: &ToldAttributes) -> bool {
        still_told(self, told) && self.is_current()
    }

    /// The counts of names now.
    pub fn names(&self) -> NamesMark {
        names(self)
    }

    /// Whether what a path has led to since then may be kept, as long as no name changes.
    pub fn are_heard_since(&self, names: &NamesMark) -> bool {
        are_heard_since(self, names)
    }

    /// Bytes of a page.
    #[inline(always)]
    pub(crate) fn page_bytes(&self) -> u64 {
        self.layout.frame_bytes
    }

    /// The number of the gate: odd while programs may leave writes.
    #[inline(always)]
    pub(crate) fn gate(&self) -> u64 {
        gate(self)
    }

    /// How many bytes of a page may be left, as long as the gate's number stays.
    #[inline(always)]
    pub(crate) fn offered(&self, page: PageName) -> u64 {
        offered(self, &self.layout, page)
    }

    /// Wakes the agent if it waits for more to be left.
    pub fn ring(&self) {
        let doorbell = self.index.half(DOORBELL);
        if doorbell.load(Ordering::Relaxed) == 1 {
            // Nobody waits any more if this fails.
            let _ = rustix::thread::futex::wake(doorbell, rustix::thread::futex::Flags::empty(), 1);
        }
    }

    /// Copies bytes of a file from `offset` on, all or nothing. If it is not [`Copied::All`], what is
    /// in `into` is undefined.
    #[inline(always)]
    pub fn copy(&self, file: u64, offset: u64, into: &mut [MaybeUninit<u8>]) -> Copied {
        let page_bytes = self.layout.frame_bytes;
        let within = (offset & (page_bytes - 1)) as usize;
        let page = PageName {
            file,
            page: offset >> page_bytes.trailing_zeros(),
        };
        if within + into.len() > page_bytes as usize {
            return self.copy_many(page, within, into);
        }
        let Some(here) = look(self, &self.layout, page) else {
            return self.missing();
        };
        if within + into.len() > here.extent as usize {
            return self.missing();
        }
        self.copy_out(here.frame, within, into);
        self.verdict(&[here])
    }

    #[inline(never)]
    fn copy_many(&self, first: PageName, within: usize, into: &mut [MaybeUninit<u8>]) -> Copied {
        let page_bytes = self.layout.frame_bytes as usize;
        let mut found = [Found::NONE; PAGES_MAX];
        let (mut rest, mut from, mut page, mut count) = (into, within, first, 0);
        while !rest.is_empty() {
            let Some(place) = found.get_mut(count) else {
                return Copied::Long;
            };
            let Some(here) = look(self, &self.layout, page) else {
                return self.missing();
            };
            let (part, more) = rest.split_at_mut((page_bytes - from).min(rest.len()));
            if from + part.len() > here.extent as usize {
                return self.missing();
            }
            self.copy_out(here.frame, from, part);
            *place = here;
            (rest, from, page.page, count) = (more, 0, page.page + 1, count + 1);
        }
        // All of them were as found at the instant when the last was found.
        self.verdict(&found[..count])
    }

    /// The same for bytes that go to several places, in order: still all or nothing, and of one instant.
    pub fn copy_parts<'a>(
        &self,
        file: u64,
        offset: u64,
        parts: impl Iterator<Item = &'a mut [MaybeUninit<u8>]>,
    ) -> Copied {
        let page_bytes = self.layout.frame_bytes;
        let mut found = [Found::NONE; PAGES_MAX];
        let (mut count, mut at) = (0, offset);
        for mut rest in parts {
            while !rest.is_empty() {
                let within = (at & (page_bytes - 1)) as usize;
                let page = at >> page_bytes.trailing_zeros();
                // If a part begins amid a page, that page was found for the part before.
                if count == 0 || within == 0 {
                    let Some(place) = found.get_mut(count) else {
                        return Copied::Long;
                    };
                    let Some(here) = look(self, &self.layout, PageName { file, page }) else {
                        return self.missing();
                    };
                    (*place, count) = (here, count + 1);
                }
                let here = found[count - 1];
                let (part, more) =
                    rest.split_at_mut((page_bytes as usize - within).min(rest.len()));
                if within + part.len() > here.extent as usize {
                    return self.missing();
                }
                self.copy_out(here.frame, within, part);
                at += part.len() as u64;
                rest = more;
            }
        }
        // As in `copy_many`.
        self.verdict(&found[..count])
    }

    #[inline(always)]
    fn verdict(&self, found: &[Found]) -> Copied {
        if !found.iter().all(|it| still(self, &self.layout, it)) {
            return Copied::Changed;
        }
        // After the pages: an agent that was alive here, and had its lease, has called back all that it was told to.
        if self.is_current() {
            Copied::All
        } else {
            self.missing()
        }
    }

    #[cold]
    fn missing(&self) -> Copied {
        if self.is_alive() {
            Copied::Missing
        } else {
            Copied::Dead
        }
    }

    #[inline(always)]
    fn copy_out(&self, frame: u32, from: usize, into: &mut [MaybeUninit<u8>]) {
        let at = frame as usize * self.layout.frame_bytes as usize + from;
        debug_assert!(at + into.len() <= self.mapped, "a frame lies in a segment");
        // SAFETY: `look` gives frames of the layout, all of which are mapped, and the caller has
        // checked the part against the extent. The agent may change the bytes meanwhile: they are no
        // object of this program, only the C library's `memcpy` reads them, and what it read is
        // thrown away unless the page is still the same afterwards.
        unsafe {
            let from = self.frames.start.as_ptr().add(at);
            libc::memcpy(into.as_mut_ptr().cast(), from.cast(), into.len());
        }
    }
}

impl Foreign {
    #[inline(always)]
    fn word(&self, index: usize) -> &AtomicU64 {
        let at = index * size_of::<u64>();
        assert!(at < self.len, "a word lies in the index");
        // SAFETY: inside of the mapping, whose length is a multiple of eight or leaves a tail that no
        // layout reaches; aligned; and accessed as this type on both sides.
        unsafe { &*self.start.as_ptr().add(at).cast::<AtomicU64>() }
    }

    #[inline(always)]
    fn half(&self, index: usize) -> &AtomicU32 {
        let at = index * size_of::<u64>();
        assert!(at < self.len, "a word lies in the index");
        // SAFETY: as in `word`, for one that is never accessed as a whole.
        unsafe { &*self.start.as_ptr().add(at).cast::<AtomicU32>() }
    }
}

impl Look for PoolView {
    #[inline(always)]
    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.index.word(word).load(order)
    }

    #[inline(always)]
    fn fence(&self, order: Ordering) {
        atomic::fence(order);
    }
}
