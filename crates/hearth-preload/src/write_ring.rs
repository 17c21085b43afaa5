//! Writes that are left in the agent's write ring, before the real call is made.
//!
//! 1. The first write of a descriptor is the real call's, as are those of descriptors that were opened for
//!    more than bytes (`O_APPEND`, `O_DIRECT`, `O_SYNC`, `O_DSYNC`), and all of a process with a limit on the
//!    size of files. So what a real write does besides, like taking set-user-id away, is done.
//! 2. A write ring is this process's. A child has none until it asks for one, and the child of a `vfork`, which has
//!    its parent's memory, uses none once it has changed a descriptor.
//! 3. Any other write is passed by: the real call comes after all that was left, whoever makes it.
//! 4. A write at the descriptor's own offset claims its bytes by moving the offset, as reads do. It does so if the
//!    page is offered. The operating system writes there the bytes that the write ring then does not take.
//!
//! Nothing here allocates, locks or waits, but for an agent that is at these very bytes.

use std::ffi::{c_int, c_void};
use std::slice;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering::Acquire, Ordering::Relaxed,
    Ordering::Release,
};

use hearth_client::Outcome;
use hearth_client::local::{LEFT_MAX, Local, WriteRing, attach_write_ring};
use libc::{off_t, size_t, ssize_t};

use crate::errno::keeping_errno;
use crate::fds::Known;
use crate::{cache, fds, life, sys, thread};

/// Writes of a process to files of a mount before it asks for a write ring.
const MANY: u32 = 8;
/// Write rings of a process and those that it was forked from, one after another.
const GENERATIONS: usize = 8;

static WRITE_RINGS: [OnceLock<WriteRing>; GENERATIONS] = [const { OnceLock::new() }; GENERATIONS];
/// Which of them is this process's, and one; a fork wipes it. Null where that cannot be.
static OWN: AtomicPtr<AtomicI32> = AtomicPtr::new(std::ptr::null_mut());
/// How many there were.
static USED: AtomicU32 = AtomicU32::new(0);
static WRITES: AtomicU32 = AtomicU32::new(0);
static IS_ASKING: AtomicBool = AtomicBool::new(false);
static IS_OVER: AtomicBool = AtomicBool::new(false);
/// A child with this memory has changed its descriptors: whose call it is has to be asked.
static IS_SHARED: AtomicBool = AtomicBool::new(false);

/// Before the program begins.
pub(crate) fn start() {
    if let Some(word) = cache::is_configured()
        .then(sys::word_wiped_on_fork)
        .flatten()
    {
        OWN.store(std::ptr::from_ref(word).cast_mut(), Release);
    }
}

/// The child of a `vfork` changes what is known of its descriptors, which is its parent's.
pub(crate) fn shared_by_child() {
    IS_SHARED.store(true, Relaxed);
}

/// This process's write ring.
#[inline(always)]
fn write_ring() -> Option<&'static WriteRing> {
    let number = own()?.load(Acquire);
    WRITE_RINGS.get(usize::try_from(number - 1).ok()?)?.get()
}

#[inline(always)]
fn own() -> Option<&'static AtomicI32> {
    // SAFETY: null, or a word that is never unmapped.
    unsafe { OWN.load(Relaxed).as_ref() }
}

/// A write at a place of the program's choice.
#[inline(always)]
pub(crate) fn pwrite(
    fd: c_int,
    (buf, count): (*const c_void, size_t),
    offset: off_t,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let known = fds::write_ring(fd);
    let Some(file) = known.number() else {
        return first(fd, known, real);
    };
    // SAFETY: that is what the program says by the call.
    let bytes = unsafe { payload(buf, count) };
    let left = bytes.filter(|_| offset >= 0).and_then(|bytes| {
        let place = (file, offset.cast_unsigned());
        leave((cache::mapped()?, write_ring()?), place, bytes)
    });
    left.unwrap_or_else(real)
}

/// A write at the descriptor's own offset.
#[inline(always)]
pub(crate) fn write(
    fd: c_int,
    (buf, count): (*const c_void, size_t),
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let known = fds::write_ring(fd);
    let Some(file) = known.number() else {
        return first(fd, known, real);
    };
    let expected = fds::expected(fd);
    // SAFETY: that is what the program says by the call.
    let bytes = unsafe { payload(buf, count) };
    let claimed = bytes.filter(|_| !cache::is_jailed()).and_then(|bytes| {
        let (local, write_ring) = (cache::mapped()?, write_ring()?);
        let place = (file, expected.cast_unsigned());
        local.takes(place, count).then_some(())?;
        let reached = sys::move_on(fd, count as i64)?;
        Some(((local, write_ring), bytes, reached))
    });
    let Some((here, bytes, reached)) = claimed else {
        return keeping_track(fd, real);
    };
    fds::expect(fd, reached);
    let began = reached - count as i64;
    match leave(here, (file, began.cast_unsigned()), bytes) {
        Some(done) => done,
        None => cache::elsewhere(fd, count as i64, sys::write_at(fd, bytes, began)),
    }
}

