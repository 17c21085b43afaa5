//! Transports that move frames between peers.
//!
//! A frame is a small head and a payload; both are opaque here. A transport knows the static list
//! of members, keeps at most one connection to each, and tells a [`Handler`] what arrives. It knows
//! nothing of pages, sessions or the meaning of a head.
//!
//! [`MemNet`] joins transports inside one process, for tests. [`TcpTransport`] and
//! [`DatagramTransport`], the latter under two services, join processes, and an [`Endpoint`] is any
//! of them by name; a [`Channel`] is for two ends that need no more than each other. One conformance
//! suite (`tests/conformance.rs`) holds all to the same promises:
//!
//! - N1: frames to one peer arrive whole, once and in order, or the connection breaks.
//! - N2: `on_up` and `on_down` of a peer alternate, and frames arrive only between the two.
//! - N3: `send` never blocks; to a peer that is down it fails at once.
//! - N4: what is queued for a peer is bounded; past the bound the peer is dropped with a reason.
//! - N5: an idle transport does not wake its thread; over datagrams it does once a second.
//! - N6: bytes from outside end at most their own connection, never the process, never another.
//! - N7: who has met one run of a member is connected to another run of it only after it forgot that; both are told.

#![forbid(unsafe_code)]

mod auth;
mod channel;
mod config;
mod dgram;
mod endpoint;
mod frame;
mod handshake;
mod hub;
mod link;
mod mem;
mod retry;
mod socket;
mod sync;
mod tcp;
mod terms;
mod timers;
mod transport;
mod why;

pub use auth::Secret;
pub use channel::{Channel, ChannelError, Party};
pub use config::{Limits, ListenHint, NetConfig, NoTransport, Refusal};
pub use dgram::{DatagramService, DatagramTransport};
pub use endpoint::{Carrier, Carry, Endpoint, NoCarrier};
pub use frame::{HEAD_LEN_MAX, PAYLOAD_LEN_MAX, PROTOCOL_VERSION};
pub use handshake::JOB_LEN_MAX;
pub use mem::{MemNet, MemTransport};
pub use socket::{Door, DoorListener, Socket};
pub use tcp::{Near, TcpTransport};
pub use transport::{Anew, Handler, Link, PeerId, PeerState, SendError, Transport};
