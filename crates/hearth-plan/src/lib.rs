//! Placement of jobs and choice of the files that stay, as pure functions.
//!
//! Two questions, and each is answered three times: as a published method has it in print
//! (*literal*), as that method was meant (*paper*), and as well as it can be done (the names say
//! how). The published method is the two-layer scheduling of HyCache+: its Algorithm 1 gives jobs to
//! nodes, its Algorithms 2 and 3 decide which files of a known queue stay in a node's memory.
//!
//! Reading order:
//!
//! 1. [`units`]: files, nodes, bytes.
//! 2. [`place`]: which node a job runs on. [`flow`] carries the exact answer.
//! 3. [`retain`]: which files stay when the queue is known, and how much no method can pass.
//! 4. [`online`]: which files stay when the future is not known.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod flow;
pub mod online;
pub mod place;
pub mod retain;
pub mod units;

pub use units::{Bytes, FileIndex, NodeIndex};
