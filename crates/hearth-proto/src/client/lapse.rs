//! A manager that is back: what this node did without it ends, and it is told of every handle anew.
//!
//! While a file's manager is gone its readers go to the store, each by itself ([`super::open`]). The manager
//! that is back knows nothing of them, nor does one that takes its place. If there are replicas it asks all
//! nodes to let go before it does anything about the file ([`crate::rescue`]), and this node answers when the
//! file has *lapsed* here. Otherwise nobody asks: this node begins by itself when it is connected with the
//! manager again.
//!
//! 1. Ways in drop what they keep. Reads go on from the store meanwhile: a page can be locked until one is answered, and
//!    nobody can have written yet.
//! 2. Copies go, and requests wait. The question is answered.
//! 3. The manager, whoever that is now, is told how many handles are open, in one message that stands for all that it
//!    may have been told before. Then requests go on; if nobody can be told, reads on the store, since another life may
//!    begin at another home.
//!
//! A write that would be refused because the manager was gone begins the same, if that is back.
//!
//! Invariants:
//! - C6 (I3): since a manager that is back asked for it, or was met again, nothing of the file was read or written here
//!   before it knew of the handles.
//! - C7: a manager counts a handle once, and no longer than it is open. It hears of a handle that was closed
//!   while it was told when it has answered: a word of that would overtake an open that waits there.

use super::file::File;
use super::revoke::Tell;
use super::{Client, Desk, Job, What};
use crate::authority::Authority;
use crate::config::Config;
use crate::ctx::Ctx;
use crate::effect::{Effect, Reply};
use crate::errno::ESTALE;
use crate::guard::Guard;
use crate::ids::{FileId, NodeId, StoreOpId, Ticket};
use crate::input::{Request, StoreOk};
use crate::msg::{Body, Envelope, Handles, Here};
use crate::time::Span;
use crate::{RawErrno, placement};
use alloc::vec::Vec;

/// Pause before who manages a file is asked once more than again.
const ASK_PAUSE: Span = Span::secs(1);

/// A file whose manager is back, until that knows of the handles.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lapse {
    stage: Stage,
    /// Questions that are answered when the file has lapsed.
    askers: Vec<(NodeId, Envelope)>,
    /// Requests that wait, in order.
    parked: Vec<(Ticket, Request)>,
    /// Handles that the manager was told of, and that have been closed since (C7).
    closed: Handles,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Ways in are dropping what they keep.
    LettingGo,
    /// It has lapsed, and the store would not tell its stamp. The next request has it asked again.
    Refused,
    /// The store is asked for the file's stamp, which an open tells.
    Stamping(StoreOpId),
    /// The manager has been told of the handles, and has not answered.
    Opening,
}

impl Client {
    /// A node that is back is to do something about a file. True if the file has to lapse here first, because it was or
    /// names the manager: the question comes back then ([`Client::take_lapsed`]).
    pub(crate) fn lapses(
        &mut self,
        ctx: &mut Ctx<'_>,
        authority: &mut Authority,
        from: NodeId,
        question: &Envelope,
    ) -> bool {
        let id = question.file;
        let registrar = placement::registrar_of(ctx.config, id);
        let lapses = |file: &File| {
            file.orphan && (from == registrar || file.manager.is_none_or(|known| known == from))
        };
        let lapses = self.files.get(&id).is_some_and(|file| lapses(file)) && !self.has_lapsed(id);
        if !lapses || !ctx.config.keeps(Guard::LapsedFirst) {
            return false;
        }
        let mut desk = Desk {
            client: self,
            authority,
            ctx,
        };
        let lapse = desk.begin_lapse(id);
        lapse.askers.push((from, question.clone()));
        desk.break_off(id, from);
        true
    }

    /// A node is connected again. The bytes that ways in keep of pages whose home it is came from the store,
    /// and it knows nothing of that. Without replicas it asks about no file, and of those that it manages
    /// this node would go on to read what the store has.
    pub(crate) fn met(&mut self, ctx: &mut Ctx<'_>, authority: &mut Authority, peer: NodeId) {
        let (config, lapses) = (ctx.config, !ctx.config.has_replicas());
        let is_back = |id: &FileId| {
            let file = self.files.get(id).filter(|file| file.orphan)?;
            let named = file.manager.or_else(|| self.managers.get(id).copied());
            let manager = named.unwrap_or(placement::registrar_of(config, *id));
            (lapses && manager == peer).then_some(*id)
        };
        let back: Vec<FileId> = self.files.keys().filter_map(is_back).collect();
        let all: Vec<FileId> = self.files.keys().copied().collect();
        let mut desk = Desk {
            client: self,
            authority,
            ctx,
        };
        for id in all {
            desk.revoke_quietly(id);
        }
        for id in back {
            desk.begin_lapse(id);
        }
    }

