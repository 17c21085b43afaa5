//! Gathering at the writer: small writes to pages of other homes stay here until something needs them
//! there.
//!
//! Some files have writes that need not show elsewhere before they are closed or synced (`mpi`, `cto`). A
//! write of less than a page to such a file is copied into a frame and answered. The gathered bytes of a page
//! go to its home in one message, a *scatter*: when the page is full, in too many pieces or old, when frames
//! are wanted, and before whatever else this node does with those bytes. A request that does so waits here
//! and is asked anew once all is scattered, with the writes that came meanwhile.
//!
//! Invariants:
//! - GATHER-1 (I3): an open, a flush, a sync, a close, a question for the size and an append come after the
//!   scatters of what this node had gathered of the file. A read or another write comes after those of its
//!   pages.
//! - GATHER-2: at most one scatter of a page is under way, so that they arrive in order.
//! - GATHER-3: a manager cuts or settles a file, and a node syncs it, after every writer has scattered what it had
//!   gathered; for a cut, a writer gathers nothing from then on until it has heard of it.
//! - GATHER-4 (I14): a quarter of the frames at most hold what is gathered, and no more pages than that are
//!   being scattered.
//! - GATHER-5: ways in keep nothing of a page that is gathered or being scattered, so that an order to drop it can
//!   be acknowledged at once: the page may be locked by a read that waits for the scatter.

use super::local::take_back;
use super::write::{Part, WriteJob};
use super::{Client, Desk, Job};
use crate::authority::Authority;
use crate::ctx::Ctx;
use crate::effect::{Alarm, Effect, Piece, Reply, Src};
use crate::frames::{Owner, Slot};
use crate::guard::Guard;
use crate::ids::{Buf, FileId, Gen, Handle, NodeId, ReqId, Ticket};
use crate::input::{Request, WriteAt};
use crate::msg::Body;
use crate::ranges::Ranges;
use crate::semantics::Semantics;
use crate::time::{Span, Time};
use crate::{RawErrno, errno};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Gathered bytes go after this, if nothing sends them earlier.
pub(super) const AGE_MAX: Span = Span::secs(1);

/// Pieces of a page: bounds the list that comes with them.
pub(crate) const PIECES_MAX: usize = 1024;

/// One part in so many of the frames may hold what is gathered.
const SHARE: u32 = 4;

/// Bytes of one page that are here alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Gathered {
    pub(super) slot: Slot,
    pub(super) ranges: Ranges,
    pub(super) mtime_ns: i64,
    /// Programs may leave more of it by themselves.
    pub(super) is_offered: bool,
}

/// The party that goes on when all that a file has gathered is scattered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Waiter {
    Session(Ticket, Request),
    /// The manager, which has asked for it.
    Manager(NodeId, Gen, ReqId),
    /// The manager is told of a close; of a writer's if so.
    Close {
        write: bool,
    },
}

/// The gathered bytes of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Gathering {
    pub(super) pages: BTreeMap<u64, Gathered>,
    /// Pages that are being scattered.
    scattering: BTreeMap<u64, Ticket>,
    /// When the oldest of the gathered bytes came.
    pub(super) since: Option<Time>,
    /// A cut of this generation is coming (GATHER-3).
    held_off: Option<Gen>,
    waiting: Vec<Waiter>,
}

impl Gathering {
    /// Nothing is here that the homes have not.
    pub(super) fn is_idle(&self) -> bool {
        self.pages.is_empty() && self.scattering.is_empty() && self.waiting.is_empty()
    }

    /// Nothing keeps a write from gathering, as far as the whole file goes.
    pub(super) fn is_open(&self, generation: Gen) -> bool {
        self.held_off.is_none_or(|of| of < generation) && self.waiting.is_empty()
    }

    /// True if any of the pages is gathered, or being scattered.
    pub(super) fn touches(&self, first: u64, count: u32) -> bool {
        let pages = first..first + u64::from(count);
        self.pages.range(pages.clone()).next().is_some()
            || self.scattering.range(pages).next().is_some()
    }

    /// Opens wait for the end of a cut: this one has none before it any more.
    pub(super) fn no_cut_comes(&mut self) {
        self.held_off = None;
    }

    /// True for the one page of an order to drop it that the scatter of it has brought about.
    pub(super) fn is_scattering(&self, first: u64, count: u32) -> bool {
        count == 1 && self.scattering.contains_key(&first)
    }
}

