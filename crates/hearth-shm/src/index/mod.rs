//! The shared index: which frame holds a page, for programs that read the pool's memory themselves.
//!
//! The agent writes it, programs can only read it. Each frame has a *header*: a sequence, the file,
//! the page, and how many bytes of the page are in the frame. A table of hints leads from a page to
//! its frame; a hint may be wrong, a header never is.
//!
//! ```text
//! agent                                   program
//!   hide:    sequence := even                1  sequence odd?            (acquire)
//!            fence (release)                 2  the file and page? copy the bytes
//!   change the frame                            fence (acquire)
//!   publish: file, page, bytes               3  the same sequence? the copy is good
//!            sequence := odd (release)
//! ```
//!
//! Invariants:
//! - X1: the bytes of a frame change only while its sequence is even. [`crate::Pool`] sees to it:
//!   it hides a frame before it gives it out for writing.
//! - X2: a copy that passes step 3 is the page as it was from step 1 to step 3. Had any byte of it
//!   been of a later change, the fence before that change and the fence before step 3 would have made
//!   step 3 see the even sequence or a later one.
//! - X3: once `hide` has returned and the agent tells anybody, no copy that begins after the news
//!   passes: the news carries the even sequence along. So a page that is hidden before an
//!   invalidation is acknowledged is not read stale after that.
//! - X4: sequences only grow, so no two contents of a frame share one.
//!
//! The index also says what the agent last told the operating system of a file, as a digest, and how long
//! that is believed. A program that has the same from a `stat` of its own keeps the answer until then:
//!
//! - X5: a program that hears that an attribute or a name has changed finds the sequence of the file's
//!   place, or the count of names, changed. Both are changed before the agent tells anybody. Attributes
//!   that were looked at before a change are not told after it, since a [`AttributeTicket`] of theirs is then old.
//!
//! - X6: a name that is told to the operating system, and whose change may not be heard of, is counted
//!   before it is told. So a program that finds the count the same before and after it has gone through a
//!   path knows that a change of any name on it will change the count of names (X5). For names that the
//!   operating system keeps itself, the agent hears of all changes.
//!
//! A program holds nothing here, so one that dies at any instruction leaves nothing behind. An agent
//! that dies leaves pages that nobody calls back any more: see [`crate::life`].

pub(crate) mod layout;
pub(crate) mod protocol;

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, Release},
};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::lease;
use crate::life::HasLife;
use crate::segment::Words;
use layout::{DOORBELL, LEASE, LIFE, Layout, NAMES_ARE_KEPT, PLACES};
use protocol::{
    Board, PageName, change_names, hide, offer, open_gate, publish, shut_gate, take_back, tell,
    tell_unheard, untell,
};

/// The agent's side of the index.
#[derive(Debug)]
pub(crate) struct Index {
    fd: OwnedFd,
    words: Words,
    layout: Layout,
    shown: Mutex<Shown>,
    changes: Mutex<Changes>,
}

/// How often something changed: of the files of each place, and of names.
#[derive(Debug)]
struct Changes {
    files: Vec<u64>,
    names: u64,
}

/// Taken before a file's attributes are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeTicket {
    file: u64,
    names: u64,
}

/// The pages that were published and not hidden by name since. A frame that was hidden because it
/// changes stays here until it is published again, or its page is hidden.
#[derive(Debug)]
struct Shown {
    frames: BTreeMap<PageName, u32>,
    pages: Vec<Option<PageName>>,
}

impl Index {
    /// An index without pages, for a pool of so many frames.
    pub(crate) fn new(name: &str, frames: u32, frame_bytes: usize) -> io::Result<Index> {
        let layout = Layout::of(frames, frame_bytes as u64);
        let (fd, words) = Words::sealed(&format!("{name}-index"), layout.words())?;
        words.store(LEASE, lease::ALWAYS, Release);
        layout.write(&words);
        let shown = Shown {
            frames: BTreeMap::new(),
            pages: vec![None; frames as usize],
        };
        Ok(Index {
            fd,
            words,
            layout,
            shown: Mutex::new(shown),
            changes: Mutex::new(Changes {
                files: vec![0; PLACES],
                names: 0,
            }),
        })
    }

