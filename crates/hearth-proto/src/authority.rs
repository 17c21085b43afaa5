//! The home's side: one machine per file for the pages whose home this node is.
//!
//! The home serves its pages, remembers who holds copies, gathers writes as byte ranges and brings
//! them to the store later. A request that cannot be granted yet waits in `waiting`, in order of
//! arrival, and is tried again after every change; the home itself never blocks.
//!
//! ```text
//!            Read                      Write
//!   absent ───────▶ filling ─▶ clean ◀──────── dirty ──▶ flushing
//!                                │  Write        ▲          │ store ok
//!                                ▼               │          ▼
//!                     readers told to drop ──────┘        clean
//! ```
//!
//! Invariants:
//! - A1 (I2, I3): a write is applied only after every reader of its pages, but the writer that said
//!   it dropped its copies, has acknowledged the invalidation.
//! - A2: while a write waits for acknowledgements its pages keep their old bytes. Only readers whose own
//!   acknowledgement is still out may get them, for one use. The kernel of such a node can hold the page
//!   locked until it is answered, and the acknowledgement waits for that lock.
//! - A3: at most one store write per byte range of a page is in flight.
//! - A4: bytes that nobody wrote are never written to the store.
//! - A5 (I14): dirty bytes never exceed the limit by more than one write.
//! - A6: a cut is answered when the store has all that the tier had, and what it takes away is gone there too.
//! - A7: see `offer`. A8: see `age`. A9, A10: see `replicate`. A11: see `orphan`. A12, A13: see `seal`.

mod age;
mod aside;
mod bank;
mod cut;
mod delegate;
mod fill;
mod flush;
mod gather;
mod gone;
mod hand_over;
mod held;
mod moves;
mod names;
mod offer;
mod orphan;
mod page;
mod peek;
mod pump;
mod push;
mod range;
mod read;
mod renew;
mod replicate;
mod seal;
mod through;
mod timed;
mod write;

use crate::RawErrno;
use crate::bank::BankOp;
use crate::ctx::Ctx;
use crate::effect::{Effect, Piece, Src};
use crate::frames::Slot;
use crate::guard::Guard;
use crate::ids::{Age, Buf, FileId, Gen, NodeId, ReqId, StoreOpId, Ver, View};
use crate::input::StoreOk;
use crate::msg::{Body, Cut, Envelope, Goal, Held};
use crate::nodeset::NodeSet;
use crate::ranges::Ranges;
use crate::time::{Span, Time};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use bank::{BankJob, Blocks, Debt, Going};
use flush::Sent;
use gather::Gathering;
use hand_over::{Handing, Legacies};
use offer::Offers;
pub(crate) use page::Page;
use peek::{Hints, PeekAsk, Search};
use range::{Ahead, HoldAsk, Hungry, Locks};
use replicate::Wards;
use through::Stage;
use timed::Timed;
pub(crate) use write::parts;

/// A read may wait this long behind an unfinished write before it gets the old bytes after all and
/// the write waits for one acknowledgement more. Breaks circles of locked kernel pages across homes.
const PATIENCE: Span = Span::millis(100);

/// First and longest pause between two tries to flush to a store that fails.
const RETRY_FIRST: Span = Span::millis(100);
const RETRY_LONGEST: Span = Span::secs(30);

/// All files with pages here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Authority {
    /// On the heap, so that the tree has no room for files that it does not hold.
    files: BTreeMap<FileId, Box<File>>,
    common: Common,
}

