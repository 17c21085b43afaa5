//! Mapped areas, and the private memory of a producer.
//!
//! Shared memory is only ever seen as atomic words, so whatever another process does to it is at
//! worst nonsense, never undefined.
//!
//! Invariants:
//! - MAP-1: a mapping stays valid, at its full length, for the life of its owner; a producer's is for
//!   ever. The file is the user's own and nobody shortens it.
//! - MAP-2: a place is computed from a [`Geometry`] that fits into the mapping.

use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::layout::{Control, Geometry, Header, Line, Slot};

/// A shared, writable mapping of an area; unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    geometry: Geometry,
}

// SAFETY: a mapping belongs to the process, not to a thread, and is seen as atomic words only.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a file that is as long as the geometry says.
    pub(crate) fn new(file: &impl AsFd, geometry: Geometry) -> rustix::io::Result<Mapping> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: with a null hint and no MAP_FIXED the kernel picks unused addresses, so no memory
        // that Rust knows of is replaced.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                geometry.total(),
                prot,
                MapFlags::SHARED,
                file.as_fd(),
                0,
            )?
        };
        let start = NonNull::new(start.cast()).expect("mmap without MAP_FIXED never returns null");
        Ok(Mapping { start, geometry })
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    pub(crate) fn header(&self) -> &Header {
        self.at(0, 1).first().expect("one was asked for")
    }

    pub(crate) fn slots(&self) -> &[Slot] {
        self.at(self.geometry.slot_table(), self.geometry.slots as usize)
    }

    /// The bytes of names, as words.
    pub(crate) fn names(&self) -> &[AtomicU64] {
        self.at(
            self.geometry.names(),
            self.geometry.names_bytes as usize / 8,
        )
    }

    pub(crate) fn control(&self, slot: u32) -> &Control {
        let places = self.at(self.geometry.ring(slot), 1);
        places.first().expect("one was asked for")
    }

    pub(crate) fn lines(&self, slot: u32) -> &[Line] {
        let start = self.geometry.ring(slot) + size_of::<Control>();
        self.at(start, self.geometry.capacity as usize)
    }

    /// `count` values of `T` at byte `start`. `T` is one of this module's imports: all atomic words.
    fn at<T>(&self, start: usize, count: usize) -> &[T] {
        let bytes = count * size_of::<T>();
        assert!(
            start + bytes <= self.geometry.total(),
            "{bytes} bytes at {start} leave the area"
        );
        assert!(
            start.is_multiple_of(align_of::<T>()),
            "{start} is not aligned"
        );
        // SAFETY: inside the mapping (checked here, MAP-1, MAP-2) and aligned, since mappings start on a
        // page; any bytes are a valid value of these types, and all access to them is atomic.
        unsafe { std::slice::from_raw_parts(self.start.add(start).cast().as_ptr(), count) }
    }

    /// Has every page of a new range made that the file system has reserved already.
    pub(crate) fn touch(&self, start: usize, bytes: usize) {
        for page in (start..start + bytes).step_by(4096) {
            let word: &[AtomicU64] = self.at(page, 1);
            word[0].store(0, Ordering::Relaxed);
        }
    }

    /// Has the pages of `bytes` bytes at `start` made and mapped, so that touching them can neither
    /// fail nor fault. `INVAL` means that this kernel (before 5.14) cannot.
    pub(crate) fn populate(&self, start: usize, bytes: usize) -> rustix::io::Result<()> {
        assert!(
            start + bytes <= self.geometry.total(),
            "{bytes} bytes at {start} leave the area"
        );
        // SAFETY: the range is inside the mapping, and this advice changes no byte of it.
        unsafe {
            rustix::mm::madvise(
                self.start.add(start).as_ptr().cast(),
                bytes,
                Advice::LinuxPopulateWrite,
            )
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `new`; what points into it borrows from it, so nothing
        // outlives this call. Failure would leave it mapped, which is safe.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.geometry.total()) };
    }
}

/// A value of zeroes in memory that a child made by fork finds zeroed again, for ever.
///
/// # Safety
/// All-zero bytes must be a valid `T`, and `T` must stay valid when they come back at any moment:
/// `T` consists of atomics.
pub(crate) unsafe fn wiped_on_fork<T: Sync>() -> Result<&'static T, Errno> {
    let bytes = size_of::<T>().next_multiple_of(4096);
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: with a null hint and no MAP_FIXED the kernel picks unused addresses.
    let start = unsafe {
        rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, prot, MapFlags::PRIVATE)?
    };
    // SAFETY: the range is the mapping just made.
    unsafe { rustix::mm::madvise(start, bytes, Advice::LinuxWipeOnFork)? };
    // SAFETY: mapped for ever, aligned (a page), zeroes are valid (the caller's promise).
    Ok(unsafe { &*start.cast::<T>() })
}
