//! The MPI library of a program, whichever it is, and a transport over it.
//!
//! Nothing is linked: [`symbols`] finds the functions of the library that the program has loaded, by the names
//! that the standard gives them, and [`abi`] says what differs between libraries. [`Comm`] is a communicator of
//! our own, and [`Lines`] the messages in it; a [`MpiEndpoint`] starts the transport.

#![deny(unsafe_code)]

#[expect(unsafe_code, reason = "calls functions of the MPI library")]
mod comm;
#[expect(unsafe_code, reason = "loads a library, and begins and ends MPI")]
mod program;
#[expect(unsafe_code, reason = "looks up functions of other libraries")]
pub mod symbols;
mod transport;

pub use comm::{Comm, CommError, is_going_on, is_multiple};
pub use program::Program;
pub use symbols::{Abi, Raw, abi};
pub use transport::{Lines, MpiEndpoint};
