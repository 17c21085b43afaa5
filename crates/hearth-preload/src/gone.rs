//! Calls on files of the mount when the agent is gone: clean reads go on, writes fail loudly.
//!
//! 1. Nothing is done before a call has failed in the way of a mount that nobody serves, but to note
//!    what is written ([`crate::unsaved`]).
//! 2. A descriptor whose file has no unsaved bytes of this process becomes one of the store's file, for
//!    reading alone. So stdio, mappings, copies and children that come later read on, too.
//! 3. Unsaved bytes are never replaced in silence by what the store has in their place: reads of them
//!    fail until a sync or a close has told the program.
//! 4. Writes, and syncs and closes of what is unsaved, fail with `EIO`, and the first of them is
//!    explained on standard error.

use std::ffi::{c_char, c_int, c_void};
use std::ops::Range;
use std::os::fd::OwnedFd;

use libc::{DIR, FILE, ssize_t};

use crate::behind::{self, Mounted, may_be_gone, means_gone};
use crate::errno::{errno, keeping_errno, set_errno};
use crate::names::At;
use crate::notice::{self, Cost};
use crate::outcome::Outcome;
use crate::{stdio, sys, unsaved};

/// The offset at which a call begins.
#[derive(Clone, Copy)]
pub(crate) enum Begin {
    /// At the descriptor's own offset.
    Own,
    /// At the offset that the call names; less than zero is the descriptor's own.
    At(i64),
}

/// All bytes of a file.
const ALL: Range<u64> = 0..u64::MAX;

impl Begin {
    fn span(self, fd: c_int, count: usize) -> Range<u64> {
        let from = match self {
            Begin::At(offset) if offset >= 0 => Some(offset),
            Begin::At(_) | Begin::Own => sys::tell(fd),
        };
        let from = from.unwrap_or(0).cast_unsigned();
        from..from.saturating_add(count as u64)
    }
}

/// How a descriptor can go on.
enum Mended {
    /// It is one of the store's file now.
    Replaced,
    /// Some bytes of the file are unsaved; these are not among them.
    Apart(OwnedFd),
    /// Some of these bytes are unsaved.
    Lost,
    /// It cannot, or there was nothing to mend.
    No,
}

/// Mends `fd` after a call that has failed with `error`, and was to read some of `span`.
#[cold]
#[inline(never)]
fn mend(fd: c_int, error: c_int, span: Range<u64>) -> Mended {
    let Some(file) = behind::file(fd).filter(|file| file.reads() && !file.has_fallen()) else {
        return Mended::No;
    };
    if !means_gone(error, fd) {
        return Mended::No;
    }
    if unsaved::overlaps(file.number(), span) {
        return Mended::Lost;
    }
    let Some(store) = behind::open(fd, file) else {
        return Mended::No;
    };
    if unsaved::any(file.number()) {
        return Mended::Apart(store);
    }
    match behind::replace(fd, file, store) {
        Some(()) => Mended::Replaced,
        None => Mended::No,
    }
}

/// A call that reads of `fd`, or asks something about it.
#[inline(always)]
pub(crate) fn reading<R: Outcome>(
    fd: c_int,
    call: impl FnOnce() -> R,
    again: impl FnOnce() -> R,
) -> R {
    let value = call();
    if !value.failed() || !may_be_gone(errno()) {
        return value;
    }
    let error = errno();
    match mend(fd, error, ALL) {
        Mended::Replaced => again(),
        Mended::Lost | Mended::Apart(_) => lost(),
        Mended::No => failing(error, value),
    }
}

/// A call that reads bytes of `fd` into the program's memory.
#[inline(always)]
pub(crate) fn reading_bytes(
    fd: c_int,
    (buf, count): (*mut c_void, usize),
    begin: Begin,
    call: impl FnOnce() -> ssize_t,
    again: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let value = call();
    if value >= 0 || !may_be_gone(errno()) {
        return value;
    }
    let error = errno();
    let span = begin.span(fd, count);
    let from = span.start;
    match mend(fd, error, span) {
        Mended::Replaced => again(),
        Mended::Apart(store) => read_apart(fd, &store, (buf, count), (begin, from)),
        Mended::Lost => lost(),
        Mended::No => failing(error, value),
    }
}

