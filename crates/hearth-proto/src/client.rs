//! The using side: what this node's sessions have open, the copies they read, and their requests.
//!
//! A request of a session is a *job*, named by its ticket, until it is answered. A job sends messages
//! and waits for answers; `pending` says for every message in flight which job it belongs to.
//!
//! ```text
//!           Read                Grant
//!   none ─────────▶ wanted ────────────▶ copy
//!    ▲                │ Inval: poisoned    │ Inval, own write, eviction
//!    └────────────────┴────────────────────┘
//! ```
//!
//! Invariants:
//! - C1: an invalidation is always acknowledged, with or without a copy.
//! - C2 (I3): a grant that an invalidation overtook serves only the reads that were waiting when it
//!   was asked for, and installs nothing.
//! - C3: an invalidation is acknowledged only after the ways in have dropped what they keep of its
//!   pages, and no read that they may keep is on its way to them.
//! - C4 (I7): bytes that a dead home took with it are reported once per handle, at flush or sync.
//! - C5 (I3): attributes are kept only while there is leave, which no answer gives that a recall
//!   overtook, nor one about a file that this node writes.
//! - C6: see `lapse`.
//! - C9: see `date`.

mod ahead;
mod bank;
mod close;
mod date;
mod delegate;
mod file;
pub(crate) mod gather;
mod held;
mod hold;
mod idle;
mod jobs;
mod lapse;
mod leave;
mod lend;
mod linger;
mod local;
mod look;
mod lost;
mod moves;
mod once;
mod open;
mod promise;
mod push;
mod range;
mod read;
pub(crate) mod renew;
mod revoke;
mod settle;
mod size;
mod through;
mod torn;
mod unheard;
mod waits;
mod write;
mod written;

use crate::authority::Authority;
use crate::bank::BankOp;
use crate::bank::lease::Leases;
use crate::config::{Config, Replicas, Writes};
use crate::ctx::Ctx;
use crate::effect::{Effect, Piece, Reply, Src};
use crate::errno;
use crate::frames::{Frames, Slot};
use crate::ids::{Buf, FileId, Gen, Handle, NodeId, RevokeId, Stamp, StoreOpId, Ticket};
use crate::input::{OpenRequest, Request, Rest, StoreOk};
use crate::msg::{Body, Envelope};
use crate::time::Time;
use crate::{RawErrno, placement};
use ahead::Ahead;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use close::FlushJob;
use delegate::OwnedPages;
use file::{File, home_of};
use jobs::{InFlight, Jobs};
use lapse::Lapse;
use leave::LeaveJob;
use linger::Lingering;
use range::Locked;
use read::ReadJob;
use revoke::{Revocation, Tell};
use through::Passage;
use unheard::Unheard;
use write::{Window, WriteJob};

