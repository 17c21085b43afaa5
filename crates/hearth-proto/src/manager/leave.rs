//! Leave to keep attributes, and names of directories, until they are called back.
//!
//! A node with leave answers for a file's attributes from memory. A node that is to change them asks first;
//! the manager calls them back from everybody, and gives no leave until the change is over (MANAGER-4). Changes do
//! not exclude each other: their order is the store's. A file that somebody writes has attributes that change
//! all the time, so there is leave only while it is at rest.
//!
//! The first to get leave reads the attributes from the store and tells them, so that the store is asked once
//! for all nodes. A node that asks for several files meanwhile is told that these come later. A node that
//! asks for one alone, or awaits several, is *parked* until they are told, or nobody reads them any more. A
//! node asks so when it has told all that it was to read. A node that awaits several is given none of them to
//! read, not even by the manager of some while that of others lets it wait. So nobody waits for somebody who
//! waits (MANAGER-5).
//!
//! Names of a directory go the same way: the first who asks reads them and tells them, with who manages
//! what they lead to, before the directory's attributes ([`listing`](super::listing)).

use super::entry::Entry;
use super::listing::Listing;
use super::{Ask, Manager, Seat};
use crate::ctx::Ctx;
use crate::guard::Guard;
use crate::ids::{Attributes, FileId, Learned, Leave, NodeId, Stamp};
use crate::msg::Body;
use crate::nodeset::NodeSet;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The attributes of one file that are kept, and the nodes that are about to change them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Leaves {
    /// Changes under way, by node.
    changing: BTreeMap<NodeId, u32>,
    /// Changes that wait until everybody has let go.
    waiting: Vec<Ask>,
    /// The nodes whose word they wait for.
    awaiting: Vec<(NodeId, u64)>,
    /// Which copies of the store's answer would be too old.
    floor_ns: i64,
    pub(super) known: Option<Attributes>,
    pub(super) listing: Listing,
    /// The node that reads them from the store, and its number.
    pub(super) reader: Option<(NodeId, u64)>,
    /// The part of them that a daemon may have.
    pub(super) entry: Entry,
}

impl Leaves {
    /// Nothing is worth being remembered.
    pub(super) fn is_blank(&self) -> bool {
        self.is_idle() && self.floor_ns == 0 && self.entry.is_blank()
    }

    /// The attributes that a node has told, if nobody changes them.
    pub(super) fn told(&self) -> Option<Attributes> {
        self.known.filter(|_| self.is_idle())
    }

    /// A daemon has it now.
    pub(super) fn hand_over(&mut self) {
        self.known = None;
        self.listing.age();
    }

    /// Nobody changes anything.
    pub(super) fn is_idle(&self) -> bool {
        self.changing.is_empty() && self.awaiting.is_empty()
    }

    /// The attributes and names that are known are void.
    pub(super) fn forget(&mut self) {
        self.known = None;
        self.reader = None;
        self.listing = Listing::Unread;
    }

    /// Somebody else reads them.
    pub(super) fn is_read_for(&self, from: NodeId) -> bool {
        self.reader.is_some_and(|(reader, _)| reader != from)
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

    /// Nodes that wait to change attributes, and those that have not let go.
    pub(super) fn waits(&self) -> impl Iterator<Item = (NodeId, NodeId)> + '_ {
        let each = self.waiting.iter();
        each.flat_map(|ask| self.awaiting.iter().map(|&(on, _)| (ask.from, on)))
    }

