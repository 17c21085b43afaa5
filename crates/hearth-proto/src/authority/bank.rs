//! The gateway's side of the bank: entries of its blocks in daemons.
//!
//! Invariants, with the rules of [`crate::bank`]:
//! - POPULATE-1 (BANK-1): one order about a block at a time. A write or cut begins when no populate of its blocks
//!   is under way, and nothing is populated while a write or cut touches it.
//! - POPULATE-2 (BANK-2): a block is in `entries` from before its set is sent until its delete is answered, or every
//!   epoch of its daemon is over.
//! - POPULATE-3 (I14): at most a quarter of the pool waits for daemons. Blocks beyond that are not populated.
//! - POPULATE-4: written blocks are *owed* to daemons until somebody closes or syncs the file, or an eighth of the
//!   pool is owed; then they are paid, a few blocks at a time. A block that is owed has no entry, so readers
//!   come to the gateway, which pays for them then. Blocks that a write or cut touches are not paid before
//!   that is over (POPULATE-1). A debt that is forgotten, with the block's frame, is a miss and no more.

use super::{Authority, File, Home};
use crate::bank::list::{List, Standing};
use crate::bank::{BankLost, BankOk, BankOp, BankOrder, Daemon, Epoch, Key};
use crate::config::{BankAnswer, BankUpdate};
use crate::ctx::Ctx;
use crate::effect::{Effect, Piece, Src};
use crate::guard::Guard;
use crate::ids::FileId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Blocks that one order deletes at most.
const DELETE_BLOCKS_MAX: usize = 1024;

/// Owed blocks of one file that daemons are given at once: so many wake a daemon, and this node, together.
const PAID_AT_ONCE: u32 = 64;

/// An order to a daemon that is not answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct BankJob {
    file: FileId,
    daemon: Daemon,
    epoch: Epoch,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum What {
    Set(u64),
    Delete(Vec<u64>),
}

/// Entries that must be gone before something may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Going {
    daemon: Daemon,
    /// The delete; `None`: every epoch of the daemon must be over.
    op: Option<BankOp>,
}

/// A set of blocks: a bit for each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Blocks(BTreeMap<u64, u64>);

impl Blocks {
    fn insert(&mut self, block: u64) {
        *self.0.entry(block / 64).or_default() |= 1 << (block % 64);
    }

    fn remove(&mut self, block: u64) {
        if let Some(word) = self.0.get_mut(&(block / 64)) {
            *word &= !(1 << (block % 64));
            if *word == 0 {
                self.0.remove(&(block / 64));
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn len(&self) -> u32 {
        self.0.values().map(|word| word.count_ones()).sum()
    }

    /// Those of `first..end`.
    fn within(&self, first: u64, end: u64) -> Vec<u64> {
        let blocks = blocks_of(self.0.range(first / 64..=end / 64));
        blocks
            .filter(|block| (first..end).contains(block))
            .collect()
    }

    fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        blocks_of(self.0.iter())
    }
}

/// The blocks in words of 64.
fn blocks_of<'a>(words: impl Iterator<Item = (&'a u64, &'a u64)>) -> impl Iterator<Item = u64> {
    words.flat_map(|(&word, &bits)| {
        let set = move |bit: &u64| bits & (1 << bit) != 0;
        (0..64).filter(set).map(move |bit| word * 64 + bit)
    })
}

/// Written blocks of a file that daemons have not been given yet (POPULATE-4).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Debt {
    blocks: Blocks,
    /// It is being paid, until nothing is left.
    is_due: bool,
    /// Populates of the file under way.
    populating: u32,
}

impl Home<'_, '_> {
    /// True while a populate of one of these blocks is under way (POPULATE-1).
    pub(super) fn is_populating(&self, first: u64, end: u64) -> bool {
        let alone = self.ctx.config.keeps(Guard::PopulatesAlone);
        let mut pages = self.file.pages.range(first..end);
        alone && pages.any(|(_, page)| page.populating)
    }

