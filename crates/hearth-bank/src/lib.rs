//! Unmodified memcached daemons: starting them, and talking to many at once.
//!
//! ```text
//! caller ── Bank::order ──▶ queue ──▶ one thread ── meta protocol ──▶ daemon 0, 1, 2, ...
//!        ◀── BankHandler::answered ─────┘
//! ```
//!
//! Reading order: [`Address`] (where a daemon is), [`item`] (what an entry looks like, and why bytes that are not ours
//! are never taken for ours). Next come `reply` (lines of the protocol), `talk` (one connection without a socket) and
//! [`Bank`] (the thread that has the sockets). Last come [`stats`] (what a daemon says of itself) and [`daemon`]
//! (starting one).
//!
//! Every user relies on these rules:
//!
//! - B1: every order is answered exactly once, within [`BankClientConfig::patience`] and a little.
//! - B2: after the first order of a connection that is not answered in time, or a byte that the
//!   protocol does not have, the connection is closed and all its orders are [`Lost`].
//! - B3: no byte of a daemon is trusted: an entry that this job did not seal under this very key is
//!   not there.
//! - B4: a daemon that could not be used at all (older than the meta protocol, items too small, not
//!   memcached) is never reported as up.

#![forbid(unsafe_code)]

mod address;
pub mod daemon;
mod driver;
pub mod item;
mod link;
mod order;
mod reply;
pub mod stats;
mod talk;

pub use address::{Address, AddressError};
pub use driver::{Answered, Asked, Bank, BankClientConfig, BankHandler, LinkStatus};
pub use item::{OpenedEntry, Seal};
pub use order::{Answer, Lost, Order};
