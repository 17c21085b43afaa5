//! Requests of local sessions that have no answer yet.

use hearth_client::{Done, FileSize, Leave, Names, OpenedFile, ReadDone, Written};
use hearth_proto::{Buf, FileId, Handle, Ticket, WriteAt};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A request: how to answer it, and what is needed to do it on the store instead.
pub(crate) enum Waiting {
    Open(Opening),
    Read {
        handle: Handle,
        offset: u64,
        len: u32,
        /// The way in keeps the bytes, or programs may read their pages in the pool.
        keep: bool,
        done: ReadDone,
    },
    Write {
        handle: Handle,
        at: WriteAt,
        buf: Buf,
        done: Done<Written>,
    },
    Size(Done<Option<FileSize>>),
    Leave(Done<Vec<Leave>>),
    Names(Done<Names>),
    Truncate {
        fd: Arc<OwnedFd>,
        done: Done<()>,
    },
    Plain(Done<()>),
    /// The file is handed over to another node.
    HandOver(FileId),
}

/// An open: its descriptor becomes the handle's.
pub(crate) struct Opening {
    pub(crate) file: hearth_proto::FileId,
    pub(crate) fd: Arc<OwnedFd>,
    pub(crate) write: bool,
    /// What was kept in earlier opens is good by the store's own word.
    pub(crate) same_stamp: bool,
    pub(crate) done: Done<OpenedFile>,
}

/// All requests of local sessions.
#[derive(Default)]
pub(crate) struct Tickets {
    waiting: HashMap<Ticket, Waiting>,
    given: u64,
}

impl Tickets {
    /// Takes a request in and names it.
    pub(crate) fn add(&mut self, waiting: Waiting) -> Ticket {
        let ticket = self.next();
        self.waiting.insert(ticket, waiting);
        ticket
    }

    /// A name for a request that is not answered.
    pub(crate) fn next(&mut self) -> Ticket {
        self.given += 1;
        Ticket(self.given)
    }

    /// Takes a request out, to answer it.
    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<Waiting> {
        self.waiting.remove(&ticket)
    }

    /// Looks at a request.
    pub(crate) fn get(&self, ticket: Ticket) -> Option<&Waiting> {
        self.waiting.get(&ticket)
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}
