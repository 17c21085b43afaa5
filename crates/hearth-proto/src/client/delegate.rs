//! Pages that this node writes by itself, until their homes call them back.
//!
//! ```text
//!            WriteOwn, Grant(Own)          own write
//!   none ─────────────────────────▶ clean ───────────▶ dirty
//!    ▲                              │   ▲ Return(Own)   │
//!    │ Return(Nothing)              │   └───────────────┤ age, flush, sync, many pieces
//!    ├──────────────────────────────┘                   │
//!    ├───────────────── Return(Nothing) ◀───────────────┤ other requests
//!    └─▶ copy ◀──────── Return(Copy) ◀──────────────────┘ TakeBack, last close
//! ```
//!
//! | state | event | action | next |
//! | --- | --- | --- | --- |
//! | none | a grant, with room and a writer | keep the page, held while dirty | clean |
//! | none | a grant otherwise | `Return(Nothing)` | none |
//! | clean, dirty | read of bytes that are known here | no message | same |
//! | clean, dirty | write of this page alone, below the known end | no message | dirty |
//! | clean, dirty | read or write otherwise, an append | `Return(Nothing)`, then ask the home | none |
//! | dirty | age, flush, sync, flush of all, too many pieces | `Return(Own)` | clean |
//! | clean | nothing written for as long again | `Return(Copy)` | copy |
//! | clean | eviction | `Return(Nothing)` | none |
//! | clean, dirty | `TakeBack`, last close for writing, a request lacks memory | `Return(Copy)` | copy |
//! | none | `TakeBack` | `Return(Nothing)` without bytes: what was sent before is the answer | none |
//! | clean, dirty | the home is gone, the file begins a new life | bytes are lost, as those of a dead home | none |
//!
//! Invariants:
//! - DELEGATE-1 (I1): after it has answered a `TakeBack` this node writes the page through its home.
//! - DELEGATE-2 (I6): a home is asked to flush after it was sent what was written here by itself (messages of one
//!   connection arrive in order).
//! - DELEGATE-3 (I3): a way in that keeps bytes of the page is called back before a write shows: such a write goes
//!   through the home, which knows of the way in by `Return(Copy)`.
//! - DELEGATE-4 (I14): at most one page in [`SHARE`] of the pool is written by itself, and given back when a
//!   request lacks memory. Each has a time when it is looked at again. Homes lack at most [`UNRETURNED_MAX`]
//!   bytes: beyond, a write goes to its home, which takes its page back.

use super::file::Copy;
use super::once::Granted;
use super::{Client, Desk, Job};
use crate::authority::Authority;
use crate::config::Copies;
use crate::ctx::Ctx;
use crate::effect::{Effect, Piece, Src};
use crate::frames::{Frames, Owner, Slot};
use crate::guard::Guard;
use crate::ids::{FileId, NodeId, Ticket, Ver};
use crate::msg::{Body, Envelope, Left, Wanted};
use crate::ranges::Ranges;
use crate::time::Time;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// One page in so many of a pool may be written by this node itself, and so many at most.
const SHARE: u32 = 4;
const OWNED_MAX: u32 = 1024;

/// Bytes that no home has at most: more would wait in a connection when all are sent at once, for nobody holds
/// back what is returned.
const UNRETURNED_MAX: u64 = 8 << 20;

/// Pieces of a page that are sent back in one message at most.
const PIECES_MAX: usize = 512;

/// A page that this node writes by itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Owned {
    slot: Slot,
    home: NodeId,
    grant: Ver,
    /// Every byte is known: those below `extent` from the frame, the others are zero.
    filled: bool,
    extent: u32,
    /// Known bytes of a page that is not filled.
    valid: Ranges,
    /// Bytes that the home lacks.
    dirty: Ranges,
    /// A way in may keep some of it.
    kept: bool,
    /// When it is looked at again.
    due: Time,
}

/// All pages that this node writes by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct OwnedPages {
    pages: BTreeMap<(FileId, u64), Owned>,
    due: BTreeSet<(Time, FileId, u64)>,
    dirty_bytes: u64,
}

