//! Leave to keep attributes: asked for many files at once, given up when the manager says so.
//!
//! A node asks a file's registrar once who manages it, for many files at once if the way in knows which it
//! will want next. Managers do not change, so the answer stays true while the manager is there.
//!
//! A writer's open calls attributes back from all nodes but its own, so that node gives up leave by
//! itself before it asks for the open (C5).

use super::revoke::Tell;
use super::{Client, Desk, Job, What};
use crate::authority::Authority;
use crate::ctx::Ctx;
use crate::effect::Reply;
use crate::errno::EHOSTDOWN;
use crate::ids::{FileId, Learned, Leave, Listed, Named, NodeId, Ticket};
use crate::manager::{fitting, round};
use crate::msg::{Body, Envelope};
use crate::placement;
use crate::time::Time;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Files whose attributes ways in of one node may keep; there is no leave for more.
const KEPT_MAX: usize = 1 << 18;

/// Managers that are remembered; beyond it one goes for each that comes.
const MANAGERS_MAX: usize = 1 << 18;

/// Stands for a message that is sent in a later step; no other has this number.
const LATER: u64 = u64::MAX;

/// The answer that a session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Seeks {
    Leave,
    /// Attributes that others read.
    Known,
    /// The names of a directory.
    Names,
    /// The nodes that could give leave.
    Managers,
}

/// The managers of files that names lead to, where their teller knew them.
pub(super) fn managers_of(names: &[Named]) -> impl Iterator<Item = (FileId, NodeId)> + '_ {
    let known = |named: &Named| Some((named.file, named.manager?));
    names.iter().filter_map(known)
}

/// A name as ways in take it.
fn plain(named: Named) -> (Vec<u8>, FileId) {
    (named.name, named.file)
}

/// Files by the node that is asked about them.
type ByNode = BTreeMap<NodeId, Vec<FileId>>;

/// Leave that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LeaveJob {
    seeks: Seeks,
    wanted: Vec<FileId>,
    told: BTreeMap<FileId, Leave>,
    /// Files of each message in flight.
    parts: BTreeMap<u64, Vec<FileId>>,
    /// Called back since.
    overtaken: BTreeSet<FileId>,
    /// Of the directory that was asked for.
    names: Option<Vec<(Vec<u8>, FileId)>>,
}

impl LeaveJob {
    /// Files, each of which is asked for.
    pub(super) fn wanted(&self) -> &[FileId] {
        &self.wanted
    }

    /// An answer about these is due.
    pub(super) fn await_part(&mut self, number: u64, files: Vec<FileId>) {
        self.parts.insert(number, files);
    }

    /// It has come.
    pub(super) fn part_over(&mut self, number: u64) {
        self.parts.remove(&number);
    }

    /// All names of the directory that was asked for.
    pub(super) fn tell_names(&mut self, names: Vec<Named>) {
        self.names = Some(names.into_iter().map(plain).collect());
    }

    /// Something was told of a file.
    pub(super) fn tell(&mut self, file: FileId, leave: Leave) {
        self.told.insert(file, leave);
    }
}

impl Client {
    /// True if a registrar has named that node the manager, as far as this node remembers.
    pub(crate) fn knows_manager(&self, id: FileId, manager: NodeId) -> bool {
        let open = self.files.get(&id).and_then(|file| file.manager);
        let heard = || {
            self.kept
                .get(&id)
                .or_else(|| self.managers.get(&id))
                .copied()
        };
        open.or_else(heard) == Some(manager)
    }

    /// When names of a directory that is managed here are due.
    pub(crate) fn names_due(&self) -> Option<Time> {
        self.names_later.front().map(|&(since, ..)| since)
    }

    /// Goes on with some of them.
    pub(crate) fn ask_names_left(&mut self, ctx: &mut Ctx<'_>, authority: &mut Authority) {
        Desk {
            client: self,
            authority,
            ctx,
        }
        .ask_names_left();
    }

