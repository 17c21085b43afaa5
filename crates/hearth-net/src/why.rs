//! Why a connection ended, in words that people read in the status and the log.

use std::time::Duration;

use crate::frame::FrameError;
use crate::handshake::{HandshakeError, HandshakeFailure, job_refusal, refusal, version_refusal};

/// The end of a connection.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Why {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    #[error("handshake not done after {0:?}")]
    HandshakeTime(Duration),
    #[error("peer closed the connection")]
    Closed,
    #[error("connection ended inside a frame")]
    Truncated,
    #[error("cannot connect: {0}")]
    Connect(String),
    #[error("cannot read: {0}")]
    Read(String),
    #[error("cannot write: {0}")]
    Write(String),
    #[error("cannot set up the connection: {0}")]
    Setup(String),
    #[error("peer breaks the rules of packets: {0}")]
    Packets(String),
    #[error("peer ended the connection: {0}")]
    Ended(String),
    #[error("peer does not know the connection: it runs anew")]
    Unknown,
    #[error("the network does not reach the peer")]
    Unreachable,
    #[error("peer was silent for {0:?}")]
    Silent(Duration),
    #[error("peer reads too slowly: more than {max} bytes queued")]
    QueueFull { max: usize },
    #[error("peer connected anew")]
    Replaced,
    #[error("disconnected: {0}")]
    Disconnected(String),
    #[error("shut down")]
    Shutdown,
}

impl Why {
    /// The refusal that a peer is told whose handshake fails, if it can understand one.
    pub(crate) fn refusal(&self) -> Option<Vec<u8>> {
        match self {
            Why::Frame(FrameError::Version { theirs }) => Some(version_refusal(*theirs)),
            // Also the answer to a refusal: it has been heard.
            // Or both sides know.
            Why::Handshake(HandshakeError::Refused(_) | HandshakeError::Anew(_)) => None,
            Why::Handshake(HandshakeError::Job { theirs, ours }) => Some(job_refusal(theirs, ours)),
            Why::Handshake(error) => Some(refusal(&error.to_string())),
            Why::Frame(_)
            | Why::HandshakeTime(_)
            | Why::Closed
            | Why::Truncated
            | Why::Packets(_)
            | Why::Ended(_)
            | Why::Unknown
            | Why::Unreachable
            | Why::Silent(_)
            | Why::Connect(_)
            | Why::Read(_)
            | Why::Write(_)
            | Why::Setup(_)
            | Why::QueueFull { .. }
            | Why::Replaced
            | Why::Disconnected(_)
            | Why::Shutdown => None,
        }
    }
}

impl From<HandshakeFailure> for Why {
    fn from(failure: HandshakeFailure) -> Why {
        match failure {
            HandshakeFailure::Words(error) => error.into(),
            HandshakeFailure::Frame(error) => error.into(),
        }
    }
}