impl OwnedPages {
    fn insert(&mut self, at: (FileId, u64), owned: Owned) {
        self.due.insert((owned.due, at.0, at.1));
        self.pages.insert(at, owned);
    }

    fn remove(&mut self, at: (FileId, u64)) -> Option<Owned> {
        let owned = self.pages.remove(&at)?;
        self.due.remove(&(owned.due, at.0, at.1));
        self.dirty_bytes -= u64::from(owned.dirty.bytes());
        Some(owned)
    }

    /// Those in frames, with the bytes known of each.
    pub(super) fn held<'a>(
        &'a self,
        frames: &'a Frames,
    ) -> impl Iterator<Item = (FileId, u64, u32)> + 'a {
        let pages = self.pages.iter();
        let pages = pages.filter(|(_, owned)| frames.valid(owned.slot));
        pages.map(|(&(id, page), owned)| match owned.filled {
            true => (id, page, owned.extent),
            false => (id, page, owned.valid.bytes()),
        })
    }

    fn of_file(&self, id: FileId) -> Vec<u64> {
        let pages = self.pages.range((id, 0)..=(id, u64::MAX));
        pages.map(|(&(_, page), _)| page).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// True if this node writes the page by itself.
    pub(super) fn has(&self, id: FileId, page: u64) -> bool {
        self.pages.contains_key(&(id, page))
    }

    /// Looks at the page again at another time.
    fn delay(&mut self, at: (FileId, u64), due: Time) {
        if let Some(owned) = self.pages.get_mut(&at) {
            self.due.remove(&(owned.due, at.0, at.1));
            owned.due = due;
            self.due.insert((due, at.0, at.1));
        }
    }
}

impl Owned {
    /// Known bytes up to `end`, if all from `start` on are: the source, and where zeros begin.
    fn known(&self, start: u32, end: u32) -> Option<(Src, u32)> {
        let frame = Src::Frame(self.slot.frame);
        match self.filled {
            true => Some((frame, self.extent)),
            false => self.valid.covers(start, end).then_some((frame, end)),
        }
    }

    /// Dirty ranges as a message has them, and their bytes.
    fn pieces(&self) -> (Vec<u32>, Vec<Piece>) {
        let mut ranges = Vec::new();
        let mut data = Vec::new();
        for (at, end) in self.dirty.iter() {
            let len = end - at;
            ranges.extend([at, len]);
            let src = Src::Frame(self.slot.frame);
            data.push(Piece { src, at, len });
        }
        (ranges, data)
    }

    /// The message that returns it to the page's home, with its bytes.
    fn returned(&self, page: u64, left: Left) -> (Body, Vec<Piece>) {
        let (ranges, data) = self.pieces();
        let grant = self.grant;
        let body = Body::Return {
            page,
            grant,
            ranges,
            left,
        };
        (body, data)
    }
}

impl Client {
    pub(super) fn desk<'a, 'c>(
        &'a mut self,
        ctx: &'a mut Ctx<'c>,
        authority: &'a mut Authority,
    ) -> Desk<'a, 'c> {
        Desk {
            client: self,
            authority,
            ctx,
        }
    }

    /// Bytes that this node wrote by itself and no home has.
    pub(crate) fn unreturned(&self) -> u64 {
        self.owned.dirty_bytes
    }

    /// True if this node writes a page of that home by itself.
    pub(crate) fn has_own_of(&self, home: NodeId) -> bool {
        self.owned.pages.values().any(|owned| owned.home == home)
    }

    pub(crate) fn return_due(&self) -> Option<Time> {
        self.owned.due.first().map(|&(due, ..)| due)
    }

    /// Sends back what has been dirty for long, and gives back what has been idle for as long again.
    pub(crate) fn return_old(&mut self, ctx: &mut Ctx<'_>, authority: &mut Authority) {
        while let Some(&(due, id, page)) = self.owned.due.first() {
            if due > ctx.now {
                break;
            }
            let mut desk = self.desk(ctx, authority);
            match desk.is_dirty(id, page) {
                true => desk.return_bytes(id, page),
                false => desk.give_back(id, page, Left::Copy),
            }
        }
    }

