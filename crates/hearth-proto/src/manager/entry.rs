//! Attributes and names in daemons: what their manager gives a daemon, and takes back.
//!
//! To the manager of a file the daemon of its attributes is one more node that keeps them, under the rules
//! of [`crate::bank`]: the manager is to that entry what a gateway is to a block. It gives the daemon what
//! a node has told it, and whoever would have nodes let go has the entry deleted as well, and waits for
//! that or for the end of its epoch. So a change of attributes, and an open for writing, find nobody who
//! could still be given the old ones.
//!
//! - ENTRY-1 (BANK-1): one order about a file's entry at a time.
//! - ENTRY-2 (BANK-2): an entry is noted before it is set, until a delete is answered or every epoch of its daemon
//!   is over.
//! - ENTRY-3: at most [`ORDERS_MAX`] orders are under way; what would be more is not given to a daemon.

use super::{Manager, Seat};
use crate::bank::list::{List, Standing};
use crate::bank::{BankLost, BankOk, BankOp, BankOrder, Daemon, Epoch, Key, Told};
use crate::ctx::Ctx;
use crate::effect::Effect;
use crate::guard::Guard;
use crate::ids::{FileId, NodeId, ReqId};
use crate::msg::Body;
use alloc::vec::Vec;

/// Orders of one manager under way at most; deletes are not bounded, as somebody waits for each.
const ORDERS_MAX: usize = 1024;

/// Stands for a daemon that answers when an entry is wanted back.
const BANK: NodeId = NodeId(u32::MAX);

/// The state of a file's entry in its daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    noted: bool,
    order: Option<BankOp>,
    /// The numbers of those that wait until it is gone.
    called: Vec<u64>,
    calls: u64,
}

/// An order to a daemon that is not answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Order {
    file: FileId,
    daemon: Daemon,
    epoch: Epoch,
    does: Done,
}

/// The effect of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Done {
    Told,
    Deleted,
}

impl Entry {
    /// No daemon has it, and none is asked to.
    pub(super) fn is_blank(&self) -> bool {
        !self.noted && self.order.is_none() && self.called.is_empty()
    }

    pub(super) fn is_noted(&self) -> bool {
        self.noted
    }
}

impl Seat<'_, '_> {
    /// Gives the file's daemon what its attributes are, if they are known.
    pub(super) fn tell_daemon(&mut self) {
        let entry = &self.file.leaves.entry;
        let free = entry.order.is_none() && entry.called.is_empty();
        let Some(attributes) = self.file.leaves.told().filter(|_| free) else {
            return;
        };
        let Some(daemon) = self.ctx.config.daemon_of_attributes(self.id) else {
            return;
        };
        let Standing::Trusted(epoch) = self.ctx.bank.standing(daemon) else {
            return;
        };
        if self.orders.len() >= ORDERS_MAX {
            return;
        }
        let names = self.file.leaves.listing.for_daemon();
        self.file.leaves.entry.noted = true;
        let key = self.key(epoch);
        let told = Told { attributes, names };
        self.order_daemon((daemon, epoch), BankOrder::Tell { key, told });
    }

    /// Has the daemon's entry deleted; returns whose word to await.
    pub(super) fn call_entry(&mut self) -> Option<(NodeId, u64)> {
        let daemon = self.ctx.config.daemon_of_attributes(self.id)?;
        let standing = self.ctx.bank.standing(daemon);
        let inherited = self.ctx.bank.inherited().contains(&daemon);
        let entry = &mut self.file.leaves.entry;
        if standing == Standing::Away {
            entry.noted = false;
        }
        entry.noted |= inherited;
        if !entry.noted {
            return None;
        }
        entry.calls += 1;
        let number = entry.calls;
        entry.called.push(number);
        self.delete_entry();
        let waits = self.ctx.config.keeps(Guard::AttributesGone);
        waits.then_some((BANK, number))
    }

