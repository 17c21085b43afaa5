//! How a process that an agent has started hands it the store.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use super::line::{Reader, send};
use crate::agent::Started;
use crate::failure::{Failure, OrFail};

/// Hands a descriptor over, or says why there is none.
pub fn hand_over(line: &UnixStream, root: Result<OwnedFd, Failure>) -> Result<(), Failure> {
    let (said, root) = match root {
        Ok(root) => (Started::Ready { warden: None }, Some(root)),
        Err(failure) => (Started::Failed(failure), None),
    };
    let fds: Vec<BorrowedFd<'_>> = root.iter().map(OwnedFd::as_fd).collect();
    send(line, &said, &fds).or_fail(|| "nobody waits for the store".to_owned())
}

/// Takes one over.
pub fn take_over(line: &UnixStream) -> Result<OwnedFd, Failure> {
    let what = || "the process that stands in for the store says nothing".to_owned();
    let mut reader = Reader::new(line);
    match reader.line().or_fail(what)? {
        Started::Failed(failure) => Err(failure),
        Started::Ready { .. } => reader
            .take_fds()
            .pop()
            .ok_or_else(|| Failure::new("no descriptor came with the store")),
    }
}