    /// Gives back every page: a request lacks memory.
    pub(crate) fn give_all_back(&mut self, ctx: &mut Ctx<'_>, authority: &mut Authority) {
        let pages: Vec<(FileId, u64)> = self.owned.pages.keys().copied().collect();
        for (id, page) in pages {
            self.desk(ctx, authority).give_back(id, page, Left::Copy);
        }
    }

    pub(crate) fn assert_valid(&self) {
        let pages = self.owned.pages.values();
        let dirty: u64 = pages.map(|owned| u64::from(owned.dirty.bytes())).sum();
        assert_eq!(
            dirty, self.owned.dirty_bytes,
            "DELEGATE-4: unreturned bytes add up"
        );
        let due = self.owned.pages.iter();
        let due: BTreeSet<_> = due.map(|(&(id, page), o)| (o.due, id, page)).collect();
        assert_eq!(due, self.owned.due, "DELEGATE-4: each page has its time");
    }
}

impl Desk<'_, '_> {
    fn owned_max(&self) -> usize {
        (self.ctx.config.frames / SHARE).clamp(1, OWNED_MAX) as usize
    }

    /// True if a write of one page would have this node write that page by itself from then on.
    pub(super) fn asks_for_own(&self, id: FileId, home: NodeId, (offset, len): (u64, u32)) -> bool {
        let Some(file) = self.client.files.get(&id) else {
            return false;
        };
        self.ctx.config.delegates()
            && home != self.ctx.me()
            && file.semantics.is_recorded()
            && offset + u64::from(len) <= file.size
            && self.ctx.config.pages_of(offset, u64::from(len)).1 == 1
            && self.client.owned.pages.len() < self.owned_max()
    }

    /// A grant has come: takes the page with a frame, or gives it back. True if it is this node's now.
    fn own(&mut self, id: FileId, page: u64, home: NodeId, grant: Ver) -> Option<Slot> {
        let file = self.client.files.get(&id);
        let writes = file.is_some_and(|file| file.writers > 0 && !file.bypass && !file.orphan);
        let room = self.client.owned.pages.len() < self.owned_max();
        let slot = match writes && room {
            true => self.ctx.frames.take(Owner::Client(id, page)),
            false => None,
        };
        let Some(slot) = slot else {
            self.refuse_own(id, page, home, grant);
            return None;
        };
        self.ctx.frames.release(slot);
        if let Some(file) = self.client.files.get_mut(&id)
            && let Some(copy) = file.copies.remove(&page)
        {
            self.ctx.frames.give_back(copy.slot);
        }
        let owned = Owned {
            slot,
            home,
            grant,
            filled: false,
            extent: 0,
            valid: Ranges::default(),
            dirty: Ranges::default(),
            kept: false,
            due: self.ctx.now + self.ctx.config.flush_age,
        };
        self.client.owned.insert((id, page), owned);
        Some(slot)
    }

    /// Gives a grant back at once.
    pub(super) fn refuse_own(&mut self, id: FileId, page: u64, home: NodeId, grant: Ver) {
        self.send_back(home, id, Body::nothing_back(page, grant), Vec::new());
    }

    /// The home has a write, or need not have it, and its page is this node's: what it wrote is what it knows of
    /// the page. False if it is not after all.
    pub(super) fn own_written(
        &mut self,
        ticket: Ticket,
        part: u32,
        home: NodeId,
        answer: &Envelope,
    ) -> bool {
        let Body::WriteOwn { page, grant } = answer.body else {
            return false;
        };
        let id = answer.file;
        let part = match self.client.jobs.get(&ticket) {
            Some(Job::Write(job)) => job.parts.get(part as usize).map(|part| (*part, job.buf)),
            Some(_) | None => None,
        };
        let base = self.ctx.config.page_start(page);
        let Some((part, buf)) = part.filter(|(part, _)| part.offset >= base) else {
            self.refuse_own(id, page, home, grant);
            return false;
        };
        if self.own(id, page, home, grant).is_none() {
            return false;
        }
        let (src, at, len) = (Src::Buf(buf), part.at, part.len);
        let start = (part.offset - base) as u32;
        self.put_own((id, page), start, Piece { src, at, len });
        if part.claims {
            self.note_own_write((id, page), (start, start + len));
        }
        true
    }

