//! The program's descriptors by number, without a lock and without memory of its own.
//!
//! 1. An entry says what its descriptor was when it was last learned. Every call that makes, copies
//!    or ends a descriptor passes here; one that came another way (inherited, received, made by a
//!    raw system call) is unknown and learned at its first use.
//! 2. A descriptor is forgotten before the real close: the number may be another thread's right after.
//! 3. An offset that somebody else can move is never kept: it is asked for. That is so for inherited
//!    and duplicated descriptors, for those that a fork shared, for appending ones, and under stdio.
//! 4. A child of `vfork` has descriptors of its own and memory of its parent's: it changes nothing.

use std::ffi::c_int;
use std::sync::atomic::{
    AtomicI32, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed,
};

use hearth_trace::Flags;

use crate::errno::keeping_errno;
use crate::{life, names, streams, sys};

/// Descriptors with higher numbers are not recorded.
pub(crate) const FDS_MAX: usize = 1 << 18;

/// All of them; untouched pages cost nothing.
static ENTRIES: [Entry; FDS_MAX] = [const { Entry::unknown() }; FDS_MAX];

/// The highest descriptor that was ever learned.
static HIGHEST: AtomicI32 = AtomicI32::new(-1);

/// How often this process has forked, as far as the entries can hold it.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Forks beyond this are not told apart, and every offset is asked for.
const FORKS_MAX: u32 = u16::MAX as u32;

/// One descriptor. Its words are read and written one by one: a program that closes a descriptor
/// while another thread uses it gets a record of the one or of the other.
struct Entry {
    /// A [`Seen`].
    seen: AtomicU64,
    /// The offset of the next read or write, if nobody else can move it.
    cursor: AtomicI64,
    /// The stdio stream on top, if there is one.
    stream: AtomicUsize,
    /// The cache's knowledge of it: a [`Known`].
    cached: AtomicU64,
    /// The operating system's offset as the cache expects it.
    expected: AtomicI64,
    /// The facts about it as a file of the mount; 0 is nothing.
    mounted: AtomicU64,
    /// The facts about it for writes that are left to the agent: a [`Known`].
    write_ring: AtomicU64,
}

impl Entry {
    const fn unknown() -> Entry {
        Entry {
            seen: AtomicU64::new(0),
            cursor: AtomicI64::new(0),
            stream: AtomicUsize::new(0),
            cached: AtomicU64::new(0),
            expected: AtomicI64::new(0),
            mounted: AtomicU64::new(0),
            write_ring: AtomicU64::new(0),
        }
    }
}

/// The knowledge that the cache, or write rings, have of a descriptor, in one word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known(u64);

impl Known {
    pub(crate) const NOTHING: Known = Known(0);
    /// Its calls are passed by.
    pub(crate) const PASSED: Known = Known(1);
    /// Set beside the number of a file of the mount.
    const NUMBERED: u64 = 1 << 63;

    /// A file of the mount; `None` if its number cannot be held.
    pub(crate) fn file(number: u64) -> Option<Known> {
        (number & Known::NUMBERED == 0).then_some(Known(number | Known::NUMBERED))
    }

    /// The number of the file that it is, if calls on it can be served.
    #[inline(always)]
    pub(crate) fn number(self) -> Option<u64> {
        (self.0 & Known::NUMBERED != 0).then_some(self.0 & !Known::NUMBERED)
    }
}

/// The facts about a descriptor, in one word: the file's number in the lower half, then bits, then
/// the forks that there had been.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen(u64);

const FILE: u64 = 1 << 32;
const OTHER: u64 = 1 << 33;
const SHARED: u64 = 1 << 34;
const APPEND: u64 = 1 << 35;
const STREAM: u64 = 1 << 36;
const DIRECT: u64 = 1 << 37;
const SYNC: u64 = 1 << 38;
const WRITES: u64 = 1 << 39;
const READS: u64 = 1 << 40;
const FORKS_SHIFT: u32 = 48;

/// The processes and descriptors that may move the offset of a new descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offset {
    /// Only this process, through this descriptor.
    Own,
    /// Others too.
    Shared,
}

impl Seen {
    /// Something that is not recorded.
    const OTHER: Seen = Seen(OTHER);

    fn file(file: u32, flags: c_int, offset: Offset) -> Seen {
        let forks = FORKS.load(Relaxed);
        let mut word = u64::from(file) | FILE | u64::from(forks) << FORKS_SHIFT;
        if offset == Offset::Shared || forks >= FORKS_MAX {
            word |= SHARED;
        }
        Seen(word | bits_of(flags))
    }