/// Every file that sessions of this node use or have used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    /// On the heap, so that the tree has no room for files that it does not hold.
    files: BTreeMap<FileId, Box<File>>,
    handles: BTreeMap<Handle, Opened>,
    jobs: Jobs,
    pending: InFlight,
    revocations: BTreeMap<RevokeId, Revocation>,
    truncations: BTreeMap<StoreOpId, Ticket>,
    /// Writes that are on their way to the store within a window.
    passages: BTreeMap<StoreOpId, Passage>,
    lost: lost::Losses,
    unheard: Unheard,
    /// Files that are left to the store, of which the manager in a new view has yet to hear.
    telling_left: BTreeSet<FileId>,
    windows: BTreeMap<NodeId, Window>,
    /// Files of which something is gathered or on its way.
    gathering: BTreeSet<FileId>,
    /// Gathered pages that are offered to programs.
    offers: BTreeSet<(FileId, u64)>,
    /// Gathered pages of which it is looked at, at the end of the step, whether they are to be.
    wished: BTreeSet<(FileId, u64)>,
    /// Files whose attributes ways in may keep, and who gave leave.
    kept: BTreeMap<FileId, NodeId>,
    /// Managers that registrars have named, of files that may be asked for next.
    managers: BTreeMap<FileId, NodeId>,
    /// The last file that was looked at for one to forget.
    looked_at: FileId,
    /// Files whose managers are back and do not know of this node's handles yet.
    lapses: BTreeMap<FileId, Lapse>,
    /// Questions that waited for files to lapse.
    lapsed: Vec<(NodeId, Envelope)>,
    /// Requests that waited for a lapse and do no more, in order. Empty between steps.
    resumed: VecDeque<(Ticket, Request)>,
    /// Changes of attributes that managers have let through, which have to be told when they are over.
    changing: BTreeMap<FileId, Vec<NodeId>>,
    /// The node that let the last name of a file go, until it is told what became of that.
    unlinking: BTreeMap<FileId, NodeId>,
    /// The leave of gateways to ask daemons, and the questions that were asked.
    leases: Leases,
    gets: BTreeMap<BankOp, bank::Get>,
    /// Questions to daemons about attributes.
    looks: BTreeMap<BankOp, look::Look>,
    /// Locks that homes have for this node, or are to have, by number of the request.
    locks: BTreeMap<u64, Locked>,
    /// Payloads that waiting reads or the message at hand still need, and by how many pages.
    lent: BTreeMap<Buf, u32>,
    /// Names of directories that are managed here, to be asked for behind one; a part in each step, and since when.
    names_later: VecDeque<(Time, Ticket, FileId, Vec<u8>)>,
    /// Writes that failed in this step with a part that homes took.
    torn: BTreeMap<Ticket, Rest>,
    /// Pages that this node writes by itself.
    owned: OwnedPages,
    /// Descriptors that stay after the close.
    lingering: Lingering,
    /// The error of the last home that would not bring to the store what this node has to have there.
    refused: Option<(FileId, RawErrno)>,
}

/// An open handle.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Opened {
    file: FileId,
    write: bool,
    /// It was written through since it was last closed, which a flush stands for.
    wrote: bool,
    /// Losses of the file that this handle has been told of.
    losses_told: u32,
    ahead: Ahead,
}

/// A request of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Job {
    Open(OpenRequest),
    Read(ReadJob),
    Write(WriteJob),
    /// Writers bring what they have gathered to the homes, before a flush or sync.
    Muster(Handle, close::Until),
    Flush(FlushJob),
    Size(FileId),
    Leave(LeaveJob),
    Change(FileId),
    Truncate {
        file: FileId,
        size: u64,
        /// The manager that has let it begin, and waits for what comes of it.
        go: Option<NodeId>,
    },
    /// One question to the manager, done when that answers.
    Question,
}

/// The purpose of a message in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    Whois,
    HomeOf(u64),
    Pages,
    /// A gateway's leave to ask daemons.
    Lease,
    /// One job's own request.
    Job(Ticket),
    /// The files of a leave that were asked for in one message.
    Leaves(Ticket),
    /// The part of a write for one home.
    Part(Ticket, u32),
    /// The part of a read that one home holds.
    Hold(Ticket, u32),
    /// The part of a flush for one home.
    Home(Ticket),
    /// A home's flush that no session waits for.
    Settled,
    /// Word of a handle to a manager that is back.
    Reopen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Pending {
    to: NodeId,
    file: FileId,
    what: What,
}

/// The client at work, with what it needs around it.
struct Desk<'a, 'c> {
    client: &'a mut Client,
    authority: &'a mut Authority,
    ctx: &'a mut Ctx<'c>,
}

impl Client {
    /// Handles a request of a session.
    pub(crate) fn request(
        &mut self,
        ctx: &mut Ctx<'_>,
        authority: &mut Authority,
        ticket: Ticket,
        request: Request,
    ) {
        Desk {
            client: self,
            authority,
            ctx,
        }
        .request(ticket, request);
    }