    /// A read has its page, and that is this node's. False if it is not after all.
    pub(super) fn own_read(
        &mut self,
        id: FileId,
        home: NodeId,
        granted: &Granted,
        grant: Ver,
    ) -> bool {
        let Some(slot) = self.own(id, granted.page, home, grant) else {
            return false;
        };
        if let (Some(data), true) = (granted.data, granted.extent > 0) {
            let (src, at, len) = (data.src, granted.at, granted.extent);
            self.ctx.out.push(Effect::Fill {
                frame: slot.frame,
                at: 0,
                from: Piece { src, at, len },
            });
        }
        if let Some(owned) = self.client.owned.pages.get_mut(&(id, granted.page)) {
            (owned.filled, owned.extent) = (true, granted.extent);
        }
        true
    }

    /// Bytes of a page that this node writes by itself, if those that a read of `from..to` needs are
    /// known: the source, and where zeros begin.
    pub(super) fn own_bytes(
        &self,
        id: FileId,
        page: u64,
        from: u64,
        to: u64,
    ) -> Option<(Src, u32)> {
        let owned = self.owned(id, page)?;
        let base = self.ctx.config.page_start(page);
        let end = to.min(base + u64::from(self.ctx.config.page_bytes)) - base;
        owned.known((from.max(base) - base) as u32, end as u32)
    }

    /// A way in keeps bytes of the page (DELEGATE-3).
    pub(super) fn own_kept(&mut self, id: FileId, page: u64) {
        if let Some(owned) = self.client.owned.pages.get_mut(&(id, page)) {
            owned.kept = true;
        }
    }

    /// A page that this node writes by itself, unless its frame was taken within this very step.
    fn owned(&self, id: FileId, page: u64) -> Option<&Owned> {
        let owned = self.client.owned.pages.get(&(id, page));
        owned.filter(|owned| self.ctx.frames.valid(owned.slot))
    }

    fn is_dirty(&self, id: FileId, page: u64) -> bool {
        let owned = self.client.owned.pages.get(&(id, page));
        owned.is_some_and(|owned| !owned.dirty.is_empty())
    }

    /// Ends a write that is of one page which this node writes by itself; false if it has to go to homes.
    pub(super) fn write_own(&mut self, ticket: Ticket) -> bool {
        let Some(Job::Write(job)) = self.client.jobs.get(&ticket) else {
            return false;
        };
        let Some((offset, len)) = job.place() else {
            return false;
        };
        let (id, buf) = (job.file, job.buf);
        let (page, count) = self.ctx.config.pages_of(offset, u64::from(len));
        let file = self.client.files.get(&id);
        let below = file.is_some_and(|file| offset + u64::from(len) <= file.size);
        let fits = below && count == 1;
        let Some(home) = self.writes_by_itself(id, page, len).filter(|_| fits) else {
            return false;
        };
        let start = (offset - self.ctx.config.page_start(page)) as u32;
        let (src, at) = (Src::Buf(buf), 0);
        self.put_own_write((id, page), start, Piece { src, at, len }, home);
        self.end_own_write(ticket);
        true
    }

    /// The home of a page of which so many bytes can be written without a word to it.
    pub(super) fn writes_by_itself(&self, id: FileId, page: u64, len: u32) -> Option<NodeId> {
        let file = self.client.files.get(&id)?;
        let owned = self.owned(id, page).filter(|owned| !owned.kept)?;
        let keeps = |ticket: &Ticket| match self.client.jobs.get(ticket) {
            Some(Job::Read(job)) => job.keeps_once(page, page + 1),
            Some(_) | None => false,
        };
        let few = self.client.owned.dirty_bytes + u64::from(len) <= UNRETURNED_MAX;
        let coming = file.wants.contains_key(&page) || file.reads.iter().any(keeps);
        (few && !coming).then_some(owned.home)
    }