    pub(super) fn remember_manager(&mut self, file: FileId, manager: NodeId) {
        self.managers.insert(file, manager);
        if self.managers.len() > MANAGERS_MAX {
            // Files that are used one after another often have numbers in order: this was used longest ago.
            let behind = round(&self.managers, file).next();
            let oldest = behind.map_or(file, |(&id, _)| id);
            self.managers.remove(&oldest);
        }
    }

    pub(super) fn remember_managers(&mut self, of: impl IntoIterator<Item = (FileId, NodeId)>) {
        for (file, manager) in of {
            self.remember_manager(file, manager);
        }
    }
}

impl Desk<'_, '_> {
    pub(super) fn leave(&mut self, ticket: Ticket, wanted: Vec<FileId>) {
        self.seek(ticket, Seeks::Leave, wanted);
    }

    /// As [`Self::leave`], of what other nodes read.
    pub(super) fn await_leave(&mut self, ticket: Ticket, wanted: Vec<FileId>) {
        self.seek(ticket, Seeks::Known, wanted);
    }

    /// Leave for a directory, and its names.
    pub(super) fn ask_names(&mut self, ticket: Ticket, dir: FileId) {
        self.seek(ticket, Seeks::Names, alloc::vec![dir]);
    }

    fn seek(&mut self, ticket: Ticket, seeks: Seeks, wanted: Vec<FileId>) {
        let fit = |id: &FileId| !self.ctx.config.is_uncached() && !self.is_unfit(*id);
        let fit: Vec<FileId> = wanted.iter().copied().filter(fit).collect();
        let (known, unknown) = self.by_whom(&fit);
        self.begin_leave(ticket, seeks, wanted);
        for (manager, files) in known {
            self.seek_of(ticket, manager, files, seeks);
        }
        for (registrar, files) in unknown {
            self.ask_leave(ticket, registrar, files.clone(), Body::WhoisEach(files));
        }
        self.end_leave(ticket);
    }

    /// Asks who manages files, of which leave will be wanted.
    pub(super) fn locate(&mut self, ticket: Ticket, files: Vec<FileId>) {
        if self.ctx.config.is_uncached() {
            return self.reply(ticket, Reply::Done);
        }
        let (_, unknown) = self.by_whom(&files);
        self.begin_leave(ticket, Seeks::Managers, files);
        for (registrar, files) in unknown {
            self.ask_leave(ticket, registrar, files.clone(), Body::WhoisEach(files));
        }
        self.end_leave(ticket);
    }

    /// A session that awaits what others read does not ask daemons: nobody reads for them.
    fn seek_of(&mut self, ticket: Ticket, manager: NodeId, files: Vec<FileId>, seeks: Seeks) {
        match seeks {
            Seeks::Leave => self.ask_attributes(ticket, manager, files),
            Seeks::Known => {
                self.ask_leave(ticket, manager, files.clone(), Body::AwaitLeave(files));
            }
            Seeks::Names => self.ask_for_names(ticket, manager, files),
            Seeks::Managers => {}
        }
    }

    fn begin_leave(&mut self, ticket: Ticket, seeks: Seeks, wanted: Vec<FileId>) {
        let job = LeaveJob {
            seeks,
            wanted,
            told: BTreeMap::new(),
            parts: BTreeMap::new(),
            overtaken: BTreeSet::new(),
            names: None,
        };
        self.client.jobs.insert(ticket, Job::Leave(job));
    }

    /// Files by their managers, and those whose manager is not known by their registrars.
    fn by_whom(&self, files: &[FileId]) -> (ByNode, ByNode) {
        let (mut known, mut unknown) = (ByNode::new(), ByNode::new());
        let client = &self.client;
        for &id in files {
            let file = client.files.get(&id).and_then(|file| file.manager);
            let heard = || client.kept.get(&id).or_else(|| client.managers.get(&id));
            let (whose, node) = match file.or_else(|| heard().copied()) {
                Some(manager) => (&mut known, manager),
                None => {
                    let registrar = placement::registrar_of(self.ctx.config, id);
                    (&mut unknown, registrar)
                }
            };
            whose.entry(node).or_default().push(id);
        }
        (known, unknown)
    }