    /// The file's number among the names.
    #[inline(always)]
    pub(crate) fn number(self) -> u32 {
        (self.0 & u64::from(u32::MAX)) as u32
    }

    /// The descriptor's flags in a record.
    #[inline(always)]
    pub(crate) fn flags(self) -> Flags {
        // One shift for both bits, since they lie in the same distance there as here.
        const { assert!(DIRECT << 1 == SYNC && Flags::SYNC.0 << 2 == Flags::DIRECT.0) };
        let mut flags = 0;
        if self.0 & (DIRECT | SYNC) != 0 {
            flags |= if self.0 & DIRECT != 0 {
                Flags::DIRECT.0
            } else {
                0
            };
            flags |= if self.0 & SYNC != 0 { Flags::SYNC.0 } else { 0 };
        }
        Flags(flags)
    }

    /// Open for writing and not for reading.
    pub(crate) fn only_writes(self) -> bool {
        self.0 & (WRITES | READS) == WRITES
    }

    /// Open for reading and not for writing.
    pub(crate) fn only_reads(self) -> bool {
        self.0 & (WRITES | READS) == READS
    }

    #[inline(always)]
    fn is_recorded(self) -> bool {
        self.0 & FILE != 0
    }

    #[inline(always)]
    fn offset_is_own(self) -> bool {
        let forks = FORKS.load(Relaxed);
        self.0 & (SHARED | APPEND | STREAM) == 0 && self.0 >> FORKS_SHIFT == u64::from(forks)
    }
}

fn bits_of(flags: c_int) -> u64 {
    let access = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => READS,
        libc::O_WRONLY => WRITES,
        _ => READS | WRITES,
    };
    let rows = [
        (libc::O_APPEND, APPEND),
        (libc::O_DIRECT, DIRECT),
        (libc::O_DSYNC, SYNC),
    ];
    let set = rows.iter().filter(|(flag, _)| flags & flag != 0);
    set.fold(access, |word, (_, bit)| word | bit)
}

#[inline(always)]
fn entry(fd: c_int) -> Option<&'static Entry> {
    ENTRIES.get(usize::try_from(fd).ok()?)
}

/// The facts about `fd`, if calls on it are recorded.
#[inline(always)]
pub(crate) fn look(fd: c_int) -> Option<Seen> {
    let seen = Seen(entry(fd)?.seen.load(Relaxed));
    if seen.0 == 0 {
        return learn(fd);
    }
    seen.is_recorded().then_some(seen)
}

/// Asks the operating system what `fd` is, and keeps the answer.
#[cold]
#[inline(never)]
fn learn(fd: c_int) -> Option<Seen> {
    keeping_errno(|| {
        let seen = match sys::kind(fd)? {
            sys::Kind::Recorded => names::of_descriptor(fd).map_or(Seen::OTHER, |file| {
                Seen::file(file, sys::open_flags(fd), Offset::Shared)
            }),
            sys::Kind::Other => Seen::OTHER,
        };
        let above = match stream(fd) {
            0 => streams::standard_above(fd),
            known => known,
        };
        let cursor = if stream(fd) == 0 {
            beginning(fd, seen)
        } else {
            cursor(fd)
        };
        put(fd, seen, cursor);
        if above != 0 && seen.is_recorded() {
            has_stream(fd, above, cursor);
        }
        seen.is_recorded().then_some(seen)
    })
}

/// `fd` was just opened as `file`, or as something that is not recorded.
pub(crate) fn opened(fd: c_int, file: Option<u32>, flags: c_int) -> Option<Seen> {
    let recorded = file.filter(|_| sys::kind(fd) == Some(sys::Kind::Recorded));
    let seen = recorded.map_or(Seen::OTHER, |file| Seen::file(file, flags, Offset::Own));
    put(fd, seen, 0);
    recorded.map(|_| seen)
}

/// The cache's knowledge of `fd`.
#[inline(always)]
pub(crate) fn cached(fd: c_int) -> Known {
    Known(entry(fd).map_or(0, |entry| entry.cached.load(Relaxed)))
}

/// Notes what the cache knows of `fd`; whatever makes, copies or ends the descriptor forgets it.
pub(crate) fn keep_cached(fd: c_int, known: Known) {
    if let Some(entry) = entry(fd) {
        HIGHEST.fetch_max(fd, Relaxed);
        entry.cached.store(known.0, Relaxed);
    }
}

/// The facts about `fd` for writes that are left to the agent.
#[inline(always)]
pub(crate) fn write_ring(fd: c_int) -> Known {
    Known(entry(fd).map_or(0, |entry| entry.write_ring.load(Relaxed)))
}