    /// True if so many bytes more can be written here before they are at their home.
    pub(super) fn may_own_dirty(&self, len: u32) -> bool {
        self.client.owned.dirty_bytes + u64::from(len) <= UNRETURNED_MAX
            && self.client.owned.pages.len() < self.owned_max()
    }

    /// Writes bytes of a page that is this node's.
    pub(super) fn put_own_write(
        &mut self,
        at: (FileId, u64),
        start: u32,
        from: Piece,
        home: NodeId,
    ) {
        self.put_own(at, start, from);
        self.note_own_write(at, (start, start + from.len));
        if let Some(file) = self.client.files.get_mut(&at.0) {
            file.wrote.insert(home);
            file.unreported = true;
        }
        self.ctx.stats.own_writes += 1;
    }

    /// Puts bytes into a page of this node's.
    fn put_own(&mut self, at: (FileId, u64), start: u32, from: Piece) {
        let Some(owned) = self.client.owned.pages.get_mut(&at) else {
            return;
        };
        let (frame, end) = (owned.slot.frame, start + from.len);
        if owned.filled && owned.extent < start {
            let (src, len) = (Src::Zero, start - owned.extent);
            self.ctx.out.push(Effect::Fill {
                frame,
                at: owned.extent,
                from: Piece { src, at: 0, len },
            });
        }
        self.ctx.out.push(Effect::Fill {
            frame,
            at: start,
            from,
        });
        owned.valid.insert(start, end);
        if owned.filled {
            owned.extent = owned.extent.max(end);
        } else if owned.valid.covers(0, self.ctx.config.page_bytes) {
            (owned.filled, owned.extent) = (true, self.ctx.config.page_bytes);
        }
    }

    /// The home lacks these bytes from now on.
    fn note_own_write(&mut self, at: (FileId, u64), (start, end): (u32, u32)) {
        let now = self.ctx.now;
        let Some(owned) = self.client.owned.pages.get_mut(&at) else {
            return;
        };
        let was_clean = owned.dirty.is_empty();
        let new = owned.dirty.insert(start, end);
        let pieces = owned.dirty.count();
        self.ctx.frames.hold(owned.slot);
        self.client.owned.dirty_bytes += u64::from(new);
        if was_clean {
            let due = now + self.ctx.config.flush_age;
            self.client.owned.delay(at, due);
        }
        if pieces >= PIECES_MAX {
            self.return_bytes(at.0, at.1);
        }
    }

    /// Sends what was written of a page to its home, and goes on writing it.
    fn return_bytes(&mut self, id: FileId, page: u64) {
        let at = (id, page);
        let Some(owned) = self.client.owned.pages.get_mut(&at) else {
            return;
        };
        let (body, data) = owned.returned(page, Left::Own);
        let bytes = u64::from(owned.dirty.take().bytes());
        self.client.owned.dirty_bytes -= bytes;
        let (home, slot) = (owned.home, owned.slot);
        self.send_back(home, id, body, data);
        self.ctx.frames.release(slot);
        let due = self.ctx.now + self.ctx.config.flush_age;
        self.client.owned.delay(at, due);
    }

    fn send_back(&mut self, home: NodeId, id: FileId, body: Body, data: Vec<Piece>) {
        let known = self.client.files.get(&id).map(|file| file.generation);
        let generation = known.unwrap_or_default();
        self.ctx.ask_with(home, id, generation, body, data);
    }

    /// Gives a page back to its home unasked; `Copy` keeps a copy, if the page is known whole.
    pub(super) fn give_back(&mut self, id: FileId, page: u64, left: Left) {
        let Some(owned) = self.client.owned.remove((id, page)) else {
            return;
        };
        let valid = self.ctx.frames.valid(owned.slot);
        let left = owned.left(valid && left == Left::Copy && self.may_copy());
        let (body, data) = owned.returned(page, left);
        self.send_back(owned.home, id, body, data);
        self.retire((id, page), &owned, left);
    }

    /// True if a page may be at its home and here.
    fn may_copy(&self) -> bool {
        self.ctx.config.rules().copies == Copies::Many
    }

