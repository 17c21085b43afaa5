//! Attributes and names out of daemons: where those hold them, a daemon is asked before the manager.
//!
//! An answer of a daemon serves the question alone, as with blocks (BANK-6): nobody could call it back. The
//! manager is asked for what the daemon does not have, and gives leave.

use super::bank::ASKED_OF_BANK;
use super::leave::managers_of;
use super::{Desk, Job};
use crate::bank::{BankLost, BankOk, BankOp, BankOrder, Daemon, Epoch, Key, Told};
use crate::effect::Effect;
use crate::guard::Guard;
use crate::ids::{FileId, Leave, NodeId, Ticket};
use crate::msg::Body;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Files that one daemon is asked about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Look {
    ticket: Ticket,
    manager: NodeId,
    daemon: Daemon,
    files: Vec<FileId>,
    /// Of the directory that these are, names are wanted.
    names: bool,
}

impl Desk<'_, '_> {
    /// Asks for attributes of files of one manager: daemons where those may have them, else the manager.
    pub(super) fn ask_attributes(&mut self, ticket: Ticket, manager: NodeId, files: Vec<FileId>) {
        let mut looks: BTreeMap<(Daemon, Epoch), Vec<FileId>> = BTreeMap::new();
        let mut others = Vec::new();
        for file in files {
            match self.attributes_at(manager, file) {
                Some(at) => looks.entry(at).or_default().push(file),
                None => others.push(file),
            }
        }
        for (at, files) in looks {
            self.ask_daemon((ticket, manager), at, files, false);
        }
        if !others.is_empty() {
            self.ask_for_leave(ticket, manager, others);
        }
    }

    /// Asks for names of a directory: its daemon, if that may have them, else the manager.
    pub(super) fn ask_for_names(&mut self, ticket: Ticket, manager: NodeId, dirs: Vec<FileId>) {
        let at = dirs
            .first()
            .and_then(|&dir| self.attributes_at(manager, dir));
        match at {
            Some(at) => self.ask_daemon((ticket, manager), at, dirs, true),
            None => self.ask_leave(ticket, manager, dirs, Body::AskNames(Vec::new())),
        }
    }

    /// The daemon that may have a file's attributes, and the epoch under which it may be asked.
    fn attributes_at(&mut self, manager: NodeId, file: FileId) -> Option<(Daemon, Epoch)> {
        let daemon = self.ctx.config.daemon_of_attributes(file)?;
        // A file that is managed here is known here.
        if manager == self.ctx.me() {
            return None;
        }
        let epoch = self.epoch_of(manager, daemon)?;
        Some((daemon, epoch))
    }

    fn ask_daemon(
        &mut self,
        (ticket, manager): (Ticket, NodeId),
        (daemon, epoch): (Daemon, Epoch),
        files: Vec<FileId>,
        names: bool,
    ) {
        let op = self.ctx.new_bank_op();
        if let Some(Job::Leave(job)) = self.client.jobs.get_mut(&ticket) {
            job.await_part(ASKED_OF_BANK | op.0, files.clone());
        }
        let key = |&file: &FileId| Key {
            gateway: manager,
            epoch,
            file,
            block: Key::ATTRIBUTES,
        };
        let order = BankOrder::Look(files.iter().map(key).collect());
        let look = Look {
            ticket,
            manager,
            daemon,
            files,
            names,
        };
        self.client.looks.insert(op, look);
        self.ctx.out.push(Effect::Bank { op, daemon, order });
    }

    /// A daemon answered, or does not.
    pub(super) fn look_answered(
        &mut self,
        op: BankOp,
        look: Look,
        result: Result<BankOk, BankLost>,
    ) {
        let found = match result {
            Ok(BankOk::Looked(found)) => found,
            Ok(BankOk::Done | BankOk::Found { .. }) => Vec::new(),
            Err(BankLost) => {
                self.client.leases.shun(self.ctx.now, look.daemon);
                Vec::new()
            }
        };
        for named in found
            .iter()
            .flatten()
            .filter_map(|told| told.names.as_ref())
        {
            self.client.remember_managers(managers_of(named));
        }
        let Some(Job::Leave(job)) = self.client.jobs.get_mut(&look.ticket) else {
            return;
        };
        job.part_over(ASKED_OF_BANK | op.0);
        let (mut missed, asked) = (Vec::new(), look.files.len());
        let told = found.into_iter().chain(core::iter::repeat(None));
        let once = self.ctx.config.keeps(Guard::NamesOnce);
        for (file, told) in look.files.into_iter().zip(told) {
            match told {
                Some(Told {
                    attributes,
                    names: Some(names),
                }) if look.names => {
                    job.tell(
                        file,
                        if once { Leave::Once } else { Leave::Known }(attributes),
                    );
                    job.tell_names(names);
                }
                Some(Told { attributes, .. }) if !look.names => {
                    job.tell(file, Leave::Once(attributes));
                }
                Some(_) | None => missed.push(file),
            }
        }
        self.ctx.stats.bank_hits += (asked - missed.len()) as u64;
        self.ctx.stats.bank_misses += missed.len() as u64;
        if !missed.is_empty() {
            let (ticket, manager) = (look.ticket, look.manager);
            match look.names {
                true => self.ask_leave(ticket, manager, missed, Body::AskNames(Vec::new())),
                false => self.ask_for_leave(ticket, manager, missed),
            }
        }
        self.end_leave(look.ticket);
    }
}