impl Client {
    /// Bytes that are gathered here.
    pub(crate) fn gathered_bytes(&self) -> u64 {
        let files = self.gathering.iter().filter_map(|id| self.files.get(id));
        let pages = files.flat_map(|file| file.gathering.pages.values());
        pages.map(|page| u64::from(page.ranges.bytes())).sum()
    }

    /// True if writes through a handle may gather.
    pub(crate) fn gathers(&self, handle: Handle) -> bool {
        let opened = self.handles.get(&handle);
        let file = opened.and_then(|opened| self.files.get(&opened.file));
        file.is_some_and(|file| file.semantics.gathers() && !file.bypass)
    }

    /// True if the file of a handle is one of level `posix`.
    pub(crate) fn is_posix(&self, handle: Handle) -> bool {
        let opened = self.handles.get(&handle);
        let file = opened.and_then(|opened| self.files.get(&opened.file));
        file.is_some_and(|file| file.semantics == Semantics::Posix)
    }

    /// When gathered bytes are old.
    pub(crate) fn scatter_due(&self) -> Option<Time> {
        let files = self.gathering.iter().filter_map(|id| self.files.get(id));
        let since = files.filter_map(|file| file.gathering.since).min()?;
        Some(since + AGE_MAX)
    }

    /// Scatters what is old.
    pub(crate) fn scatter_old(&mut self, ctx: &mut Ctx<'_>, authority: &mut Authority) {
        let now = ctx.now;
        self.scatter_since(ctx, authority, |since| since + AGE_MAX <= now);
    }

    /// Scatters everything.
    pub(crate) fn scatter_all(&mut self, ctx: &mut Ctx<'_>, authority: &mut Authority) {
        self.scatter_since(ctx, authority, |_| true);
    }

    fn scatter_since(
        &mut self,
        ctx: &mut Ctx<'_>,
        authority: &mut Authority,
        due: impl Fn(Time) -> bool,
    ) {
        let ids: Vec<FileId> = self.gathering.iter().copied().collect();
        let mut desk = Desk {
            client: self,
            authority,
            ctx,
        };
        for id in ids {
            let file = desk.client.files.get(&id);
            let since = file.and_then(|file| file.gathering.since);
            if since.is_some_and(&due) {
                desk.scatter_file(id);
                desk.count_age_anew(id);
            }
        }
    }
}

impl Desk<'_, '_> {
    /// Hands a request on, unless it has to wait for what is gathered (GATHER-1).
    pub(super) fn behind_gathered(&mut self, ticket: Ticket, request: Request) -> Option<Request> {
        if self.client.gathering.is_empty() {
            return Some(request);
        }
        let Some(id) = self.gathered_for(&request) else {
            return Some(request);
        };
        self.wait_for_scatters(id, Waiter::Session(ticket, request));
        None
    }

    /// The file whose scatters a request must wait for.
    fn gathered_for(&self, request: &Request) -> Option<FileId> {
        let client = &*self.client;
        let of_handle = |handle| client.handles.get(handle).map(|opened| opened.file);
        let id = match request {
            Request::Read { handle, .. } | Request::Write { handle, .. } => of_handle(handle)?,
            Request::Flush(handle) | Request::Sync(handle) | Request::Exchange(handle) => {
                of_handle(handle)?
            }
            Request::Size { file, .. } => *file,
            Request::Open(open) => open.file,
            _ => return None,
        };
        let file = client
            .files
            .get(&id)
            .filter(|file| !file.gathering.is_idle())?;
        let careful = self.ctx.config.keeps(Guard::ScatteredFirst);
        let waits = match *request {
            Request::Read { len: 0, .. } => false,
            Request::Read { offset, len, .. } => {
                let (first, count) = self.ctx.config.pages_of(offset, u64::from(len));
                let beyond = offset.saturating_add(u64::from(len)) > file.size;
                beyond || file.gathering.touches(first, count)
            }
            Request::Write { at, len, .. } => match at {
                WriteAt::End => true,
                WriteAt::Offset(_) if !file.gathering.waiting.is_empty() => true,
                WriteAt::Offset(offset) => {
                    let (first, count) = self.ctx.config.pages_of(offset, u64::from(len));
                    file.gathering.touches(first, count) && !self.is_gatherable(id, offset, len)
                }
            },
            Request::Flush(_) | Request::Sync(_) | Request::Exchange(_) => careful,
            _ => true,
        };
        waits.then_some(id)
    }