    /// The word of live nodes on a file. If one manages it, its registrar may be gone. If one went to the
    /// store when the last name was gone, the manager died before it had told this one.
    pub(crate) fn remembered(
        &mut self,
        ctx: &mut Ctx<'_>,
        authority: &mut Authority,
        id: FileId,
        here: &[(NodeId, Here)],
    ) {
        let left = here.iter().any(|(_, what)| *what == Here::Left);
        if left && !self.has_left(id) && ctx.config.keeps(Guard::LeftTogether) {
            let mut desk = Desk {
                client: self,
                authority,
                ctx,
            };
            desk.leave_homes(id);
        }
        let manager = here.iter().find(|(_, what)| *what == Here::Manager);
        if let Some(&(manager, _)) = manager {
            self.remember_manager(id, manager);
        }
    }

    /// True for a file that was open here when its last name went.
    pub(crate) fn has_left(&self, id: FileId) -> bool {
        self.files.get(&id).is_some_and(|file| file.bypass)
    }

    /// Questions about files that have lapsed since this was last asked.
    pub(crate) fn take_lapsed(&mut self) -> Vec<(NodeId, Envelope)> {
        core::mem::take(&mut self.lapsed)
    }

    /// The first request that waited for a lapse and does no more.
    pub(crate) fn take_resumed(&mut self) -> Option<(Ticket, Request)> {
        self.resumed.pop_front()
    }

    pub(crate) fn has_resumed(&self) -> bool {
        !self.resumed.is_empty()
    }

    /// True while a manager has yet to be told of handles, and the store does not fail.
    pub(super) fn is_lapsing(&self) -> bool {
        let mut stages = self.lapses.values().map(|lapse| lapse.stage);
        stages.any(|stage| stage != Stage::Refused)
    }

    /// True from when a file has lapsed until its manager knows of the handles.
    pub(super) fn has_lapsed(&self, id: FileId) -> bool {
        let lapse = self.lapses.get(&id);
        lapse.is_some_and(|lapse| lapse.stage != Stage::LettingGo)
    }

    /// True if the manager has yet to be told of the handles that are open.
    pub(super) fn is_unknown(&self, id: FileId) -> bool {
        let lapse = self.lapses.get(&id);
        lapse.is_some_and(|lapse| lapse.stage != Stage::Opening)
    }

    /// A handle is closed. True if its manager is being told of it, and hears of the close later (C7).
    pub(super) fn is_closed_later(&mut self, config: &Config, id: FileId, write: bool) -> bool {
        let lapse = self.lapses.get_mut(&id);
        let lapse = lapse.filter(|lapse| lapse.stage == Stage::Opening);
        let told = lapse.filter(|_| config.keeps(Guard::ClosedLater));
        told.map(|lapse| lapse.closed.add(write)).is_some()
    }

    /// A node that is gone waits for no answer.
    pub(super) fn forget_asker(&mut self, peer: NodeId) {
        for lapse in self.lapses.values_mut() {
            lapse.askers.retain(|(from, _)| *from != peer);
        }
    }

    /// The store's stamp came, if a lapse has asked for it.
    pub(super) fn stamped(&self, op: StoreOpId) -> Option<FileId> {
        let asked = |lapse: &Lapse| lapse.stage == Stage::Stamping(op);
        let mut lapses = self.lapses.iter().filter(|(_, lapse)| asked(lapse));
        lapses.next().map(|(&id, _)| id)
    }
}

impl Desk<'_, '_> {
    /// True for a read or write of a file that has lapsed: where it goes on the manager has yet to say.
    pub(super) fn awaits_opening(&self, ticket: Ticket) -> bool {
        match self.client.jobs.get(&ticket) {
            Some(Job::Read(job)) => self.client.has_lapsed(job.file),
            Some(Job::Write(job)) => self.client.has_lapsed(job.file),
            Some(_) | None => false,
        }
    }

    /// A read is done on the store from the start.
    pub(super) fn read_at_store(&mut self, ticket: Ticket, id: FileId, keep: bool) {
        if keep {
            self.kept_while_revoking(id, 0, u32::MAX);
        }
        self.direct(ticket);
    }

    /// A way in may keep what a read is given from the store: a revocation that is under way must run once more.
    pub(super) fn kept_from_store(&mut self, ticket: Ticket) {
        if let Some(Job::Read(job)) = self.client.jobs.get(&ticket)
            && job.keep
        {
            let id = job.file;
            self.kept_while_revoking(id, 0, u32::MAX);
            self.strays(id);
        }
    }