/// Notes that; whatever makes, copies or ends the descriptor, or changes its flags, forgets it.
pub(crate) fn keep_write_ring(fd: c_int, known: Known) {
    if let Some(entry) = entry(fd).filter(|_| life::is_own_memory()) {
        HIGHEST.fetch_max(fd, Relaxed);
        entry.write_ring.store(known.0, Relaxed);
    }
}

/// The operating system's offset of `fd` as the cache expects it.
#[inline(always)]
pub(crate) fn expected(fd: c_int) -> i64 {
    entry(fd).map_or(0, |entry| entry.expected.load(Relaxed))
}

/// Notes where it will expect it.
#[inline(always)]
pub(crate) fn expect(fd: c_int, offset: i64) {
    if let Some(entry) = entry(fd) {
        entry.expected.store(offset, Relaxed);
    }
}

/// The facts about `fd` as a file of the mount; 0 if there are none.
#[inline(always)]
pub(crate) fn mounted(fd: c_int) -> u64 {
    entry(fd).map_or(0, |entry| entry.mounted.load(Relaxed))
}

/// Notes that; whatever makes, copies or ends the descriptor forgets it.
pub(crate) fn keep_mounted(fd: c_int, known: u64) {
    if let Some(entry) = entry(fd).filter(|_| life::is_own_memory()) {
        HIGHEST.fetch_max(fd, Relaxed);
        entry.mounted.store(known, Relaxed);
    }
}

/// Another file, of which the cache has nothing, has taken the place of `fd`.
pub(crate) fn fallen(fd: c_int, known: u64) {
    keep_mounted(fd, known);
    if life::is_own_memory() {
        keep_cached(fd, Known::NOTHING);
    }
}

/// `fd` is whatever it is: forgotten, and learned when it is used.
pub(crate) fn forget(fd: c_int) {
    let words = |entry: &Entry| {
        let known = [
            &entry.seen,
            &entry.cached,
            &entry.mounted,
            &entry.write_ring,
        ];
        known.iter().any(|word| word.load(Relaxed) != 0)
    };
    if entry(fd).is_some_and(words) {
        put(fd, Seen(0), 0);
    }
}

/// Forgets `fd`, and says what it was if calls on it are recorded. One that was never used is not
/// learned for this: programs close whole ranges, and the tracer closes files of its own.
pub(crate) fn take(fd: c_int) -> Option<Seen> {
    let seen = Seen(entry(fd)?.seen.load(Relaxed));
    forget(fd);
    seen.is_recorded().then_some(seen)
}

/// `fd` and all above up to `last` are gone.
pub(crate) fn forget_range(first: u32, last: u32) {
    let highest = u32::try_from(HIGHEST.load(Relaxed)).unwrap_or(0);
    for fd in first..=last.min(highest) {
        forget(fd.cast_signed());
    }
}

/// This is a child: nothing is known of any descriptor, but what the streams on top of them have
/// moved up to now was their parent's doing.
pub(crate) fn inherited() {
    for fd in 0..=HIGHEST.load(Relaxed) {
        let Some(entry) = entry(fd) else { return };
        entry.seen.store(0, Relaxed);
        if entry.stream.load(Relaxed) != 0 {
            entry.cursor.store(sys::tell(fd).unwrap_or(0), Relaxed);
        }
    }
}

/// `to` is now another name of `from`, and both have one offset.
pub(crate) fn duplicated(from: c_int, to: c_int) {
    if from == to {
        return;
    }
    let Some(source) = entry(from) else {
        return forget(to);
    };
    let seen = source.seen.load(Relaxed);
    if seen & FILE == 0 {
        put(to, Seen(seen), 0);
        return keep_mounted(to, source.mounted.load(Relaxed));
    }
    if !life::is_own_memory() {
        return;
    }
    source.seen.fetch_or(SHARED, Relaxed);
    let above = match stream(to) {
        0 => streams::standard_above(to),
        known => known,
    };
    put(to, Seen((seen | SHARED) & !STREAM), 0);
    keep_mounted(to, source.mounted.load(Relaxed));
    if above != 0 {
        // Shells send their standard output elsewhere under the stream that they go on using.
        has_stream(to, above, beginning(to, Seen(seen)));
        settled(to, cursor(to));
    }
}

