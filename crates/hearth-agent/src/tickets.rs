//! Requests of local sessions that have no answer yet.

use crate::late::{About, LOOK};
use hearth_client::{AttributesLeave, Done, FileSize, NamesLeave, OpenedFile, ReadDone, Written};
use hearth_proto::{Buf, FileId, Handle, OpenRequest, Ticket, Time, WriteAt};
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
        /// The front end keeps the bytes, or programs may read their pages in the pool.
        keep: bool,
        done: ReadDone,
    },
    Write {
        handle: Handle,
        at: WriteAt,
        buf: Buf,
        done: Done<Written>,
    },
    Size(Done<FileSize>),
    Leave(Done<Vec<AttributesLeave>>),
    Names(Done<NamesLeave>),
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
    pub(crate) request: OpenRequest,
    pub(crate) fd: Arc<OwnedFd>,
    /// Bytes that were kept in earlier opens are good by the store's own word.
    pub(crate) same_stamp: bool,
    pub(crate) done: Done<OpenedFile>,
}

/// A request, and what is told of it if it is late.
struct Ticketed {
    waiting: Waiting,
    about: Option<About>,
    told: bool,
}

/// All requests of local sessions.
#[derive(Default)]
pub(crate) struct Tickets {
    waiting: HashMap<Ticket, Ticketed>,
    given: u64,
    /// When it was last looked for requests that are late.
    looked: Time,
}

impl Tickets {
    /// Takes a request in and names it.
    pub(crate) fn add(&mut self, waiting: Waiting) -> Ticket {
        let ticket = self.next();
        let held = Ticketed {
            waiting,
            about: None,
            told: false,
        };
        self.waiting.insert(ticket, held);
        ticket
    }

    /// A request is begun.
    pub(crate) fn begin(&mut self, now: Time, ticket: Ticket, about: impl FnOnce() -> About) {
        let is_alone = self.waiting.len() == 1;
        if let Some(held) = self.waiting.get_mut(&ticket) {
            held.about = Some(about());
            if is_alone {
                self.looked = now;
            }
        }
    }

    /// The requests that wait, and since when.
    pub(crate) fn abouts(&self) -> impl Iterator<Item = (Ticket, About)> + '_ {
        let about = |(&ticket, held): (&Ticket, &Ticketed)| Some((ticket, held.about?));
        self.waiting.iter().filter_map(about)
    }

    /// When it is to be looked for late ones.
    pub(crate) fn deadline(&self) -> Option<Time> {
        (!self.waiting.is_empty()).then(|| self.looked + LOOK)
    }

    /// True if that has come; then it is looked.
    pub(crate) fn are_due(&mut self, now: Time) -> bool {
        let due = self.deadline().is_some_and(|due| due <= now);
        if due {
            self.looked = now;
        }
        due
    }

    /// True the first time.
    pub(crate) fn tell_once(&mut self, ticket: Ticket) -> bool {
        let held = self.waiting.get_mut(&ticket);
        held.is_some_and(|held| !std::mem::replace(&mut held.told, true))
    }

    /// A name for a request that is not answered.
    pub(crate) fn next(&mut self) -> Ticket {
        self.given += 1;
        Ticket(self.given)
    }

    /// Takes a request out, to answer it.
    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<Waiting> {
        Some(self.waiting.remove(&ticket)?.waiting)
    }

    /// Looks at a request.
    pub(crate) fn get(&self, ticket: Ticket) -> Option<&Waiting> {
        Some(&self.waiting.get(&ticket)?.waiting)
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}