    fn wait_for_scatters(&mut self, id: FileId, waiter: Waiter) {
        if let Some(file) = self.client.files.get_mut(&id) {
            file.gathering.waiting.push(waiter);
        }
        self.scatter_file(id);
        self.when_scattered(id);
    }

    /// True if a write stays here for a while.
    fn is_gatherable(&self, id: FileId, offset: u64, len: u32) -> bool {
        self.may_gather(id, offset, len) && self.has_room(id, offset, len)
    }

    /// True if a write could stay here, given room.
    pub(super) fn may_gather(&self, id: FileId, offset: u64, len: u32) -> bool {
        let config = self.ctx.config;
        let Some(file) = self.client.files.get(&id) else {
            return false;
        };
        let fits = len > 0 && len < config.page_bytes && file.semantics.gathers();
        let Some(end) = offset.checked_add(u64::from(len)).filter(|_| fits) else {
            return false;
        };
        let away = file.bypass || file.orphan || end > i64::MAX as u64;
        if away || file.kept || !file.gathering.is_open(file.generation) {
            return false;
        }
        let (first, count) = config.pages_of(offset, u64::from(len));
        let pages = first..first + u64::from(count);
        let elsewhere = |page| {
            let home = super::home_of(config, id, file, page);
            // Programs leave what gathers, and nothing that goes to the home at once and makes the file longer.
            let counts = |home| home != config.me || config.offers_pages();
            home.is_some_and(|home| counts(home) && !self.ctx.peers.is_down(home))
        };
        // A read on its way may ask for the page once more.
        let read = file.wants.range(pages.clone()).next().is_some()
            || !self.readers_of(id, first, count).is_empty();
        !read && pages.into_iter().all(elsewhere)
    }

    /// True if there are frames for the pages of a write (GATHER-4), and room in their lists.
    fn has_room(&self, id: FileId, offset: u64, len: u32) -> bool {
        let Some(file) = self.client.files.get(&id) else {
            return false;
        };
        let (first, count) = self.ctx.config.pages_of(offset, u64::from(len));
        let (mut lacking, mut full) = (0, false);
        for page in first..first + u64::from(count) {
            match file.gathering.pages.get(&page) {
                Some(gathered) => full |= gathered.ranges.count() >= PIECES_MAX,
                None => lacking += 1,
            }
        }
        let (held, scattering) = self.gathered_pages();
        let share = self.ctx.config.frames / SHARE;
        !full && held + lacking <= share && scattering < share && lacking <= self.ctx.frames.spare()
    }

    /// Pages of all files that are gathered, and that are being scattered.
    fn gathered_pages(&self) -> (u32, u32) {
        let files = self.client.gathering.iter();
        let files = files.filter_map(|id| self.client.files.get(id));
        files.fold((0, 0), |(held, scattering), file| {
            let gathering = &file.gathering;
            let more = (
                gathering.pages.len() as u32,
                gathering.scattering.len() as u32,
            );
            (held + more.0, scattering + more.1)
        })
    }

    /// Keeps a write here, if it may stay.
    pub(super) fn gather_write(&mut self, ticket: Ticket, id: FileId, job: &WriteJob) -> bool {
        let WriteAt::Offset(offset) = job.at else {
            return false;
        };
        if !self.may_gather(id, offset, job.len) {
            return false;
        }
        if !self.has_room(id, offset, job.len) {
            self.make_room();
            return false;
        }
        self.drop_own_copies(id, offset, job.len);
        let (first, count) = self.ctx.config.pages_of(offset, u64::from(job.len));
        for page in first..first + u64::from(count) {
            self.take_gathered(id, page, job.mtime_ns);
        }
        for page in first..first + u64::from(count) {
            self.put_gathered(id, page, offset, job);
            self.client.wish_offer(self.ctx.config, id, page);
        }
        self.ctx.out.push(Effect::Free(job.buf));
        let end = offset + u64::from(job.len);
        let size = self
            .client
            .files
            .get(&id)
            .map_or(0, |file| file.size)
            .max(end);
        self.reply(ticket, Reply::Written { offset, size });
        true
    }

    /// Gathered bytes go, so that later writes can stay.
    fn make_room(&mut self) {
        let ids: Vec<FileId> = self.client.gathering.iter().copied().collect();
        ids.into_iter().for_each(|id| self.scatter_file(id));
    }

