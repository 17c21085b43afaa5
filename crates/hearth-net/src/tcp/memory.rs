//! Memory that two members of one host share, in place of the socket between them.
//!
//! ```text
//! dialer                                        acceptor
//!   hello                                   -->
//!            <--  challenge, and three descriptors: the memory, a doorbell for each side
//!   proof, and whether it took the memory   -->
//! ```
//!
//! All frames after the proof go through the memory. A doorbell is an eventfd: one side waits for it with everything
//! else, the other rings it when the memory says that somebody sleeps. The socket stays open and silent; its end is the
//! peer's end, however that came. A member that cannot share goes on with the socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use hearth_shm::{PipeReader, PipeWriter, join_pipe, make_pipe};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::OFlags;
use rustix::process::{Resource, getrlimit};

/// Descriptors that go with an offer.
pub(super) const RIGHTS: usize = 3;

/// The largest ring of one direction: a page and what announces it fit. Larger ones leave the processor's cache.
const RING_BYTES_MAX: usize = 512 << 10;
/// The smallest, however many members there are.
const RING_BYTES_MIN: usize = 64 << 10;

/// Wakes one side.
#[derive(Debug)]
pub(super) struct Doorbell(OwnedFd);

impl Doorbell {
    fn new() -> io::Result<Doorbell> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Doorbell(eventfd(0, flags)?))
    }

    pub(super) fn ring(&self) {
        // A doorbell that cannot count higher has been rung.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    fn copy(&self) -> io::Result<Doorbell> {
        self.0.try_clone().map(Doorbell)
    }

    /// One that a peer has handed over; it must not make us wait.
    fn of(fd: OwnedFd) -> io::Result<Doorbell> {
        if rustix::fs::fcntl_getfl(&fd)?.contains(OFlags::NONBLOCK) {
            Ok(Doorbell(fd))
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }
}

/// One member's side of the memory that it shares with one peer.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) writer: PipeWriter,
    pub(super) reader: PipeReader,
    /// Ours: it is part of the event loop.
    pub(super) own: Doorbell,
    pub(super) theirs: Arc<Doorbell>,
}

impl Memory {
    /// Makes it, and what the peer needs to have it, too.
    pub(super) fn make(ring_bytes: usize) -> io::Result<(Memory, [OwnedFd; RIGHTS])> {
        let (fd, writer, reader) = make_pipe("hearth-pipe", ring_bytes)?;
        let (own, theirs) = (Doorbell::new()?, Doorbell::new()?);
        let rights = [fd, own.copy()?.0, theirs.copy()?.0];
        let theirs = Arc::new(theirs);
        let memory = Memory {
            writer,
            reader,
            own,
            theirs,
        };
        Ok((memory, rights))
    }

    /// The other side of what a peer has made.
    pub(super) fn join(rights: Vec<OwnedFd>) -> io::Result<Memory> {
        let wrong = |_| io::ErrorKind::InvalidData;
        let [fd, theirs, own] = <[OwnedFd; RIGHTS]>::try_from(rights).map_err(wrong)?;
        let (writer, reader) = join_pipe(fd.as_fd())?;
        Ok(Memory {
            writer,
            reader,
            own: Doorbell::of(own)?,
            theirs: Arc::new(Doorbell::of(theirs)?),
        })
    }
}

impl Doorbell {
    /// Has the event loop hear it.
    pub(super) fn listen(&self, registry: &Registry, token: Token) -> io::Result<()> {
        // A doorbell is always writable, and one that rings is reported as such: there may be room again.
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut SourceFd(&self.0.as_raw_fd()), token, interest)
    }

    /// Takes it out of the event loop: the peer may still have it open.
    pub(super) fn forget(&self, registry: &Registry) {
        if let Err(error) = registry.deregister(&mut SourceFd(&self.0.as_raw_fd())) {
            log::debug!("a bell was not in the event loop: {error}");
        }
    }
}

/// Bytes of each ring in a job of so many members that may share so many bytes with each of them together; an
/// error says why there is none.
pub(super) fn ring_bytes(members: usize, bytes_max: usize) -> Result<usize, String> {
    let peers = members.saturating_sub(1).max(1);
    // A socket and two doorbells for each; the program has a use for descriptors, too.
    let wanted = (peers * RIGHTS) as u64;
    let limit = getrlimit(Resource::Nofile).current;
    if limit.is_some_and(|limit| wanted > limit / 2) {
        let limit = limit.unwrap_or_default();
        return Err(format!(
            "{wanted} descriptors would be more than half of the {limit} that this process may have"
        ));
    }
    let each = bytes_max / 2 / peers;
    let power = 1_usize << each.max(1).ilog2();
    Ok(power.clamp(RING_BYTES_MIN, RING_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_get_smaller_with_more_members_but_not_too_small() {
        let all = 64 << 20;
        assert_eq!(ring_bytes(2, all), Ok(RING_BYTES_MAX));
        assert_eq!(ring_bytes(1, all), Ok(RING_BYTES_MAX));
        assert_eq!(ring_bytes(101, all), Ok(256 << 10));
        assert_eq!(ring_bytes(2, 0), Ok(RING_BYTES_MIN));
        let why = ring_bytes(1 << 30, all).expect_err("no limit is so high");
        assert!(why.contains("descriptors"), "{why}");
    }

    #[test]
    fn what_is_no_offer_is_not_taken() {
        assert!(Memory::join(Vec::new()).is_err());
        let (_, [fd, own, theirs]) = Memory::make(RING_BYTES_MIN).expect("memory is there");
        let (reader, writer) = io::pipe().expect("descriptors are left");
        let waits = vec![fd, reader.into(), writer.into()];
        assert!(Memory::join(waits).is_err(), "to ring these could block");
        assert!(Memory::join(vec![own, theirs]).is_err());
    }
}