    pub(super) fn begin_lapse(&mut self, id: FileId) -> &mut Lapse {
        if !self.client.lapses.contains_key(&id) {
            // Whatever is noted of it: reads that went to the store are noted nowhere.
            self.revoke(id, Some((0, u32::MAX)), Tell::Lapse);
        }
        self.client.lapses.entry(id).or_insert(Lapse {
            stage: Stage::LettingGo,
            askers: Vec::new(),
            parked: Vec::new(),
            closed: Handles::default(),
        })
    }

    /// Hands a request back unless it waits for a lapse, or begins one.
    pub(super) fn behind_lapse(
        &mut self,
        ticket: Ticket,
        request: Request,
    ) -> Option<(Ticket, Request)> {
        let Some(id) = self.client.file_of(&request) else {
            return Some((ticket, request));
        };
        let waits = self.client.has_lapsed(id) || (needs_manager(&request) && self.is_back(id));
        if !waits {
            return Some((ticket, request));
        }
        let lapse = self.begin_lapse(id);
        lapse.parked.push((ticket, request));
        if lapse.stage == Stage::Refused {
            self.ask_stamp(id);
        }
        None
    }

    /// Reads that wait for a home which is back and asks: it puts them aside until it is answered, and the answer waits
    /// for pages that they hold locked. They are done on the store, which has what the home had.
    fn break_off(&mut self, id: FileId, home: NodeId) {
        let Some(file) = self.client.files.get(&id) else {
            return;
        };
        let sent = |seq: &u64| self.client.pending.get(seq).is_some_and(|to| to.to == home);
        let wanted = file.wants.iter().filter(|(_, want)| sent(&want.seq));
        let pages: Vec<u64> = wanted.map(|(&page, _)| page).collect();
        for page in pages {
            if let Some(file) = self.client.files.get_mut(&id) {
                file.wants.remove(&page);
            }
            for ticket in self.readers_of(id, page, 1) {
                self.direct(ticket);
            }
        }
        self.go_on_revoking(id);
    }

    /// True while this node owes a home that is back an answer about the file.
    pub(super) fn owes_answer(&self, id: FileId, home: NodeId) -> bool {
        let lapse = self.client.lapses.get(&id);
        lapse.is_some_and(|lapse| lapse.askers.iter().any(|(from, _)| *from == home))
    }

    /// The manager of a file was gone, and is not any more as far as this node knows.
    fn is_back(&self, id: FileId) -> bool {
        let Some(file) = self.client.files.get(&id).filter(|file| file.orphan) else {
            return false;
        };
        let registrar = placement::registrar_of(self.ctx.config, id);
        let asked = file.manager.unwrap_or(registrar);
        let tried = file.again.is_some_and(|at| self.ctx.now < at);
        self.ctx.config.has_replicas() && !self.ctx.peers.is_down(asked) && !tried
    }

    /// A manager that was gone could not be asked. True if it is back since: who manages the file is to be asked again;
    /// but not for ever, if that knows of no registrar and refuses.
    pub(super) fn may_ask_again(&mut self, id: FileId) -> bool {
        let file = self.client.files.get(&id);
        let manager = file.and_then(|file| file.manager);
        let known = manager.or_else(|| self.client.managers.get(&id).copied());
        let asked = known.unwrap_or(placement::registrar_of(self.ctx.config, id));
        let keeps = self.ctx.config.keeps(Guard::LapsedFirst);
        let again = self.ctx.config.has_replicas() && !self.ctx.peers.is_down(asked) && keeps;
        let Some(file) = self.client.files.get_mut(&id) else {
            return again;
        };
        let refused = core::mem::take(&mut file.refused);
        if !file.parked.is_empty() {
            // It is being asked already.
            return again;
        }
        let tried = refused && file.again.is_some_and(|at| self.ctx.now < at);
        let again = again && !tried;
        if again {
            file.manager = None;
        }
        if again && refused {
            file.again = Some(self.ctx.now + ASK_PAUSE);
        }
        again
    }

    /// Ways in keep nothing of the file any more: it lapses.
    pub(super) fn lapse(&mut self, id: FileId) {
        self.drop_copies(id);
        let Some(file) = self.client.files.get_mut(&id) else {
            return self.end_lapse(id, true);
        };
        (file.orphan, file.exact, file.manager) = (false, false, None);
        file.date.tell_anew();
        file.lapsed = self.ctx.config.keeps(Guard::LifeAdopted);
        file.chunk_homes.clear();
        for ticket in &file.reads {
            if let Some(Job::Read(job)) = self.client.jobs.get_mut(ticket) {
                // The manager that it may have asked is gone.
                job.asked_size &= job.size.is_some();
            }
        }
        if file.handles == 0 {
            return self.end_lapse(id, true);
        }
        if let Some(lapse) = self.client.lapses.get_mut(&id) {
            self.client.lapsed.append(&mut lapse.askers);
        }
        self.ask_stamp(id);
    }