/// State that all files share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Common {
    ops: BTreeMap<StoreOpId, StoreOp>,
    /// The view ends: all goes to the store.
    settles: bool,
    /// Invalidations that are not acknowledged yet, by request number.
    acks: BTreeMap<u64, FileId>,
    clock: u64,
    /// Copies given so far; tells whether one was given after a write had come in.
    grants: u64,
    /// Files with bytes that could be sent to the store, by the time when the first are due (A8).
    dirty: BTreeSet<(Time, FileId)>,
    /// Pages with dirty bytes and no store write in flight.
    idle_pages: u32,
    /// More idle bytes than this are looked at for some that can go.
    idle_looked: u64,
    /// Bytes that store writes in flight carry.
    sent_bytes: u64,
    /// Pages of writes whose readers have not all answered.
    reserved: u32,
    /// Bytes of writes that wait for keepers.
    copying: u64,
    /// How often a keeper had no room: files that come to have keepers later have others.
    refusals: u32,
    /// Files with a request that waits for a frame or for dirty bytes to go.
    starved: BTreeSet<FileId>,
    /// One of them waits for a frame.
    lacks_frames: bool,
    /// The read that gathers its pages before all others.
    gathering: Option<Gathering>,
    /// Errno of the last store write that failed.
    errno: Option<RawErrno>,
    /// Generations at the last cut that took place here, also of files of which nothing is left:
    /// requests of earlier ones that come late must not count for what the file is now. Bounded by
    /// `idle_files_max`; the lowest numbers go.
    floors: BTreeMap<FileId, Gen>,
    /// Pages of which this node may become the home.
    legacies: Legacies,
    /// The last lives of files that nobody manages (A11). Bounded by `idle_files_max`; the lowest numbers go.
    orphans: BTreeMap<FileId, u64>,
    /// Lives of files that ended here and the manager has not heard of.
    ended: Vec<(FileId, u64)>,
    /// Questions to peers that are not answered yet, by request number.
    searches: BTreeMap<u64, (FileId, Search)>,
    /// Bounded by `idle_files_max`; the lowest numbers go.
    hints: BTreeMap<FileId, Hints>,
    /// Orders to daemons that are not answered, and how many of them are populates.
    bank: BTreeMap<BankOp, BankJob>,
    populating: u32,
    /// Pages that operations over several homes have locked here.
    locks: Locks,
    /// Writes that wait for frames; the oldest goes first.
    hungry: BTreeSet<Hungry>,
    /// Pages that nodes write by themselves.
    delegated: BTreeSet<(FileId, u64)>,
    /// Files with a read that waits behind an unfinished write, or a failed flush.
    timed: Timed,
    /// Pages that programs may write by themselves (A7).
    offers: Offers,
}

impl Common {
    fn next_ver(&mut self) -> Ver {
        self.clock += 1;
        self.ver()
    }

    fn ver(&self) -> Ver {
        Ver {
            view: View(1),
            seq: self.clock,
        }
    }
}

/// A store operation in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum StoreOp {
    /// Whole pages into their frames.
    FillPages {
        file: FileId,
        first: u64,
        count: u32,
    },
    /// The pages of one read into a buffer, for that read alone.
    FillAside {
        file: FileId,
        ask: ReadAsk,
        buf: Buf,
    },
    /// One page into a buffer, for the bytes that it lacks.
    FillGaps { file: FileId, page: u64, buf: Buf },
    /// Dirty bytes of pages.
    Write { file: FileId, sent: Vec<Sent> },
    /// Bytes of a write that is answered when the store has them.
    Through { file: FileId, ver: Ver },
    /// The end of a flush.
    Sync {
        file: FileId,
        from: NodeId,
        req: ReqId,
        /// A write waits for it, of this generation.
        write: Option<Gen>,
    },
    /// All that the tier has of a file to the store, before a cut.
    Settle { file: FileId },
}

/// One file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct File {
    generation: Gen,
    pages: BTreeMap<u64, Page>,
    /// Blocks of which a daemon may have an entry.
    entries: Blocks,
    /// Written blocks that daemons have not been given yet (POPULATE-4).
    debt: Debt,
    waiting: VecDeque<Waiting>,
    /// Pages that those of `waiting` keep from requests that come after them, as of when all were tried.
    ahead: Ahead,
    writes: Vec<PendingWrite>,
    bar: Option<Bar>,
    /// The next cut, which came while the last step of one waits for the store.
    next_bar: Option<Bar>,
    failed: Option<Failure>,
    dirty_bytes: u64,
    /// Pages with dirty bytes and no store write in flight, by the time when they are due (A8).
    ages: BTreeSet<(Time, u64)>,
    /// Pages with bytes that the store took but has not synced, and that a sync in flight covers; also some that are
    /// not here any more.
    unsynced: BTreeSet<u64>,
    syncing: BTreeSet<u64>,
    /// Store writes of its dirty bytes in flight.
    flushing: u32,
    /// The time under which `Common::dirty` lists this file.
    listed: Option<Time>,
    /// A write went through to the store since its stamp was last taken.
    unstamped: bool,
    /// The tier may have bytes that the store lacks.
    spilled: bool,
    /// Bytes of it that other nodes keep.
    wards: Wards,
    /// Nodes that have yet to hear that bytes which they wrote are lost.
    bereft: NodeSet,
    /// Nodes that wait until the store has all of it, as nobody manages it.
    orphaned: Vec<(NodeId, ReqId)>,
}