    /// Handles an answer, or an order of a home or manager.
    pub(crate) fn message(
        &mut self,
        ctx: &mut Ctx<'_>,
        authority: &mut Authority,
        from: NodeId,
        envelope: Envelope,
        data: Option<Piece>,
    ) {
        let mut desk = Desk {
            client: self,
            authority,
            ctx,
        };
        let payload = data.and_then(|piece| match piece.src {
            Src::Buf(buf) => Some(buf),
            Src::Frame(_) | Src::Zero => None,
        });
        // Reads that borrow the payload may end before the message is dealt with.
        payload.into_iter().for_each(|buf| desk.borrow(buf));
        match envelope.body {
            Body::Inval { first, count, ver } => {
                desk.invalidated(from, &envelope, first, count, ver)
            }
            Body::Peek { first, count, .. } => desk.lend_copies(from, &envelope, first, count),
            Body::Collect { cut } => {
                let order = (envelope.file, envelope.generation, envelope.req);
                desk.collect(from, order, cut);
            }
            Body::Recall => desk.recalled(from, &envelope),
            Body::Date => desk.asked_date(from, &envelope),
            Body::TakeBack { .. } => desk.called_back(from, &envelope),
            Body::Fetch { skip, spare, .. } => desk.fetched(from, &envelope, (skip, spare)),
            Body::Push { .. } => desk.pushed(from, &envelope, data),
            Body::Forget { size, service } => desk.forget(from, &envelope, size, service),
            Body::WindowGo { asked, offset } => desk.window_open(from, &envelope, asked, offset),
            Body::Wound { clock } => desk.wounded(envelope.req.seq, clock),
            Body::BankOver { daemon, epoch } => desk.epoch_over(from, &envelope, daemon, epoch),
            _ => desk.answered(from, envelope, data),
        }
        payload.into_iter().for_each(|buf| desk.unborrow(buf));
    }

    /// A store operation ended; false if it is not one of the client's.
    pub(crate) fn store_done(
        &mut self,
        ctx: &mut Ctx<'_>,
        authority: &mut Authority,
        op: StoreOpId,
        result: Result<StoreOk, RawErrno>,
    ) -> bool {
        let (truncation, passage) = (self.truncations.remove(&op), self.passages.remove(&op));
        let lost = self.lost.take(op);
        let mut desk = Desk {
            client: self,
            authority,
            ctx,
        };
        if let Some(lost) = lost {
            desk.lost_read(op, &lost, result);
            return true;
        }
        let stamped = desk.client.stamped(op);
        match (truncation, passage, stamped) {
            (Some(ticket), _, _) => desk.truncated_in_store(ticket, result.map(|ok| ok.stamp)),
            (None, Some(passage), _) => desk.passed(passage, result),
            (None, None, Some(id)) => desk.open_anew(id, result),
            (None, None, None) => return false,
        }
        true
    }

    /// The ways in have dropped what they keep.
    pub(crate) fn revoked(&mut self, ctx: &mut Ctx<'_>, authority: &mut Authority, id: RevokeId) {
        Desk {
            client: self,
            authority,
            ctx,
        }
        .revoked(id);
    }

    /// A copy went out of the pool.
    pub(crate) fn evicted(
        &mut self,
        ctx: &mut Ctx<'_>,
        authority: &mut Authority,
        (id, page): (FileId, u64),
        slot: Slot,
    ) {
        if let Some(file) = self.files.get_mut(&id)
            && file.copies.get(&page).is_some_and(|copy| copy.slot == slot)
        {
            let copy = file.copies.remove(&page);
            // A page that was pushed and had to go unread would be pushed again for nothing.
            if copy.is_some_and(|copy| copy.pushed) {
                file.unread.insert(page);
            }
        }
        let mut desk = Desk {
            client: self,
            authority,
            ctx,
        };
        desk.own_evicted(id, page, slot);
    }

    /// This node's copy of a page.
    pub(crate) fn copy_of(&self, frames: &Frames, id: FileId, page: u64) -> Option<(Slot, u32)> {
        let copy = self.files.get(&id)?.copies.get(&page)?;
        frames.valid(copy.slot).then_some((copy.slot, copy.extent))
    }

