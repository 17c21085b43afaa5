//! The socket under a [`Channel`](crate::Channel): TCP between hosts, the operating system's own within one.

use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

/// The place at which an end of a channel listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Door {
    /// At an address.
    Port(SocketAddr),
    /// At a socket of this host, by its path.
    Path(PathBuf),
}

impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Door::Port(addr) => addr.fmt(f),
            Door::Path(path) => path.display().fmt(f),
        }
    }
}

/// A connected socket.
#[derive(Debug)]
pub enum Socket {
    /// Between hosts.
    Tcp(TcpStream),
    /// Within this one.
    Unix(UnixStream),
}

/// The listener that takes connections to a [`Door`].
#[derive(Debug)]
pub enum DoorListener {
    /// At an address.
    Tcp(TcpListener),
    /// At a path.
    Unix(UnixListener),
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Socket {
        Socket::Tcp(stream)
    }
}

impl DoorListener {
    /// Listens at a door.
    pub fn bind(door: &Door) -> io::Result<DoorListener> {
        match door {
            Door::Port(addr) => TcpListener::bind(addr).map(DoorListener::Tcp),
            Door::Path(path) => UnixListener::bind(path).map(DoorListener::Unix),
        }
    }

    /// The next connection.
    pub fn accept(&self) -> io::Result<Socket> {
        match self {
            DoorListener::Tcp(listener) => listener.accept().map(|(stream, _)| Socket::Tcp(stream)),
            DoorListener::Unix(listener) => {
                listener.accept().map(|(stream, _)| Socket::Unix(stream))
            }
        }
    }
}

impl AsFd for DoorListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            DoorListener::Tcp(listener) => listener.as_fd(),
            DoorListener::Unix(listener) => listener.as_fd(),
        }
    }
}

impl Socket {
    /// Connects within a time.
    pub(crate) fn connect(door: &Door, limit: Duration) -> io::Result<Socket> {
        match door {
            Door::Port(addr) => TcpStream::connect_timeout(addr, limit).map(Socket::Tcp),
            Door::Path(path) => UnixStream::connect(path).map(Socket::Unix),
        }
    }

    /// How long a read or a write may take.
    pub(crate) fn limit(&self, span: Duration) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream
                .set_read_timeout(Some(span))
                .and_then(|()| stream.set_write_timeout(Some(span))),
            Socket::Unix(stream) => stream
                .set_read_timeout(Some(span))
                .and_then(|()| stream.set_write_timeout(Some(span))),
        }
    }

    /// Waits for the other end as long as it takes.
    pub(crate) fn unlimit(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream
                .set_read_timeout(None)
                .and_then(|()| stream.set_write_timeout(None)),
            Socket::Unix(stream) => stream
                .set_read_timeout(None)
                .and_then(|()| stream.set_write_timeout(None)),
        }
    }

    /// Sends at once what is written.
    pub(crate) fn set_nodelay(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.set_nodelay(true),
            Socket::Unix(_) => Ok(()),
        }
    }

    /// Another handle.
    pub fn try_clone(&self) -> io::Result<Socket> {
        match self {
            Socket::Tcp(stream) => stream.try_clone().map(Socket::Tcp),
            Socket::Unix(stream) => stream.try_clone().map(Socket::Unix),
        }
    }

    /// Ends the connection under all handles.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.shutdown(how),
            Socket::Unix(stream) => stream.shutdown(how),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Read for &Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => Read::read(&mut &*stream, buffer),
            Socket::Unix(stream) => Read::read(&mut &*stream, buffer),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => (&mut &*stream).write_vectored(pieces),
            Socket::Unix(stream) => (&mut &*stream).write_vectored(pieces),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
