//! The sockets under connections: TCP, and between members of one host the operating system's own stream
//! sockets, which go through no protocol.
//!
//! A member that is near listens under a name as well, which is its address in the abstract namespace: that
//! belongs to the network namespace, as addresses do. Who has the same IP address is on the same host, and is
//! tried under its name first. A name proves nothing, so every second attempt is at the address: somebody who
//! took a name before its member did can waste one attempt, and the handshake tells them apart.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr as UnixAddr;
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::net::sockopt::{set_socket_send_buffer_size, set_tcp_user_timeout, socket_error};

use crate::why::Why;

/// What a near socket takes before it says that it would block: a page, its head, and what the operating
/// system counts on top. It doubles the number, and has a bound of its own.
const SEND_BUFFER: usize = 512 << 10;

/// One connection's socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Far(TcpStream),
    Near(UnixStream),
}

/// Where connections come in.
pub(crate) struct Listeners {
    far: TcpListener,
    near: Option<UnixListener>,
}

/// The name of a member that listens at `addr`.
fn name_of(addr: SocketAddr) -> io::Result<UnixAddr> {
    UnixAddr::from_abstract_name(format!("hearth/{addr}"))
}

/// Listens under the name of the member that listens at `addr`.
pub(crate) fn listen_near(addr: SocketAddr) -> io::Result<std::os::unix::net::UnixListener> {
    std::os::unix::net::UnixListener::bind_addr(&name_of(addr)?)
}

impl Listeners {
    pub(crate) fn new(
        far: std::net::TcpListener,
        near: Option<std::os::unix::net::UnixListener>,
    ) -> io::Result<Listeners> {
        far.set_nonblocking(true)?;
        if let Some(near) = &near {
            near.set_nonblocking(true)?;
        }
        Ok(Listeners {
            far: TcpListener::from_std(far),
            near: near.map(UnixListener::from_std),
        })
    }

    /// Both under one token: who accepts looks at both.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.far.register(registry, token, Interest::READABLE)?;
        match &mut self.near {
            Some(near) => near.register(registry, token, Interest::READABLE),
            None => Ok(()),
        }
    }

    pub(crate) fn is_near(&self) -> bool {
        self.near.is_some()
    }

    /// The next connection that waits. Near ones say nothing of where they come from, but that it is here.
    pub(crate) fn accept(&self, me: SocketAddr) -> io::Result<(Stream, SocketAddr)> {
        match self.near.as_ref().map(UnixListener::accept) {
            Some(Ok((stream, _))) => return Ok((Stream::Near(stream), me)),
            Some(Err(error)) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Some(Err(_)) | None => {}
        }
        let (stream, addr) = self.far.accept()?;
        Ok((Stream::Far(stream), addr))
    }
}

impl Stream {
    /// Begins to connect.
    pub(crate) fn dial(addr: SocketAddr) -> io::Result<Stream> {
        TcpStream::connect(addr).map(Stream::Far)
    }

    /// The same under the member's name; by its address if nobody has it.
    pub(crate) fn dial_near(addr: SocketAddr) -> io::Result<Stream> {
        let near = name_of(addr).and_then(|name| UnixStream::connect_addr(&name));
        near.map(Stream::Near).or_else(|_| Stream::dial(addr))
    }

    /// Sets what holds for the whole life of a connection.
    pub(crate) fn configure(&self, unacknowledged_max: Duration) -> Result<(), Why> {
        let failed = |error: io::Error| Why::Setup(error.to_string());
        match self {
            Stream::Far(stream) => {
                stream.set_nodelay(true).map_err(failed)?;
                let millis = u32::try_from(unacknowledged_max.as_millis()).unwrap_or(u32::MAX);
                set_tcp_user_timeout(stream, millis).map_err(|error| failed(error.into()))
            }
            Stream::Near(stream) => set_socket_send_buffer_size(stream, SEND_BUFFER)
                .map_err(|error| failed(error.into())),
        }
    }

    /// Fails if the system could not connect; `Ok(false)` while it is still trying.
    pub(crate) fn connected(&self) -> io::Result<bool> {
        socket_error(self)??;
        let peer = match self {
            Stream::Far(stream) => stream.peer_addr().map(drop),
            Stream::Near(stream) => stream.peer_addr().map(drop),
        };
        match peer {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn shutdown(&self) -> io::Result<()> {
        match self {
            Stream::Far(stream) => stream.shutdown(Shutdown::Both),
            Stream::Near(stream) => stream.shutdown(Shutdown::Both),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Far(stream) => stream.as_fd(),
            Stream::Near(stream) => stream.as_fd(),
        }
    }
}

impl Source for Stream {
    fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        SourceFd(&self.as_fd().as_raw_fd()).register(registry, token, interest)
    }

    fn reregister(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        SourceFd(&self.as_fd().as_raw_fd()).reregister(registry, token, interest)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        SourceFd(&self.as_fd().as_raw_fd()).deregister(registry)
    }
}
