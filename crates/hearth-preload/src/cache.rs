//! Reads that are served out of the agent's memory, before the real call is made.
//!
//! A descriptor of a cached file is one of the mount: the real call is right whatever happens here. A
//! read is served if all of its bytes are in the agent's memory, and else passed by. The number in the
//! store of a descriptor's file is learned at the descriptor's first use. Every call that makes, copies
//! or ends the descriptor forgets it.
//!
//! The descriptor's offset stays with the operating system, so that `dup`, `fork`, stdio and all
//! others that move it agree on it. A `read` copies from where it expects the offset, then moves it by
//! that much, which tells where it was. If it was elsewhere, the bytes there are what the call has
//! claimed: nobody else gets them, and it reads them in place of the others.
//!
//! Nothing here allocates, locks or waits, and `errno` is what the real call would leave.

use std::ffi::{c_int, c_void};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use hearth_client::Outcome;
use hearth_client::local::{Count, Local};
use libc::{iovec, off_t, size_t, ssize_t};

use crate::errno::{keeping_errno, set_errno};
use crate::fds::Known;
use crate::{fds, sys, thread};

/// The socket that lends the agent's memory, and the device of its files.
const VARIABLE: &str = "HEARTH_LENDER";

/// There is none for this process.
const NONE: u8 = 0;
/// It is mapped once a file of the mount is used.
const IDLE: u8 = 1;
/// A thread is at it.
const BUSY: u8 = 2;
/// It is mapped.
const READY: u8 = 3;

static STATE: AtomicU8 = AtomicU8::new(NONE);
static CONFIG: OnceLock<Config> = OnceLock::new();
static LOCAL: OnceLock<Local> = OnceLock::new();

struct Config {
    device: u64,
    path: Vec<u8>,
}

/// The process may soon make few system calls: a read at the descriptor's own offset takes one that
/// the program does not make itself.
static JAILED: AtomicBool = AtomicBool::new(false);

/// Elements of a vector that are filled at once.
const PARTS_MAX: usize = 64;

/// Takes the configuration from the environment, before the program begins.
pub(crate) fn start() {
    let Some(value) = std::env::var_os(VARIABLE) else {
        return;
    };
    let text = std::os::unix::ffi::OsStringExt::into_vec(value);
    let mut parts = text.splitn(2, |byte| *byte == b':');
    let device = parts.next().and_then(|part| std::str::from_utf8(part).ok());
    let device = device.and_then(|part| part.parse().ok());
    if let (Some(device), Some(path)) = (device, parts.next()) {
        let path = path.to_vec();
        if CONFIG.set(Config { device, path }).is_ok() {
            STATE.store(IDLE, Relaxed);
        }
    }
}

/// From now on no system call is made here that the program did not ask for.
pub(crate) fn jailed() {
    JAILED.store(true, Relaxed);
    let _ = STATE.compare_exchange(IDLE, NONE, Relaxed, Relaxed);
}

/// A number may mean one descriptor to one thread and another to the next: nothing is served any more.
pub(crate) fn give_up() {
    STATE.store(NONE, Relaxed);
}

/// The agent's memory and the number of the file that is open as `fd`, if its reads can be served.
#[inline(always)]
fn file_of(fd: c_int) -> Option<(&'static Local, u64)> {
    if STATE.load(Relaxed) == NONE {
        return None;
    }
    let known = fds::cached(fd);
    match known.number() {
        Some(file) => Some((LOCAL.get()?, file)),
        None => file_of_new(fd, known),
    }
}

#[cold]
#[inline(never)]
fn file_of_new(fd: c_int, known: Known) -> Option<(&'static Local, u64)> {
    if known == Known::PASSED {
        return None;
    }
    let file = learn(fd)?.number()?;
    Some((LOCAL.get()?, file))
}

