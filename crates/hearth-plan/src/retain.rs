//! Which files stay in a node's memory when the queue of reads is known.
//!
//! Reads come one after another. Between two reads of a file its bytes either *stay*, and the second
//! read is served by memory, or they do not, and it goes to the disk. All bytes that stay have to
//! fit at every moment. A file that is read need not be kept: it can pass by.
//!
//! | who decides | how |
//! |---|---|
//! | [`VictimRule::Literal`] | the published method line by line |
//! | [`VictimRule::Paper`] | the same with the checks that it needs |
//! | [`VictimRule::Covering`] | the same with exact victims |
//! | [`packing`] | stays are packed, short ones first |
//! | [`best`] | all of these and a search; never behind any of them |
//! | [`optimum`] | every way that counts, where these are few |
//! | [`bound`] | nobody: no plan has more bytes from memory |

mod bound;
mod follow;
mod packing;
mod plan;
mod queue;
mod search;
pub mod victims;

pub use bound::{bound, bound_fractional, bound_hits};
pub use follow::{Follower, ServedFrom, Step, VictimRule};
pub use packing::packing;
pub use plan::{RetainPlan, ServedBytes};
pub use queue::Queue;
pub use search::{Best, best, optimum};
