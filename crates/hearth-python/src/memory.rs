//! Memory of Python objects that reads go into, and descriptors that Python owns.
//!
//! The interface that Python keeps from 3.9 on lends no buffer for long. So a memoryview of our own holds the object still, and
//! its address is asked for: an object that has such a view neither moves nor changes its size.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;

use hearth_client::Outcome;
use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

use crate::os_error;

unsafe extern "C" {
    /// Of the stable interface; the bindings leave it out, because new programs should not need it.
    fn PyObject_AsWriteBuffer(
        object: *mut ffi::PyObject,
        start: *mut *mut c_void,
        len: *mut ffi::Py_ssize_t,
    ) -> std::ffi::c_int;
}

/// The part of memory that a read has filled.
pub(crate) struct Filled(usize);

impl Filled {
    /// The outcome of a read into `room` out of the pool, which fills all or nothing.
    pub(crate) fn served(outcome: Outcome<usize>, room: &[MaybeUninit<u8>]) -> Outcome<Filled> {
        match outcome {
            Outcome::Serve(_) => Outcome::Serve(Filled(room.len())),
            Outcome::Bypass(why) => Outcome::Bypass(why),
            Outcome::Fail(errno) => Outcome::Fail(errno),
        }
    }

    /// Bytes that were filled, from the first on.
    pub(crate) fn first(done: &[u8]) -> Filled {
        Filled(done.len())
    }

    /// How many bytes.
    pub(crate) fn len(&self) -> usize {
        self.0
    }
}

/// New bytes of which `fill` fills the first ones.
pub(crate) fn bytes<'py>(
    py: Python<'py>,
    size: usize,
    fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> PyResult<Filled>,
) -> PyResult<Bound<'py, PyBytes>> {
    let len = ffi::Py_ssize_t::try_from(size)
        .map_err(|_| PyMemoryError::new_err("more bytes than there can be"))?;
    // SAFETY: with no source it makes an object of that size whose bytes anybody may still fill; nobody else has it.
    let made = unsafe { ffi::PyBytes_FromStringAndSize(ptr::null(), len) };
    // SAFETY: a new reference, or null with an exception.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, made) }?;
    let made = made.cast_into::<PyBytes>()?;
    // SAFETY: it is bytes, so the address is that of `size` bytes, which live as long as `made`. Of an empty object all share one
    // byte, which is not touched.
    let room = unsafe {
        let start = ffi::PyBytes_AsString(made.as_ptr()).cast::<MaybeUninit<u8>>();
        std::slice::from_raw_parts_mut(start, size)
    };
    let done = fill(room)?.len();
    if done == size {
        return Ok(made);
    }
    // SAFETY: `Filled` says that so many are initialised.
    let first = unsafe { std::slice::from_raw_parts(room.as_ptr().cast::<u8>(), done) };
    Ok(PyBytes::new(py, first))
}

/// Lends the memory of an object that can be written, such as a bytearray or an array of NumPy, to `fill`.
pub(crate) fn lent(
    object: &Bound<'_, PyAny>,
    fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> PyResult<Filled>,
) -> PyResult<usize> {
    // Held for the call: it keeps the object's memory where it is.
    let view = PyMemoryView::from(object)?;
    let (mut start, mut len) = (ptr::null_mut(), 0);
    // SAFETY: a live object and two places of this frame.
    let status = unsafe { PyObject_AsWriteBuffer(view.as_ptr(), &raw mut start, &raw mut len) };
    if status != 0 {
        return Err(PyErr::fetch(object.py()));
    }
    let len = usize::try_from(len).expect("lengths are not negative");
    if len == 0 {
        return Ok(0);
    }
    // SAFETY: `view` is one piece of `len` bytes that may be written. Nobody else has it, so nobody releases it before
    // `fill` is done. Threads of the program that touch the bytes meanwhile race as they do in `readinto` of any file.
    let room = unsafe { std::slice::from_raw_parts_mut(start.cast::<MaybeUninit<u8>>(), len) };
    fill(room).map(|filled| filled.len())
}

/// A descriptor that the caller keeps open during the call.
pub(crate) fn borrowed<'fd>(fd: RawFd) -> PyResult<BorrowedFd<'fd>> {
    if fd < 0 {
        return Err(os_error(rustix::io::Errno::BADF));
    }
    // SAFETY: not -1. A number that is not open is an error of the call that uses it, as it is for Python's own `os`.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}
