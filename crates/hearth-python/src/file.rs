//! An open file: reads out of the pool, or by its descriptor.

use std::mem::MaybeUninit;
use std::os::fd::RawFd;

use hearth_client::{Bypass, Outcome};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::io::Errno;

use crate::memory::{self, Filled};
use crate::os_error;
use crate::pool::Pool;

/// A copy of at most so many bytes keeps the interpreter's lock: to give it away and get it back takes as long.
const LOCKED_BYTES_MAX: usize = 64 << 10;

/// A file that Python has open by its descriptor.
#[pyclass(frozen, module = "hearth._native")]
pub(crate) struct Handle {
    fd: RawFd,
    /// Its number in the pool, if reads may come from there (PYTHON-1).
    pooled: Option<(Py<Pool>, u64)>,
}

#[pymethods]
impl Handle {
    /// A file by its descriptor. With a pool and the file's number, reads come from there first.
    #[new]
    #[pyo3(signature = (fd, pool=None, number=0))]
    fn new(fd: RawFd, pool: Option<Py<Pool>>, number: u64) -> Handle {
        let pooled = pool.map(|pool| (pool, number));
        Handle { fd, pooled }
    }

    /// Up to `size` bytes from `offset` on; fewer only at the end of the file.
    fn pread<'py>(&self, py: Python<'py>, size: i64, offset: i64) -> PyResult<Bound<'py, PyBytes>> {
        let (Ok(size), Ok(offset)) = (usize::try_from(size), u64::try_from(offset)) else {
            return Err(PyValueError::new_err("size and offset are 0 or more"));
        };
        memory::bytes(py, size, |room| self.read(py, offset, room))
    }

    /// Fills an object that can be written with bytes from `offset` on; returns how many.
    fn pread_into(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        offset: i64,
    ) -> PyResult<usize> {
        let offset =
            u64::try_from(offset).map_err(|_| PyValueError::new_err("an offset is 0 or more"))?;
        memory::lent(buffer, |room| self.read(py, offset, room))
    }
}

impl Handle {
    fn read(&self, py: Python<'_>, offset: u64, room: &mut [MaybeUninit<u8>]) -> PyResult<Filled> {
        match self.read_pool(py, offset, room) {
            Outcome::Serve(filled) => Ok(filled),
            // Pages that the operating system kept may be old by now: without an agent nobody calls them back.
            Outcome::Bypass(Bypass::NoAgent) => Err(os_error(Errno::NOTCONN)),
            Outcome::Bypass(_) | Outcome::Fail(_) => self.read_mount(py, offset, room),
        }
    }

    fn read_pool(
        &self,
        py: Python<'_>,
        offset: u64,
        room: &mut [MaybeUninit<u8>],
    ) -> Outcome<Filled> {
        let Some((pool, number)) = &self.pooled else {
            return Outcome::Bypass(Bypass::NotHere);
        };
        let (pool, place) = (pool.get(), (*number, offset));
        let read = |room: &mut [MaybeUninit<u8>]| Filled::served(pool.read(place, room), room);
        match room.len() <= LOCKED_BYTES_MAX {
            true => read(room),
            false => py.detach(|| read(room)),
        }
    }

    /// Has the mount fill it. A signal runs its handler, and the read goes on if that raises nothing.
    fn read_mount(
        &self,
        py: Python<'_>,
        offset: u64,
        room: &mut [MaybeUninit<u8>],
    ) -> PyResult<Filled> {
        let fd = memory::borrowed(self.fd)?;
        loop {
            let read = py.detach(|| {
                let done = rustix::io::pread(fd, &mut *room, offset);
                done.map(|(done, _)| Filled::first(done))
            });
            match read {
                Err(Errno::INTR) => py.check_signals()?,
                other => return other.map_err(os_error),
            }
        }
    }
}