    /// True if this node is the page's home, as far as it knows, and the file is served by homes.
    pub(crate) fn is_home(&self, config: &Config, id: FileId, page: u64) -> bool {
        self.files.get(&id).is_some_and(|file| {
            !file.bypass && !file.orphan && home_of(config, id, file, page) == Some(config.me)
        })
    }

    /// A peer is gone: what it granted is void, what it managed is served from the store.
    pub(crate) fn peer_down(&mut self, ctx: &mut Ctx<'_>, authority: &mut Authority, peer: NodeId) {
        let mut desk = Desk {
            client: self,
            authority,
            ctx,
        };
        let ids: Vec<FileId> = desk.client.files.keys().copied().collect();
        for id in ids {
            desk.lose(id, peer);
        }
        desk.drop_leaves_of(peer);
        desk.lose_locks(peer);
        desk.drop_window(peer);
        desk.client.leases.forget(peer);
        desk.client.forget_asker(peer);
    }

    /// Forgets files that nobody uses, above the bound.
    pub(crate) fn upkeep(&mut self, ctx: &mut Ctx<'_>, authority: &mut Authority) {
        if self.files.len() > ctx.config.idle_files_max {
            Desk {
                client: self,
                authority,
                ctx,
            }
            .forget_idle();
        }
        self.end_lingering(ctx, authority);
    }

    pub(crate) fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// The file that a request is about, if it is about one and has to do with its bytes.
    pub(crate) fn file_of(&self, request: &Request) -> Option<FileId> {
        match request {
            Request::Open(open) => Some(open.file),
            Request::Read { handle, .. }
            | Request::Write { handle, .. }
            | Request::Finish { handle, .. }
            | Request::Flush(handle)
            | Request::Sync(handle)
            | Request::Exchange(handle) => self.handles.get(handle).map(|opened| opened.file),
            Request::Size { file, .. }
            | Request::Truncate { file, .. }
            | Request::Detach(file)
            | Request::Settle(file)
            | Request::Laminate { file, .. }
            | Request::HandOver { file, .. }
            | Request::Restamp { file, .. }
            | Request::Mapped(file)
            | Request::Change(file)
            | Request::Changed { file, .. } => Some(*file),
            // A handle is closed at once; its manager hears of it when it may. A node that let a name go
            // waits for what became of it, and others wait for that.
            Request::Close(_)
            | Request::Detached { .. }
            | Request::Leave(_)
            | Request::Locate(_)
            | Request::Learned(_)
            | Request::Await(_)
            | Request::Names(_)
            | Request::Listed { .. }
            | Request::FlushAll => None,
        }
    }

    /// A request that was not begun fails.
    pub(crate) fn refuse(
        &self,
        ctx: &mut Ctx<'_>,
        ticket: Ticket,
        request: &Request,
        errno: RawErrno,
    ) {
        if let Request::Write { buf, .. } | Request::Finish { buf, .. } = request {
            ctx.out.push(Effect::Free(*buf));
        }
        let reply = Reply::Failed(errno);
        ctx.out.push(Effect::Reply { ticket, reply });
    }

    /// The generation that this node knows of a file.
    pub(crate) fn generation(&self, id: FileId) -> Gen {
        self.files
            .get(&id)
            .map_or_else(Gen::default, |file| file.generation)
    }

    pub(crate) fn files(&self) -> usize {
        self.files.len()
    }
}

impl Desk<'_, '_> {
    fn request(&mut self, ticket: Ticket, request: Request) {
        if let Some((ticket, request)) = self.behind_lapse(ticket, request) {
            self.begin(ticket, request);
        }
    }

