//! Brings the sessions of many machines to one place.
//!
//! A [`LogClient`] on each machine collects what is traced there and sends it, in acknowledged chunks
//! over an authenticated connection, to one [`Server`], which appends each session to a file of its
//! own. While the server is away chunks wait in memory and then in a bounded spill file; beyond the
//! bound the rings are left alone, fill up, and count what they drop.
//!
//! 1. A chunk is acknowledged after the operating system of the server has it.
//! 2. A session's frames are stored once and in order, whatever was sent twice.
//! 3. The server trusts nothing: a chunk that is not the session's next frames ends the connection.

mod client;
mod message;
mod sender;
mod server;
mod spool;

pub use client::{ClientConfig, Finished, LogClient, ShipError, SpoolLimits};
pub use sender::{RawClock, Shipper};
pub use server::{ServeError, Server};

/// The job of the two ends; tells log connections from those of agents.
const JOB: &str = "trace";

/// Both ends of log connections.
pub fn party(secret: hearth_net::Secret) -> hearth_net::Party {
    hearth_net::Party {
        job: JOB.to_owned(),
        secret,
    }
}
