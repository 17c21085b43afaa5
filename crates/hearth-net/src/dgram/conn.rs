//! One connection as the event loop keeps it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::packet::Route;
use super::receiver::Receiver;
use super::wire::Out;
use crate::auth::FrameKey;
use crate::handshake::Handshake;
use crate::transport::PeerId;

/// The side that opened a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    Dialed(PeerId),
    Accepted,
}

/// How far a connection is.
pub(crate) enum Phase {
    /// The peers are proving themselves.
    Greeting(Handshake),
    /// `on_up` has been called; the key of what comes in.
    Up(PeerId, FrameKey),
}

/// A connection from its first packet to its last.
pub(crate) struct Conn {
    pub(crate) route: Route,
    pub(crate) addr: SocketAddr,
    pub(crate) origin: Origin,
    pub(crate) phase: Phase,
    pub(crate) receiver: Receiver,
    pub(crate) out: Arc<Mutex<Out>>,
    /// When the peer was last heard.
    pub(crate) heard: Instant,
    /// When the handshake must be done.
    pub(crate) deadline: Instant,
}

impl Conn {
    /// The member on the other side, as far as it is known.
    pub(crate) fn claimed(&self) -> Option<PeerId> {
        if let Origin::Dialed(peer) = self.origin {
            return Some(peer);
        }
        match &self.phase {
            Phase::Greeting(handshake) => handshake.claimed(),
            Phase::Up(peer, _) => Some(*peer),
        }
    }
}