    fn begin(&mut self, ticket: Ticket, request: Request) {
        let Some(request) = self.behind_gathered(ticket, request) else {
            return;
        };
        match request {
            Request::Open(open) => self.open(ticket, open),
            Request::Close(handle) => self.close(handle),
            Request::Read {
                handle,
                offset,
                len,
                keep,
                aside,
            } => self.read(ticket, handle, (offset, len), (keep, aside)),
            Request::Write {
                handle,
                at,
                buf,
                len,
                mtime_ns,
                aside,
            } => {
                let mut job = WriteJob::new(handle, at, buf, len, mtime_ns);
                job.aside = aside;
                self.write(ticket, job);
            }
            finish @ Request::Finish { .. } => self.finish_write(ticket, finish),
            Request::Flush(handle) => self.flush(ticket, handle, close::Until::Flushed),
            Request::Sync(handle) => self.flush(ticket, handle, close::Until::Synced),
            Request::Exchange(handle) => self.exchange(ticket, handle),
            Request::Size { file, ask } => self.size(ticket, file, ask),
            Request::Truncate { file, size } => self.truncate(ticket, file, size),
            Request::Detach(file) => self.simple(ticket, file, Job::Question, Body::Detach),
            Request::Detached { file, gone } => self.detached(file, gone),
            Request::Settle(file) => {
                let body = Body::Settle { store: true };
                self.simple(ticket, file, Job::Question, body);
            }
            Request::Laminate { file, stamp } => {
                self.simple(ticket, file, Job::Question, Body::Laminate(stamp));
            }
            Request::HandOver { file, heir } => {
                self.simple(ticket, file, Job::Question, Body::HandOver(heir));
            }
            Request::Restamp {
                file,
                before,
                after,
            } => self.restamp(file, before, after),
            Request::Mapped(file) => self.mapped(file),
            Request::Leave(files) => self.leave(ticket, files),
            Request::Await(files) => self.await_leave(ticket, files),
            Request::Names(dir) => self.ask_names(ticket, dir),
            Request::Listed {
                dir,
                number,
                first,
                names,
                more,
            } => self.tell_listed((dir, number), (first, more), names),
            Request::Locate(files) => self.locate(ticket, files),
            Request::Learned(learned) => self.tell_learned(&learned),
            Request::Change(file) => self.simple(ticket, file, Job::Change(file), Body::Change),
            Request::Changed { file, ctime_ns } => self.changed(file, ctime_ns),
            // The node hands it to both sides.
            Request::FlushAll => {}
        }
    }

    /// A change that this node made to a file has changed the file's stamp.
    fn restamp(&mut self, file: FileId, before: Stamp, after: Stamp) {
        let Some(known) = self.client.files.get_mut(&file) else {
            return;
        };
        if after.sets_time(&before) {
            known.date.stored();
        }
        if known.manager.is_some() {
            self.ask_manager(file, Body::Restamp { before, after }, What::Whois);
        }
    }

    /// A job that is one question to the manager.
    fn simple(&mut self, ticket: Ticket, file: FileId, job: Job, body: Body) {
        if self.ctx.config.is_uncached() {
            return self.reply(ticket, Reply::Done);
        }
        self.client.jobs.insert(ticket, job);
        self.ask_manager(file, body, What::Job(ticket));
    }

    /// Routes an answer to the job that waits for it.
    fn answered(&mut self, from: NodeId, envelope: Envelope, data: Option<Piece>) {
        let Some(Pending { file, what, .. }) = self.client.pending.remove(envelope.req.seq) else {
            return;
        };
        if let Body::OldGeneration = envelope.body {
            self.learn(file, envelope.generation);
        }
        match what {
            What::Reopen => self.opened_anew(file, Some(&envelope)),
            What::Settled => self.settled(file, from, &envelope.body),
            What::Whois => self.manager_known(file, &envelope.body),
            What::HomeOf(chunk) => self.home_known(file, chunk, &envelope.body),
            What::Lease => self.lease_answered(from, &envelope.body),
            What::Pages => self.pages_answered(file, from, envelope, data),
            What::Hold(ticket, run) => self.hold_answered(ticket, run, from, &envelope, data),
            What::Part(ticket, part) => self.part_answered(ticket, part, from, &envelope),
            What::Leaves(ticket) => self.leaves_answered(ticket, from, envelope),
            What::Home(ticket) => self.flush_answered(ticket, file, from, &envelope.body),
            What::Job(ticket) => {
                if let Body::ChangeGo = envelope.body {
                    self.client.changing.entry(file).or_default().push(from);
                }
                if let Body::DetachGo = envelope.body {
                    self.client.unlinking.insert(file, from);
                }
                if let (Body::TruncateGo, Some(Job::Truncate { go, .. })) =
                    (&envelope.body, self.client.jobs.get_mut(&ticket))
                {
                    *go = Some(from);
                }
                self.job_answered(ticket, file, envelope);
            }
        }
    }

