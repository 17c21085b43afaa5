//! The sockets under connections: TCP, and between members of one host the operating system's own stream
//! sockets, which go through no protocol.
//!
//! A member that is near listens under a name as well, which is its address in the abstract namespace: that belongs to
//! the network namespace, as addresses do. A member that has the same IP address is on the same host. It is tried under
//! its name first, and given some time to take it. A name proves nothing, so every second attempt is at the address: a
//! process that took a name before its member did can waste one attempt, and the handshake tells them apart.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr as UnixAddr;
use std::sync::Mutex;
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{
    set_socket_send_buffer_size, set_tcp_user_timeout, socket_error, socket_peercred,
};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::memory::RIGHTS;
use crate::sync::lock;
use crate::why::Why;

/// The bytes that a near socket takes before it says that it would block: a page, its head, and what the operating
/// system counts on top. It doubles the number, and has a bound of its own.
const SEND_BUFFER: usize = 512 << 10;

/// One connection's socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Far(TcpStream),
    Near(NearStream),
}

/// A socket of the host, and what has come with its bytes.
#[derive(Debug)]
pub(crate) struct NearStream {
    socket: UnixStream,
    rights: Mutex<Vec<OwnedFd>>,
}

impl From<UnixStream> for NearStream {
    fn from(socket: UnixStream) -> NearStream {
        NearStream {
            socket,
            rights: Mutex::default(),
        }
    }
}

/// The listeners that take connections.
pub(crate) struct Listeners {
    far: TcpListener,
    near: Option<UnixListener>,
    /// Members that are near are offered memory.
    pub(crate) shares: bool,
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
        shares: bool,
    ) -> io::Result<Listeners> {
        far.set_nonblocking(true)?;
        if let Some(near) = &near {
            near.set_nonblocking(true)?;
        }
        Ok(Listeners {
            far: TcpListener::from_std(far),
            near: near.map(UnixListener::from_std),
            shares,
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
            Some(Ok((stream, _))) => return Ok((Stream::Near(stream.into()), me)),
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

    /// The same under the member's name.
    pub(crate) fn dial_near(addr: SocketAddr) -> io::Result<Stream> {
        let near = name_of(addr).and_then(|name| UnixStream::connect_addr(&name));
        near.map(|near| Stream::Near(near.into()))
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
            Stream::Near(stream) => set_socket_send_buffer_size(&stream.socket, SEND_BUFFER)
                .map_err(|error| failed(error.into())),
        }
    }

    /// Fails if the system could not connect; `Ok(false)` while it is still trying.
    pub(crate) fn connected(&self) -> io::Result<bool> {
        socket_error(self)??;
        let peer = match self {
            Stream::Far(stream) => stream.peer_addr().map(drop),
            Stream::Near(stream) => stream.socket.peer_addr().map(drop),
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
            Stream::Near(stream) => stream.socket.shutdown(Shutdown::Both),
        }
    }

    pub(crate) fn is_near(&self) -> bool {
        matches!(self, Stream::Near(_))
    }

    /// Whether a process of our own user is at the other end: no other is trusted with memory.
    pub(crate) fn is_own_users(&self) -> bool {
        let theirs = socket_peercred(self).map(|peer| peer.uid);
        theirs == Ok(rustix::process::geteuid())
    }

    /// Writes a frame of the handshake, with descriptors. It fits: a fresh socket takes far more than these few
    /// bytes.
    pub(crate) fn greet(&self, frame: &[u8], rights: &[OwnedFd]) -> Result<(), Why> {
        let rights: Vec<_> = rights.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(RIGHTS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !rights.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&rights));
        }
        let parts = [IoSlice::new(frame)];
        let sent = retry_on_intr(|| sendmsg(self, &parts, &mut ancillary, SendFlags::NOSIGNAL));
        match sent {
            Ok(all) if all == frame.len() => Ok(()),
            Ok(_) | Err(Errno::AGAIN) => {
                Err(Why::Write("the handshake did not fit the socket".into()))
            }
            Err(error) => Err(Why::Write(io::Error::from(error).to_string())),
        }
    }

    /// Reads, and keeps the descriptors that come with the bytes for [`Stream::take_rights`].
    pub(crate) fn receive(&self, into: &mut [u8]) -> Result<usize, Errno> {
        let Stream::Near(near) = self else {
            return retry_on_intr(|| rustix::io::read(self, &mut *into));
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(RIGHTS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(into)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let got = retry_on_intr(|| recvmsg(self, &mut parts, &mut ancillary, flags))?;
        let rights = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        // Those of the last message alone: nobody piles them up here.
        let came: Vec<_> = rights.flatten().collect();
        if !came.is_empty() {
            *lock(&near.rights) = came;
        }
        Ok(got.bytes)
    }

    /// Descriptors that have come.
    pub(crate) fn take_rights(&self) -> Vec<OwnedFd> {
        match self {
            Stream::Far(_) => Vec::new(),
            Stream::Near(near) => std::mem::take(&mut lock(&near.rights)),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Far(stream) => stream.as_fd(),
            Stream::Near(stream) => stream.socket.as_fd(),
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