/// Reads from the store, and moves the offset as the call would have.
fn read_apart(
    fd: c_int,
    store: &OwnedFd,
    into: (*mut c_void, usize),
    (begin, from): (Begin, u64),
) -> ssize_t {
    match sys::read_for(store, into, from) {
        Ok(done) => {
            if matches!(begin, Begin::Own) {
                let _ = sys::move_on(fd, done as i64);
            }
            done.cast_signed()
        }
        Err(error) => failing(error, -1),
    }
}

/// The program asks for bytes that may be lost.
fn lost<R: Outcome>() -> R {
    notice::say(Cost::Bytes);
    failing(libc::EIO, R::FAILED)
}

fn failing<R>(error: c_int, value: R) -> R {
    set_errno(error);
    value
}

/// A call that writes so many bytes to `fd`.
#[inline(always)]
pub(crate) fn writing<R: Outcome>(
    fd: c_int,
    begin: Begin,
    count: usize,
    call: impl FnOnce() -> R,
) -> R {
    let Some(file) = behind::file(fd).filter(|file| file.writes()) else {
        return call();
    };
    note(fd, file, begin, count);
    let value = call();
    if value.failed() {
        return refused(fd, file, value);
    }
    value
}

/// The same for vectors, whose bytes are known once they are written.
#[inline(always)]
pub(crate) fn writing_vector(fd: c_int, begin: Begin, call: impl FnOnce() -> ssize_t) -> ssize_t {
    let Some(file) = behind::file(fd).filter(|file| file.writes()) else {
        return call();
    };
    let value = call();
    match usize::try_from(value) {
        Ok(count) => {
            let back = if let Begin::At(at) = begin { at } else { -1 };
            let end = if back < 0 { sys::tell(fd) } else { None };
            let from = end.map_or(back, |end| end - count as i64);
            note(fd, file, Begin::At(from.max(0)), count);
            value
        }
        Err(_) => refused(fd, file, value),
    }
}

/// A call that changes a file otherwise, in the store itself.
#[inline(always)]
pub(crate) fn changing<R: Outcome>(fd: c_int, call: impl FnOnce() -> R) -> R {
    let value = call();
    match behind::known(fd).filter(|_| value.failed()) {
        Some(file) => refused(fd, file, value),
        None => value,
    }
}

fn note(fd: c_int, file: Mounted, begin: Begin, count: usize) {
    if file.has_fallen() || behind::was_gone() {
        // It will be refused, and the program told at once.
        return;
    }
    let mut span = begin.span(fd, count);
    if matches!(begin, Begin::Own) && sys::open_flags(fd) & libc::O_APPEND != 0 {
        // Somewhere at the end, which somebody else may move.
        span = u64::try_from(sys::size(fd).unwrap_or(0)).unwrap_or(0)..u64::MAX;
    }
    unsaved::note(file.number(), span);
}

#[cold]
#[inline(never)]
fn refused<R>(fd: c_int, file: Mounted, value: R) -> R {
    let error = errno();
    let is_gone = match error {
        libc::EBADF | libc::EINVAL => file.has_fallen(),
        _ => means_gone(error, fd),
    };
    if !is_gone {
        return failing(error, value);
    }
    notice::say(Cost::Write);
    failing(libc::EIO, value)
}

/// A call that makes safe what was written to `fd`.
#[inline(always)]
pub(crate) fn syncing(
    fd: c_int,
    call: impl FnOnce() -> c_int,
    again: impl FnOnce() -> c_int,
) -> c_int {
    match behind::file(fd).filter(|file| file.writes()) {
        None => reading(fd, call, again),
        Some(file) => confirming(fd, file, call),
    }
}

fn confirming(fd: c_int, file: Mounted, call: impl FnOnce() -> c_int) -> c_int {
    let noted = unsaved::take(file.number());
    let value = call();
    let was_lost = file.has_fallen() && !noted.is_empty();
    if value == 0 && !was_lost {
        return value;
    }
    let error = errno();
    if file.has_fallen() || means_gone(error, fd) {
        return lost();
    }
    unsaved::put_back(file.number(), &noted);
    failing(error, value)
}