    fn job_answered(&mut self, ticket: Ticket, file: FileId, envelope: Envelope) {
        match self.client.jobs.get(&ticket) {
            Some(Job::Open(open)) => self.open_answered(ticket, *open, &envelope),
            Some(Job::Read(_)) => self.read_sized(ticket, &envelope.body),
            Some(Job::Write(_)) => self.write_placed(ticket, &envelope),
            Some(Job::Size(_)) => self.size_answered(ticket, &envelope.body),
            Some(Job::Truncate { size, .. }) => {
                self.truncate_answered(ticket, file, *size, &envelope)
            }
            Some(Job::Change(_)) => self.change_answered(ticket, file, &envelope.body),
            Some(Job::Question) => {
                let reply = match envelope.body {
                    Body::Failed(errno) => Reply::Failed(errno),
                    _ => Reply::Done,
                };
                self.finish(ticket, reply);
            }
            Some(&Job::Muster(handle, until)) => self.flush_homes(ticket, handle, until),
            Some(Job::Flush(_) | Job::Leave(_)) | None => {}
        }
    }

    /// Sends a request to the file's manager, asking first who that is.
    fn ask_manager(&mut self, id: FileId, body: Body, what: What) {
        let file = self.client.files.entry(id).or_default();
        let Some(manager) = file.manager else {
            if let Some(manager) = self.instead_of_registrar(id) {
                return self.found_manager(id, manager, alloc::vec![(body, what)]);
            }
            let file = self.client.files.entry(id).or_default();
            file.parked.push((body, what));
            if file.parked.len() == 1 {
                let registrar = placement::registrar_of(self.ctx.config, id);
                self.ask(registrar, id, Body::Whois, What::Whois, Vec::new());
            }
            return;
        };
        self.ask(manager, id, body, what, Vec::new());
    }

    fn manager_known(&mut self, id: FileId, body: &Body) {
        let Some(file) = self.client.files.get_mut(&id) else {
            return;
        };
        let parked = core::mem::take(&mut file.parked);
        let told = match body {
            Body::WhoisOk(manager) => Some(*manager),
            _ => self.instead_of_registrar(id),
        };
        match told {
            Some(manager) => self.found_manager(id, manager, parked),
            None => {
                for (_, what) in parked {
                    match what {
                        What::Job(ticket) => self.without_manager(ticket),
                        What::Reopen => self.opened_anew(id, None),
                        What::HomeOf(chunk) => self.home_known(id, chunk, body),
                        _ => {}
                    }
                }
            }
        }
    }

    /// The registrar is gone; others may have said who manages the file.
    fn instead_of_registrar(&self, id: FileId) -> Option<NodeId> {
        let registrar = placement::registrar_of(self.ctx.config, id);
        let gone = self.ctx.peers.is_down(registrar);
        let known = self.client.managers.get(&id).copied();
        known.filter(|_| gone && self.ctx.config.has_replicas())
    }

    fn found_manager(&mut self, id: FileId, manager: NodeId, parked: Vec<(Body, What)>) {
        let file = self.client.files.entry(id).or_default();
        file.manager = Some(manager);
        for (body, what) in parked {
            self.ask(manager, id, body, what, Vec::new());
        }
    }

