//! The command's side.

use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect as connect_socket, socket_with,
};
use serde_json::Value;

use super::{ControlAnswer, ControlReply, ControlRequest, SILENCE_MAX, line};
use crate::failure::Failure;
use crate::process::Process;

/// An agent, as a command knows it.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its number in the job.
    pub node: u32,
    /// Its process, if the caller may know it.
    pub process: Option<Process>,
    /// The process that starts another one when it dies.
    pub warden: Option<Process>,
    /// The socket at which it listens.
    pub socket: PathBuf,
}

/// Why there is no answer to use.
#[derive(Debug)]
pub enum CallError {
    /// Its process is gone.
    Gone(String),
    /// It died, and another one is about to take its place.
    Starting(String),
    /// It is there, and silent.
    Silent(String),
    /// It answered that it could not.
    Refused(Failure),
}

impl CallError {
    /// In the words of a command.
    pub fn into_failure(self) -> Failure {
        match self {
            CallError::Gone(who) => Failure::new(format!("{who} is gone"))
                .hint("hearth down, or hearth doctor --fix, clears what it left"),
            CallError::Starting(who) => {
                Failure::new(format!("{who} died, and another takes its place"))
                    .hint("try again in some seconds; `hearth down --discard` ends it")
            }
            CallError::Silent(who) => Failure::new(format!("{who} does not answer"))
                .hint("hearth down --discard ends it; what it has not flushed is lost"),
            CallError::Refused(failure) => failure,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.process {
            Some(process) => write!(f, "agent {} (pid {})", self.node, process.pid),
            None => write!(f, "agent {}", self.node),
        }
    }
}

impl Peer {
    fn is_guarded(&self) -> bool {
        self.warden.is_some_and(Process::lives)
    }

    fn no_answer(&self) -> CallError {
        match self.process {
            Some(process) if process.lives() => CallError::Silent(self.to_string()),
            Some(_) if self.is_guarded() => CallError::Starting(self.to_string()),
            Some(_) => CallError::Gone(self.to_string()),
            None => CallError::Silent(self.to_string()),
        }
    }
}

/// Asks an agent for something.
pub fn call(peer: &Peer, request: &ControlRequest) -> Result<Value, CallError> {
    let stream = connect(peer)?;
    ask(&stream, peer, request, &[]).map(|answer| answer.value)
}

/// Asks an agent. It counts as silent if it takes longer, even if it says meanwhile that it works.
pub fn call_within(
    peer: &Peer,
    request: &ControlRequest,
    limit: Duration,
) -> Result<Value, CallError> {
    let stream = connect(peer)?;
    let end = Instant::now() + limit;
    line::send(&stream, request, &[]).map_err(|_| peer.no_answer())?;
    let mut reader = line::Reader::new(&stream);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(CallError::Silent(peer.to_string()));
        }
        stream
            .set_read_timeout(Some(left.min(SILENCE_MAX)))
            .map_err(|_| peer.no_answer())?;
        match reader.line().map_err(|_| peer.no_answer())? {
            ControlReply::Working => {}
            ControlReply::Done(value) => return Ok(value),
            ControlReply::Failed(failure) => return Err(CallError::Refused(failure)),
        }
    }
}

/// Connects to an agent. Never waits: an agent that is stopped has a queue, which may be full.
pub fn connect(peer: &Peer) -> Result<UnixStream, CallError> {
    open(peer).map_err(|error| {
        let nobody_listens = matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
        );
        match peer.is_guarded() && nobody_listens {
            true => CallError::Starting(peer.to_string()),
            false => peer.no_answer(),
        }
    })
}

fn open(peer: &Peer) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect_socket(&socket, &SocketAddrUnix::new(&peer.socket)?) {
        Ok(()) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    Ok(stream)
}

/// Asks over a connection made before.
pub fn ask(
    stream: &UnixStream,
    peer: &Peer,
    request: &ControlRequest,
    fds: &[BorrowedFd<'_>],
) -> Result<ControlAnswer, CallError> {
    line::send(stream, request, fds).map_err(|_| peer.no_answer())?;
    let mut reader = line::Reader::new(stream);
    loop {
        match reader.line().map_err(|_| peer.no_answer())? {
            ControlReply::Working => {}
            ControlReply::Done(value) => {
                let fds = reader.take_fds();
                return Ok(ControlAnswer { value, fds });
            }
            ControlReply::Failed(failure) => return Err(CallError::Refused(failure)),
        }
    }
}