fn learn(fd: c_int) -> Option<Known> {
    if JAILED.load(Relaxed) {
        return None;
    }
    let config = CONFIG.get()?;
    let Some(file) = sys::file_on(fd, config.device).and_then(Known::file) else {
        fds::keep_cached(fd, Known::PASSED);
        return None;
    };
    let local = ready(config)?;
    let flags = sys::open_flags(fd);
    let known = if flags & (libc::O_DIRECT | libc::O_PATH) != 0 {
        local.count(thread::shard(local), Count::Flags, 1);
        Known::PASSED
    } else if flags & libc::O_ACCMODE == libc::O_WRONLY {
        Known::PASSED
    } else {
        file
    };
    fds::expect(fd, sys::tell(fd).unwrap_or(0));
    fds::keep_cached(fd, known);
    Some(known)
}

/// Whether there may be files of a mount.
#[inline(always)]
pub(crate) fn is_configured() -> bool {
    STATE.load(Relaxed) != NONE
}

/// The agent's memory, if it is mapped already.
#[inline(always)]
pub(crate) fn mapped() -> Option<&'static Local> {
    (STATE.load(Acquire) == READY)
        .then(|| LOCAL.get())
        .flatten()
}

/// The number of the file that is open as `fd`, if it is one of the mount.
#[inline(always)]
pub(crate) fn known_file(fd: c_int) -> Option<u64> {
    let known = fds::cached(fd).number();
    known.filter(|_| STATE.load(Relaxed) == READY)
}

/// The agent's memory, mapped now if it was not.
pub(crate) fn prepared() -> Option<&'static Local> {
    ready(CONFIG.get()?)
}

/// Whether no system call is to be made here that the program did not ask for.
pub(crate) fn is_jailed() -> bool {
    JAILED.load(Relaxed)
}

/// A shared mapping of a file is about to be made that can be written.
pub(crate) fn before_stores(fd: c_int) {
    if CONFIG.get().is_some() && !is_jailed() {
        sys::say_mapped(fd);
    }
}

/// Calls `work` with where write rings are to be had: beside the memory.
pub(crate) fn write_ring_path<R>(work: impl FnOnce(&[u8]) -> R) -> Option<R> {
    let mut path = [0; 128];
    let base = CONFIG.get()?.path.strip_suffix(b"pool")?;
    let whole = path.get_mut(..base.len() + 4)?;
    whole[..base.len()].copy_from_slice(base);
    whole[base.len()..].copy_from_slice(b"lane");
    Some(work(whole))
}

/// Whether files of this device are the mount's.
pub(crate) fn is_of_mount(device: u64) -> bool {
    CONFIG.get().is_some_and(|config| config.device == device)
}

/// A call was made that could be answered if the memory were mapped. That is worth it for programs that
/// make many.
#[inline(always)]
pub(crate) fn count_towards_mapping() {
    if STATE.load(Relaxed) == IDLE {
        map_for_many();
    }
}

#[cold]
#[inline(never)]
fn map_for_many() {
    const MANY: u32 = 64;
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let calls = CALLS.fetch_add(1, Relaxed);
    if calls % MANY == MANY - 1
        && !JAILED.load(Relaxed)
        && let Some(config) = CONFIG.get()
    {
        keeping_errno(|| ready(config));
    }
}

/// The agent's memory; maps it at the first use. A thread that comes while another is at it passes by.
fn ready(config: &Config) -> Option<&'static Local> {
    if STATE.load(Acquire) == READY {
        return LOCAL.get();
    }
    STATE.compare_exchange(IDLE, BUSY, Acquire, Relaxed).ok()?;
    let attached = Local::attach(&config.path).ok();
    let done = match attached.is_some_and(|local| LOCAL.set(local).is_ok()) {
        true => READY,
        false => NONE,
    };
    STATE.store(done, Release);
    LOCAL.get()
}