    /// Gives a page a frame to gather in.
    fn take_gathered(&mut self, id: FileId, page: u64, mtime_ns: i64) {
        let now = self.ctx.now;
        let Some(file) = self.client.files.get_mut(&id) else {
            return;
        };
        if file.gathering.pages.contains_key(&page) {
            return;
        }
        let slot = self.ctx.frames.take(Owner::Client(id, page));
        let slot = slot.expect("there is room for every page");
        let gathered = Gathered {
            slot,
            ranges: Ranges::default(),
            mtime_ns,
            is_offered: false,
        };
        file.gathering.pages.insert(page, gathered);
        file.gathering.since.get_or_insert(now);
        self.client.gathering.insert(id);
    }

    /// Puts the part of a write that falls into a page where it is gathered.
    fn put_gathered(&mut self, id: FileId, page: u64, offset: u64, job: &WriteJob) {
        let config = self.ctx.config;
        let base = config.page_start(page);
        let end = (offset + u64::from(job.len)).min(base + u64::from(config.page_bytes));
        let (from, to) = ((offset.max(base) - base) as u32, (end - base) as u32);
        let file = self.client.files.get_mut(&id);
        let Some(gathered) = file.and_then(|file| file.gathering.pages.get_mut(&page)) else {
            return;
        };
        self.ctx.out.push(Effect::Fill {
            frame: gathered.slot.frame,
            at: from,
            from: Piece {
                src: Src::Buf(job.buf),
                at: (base + u64::from(from) - offset) as u32,
                len: to - from,
            },
        });
        gathered.mtime_ns = job.mtime_ns;
        gathered.ranges.insert(from, to);
        let whole = gathered.ranges.covers(0, config.page_bytes);
        if whole || gathered.ranges.count() >= PIECES_MAX {
            self.scatter(id, page);
        }
    }

    /// Scatters every page of a file that is not being scattered already.
    pub(super) fn scatter_file(&mut self, id: FileId) {
        let Some(file) = self.client.files.get(&id) else {
            return;
        };
        let pages: Vec<u64> = file.gathering.pages.keys().copied().collect();
        for page in pages {
            self.scatter(id, page);
        }
    }

    /// Bytes that stay, because their page is being scattered already, are as young as new ones.
    fn count_age_anew(&mut self, id: FileId) {
        if let Some(file) = self.client.files.get_mut(&id)
            && let Some(since) = &mut file.gathering.since
        {
            *since = self.ctx.now;
        }
    }

    /// Sends what a page has gathered to its home (GATHER-2).
    fn scatter(&mut self, id: FileId, page: u64) {
        let Some(file) = self.client.files.get_mut(&id) else {
            return;
        };
        if file.gathering.scattering.contains_key(&page) {
            return;
        }
        let Some(mut gathered) = file.gathering.pages.remove(&page) else {
            return;
        };
        take_back(self.ctx, (id, page), &mut gathered);
        if self.client.offers.remove(&(id, page)) {
            self.client.wished.insert((id, page));
        }
        let rest = gathered.ranges.split_off(PIECES_MAX);
        let (slot, mtime_ns) = (gathered.slot, gathered.mtime_ns);
        let is_more = !rest.is_empty();
        if is_more {
            let ranges = rest;
            file.gathering.pages.insert(
                page,
                Gathered {
                    ranges,
                    ..gathered.clone()
                },
            );
        }
        if file.gathering.pages.is_empty() {
            file.gathering.since = None;
        }
        let (buf, ticket) = (self.ctx.new_buf(), self.ctx.new_scatter());
        file.gathering.scattering.insert(page, ticket);
        file.writes.push(ticket);
        let src = Src::Frame(slot.frame);
        let pieces = gathered.ranges.iter();
        let data = pieces.map(|(at, end)| Piece {
            src,
            at,
            len: end - at,
        });
        let data = data.collect();
        self.ctx.out.push(Effect::Stash { buf, data });
        if !is_more {
            self.ctx.frames.give_back(slot);
        }
        let start = self.ctx.config.page_start(page);
        let job = WriteJob::scatter(id, buf, (page, start), gathered.ranges, mtime_ns);
        self.client.jobs.insert(ticket, Job::Write(job));
        self.place(ticket);
    }

    /// The part that the home of a scattered page is sent, in place of the write's own.
    pub(super) fn part_of_scatter(job: &WriteJob, part: Part) -> Part {
        match &job.scattered {
            Some(scattered) => Part {
                len: scattered.ranges.bytes(),
                ..part
            },
            None => part,
        }
    }