/// A write that is passed by. It catches up with moves of the offset by others since the last one: beside such a
/// write a question costs nothing.
#[cold]
#[inline(never)]
fn keeping_track(fd: c_int, real: impl FnOnce() -> ssize_t) -> ssize_t {
    let done = real();
    if !cache::is_jailed() {
        keeping_errno(|| fds::expect(fd, sys::tell(fd).unwrap_or(0)));
    }
    done
}

/// A file is about to be mapped: what was left may have made it longer than the operating system was told.
pub(crate) fn before_mapping(fd: c_int) {
    if fds::write_ring(fd).number().is_some() && !cache::is_jailed() {
        sys::ask_size(fd);
    }
}

/// The bytes of a write, if a write ring could take so many of this process.
///
/// # Safety
/// The program has given `count` bytes at `buf` to be read.
#[inline(always)]
unsafe fn payload<'a>(buf: *const c_void, count: size_t) -> Option<&'a [u8]> {
    let sound = !buf.is_null() && (1..=LEFT_MAX).contains(&count);
    if !sound || (IS_SHARED.load(Relaxed) && !life::is_own_memory()) {
        return None;
    }
    // SAFETY: as the caller says.
    Some(unsafe { slice::from_raw_parts(buf.cast::<u8>(), count) })
}

#[inline(always)]
fn leave(
    (local, write_ring): (&Local, &WriteRing),
    place: (u64, u64),
    bytes: &[u8],
) -> Option<ssize_t> {
    match local.leave(write_ring, thread::shard(local), place, bytes) {
        Outcome::Serve(left) => {
            if left.much && !cache::is_jailed() {
                local.ring();
            }
            Some(bytes.len().cast_signed())
        }
        Outcome::Bypass(_) | Outcome::Fail(_) => None,
    }
}

/// A write through a descriptor that nothing is known of, or that is passed by.
#[cold]
#[inline(never)]
fn first(fd: c_int, known: Known, real: impl FnOnce() -> ssize_t) -> ssize_t {
    let done = real();
    if known == Known::NOTHING && done > 0 && cache::is_configured() && !cache::is_jailed() {
        keeping_errno(|| learn(fd));
    }
    done
}

fn learn(fd: c_int) {
    let kept = sys::file_kept(fd).filter(|(device, _)| cache::is_of_mount(*device));
    let Some(file) = kept.and_then(|(_, number)| Known::file(number)) else {
        return fds::keep_write_ring(fd, Known::PASSED);
    };
    if WRITES.fetch_add(1, Relaxed) < MANY {
        return;
    }
    let plain = is_plain(fd) && sys::files_are_unlimited();
    let has_write_ring =
        plain && life::is_own_memory() && (write_ring().is_some() || ask().is_some());
    if !has_write_ring {
        return fds::keep_write_ring(fd, Known::PASSED);
    }
    fds::expect(fd, sys::tell(fd).unwrap_or(0));
    fds::keep_write_ring(fd, file);
    // A thread that changes the flags forgets what is kept by then; what it changed before is seen here.
    if !is_plain(fd) {
        fds::keep_write_ring(fd, Known::PASSED);
    }
}

/// Whether a descriptor was opened for nothing more than bytes.
fn is_plain(fd: c_int) -> bool {
    let more = libc::O_APPEND | libc::O_DIRECT | libc::O_DSYNC | libc::O_PATH;
    sys::open_flags(fd) & more == 0
}

/// Asks the agent for a write ring. A thread that comes while another is at it is passed by, with its descriptor.
fn ask() -> Option<()> {
    let local = cache::prepared()?;
    let own = own()?;
    if IS_OVER.load(Relaxed) || IS_ASKING.swap(true, Acquire) {
        return None;
    }
    // Another thread may have got one since this one looked. To ask again would end it.
    let set = match write_ring() {
        Some(_) => Some(()),
        None => attach(local, own),
    };
    IS_ASKING.store(false, Release);
    set
}

fn attach(local: &Local, own: &AtomicI32) -> Option<()> {
    let number = USED.fetch_add(1, Relaxed);
    let place = WRITE_RINGS.get(number as usize);
    let write_ring =
        place.and_then(|_| cache::write_ring_path(|path| attach_write_ring(path).ok())?);
    let set = place
        .zip(write_ring)
        .and_then(|(place, write_ring)| place.set(write_ring).ok());
    match set {
        Some(()) => {
            own.store(number.cast_signed() + 1, Release);
            local.has_write_ring();
        }
        None => IS_OVER.store(true, Relaxed),
    }
    set
}
