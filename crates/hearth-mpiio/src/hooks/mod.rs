//! The calls of the C library by which an MPI library reaches files.
//!
//! Each row asks first whether the call is about a cached file. For all others the real call is
//! made, with the arguments that the program gave.

mod asynchronous;
mod bytes;
mod descriptors;
mod names;
