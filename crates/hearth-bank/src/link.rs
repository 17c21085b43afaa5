//! One daemon as the thread keeps it: connected, being tried, or waiting for the next try.

use crate::address::Address;
use crate::talk::Talk;
use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

/// Between two tries to connect.
const RETRY_SPAN_MIN: Duration = Duration::from_millis(50);
/// The span doubles up to this.
const RETRY_SPAN_MAX: Duration = Duration::from_secs(1);

/// One daemon.
pub(crate) struct Link {
    pub(crate) addr: Address,
    pub(crate) stage: Stage,
    pub(crate) retry_span: Duration,
}

/// How far it is.
pub(crate) enum Stage {
    /// Nothing until then.
    Resting(Instant),
    /// Connecting or greeting, until then at most.
    Greeting(Conn, Instant),
    /// It takes orders.
    Up(Conn),
}

/// A connection.
pub(crate) struct Conn {
    pub(crate) socket: Socket,
    pub(crate) talk: Talk,
}

/// Either kind of stream.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Link {
    pub(crate) fn new(addr: Address, now: Instant) -> Link {
        Link {
            addr,
            stage: Stage::Resting(now),
            retry_span: RETRY_SPAN_MIN,
        }
    }

    pub(crate) fn conn(&mut self) -> Option<&mut Conn> {
        match &mut self.stage {
            Stage::Resting(_) => None,
            Stage::Greeting(conn, _) | Stage::Up(conn) => Some(conn),
        }
    }

    /// When it wants to be looked at again.
    pub(crate) fn due(&self, patience: Duration) -> Option<Instant> {
        match &self.stage {
            Stage::Resting(until) | Stage::Greeting(_, until) => Some(*until),
            Stage::Up(conn) => conn.talk.oldest().map(|since| since + patience),
        }
    }

    /// Tries again later, and later still the next time.
    pub(crate) fn rest(&mut self, now: Instant) {
        self.stage = Stage::Resting(now + self.retry_span);
        self.retry_span = (self.retry_span * 2).min(RETRY_SPAN_MAX);
    }

    /// The greeting is over.
    pub(crate) fn up(&mut self, now: Instant) {
        self.retry_span = RETRY_SPAN_MIN;
        let stage = std::mem::replace(&mut self.stage, Stage::Resting(now));
        self.stage = match stage {
            Stage::Greeting(conn, _) => Stage::Up(conn),
            other => other,
        };
    }
}

impl Conn {
    pub(crate) fn connect(addr: &Address, talk: Talk) -> io::Result<Conn> {
        let socket = match addr {
            Address::Tcp(addr) => {
                let stream = TcpStream::connect(*addr)?;
                stream.set_nodelay(true)?;
                Socket::Tcp(stream)
            }
            Address::Unix(path) => Socket::Unix(UnixStream::connect(path)?),
        };
        Ok(Conn { socket, talk })
    }

    /// Sends what waits, as far as the socket takes it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while !self.talk.output().is_empty() {
            match self.socket.write(self.talk.output()) {
                Ok(count) => self.talk.sent(count),
                Err(error) if is_for_later(&error) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The socket is not ready, or not even connected.
pub(crate) fn is_for_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected
    )
}

impl Socket {
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(bytes),
            Socket::Unix(stream) => stream.read(bytes),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
    }

    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        match self {
            Socket::Tcp(stream) => stream.take_error(),
            Socket::Unix(stream) => stream.take_error(),
        }
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let both = Interest::READABLE | Interest::WRITABLE;
        let source: &mut dyn Source = match self {
            Socket::Tcp(stream) => stream,
            Socket::Unix(stream) => stream,
        };
        source.register(registry, token, both)
    }
}
