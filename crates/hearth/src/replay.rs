//! Does again what a trace says that programs did, on copies of their files.
//!
//! 1. [`plan`] puts all operations in order of time once, to find out which files must be there before
//!    and who waited for whom, and leaves each thread's operations in a temporary file.
//! 2. [`tree`] makes the files, sparse.
//! 3. [`run`] has a thread for each traced one. It keeps the order within a thread; an operation on a
//!    file also waits for the last change of that file that another thread had finished before. The
//!    time that passed between operations is kept, or dropped.
//!
//! All replayed files stay below one directory, whatever the trace's paths are.

pub(crate) mod files;
pub(crate) mod gate;
pub(crate) mod plan;
pub(crate) mod run;
pub(crate) mod step;
pub(crate) mod tree;

#[cfg(test)]
mod tests;