/// A call that ends `fd`. The operating system ends it even if nobody serves the mount.
#[inline(always)]
pub(crate) fn closing(fd: c_int, call: impl FnOnce() -> c_int) -> c_int {
    if !behind::is_on() {
        return call();
    }
    let only_reads = behind::only_reads(fd);
    let written = behind::known(fd).filter(|file| file.writes());
    let noted = written.map(|file| unsaved::take(file.number()));
    let value = call();
    match value {
        0 => value,
        _ => not_closed(value, only_reads, written.zip(noted)),
    }
}

#[cold]
#[inline(never)]
fn not_closed(value: c_int, only_reads: bool, written: Option<(Mounted, unsaved::Noted)>) -> c_int {
    let error = errno();
    let is_gone = may_be_gone(error) && behind::is_gone();
    match written {
        Some((file, noted)) if !is_gone => unsaved::put_back(file.number(), &noted),
        Some((_, noted)) if !noted.is_empty() => return lost(),
        Some(_) => {}
        // Nothing was written through it.
        None if is_gone && only_reads => return 0,
        None => {}
    }
    failing(error, value)
}

/// A call that opens `at` with `flags`: where the mount is gone, a file that is only to be read is
/// opened in the store.
pub(crate) fn opening(at: At, flags: c_int, call: impl FnOnce() -> c_int) -> c_int {
    let fd = call();
    if fd >= 0 {
        return fd;
    }
    let error = errno();
    let is_clean = flags & (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_PATH) == 0;
    if !is_clean || !may_be_gone(error) || error == libc::EIO {
        return failing(error, fd);
    }
    match behind::open_path(at, flags) {
        Some(Ok(store)) => sys::hand_out(store, flags),
        Some(Err(error)) => failing(error, fd),
        None => failing(error, fd),
    }
}

/// The same for a stream.
pub(crate) fn opening_stream(
    path: *const c_char,
    mode: *const c_char,
    call: impl FnOnce() -> *mut FILE,
) -> *mut FILE {
    let file = call();
    if !file.is_null() || !may_be_gone(errno()) {
        return file;
    }
    let error = errno();
    let Some(flags) = stdio::flags_of(mode) else {
        return failing(error, file);
    };
    let failed = || failing(error, -1);
    match opening(At::cwd(path), flags, failed) {
        fd if fd < 0 => file,
        fd => stdio::on_top_of(fd, mode),
    }
}

/// Opens the file of the store that a path of the mount names, to be asked about, after a call on
/// the path has failed for want of an agent. An error is the store's.
#[cold]
#[inline(never)]
fn named(at: At, flags: c_int) -> Option<Result<OwnedFd, c_int>> {
    let error = errno();
    if at.path.is_null() || !may_be_gone(error) || error == libc::EIO {
        return None;
    }
    let mut how = libc::O_PATH;
    if flags & libc::AT_SYMLINK_NOFOLLOW != 0 {
        how |= libc::O_NOFOLLOW;
    }
    let named = behind::open_path(at, how);
    set_errno(error);
    named
}

/// A call that asks what is at a path: the store says so where the mount is gone. `fill` has it answer
/// for a descriptor.
#[inline(always)]
pub(crate) fn asking(
    at: At,
    flags: c_int,
    call: impl FnOnce() -> c_int,
    fill: impl FnOnce(&OwnedFd) -> Result<(), c_int>,
) -> c_int {
    let value = call();
    if value == 0 || !may_be_gone(errno()) {
        return value;
    }
    match named(at, flags).map(|named| named.and_then(|store| fill(&store))) {
        Some(Ok(())) => 0,
        Some(Err(error)) => failing(error, -1),
        None => value,
    }
}

/// A call that asks whether something may be done to what is at a path.
#[inline(always)]
pub(crate) fn accessing(
    at: At,
    (mode, flags): (c_int, c_int),
    call: impl FnOnce() -> c_int,
) -> c_int {
    asking(at, flags, call, |store| sys::may(store, mode, flags))
}

/// A call that lists what is at a path.
#[inline(always)]
pub(crate) fn listing(at: At, call: impl FnOnce() -> *mut DIR) -> *mut DIR {
    let dir = call();
    if !dir.is_null() || !may_be_gone(errno()) {
        return dir;
    }
    match store_directory(at) {
        fd if fd < 0 => dir,
        fd => stdio::listing_of(fd),
    }
}