/// The flags of `fd` were changed, and with them those of all its duplicates, which are not told apart here.
pub(crate) fn flags_changed(fd: c_int) {
    if life::is_own_memory() {
        let known = 0..=HIGHEST.load(Relaxed);
        for entry in known.filter_map(entry) {
            entry.cached.store(0, Relaxed);
            entry.write_ring.store(0, Relaxed);
        }
    }
    let Some(seen) = look(fd) else { return };
    let kept = seen.0 & !(APPEND | DIRECT | SYNC | READS | WRITES);
    put_word(fd, Seen(kept | bits_of(sys::open_flags(fd))));
}

/// From now on another process has the same descriptors.
pub(crate) fn forked() {
    if FORKS.load(Relaxed) < FORKS_MAX {
        FORKS.fetch_add(1, Relaxed);
    }
}

/// The position on `fd` of a stream that nobody has used yet.
pub(crate) fn beginning(fd: c_int, seen: Seen) -> i64 {
    let known = if seen.0 & APPEND != 0 {
        sys::size(fd)
    } else {
        sys::tell(fd)
    };
    known.unwrap_or(0)
}

fn put(fd: c_int, seen: Seen, cursor: i64) {
    let Some(entry) = entry(fd) else { return };
    if !life::is_own_memory() {
        return;
    }
    HIGHEST.fetch_max(fd, Relaxed);
    entry.cached.store(0, Relaxed);
    entry.mounted.store(0, Relaxed);
    entry.write_ring.store(0, Relaxed);
    entry.cursor.store(cursor, Relaxed);
    entry.stream.store(0, Relaxed);
    entry.seen.store(seen.0, Relaxed);
}

fn put_word(fd: c_int, seen: Seen) {
    if let Some(entry) = entry(fd).filter(|_| life::is_own_memory()) {
        entry.seen.store(seen.0, Relaxed);
    }
}

/// `count` bytes were just moved at the descriptor's own offset: where they began.
#[inline(always)]
pub(crate) fn advance(fd: c_int, seen: Seen, count: i64) -> i64 {
    let Some(entry) = entry(fd) else { return 0 };
    if seen.offset_is_own() {
        // Relaxed: two threads that read at one offset race in the program already.
        return entry.cursor.fetch_add(count, Relaxed);
    }
    // Under a stream the cursor is the stream's, which moves along.
    entry.cursor.fetch_add(count, Relaxed);
    sys::tell(fd).unwrap_or(count) - count
}

/// The descriptor's own offset is now `offset`.
pub(crate) fn moved(fd: c_int, seen: Seen, offset: i64) {
    if let Some(entry) = entry(fd).filter(|_| seen.0 & STREAM == 0) {
        entry.cursor.store(offset, Relaxed);
    }
}

/// The position of the stream on `fd` when it was last looked at.
pub(crate) fn cursor(fd: c_int) -> i64 {
    entry(fd).map_or(0, |entry| entry.cursor.load(Relaxed))
}

/// A stdio stream is now on top of `fd`, and stands at `offset`.
pub(crate) fn has_stream(fd: c_int, stream: usize, offset: i64) {
    let Some(entry) = entry(fd).filter(|_| life::is_own_memory()) else {
        return;
    };
    entry.cursor.store(offset, Relaxed);
    entry.stream.store(stream, Relaxed);
    entry.seen.fetch_or(STREAM, Relaxed);
}

/// The stdio stream on top of `fd`; 0 if there is none.
pub(crate) fn stream(fd: c_int) -> usize {
    entry(fd).map_or(0, |entry| entry.stream.load(Relaxed))
}

/// Whether no child can have moved the offset of `fd` since it was last settled.
pub(crate) fn moved_by_us_alone(fd: c_int) -> bool {
    let forks = u64::from(FORKS.load(Relaxed));
    entry(fd).is_some_and(|entry| entry.seen.load(Relaxed) >> FORKS_SHIFT == forks)
}

/// The stream on `fd` was looked at and stands at `offset`.
pub(crate) fn settled(fd: c_int, offset: i64) {
    let Some(entry) = entry(fd) else { return };
    let forks = u64::from(FORKS.load(Relaxed)) << FORKS_SHIFT;
    let seen = entry.seen.load(Relaxed) & !(u64::MAX << FORKS_SHIFT);
    entry.cursor.store(offset, Relaxed);
    entry.seen.store(seen | forks, Relaxed);
}

/// Every stdio stream that may be on top of a recorded descriptor, and where it was last seen.
pub(crate) fn each_stream(mut take: impl FnMut(usize, i64)) {
    for fd in 0..=HIGHEST.load(Relaxed) {
        let Some(entry) = entry(fd) else { return };
        let stream = entry.stream.load(Relaxed);
        if stream != 0 {
            take(stream, entry.cursor.load(Relaxed));
        }
    }
}