/// The bytes that a program wants to be filled.
///
/// # Safety
/// The program has given `count` bytes at `buf` to be written to.
unsafe fn buffer<'a>(buf: *mut c_void, count: size_t) -> Option<&'a mut [MaybeUninit<u8>]> {
    let sound = !buf.is_null() && count > 0 && isize::try_from(count).is_ok();
    // SAFETY: as the caller says; any bytes are fine.
    sound.then(|| unsafe { std::slice::from_raw_parts_mut(buf.cast(), count) })
}

/// The destination of a read's bytes.
trait Room {
    /// Fills all of it out of memory from `offset` on, if that is there; how much it is.
    fn serve(&mut self, here: (&Local, u64), offset: i64) -> Option<usize>;

    /// Has the operating system fill it; how much it did, or the error's number.
    fn read_at(&mut self, fd: c_int, offset: i64) -> Result<usize, c_int>;
}

impl Room for &mut [MaybeUninit<u8>] {
    #[inline(always)]
    fn serve(&mut self, (local, file): (&Local, u64), offset: i64) -> Option<usize> {
        served(local.read(thread::shard(local), (file, offset.cast_unsigned()), self))
    }

    fn read_at(&mut self, fd: c_int, offset: i64) -> Result<usize, c_int> {
        sys::read_at(fd, self, offset)
    }
}

#[inline(always)]
fn served(outcome: Outcome<usize>) -> Option<usize> {
    match outcome {
        Outcome::Serve(done) => Some(done),
        Outcome::Bypass(_) | Outcome::Fail(_) => None,
    }
}

/// A read at a place of the program's choice.
#[inline(always)]
pub(crate) fn pread(
    fd: c_int,
    buf: *mut c_void,
    count: size_t,
    offset: off_t,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    match file_of(fd) {
        Some(here) if offset >= 0 => {
            // SAFETY: that is what the program says by the call.
            let into = unsafe { buffer(buf, count) };
            let served = into.and_then(|mut into| into.serve(here, offset));
            served.map_or_else(real, usize::cast_signed)
        }
        _ => real(),
    }
}

/// A read at the descriptor's own offset.
#[inline(always)]
pub(crate) fn read(
    fd: c_int,
    buf: *mut c_void,
    count: size_t,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some(here) = file_of(fd).filter(|_| !JAILED.load(Relaxed)) else {
        return real();
    };
    // SAFETY: that is what the program says by the call.
    match unsafe { buffer(buf, count) } {
        Some(into) => at_own_offset(fd, here, into, real),
        None => real(),
    }
}

/// Fills the room out of memory from where the offset is expected, then moves the offset by as much.
#[inline(always)]
fn at_own_offset(
    fd: c_int,
    here: (&Local, u64),
    mut room: impl Room,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let expected = fds::expected(fd);
    let Some(done) = room.serve(here, expected) else {
        let done = real();
        fds::expect(fd, expected.saturating_add(done.max(0) as i64));
        return done;
    };
    let moved = sys::move_on(fd, done as i64);
    let Some(reached) = moved else { return real() };
    fds::expect(fd, reached);
    let began = reached - done as i64;
    if began == expected {
        return done.cast_signed();
    }
    match room.serve(here, began) {
        Some(done) => done.cast_signed(),
        None => elsewhere(fd, done as i64, room.read_at(fd, began)),
    }
}

/// The call has claimed as many bytes at the descriptor's offset as it asks for, and memory is of no use there:
/// what the operating system reads or writes of them is the answer.
#[cold]
pub(crate) fn elsewhere(fd: c_int, asked: i64, done: Result<usize, c_int>) -> ssize_t {
    let (done, result) = match done {
        Ok(done) => (done as i64, done.cast_signed()),
        Err(errno) => {
            set_errno(errno);
            (0, -1)
        }
    };
    if done < asked
        && let Some(reached) = sys::move_on(fd, done - asked)
    {
        fds::expect(fd, reached);
    }
    result
}

/// The destination of a vector's bytes.
#[derive(Clone, Copy)]
struct Parts<'a> {
    elements: &'a [iovec],
    len: usize,
}