/// A request that waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Waiting {
    Read(ReadAsk),
    Write(WriteAsk),
    Flush(FlushAsk),
    Peek(PeekAsk),
    Hold(HoldAsk),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ReadAsk {
    from: NodeId,
    req: ReqId,
    first: u64,
    count: u32,
    keep: bool,
    record: bool,
    /// Pages that are not here go past the frames.
    aside: bool,
    /// Unwanted bytes of the first page and of the last, if it is for one use.
    skip: u32,
    spare: u32,
    /// Nobody else is to be asked for them.
    here: bool,
    since: Time,
    filled: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct WriteAsk {
    from: NodeId,
    req: ReqId,
    /// Generation that the writer knew; the answer repeats it, so that the manager can tell a write
    /// that a truncation overtook.
    generation: Gen,
    offset: u64,
    len: u32,
    /// The writer had no copy when it sent this.
    dropped: bool,
    /// Readers of the file are recorded.
    record: bool,
    /// The writer would write the page by itself from now on.
    alone: bool,
    /// It goes to the store past the frames, before it is answered.
    aside: bool,
    /// Copies that had been given when it came.
    grants: u64,
    data: Piece,
    /// Which bytes of its one page they are, if not all from `offset` on.
    ranges: Option<Ranges>,
    /// When it began, or came if it has one home only.
    age: Age,
    /// Number of the request that brought it, if it has several homes.
    staged: Option<u64>,
    /// A flush to the failing store was tried for it.
    tried: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FlushAsk {
    from: NodeId,
    req: ReqId,
    goal: Goal,
    /// Pages and the versions of them that must reach the store.
    need: Vec<(u64, Ver)>,
    /// Pages that others must have as well.
    copies: Vec<u64>,
    /// Pages that have been called back for it, by the number of their grants.
    recalled: Vec<(u64, Ver)>,
    /// It is a write, of this generation, that is answered when the store has it.
    write: Option<Gen>,
}

/// A write whose readers have been told and have not all answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PendingWrite {
    ask: WriteAsk,
    first: u64,
    count: u32,
    ver: Ver,
    awaiting: Vec<(NodeId, u64)>,
    stage: Stage,
    /// Entries in daemons that must be gone before the answer.
    going: Vec<Going>,
    /// Daemons that are given the new bytes before the answer.
    updating: Vec<BankOp>,
    /// Keepers that have not answered.
    copying: Vec<(NodeId, u64)>,
    /// Too few keepers took it: the store must have it before the answer.
    through: bool,
    /// The bytes that delegates wrote of its pages are void.
    voids: bool,
}

/// A cut in progress: requests wait until the manager resumes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Bar {
    cut: Cut,
    /// Generation from which requests count once the pages are gone.
    floor: Gen,
    manager: NodeId,
    req: ReqId,
    told: bool,
    answered: bool,
    resumed: bool,
    done: bool,
    result: Result<(), RawErrno>,
    awaiting: Vec<(NodeId, u64)>,
    /// Entries in daemons that must be gone; `None` while they have not been called.
    going: Option<Vec<Going>>,
    /// The state of its pages, if the file is handed over.
    handing: Handing,
}

/// The last try to flush failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Failure {
    errno: RawErrno,
    /// Tries have failed since.
    since: Time,
    retry: Time,
    pause: Span,
}

/// The outcome of a try at a waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Done,
    Wait,
}

/// One file at work, with what it needs around it.
struct Home<'a, 'c> {
    id: FileId,
    file: &'a mut File,
    common: &'a mut Common,
    ctx: &'a mut Ctx<'c>,
}

