//! The order of views: who the members of a set of agents are, and what follows from that.
//!
//! Reading order: [`membership`] (one view, and the rules of a change), [`slots`] (who owns a slot in
//! a view), [`lease`] (when a member may act, and when it may be excluded).
#![forbid(unsafe_code)]

pub mod lease;
pub mod membership;
pub mod slots;
