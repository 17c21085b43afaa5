//! A job of MPI whose ranks do what a test asks, each over a socket of the host.

pub(crate) mod driver;
pub(crate) mod launchers;
pub(crate) mod rank;
mod words;
