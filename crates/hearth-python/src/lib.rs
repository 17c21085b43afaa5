//! The Python module: files of a job, read out of its node's memory.
//!
//! Here is what Python cannot do by itself. The package beside it (`python/hearth`) starts a session and has files,
//! names and errors. A [`file::Handle`] reads as a program under `hearth run` does: bytes in memory are copied without a
//! system call, all others come from the mount, by the descriptor.
//!
//! ```text
//! hearth.File -> Handle.pread -> pool of this node's agent, else pread(2) on the mount
//! ```
//!
//! - PYTHON-1: bytes come from the pool only for a descriptor that the mount has opened for reading, so the store has judged it.
//! - PYTHON-2: no object of Python's ever lies in the pool: bytes are copied out, and the copy is checked after that.

#![deny(unsafe_code)]

mod file;
#[expect(unsafe_code, reason = "reads into memory of Python objects")]
mod memory;
mod names;
mod pool;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// The part of the package that is not Python.
#[pymodule]
#[pyo3(name = "_native")]
mod native {
    #[pymodule_export]
    use crate::file::Handle;
    #[pymodule_export]
    use crate::names::open_beneath;
    #[pymodule_export]
    use crate::pool::Pool;
}

/// An error of the operating system, as Python has it: by its number.
fn os_error(error: rustix::io::Errno) -> PyErr {
    let words = std::io::Error::from(error).to_string();
    PyOSError::new_err((error.raw_os_error(), words))
}