    /// Nothing is current after this moment, until there is a later one.
    pub(crate) fn lease_until(&self, until: u64) {
        self.words.store(LEASE, until, Release);
    }

    /// A ticket for attributes that are about to be looked at: they may be told later, if nothing
    /// changes meanwhile.
    pub(crate) fn ticket(&self, file: u64) -> AttributeTicket {
        let changes = self.changes();
        AttributeTicket {
            file: changes.files[Layout::place_number(file)],
            names: changes.names,
        }
    }

    /// A file's attributes of this digest are told to the operating system until then.
    pub(crate) fn tell(&self, file: u64, ticket: AttributeTicket, digest: u64, until_ns: u64) {
        let changes = self.changes();
        let number = Layout::place_number(file);
        if (changes.files[number], changes.names) == (ticket.file, ticket.names) {
            tell(&self.words, &self.layout, file, digest, until_ns);
        }
    }

    /// The attributes of a file have changed, and nobody was told yet.
    pub(crate) fn file_changed(&self, file: u64) {
        let mut changes = self.changes();
        changes.files[Layout::place_number(file)] += 1;
        untell(&self.words, &self.layout, file);
    }

    /// A name has changed, and nobody was told yet.
    pub(crate) fn names_changed(&self) {
        let mut changes = self.changes();
        changes.names += 1;
        change_names(&self.words);
    }

    /// A name is about to be told whose change may not be heard of.
    pub(crate) fn name_unheard(&self) {
        let _changes = self.changes();
        tell_unheard(&self.words);
    }

    /// Programs may keep what names mean, as long as none changes.
    pub(crate) fn keep_names(&self) {
        self.words.store(NAMES_ARE_KEPT, 1, Relaxed);
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The memory, for programs to map.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Lets programs read `page` from `frame`, whose first `extent` bytes are the page's.
    pub(crate) fn publish(&self, page: PageName, frame: u32, extent: u32) {
        let mut shown = self.lock();
        if let Some(old) = shown.pages[frame as usize].replace(page)
            && old != page
        {
            shown.frames.remove(&old);
        }
        if let Some(other) = shown.frames.insert(page, frame)
            && other != frame
        {
            shown.pages[other as usize] = None;
            hide(&self.words, &self.layout, other);
        }
        publish(&self.words, &self.layout, frame, page, extent);
    }

    /// The frame is about to change, or its page is no longer to be read.
    pub(crate) fn hide_frame(&self, frame: u32) {
        hide(&self.words, &self.layout, frame);
    }

    /// No page of `file` within `pages` is read from now on.
    pub(crate) fn hide_pages(&self, file: u64, pages: Range<u64>) {
        let mut shown = self.lock();
        let name = |page| PageName { file, page };
        let range = name(pages.start)..name(pages.end);
        if range.is_empty() {
            return;
        }
        let gone: Vec<(PageName, u32)> = shown
            .frames
            .range(range)
            .map(|(&page, &frame)| (page, frame))
            .collect();
        for (page, frame) in gone {
            shown.frames.remove(&page);
            shown.pages[frame as usize] = None;
            hide(&self.words, &self.layout, frame);
        }
    }

    /// Programs may write the first `limit` bytes of a page, and not read it. While the gate is shut.
    pub(crate) fn offer(&self, page: PageName, frame: u32, limit: u32) {
        // A thread that publishes may be at the same hints.
        let _shown = self.lock();
        offer(&self.words, &self.layout, frame, page, limit);
    }

    /// They may no longer. While the gate is shut.
    pub(crate) fn take_back(&self, frame: u32) {
        take_back(&self.words, &self.layout, frame);
    }

    /// Shuts the gate, or opens it.
    pub(crate) fn set_gate(&self, is_open: bool) {
        match is_open {
            true => open_gate(&self.words),
            false => shut_gate(&self.words),
        }
    }

    /// Programs ring while its value is 1.
    pub(crate) fn doorbell(&self) -> &AtomicU32 {
        self.words.half(DOORBELL)
    }

    /// Pages that programs can find.
    pub(crate) fn pages(&self) -> usize {
        self.lock().frames.len()
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HasLife for Index {
    fn life(&self) -> &AtomicU32 {
        self.words.half(LIFE)
    }
}
