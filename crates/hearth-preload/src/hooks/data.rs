//! Calls that move bytes, and those that make them safe.

use std::ffi::{c_int, c_uint, c_void};

use hearth_trace::Op;
use libc::{iovec, off_t, size_t, ssize_t};

use crate::call::{copying, on, quickly};
use crate::gone::{self, Begin};
use crate::table::hooks;
use crate::{cache, write_ring};

hooks! {
    fn read(fd: c_int, buf: *mut c_void, count: size_t) -> ssize_t =
        |real| quickly(move || gone::reading_bytes(fd, (buf, count), Begin::Own, move || cache::read(fd, buf, count, real), real), move || on(Op::Read, fd).at_own().asks(count));
    fn __read_chk(fd: c_int, buf: *mut c_void, count: size_t, size: size_t) -> ssize_t =
        |real| quickly(move || gone::reading_bytes(fd, (buf, count), Begin::Own, move || checked(count, size, real, |real| cache::read(fd, buf, count, real)), real), move || on(Op::Read, fd).at_own().asks(count));
    fn write(fd: c_int, buf: *const c_void, count: size_t) -> ssize_t =
        |real| on(Op::Write, fd).at_own().asks(count).call(|| gone::writing(fd, Begin::Own, count, || write_ring::write(fd, (buf, count), real)));

    fn pread(fd: c_int, buf: *mut c_void, count: size_t, offset: off_t) -> ssize_t =
        |real| quickly(move || gone::reading_bytes(fd, (buf, count), Begin::At(offset), move || cache::pread(fd, buf, count, offset, real), real), move || on(Op::Pread, fd).at(offset).asks(count));
    fn pread64(fd: c_int, buf: *mut c_void, count: size_t, offset: off_t) -> ssize_t =
        |real| quickly(move || gone::reading_bytes(fd, (buf, count), Begin::At(offset), move || cache::pread(fd, buf, count, offset, real), real), move || on(Op::Pread, fd).at(offset).asks(count));
    fn __pread_chk(fd: c_int, buf: *mut c_void, count: size_t, offset: off_t, size: size_t) -> ssize_t =
        |real| quickly(move || gone::reading_bytes(fd, (buf, count), Begin::At(offset), move || checked(count, size, real, |real| cache::pread(fd, buf, count, offset, real)), real), move || on(Op::Pread, fd).at(offset).asks(count));
    fn __pread64_chk(fd: c_int, buf: *mut c_void, count: size_t, offset: off_t, size: size_t) -> ssize_t =
        |real| quickly(move || gone::reading_bytes(fd, (buf, count), Begin::At(offset), move || checked(count, size, real, |real| cache::pread(fd, buf, count, offset, real)), real), move || on(Op::Pread, fd).at(offset).asks(count));
    fn pwrite(fd: c_int, buf: *const c_void, count: size_t, offset: off_t) -> ssize_t =
        |real| on(Op::Pwrite, fd).at(offset).asks(count).call(|| gone::writing(fd, Begin::At(offset), count, || write_ring::pwrite(fd, (buf, count), offset, real)));
    fn pwrite64(fd: c_int, buf: *const c_void, count: size_t, offset: off_t) -> ssize_t =
        |real| on(Op::Pwrite, fd).at(offset).asks(count).call(|| gone::writing(fd, Begin::At(offset), count, || write_ring::pwrite(fd, (buf, count), offset, real)));

    fn readv(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t =
        |real| on(Op::Readv, fd).at_own().call_vector(vector, count, || gone::reading(fd, || cache::readv(fd, (vector, count), real), real));
    fn preadv(fd: c_int, vector: *const iovec, count: c_int, offset: off_t) -> ssize_t =
        |real| on(Op::Readv, fd).at(offset).call_vector(vector, count, || gone::reading(fd, || cache::preadv(fd, (vector, count), offset, real), real));
    fn preadv64(fd: c_int, vector: *const iovec, count: c_int, offset: off_t) -> ssize_t =
        |real| on(Op::Readv, fd).at(offset).call_vector(vector, count, || gone::reading(fd, || cache::preadv(fd, (vector, count), offset, real), real));
    fn preadv2(fd: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t =
        |real| on(Op::Readv, fd).at(offset).call_vector(vector, count, || gone::reading(fd, || cache::preadv2(fd, (vector, count), (offset, flags), real), real));
    fn preadv64v2(fd: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t =
        |real| on(Op::Readv, fd).at(offset).call_vector(vector, count, || gone::reading(fd, || cache::preadv2(fd, (vector, count), (offset, flags), real), real));
    fn writev(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t =
        |real| on(Op::Writev, fd).at_own().call_vector(vector, count, || gone::writing_vector(fd, Begin::Own, real));
    fn pwritev(fd: c_int, vector: *const iovec, count: c_int, offset: off_t) -> ssize_t =
        |real| on(Op::Writev, fd).at(offset).call_vector(vector, count, || gone::writing_vector(fd, Begin::At(offset), real));
    fn pwritev64(fd: c_int, vector: *const iovec, count: c_int, offset: off_t) -> ssize_t =
        |real| on(Op::Writev, fd).at(offset).call_vector(vector, count, || gone::writing_vector(fd, Begin::At(offset), real));
    fn pwritev2(fd: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t =
        |real| on(Op::Writev, fd).at(offset).call_vector(vector, count, || gone::writing_vector(fd, Begin::At(offset), real));
    fn pwritev64v2(fd: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t =
        |real| on(Op::Writev, fd).at(offset).call_vector(vector, count, || gone::writing_vector(fd, Begin::At(offset), real));

    fn sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t =
        |real| copying((from, offset), (to, std::ptr::null_mut()), count, || gone::copying(from, to, real));
    fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t =
        |real| copying((from, offset), (to, std::ptr::null_mut()), count, || gone::copying(from, to, real));
    fn copy_file_range(from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, count: size_t, flags: c_uint) -> ssize_t =
        |real| copying((from, from_at), (to, to_at), count, || gone::copying(from, to, real));
    fn splice(from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, count: size_t, flags: c_uint) -> ssize_t =
        |real| copying((from, from_at), (to, to_at), count, || gone::copying(from, to, real));

    fn lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t =
        |real| on(Op::Lseek, fd).call_seek(|| gone::reading(fd, || cache::seek(fd, real), || cache::seek(fd, real)));
    fn lseek64(fd: c_int, offset: off_t, whence: c_int) -> off_t =
        |real| on(Op::Lseek, fd).call_seek(|| gone::reading(fd, || cache::seek(fd, real), || cache::seek(fd, real)));

    fn fsync(fd: c_int) -> c_int = |real| on(Op::Fsync, fd).call(|| gone::syncing(fd, real, real));
    fn fdatasync(fd: c_int) -> c_int = |real| on(Op::Fdatasync, fd).call(|| gone::syncing(fd, real, real));
    fn syncfs(fd: c_int) -> c_int = |real| on(Op::Fdatasync, fd).call(|| gone::syncing(fd, real, real));
    fn sync_file_range(fd: c_int, offset: off_t, count: off_t, flags: c_uint) -> c_int =
        |real| on(Op::Fdatasync, fd).at(offset).asks(count).call(|| gone::changing(fd, real));

    fn ftruncate(fd: c_int, size: off_t) -> c_int = |real| on(Op::Truncate, fd).at(size).call(|| gone::changing(fd, real));
    fn ftruncate64(fd: c_int, size: off_t) -> c_int = |real| on(Op::Truncate, fd).at(size).call(|| gone::changing(fd, real));
    fn fallocate(fd: c_int, mode: c_int, offset: off_t, size: off_t) -> c_int =
        |real| on(Op::Fallocate, fd).at(offset).asks(size).call(|| gone::changing(fd, real));
    fn fallocate64(fd: c_int, mode: c_int, offset: off_t, size: off_t) -> c_int =
        |real| on(Op::Fallocate, fd).at(offset).asks(size).call(|| gone::changing(fd, real));
    fn posix_fallocate(fd: c_int, offset: off_t, size: off_t) -> c_int =
        |real| on(Op::Fallocate, fd).at(offset).asks(size).call_returning_error(real);
    fn posix_fallocate64(fd: c_int, offset: off_t, size: off_t) -> c_int =
        |real| on(Op::Fallocate, fd).at(offset).asks(size).call_returning_error(real);
    fn posix_fadvise(fd: c_int, offset: off_t, size: off_t, advice: c_int) -> c_int =
        |real| on(Op::Advise, fd).at(offset).asks(size).call_returning_error(real);
    fn posix_fadvise64(fd: c_int, offset: off_t, size: off_t, advice: c_int) -> c_int =
        |real| on(Op::Advise, fd).at(offset).asks(size).call_returning_error(real);
    fn readahead(fd: c_int, offset: off_t, count: size_t) -> ssize_t =
        |real| on(Op::Advise, fd).at(offset).asks(count).call(real);

    fn flock(fd: c_int, operation: c_int) -> c_int = |real| on(Op::Lock, fd).call(real);
    fn lockf(fd: c_int, command: c_int, size: off_t) -> c_int =
        |real| on(Op::Lock, fd).asks(size).call(real);
    fn lockf64(fd: c_int, command: c_int, size: off_t) -> c_int =
        |real| on(Op::Lock, fd).asks(size).call(real);
}

/// A call that is told the size of the buffer: one that asks for more ends the program, which is for
/// the real call to do.
#[inline(always)]
fn checked<F: FnOnce() -> ssize_t>(
    count: size_t,
    size: size_t,
    real: F,
    serve: impl FnOnce(F) -> ssize_t,
) -> ssize_t {
    if count > size { real() } else { serve(real) }
}
