//! Jobs and messages in flight, by number and by file: a step that asks whether a file has any does not look at those of
//! all files.

use super::{Job, Pending, What};
use crate::ids::{FileId, Ticket};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Deref;

/// The effect of a job on a file, where others ask for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Does {
    OpensToWrite,
    Truncates,
    SeeksLeave,
}

/// Requests of sessions that are not answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Jobs {
    all: BTreeMap<Ticket, Job>,
    of_files: BTreeSet<(Does, FileId, Ticket)>,
}

impl Deref for Jobs {
    type Target = BTreeMap<Ticket, Job>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl Jobs {
    pub(super) fn insert(&mut self, ticket: Ticket, job: Job) {
        self.remove(&ticket);
        for (does, file) in done_with(&job) {
            self.of_files.insert((does, file, ticket));
        }
        self.all.insert(ticket, job);
    }

    pub(super) fn remove(&mut self, ticket: &Ticket) -> Option<Job> {
        let job = self.all.remove(ticket)?;
        for (does, file) in done_with(&job) {
            self.of_files.remove(&(does, file, *ticket));
        }
        Some(job)
    }

    /// A job's effects, and its files, do not change.
    pub(super) fn get_mut(&mut self, ticket: &Ticket) -> Option<&mut Job> {
        self.all.get_mut(ticket)
    }

    /// Somebody is about to write the file.
    pub(super) fn is_opened_to_write(&self, file: FileId) -> bool {
        self.of(Does::OpensToWrite, file, Ticket(0)).is_some()
    }

    /// The file is being cut.
    pub(super) fn is_truncated(&self, file: FileId) -> bool {
        self.of(Does::Truncates, file, Ticket(0)).is_some()
    }

    /// The first of those that ask for leave for a file, from a ticket on.
    pub(super) fn seeking(&self, file: FileId, from: Ticket) -> Option<Ticket> {
        self.of(Does::SeeksLeave, file, from)
    }

    fn of(&self, does: Does, file: FileId, from: Ticket) -> Option<Ticket> {
        let those = (does, file, from)..=(does, file, Ticket(u64::MAX));
        let first = self.of_files.range(those).next();
        first.map(|&(_, _, ticket)| ticket)
    }
}

fn done_with(job: &Job) -> impl Iterator<Item = (Does, FileId)> + '_ {
    let (one, many) = match job {
        Job::Open(open) if open.write => (Some((Does::OpensToWrite, open.file)), &[][..]),
        Job::Truncate { file, .. } => (Some((Does::Truncates, *file)), &[][..]),
        Job::Leave(leave) => (None, leave.wanted()),
        _ => (None, &[][..]),
    };
    let many = many.iter().map(|&file| (Does::SeeksLeave, file));
    one.into_iter().chain(many)
}

/// Messages in flight by number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct InFlight {
    all: BTreeMap<u64, Pending>,
    of_files: BTreeSet<(FileId, u64)>,
}

impl Deref for InFlight {
    type Target = BTreeMap<u64, Pending>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl InFlight {
    pub(super) fn insert(&mut self, number: u64, pending: Pending) {
        self.remove(number);
        self.of_files.insert((pending.file, number));
        self.all.insert(number, pending);
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Pending> {
        let pending = self.all.remove(&number)?;
        self.of_files.remove(&(pending.file, number));
        Some(pending)
    }

    /// Some are about the file.
    pub(super) fn are_of(&self, file: FileId) -> bool {
        self.of(file).next().is_some()
    }

    /// No answer is awaited any more of those about a file that are for such ends.
    pub(super) fn give_up(&mut self, file: FileId, which: impl Fn(What) -> bool) {
        let given_up = |number: &u64| self.all.get(number).is_some_and(|one| which(one.what));
        let numbers: Vec<u64> = self.of(file).filter(given_up).collect();
        for number in numbers {
            self.remove(number);
        }
    }

    fn of(&self, file: FileId) -> impl Iterator<Item = u64> + '_ {
        let those = self.of_files.range((file, 0)..=(file, u64::MAX));
        those.map(|&(_, number)| number)
    }
}
