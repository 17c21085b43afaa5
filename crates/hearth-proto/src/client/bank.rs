//! Asking the bank: blocks that a daemon may have are asked for there, all others at their gateway.
//!
//! Reads whose blocks a daemon does not have go to the gateway for them. Blocks that it has serve the reads
//! that asked, and nobody else (BANK-6). A read that a way in may keep never comes here.

use super::once::Granted;
use super::read::Found;
use super::{Desk, Job, What};
use crate::bank::lease::Honour;
use crate::bank::{BankLost, BankOk, BankOp, BankOrder, Daemon, Epoch, Item, Key};
use crate::effect::{Effect, Piece, Src};
use crate::guard::Guard;
use crate::ids::{FileId, Gen, NodeId, Ticket};
use crate::msg::{Body, Envelope, Origin};
use alloc::vec::Vec;

/// Set in the numbers of wants that a daemon was asked for, so that they never meet those of messages.
pub(super) const ASKED_OF_BANK: u64 = 1 << 63;

/// Blocks that one order asks for at most; bounds the answer.
const GET_BLOCKS_MAX: usize = 64;

/// Blocks that one daemon is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Get {
    file: FileId,
    daemon: Daemon,
    blocks: Vec<u64>,
}

/// The place of a block in the bank, if it is there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    gateway: NodeId,
    daemon: Daemon,
    epoch: Epoch,
}

/// Blocks of one read, by where they may be.
#[derive(Default)]
pub(super) struct Gets(Vec<(Entry, Vec<u64>)>);

impl Gets {
    pub(super) fn add(&mut self, entry: Entry, block: u64) {
        let fits =
            |(of, blocks): &&mut (Entry, Vec<u64>)| *of == entry && blocks.len() < GET_BLOCKS_MAX;
        match self.0.iter_mut().find(fits) {
            Some((_, blocks)) => blocks.push(block),
            None => self.0.push((entry, alloc::vec![block])),
        }
    }
}

impl Desk<'_, '_> {
    /// The place in the bank where the read may find a block, at this instant.
    pub(super) fn entry_of(&mut self, ticket: Ticket, block: u64, home: NodeId) -> Option<Entry> {
        let Some(Job::Read(job)) = self.client.jobs.get(&ticket) else {
            return None;
        };
        let daemon = self.ctx.config.daemon_of(job.file, block)?;
        if !job.may_ask_bank(block) {
            return None;
        }
        let epoch = self.epoch_of(home, daemon)?;
        Some(Entry {
            gateway: home,
            daemon,
            epoch,
        })
    }

    /// The epoch under which a daemon may be asked for what a gateway gave it. Asks for a lease, if it is
    /// time.
    pub(super) fn epoch_of(&mut self, gateway: NodeId, daemon: Daemon) -> Option<Epoch> {
        self.renew(gateway);
        let honour = match self.ctx.config.keeps(Guard::LeaseHonoured) {
            true => Honour::Lease,
            false => Honour::Nothing,
        };
        self.client
            .leases
            .epoch(self.ctx.now, gateway, daemon, honour)
    }

    /// Asks a gateway for a lease, if it is time.
    fn renew(&mut self, gateway: NodeId) {
        let span = self.ctx.config.bank.lease;
        if self.client.leases.asks(self.ctx.now, gateway, span) {
            let file = FileId::default();
            let (what, data) = (What::Lease, Vec::new());
            self.ask_in(Gen::default(), gateway, file, Body::BankAsk, what, data);
        }
    }

    /// A gateway answered, or is gone.
    pub(super) fn lease_answered(&mut self, gateway: NodeId, body: &Body) {
        match body {
            Body::BankIs(epochs) => {
                let span = self.ctx.config.bank.lease;
                self.client.leases.granted(gateway, epochs, span);
            }
            _ => self.client.leases.forget(gateway),
        }
    }

    /// A gateway ends an epoch: nothing is asked for under it from here on.
    pub(super) fn epoch_over(
        &mut self,
        from: NodeId,
        order: &Envelope,
        daemon: Daemon,
        epoch: Epoch,
    ) {
        self.client.leases.over(from, daemon, epoch);
        let (file, generation) = (order.file, order.generation);
        self.ctx
            .answer(from, file, generation, order.req, Body::BankOverOk);
    }

