//! Gateways: agents beside the store that make calls on it for nodes which do not mount it
//!
//! A [`Gateway`] is a part of an agent beside the store: it makes calls on it that other nodes ask for, under
//! the rights of whoever asked there. A [`ProxyMount`] is a mount of such a node in place of the store's: the
//! node's agent uses it as if it were the store. So whatever an agent does with a store it can do through
//! gateways, under every policy, and nothing else in it knows of them.
//!
//! ```text
//! program -> mount -> agent -> proxy mount -> its process == channel ==> gateway -> store
//! ```
//!
//! Invariants:
//!
//! - G1: a call that changes something is made once, or not at all, or fails with `EIO`: it is never made
//!   twice. A connection that breaks is made anew, and the call is asked again under its number ([`gateway`] keeps the
//!   answer of the last call of each slot). A gateway that is gone takes what it knew with it, and then nobody can say
//!   whether the call was made.
//! - G2: a call is made under the rights of the program that asked. Supplementary groups come with it.
//! - G3: a gateway that takes over from another finds every inode by its name, and knows it by its number and birth: a
//!   name that has come to mean another file is `ESTALE`.
//! - G4: a lock goes with the gateway that has it: then its file says `EIO` until it is closed.
//! - G5: every call ends: a gateway that is silent for [`proxy_mount::SILENCE_MAX`] is given up, and so is the
//!   next, until none is left.
//!
//! A proxy mount is a process of its own. Were it a part of the agent, an agent that is killed would wait in the
//! operating system for answers that it can no longer give itself, and could not end.

#![forbid(unsafe_code)]

mod call;
mod gateway;
mod proxy_mount;

pub use gateway::Gateway;
pub use proxy_mount::{ProxyMount, ProxyMountPlan};