    /// A scatter has come to its end: its home has the bytes, or will not take them.
    pub(super) fn scattered(&mut self, job: &WriteJob) {
        let Some(scattered) = &job.scattered else {
            return;
        };
        let id = job.file;
        let Some(file) = self.client.files.get_mut(&id) else {
            return;
        };
        file.gathering.scattering.remove(&scattered.page);
        if let Some(errno) = job.failed {
            let bytes = u64::from(scattered.ranges.bytes());
            self.lose_gathered(id, errno, bytes);
        }
        self.go_on_scattering(id, scattered.page);
        self.when_scattered(id);
    }

    /// Bytes that were answered for cannot be brought to their home: every handle is told once.
    fn lose_gathered(&mut self, id: FileId, errno: RawErrno, bytes: u64) {
        if self.client.files.contains_key(&id) {
            self.lose_bytes(id, errno);
            let alarm = Alarm::BytesDropped(id, bytes);
            self.ctx.out.push(Effect::Alarm(alarm));
        }
    }

    /// A page that has gathered more while it was scattered goes again, if somebody waits for it.
    fn go_on_scattering(&mut self, id: FileId, page: u64) {
        let file = self.client.files.get(&id);
        if file.is_some_and(|file| !file.gathering.waiting.is_empty()) {
            self.scatter(id, page);
        }
    }

    /// Lets go on who has waited, if nothing is gathered any more.
    fn when_scattered(&mut self, id: FileId) {
        let Some(file) = self.client.files.get_mut(&id) else {
            return;
        };
        let gathering = &mut file.gathering;
        if !gathering.pages.is_empty() || !gathering.scattering.is_empty() {
            return;
        }
        let waiting = core::mem::take(&mut gathering.waiting);
        self.client.gathering.remove(&id);
        for waiter in waiting {
            match waiter {
                Waiter::Session(ticket, request) => self.request(ticket, request),
                Waiter::Manager(to, generation, req) => {
                    self.ctx
                        .answer(to, id, generation, req, Body::ForgetOk(None));
                }
                Waiter::Close { write } => self.tell_closed(id, write),
            }
        }
    }

    /// A close of the file has to wait for what is gathered: true if it does.
    pub(super) fn close_behind_gathered(&mut self, id: FileId, write: bool) -> bool {
        let file = self.client.files.get(&id);
        let busy = file.is_some_and(|file| !file.gathering.is_idle());
        if busy {
            self.wait_for_scatters(id, Waiter::Close { write });
        }
        busy
    }

    /// The manager wants the homes to have what is gathered of a file (GATHER-3).
    pub(super) fn collect(&mut self, from: NodeId, order: (FileId, Gen, ReqId), cut: bool) {
        let (id, generation, req) = order;
        let careful = self.ctx.config.keeps(Guard::Collected);
        let file = self.client.files.get_mut(&id);
        let Some(file) = file.filter(|_| careful) else {
            return self
                .ctx
                .answer(from, id, generation, req, Body::ForgetOk(None));
        };
        if cut {
            file.gathering.held_off = Some(generation.max(file.generation));
        }
        self.wait_for_scatters(id, Waiter::Manager(from, generation, req));
    }

    /// Gathered bytes have nowhere to go any more.
    pub(super) fn drop_gathered(&mut self, id: FileId, lost: Option<RawErrno>) {
        let Some(file) = self.client.files.get_mut(&id) else {
            return;
        };
        let pages = core::mem::take(&mut file.gathering.pages);
        file.gathering.since = None;
        let bytes: u64 = pages
            .values()
            .map(|page| u64::from(page.ranges.bytes()))
            .sum();
        for (page, mut gathered) in pages {
            take_back(self.ctx, (id, page), &mut gathered);
            self.client.offers.remove(&(id, page));
            self.ctx.frames.give_back(gathered.slot);
        }
        if let (Some(errno), true) = (lost, bytes > 0) {
            self.lose_gathered(id, errno, bytes);
        }
        self.when_scattered(id);
    }

    /// The buffer of a scatter that ends without a home.
    pub(super) fn abandon_scatter(&mut self, mut job: WriteJob) {
        let buf: Buf = job.buf;
        self.ctx.out.push(Effect::Free(buf));
        job.failed = Some(errno::EIO);
        self.scattered(&job);
    }
}