    /// Has the entries of blocks deleted, and returns what to wait for.
    pub(super) fn empty_bank(&mut self, first: u64, end: u64) -> Vec<Going> {
        let mut by_daemon: BTreeMap<Daemon, Vec<u64>> = BTreeMap::new();
        for block in self.file.entries.within(first, end) {
            if let Some(daemon) = self.ctx.config.daemon_of(self.id, block) {
                by_daemon.entry(daemon).or_default().push(block);
            }
        }
        for daemon in self.ctx.bank.inherited() {
            by_daemon.entry(daemon).or_default();
        }
        let mut going = Vec::new();
        for (daemon, blocks) in by_daemon {
            match self.ctx.bank.standing(daemon) {
                Standing::Trusted(epoch) => {
                    for blocks in blocks.chunks(DELETE_BLOCKS_MAX) {
                        let op = Some(self.delete(daemon, epoch, blocks));
                        going.push(Going { daemon, op });
                    }
                }
                Standing::Leaving => going.push(Going { daemon, op: None }),
                Standing::Away => {
                    for block in blocks {
                        self.file.entries.remove(block);
                    }
                }
            }
        }
        going
    }

    fn delete(&mut self, daemon: Daemon, epoch: Epoch, blocks: &[u64]) -> BankOp {
        let op = self.ctx.new_bank_op();
        let (gateway, file) = (self.ctx.me(), self.id);
        let key = |&block| Key {
            gateway,
            epoch,
            file,
            block,
        };
        let order = BankOrder::Delete(blocks.iter().map(key).collect());
        let what = What::Delete(blocks.to_vec());
        let job = BankJob {
            file,
            daemon,
            epoch,
            what,
        };
        self.ctx.stats.bank_deletes += blocks.len() as u64;
        self.common.bank.insert(op, job);
        self.ctx.out.push(Effect::Bank { op, daemon, order });
        op
    }

    /// Gives the daemon of a block what is in its frame.
    pub(super) fn populate(&mut self, block: u64) -> Option<BankOp> {
        let daemon = self.ctx.config.daemon_of(self.id, block)?;
        let Standing::Trusted(epoch) = self.ctx.bank.standing(daemon) else {
            return None;
        };
        let room = self.common.populating < self.ctx.config.frames / 4;
        let page = self.file.pages.get_mut(&block)?;
        let slot = page.slot.filter(|&slot| self.ctx.frames.valid(slot))?;
        if !room || !page.filled || page.populating {
            return None;
        }
        self.file.debt.blocks.remove(block);
        page.populating = true;
        page.settle(self.ctx.frames);
        self.common.populating += 1;
        self.file.debt.populating += 1;
        let len = page.extent;
        let piece = Piece {
            src: Src::Frame(slot.frame),
            at: 0,
            len,
        };
        if self.ctx.config.keeps(Guard::EntryNoted) {
            self.file.entries.insert(block);
        }
        let (gateway, file) = (self.ctx.me(), self.id);
        let key = Key {
            gateway,
            epoch,
            file,
            block,
        };
        let order = BankOrder::Set {
            key,
            ver: self.common.ver(),
            data: Some(piece).filter(|_| len > 0).into_iter().collect(),
        };
        let op = self.ctx.new_bank_op();
        let what = What::Set(block);
        let job = BankJob {
            file,
            daemon,
            epoch,
            what,
        };
        self.ctx.stats.bank_sets += 1;
        self.common.bank.insert(op, job);
        self.ctx.out.push(Effect::Bank { op, daemon, order });
        Some(op)
    }

    /// Gives daemons the blocks of a write, or owes them. An entry that is still there, because the published protocol
    /// answers without a word to the daemon, is replaced or deleted now.
    pub(super) fn update_bank(&mut self, first: u64, end: u64) -> Vec<BankOp> {
        let rules = self.ctx.config.rules().bank;
        let gone = rules.is_some_and(|bank| bank.answer == BankAnswer::Gone);
        if gone && self.ctx.config.bank.update == BankUpdate::Thread {
            self.owe(first, end);
            return Vec::new();
        }
        let left = match rules.map(|bank| bank.answer) {
            Some(BankAnswer::Store) => self.file.entries.within(first, end),
            Some(BankAnswer::Gone) | None => Vec::new(),
        };
        let mut ops = Vec::new();
        for block in first..end {
            let populated = self.populate(block);
            ops.extend(populated);
            let daemon = self.ctx.config.daemon_of(self.id, block);
            if let (None, Some(daemon), true) = (populated, daemon, left.contains(&block))
                && let Standing::Trusted(epoch) = self.ctx.bank.standing(daemon)
            {
                ops.push(self.delete(daemon, epoch, &[block]));
            }
        }
        ops
    }

    /// Owes daemons the blocks of a write.
    fn owe(&mut self, first: u64, end: u64) {
        for (&block, page) in self.file.pages.range(first..end) {
            if page.filled {
                self.file.debt.blocks.insert(block);
            }
        }
        self.file.debt.is_due |= self.file.debt.blocks.len() >= self.ctx.config.owed_max();
        self.pay();
    }