impl<'a> Parts<'a> {
    /// # Safety
    /// The program has given `count` elements at `vector`, each of memory to be written to.
    unsafe fn of(vector: *const iovec, count: c_int) -> Option<Parts<'a>> {
        let count = usize::try_from(count).ok();
        let count = count.filter(|count| (1..=PARTS_MAX).contains(count))?;
        if vector.is_null() {
            return None;
        }
        // SAFETY: as the caller says.
        let elements = unsafe { std::slice::from_raw_parts(vector, count) };
        let len = elements.iter().try_fold(0_usize, |len, element| {
            let sound = !element.iov_base.is_null() || element.iov_len == 0;
            len.checked_add(element.iov_len).filter(|_| sound)
        })?;
        let sound = len > 0 && isize::try_from(len).is_ok();
        sound.then_some(Parts { elements, len })
    }
}

impl Room for Parts<'_> {
    fn read_at(&mut self, fd: c_int, offset: i64) -> Result<usize, c_int> {
        let mut parts = [(); PARTS_MAX].map(|()| IoSliceMut::new(&mut []));
        for (part, element) in parts.iter_mut().zip(self.elements) {
            if element.iov_len > 0 {
                // SAFETY: as in `serve`; nothing but the operating system goes through them.
                let place = unsafe {
                    std::slice::from_raw_parts_mut(element.iov_base.cast::<u8>(), element.iov_len)
                };
                *part = IoSliceMut::new(place);
            }
        }
        sys::read_vector_at(fd, &mut parts[..self.elements.len()], offset)
    }

    fn serve(&mut self, (local, file): (&Local, u64), offset: i64) -> Option<usize> {
        let filled = self.elements.iter().filter(|element| element.iov_len > 0);
        let parts = filled.map(|element| {
            let at = element.iov_base.cast::<MaybeUninit<u8>>();
            // SAFETY: that is what the program says by the call, and `of` has seen that no length is
            // too long. Elements may overlap: one is done with before the next is made.
            unsafe { std::slice::from_raw_parts_mut(at, element.iov_len) }
        });
        let place = (file, offset.cast_unsigned());
        served(local.read_parts(thread::shard(local), place, self.len, parts))
    }
}

/// A read into several places, at a place of the program's choice.
pub(crate) fn preadv(
    fd: c_int,
    (vector, count): (*const iovec, c_int),
    offset: off_t,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some(here) = file_of(fd).filter(|_| offset >= 0) else {
        return real();
    };
    // SAFETY: that is what the program says by the call.
    let parts = unsafe { Parts::of(vector, count) };
    let served = parts.and_then(|mut parts| parts.serve(here, offset));
    served.map_or_else(real, usize::cast_signed)
}

/// A read into several places, at the descriptor's own offset.
pub(crate) fn readv(
    fd: c_int,
    (vector, count): (*const iovec, c_int),
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some(here) = file_of(fd).filter(|_| !JAILED.load(Relaxed)) else {
        return real();
    };
    // SAFETY: that is what the program says by the call.
    match unsafe { Parts::of(vector, count) } {
        Some(parts) => at_own_offset(fd, here, parts, real),
        None => real(),
    }
}

/// A read into several places as `preadv2` has it: with flags it asks for more than bytes.
pub(crate) fn preadv2(
    fd: c_int,
    vector: (*const iovec, c_int),
    (offset, flags): (off_t, c_int),
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    match (offset, flags) {
        (-1, 0) => readv(fd, vector, real),
        (_, 0) => preadv(fd, vector, offset, real),
        _ => real(),
    }
}

/// A call that answers where it has moved the descriptor's own offset to.
#[inline(always)]
pub(crate) fn seek(fd: c_int, real: impl FnOnce() -> i64) -> i64 {
    let reached = real();
    if reached >= 0 && fds::cached(fd).number().is_some() {
        fds::expect(fd, reached);
    }
    reached
}