    /// The page is a copy from now on, or nothing.
    fn retire(&mut self, (id, page): (FileId, u64), owned: &Owned, left: Left) {
        let may = self.may_copy() && self.ctx.frames.valid(owned.slot);
        let file = self.client.files.get_mut(&id);
        match file.filter(|_| may && left == Left::Copy && owned.filled) {
            Some(file) => {
                self.ctx.frames.release(owned.slot);
                let copy = Copy {
                    slot: owned.slot,
                    extent: owned.extent,
                    home: owned.home,
                    unread: None,
                    pushed: false,
                };
                if let Some(old) = file.copies.insert(page, copy) {
                    self.ctx.frames.give_back(old.slot);
                }
            }
            None => self.ctx.frames.give_back(owned.slot),
        }
    }

    /// A home calls a page back (DELEGATE-1).
    pub(super) fn called_back(&mut self, from: NodeId, order: &Envelope) {
        let Body::TakeBack {
            page,
            grant,
            wanted,
        } = order.body
        else {
            return;
        };
        let (id, generation, req) = (order.file, order.generation, order.req);
        let owned = self.client.owned.pages.get(&(id, page));
        let named = owned.filter(|owned| owned.home == from && owned.grant == grant);
        let Some(owned) = named else {
            let body = Body::nothing_back(page, grant);
            return self.ctx.answer(from, id, generation, req, body);
        };
        let left = owned.left(wanted == Wanted::Bytes && self.may_copy());
        let (body, data) = match wanted {
            Wanted::All if left == Left::Nothing => (Body::all_void(page, grant, left), Vec::new()),
            // A page that is kept here in part is called back like a reader's, and may be read meanwhile.
            Wanted::All | Wanted::Bytes | Wanted::Part => owned.returned(page, left),
        };
        self.ctx.answer_with(from, id, generation, req, body, data);
        if self.ctx.config.keeps(Guard::DelegateStops)
            && let Some(owned) = self.client.owned.remove((id, page))
        {
            self.retire((id, page), &owned, left);
        }
    }

    /// Sends to the homes of a file what they lack of it (DELEGATE-2).
    pub(super) fn return_file(&mut self, id: FileId) {
        if !self.ctx.config.keeps(Guard::ReturnedFirst) {
            return;
        }
        for page in self.client.owned.of_file(id) {
            if self.is_dirty(id, page) {
                self.return_bytes(id, page);
            }
        }
    }

    /// Gives back all pages of a file.
    pub(super) fn give_back_file(&mut self, id: FileId) {
        for page in self.client.owned.of_file(id) {
            self.give_back(id, page, Left::Copy);
        }
    }

    /// Gives back pages that are about to be asked for.
    pub(super) fn give_back_run(&mut self, id: FileId, first: u64, count: u32) {
        let run = (id, first)..(id, first + u64::from(count));
        let pages: Vec<u64> = self
            .client
            .owned
            .pages
            .range(run)
            .map(|(&(_, page), _)| page)
            .collect();
        for page in pages {
            self.give_back(id, page, Left::Nothing);
        }
    }

    /// Nobody takes back what this node wrote by itself of a file: from one home, or from all.
    pub(super) fn lose_own(&mut self, id: FileId, of: Option<NodeId>) {
        for page in self.client.owned.of_file(id) {
            let home = self.client.owned.pages.get(&(id, page)).map(|o| o.home);
            if of.is_none_or(|of| home == Some(of))
                && let Some(owned) = self.client.owned.remove((id, page))
            {
                self.ctx.frames.give_back(owned.slot);
            }
        }
    }

    /// A page of this node's went out of the pool: its home need not call it back.
    pub(super) fn own_evicted(&mut self, id: FileId, page: u64, slot: Slot) {
        let owned = self.client.owned.pages.get(&(id, page));
        if owned.is_some_and(|owned| owned.slot == slot) {
            self.give_back(id, page, Left::Nothing);
        }
    }
}

impl Owned {
    /// The part of it that stays: a copy, if that is wanted and all of it is known. The home also calls back
    /// what a way in keeps.
    fn left(&self, copy: bool) -> Left {
        match self.kept || copy && self.filled {
            true => Left::Copy,
            false => Left::Nothing,
        }
    }
}