    /// True if a node has yet to answer this recall.
    pub(super) fn is_awaited(&self, node: NodeId, seq: u64) -> bool {
        self.awaiting.contains(&(node, seq))
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

/// A question about what another node is reading.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Parked {
    /// The file that it was asked for, or the first of several.
    pub(super) file: FileId,
    pub(super) ask: Ask,
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
            Body::Listed(listed) => self.seat(ctx, id).listed(ask.from, listed),
            Body::Learned(learned) => {
                for one in learned {
                    let mut seat = self.seat(ctx, one.file);
                    seat.learned(ask.from, one);
                    seat.tell_daemon();
                    self.listed_all(ctx.now, one.file);
                    self.tidy(one.file);
                }
                for one in learned {
                    self.unpark(ctx, one.file);
                }
            }
            _ => self.ask_again(ctx, id, ask),
        }
    }

    /// A question that may have to wait, for the first time or once more.
    fn ask_again(&mut self, ctx: &mut Ctx<'_>, file: FileId, ask: Ask) {
        let answer = match &ask.body {
            Body::AskLeave { files, alone } => self.give_leaves(ctx, (files, *alone), &ask),
            Body::AwaitLeave(files) => self.give_known(ctx, files, &ask),
            Body::AskNames(behind) => self.give_names(ctx, file, &ask, behind).ok_or(file),
            _ => return,
        };
        match answer {
            Ok(body) => ctx.answer(ask.from, file, ask.generation, ask.req, body),
            Err(on) => self
                .parked
                .entry(on)
                .or_default()
                .push(Parked { file, ask }),
        }
    }

    /// Answers, or says which file must be awaited: one that is asked for alone. Part of a larger question is not: its
    /// asker may have been given other files to read, for which somebody waits.
    fn give_leaves(
        &mut self,
        ctx: &mut Ctx<'_>,
        (files, alone): (&[FileId], bool),
        ask: &Ask,
    ) -> Result<Body, FileId> {
        let mut leaves = Vec::with_capacity(files.len());
        for &file in files {
            let mut seat = self.seat(ctx, file);
            leaves.push(seat.give_leave(ask.from, ask.req.seq));
            // The asker has found nothing there.
            seat.tell_daemon();
            self.tidy(file);
        }
        match (files, leaves.as_slice()) {
            (&[file], [Leave::Later]) if alone => Err(file),
            _ => Ok(Body::Leaves(leaves)),
        }
    }

    /// The known attributes of each of several files. The first is awaited if it is being read, and no other:
    /// nobody waits for what he does not want yet.
    fn give_known(
        &mut self,
        ctx: &mut Ctx<'_>,
        files: &[FileId],
        ask: &Ask,
    ) -> Result<Body, FileId> {
        let leaves = |id: &FileId| self.files.get(id).map(|file| &file.leaves);
        let is_read = |id: &&FileId| {
            leaves(id).is_some_and(|file| file.known.is_none() && file.is_read_for(ask.from))
        };
        if let Some(&file) = files.first().filter(is_read) {
            return Err(file);
        }
        let mut told = Vec::with_capacity(files.len());
        for &file in files {
            let known = self.files.get(&file).and_then(|file| file.leaves.known);
            told.push(match known {
                Some(_) => self.seat(ctx, file).give_leave(ask.from, ask.req.seq),
                None => Leave::Later,
            });
        }
        Ok(Body::Leaves(told))
    }

    /// Asks again for those who wait for a file's attributes, if nobody reads them any more (MANAGER-5).
    pub(super) fn unpark(&mut self, ctx: &mut Ctx<'_>, id: FileId) {
        let is_read = |file: &super::File| file.leaves.reader.is_some();
        if self.parked.is_empty() || self.files.get(&id).is_some_and(|file| is_read(file)) {
            return;
        }
        for Parked { file, ask } in self.parked.remove(&id).unwrap_or_default() {
            self.ask_again(ctx, file, ask);
        }
    }

    /// A node that waits is gone.
    pub(super) fn unpark_peer(&mut self, peer: NodeId) {
        self.parked.retain(|_, parked| {
            parked.retain(|asked| asked.ask.from != peer);
            !parked.is_empty()
        });
    }
}

impl Seat<'_, '_> {
    fn give_leave(&mut self, from: NodeId, number: u64) -> Leave {
        if !self.may_be_kept() {
            return Leave::No;
        }
        let leave = match self.file.leaves.known {
            Some(attributes) => Leave::Known(attributes),
            None if self.file.leaves.is_read_for(from) => return Leave::Later,
            None => self.have_read(from, number),
        };
        self.file.holders.insert(from);
        leave
    }

    /// The file is at rest, and nobody is about to change it, or could without a word (MANAGER-6).
    pub(super) fn may_be_kept(&self) -> bool {
        let file = &*self.file;
        let at_rest = !file.known || (file.writers() == 0 && file.stamp.is_some());
        let at_rest = at_rest && file.control.is_none() && file.queue.is_empty();
        at_rest && file.leaves.is_idle() && self.ctx.is_findable(self.id)
    }

    /// This node is to read the attributes, and of a directory the names, if it was asked for these.
    pub(super) fn have_read(&mut self, from: NodeId, number: u64) -> Leave {
        let file = &mut *self.file;
        file.leaves.reader = Some((from, number));
        file.leaves.listing = Listing::Unread;
        let stamp = file.stamp.map_or(0, |stamp| stamp.ctime_ns);
        let floor_ns = file.leaves.floor_ns.max(stamp);
        Leave::Read { number, floor_ns }
    }

    fn learned(&mut self, from: NodeId, one: &Learned) {
        let leaves = &mut self.file.leaves;
        if leaves.reader == Some((from, one.number)) {
            leaves.reader = None;
            leaves.known = one.attributes.filter(|told| told.links > 0);
            leaves.listing.end(leaves.known.is_some());
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
    pub(super) fn recall(&mut self) {
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
