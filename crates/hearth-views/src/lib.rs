//! The order of views: who the members of a set of agents are, and what follows from that.
//!
//! Reading order: [`membership`] (one view, and the rules of a change), [`lease`] (when a member may act, and when it may
//! be excluded), [`log`] (views in their order). Back ends of the log: [`memory`] (the specification) and [`raft`].
#![forbid(unsafe_code)]

mod history;
pub mod lease;
pub mod log;
pub mod membership;
pub mod memory;
pub mod raft;
pub mod wire;

pub use history::VIEWS_KEPT_MAX;
