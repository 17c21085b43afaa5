//! The one socket of a member: batches of datagrams in and out.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};

use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::net::{RecvAncillaryBuffer, RecvFlags, recvmsg};

/// Bytes asked of the system for its own queue; it may give less.
const BUFFER_LEN: usize = 4 << 20;
/// Tries to send a batch.
const ATTEMPTS: usize = 2;
/// Room for one batch of datagrams that the system has joined.
const RECV_LEN: usize = 64 << 10;

/// A socket that any thread may send on, and one receives from.
pub(crate) struct Socket {
    udp: UdpSocket,
    state: UdpSocketState,
}

/// A batch of datagrams of one length, the last of which may be shorter.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) segment: usize,
}

impl Socket {
    pub(crate) fn new(udp: UdpSocket) -> io::Result<Socket> {
        udp.set_nonblocking(true)?;
        let state = UdpSocketState::new(UdpSockRef::from(&udp))?;
        let told = state
            .set_recv_buffer_size(UdpSockRef::from(&udp), BUFFER_LEN)
            .and_then(|()| state.set_send_buffer_size(UdpSockRef::from(&udp), BUFFER_LEN));
        if let Err(error) = told {
            log::debug!("the socket keeps its own queue lengths: {error}");
        }
        // Without this, nothing says that a peer's process has gone, but a long silence.
        if let Err(error) = state.enable_transport_errors(UdpSockRef::from(&udp)) {
            log::debug!("unreachable peers are noticed by their silence only: {error}");
        }
        Ok(Socket { udp, state })
    }

    pub(crate) fn udp(&self) -> &UdpSocket {
        &self.udp
    }

    /// Datagrams that one batch may have.
    pub(crate) fn segments_max(&self) -> usize {
        self.state.max_gso_segments().max(1)
    }

    /// Sends a batch; `false` when the system does not take it now.
    ///
    /// A batch that the network refuses for another reason counts as lost.
    pub(crate) fn send(&self, to: SocketAddr, batch: &Batch) -> bool {
        let transmit = Transmit {
            destination: to,
            ecn: None,
            contents: &batch.bytes,
            segment_size: (batch.bytes.len() > batch.segment).then_some(batch.segment),
            src_ip: None,
        };
        // An error may be the news of an earlier datagram to somebody else.
        for _ in 0..ATTEMPTS {
            match self.state.try_send(UdpSockRef::from(&self.udp), &transmit) {
                Ok(()) => return true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) => log::debug!("datagrams to {to} did not leave: {error}"),
            }
        }
        true
    }

    /// Receives until the system has nothing more; `false` when `each` was called often enough.
    pub(crate) fn receive(
        &self,
        inbox: &mut Inbox,
        batches: usize,
        mut each: impl FnMut(SocketAddr, &[u8]),
    ) -> bool {
        for _ in 0..batches {
            let mut meta = [RecvMeta::default()];
            let mut buffers = [IoSliceMut::new(&mut inbox.0)];
            let socket = UdpSockRef::from(&self.udp);
            match self.state.recv(socket, &mut buffers, &mut meta) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                // The news of an earlier datagram; `undelivered` says of which.
                Err(error) => {
                    log::debug!("the socket has news: {error}");
                    continue;
                }
            }
            let RecvMeta {
                addr, len, stride, ..
            } = meta[0];
            for datagram in inbox.0[..len].chunks(stride.max(1)) {
                each(addr, datagram);
            }
        }
        false
    }

    /// The addresses of datagrams that the network could not deliver.
    pub(crate) fn undelivered(&self) -> Vec<SocketAddr> {
        let mut found = Vec::new();
        let mut byte = [0];
        let mut control = RecvAncillaryBuffer::default();
        let flags = RecvFlags::ERRQUEUE | RecvFlags::DONTWAIT;
        while let Ok(news) = recvmsg(
            &self.udp,
            &mut [IoSliceMut::new(&mut byte)],
            &mut control,
            flags,
        ) {
            let to = news
                .address
                .and_then(|addr| SocketAddr::try_from(addr).ok());
            found.extend(to);
        }
        found
    }
}

/// The buffer in which received bytes lie until they are in their places.
pub(crate) struct Inbox(Vec<u8>);

impl Inbox {
    pub(crate) fn new() -> Inbox {
        Inbox(vec![0; RECV_LEN])
    }
}
