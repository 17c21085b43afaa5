//! One connection as the event loop keeps it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::intake::Intake;
use super::memory::Memory;
use super::reader::Reader;
use super::stream::Stream;
use crate::handshake::Handshake;
use crate::transport::PeerId;
use crate::why::Why;

/// The side that opened a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    Dialed(PeerId),
    Accepted,
}

/// How far a connection is.
pub(crate) enum Phase {
    /// The system is connecting; for dialed ones only.
    Connecting,
    /// The peers are proving themselves.
    Greeting(Handshake),
    /// `on_up` has been called.
    Up(PeerId),
}

/// A connection from its first packet to its last.
pub(crate) struct Conn {
    pub(crate) stream: Arc<Stream>,
    pub(crate) addr: SocketAddr,
    pub(crate) origin: Origin,
    pub(crate) phase: Phase,
    pub(crate) intake: Intake,
    pub(crate) reader: Reader,
    /// Memory that was offered, or taken, until the handshake is done.
    pub(crate) memory: Option<Memory>,
    /// Why there is none, if there could be.
    pub(crate) unshared: Option<String>,
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
            Phase::Connecting => None,
            Phase::Greeting(handshake) => handshake.claimed(),
            Phase::Up(peer) => Some(*peer),
        }
    }

    /// Sets what holds for the whole life of a connection.
    pub(crate) fn configure(&self, unacknowledged_max: Duration) -> Result<(), Why> {
        self.stream.configure(unacknowledged_max)
    }

    /// Fails if the system could not connect; `Ok(false)` while it is still trying.
    pub(crate) fn connected(&self) -> Result<bool, Why> {
        let connected = self.stream.connected();
        connected.map_err(|error| Why::Connect(error.to_string()))
    }
}