impl Authority {
    /// Handles a message to the home; `data` is its payload.
    pub(crate) fn message(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: NodeId,
        envelope: Envelope,
        data: Option<Piece>,
    ) {
        match envelope.body {
            Body::Hand { .. } => return self.handed(ctx, from, &envelope, data),
            Body::Inherit { is } => return self.inherit(ctx, &envelope, is),
            Body::Read { .. } | Body::Hold { .. } => {}
            // It may be written or cut now (HANDOVER-1).
            _ => self.common.legacies.give_up(ctx, envelope.file),
        }
        let Envelope {
            file,
            generation,
            req,
            body,
            ..
        } = envelope;
        if let Body::InvalOk | Body::Handed { .. } = body {
            return self.acknowledged(ctx, (from, req), &body);
        }
        if let Body::Kept(taken) = body {
            return self.kept(ctx, from, req, taken);
        }
        if let Body::Peeked { lens, held, .. } = &body {
            return self.peeked(ctx, from, req, (lens, *held), data);
        }
        let floor = self.common.floors.get(&file).copied().unwrap_or_default();
        let mut home = self.home(ctx, file);
        let before = home.file.generation;
        home.adopt(generation);
        let current = home.file.generation.max(floor);
        if let Body::Peek { first, count, .. } = body
            && generation < current
        {
            home.refuse_peek(&PeekAsk::of(from, req, (first, count)));
            return self.tidy(ctx, file);
        }
        let refuses = home.ctx.config.keeps(Guard::OldGenerationRefused);
        let old = generation < current && refuses;
        let asks = matches!(
            body,
            Body::Read { .. }
                | Body::Write { .. }
                | Body::Claim { .. }
                | Body::Scatter { .. }
                | Body::Stage { .. }
                | Body::Hold { .. }
        );
        if old && asks {
            home.free(from, data);
            home.ctx
                .answer(from, file, current, req, Body::OldGeneration);
            return self.tidy(ctx, file);
        }
        if home.is_orphan(generation, &body) {
            home.free(from, data);
            home.fail(from, req, crate::errno::EHOSTDOWN);
            return self.tidy(ctx, file);
        }
        let is_known = home.file.generation == before;
        home.take_and_try((from, req, generation), body, data, is_known);
        self.tidy(ctx, file);
    }

    /// A reader has dropped its copies, or an heir has taken a page or refused it.
    fn acknowledged(&mut self, ctx: &mut Ctx<'_>, (from, req): (NodeId, ReqId), body: &Body) {
        let Some(file) = self.common.acks.remove(&req.seq) else {
            return;
        };
        let mut home = self.home(ctx, file);
        if let Body::Handed { taken } = *body {
            home.handed_page(taken);
        }
        home.file.forget_ack(from, Some(req.seq));
        home.pump();
        self.tidy(ctx, file);
    }

    /// A peer has answered a question for pages.
    fn peeked(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: NodeId,
        req: ReqId,
        found: (&[u32], Held),
        data: Option<Piece>,
    ) {
        let search = self.common.searches.remove(&req.seq);
        let Some((file, search)) = search.filter(|_| req.node == ctx.me()) else {
            if let Some(Src::Buf(buf)) = data.map(|piece| piece.src) {
                ctx.out.push(Effect::Free(buf));
            }
            return;
        };
        let mut home = self.home(ctx, file);
        home.peeked(from, search, found, data);
        home.pump();
        self.tidy(ctx, file);
    }

    /// Nodes that may hold pages of a file, where each node is a home to itself.
    pub(crate) fn meet(&mut self, ctx: &Ctx<'_>, file: FileId, holders: &[u32]) {
        let hints = self.common.hints.entry(file).or_default();
        hints.meet(holders.iter().map(|&node| NodeId(node)));
        if self.common.hints.len() > ctx.config.idle_files_max {
            self.common.hints.pop_first();
        }
    }

    /// A store operation ended; false if it is not one of the authority's.
    pub(crate) fn store_done(
        &mut self,
        ctx: &mut Ctx<'_>,
        op: StoreOpId,
        result: Result<StoreOk, RawErrno>,
    ) -> bool {
        let Some(store_op) = self.common.ops.remove(&op) else {
            return false;
        };
        let id = match &store_op {
            StoreOp::FillPages { file, .. }
            | StoreOp::FillAside { file, .. }
            | StoreOp::FillGaps { file, .. }
            | StoreOp::Write { file, .. }
            | StoreOp::Through { file, .. }
            | StoreOp::Sync { file, .. }
            | StoreOp::Settle { file } => *file,
        };
        let mut home = self.home(ctx, id);
        match store_op {
            StoreOp::FillPages { first, count, .. } => home.pages_filled(first, count, result),
            StoreOp::FillAside { ask, buf, .. } => home.read_aside(&ask, buf, result),
            StoreOp::FillGaps { page, buf, .. } => home.gaps_filled(page, buf, result),
            StoreOp::Write { sent, .. } => home.written(sent, result),
            StoreOp::Through { ver, .. } => home.stored(ver, result),
            StoreOp::Sync {
                from, req, write, ..
            } => home.synced((from, req, write), result),
            StoreOp::Settle { .. } => home.settled(result),
        }
        home.pump();
        self.tidy(ctx, id);
        true
    }

