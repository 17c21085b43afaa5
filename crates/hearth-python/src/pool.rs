//! The memory of this node's agent, mapped into this process.

use hearth_client::Outcome;
use hearth_client::local::{CounterShard, Local};
use pyo3::prelude::*;
use std::mem::MaybeUninit;

/// The pool of an agent, lent to this process for reading alone.
#[pyclass(frozen, module = "hearth._native")]
pub(crate) struct Pool {
    local: Local,
    /// Threads that read without the interpreter's lock share it. Then a count may be lost.
    shard: CounterShard,
}

#[pymethods]
impl Pool {
    /// Maps what the agent lends that listens at `path`.
    #[new]
    fn new(py: Python<'_>, path: &[u8]) -> PyResult<Pool> {
        let local = py.detach(|| Local::attach(path))?;
        let shard = local.shard();
        Ok(Pool { local, shard })
    }
}

impl Pool {
    /// Fills all of `into` with bytes of a file.
    pub(crate) fn read(&self, place: (u64, u64), into: &mut [MaybeUninit<u8>]) -> Outcome<usize> {
        self.local.read(self.shard, place, into)
    }
}
