//! The agent's side.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use rustix::net::sockopt::socket_peercred;
use serde_json::Value;

use super::{ControlReply, ControlRequest, SILENCE_MAX, WORKING_SPAN, line};
use crate::failure::Failure;

/// Commands that are served at once; more are told to come again.
const CALLS_MAX: usize = 64;

/// A value, and descriptors with it.
#[derive(Debug, Default)]
pub struct ControlAnswer {
    /// The value of the answer.
    pub value: Value,
    /// Descriptors that come with it.
    pub fds: Vec<OwnedFd>,
}

/// Does what commands ask for.
pub trait Answerer: Send + Sync + 'static {
    /// Does it, for the process with the number `caller`; may take long.
    fn answer(
        &self,
        request: ControlRequest,
        caller: u32,
        fds: Vec<OwnedFd>,
    ) -> Result<ControlAnswer, Failure>;
}

/// A socket that commands connect to.
pub struct Listener {
    socket: UnixListener,
    calls: Arc<AtomicUsize>,
}

impl Listener {
    /// Listens at a path inside a directory that nobody else may enter.
    pub fn bind(path: &Path) -> io::Result<Listener> {
        let socket = UnixListener::bind(path)?;
        socket.set_nonblocking(true)?;
        Ok(Listener {
            socket,
            calls: Arc::default(),
        })
    }

    /// Takes one connection, if one waits, and serves it on a thread of its own.
    pub fn accept(&self, answerer: &Arc<impl Answerer>) {
        let Ok((stream, _)) = self.socket.accept() else {
            return;
        };
        let slot = Slot::take(&self.calls);
        let answerer = Arc::clone(answerer);
        let served = thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || {
                if let Err(error) = serve(&stream, answerer, slot.as_ref()) {
                    log::debug!("a command went away: {error}");
                }
            });
        if let Err(error) = served {
            log::warn!("cannot serve a command: {error}");
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// One of the calls that are served at once.
struct Slot(Arc<AtomicUsize>);

impl Slot {
    fn take(calls: &Arc<AtomicUsize>) -> Option<Slot> {
        let slot = Slot(Arc::clone(calls));
        // Only counted, nothing is published through it.
        let taken = calls.fetch_add(1, Ordering::Relaxed);
        (taken < CALLS_MAX).then_some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve(stream: &UnixStream, answerer: Arc<impl Answerer>, slot: Option<&Slot>) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    let caller = socket_peercred(stream)?.pid.as_raw_nonzero().get();
    let mut reader = line::Reader::new(stream);
    let request: ControlRequest = reader.line()?;
    if slot.is_none() {
        let failure = Failure::new("the agent is busy with other commands").hint("try again");
        return line::send(stream, &ControlReply::Failed(failure), &[]);
    }
    let fds = reader.take_fds();
    let (done, answer) = channel();
    thread::Builder::new()
        .name("control-work".to_owned())
        .spawn(move || done.send(answerer.answer(request, caller.cast_unsigned(), fds)))?;
    tell(stream, &answer)
}

fn tell(stream: &UnixStream, answer: &Receiver<Result<ControlAnswer, Failure>>) -> io::Result<()> {
    loop {
        let reply = match answer.recv_timeout(WORKING_SPAN) {
            Ok(Ok(answer)) => {
                let fds: Vec<BorrowedFd<'_>> = answer.fds.iter().map(AsFd::as_fd).collect();
                return line::send(stream, &ControlReply::Done(answer.value), &fds);
            }
            Ok(Err(failure)) => ControlReply::Failed(failure),
            Err(RecvTimeoutError::Timeout) => {
                line::send(stream, &ControlReply::Working, &[])?;
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => {
                ControlReply::Failed(Failure::new("the agent failed; its log says where"))
            }
        };
        return line::send(stream, &reply, &[]);
    }
}