/// The same for one that lists all of it at once; `again` does it for what is open as a descriptor.
pub(crate) fn listing_all(
    at: At,
    call: impl FnOnce() -> c_int,
    again: impl FnOnce(c_int) -> c_int,
) -> c_int {
    let value = call();
    if value >= 0 || !may_be_gone(errno()) {
        return value;
    }
    match store_directory(at) {
        fd if fd < 0 => value,
        fd => {
            let value = again(fd);
            keeping_errno(|| sys::close(fd));
            value
        }
    }
}

/// The store's directory at a path of the mount, to be listed; less than zero if that cannot be.
#[cold]
#[inline(never)]
fn store_directory(at: At) -> c_int {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let error = errno();
    opening(at, flags, || failing(error, -1))
}

/// A call that copies bytes from one descriptor to another.
pub(crate) fn copying(from: c_int, to: c_int, call: impl Fn() -> ssize_t) -> ssize_t {
    let value = reading(from, &call, &call);
    let Some(file) = behind::file(to).filter(|file| file.writes()) else {
        return value;
    };
    if value > 0 {
        // It may have begun anywhere.
        unsaved::note(file.number(), ALL);
        return value;
    }
    match value.failed() {
        true => refused(to, file, value),
        false => value,
    }
}

/// A call that maps a file, which is one of the store if nobody serves the mount: else the first use of
/// a page would end the program.
pub(crate) fn mapping(fd: c_int, flags: c_int, call: impl FnOnce() -> *mut c_void) -> *mut c_void {
    let is_file = flags & libc::MAP_ANONYMOUS == 0;
    let Some(file) = is_file.then(|| behind::file(fd)).flatten() else {
        return call();
    };
    let before = errno();
    if !file.has_fallen() && !sys::answers(fd) {
        match mend(fd, libc::ENOTCONN, ALL) {
            Mended::Replaced => {}
            Mended::Lost | Mended::Apart(_) => return mapped_nothing(Cost::Bytes),
            Mended::No => return mapped_nothing(Cost::Write),
        }
    } else if file.writes() && flags & libc::MAP_SHARED != 0 {
        unsaved::note(file.number(), ALL);
    }
    set_errno(before);
    call()
}

fn mapped_nothing(cost: Cost) -> *mut c_void {
    notice::say(cost);
    failing(libc::EIO, libc::MAP_FAILED)
}

/// A call that reads of a stream. One that fails for want of an agent is made again from where the
/// stream stood before.
#[inline(always)]
pub(crate) fn from_stream<R>(file: *mut FILE, call: impl Fn() -> R) -> R {
    if !behind::is_on() || file.is_null() {
        return call();
    }
    let fd = stdio::descriptor(file);
    if behind::file(fd).is_none() {
        return call();
    }
    let before = stdio::position(file);
    let value = call();
    if !stdio::has_failed(file) || !may_be_gone(errno()) {
        return value;
    }
    let error = errno();
    match (mend(fd, error, ALL), before) {
        (Mended::Replaced, Some(before)) if stdio::begin_again(file, before) => call(),
        (Mended::Lost | Mended::Apart(_), _) => {
            notice::say(Cost::Bytes);
            failing(libc::EIO, value)
        }
        (Mended::Replaced | Mended::No, _) => failing(error, value),
    }
}

/// A stream for writing was put on top of a descriptor: what goes through it is not seen here.
pub(crate) fn streaming(file: *mut FILE) {
    if !behind::is_on() || file.is_null() {
        return;
    }
    let before = errno();
    let fd = stdio::descriptor(file);
    if let Some(file) = behind::file(fd).filter(|file| file.writes()) {
        unsaved::note(file.number(), ALL);
    }
    set_errno(before);
}

/// A call that ends a stream.
pub(crate) fn closing_stream(file: *mut FILE, call: impl FnOnce() -> c_int) -> c_int {
    if !behind::is_on() || file.is_null() {
        return call();
    }
    let before = errno();
    let fd = stdio::descriptor(file);
    // Learned now: a stream's bytes go to the descriptor without a hook.
    let _ = behind::file(fd);
    set_errno(before);
    closing(fd, call)
}
