//! The interface that every transport offers ([`Transport`]), and the one that it asks of its owner ([`Handler`]).

use std::fmt;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::Instant;

use crate::config::Refusal;
use crate::frame::{HEAD_LEN_MAX, PAYLOAD_LEN_MAX};

/// A member, named by its index in the static member list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerId(pub u32);

impl PeerId {
    /// The index into tables that have one entry per member.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer {}", self.0)
    }
}

/// Which member runs anew, though another has met its earlier run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anew {
    /// This one.
    Me,
    /// The other.
    Peer,
    /// The other, and its run before is over for certain: nothing of it is on its way anywhere.
    Successor,
}

impl fmt::Display for Anew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Anew::Me => "peer knows this agent from before it was started again",
            Anew::Peer | Anew::Successor => "peer was started again, and is refused for that",
        })
    }
}

/// Moves frames between the members.
pub trait Transport: Send + Sync {
    /// Sends one frame, or queues what the connection cannot take now.
    ///
    /// Any thread may call this, also from inside a [`Handler`]. It never blocks. `Ok` means that
    /// the frame arrives in its order or the connection breaks, not that it has arrived.
    fn send(&self, to: PeerId, head: &[u8], payload: &[IoSlice<'_>]) -> Result<(), SendError>;

    /// Ends the connection to `peer`, if there is one; both sides then connect again.
    fn disconnect(&self, peer: PeerId, why: &str);

    /// The state of every other member, for people.
    fn peers(&self) -> Vec<PeerState>;

    /// The last connections that did not become members, oldest first; none where the transport cannot tell.
    fn refusals(&self) -> Vec<Refusal> {
        Vec::new()
    }

    /// Makes the transport ask [`Handler::deadline`] again.
    fn wake(&self);

    /// Closes every connection, reports each as down, and ends the thread.
    fn shutdown(&self);
}

/// Receives what happens on a transport. One thread makes all the calls.
pub trait Handler: Send + Sync + 'static {
    /// A connection to `peer`, which runs as `incarnation`, stands; frames may be sent.
    fn on_up(&self, peer: PeerId, incarnation: u64);

    /// This member and `peer` are not connected: one of them runs anew, and the other has met the run before.
    /// Proved by both; told again with each attempt. True if nobody owes the run before anything any more: this
    /// member forgets that it has met it, and takes the next attempt.
    fn on_anew(&self, peer: PeerId, who: Anew) -> bool {
        let _ = (peer, who);
        false
    }

    /// The connection is gone; frames that were under way may be lost.
    fn on_down(&self, peer: PeerId, why: &str);

    /// A frame arrived. Frames of one peer arrive in the order they were sent.
    fn on_frame(&self, from: PeerId, head: &[u8], payload: Vec<u8>);

    /// When [`Handler::on_timer`] is next due; asked after every turn of the loop.
    fn deadline(&self) -> Option<Instant>;

    /// The deadline has passed.
    fn on_timer(&self);
}

/// Why a frame was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// There is no connection to the peer now.
    #[error("cannot send to {0}: it is not connected")]
    Down(PeerId),
    /// A transport does not carry frames to its own member.
    #[error("cannot send to {0}: that is this member itself")]
    Myself(PeerId),
    /// The member list has no such peer.
    #[error("cannot send to {0}: it is not in the member list")]
    Unknown(PeerId),
    /// The head or the payload is beyond its bound.
    #[error("cannot send a frame with {head} bytes of head and {payload} of payload: too long")]
    TooLong {
        /// Bytes of head.
        head: usize,
        /// Bytes of payload.
        payload: usize,
    },
}

/// One row of [`Transport::peers`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerState {
    /// Which member.
    pub id: PeerId,
    /// The address at which it listens; `None` if the transport has no addresses.
    pub addr: Option<SocketAddr>,
    /// Connected or not, and why not.
    pub link: Link,
    /// The means that carries its frames, or did last, in words; empty if it was never connected.
    pub way: String,
    /// Bytes received in whole frames, over all connections.
    pub bytes_in: u64,
    /// Bytes accepted for sending, over all connections.
    pub bytes_out: u64,
    /// Bytes accepted and not yet taken by the connection.
    pub queued_bytes: usize,
}

/// Whether a peer is connected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Link {
    /// Connected.
    Up {
        /// The peer's incarnation.
        incarnation: u64,
    },
    /// Not connected.
    Down {
        /// The last reason.
        why: String,
    },
}

/// The length of `payload` in bytes, if a frame may carry it together with `head`.
pub(crate) fn payload_len(head: &[u8], payload: &[IoSlice<'_>]) -> Result<usize, SendError> {
    let total = payload.iter().map(|part| part.len()).sum();
    if head.len() > HEAD_LEN_MAX || total > PAYLOAD_LEN_MAX {
        return Err(SendError::TooLong {
            head: head.len(),
            payload: total,
        });
    }
    Ok(total)
}
