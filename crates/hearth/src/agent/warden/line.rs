//! The way from an agent to its warden.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

use super::Word;

/// Longest word: a path, and some numbers.
const WORD_BYTES_MAX: usize = 32 << 10;

/// One end. Both are in one table, so neither hears of the other's close.
pub(in super::super) struct Line(OwnedFd);

impl Line {
    /// Both ends.
    pub(super) fn pair() -> io::Result<(Line, Line)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, its) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Line(ours), Line(its)))
    }

    pub(super) fn say(&self, word: &Word) -> io::Result<()> {
        let bytes = serde_json::to_vec(word)?;
        send(&self.0, &bytes, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The next word, if one has come.
    pub(super) fn hear(&self) -> Option<Word> {
        let mut bytes = vec![0; WORD_BYTES_MAX];
        let (count, _) = recv(&self.0, &mut bytes[..], RecvFlags::DONTWAIT).ok()?;
        serde_json::from_slice(&bytes[..count]).ok()
    }

    pub(super) fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
