//! Frames over TCP, one connection per pair of members.
//!
//! One thread runs the [`event_loop`]: it accepts, connects, reads and keeps the timers. Any thread
//! may send: it writes to the socket itself when nothing is queued for the peer ([`wire`]), so a
//! request costs no hop to another thread. The member with the higher id connects.

mod conn;
mod event_loop;
mod reader;

mod wire;

use std::io::IoSlice;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::config::{ListenHint, NetConfig, Refusal, StartError};
use crate::hub::Hub;
use crate::transport::{Handler, PeerId, PeerState, SendError, Transport};

use event_loop::EventLoop;
use wire::Wire;

/// A [`Transport`] over TCP.
pub struct TcpTransport(Hub<Wire>);

impl TcpTransport {
    /// Listens on `addr`; the error says what to do when that is not possible.
    pub fn listen(addr: SocketAddr) -> Result<TcpListener, StartError> {
        TcpListener::bind(addr).map_err(|source| StartError::Listen {
            addr,
            hint: ListenHint::of(&source),
            source,
        })
    }

    /// Starts to accept, and to connect to every member with a lower id.
    pub fn start(
        config: NetConfig,
        listener: TcpListener,
        handler: Arc<dyn Handler>,
    ) -> Result<Arc<TcpTransport>, StartError> {
        let (identity, poll, shared) = config.begin()?;
        let event_loop = EventLoop::new(identity, poll, listener, Arc::clone(&shared), handler)?;
        let hub = Hub::start(shared, move || event_loop.run())?;
        Ok(Arc::new(TcpTransport(hub)))
    }

    /// Turns of the event loop so far; stands still on an idle transport (N5).
    pub fn turns(&self) -> u64 {
        self.0.shared.turns.load(Ordering::Relaxed)
    }

    /// The last connections that did not become members, oldest first.
    pub fn refusals(&self) -> Vec<Refusal> {
        self.0.shared.refusals()
    }
}

impl Transport for TcpTransport {
    fn send(&self, to: PeerId, head: &[u8], payload: &[IoSlice<'_>]) -> Result<(), SendError> {
        self.0.send(to, head, payload)
    }

    fn disconnect(&self, peer: PeerId, why: &str) {
        self.0.disconnect(peer, why);
    }

    fn peers(&self) -> Vec<PeerState> {
        self.0.peers()
    }

    fn wake(&self) {
        self.0.shared.wake();
    }

    fn shutdown(&self) {
        self.0.shutdown();
    }
}
