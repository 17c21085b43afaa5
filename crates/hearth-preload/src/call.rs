//! Before, the real call, after: the one place that every recorded call passes.
//!
//! 1. Off costs a load and a branch; calls that make, copy or end a descriptor are noted all the
//!    same.
//! 2. The program finds `errno` as the real call left it.
//! 3. A thread works for the trace once at a time: a signal handler that comes between is passed
//!    through, and its call is recorded without its file.

use std::ffi::c_int;

use hearth_trace::ring::{OpFacts, tracer};
use hearth_trace::{Flags, Op, clock};
use libc::{DIR, off_t, ssize_t};

use crate::errno::{errno, set_errno};
use crate::fds::Seen;
use crate::names::{At, Failed, Named};
use crate::outcome::Outcome;
use crate::{behind, fds, names, thread};

/// When a call was made, and what it returned.
#[derive(Clone, Copy)]
pub(crate) struct Timed {
    pub(crate) started: u64,
    pub(crate) ended: u64,
    /// Bytes, a descriptor, or a negative error number.
    pub(crate) result: i64,
    errno: c_int,
}

impl Timed {
    /// Makes the real call.
    #[inline(always)]
    pub(crate) fn call<R: Outcome>(real: impl FnOnce() -> R) -> (R, Timed) {
        let started = clock::now();
        let value = real();
        let ended = clock::now();
        let errno = errno();
        let result = if value.failed() {
            -i64::from(errno)
        } else {
            value.count()
        };
        let timed = Timed {
            started,
            ended,
            result,
            errno,
        };
        (value, timed)
    }

    pub(crate) fn failed(&self) -> Failed {
        if self.result < 0 {
            Failed::Yes
        } else {
            Failed::No
        }
    }

    #[inline(always)]
    pub(crate) fn record(&self, done: &OpFacts) {
        tracer::record(self.started, self.ended, done);
        set_errno(self.errno);
    }

    pub(crate) fn forget(&self) {
        set_errno(self.errno);
    }
}

/// The place in the file at which a call works.
#[derive(Clone, Copy)]
enum Place {
    /// Nowhere.
    None,
    /// At the descriptor's own offset, which it moves.
    Own,
    /// At the offset that the call names.
    Given(i64),
}

/// A call on a descriptor.
#[derive(Clone, Copy)]
pub(crate) struct OnFd {
    op: Op,
    fd: c_int,
    place: Place,
    asked: u64,
}

/// A call on `fd`.
#[inline(always)]
pub(crate) fn on(op: Op, fd: c_int) -> OnFd {
    OnFd {
        op,
        fd,
        place: Place::None,
        asked: 0,
    }
}

/// Does what may take no longer than a few loads; what is to be recorded of it is asked for only if
/// calls are recorded. Both come by value, so that nothing of the recording is on the usual way.
#[inline(always)]
pub(crate) fn quickly<R: Outcome>(work: impl FnOnce() -> R, record: impl FnOnce() -> OnFd) -> R {
    if tracer::is_on() {
        return recorded(work, record);
    }
    work()
}

#[cold]
#[inline(never)]
fn recorded<R: Outcome>(work: impl FnOnce() -> R, record: impl FnOnce() -> OnFd) -> R {
    record().call(work)
}

impl OnFd {
    /// It begins at `offset`; a negative one is the descriptor's own.
    #[inline(always)]
    pub(crate) fn at(mut self, offset: i64) -> OnFd {
        self.place = if offset < 0 {
            Place::Own
        } else {
            Place::Given(offset)
        };
        self
    }

    /// It begins at the descriptor's own offset.
    #[inline(always)]
    pub(crate) fn at_own(mut self) -> OnFd {
        self.place = Place::Own;
        self
    }

    /// It asks for `bytes`.
    #[inline(always)]
    pub(crate) fn asks(mut self, bytes: impl TryInto<u64>) -> OnFd {
        self.asked = bytes.try_into().unwrap_or(0);
        self
    }

    /// Makes the real call and records it.
    #[inline(always)]
    pub(crate) fn call<R: Outcome>(self, real: impl FnOnce() -> R) -> R {
        if !tracer::is_on() {
            return real();
        }
        let Some(seen) = fds::look(self.fd) else {
            return real();
        };
        let (value, timed) = Timed::call(real);
        self.record(seen, &timed);
        value
    }

    /// The same for a call that returns its error instead of setting `errno`.
    #[inline(always)]
    pub(crate) fn call_returning_error(self, real: impl FnOnce() -> c_int) -> c_int {
        if !tracer::is_on() {
            return real();
        }
        let Some(seen) = fds::look(self.fd) else {
            return real();
        };
        let (value, mut timed) = Timed::call(real);
        timed.result = -i64::from(value);
        self.record(seen, &timed);
        value
    }

