//! Memory shared between processes: page pool segments; home of unsafe.
//!
//! - [`Pool`]: the frames that hold cached pages, in sealed memfd segments.
//! - [`ServerQueue`]: when each modelled I/O server is free again, agreed on by all agents of a
//!   machine through one small file.
//!
//! All `unsafe` code lives in `segment.rs`; its interface, and so the rest of this crate, is safe
//! whatever callers do with it.

#![deny(unsafe_code)]

mod pool;
mod queue;
#[expect(
    unsafe_code,
    reason = "the one file that maps memory and hands it to the kernel"
)]
mod segment;

pub use pool::{FrameId, FramePart, Pool, PoolConfig};
pub use queue::{SERVERS_MAX, ServerQueue, Turn, monotonic_ns};
