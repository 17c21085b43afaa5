//! The place where a member listens, and which transport it then speaks.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::str::FromStr;
use std::sync::Arc;
use std::{fmt, io};

use crate::config::{NetConfig, NoTransport};
use crate::dgram::{DatagramService, DatagramTransport};
use crate::tcp::{Near, TcpTransport};
use crate::transport::{Handler, Transport};

/// A transport by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Carrier {
    /// One TCP connection per pair of members.
    Tcp,
    /// The same, and a socket of the host between two of one host.
    #[default]
    Unix,
    /// The same, and memory that two of one host share.
    Shm,
    /// Datagrams, under one of their services.
    Datagrams(DatagramService),
}

impl Carrier {
    /// Every transport that joins processes.
    pub const ALL: [Carrier; 5] = [
        Carrier::Tcp,
        Carrier::Unix,
        Carrier::Shm,
        Carrier::Datagrams(DatagramService::Udp),
        Carrier::Datagrams(DatagramService::Udt),
    ];

    /// The name that people use.
    pub fn name(self) -> &'static str {
        match self {
            Carrier::Tcp => "tcp",
            Carrier::Unix => "unix",
            Carrier::Shm => "shm",
            Carrier::Datagrams(DatagramService::Udp) => "udp",
            Carrier::Datagrams(DatagramService::Udt) => "udt",
        }
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no transport has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no transport `{0}`: take tcp, unix, shm, udp or udt")]
pub struct NoCarrier(String);

impl FromStr for Carrier {
    type Err = NoCarrier;

    fn from_str(name: &str) -> Result<Carrier, NoCarrier> {
        let named = Carrier::ALL
            .into_iter()
            .find(|carrier| carrier.name() == name);
        named.ok_or_else(|| NoCarrier(name.into()))
    }
}

/// A transport of another crate, before it starts.
pub trait Carry: fmt::Debug + Send {
    /// The address at which it is reached.
    fn local_addr(&self) -> io::Result<SocketAddr>;
    /// The sockets that it listens on: one of them is readable once somebody calls.
    fn sockets(&self) -> Vec<BorrowedFd<'_>>;
    /// The socket, for another process.
    fn into_fd(self: Box<Self>) -> OwnedFd;
    /// Starts it.
    fn start(
        self: Box<Self>,
        config: NetConfig,
        handler: Arc<dyn Handler>,
    ) -> Result<Arc<dyn Transport>, NoTransport>;
}

/// A socket that other members can reach.
#[derive(Debug)]
pub enum Endpoint {
    /// Accepts connections.
    Tcp(TcpListener),
    /// Accepts those of members on this host by a way of their own.
    Near(Near),
    /// Receives datagrams.
    Datagrams(DatagramService, UdpSocket),
    /// Another crate's.
    Other(Box<dyn Carry>),
}

impl From<TcpListener> for Endpoint {
    fn from(listener: TcpListener) -> Endpoint {
        Endpoint::Tcp(listener)
    }
}

impl From<Near> for Endpoint {
    fn from(near: Near) -> Endpoint {
        Endpoint::Near(near)
    }
}

impl Endpoint {
    /// Listens on `addr`; the error says what to do when that is not possible.
    pub fn bind(carrier: Carrier, addr: SocketAddr) -> Result<Endpoint, NoTransport> {
        match carrier {
            Carrier::Tcp | Carrier::Unix | Carrier::Shm => {
                TcpTransport::listen(addr).map(|listener| Endpoint::over(carrier, listener))
            }
            Carrier::Datagrams(service) => {
                DatagramTransport::listen(addr).map(|udp| Endpoint::Datagrams(service, udp))
            }
        }
    }

    /// A listener, by which members of this host are reached in their own way. If that cannot be, TCP will do.
    pub fn over(carrier: Carrier, listener: TcpListener) -> Endpoint {
        let shares = match carrier {
            Carrier::Tcp | Carrier::Datagrams(_) => return Endpoint::Tcp(listener),
            Carrier::Unix => false,
            Carrier::Shm => true,
        };
        let near = listener.try_clone().and_then(Near::new);
        match near {
            Ok(near) if shares => Endpoint::Near(near.sharing()),
            Ok(near) => Endpoint::Near(near),
            Err(_) => Endpoint::Tcp(listener),
        }
    }

    /// An endpoint that another process has bound for this one.
    pub fn from_fd(carrier: Carrier, fd: OwnedFd) -> Endpoint {
        match carrier {
            Carrier::Tcp | Carrier::Unix | Carrier::Shm => Endpoint::over(carrier, fd.into()),
            Carrier::Datagrams(service) => Endpoint::Datagrams(service, fd.into()),
        }
    }

    /// The socket, for another process.
    pub fn into_fd(self) -> OwnedFd {
        match self {
            Endpoint::Tcp(listener) => listener.into(),
            Endpoint::Near(near) => near.into_far().into(),
            Endpoint::Datagrams(_, udp) => udp.into(),
            Endpoint::Other(other) => other.into_fd(),
        }
    }

    /// The address at which it is reached.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Endpoint::Tcp(listener) => listener.local_addr(),
            Endpoint::Near(near) => near.local_addr(),
            Endpoint::Datagrams(_, udp) => udp.local_addr(),
            Endpoint::Other(other) => other.local_addr(),
        }
    }

    /// The sockets that it listens on: one of them is readable once somebody calls.
    pub fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Endpoint::Tcp(listener) => vec![listener.as_fd()],
            Endpoint::Near(near) => near.sockets().to_vec(),
            Endpoint::Datagrams(_, udp) => vec![udp.as_fd()],
            Endpoint::Other(other) => other.sockets(),
        }
    }

    /// Starts the transport.
    pub fn start(
        self,
        config: NetConfig,
        handler: Arc<dyn Handler>,
    ) -> Result<Arc<dyn Transport>, NoTransport> {
        Ok(match self {
            Endpoint::Tcp(listener) => TcpTransport::start(config, listener, handler)?,
            Endpoint::Near(near) => TcpTransport::start_near(config, near, handler)?,
            Endpoint::Datagrams(service, udp) => {
                DatagramTransport::start(config, service, udp, handler)?
            }
            Endpoint::Other(other) => other.start(config, handler)?,
        })
    }
}