    /// The same for vectors, whose bytes are summed up once the real call has read them.
    #[inline(always)]
    pub(crate) fn call_vector(
        mut self,
        vector: *const libc::iovec,
        count: c_int,
        real: impl FnOnce() -> isize,
    ) -> isize {
        if !tracer::is_on() {
            return real();
        }
        let Some(seen) = fds::look(self.fd) else {
            return real();
        };
        let (value, timed) = Timed::call(real);
        if value >= 0 {
            // SAFETY: the real call has just read as many elements there.
            self.asked = unsafe { crate::sys::vector_bytes(vector, count) };
        }
        self.record(seen, &timed);
        value
    }

    /// The same for a call that answers where it has moved to.
    #[inline(always)]
    pub(crate) fn call_seek(mut self, real: impl FnOnce() -> i64) -> i64 {
        if !tracer::is_on() {
            return real();
        }
        let Some(seen) = fds::look(self.fd) else {
            return real();
        };
        let (value, timed) = Timed::call(real);
        if value >= 0 {
            fds::moved(self.fd, seen, value);
            self.place = Place::Given(value);
        }
        self.record(seen, &timed);
        value
    }

    /// The same for a call whose null is the end, too: only a failure changes `errno`.
    pub(crate) fn call_to_the_end<T>(self, real: impl FnOnce() -> *mut T) -> *mut T {
        if !tracer::is_on() {
            return real();
        }
        let Some(seen) = fds::look(self.fd) else {
            return real();
        };
        let before = errno();
        let (value, mut timed) = Timed::call(real);
        if timed.errno == before {
            timed.result = 0;
        }
        self.record(seen, &timed);
        value
    }

    #[inline(always)]
    fn record(self, seen: Seen, timed: &Timed) {
        let mut done = OpFacts::new(self.op);
        done.file = seen.number();
        done.asked = self.asked;
        if timed.result > 0 {
            // "As much as there is" must not cost the exact count of what there was.
            done.asked = done.asked.min(u64::from(u32::MAX));
        }
        done.result = timed.result;
        done.flags = seen.flags();
        let count = timed.result.max(0);
        let offset = match self.place {
            Place::None => None,
            Place::Given(offset) => Some(offset),
            Place::Own => Some(fds::advance(self.fd, seen, count)),
        };
        if let Some(offset) = offset {
            done.offset = offset.cast_unsigned();
            if self.op.moves_bytes() {
                done.flags = done.flags | thread::follow(done.file, offset, count);
            }
        }
        timed.record(&done);
    }
}

/// A call on a path.
#[derive(Clone, Copy)]
pub(crate) struct OnPath {
    op: Op,
    at: At,
    offset: u64,
    asked: u64,
}

/// A call on what is at `at`.
#[inline(always)]
pub(crate) fn on_path(op: Op, at: At) -> OnPath {
    OnPath {
        op,
        at,
        offset: 0,
        asked: 0,
    }
}

impl OnPath {
    /// It is about the byte at `offset`.
    pub(crate) fn at(mut self, offset: i64) -> OnPath {
        self.offset = offset.cast_unsigned();
        self
    }

    /// It asks for `bytes`.
    pub(crate) fn asks(mut self, bytes: usize) -> OnPath {
        self.asked = bytes as u64;
        self
    }

    /// Makes the real call and records it.
    #[inline(always)]
    pub(crate) fn call<R: Outcome>(self, real: impl FnOnce() -> R) -> R {
        if !tracer::is_on() {
            return real();
        }
        let (value, timed) = Timed::call(real);
        self.record(&timed);
        value
    }

    #[inline(never)]
    fn record(self, timed: &Timed) {
        let named = thread::inside(|| names::of_path(self.at, timed.failed()));
        if let Some(named) = named.unwrap_or(Some(Named::NONE)) {
            let mut done = OpFacts::new(self.op);
            done.offset = self.offset;
            done.asked = self.asked;
            done.result = timed.result;
            named.mark(&mut done);
            tracer::record(timed.started, timed.ended, &done);
        }
        timed.forget();
    }
}

impl Named {
    pub(crate) fn mark(self, done: &mut OpFacts) {
        done.file = self.file;
        if self.is_cut {
            done.flags = done.flags | Flags::NAME_CUT;
        }
    }
}

/// Makes a real call that opens `at` with `flags`, and keeps the new descriptor.
#[inline(always)]
pub(crate) fn opening(at: At, flags: c_int, real: impl FnOnce() -> c_int) -> c_int {
    if !tracer::is_on() {
        let fd = real();
        fds::forget(fd);
        behind::opened(fd, flags);
        return fd;
    }
    let (fd, timed) = Timed::call(real);
    record_opening(at, flags, fd, &timed);
    behind::opened(fd, flags);
    fd
}