    /// Somebody closes or syncs the file: daemons are given all that they are owed.
    pub(super) fn pay_all(&mut self) {
        self.file.debt.is_due = true;
        self.pay();
    }

    /// Gives daemons some of what is due.
    fn pay(&mut self) {
        while self.file.debt.is_due && self.file.debt.populating <= PAID_AT_ONCE / 2 {
            let blocks = self.payable();
            self.file.debt.is_due = !blocks.is_empty();
            for block in blocks {
                self.file.debt.blocks.remove(block);
                self.populate(block);
            }
        }
    }

    /// Owed blocks that no write or cut touches: after a write they are owed anew (POPULATE-4).
    fn payable(&self) -> Vec<u64> {
        let File {
            debt, writes, bar, ..
        } = &*self.file;
        let waits = self.ctx.config.keeps(Guard::OwedWait);
        if bar.is_some() && waits {
            return Vec::new();
        }
        let touched = |block: &u64| writes.iter().any(|write| write.touches(*block, 1));
        let free = debt.blocks.iter().filter(|block| !waits || !touched(block));
        free.take((PAID_AT_ONCE - debt.populating) as usize)
            .collect()
    }

    /// An order of this file is answered: frees what waited for it.
    fn order_over(&mut self, op: BankOp, job: &BankJob, answered: bool) {
        match &job.what {
            What::Set(block) => {
                self.common.populating -= 1;
                self.file.debt.populating -= 1;
                if let Some(page) = self.file.pages.get_mut(block) {
                    page.populating = false;
                    page.settle(self.ctx.frames);
                    if page.idle() {
                        self.file.pages.remove(block);
                    }
                }
            }
            What::Delete(blocks) if answered => {
                for &block in blocks {
                    self.file.entries.remove(block);
                }
                self.file.gone(|going| going.op == Some(op));
            }
            // Its daemon leaves, and what waits does so until that is over.
            What::Delete(_) => {}
        }
        for write in &mut self.file.writes {
            write.updating.retain(|&order| order != op);
        }
        self.pay();
    }
}

impl File {
    /// Takes what is gone off the lists of those that wait for it.
    fn gone(&mut self, gone: impl Fn(&Going) -> bool) {
        for write in &mut self.writes {
            write.going.retain(|going| !gone(going));
        }
        let bars = self.bar.iter_mut().chain(&mut self.next_bar);
        for going in bars.filter_map(|bar| bar.going.as_mut()) {
            going.retain(|going| !gone(going));
        }
    }
}

impl super::Bar {
    /// True while daemons may have entries of what the cut takes away.
    pub(super) fn empties(&self) -> bool {
        self.going.as_ref().is_some_and(|going| !going.is_empty())
    }
}

impl Authority {
    /// A daemon answered an order of a gateway, or does not. An order of somebody else is given back.
    pub(crate) fn bank_done(
        &mut self,
        ctx: &mut Ctx<'_>,
        op: BankOp,
        result: Result<BankOk, BankLost>,
    ) -> Option<Result<BankOk, BankLost>> {
        let Some(job) = self.common.bank.remove(&op) else {
            return Some(result);
        };
        if result.is_err() {
            List::lost(ctx, job.daemon, job.epoch);
        }
        let id = job.file;
        let mut home = self.home(ctx, id);
        home.order_over(op, &job, result.is_ok());
        home.pump();
        self.tidy(ctx, id);
        None
    }

    /// Every epoch of a daemon is over: its entries are as good as gone.
    pub(crate) fn bank_over(&mut self, ctx: &mut Ctx<'_>, daemon: Daemon) {
        let ids: Vec<FileId> = self.files.keys().copied().collect();
        for id in ids {
            let mut home = self.home(ctx, id);
            home.file.gone(|going| going.daemon == daemon);
            home.pump();
            self.tidy(ctx, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_a_set() {
        let mut blocks = Blocks::default();
        for block in [0, 63, 64, 1_000_000] {
            blocks.insert(block);
        }
        assert_eq!(blocks.within(1, 1_000_000), [63, 64]);
        assert_eq!(blocks.within(0, u64::MAX), [0, 63, 64, 1_000_000]);
        for block in [63, 0, 1_000_000, 64] {
            assert!(!blocks.is_empty());
            blocks.remove(block);
        }
        assert!(blocks.is_empty());
    }
}
