//! Memory that programs share with their agents, and the kernel, in worlds of a seed.
//!
//! Programs under `hearth run` copy pages out of their agent's memory and leave writes there, without a word to the agent.
//! Both sides of that memory, the agent's gate and the kernel are the product's own sources. All else is a double.
//!
//! ```text
//! programs -- view, write ring -- [memory] -- pool, index, write rings -- core -- hearth-proto
//!     |                                                                    |          |
//!     +------------------ calls through the mount ------------------------+   store   net
//! ```
//!
//! The modules of `hearth-shm` and `hearth-agent` are compiled by path. Four names mean other crates to them: `std` is
//! [`hearth_shuttle`], and `hearth_shm`, `libc` and `rustix` are this one. So no line of them differs from the product's.
//! Each use of an atomic, each lock, and each few bytes of a copy are places where another thread may go on.
//! [`world::run`] runs a seed.

#![deny(unsafe_code)]
// The sources' own tests are run where those are.
#![cfg(not(test))]
// Nobody attaches by a socket here, so some of the sources is not used, and none of it is shown to others.
#![allow(dead_code, unreachable_pub)]

extern crate hearth_shuttle as std;
// The names by which the sources know this crate's doubles.
extern crate self as hearth_shm;
extern crate self as libc;
extern crate self as rustix;

pub use memory::memcpy;
pub use real_libc::{c_int, c_void, iovec, madvise, off_t, preadv, pwritev};
pub use real_rustix::{event, fs, io, mm, time};

#[path = "../../hearth-shm/src/counts.rs"]
mod counts;
#[path = "../../hearth-shm/src/index/mod.rs"]
mod index;
#[path = "../../hearth-shm/src/lease.rs"]
mod lease;
// Its tests are not where a module of this place would have them.
#[rustfmt::skip]
#[path = "../../hearth-shm/src/pool.rs"]
mod pool;
#[path = "../../hearth-shm/src/segment.rs"]
#[expect(unsafe_code, reason = "as in hearth-shm")]
mod segment;
#[path = "../../hearth-shm/src/view.rs"]
#[expect(unsafe_code, reason = "as in hearth-shm")]
mod view;
#[path = "../../hearth-shm/src/write_ring/mod.rs"]
mod write_ring;

#[path = "../../hearth-agent/src/buffers.rs"]
mod buffers;
#[path = "../../hearth-agent/src/share.rs"]
mod share;
#[path = "../../hearth-agent/src/write_rings.rs"]
mod write_rings;

pub use counts::{COUNTS, CounterShard, SharedCounts};
pub use index::AttributeTicket;
pub use index::protocol::PageName;
pub use lend::{program, send_write_ring};
pub use pool::{FrameIndex, FramePart, Pool, PoolConfig};
pub use queue::monotonic_ns;
pub use view::{Copied, PoolView};
pub use write_ring::{Entry, LaneOutcome, WRITE_RING_BYTES, WriteRing, WriteRingEnd};

mod book;
mod carry;
mod core;
mod huge;
mod jobs;
mod lend;
mod life;
#[expect(unsafe_code, reason = "stands for the C library's copy, and makes one")]
mod memory;
mod mount;
mod programs;
mod queue;
mod session;
mod store;
pub mod thread;
pub mod world;