#[inline(never)]
fn record_opening(at: At, flags: c_int, fd: c_int, timed: &Timed) {
    let named = thread::inside(|| match timed.failed() {
        Failed::Yes => names::of_path(at, Failed::Yes),
        Failed::No => opened(at, flags, fd),
    });
    if named.is_none() {
        fds::forget(fd);
    }
    if let Some(named) = named.unwrap_or(Some(Named::NONE)) {
        let mut done = OpFacts::new(Op::Open);
        done.asked = u64::from(flags.cast_unsigned());
        done.result = timed.result;
        named.mark(&mut done);
        tracer::record(timed.started, timed.ended, &done);
    }
    timed.forget();
}

/// Keeps the new descriptor `fd`; `None` if it is not recorded.
pub(crate) fn opened(at: At, flags: c_int, fd: c_int) -> Option<Named> {
    let named = if names::climbs(at) {
        names::of_descriptor(fd).map(Named::of)
    } else {
        names::of_path(at, Failed::No)
    };
    fds::opened(fd, named.map(|named| named.file), flags)?;
    named
}

/// Makes a real call that ends `fd`. It is forgotten before: the number may be another thread's as
/// soon as the call is made.
#[inline(always)]
pub(crate) fn closing<R: Outcome>(fd: c_int, real: impl FnOnce() -> R) -> R {
    let seen = fds::take(fd);
    let Some(seen) = seen.filter(|_| tracer::is_on()) else {
        return real();
    };
    let (value, timed) = Timed::call(real);
    on(Op::Close, fd).record(seen, &timed);
    value
}

/// Makes a real call that returns a new descriptor of something unknown.
pub(crate) fn making(real: impl FnOnce() -> c_int) -> c_int {
    let fd = real();
    fds::forget(fd);
    fd
}

/// Makes a real call after which `from` is open as what it returns, too.
pub(crate) fn duplicating(from: c_int, real: impl FnOnce() -> c_int) -> c_int {
    let to = real();
    if to >= 0 {
        fds::duplicated(from, to);
    }
    to
}

/// The same for two descriptors that the call writes to `made`.
pub(crate) fn making_two(made: *const c_int, real: impl FnOnce() -> c_int) -> c_int {
    let done = real();
    if done == 0 {
        // SAFETY: the real call has just written two numbers there.
        let two = unsafe { made.cast::<[c_int; 2]>().read() };
        two.into_iter().for_each(fds::forget);
    }
    done
}

/// Makes a real call that opens a directory to list it.
pub(crate) fn opening_directory(at: At, real: impl FnOnce() -> *mut DIR) -> *mut DIR {
    if !tracer::is_on() {
        return real();
    }
    let (dir, timed) = Timed::call(real);
    let named = thread::inside(|| {
        if dir.is_null() {
            return names::of_path(at, Failed::Yes);
        }
        // SAFETY: the real call has just made it.
        let fd = unsafe { libc::dirfd(dir) };
        opened(at, libc::O_RDONLY, fd)
    });
    if let Some(named) = named.unwrap_or(Some(Named::NONE)) {
        let mut done = OpFacts::new(Op::Opendir);
        done.result = timed.result;
        named.mark(&mut done);
        tracer::record(timed.started, timed.ended, &done);
    }
    timed.forget();
    dir
}

/// One side of a copy: a descriptor, and where the offset stands that is used instead of its own.
pub(crate) type Side = (c_int, *mut off_t);

/// Makes a real call that copies bytes between descriptors. The time is in the record of the file
/// that is read; that of the other file is a write of no duration. A copy from a socket or a pipe is
/// a write alone.
pub(crate) fn copying(
    from: Side,
    to: Side,
    asked: usize,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    if !tracer::is_on() {
        return real();
    }
    let (source, target) = (fds::look(from.0), fds::look(to.0));
    if source.is_none() && target.is_none() {
        return real();
    }
    let (value, timed) = Timed::call(real);
    let place = |side: Side, call: OnFd| match side.1.is_null() {
        true => call.at_own(),
        false if value < 0 => call,
        // SAFETY: the real call has just moved the offset there by what it returned.
        false => call.at((unsafe { *side.1 } - value as i64).max(0)),
    };
    let mut timed = timed;
    if let Some(seen) = source {
        place(from, on(Op::Copy, from.0).asks(asked)).record(seen, &timed);
        timed.started = timed.ended;
    }
    if let Some(seen) = target.filter(|_| source.is_none() || timed.result > 0) {
        place(to, on(Op::Write, to.0).asks(asked)).record(seen, &timed);
    }
    value
}
