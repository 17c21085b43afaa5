//! The coherence kernel: inputs in, effects out.
//!
//! One [`Node`] is the whole protocol of one agent. It is driven by [`Node::step`] with facts
//! ([`Input`]) and answers with orders ([`Effect`]); [`Node::deadline`] says when it wants to be
//! called next though nothing happened. It owns no socket, file, clock, thread, random source or
//! file byte: bytes stay outside, in frames and buffers that the effects name.
//!
//! Reading order:
//!
//! 1. [`ids`], [`time`], [`ranges`], [`nodeset`]: the words.
//! 2. [`msg`]: everything that nodes say to each other, and [`wire`], how it is written.
//! 3. `placement`: who is the home of a page, and who knows a file's manager.
//! 4. `authority`: the home's side of a page: readers, gathered writes, fills, flushes, cuts.
//! 5. `client`: the using side: copies, reads, writes, revocation, and what has several homes.
//! 6. `manager`: per file: who has it open, its size, truncation, detachment.
//! 7. `frames`: which page sits in which frame; eviction and the dirty bounds.
//! 8. `peers`: who is gone.
//! 9. [`bank`]: daemons beside the job, which entries of theirs count, and who may ask for them.
//! 10. `replica`: bytes that other homes have and the store lacks, and what becomes of them when such a home is
//!     gone; `rescue`: nothing is done about a file before they are in the store.
//! 11. [`node`]: composition only; routes inputs to the machines above.
//! 12. [`member`]: one agent through all views, with a kernel for each.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod authority;
pub mod bank;
mod client;
pub mod config;
mod ctx;
pub mod effect;
mod frames;
pub mod guard;
pub mod ids;
pub mod input;
mod manager;
pub mod member;
pub mod msg;
pub mod node;
pub mod nodeset;
mod peers;
mod placement;
pub mod ranges;
mod replica;
mod rescue;
pub mod semantics;
pub mod status;
pub mod time;
mod wait;
pub mod wire;

pub use config::{
    Allocation, Authorities, BankAttributes, BankConfig, BankUpdate, CloseRule, Config, Copies,
    Delegates, Evicted, Grain, Policy, Pushes, Ranges, Replicas, Rules, Served, Spill, Synced,
    Writes,
};
pub use effect::{Effect, Outbox, Piece, ReadInto, Reply, Src};
pub use guard::Guard;
pub use ids::{
    Age, Attributes, Buf, FileId, FrameId, Gen, Handle, IdStarts, Learned, Leave, Listed, Named,
    NodeId, ReqId, RevokeId, Stamp, StoreOpId, Ticket, Ver, View,
};
pub use input::{Input, LocalWrite, OpenRequest, Request, Rest, StoreOk, WriteAt};
pub use member::Member;
pub use node::Node;
pub use placement::{home_of_slot, slot_of};
pub use semantics::Semantics;
pub use status::Status;
pub use time::{Span, Time};
pub use wait::Wait;

/// A system error number, as `errno(3)` has it.
pub type RawErrno = i32;

/// The few errno values that the kernel itself gives (Linux numbering).
pub mod errno {
    /// The store or a peer lost bytes that were acknowledged, or cannot be reached.
    pub const EIO: i32 = 5;
    /// The file is no longer where it was.
    pub const ESTALE: i32 = 116;
    /// An agent that is needed for a write is gone.
    pub const EHOSTDOWN: i32 = 112;
    /// The file is laminated: nobody writes it any more.
    pub const EPERM: i32 = 1;
    /// The file cannot be handed over: somebody has it open, or its bytes are not all in the store.
    pub const EBUSY: i32 = 16;
    /// No node has room for what is handed over.
    pub const ENOSPC: i32 = 28;
    /// The handle is not open.
    pub const EBADF: i32 = 9;
    /// Beyond the largest file offset.
    pub const EFBIG: i32 = 27;
}
