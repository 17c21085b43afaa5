//! Stdio: the calls of programs through `FILE`.
//!
//! 1. A call that is hooked is recorded with its bytes. Bytes that went by elsewhere (`printf`,
//!    `getc` and other calls for single characters or with any number of arguments) show in the
//!    stream's position. They become one record when the stream is next looked at, at its end at the
//!    latest.
//! 2. Between the look before a call and the note after it the stream is locked, as stdio locks it
//!    itself, so that two threads do not count one byte twice.
//! 3. A position that a child may have moved says nothing about this process: then only what still
//!    waits in the buffer counts.

use std::ffi::{c_char, c_int};

use hearth_trace::ring::{OpFacts, tracer};
use hearth_trace::{Flags, Op, clock};
use libc::FILE;

use crate::call::{Timed, opened};
use crate::errno::keeping_errno;
use crate::fds::Seen;
use crate::names::{At, Failed, Named};
use crate::outcome::Outcome;
use crate::{fds, gone, names, stdio, thread};

/// A stream on top of a descriptor whose calls are recorded.
#[derive(Clone, Copy)]
struct Stream {
    file: *mut FILE,
    fd: c_int,
    seen: Seen,
}

/// Whether a call locks its stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locking {
    /// As stdio does.
    Yes,
    /// The caller sees to it.
    No,
}

/// Notes where the standard streams stand, before the program begins.
pub(crate) fn start() {
    for file in stdio::standard() {
        if let Some(stream) = Stream::of(file) {
            fds::has_stream(
                stream.fd,
                file.expose_provenance(),
                fds::beginning(stream.fd, stream.seen),
            );
        }
    }
}

/// Records what went by, for every stream.
pub(crate) fn catch_up_all() {
    keeping_errno(|| {
        fds::each_stream(|address, last| {
            let file = std::ptr::with_exposed_provenance_mut(address);
            // A stream that another thread holds to the end keeps its secret.
            let Some(_lock) = stdio::Lock::if_free(file) else {
                return;
            };
            // A child that did nothing with it is not traced for its sake.
            if stdio::position(file) != Some(last)
                && let Some(stream) = Stream::of(file)
            {
                stream.catch_up();
            }
        });
    });
}

/// The standard stream on top of `fd`; 0 if there is none.
pub(crate) fn standard_above(fd: c_int) -> usize {
    let Some(file) = usize::try_from(fd)
        .ok()
        .and_then(|fd| stdio::standard().get(fd).copied())
    else {
        return 0;
    };
    if file.is_null() || keeping_errno(|| stdio::descriptor(file)) != fd {
        return 0;
    }
    file.expose_provenance()
}

impl Stream {
    fn of(file: *mut FILE) -> Option<Stream> {
        if file.is_null() {
            return None;
        }
        let fd = keeping_errno(|| stdio::descriptor(file));
        let seen = fds::look(fd)?;
        Some(Stream { file, fd, seen })
    }

    fn is_known(self) -> bool {
        fds::stream(self.fd) == self.file.addr()
    }

    fn position(self) -> i64 {
        keeping_errno(|| stdio::position(self.file)).unwrap_or(0)
    }

    /// Records what went by since the last look; where the stream stands now.
    fn catch_up(self) -> i64 {
        let position = self.position();
        let is_known = self.is_known();
        if !is_known {
            fds::has_stream(self.fd, self.file.expose_provenance(), position);
        }
        let passed = if !stdio::has_buffer(self.file) {
            0
        } else if is_known && fds::moved_by_us_alone(self.fd) {
            position - fds::cursor(self.fd)
        } else {
            stdio::pending(self.file)
        };
        self.note(passed, position);
        fds::settled(self.fd, position);
        position
    }

    /// Records that `passed` bytes up to `position` went by.
    fn note(self, passed: i64, position: i64) {
        if passed <= 0 {
            return;
        }
        let writes =
            self.seen.only_writes() || (!self.seen.only_reads() && stdio::is_writing(self.file));
        let mut done = OpFacts::new(if writes { Op::Write } else { Op::Read });
        done.file = self.seen.number();
        done.asked = passed.cast_unsigned();
        done.result = passed;
        done.offset = (position - passed).max(0).cast_unsigned();
        done.flags = Flags::BUFFERED | Flags::MANY | self.seen.flags();
        done.flags = done.flags | thread::follow(done.file, position - passed, passed);
        let now = clock::now();
        tracer::record(now, now, &done);
    }

    fn record(self, op: Op, offset: i64, timed: &Timed, bytes: i64, asked: u64) {
        let mut done = OpFacts::new(op);
        done.file = self.seen.number();
        done.asked = asked;
        done.offset = offset.cast_unsigned();
        done.result = if timed.result < 0 {
            timed.result
        } else {
            bytes
        };
        done.flags = self.seen.flags() | Flags::BUFFERED;
        if op.moves_bytes() {
            done.flags = done.flags | thread::follow(done.file, offset, bytes);
        }
        timed.record(&done);
    }
}