    /// Nobody can be asked: what only reads is done on the store, all else fails.
    fn without_manager(&mut self, ticket: Ticket) {
        match self.client.jobs.get(&ticket) {
            Some(Job::Open(open)) => {
                let open = *open;
                self.open_without_manager(ticket, open);
            }
            Some(Job::Read(_)) => self.direct(ticket),
            Some(Job::Size(_)) => {
                self.finish(
                    ticket,
                    Reply::Size {
                        size: None,
                        mtime_ns: None,
                        keep: false,
                    },
                );
            }
            Some(&Job::Change(file)) => self.change_untold(ticket, file),
            Some(&Job::Muster(handle, until)) => self.flush_homes(ticket, handle, until),
            Some(Job::Write(_)) => self.fail_write(ticket, errno::EHOSTDOWN),
            Some(_) | None => self.finish(ticket, Reply::Failed(errno::EHOSTDOWN)),
        }
    }

    /// Sends a request and remembers what it is for.
    fn ask(&mut self, to: NodeId, id: FileId, body: Body, what: What, data: Vec<Piece>) -> u64 {
        let known = self.client.files.get(&id).map(|f| f.generation);
        self.ask_in(known.unwrap_or_default(), to, id, body, what, data)
    }

    /// Sends a request as of a generation that need not be the one known now.
    fn ask_in(
        &mut self,
        generation: Gen,
        to: NodeId,
        id: FileId,
        body: Body,
        what: What,
        data: Vec<Piece>,
    ) -> u64 {
        let silent = matches!(
            body,
            Body::Close { .. }
                | Body::Restamp { .. }
                | Body::Changed(_)
                | Body::Detached(_)
                | Body::Learned(_)
                | Body::Listed(_)
        );
        let req = self.ctx.ask_with(to, id, generation, body, data);
        if !silent {
            self.client
                .pending
                .insert(req.seq, Pending { to, file: id, what });
        }
        req.seq
    }

    /// A payload is needed once more.
    fn borrow(&mut self, buf: Buf) {
        *self.client.lent.entry(buf).or_default() += 1;
    }

    /// A payload is needed once less; the last one frees it.
    fn unborrow(&mut self, buf: Buf) {
        if let Some(lent) = self.client.lent.get_mut(&buf) {
            *lent -= 1;
            if *lent == 0 {
                self.client.lent.remove(&buf);
                self.ctx.out.push(Effect::Free(buf));
            }
        }
    }

    /// Ends a job with an answer.
    fn finish(&mut self, ticket: Ticket, reply: Reply) {
        self.client.jobs.remove(&ticket);
        self.reply(ticket, reply);
    }

    fn reply(&mut self, ticket: Ticket, reply: Reply) {
        self.ctx.out.push(Effect::Reply { ticket, reply });
    }

    /// A peer is gone: forgets what it granted of a file, and what depended on it.
    fn lose(&mut self, id: FileId, peer: NodeId) {
        self.reopen_lost(id);
        self.lose_own(id, Some(peer));
        let Some(file) = self.client.files.get_mut(&id) else {
            return;
        };
        let behind = self.ctx.config.rules().writes == Writes::Behind;
        // If others have the bytes, nothing is lost.
        let behind = behind && !matches!(self.ctx.config.replicas_rule(), Replicas::Sync(_));
        let unsaved = file.wrote.remove(peer) || file.flushing.contains(&peer);
        file.sealed.remove(peer);
        if unsaved && behind {
            self.lose_with(id, peer);
        }
        let Some(file) = self.client.files.get_mut(&id) else {
            return;
        };
        let orphaned = file.manager == Some(peer);
        if orphaned {
            file.orphan = true;
            file.exact = false;
        }
        let kept = file.kept;
        let lost: Vec<u64> = file.copies_of(peer);
        for page in &lost {
            if let Some(copy) = file.copies.remove(page) {
                self.ctx.frames.give_back(copy.slot);
            }
        }
        if orphaned {
            self.give_back_file(id);
            self.scatter_file(id);
        }
        if orphaned && self.ctx.config.is_home_to_itself() {
            self.authority.sever(self.ctx, id);
        }
        if kept {
            self.revoke_quietly(id);
        }
        if idle::is_idle(self.client, id) {
            self.client.files.remove(&id);
        }
    }
}