    /// A page of this node's went out of the pool.
    pub(crate) fn evicted(&mut self, ctx: &mut Ctx<'_>, id: FileId, number: u64, slot: Slot) {
        self.common.take_back(ctx, id, number);
        if let Some(file) = self.files.get_mut(&id) {
            if let Some(page) = file.pages.get_mut(&number).filter(|p| p.slot == Some(slot)) {
                page.vacate();
                file.unsynced.remove(&number);
                if page.idle() {
                    file.pages.remove(&number);
                }
            }
            self.tidy(ctx, id);
        }
    }

    /// Runs what time has brought: old dirty bytes, impatient reads, tries after a failure.
    pub(crate) fn tick(&mut self, ctx: &mut Ctx<'_>) {
        for id in self.common.timed.take_due(ctx.now) {
            let mut home = self.home(ctx, id);
            home.retry_flush();
            home.pump();
            self.tidy(ctx, id);
        }
        self.flush_aged(ctx);
    }

    /// Flushes what is too much, and tries again what waited for memory.
    pub(crate) fn upkeep(&mut self, ctx: &mut Ctx<'_>) {
        self.flush_excess(ctx);
        self.recall_for_frames(ctx);
        self.common.lacks_frames = false;
        for id in core::mem::take(&mut self.common.starved) {
            let mut home = self.home(ctx, id);
            home.pump();
            self.tidy(ctx, id);
        }
    }

    /// Lives of files that have ended since this was last asked.
    pub(crate) fn take_ended(&mut self) -> Vec<(FileId, u64)> {
        core::mem::take(&mut self.common.ended)
    }

    /// Files whose bytes cannot reach the store, and why.
    pub(crate) fn failing(&self) -> impl Iterator<Item = (FileId, RawErrno)> + '_ {
        let files = self.files.iter();
        files.filter_map(|(&id, file)| Some((id, file.failed?.errno)))
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        let dirty = self.common.dirty.first().map(|&(due, _)| due);
        let timed = self.common.timed.first();
        dirty.into_iter().chain(timed).min()
    }

    pub(crate) fn files(&self) -> usize {
        self.files.len()
    }

    /// True if a request waits for a frame.
    pub(crate) fn lacks_frames(&self) -> bool {
        self.common.lacks_frames
    }

    pub(crate) fn has(&self, id: FileId) -> bool {
        self.files.contains_key(&id)
    }

    /// True while bytes of the file are dirty, or only in a tier.
    pub(crate) fn owes(&self, id: FileId) -> bool {
        let owes = |file: &File| file.dirty_bytes > 0 || file.spilled;
        self.files.get(&id).is_some_and(|file| owes(file))
    }

    pub(crate) fn assert_valid(&self, dirty_bytes: u64) {
        let sum: u64 = self.files.values().map(|f| f.dirty_bytes).sum();
        assert_eq!(sum, dirty_bytes, "FRAME-2: dirty bytes add up");
        for file in self.files.values() {
            let pages: u64 = file.pages.values().map(Page::dirty_bytes).sum();
            assert_eq!(
                pages, file.dirty_bytes,
                "FRAME-2: dirty bytes of a file add up"
            );
            let mut dirty = file.pages.values().filter(|page| page.dirty_bytes() > 0);
            assert!(
                dirty.all(|page| page.slot.is_some()),
                "FRAME-2: dirty bytes have a frame"
            );
        }
        self.assert_aged();
        self.assert_framed();
        self.assert_delegated();
    }

    fn home<'a, 'c>(&'a mut self, ctx: &'a mut Ctx<'c>, id: FileId) -> Home<'a, 'c> {
        let file = self.files.entry(id).or_default();
        Home {
            id,
            file,
            common: &mut self.common,
            ctx,
        }
    }

    fn tidy(&mut self, ctx: &mut Ctx<'_>, id: FileId) {
        if self.common.gathering.is_some_and(|g| g.is_of(id)) {
            self.home(ctx, id).end_gathering();
        }
        if self.files.get(&id).is_some_and(|file| !file.wards.idle()) {
            self.home(ctx, id).tidy_wards();
        }
        if self.files.get(&id).is_some_and(|file| file.idle()) && !self.is_settling(ctx, id) {
            self.files.remove(&id);
            self.common.timed.remove(id);
            self.common.hungry.retain(|hungry| hungry.file != id);
            ctx.out.push(Effect::Forgotten { file: id });
        }
    }
}