/// Makes a real call that moves bytes of a stream, as many as `bytes` reads from what it returns.
#[inline(always)]
pub(crate) fn moving<R: Outcome>(
    op: Op,
    file: *mut FILE,
    locking: Locking,
    asked: usize,
    real: impl FnOnce() -> R,
    bytes: impl FnOnce(R) -> usize,
) -> R {
    let Some(stream) = recorded(file) else {
        return real();
    };
    let _lock = (locking == Locking::Yes).then(|| stdio::Lock::take(file));
    let offset = stream.catch_up();
    let (value, mut timed) = Timed::call(real);
    let moved = bytes(value);
    // Null is the end of the file as well as a failure, and only one of them sets `errno`.
    if value.failed() && !stdio::has_failed(file) {
        timed.result = 0;
    }
    let moved = i64::try_from(moved).unwrap_or(0);
    fds::settled(stream.fd, offset + moved);
    // Lines and strings are as long as they turn out to be.
    let asked = if asked == 0 {
        moved.cast_unsigned()
    } else {
        asked as u64
    };
    stream.record(op, offset, &timed, moved, asked);
    value
}

/// Makes a real call that does something else with a stream.
pub(crate) fn doing<R: Outcome>(op: Op, file: *mut FILE, real: impl FnOnce() -> R) -> R {
    let Some(stream) = recorded(file) else {
        return real();
    };
    let _lock = stdio::Lock::take(file);
    stream.catch_up();
    let (value, timed) = Timed::call(real);
    let offset = stream.position();
    fds::settled(stream.fd, offset);
    stream.record(op, offset, &timed, 0, 0);
    value
}

fn recorded(file: *mut FILE) -> Option<Stream> {
    tracer::is_on().then(|| Stream::of(file)).flatten()
}

/// Makes a real call that flushes a stream, or all of them.
pub(crate) fn flushing(file: *mut FILE, real: impl FnOnce() -> c_int) -> c_int {
    if !file.is_null() {
        return doing(Op::Flush, file, real);
    }
    if tracer::is_on() {
        catch_up_all();
    }
    real()
}

/// Makes a real call that ends a stream.
pub(crate) fn closing(file: *mut FILE, real: impl FnOnce() -> c_int) -> c_int {
    let Some(stream) = recorded(file) else {
        if !file.is_null() {
            fds::forget(keeping_errno(|| stdio::descriptor(file)));
        }
        return real();
    };
    {
        let _lock = stdio::Lock::take(file);
        stream.catch_up();
    }
    fds::forget(stream.fd);
    let (value, timed) = Timed::call(real);
    stream.record(Op::Close, 0, &timed, 0, 0);
    value
}

/// Makes a real call that opens `path` as a stream.
pub(crate) fn opening(
    path: *const c_char,
    mode: *const c_char,
    real: impl FnOnce() -> *mut FILE,
) -> *mut FILE {
    if !tracer::is_on() {
        let file = real();
        forget(file);
        gone::streaming(file);
        return file;
    }
    let (file, timed) = Timed::call(real);
    let at = At::cwd(path);
    let named = thread::inside(|| {
        if file.is_null() {
            return names::of_path(at, Failed::Yes);
        }
        // SAFETY: the real call has just read the mode.
        let flags = unsafe { stdio::open_flags(mode) };
        let named = opened(at, flags, stdio::descriptor(file));
        watch(file);
        named
    });
    if let Some(named) = named.unwrap_or(Some(Named::NONE)) {
        let mut done = OpFacts::new(Op::Open);
        done.result = timed.result;
        done.flags = Flags::BUFFERED;
        if !file.is_null() {
            // SAFETY: as above.
            done.asked = u64::from(unsafe { stdio::open_flags(mode) }.cast_unsigned());
        }
        named.mark(&mut done);
        tracer::record(timed.started, timed.ended, &done);
    }
    gone::streaming(file);
    timed.forget();
    file
}

/// Makes a real call that opens `path` in the place of what `file` was.
pub(crate) fn reopening(
    path: *const c_char,
    mode: *const c_char,
    file: *mut FILE,
    real: impl FnOnce() -> *mut FILE,
) -> *mut FILE {
    if let Some(stream) = recorded(file) {
        stream.catch_up();
    }
    forget(file);
    if path.is_null() {
        return real();
    }
    opening(path, mode, real)
}

/// A stream was put on top of a descriptor that is known.
pub(crate) fn watch(file: *mut FILE) {
    if let Some(stream) = recorded(file) {
        fds::has_stream(stream.fd, file.expose_provenance(), stream.position());
    }
}

/// A stream was made of something unknown, or is about to become something else.
pub(crate) fn forget(file: *mut FILE) {
    if !file.is_null() {
        fds::forget(keeping_errno(|| stdio::descriptor(file)));
    }
}
