//! Leave to keep attributes, and names of directories, until they are called back.
//!
//! Whoever has leave answers for a file's attributes from memory. Whoever changes them asks first; the
//! manager calls them back from everybody, and gives no leave until the change is over (M4). Changes do
//! not exclude each other: what order they have is the store's. A file that somebody writes has
//! attributes that change all the time, so there is leave only while it is at rest.
//!
//! The first to get leave reads the attributes from the store and tells them, so that the store is asked
//! once for all nodes. Who asks for several files meanwhile is told that these come later; who asks for one
//! alone is *parked* until they are told, or nobody reads them any more. A node asks for one alone when it has
//! told all that it was to read, so nobody waits for somebody who waits (M5).

use super::entry::Entry;
use super::{Ask, Manager, Seat};
use crate::ctx::Ctx;
use crate::guard::Guard;
use crate::ids::{Attributes, FileId, Learned, Leave, NodeId, Stamp};
use crate::msg::Body;
use crate::nodeset::NodeSet;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// What is kept of one file's attributes, and who is about to change them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Leaves {
    /// Changes under way, by node.
    changing: BTreeMap<NodeId, u32>,
    /// Changes that wait until everybody has let go.
    waiting: Vec<Ask>,
    /// Whose word they wait for.
    awaiting: Vec<(NodeId, u64)>,
    /// Which copies of the store's answer would be too old.
    floor_ns: i64,
    known: Option<Attributes>,
    /// Who reads them from the store, under which number.
    reader: Option<(NodeId, u64)>,
    /// What a daemon may have of them.
    pub(super) entry: Entry,
}

impl Leaves {
    /// Nothing is worth being remembered.
    pub(super) fn is_blank(&self) -> bool {
        self.is_idle() && self.floor_ns == 0 && self.entry.is_blank()
    }

    /// What a node has told, if nobody changes it.
    pub(super) fn told(&self) -> Option<Attributes> {
        self.known.filter(|_| self.is_idle())
    }

    /// A daemon has it now.
    pub(super) fn hand_over(&mut self) {
        self.known = None;
    }

    /// Nobody changes anything.
    pub(super) fn is_idle(&self) -> bool {
        self.changing.is_empty() && self.awaiting.is_empty()
    }

    /// What is known is void.
    pub(super) fn forget(&mut self) {
        self.known = None;
        self.reader = None;
    }

    /// Somebody may keep attributes, or be reading them, that are not those of the stamp.
    pub(super) fn may_differ(&self, stamp: &Stamp) -> bool {
        let differs = |told: Attributes| {
            let kept = Stamp {
                ctime_ns: told.ctime_ns,
                mtime_ns: told.mtime_ns,
                size: told.size,
            };
            kept != *stamp
        };
        self.reader.is_some() || self.entry.is_noted() || self.known.is_some_and(differs)
    }

    pub(super) fn drop_peer(&mut self, peer: NodeId) {
        self.changing.remove(&peer);
        self.waiting.retain(|ask| ask.from != peer);
        self.reads_no_more(peer);
    }

    /// Others that wait for what a node reads ask somebody else.
    pub(super) fn reads_no_more(&mut self, peer: NodeId) {
        self.reader = self.reader.filter(|(reader, _)| *reader != peer);
    }
}

/// A question about one file, whose attributes another node is reading.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Parked {
    file: FileId,
    ask: Ask,
}

impl Parked {
    /// One file is asked for, under its own name.
    fn may_wait(&self) -> bool {
        matches!(&self.ask.body, Body::AskLeave(files) if files.as_slice() == [self.file])
    }
}

impl Manager {
    /// Questions and news about several files; the first of them is `id`.
    pub(super) fn leave(&mut self, ctx: &mut Ctx<'_>, id: FileId, ask: Ask) {
        match &ask.body {
            Body::WhoisEach(files) => {
                let me = ctx.me();
                let each = files.iter().map(|&id| self.registered(me, id, ask.from));
                let body = Body::WhoisEachOk(each.collect());
                ctx.answer(ask.from, id, ask.generation, ask.req, body);
            }
            Body::AskLeave(_) => self.give_leaves(ctx, Parked { file: id, ask }),
            Body::Learned(learned) => {
                for one in learned {
                    let mut seat = self.seat(ctx, one.file);
                    seat.learned(ask.from, one);
                    seat.tell_daemon();
                    self.tidy(one.file);
                }
                for one in learned {
                    self.unpark(ctx, one.file);
                }
            }
            _ => {}
        }
    }