    /// Asks daemons for blocks that no request is under way for.
    pub(super) fn ask_daemons(&mut self, ticket: Ticket, id: FileId, gets: Gets) {
        for (entry, blocks) in gets.0 {
            let Entry {
                gateway,
                daemon,
                epoch,
            } = entry;
            let op = self.ctx.new_bank_op();
            for &block in &blocks {
                let mut asked_by = self.readers_of(id, block, 1);
                asked_by.retain(|reader| self.may_use_bank(*reader));
                if !asked_by.contains(&ticket) {
                    asked_by.push(ticket);
                }
                self.want(id, block, ASKED_OF_BANK | op.0, (asked_by, false));
            }
            let key = |&block| Key {
                gateway,
                epoch,
                file: id,
                block,
            };
            let order = BankOrder::Get(blocks.iter().map(key).collect());
            let file = id;
            let get = Get {
                file,
                daemon,
                blocks,
            };
            self.client.gets.insert(op, get);
            self.ctx.out.push(Effect::Bank { op, daemon, order });
        }
    }

    /// A read that a way in may keep must not be given what nobody can call back.
    fn may_use_bank(&self, ticket: Ticket) -> bool {
        match self.client.jobs.get(&ticket) {
            Some(Job::Read(job)) => !job.keep,
            Some(_) | None => false,
        }
    }

    /// A daemon answered, or does not.
    pub(super) fn daemon_answered(
        &mut self,
        op: BankOp,
        get: Get,
        result: Result<BankOk, BankLost>,
    ) {
        let Get {
            file: id,
            daemon,
            blocks,
        } = get;
        let (items, data) = match result {
            Ok(BankOk::Found { items, data }) => (items, data),
            Ok(BankOk::Done | BankOk::Looked(_)) => (Vec::new(), None),
            Err(BankLost) => {
                self.client.leases.shun(self.ctx.now, daemon);
                (Vec::new(), None)
            }
        };
        data.into_iter().for_each(|(buf, _)| self.borrow(buf));
        let wanted = self.take_wants(id, ASKED_OF_BANK | op.0);
        let mut at = 0;
        for (place, &block) in blocks.iter().enumerate() {
            let item = items.get(place).copied().flatten();
            let readers = wanted.iter().find(|(number, _)| *number == block);
            let readers = readers
                .map(|(_, want)| want.asked_by.clone())
                .unwrap_or_default();
            match item.filter(|item| self.is_sound(item, at, data.map_or(0, |(_, len)| len))) {
                Some(item) => {
                    let len = item.len;
                    let data = data.map(|(buf, _)| Piece {
                        src: Src::Buf(buf),
                        at,
                        len,
                    });
                    self.take_entry(&readers, block, (at, len), data);
                    self.ctx.stats.bank_hits += 1;
                }
                None => {
                    self.miss(&readers, block);
                    self.ctx.stats.bank_misses += 1;
                }
            }
            at = at.saturating_add(item.map_or(0, |item| item.len));
        }
        self.go_on_with_reads(id);
        data.into_iter().for_each(|(buf, _)| self.unborrow(buf));
    }

    /// True for an entry that can be one of this job's, whose bytes have come.
    fn is_sound(&self, item: &Item, at: u32, came: u32) -> bool {
        let end = at.checked_add(item.len);
        item.len <= self.ctx.config.page_bytes && end.is_some_and(|end| end <= came)
    }

    fn take_entry(
        &mut self,
        readers: &[Ticket],
        page: u64,
        (at, extent): (u32, u32),
        data: Option<Piece>,
    ) {
        let granted = Granted {
            page,
            from: 0,
            to: self.ctx.config.page_bytes,
            extent,
            at,
            data,
            origin: Origin::Peer,
        };
        for &ticket in readers {
            self.found(ticket, page, Found::Bank);
            self.lend(ticket, &granted, 0);
        }
    }

    /// The daemon has no such entry: whoever waited for it goes to the gateway.
    fn miss(&mut self, readers: &[Ticket], block: u64) {
        for ticket in readers {
            if let Some(Job::Read(job)) = self.client.jobs.get_mut(ticket) {
                job.missed(block);
            }
        }
    }
}

impl super::Client {
    /// A daemon answered an order of this side, or does not.
    pub(crate) fn bank_done(
        &mut self,
        ctx: &mut crate::ctx::Ctx<'_>,
        authority: &mut crate::authority::Authority,
        op: BankOp,
        result: Result<BankOk, BankLost>,
    ) {
        let (get, look) = (self.gets.remove(&op), self.looks.remove(&op));
        let mut desk = Desk {
            client: self,
            authority,
            ctx,
        };
        if let Some(look) = look {
            desk.look_answered(op, look, result);
        } else if let Some(get) = get {
            desk.daemon_answered(op, get, result);
        }
    }
}