    /// Attributes of such a file change all the time, or the store alone knows them.
    fn is_unfit(&self, id: FileId) -> bool {
        if !self.ctx.is_findable(id) {
            return true;
        }
        let file = self.client.files.get(&id);
        file.is_some_and(|file| file.bypass || file.orphan || file.writers > 0)
            || (file.is_some() && self.client.jobs.is_opened_to_write(id))
    }

    /// Asks a manager for leave for some of the files of a question.
    pub(super) fn ask_for_leave(&mut self, ticket: Ticket, manager: NodeId, files: Vec<FileId>) {
        let alone = match self.client.jobs.get(&ticket) {
            Some(Job::Leave(job)) => job.wanted.len() == 1,
            _ => false,
        };
        self.ask_leave(
            ticket,
            manager,
            files.clone(),
            Body::AskLeave { files, alone },
        );
    }

    pub(super) fn ask_leave(&mut self, ticket: Ticket, to: NodeId, files: Vec<FileId>, body: Body) {
        let first = files.first().copied().unwrap_or_default();
        let seq = self.ask(to, first, body, What::Leaves(ticket), Vec::new());
        if let Some(Job::Leave(job)) = self.client.jobs.get_mut(&ticket) {
            job.parts.insert(seq, files);
        }
    }

    pub(super) fn leaves_answered(&mut self, ticket: Ticket, from: NodeId, envelope: Envelope) {
        let Some(Job::Leave(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        let files = job.parts.remove(&envelope.req.seq).unwrap_or_default();
        match envelope.body {
            Body::WhoisEachOk(managers) => {
                let seeks = job.seeks;
                let mut by_manager = ByNode::new();
                for (file, manager) in files.into_iter().zip(managers) {
                    self.client.remember_manager(file, manager);
                    by_manager.entry(manager).or_default().push(file);
                }
                for (manager, files) in by_manager {
                    self.seek_of(ticket, manager, files, seeks);
                }
            }
            Body::Leaves(leaves) => {
                for (file, leave) in files.into_iter().zip(leaves) {
                    self.take_leave(ticket, from, file, leave);
                }
            }
            Body::Names { leave, names, more } => {
                let dir = files.first().copied().unwrap_or_default();
                self.take_leave(ticket, from, dir, leave);
                self.take_names(ticket, dir, names, more);
            }
            _ => {}
        }
        self.end_leave(ticket);
    }

    /// Takes some names, and asks for more.
    fn take_names(&mut self, ticket: Ticket, dir: FileId, names: Option<Vec<Named>>, more: bool) {
        let Some(Job::Leave(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        // Names of before a recall, or of before somebody had to read them anew, are not completed.
        let Some(Leave::Known(_)) = job.told.get(&dir) else {
            job.names = None;
            return;
        };
        let Some(names) = names else {
            job.names = None;
            return;
        };
        let last = names.last().map(|named| named.name.clone());
        let managers: Vec<(FileId, NodeId)> = managers_of(&names).collect();
        let all = job.names.get_or_insert_default();
        all.extend(names.into_iter().map(plain));
        self.client.remember_managers(managers);
        let manager = self.client.kept.get(&dir).copied();
        if let (true, Some(manager), Some(last)) = (more, manager, last) {
            if manager == self.ctx.me() {
                // It would tell all of them within this step.
                if let Some(Job::Leave(job)) = self.client.jobs.get_mut(&ticket) {
                    job.await_part(LATER, alloc::vec![dir]);
                }
                let since = self.ctx.now;
                let later = (since, ticket, dir, last);
                return self.client.names_later.push_back(later);
            }
            self.ask_more_names(ticket, (manager, dir), last);
        }
    }

    fn ask_more_names(&mut self, ticket: Ticket, (manager, dir): (NodeId, FileId), last: Vec<u8>) {
        let what = What::Leaves(ticket);
        let seq = self.ask(manager, dir, Body::AskNames(last), what, Vec::new());
        if let Some(Job::Leave(job)) = self.client.jobs.get_mut(&ticket) {
            job.parts.insert(seq, alloc::vec![dir]);
        }
    }

    /// Goes on with the names of one directory that is managed here.
    pub(super) fn ask_names_left(&mut self) {
        let Some((_, ticket, dir, last)) = self.client.names_later.pop_front() else {
            return;
        };
        if let Some(Job::Leave(job)) = self.client.jobs.get_mut(&ticket) {
            job.part_over(LATER);
            let me = self.ctx.me();
            self.ask_more_names(ticket, (me, dir), last);
        }
    }

    /// Tells the manager which names the store said, behind the first so many, in parts; there are more to come or not.
    pub(super) fn tell_listed(
        &mut self,
        (dir, number): (FileId, u64),
        (first, more): (u32, bool),
        names: Option<Vec<(Vec<u8>, FileId)>>,
    ) {
        let Some(&manager) = self.client.kept.get(&dir) else {
            return;
        };
        let whose = |file: &FileId| {
            let managed = self.client.files.get(file).and_then(|file| file.manager);
            managed.or_else(|| self.client.managers.get(file).copied())
        };
        let named = |(name, file): (Vec<u8>, FileId)| {
            let manager = whose(&file).or_else(|| self.client.kept.get(&file).copied());
            Named {
                name,
                file,
                manager,
            }
        };
        let names: Option<Vec<Named>> = names.map(|names| names.into_iter().map(named).collect());
        let mut done = 0;
        loop {
            let rest = names.as_ref().map(|names| &names[done..]);
            let now = rest.map_or(0, fitting);
            let listed = Listed {
                number,
                first: first + done as u32,
                names: rest.map(|rest| rest[..now].to_vec()),
                more: more || rest.is_some_and(|rest| now < rest.len()),
            };
            let is_last = rest.is_none_or(|rest| now == rest.len());
            self.ask(manager, dir, Body::Listed(listed), What::Whois, Vec::new());
            done += now;
            if is_last {
                return;
            }
        }
    }

    fn take_leave(&mut self, ticket: Ticket, from: NodeId, file: FileId, leave: Leave) {
        let keeps = matches!(leave, Leave::Read { .. } | Leave::Known(_));
        let unfit = keeps && (self.is_full_for(file) || self.is_unfit(file));
        let Some(Job::Leave(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        if unfit || job.overtaken.contains(&file) {
            return self.decline(from, file, leave);
        }
        job.told.insert(file, leave);
        if keeps {
            self.client.kept.insert(file, from);
        }
    }

    /// True if ways in may keep nothing of a file, as they keep too many.
    fn is_full_for(&self, file: FileId) -> bool {
        self.client.kept.len() >= KEPT_MAX && !self.client.kept.contains_key(&file)
    }

    /// A size is about to be told that ways in may keep, as the manager calls it back. True if they may.
    pub(super) fn keep_size(&mut self, id: FileId) -> bool {
        let manager = self.known_manager(id).filter(|_| !self.is_full_for(id));
        let kept = manager.map(|manager| self.client.kept.insert(id, manager));
        kept.is_some()
    }

    /// Others must not wait for what nobody will read.
    fn decline(&mut self, manager: NodeId, file: FileId, leave: Leave) {
        if let Leave::Read { number, .. } = leave {
            let attributes = None;
            let one = Learned {
                file,
                number,
                attributes,
            };
            let body = Body::Learned(alloc::vec![one]);
            self.ask(manager, file, body, What::Whois, Vec::new());
        }
    }

    pub(super) fn end_leave(&mut self, ticket: Ticket) {
        match self.client.jobs.get(&ticket) {
            Some(Job::Leave(job)) if job.parts.is_empty() => {}
            _ => return,
        }
        let Some(Job::Leave(mut job)) = self.client.jobs.remove(&ticket) else {
            return;
        };
        let names = job.names.take();
        let told = |file| job.told.get(file).copied().unwrap_or(Leave::No);
        let reply = match job.seeks {
            Seeks::Leave | Seeks::Known => Reply::Leaves(job.wanted.iter().map(told).collect()),
            Seeks::Names => {
                let leave = job.wanted.first().map_or(Leave::No, told);
                let names = names.filter(|_| matches!(leave, Leave::Known(_) | Leave::Once(_)));
                Reply::Names { leave, names }
            }
            Seeks::Managers => Reply::Done,
        };
        self.reply(ticket, reply);
    }

    /// Tells managers what the store said.
    pub(super) fn tell_learned(&mut self, learned: &[Learned]) {
        let mut by_manager: BTreeMap<NodeId, Vec<Learned>> = BTreeMap::new();
        for one in learned {
            // Attributes that are not kept any more were read all the same, and others may wait for the end
            // of that.
            let void = Learned {
                attributes: None,
                ..*one
            };
            let kept = self.client.kept.get(&one.file).map(|&to| (to, *one));
            let told = kept.or_else(|| Some((self.known_manager(one.file)?, void)));
            if let Some((manager, one)) = told {
                by_manager.entry(manager).or_default().push(one);
            }
        }
        for (manager, some) in by_manager {
            let first = some.first().map(|one| one.file).unwrap_or_default();
            self.ask(manager, first, Body::Learned(some), What::Whois, Vec::new());
        }
    }

    fn known_manager(&self, id: FileId) -> Option<NodeId> {
        let open = self.client.files.get(&id).and_then(|file| file.manager);
        open.or_else(|| self.client.managers.get(&id).copied())
    }

    /// The manager has let a change of attributes through, or is gone.
    pub(super) fn change_answered(&mut self, ticket: Ticket, id: FileId, answer: &Body) {
        match answer {
            Body::ChangeGo => self.revoke(id, None, Tell::Session(ticket)),
            _ => self.change_untold(ticket, id),
        }
    }

    /// Nobody could be told of a change of attributes: who kept them drops them when it hears of the manager's end, as this
    /// node has. The next view has a manager, and it waits for that.
    pub(super) fn change_untold(&mut self, ticket: Ticket, file: FileId) {
        match self.ctx.config.goes_on {
            true => self.finish(ticket, Reply::Failed(EHOSTDOWN)),
            false => self.revoke(file, None, Tell::Session(ticket)),
        }
    }

    /// A change that was let through is over. Its manager may have been forgotten since, with the file.
    pub(super) fn changed(&mut self, id: FileId, ctime_ns: i64) {
        let Some(managers) = self.client.changing.get_mut(&id) else {
            return;
        };
        let manager = managers.pop();
        if managers.is_empty() {
            self.client.changing.remove(&id);
        }
        if let Some(manager) = manager {
            let body = Body::Changed(ctime_ns);
            self.ask(manager, id, body, What::Whois, Vec::new());
        }
    }

    /// The ways in are told by whoever calls this.
    pub(super) fn drop_leave(&mut self, id: FileId) {
        self.client.kept.remove(&id);
        let mut next = self.client.jobs.seeking(id, Ticket(0));
        while let Some(ticket) = next {
            if let Some(Job::Leave(job)) = self.client.jobs.get_mut(&ticket) {
                job.overtaken.insert(id);
                job.told.remove(&id);
                job.names = None;
            }
            next = self.client.jobs.seeking(id, Ticket(ticket.0 + 1));
        }
    }

    /// This node is about to write the file.
    pub(super) fn give_up_leave(&mut self, id: FileId) {
        let kept = self.client.kept.contains_key(&id);
        self.drop_leave(id);
        if kept {
            self.revoke(id, None, Tell::Nobody);
        }
    }

    /// Leave that a dead manager gave is void, and so is any for files whose registrar is dead.
    pub(super) fn drop_leaves_of(&mut self, peer: NodeId) {
        self.client.managers.retain(|_, manager| *manager != peer);
        let kept = self.client.kept.iter();
        let gone: Vec<(FileId, NodeId)> = kept
            .filter(|(id, manager)| **manager == peer || !self.ctx.is_findable(**id))
            .map(|(&id, &manager)| (id, manager))
            .collect();
        for (id, manager) in gone {
            self.give_up_leave(id);
            if manager != peer {
                // It may wait to hear what was read under the leave.
                self.client.remember_manager(id, manager);
            }
        }
        for managers in self.client.changing.values_mut() {
            managers.retain(|&manager| manager != peer);
        }
        self.client
            .changing
            .retain(|_, managers| !managers.is_empty());
    }
}