    fn give_leaves(&mut self, ctx: &mut Ctx<'_>, asked: Parked) {
        let Body::AskLeave(files) = &asked.ask.body else {
            return;
        };
        let Ask {
            from,
            req,
            generation,
            ..
        } = asked.ask;
        let mut leaves = Vec::with_capacity(files.len());
        for &file in files {
            let mut seat = self.seat(ctx, file);
            leaves.push(seat.give_leave(from, req.seq));
            // Whoever asks has found nothing there.
            seat.tell_daemon();
            self.tidy(file);
        }
        if asked.may_wait() && leaves == [Leave::Later] {
            return self.parked.push(asked);
        }
        ctx.answer(from, asked.file, generation, req, Body::Leaves(leaves));
    }

    /// Asks again for those who wait for a file's attributes, if nobody reads them any more (M5).
    pub(super) fn unpark(&mut self, ctx: &mut Ctx<'_>, id: FileId) {
        let is_read = |file: &super::File| file.leaves.reader.is_some();
        if self.parked.is_empty() || self.files.get(&id).is_some_and(is_read) {
            return;
        }
        let parked = core::mem::take(&mut self.parked);
        let (ready, rest) = parked.into_iter().partition(|asked| asked.file == id);
        self.parked = rest;
        let ready: Vec<Parked> = ready;
        for asked in ready {
            self.give_leaves(ctx, asked);
        }
    }

    /// A node that waits is gone.
    pub(super) fn unpark_peer(&mut self, peer: NodeId) {
        self.parked.retain(|asked| asked.ask.from != peer);
    }

    /// Calls attributes back of files at rest, so that those files can be forgotten.
    pub(super) fn call_back(&mut self, ctx: &mut Ctx<'_>, count: usize) {
        let kept = |(_, file): &(&FileId, &super::File)| {
            let kept = !file.holders.is_empty() || file.leaves.entry.is_noted();
            kept && file.openers.is_empty() && file.leaves.is_idle()
        };
        let ids: Vec<FileId> = self
            .files
            .iter()
            .filter(kept)
            .take(count)
            .map(|(&id, _)| id)
            .collect();
        for id in ids {
            self.seat(ctx, id).recall();
        }
    }
}

impl Seat<'_, '_> {
    fn give_leave(&mut self, from: NodeId, number: u64) -> Leave {
        let file = &mut *self.file;
        let at_rest = !file.known || (file.writers() == 0 && file.stamp.is_some());
        let free = file.control.is_none() && file.queue.is_empty() && file.leaves.is_idle();
        if !at_rest || !free {
            return Leave::No;
        }
        let leave = match (file.leaves.known, file.leaves.reader) {
            (Some(attributes), _) => Leave::Known(attributes),
            (None, Some((reader, _))) if reader != from => return Leave::Later,
            (None, Some(_) | None) => {
                file.leaves.reader = Some((from, number));
                let stamp = file.stamp.map_or(0, |stamp| stamp.ctime_ns);
                let floor_ns = file.leaves.floor_ns.max(stamp);
                Leave::Read { number, floor_ns }
            }
        };
        file.holders.insert(from);
        leave
    }

    fn learned(&mut self, from: NodeId, one: &Learned) {
        let leaves = &mut self.file.leaves;
        if leaves.reader == Some((from, one.number)) {
            leaves.reader = None;
            leaves.known = one.attributes.filter(|told| told.links > 0);
        }
    }

    pub(super) fn change(&mut self, ask: Ask) {
        *self.file.leaves.changing.entry(ask.from).or_default() += 1;
        self.recall();
        if self.ctx.config.keeps(Guard::ChangesAnnounced) {
            self.file.leaves.waiting.push(ask);
            self.let_change();
        } else {
            self.answer(&ask, Body::ChangeGo);
        }
    }

    /// Takes attributes back from everybody who may keep them.
    fn recall(&mut self) {
        self.file.leaves.forget();
        let keepers: NodeSet = self
            .file
            .openers
            .keys()
            .copied()
            .chain(self.file.holders.iter())
            .collect();
        let mut awaiting = self.order(keepers.iter(), &Body::Recall);
        awaiting.extend(self.call_entry());
        self.file.leaves.awaiting.extend(awaiting);
    }

    /// A node has let go.
    pub(super) fn let_go(&mut self, from: NodeId, seq: u64) {
        let awaiting = &mut self.file.leaves.awaiting;
        awaiting.retain(|&one| one != (from, seq));
        self.let_change();
    }

    fn let_change(&mut self) {
        if !self.file.leaves.awaiting.is_empty() {
            return;
        }
        for ask in core::mem::take(&mut self.file.leaves.waiting) {
            self.answer(&ask, Body::ChangeGo);
        }
    }

    pub(super) fn changed(&mut self, from: NodeId, ctime_ns: i64) {
        let leaves = &mut self.file.leaves;
        leaves.floor_ns = leaves.floor_ns.max(ctime_ns);
        if let Some(count) = leaves.changing.get_mut(&from) {
            *count -= 1;
            if *count == 0 {
                leaves.changing.remove(&from);
            }
        }
    }
}
