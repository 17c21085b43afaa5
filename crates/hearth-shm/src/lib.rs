//! Memory shared between processes: page pool, shared index, signs of life; home of unsafe.
//!
//! - [`Pool`]: the frames that hold cached pages, in sealed memfd segments.
//! - [`PoolView`]: the same pool, as programs map and read it ([`index`] says how that is safe).
//! - [`SharedCounts`]: what programs count.
//! - [`WriteRing`]: memory in which a program leaves writes for its agent.

//! - [`PipeWriter`], [`PipeReader`]: memory by which two agents of a host send each other bytes.
//! - [`ServerQueue`]: when each modelled I/O server is free again, agreed on by all agents of a
//!   machine through one small file.
//! - [`Records`]: a log of records in memory that outlives its writer.
//!
//! All `unsafe` code lives in `segment.rs`, `view.rs` and `life.rs`; the interface of the first and
//! the last, and so the rest of this crate, is safe whatever callers do with it.

#![deny(unsafe_code)]

mod counts;
mod huge;
mod index;
mod lease;
mod lend;
#[expect(
    unsafe_code,
    reason = "tells the operating system of a list on a thread's stack"
)]
mod life;
mod pipe;
mod pool;
mod queue;
pub mod records;
#[expect(
    unsafe_code,
    reason = "the one file that maps memory and hands it to the kernel"
)]
mod segment;
#[expect(
    unsafe_code,
    reason = "maps what another process writes, and copies it"
)]
mod view;
mod write_ring;

pub use counts::{COUNTS, CounterShard, SharedCounts};
pub use index::AttributeTicket;
pub use index::protocol::{NamesMark, PageName, ToldAttributes};
pub use lend::{attach, attach_write_ring, program, send_write_ring};
pub use pipe::{
    PIPE_BYTES_MAX, PIPE_BYTES_MIN, PipeReader, PipeWriter, Spoiled, join_pipe, make_pipe,
};
pub use pool::{FrameIndex, FramePart, Pool, PoolConfig, Shown};
pub use queue::{SERVERS_MAX, ServerQueue, Turn, monotonic_ns};
pub use records::Records;
pub use view::{Copied, PoolView};
pub use write_ring::{
    Entry, LEFT_MAX, LaneOutcome, WRITE_RING_BYTES, WriteRing, WriteRingEnd, is_offered,
};
