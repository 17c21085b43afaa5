//! Frames over TCP, one connection per pair of members; where both are [`Near`], over a socket of the host, or
//! through memory that they share ([`memory`]).
//!
//! One thread runs the [`event_loop`]: it accepts, connects, reads and keeps the timers. Any thread
//! may send: it writes to the socket itself when nothing is queued for the peer ([`wire`]), so a
//! request costs no hop to another thread. The member with the higher id connects.

mod conn;
mod event_loop;
mod intake;
mod memory;
mod reader;
mod stream;
mod wire;

use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::config::{ListenHint, NetConfig, NoTransport, Refusal};
use crate::hub::Hub;
use crate::transport::{Handler, PeerId, PeerState, SendError, Transport};

use event_loop::EventLoop;
use stream::Listeners;
use wire::Wire;

/// A [`Transport`] over TCP.
pub struct TcpTransport(Hub<Wire>);

/// A listener, and the name under which members of the same host find it.
#[derive(Debug)]
pub struct Near {
    far: TcpListener,
    near: UnixListener,
    shares: bool,
}

impl Near {
    /// Takes the name that belongs to a listener's address.
    pub fn new(far: TcpListener) -> io::Result<Near> {
        let near = stream::listen_near(far.local_addr()?)?;
        Ok(Near {
            far,
            near,
            shares: false,
        })
    }

    /// The same, and memory is shared with members that do so too.
    pub fn sharing(self) -> Near {
        Near {
            shares: true,
            ..self
        }
    }

    /// Another of the same sockets.
    pub fn try_clone(&self) -> io::Result<Near> {
        Ok(Near {
            far: self.far.try_clone()?,
            near: self.near.try_clone()?,
            shares: self.shares,
        })
    }

    /// The TCP listener, without the name.
    pub(crate) fn into_far(self) -> TcpListener {
        self.far
    }

    /// The address at which others reach it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.far.local_addr()
    }

    /// Both sockets: one is readable once somebody calls.
    pub fn sockets(&self) -> [BorrowedFd<'_>; 2] {
        [self.far.as_fd(), self.near.as_fd()]
    }
}

impl TcpTransport {
    /// Listens on `addr`; the error says what to do when that is not possible.
    pub fn listen(addr: SocketAddr) -> Result<TcpListener, NoTransport> {
        TcpListener::bind(addr).map_err(|source| NoTransport::Listen {
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
    ) -> Result<Arc<TcpTransport>, NoTransport> {
        TcpTransport::over(config, Listeners::new(listener, None, false)?, handler)
    }

    /// The same, and members of this host are reached without a protocol, if they do so too.
    pub fn start_near(
        config: NetConfig,
        near: Near,
        handler: Arc<dyn Handler>,
    ) -> Result<Arc<TcpTransport>, NoTransport> {
        let listeners = Listeners::new(near.far, Some(near.near), near.shares)?;
        TcpTransport::over(config, listeners, handler)
    }

    fn over(
        config: NetConfig,
        listeners: Listeners,
        handler: Arc<dyn Handler>,
    ) -> Result<Arc<TcpTransport>, NoTransport> {
        let (identity, poll, shared) = config.begin()?;
        let event_loop = EventLoop::new(identity, poll, listeners, Arc::clone(&shared), handler)?;
        let hub = Hub::start(shared, move || event_loop.run())?;
        Ok(Arc::new(TcpTransport(hub)))
    }

    /// Turns of the event loop so far; stands still on an idle transport (N5).
    pub fn turns(&self) -> u64 {
        self.0.shared.turns.load(Ordering::Relaxed)
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

    fn refusals(&self) -> Vec<Refusal> {
        self.0.shared.refusals()
    }

    fn wake(&self) {
        self.0.shared.wake();
    }

    fn shutdown(&self) {
        self.0.shutdown();
    }
}
