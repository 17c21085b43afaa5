//! Leave to keep attributes: asked for many files at once, given up when the manager says so.
//!
//! Who manages a file is asked of its registrar once, for many files at once where the way in knows which
//! it will want next. Managers do not change, so what was heard stays true while the manager is there.
//!
//! A writer's open calls attributes back from all nodes but its own, so that node gives up leave by
//! itself before it asks for the open (C5).

use super::revoke::Tell;
use super::{Desk, Job, What};
use crate::effect::Reply;
use crate::ids::{FileId, Learned, Leave, NodeId, Ticket};
use crate::msg::{Body, Envelope};
use crate::placement;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Files whose attributes ways in of one node may keep; there is no leave for more.
const KEPT_MAX: usize = 1 << 18;

/// Managers that are remembered; at the bound all are forgotten.
const MANAGERS_MAX: usize = 1 << 18;

/// What a session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Seeks {
    Leave,
    /// Who could give it.
    Managers,
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
}

impl LeaveJob {
    /// An answer about these is due.
    pub(super) fn await_part(&mut self, number: u64, files: Vec<FileId>) {
        self.parts.insert(number, files);
    }

    /// It has come.
    pub(super) fn part_over(&mut self, number: u64) {
        self.parts.remove(&number);
    }

    /// Something was told of a file.
    pub(super) fn tell(&mut self, file: FileId, leave: Leave) {
        self.told.insert(file, leave);
    }
}

impl Desk<'_, '_> {
    pub(super) fn leave(&mut self, ticket: Ticket, wanted: Vec<FileId>) {
        if self.ctx.config.is_uncached() {
            let none = wanted.iter().map(|_| Leave::No).collect();
            return self.reply(ticket, Reply::Leaves(none));
        }
        let fit: Vec<FileId> = wanted
            .iter()
            .copied()
            .filter(|&id| !self.is_unfit(id))
            .collect();
        let (known, unknown) = self.by_whom(&fit);
        self.begin_leave(ticket, Seeks::Leave, wanted);
        for (manager, files) in known {
            self.ask_attributes(ticket, manager, files);
        }
        for (registrar, files) in unknown {
            self.ask_leave(ticket, registrar, files, Body::WhoisEach);
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
            self.ask_leave(ticket, registrar, files, Body::WhoisEach);
        }
        self.end_leave(ticket);
    }

    fn begin_leave(&mut self, ticket: Ticket, seeks: Seeks, wanted: Vec<FileId>) {
        let job = LeaveJob {
            seeks,
            wanted,
            told: BTreeMap::new(),
            parts: BTreeMap::new(),
            overtaken: BTreeSet::new(),
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
                    let registrar = placement::registrar_of(id, self.ctx.config.nodes);
                    (&mut unknown, registrar)
                }
            };
            whose.entry(node).or_default().push(id);
        }
        (known, unknown)
    }

    /// Attributes of such a file change all the time, or the store alone knows them.
    fn is_unfit(&self, id: FileId) -> bool {
        let opening = |job: &Job| matches!(job, Job::Open(open) if open.file == id && open.write);
        let file = self.client.files.get(&id);
        file.is_some_and(|file| file.bypass || file.orphan || file.writers > 0)
            || (file.is_some() && self.client.jobs.values().any(opening))
    }

    pub(super) fn ask_leave(
        &mut self,
        ticket: Ticket,
        to: NodeId,
        files: Vec<FileId>,
        body: fn(Vec<FileId>) -> Body,
    ) {
        let first = files.first().copied().unwrap_or_default();
        let what = What::Leaves(ticket);
        let seq = self.ask(to, first, body(files.clone()), what, Vec::new());
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
                    self.remember_manager(file, manager);
                    by_manager.entry(manager).or_default().push(file);
                }
                if seeks == Seeks::Leave {
                    for (manager, files) in by_manager {
                        self.ask_attributes(ticket, manager, files);
                    }
                }
            }
            Body::Leaves(leaves) => {
                for (file, leave) in files.into_iter().zip(leaves) {
                    self.take_leave(ticket, from, file, leave);
                }
            }
            _ => {}
        }
        self.end_leave(ticket);
    }

    fn remember_manager(&mut self, file: FileId, manager: NodeId) {
        let managers = &mut self.client.managers;
        if managers.len() >= MANAGERS_MAX {
            managers.clear();
        }
        managers.insert(file, manager);
    }

    fn take_leave(&mut self, ticket: Ticket, from: NodeId, file: FileId, leave: Leave) {
        let keeps = matches!(leave, Leave::Read { .. } | Leave::Known(_));
        let full = self.client.kept.len() >= KEPT_MAX && !self.client.kept.contains_key(&file);
        let unfit = keeps && (full || self.is_unfit(file));
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
        let Some(Job::Leave(job)) = self.client.jobs.get(&ticket) else {
            return;
        };
        if !job.parts.is_empty() {
            return;
        }
        let told = |file| job.told.get(file).copied().unwrap_or(Leave::No);
        let reply = match job.seeks {
            Seeks::Leave => Reply::Leaves(job.wanted.iter().map(told).collect()),
            Seeks::Managers => Reply::Done,
        };
        self.finish(ticket, reply);
    }

    /// Tells managers what the store said.
    pub(super) fn tell_learned(&mut self, learned: &[Learned]) {
        let mut by_manager: BTreeMap<NodeId, Vec<Learned>> = BTreeMap::new();
        for one in learned {
            if let Some(&manager) = self.client.kept.get(&one.file) {
                by_manager.entry(manager).or_default().push(*one);
            }
        }
        for (manager, some) in by_manager {
            let first = some.first().map(|one| one.file).unwrap_or_default();
            self.ask(manager, first, Body::Learned(some), What::Whois, Vec::new());
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
        for job in self.client.jobs.values_mut() {
            if let Job::Leave(job) = job {
                job.overtaken.insert(id);
                job.told.remove(&id);
            }
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

    /// Leave that a dead manager gave is void.
    pub(super) fn drop_leaves_of(&mut self, peer: NodeId) {
        self.client.managers.retain(|_, manager| *manager != peer);
        let kept = self.client.kept.iter();
        let gone: Vec<FileId> = kept
            .filter(|(_, manager)| **manager == peer)
            .map(|(&id, _)| id)
            .collect();
        gone.into_iter().for_each(|id| self.give_up_leave(id));
        for managers in self.client.changing.values_mut() {
            managers.retain(|&manager| manager != peer);
        }
        self.client
            .changing
            .retain(|_, managers| !managers.is_empty());
    }
}
