//! How a pool gets from an agent to a program: as descriptors over a Unix socket.
//!
//! The agent sends to processes of its own user alone. A program keeps no descriptor of it: what is
//! mapped stays mapped, whatever the program closes.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg,
    sendmsg, socket_with,
};

use crate::{PoolView, SharedCounts, WriteRing};

/// Descriptors of one message.
const BATCH: usize = 32;

/// The content of a message.
const WORD: &[u8; 8] = b"hearth:1";

/// Sends descriptors to a program of this process's own user; refuses any other.
///
/// Does not wait: a program that takes nothing gets nothing.
pub(crate) fn send(stream: BorrowedFd<'_>, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let theirs = socket_peercred(stream)?.uid;
    if theirs != rustix::process::geteuid() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    for batch in fds.chunks(BATCH) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(batch));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(stream, &[IoSlice::new(WORD)], &mut ancillary, flags)?;
    }
    Ok(())
}

/// Asks the agent that listens at `path` for its pool, and maps it. Nothing is allocated.
pub fn attach(path: &[u8]) -> io::Result<(PoolView, SharedCounts)> {
    let mut rest = Incoming::new(connected(path)?);
    let counts = SharedCounts::of(rest.next()?.as_fd())?;
    let mut view = PoolView::of(rest.next()?)?;
    while !view.add(rest.next()?)? {}
    Ok((view, counts))
}

/// Asks the agent that listens at `path` for a write ring of this process's own. Nothing is allocated.
pub fn attach_write_ring(path: &[u8]) -> io::Result<WriteRing> {
    let mut rest = Incoming::new(connected(path)?);
    WriteRing::of(rest.next()?.as_fd())
}

/// Sends a program of this process's own user its write ring; refuses any other. Does not wait.
pub fn send_write_ring(program: BorrowedFd<'_>, write_ring: &OwnedFd) -> io::Result<()> {
    send(program, &[write_ring.as_fd()])
}

/// The process at the other end of a connection: its number, and what is readable once it has ended. Refuses
/// one whose clocks are others, as in a time namespace of its own: the order of two programs' writes is told
/// by the time at which each began.
pub fn program(stream: BorrowedFd<'_>) -> io::Result<(i32, OwnedFd)> {
    let pid = socket_peercred(stream)?.pid;
    let process = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    let number = pid.as_raw_nonzero().get();
    let clocks = |whose: &str| std::fs::read_link(format!("/proc/{whose}/ns/time")).ok();
    if clocks(&number.to_string()) != clocks("self") {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "its clocks are not this agent's",
        ));
    }
    Ok((number, process))
}

fn connected(path: &[u8]) -> io::Result<OwnedFd> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Descriptors as they come.
struct Incoming {
    socket: OwnedFd,
    fds: [Option<OwnedFd>; BATCH],
    next: usize,
}

impl Incoming {
    fn new(socket: OwnedFd) -> Incoming {
        Incoming {
            socket,
            fds: [const { None }; BATCH],
            next: BATCH,
        }
    }

    fn next(&mut self) -> io::Result<OwnedFd> {
        if self.next >= BATCH || self.fds[self.next].is_none() {
            self.receive()?;
        }
        let fd = self.fds.get_mut(self.next).and_then(Option::take);
        self.next += 1;
        fd.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut word = [0; WORD.len()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let mut bytes = [IoSliceMut::new(&mut word)];
        let got =
            rustix::io::retry_on_intr(|| recvmsg(&self.socket, &mut bytes, &mut ancillary, flags))?;
        self.next = 0;
        let rights = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        for (place, fd) in self.fds.iter_mut().zip(rights.flatten()) {
            *place = Some(fd);
        }
        if got.bytes != WORD.len() || &word != WORD {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(())
    }
}
