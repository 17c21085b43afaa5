//! One connection as the event loop keeps it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use rustix::net::sockopt::set_tcp_user_timeout;

use super::reader::Reader;
use crate::handshake::Handshake;
use crate::transport::PeerId;
use crate::why::Why;

/// Who opened a connection.
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
    pub(crate) stream: Arc<TcpStream>,
    pub(crate) addr: SocketAddr,
    pub(crate) origin: Origin,
    pub(crate) phase: Phase,
    pub(crate) reader: Reader,
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
        self.stream
            .set_nodelay(true)
            .map_err(|error| Why::Setup(error.to_string()))?;
        let millis = u32::try_from(unacknowledged_max.as_millis()).unwrap_or(u32::MAX);
        set_tcp_user_timeout(&*self.stream, millis)
            .map_err(|error| Why::Setup(std::io::Error::from(error).to_string()))
    }

    /// Fails if the system could not connect; `Ok(false)` while it is still trying.
    pub(crate) fn connected(&self) -> Result<bool, Why> {
        let failed = |error: std::io::Error| Why::Connect(error.to_string());
        if let Some(error) = self.stream.take_error().map_err(failed)? {
            return Err(failed(error));
        }
        match self.stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }
}