    /// Has what is wanted back deleted, when no other order is under way (ENTRY-1). A daemon that leaves is told
    /// nothing: the end of its epoch will do.
    fn delete_entry(&mut self) {
        let entry = &self.file.leaves.entry;
        if entry.called.is_empty() || entry.order.is_some() {
            return;
        }
        if let Some(daemon) = self.ctx.config.daemon_of_attributes(self.id)
            && let Standing::Trusted(epoch) = self.ctx.bank.standing(daemon)
        {
            let order = BankOrder::Delete(alloc::vec![self.key(epoch)]);
            self.order_daemon((daemon, epoch), order);
        }
    }

    fn key(&self, epoch: Epoch) -> Key {
        Key {
            gateway: self.ctx.me(),
            epoch,
            file: self.id,
            block: Key::ATTRIBUTES,
        }
    }

    fn order_daemon(&mut self, (daemon, epoch): (Daemon, Epoch), order: BankOrder) {
        let op = self.ctx.new_bank_op();
        self.file.leaves.entry.order = Some(op);
        let does = match order {
            BankOrder::Delete(_) => Done::Deleted,
            _ => Done::Told,
        };
        let file = self.id;
        let what = Order {
            file,
            daemon,
            epoch,
            does,
        };
        self.orders.insert(op, what);
        self.ctx.out.push(Effect::Bank { op, daemon, order });
    }

    fn order_over(&mut self, op: BankOp, done: Option<Done>) {
        let entry = &mut self.file.leaves.entry;
        // Its epoch ended meanwhile, and with it all that the order can do.
        if entry.order != Some(op) {
            return;
        }
        entry.order = None;
        match done {
            Some(Done::Deleted) => return self.entry_gone(),
            // The nodes that waited for what was told have been answered. The entry ends by itself, so that
            // changes from outside show: were it made again out of this memory, they would not.
            Some(Done::Told) => self.file.leaves.hand_over(),
            None => {}
        }
        self.delete_entry();
    }

    /// Nobody is given the old attributes by a daemon any more.
    fn entry_gone(&mut self) {
        let entry = &mut self.file.leaves.entry;
        entry.noted = false;
        entry.order = None;
        let (node, inc) = (BANK, 0);
        for seq in core::mem::take(&mut entry.called) {
            self.acknowledged(BANK, ReqId { node, inc, seq }, &Body::BankOverOk);
        }
    }
}

impl Manager {
    /// A daemon answered an order of a manager, or does not. An order of somebody else is given back.
    pub(crate) fn bank_done(
        &mut self,
        ctx: &mut Ctx<'_>,
        op: BankOp,
        result: Result<BankOk, BankLost>,
    ) -> Option<Result<BankOk, BankLost>> {
        let Some(order) = self.orders.remove(&op) else {
            return Some(result);
        };
        if result.is_err() {
            List::lost(ctx, order.daemon, order.epoch);
        }
        let done = result.is_ok().then_some(order.does);
        self.at_entry(ctx, order.file, |seat| seat.order_over(op, done));
        None
    }

    /// Every epoch of a daemon is over: its entries are as good as gone.
    pub(crate) fn bank_over(&mut self, ctx: &mut Ctx<'_>, daemon: Daemon) {
        let noted = self
            .files
            .iter()
            .filter(|(_, file)| file.leaves.entry.noted);
        let files: Vec<FileId> = noted.map(|(&id, _)| id).collect();
        for id in files {
            if ctx.config.daemon_of_attributes(id) == Some(daemon) {
                self.at_entry(ctx, id, |seat| seat.entry_gone());
            }
        }
    }

    fn at_entry(&mut self, ctx: &mut Ctx<'_>, id: FileId, what: impl FnOnce(&mut Seat<'_, '_>)) {
        let mut seat = self.seat(ctx, id);
        what(&mut seat);
        seat.work_off();
        self.tidy(id);
        self.unpark(ctx, id);
    }
}