    fn ask_stamp(&mut self, file: FileId) {
        let (op, sync) = (self.ctx.new_op(), None);
        if let Some(lapse) = self.client.lapses.get_mut(&file) {
            lapse.stage = Stage::Stamping(op);
        }
        self.ctx.out.push(Effect::StoreSync { op, file, sync });
    }

    /// The store fails: what waits fails with its error.
    fn stamp_refused(&mut self, id: FileId, errno: RawErrno) {
        let Some(lapse) = self.client.lapses.get_mut(&id) else {
            return;
        };
        lapse.stage = Stage::Refused;
        let silent = |(_, request): &(Ticket, Request)| !request.is_answered();
        let parked = core::mem::take(&mut lapse.parked);
        let (silent, parked): (Vec<_>, Vec<_>) = parked.into_iter().partition(silent);
        lapse.parked = silent;
        for (ticket, request) in parked {
            self.client.refuse(self.ctx, ticket, &request, errno);
        }
        let file = self.client.files.get(&id);
        let (reads, writes) = file.map_or_else(Default::default, |file| {
            (file.reads.clone(), file.writes.clone())
        });
        for ticket in reads {
            self.end_read(ticket);
            self.reply(ticket, Reply::Failed(errno));
        }
        for ticket in writes {
            self.fail_unplaced(ticket, errno);
        }
    }

    /// The store has told the file's stamp: the manager is told of the handles.
    pub(super) fn open_anew(&mut self, id: FileId, result: Result<StoreOk, RawErrno>) {
        let stamp = match result {
            Ok(ok) => ok.stamp,
            Err(errno) => return self.stamp_refused(id, errno),
        };
        let mut handles = Handles::default();
        let opened = self.client.handles.values();
        opened
            .filter(|opened| opened.file == id)
            .for_each(|opened| handles.add(opened.write));
        if handles.is_none() || self.is_bypassed(id) {
            return self.end_lapse(id, true);
        }
        if let Some(lapse) = self.client.lapses.get_mut(&id) {
            (lapse.stage, lapse.closed) = (Stage::Opening, Handles::default());
        }
        if let Some(file) = self.client.files.get_mut(&id) {
            file.date.stamped(&stamp);
        }
        let file = self.client.files.get(&id);
        let body = Body::Open {
            write: handles.writers > 0,
            stamp,
            private: file.is_some_and(|file| file.private),
            semantics: file.map(|file| file.semantics).unwrap_or_default(),
            all: Some(handles),
        };
        self.ask_manager(id, body, What::Reopen);
    }

    /// A node that was taken for the manager may have refused to be.
    pub(super) fn note_refusal(&mut self, id: FileId, answer: &Envelope) {
        let refused = answer.body == Body::Failed(ESTALE);
        if let Some(file) = self.client.files.get_mut(&id) {
            file.refused |= refused;
        }
    }

    /// The manager knows of the handles, or cannot be told.
    pub(super) fn opened_anew(&mut self, id: FileId, answer: Option<&Envelope>) {
        if self.client.telling_left.remove(&id) {
            return;
        }
        if let Some(answer) = answer {
            self.note_refusal(id, answer);
        }
        let left = answer.is_some_and(|answer| answer.body == Body::Left);
        if left {
            self.leave_homes(id);
        }
        let told = left || answer.is_some_and(|answer| self.learn_opened(id, answer).is_some());
        if !self.client.lapses.contains_key(&id) {
            return;
        }
        match !told && self.may_ask_again(id) {
            true => self.ask_stamp(id),
            false => self.end_lapse(id, told),
        }
    }

    /// Requests that waited go on, as the manager said or without it.
    fn end_lapse(&mut self, id: FileId, well: bool) {
        let Some(mut lapse) = self.client.lapses.remove(&id) else {
            return;
        };
        self.client.lapsed.append(&mut lapse.askers);
        if let Some(file) = self.client.files.get_mut(&id) {
            file.orphan = !well;
        }
        if well {
            let Handles { readers, writers } = lapse.closed;
            (0..readers).for_each(|_| self.say_closed(id, false));
            (0..writers).for_each(|_| self.say_closed(id, true));
        }
        self.go_on_with_reads(id);
        let file = self.client.files.get(&id);
        for ticket in file.map(|file| file.writes.clone()).unwrap_or_default() {
            self.go_on_writing(ticket);
        }
        self.client.resumed.extend(lapse.parked);
        if super::idle::is_idle(self.client, id) {
            self.client.files.remove(&id);
        }
    }
}

/// True for a request that is refused where the manager is gone.
fn needs_manager(request: &Request) -> bool {
    match request {
        Request::Open(open) => open.write,
        Request::Write { .. } | Request::Truncate { .. } => true,
        _ => false,
    }
}