impl File {
    fn idle(&self) -> bool {
        self.pages.is_empty()
            && self.entries.is_empty()
            && !self.unstamped
            && !self.spilled
            && self.wards.is_over()
            && self.waiting.is_empty()
            && self.writes.is_empty()
            && self.bar.is_none()
            && self.bereft.is_empty()
            && self.orphaned.is_empty()
    }
}

impl Home<'_, '_> {
    /// Takes in a request, and tries it; `is_known` if it is of the generation that those before it are of.
    fn take_and_try(
        &mut self,
        (from, req, generation): (NodeId, ReqId, Gen),
        body: Body,
        data: Option<Piece>,
        is_known: bool,
    ) {
        let waits = self.file.waiting.len();
        // Such a request changes nothing for those that came before.
        let is_next = matches!(
            body,
            Body::Read { .. } | Body::Write { .. } | Body::Scatter { .. } | Body::Flush(_)
        );
        self.request(from, req, generation, body, data);
        match is_known && is_next {
            true => self.pump_from(waits),
            false => self.pump(),
        }
    }

    /// Takes in a request; [`Home::pump`] answers it when it can.
    fn request(
        &mut self,
        from: NodeId,
        req: ReqId,
        generation: Gen,
        body: Body,
        data: Option<Piece>,
    ) {
        self.note_user(from, &body);
        let Some((body, data)) = self.range_request(from, req, generation, body, data) else {
            return;
        };
        match (body, data) {
            (read @ Body::Read { .. }, _) => self.take_read(from, req, &read),
            (write @ Body::Write { len, .. }, Some(data)) if data.len == len && len > 0 => {
                self.take_write((from, req, generation), &write, data);
            }
            (Body::Claim { page, dropped }, _) => {
                self.take_claim((from, req, generation), page, dropped);
            }
            (returned @ Body::Return { .. }, data) => self.returned(from, &returned, data),
            (Body::PushNo { page, number }, _) => self.push_refused(from, page, number),
            (Body::Flush(goal), _) => {
                self.push_written(from, goal);
                self.asked_to_flush(from, req, goal);
            }
            (Body::Scatter { page, ranges }, Some(data))
                if self.is_scatter(page, &ranges, data) =>
            {
                self.take_scatter((from, req, generation), page, ranges, data);
            }
            (Body::Peek { first, count, held }, _) => {
                self.hinted(from, first, held);
                self.take_peek(from, req, first, count);
            }
            (Body::Apply { of }, _) => self.apply_staged(from, req, of),
            (Body::Yield { of }, _) => self.give_way(from, req, of),
            (Body::Release { of }, _) => self.release(from, of),
            (Body::Cut(cut), _) => self.begin_cut(from, req, cut),
            (Body::Resume { done }, _) => self.resume(done),
            (_, data) => {
                self.free(from, data);
                self.fail(from, req, crate::errno::EIO);
            }
        }
    }

    /// Learns a newer generation. If even the life is new, what is here belongs to a file that is
    /// gone, whose number the store has given to another.
    fn adopt(&mut self, generation: Gen) {
        let known = self.file.generation;
        self.file.generation = known.max(generation);
        let empty = self.file.pages.is_empty() && self.file.entries.is_empty();
        let empty = empty && !self.file.spilled;
        if generation.life > known.life && !empty {
            self.clear_out(Cut::Detach, cut::end_of(known.life));
        }
    }

    /// Tells readers to drop their copies, and returns whose acknowledgement to await.
    fn invalidate(
        &mut self,
        readers: impl Iterator<Item = NodeId>,
        first: u64,
        count: u32,
        ver: Ver,
    ) -> Vec<(NodeId, u64)> {
        let (id, generation) = (self.id, self.file.generation);
        readers
            .map(|reader| {
                let body = Body::Inval { first, count, ver };
                let req = self.ctx.ask(reader, id, generation, body);
                self.common.acks.insert(req.seq, id);
                (reader, req.seq)
            })
            .collect()
    }

    fn fail(&mut self, to: NodeId, req: ReqId, errno: RawErrno) {
        self.ctx
            .answer(to, self.id, self.file.generation, req, Body::Failed(errno));
    }

    /// Frees a payload that came from another node; this node's own writes free their buffers.
    fn free(&mut self, from: NodeId, data: Option<Piece>) {
        if let Some(Piece {
            src: Src::Buf(buf), ..
        }) = data
            && from != self.ctx.me()
        {
            self.ctx.out.push(Effect::Free(buf));
        }
    }

    /// Wants to be tried again at `at`.
    fn wake_at(&mut self, at: Time) {
        self.common.timed.wake(self.id, at);
    }
}
