//! Frames over UDP, cut into packets that are numbered, acknowledged, paced and sent again.
//!
//! Two services share everything but their [`pace`]: `udp` and `udt`, the two of LibNap in the
//! HyCache+ paper (section II-B) that TCP and MPI do not give. One thread runs the [`event_loop`],
//! one socket serves all peers. A connection is two halves without I/O, a [`sender`] and a
//! [`receiver`]; the handshake, the macs and the rules of who connects are those of TCP.
//!
//! It differs from TCP in that the network does not say when a peer has gone. So a silent peer is
//! asked every second, and an idle transport is woken as often. A packet is believed when it comes
//! from the peer's address and carries the connection's random number; as with TCP, heads are
//! authenticated and payloads are not.

mod conn;
mod event_loop;
mod pace;
mod packet;
mod receiver;
mod sender;
mod socket;
mod wire;

use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use crate::config::{ListenHint, NetConfig, NoTransport, Refusal};
use crate::hub::Hub;
use crate::transport::{Handler, PeerId, PeerState, SendError, Transport};

use event_loop::EventLoop;
use socket::Socket;
use wire::Wire;

pub use pace::DatagramService;

/// A [`Transport`] over UDP.
pub struct DatagramTransport(Hub<Wire>);

impl DatagramTransport {
    /// Takes the address; the error says what to do when that is not possible.
    pub fn listen(addr: SocketAddr) -> Result<UdpSocket, NoTransport> {
        UdpSocket::bind(addr).map_err(|source| NoTransport::Listen {
            addr,
            hint: ListenHint::of(&source),
            source,
        })
    }

    /// Starts to listen, and to connect to every member with a lower id.
    pub fn start(
        config: NetConfig,
        service: DatagramService,
        udp: UdpSocket,
        handler: Arc<dyn Handler>,
    ) -> Result<Arc<DatagramTransport>, NoTransport> {
        let (identity, poll, shared) = config.begin()?;
        let socket = Arc::new(Socket::new(udp)?);
        let who = (identity, service);
        let event_loop = EventLoop::new(who, poll, socket, Arc::clone(&shared), handler)?;
        let hub = Hub::start(shared, move || event_loop.run())?;
        Ok(Arc::new(DatagramTransport(hub)))
    }
}

impl Transport for DatagramTransport {
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
