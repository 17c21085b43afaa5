//! Going through a queue with one rule for the next file: Algorithm 2.
//!
//! While one read is being served the next one is looked at: if its file is not in memory it is
//! fetched, after victims have made room, or passes by. A victim may be the very file that is being
//! read, as in the paper's own example: then it goes, and the new one comes, when that read is over.

use alloc::vec;
use alloc::vec::Vec;

use super::victims::{self, IncomingFile, Memory, Resident};
use super::{Queue, Tally};
use crate::units::{Bytes, FileId};

/// How victims are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// As printed, with its faults.
    Literal,
    /// As it was meant.
    Paper,
    /// The cheapest victims.
    Covering,
}

/// The source that served a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The node's memory.
    Memory,
    /// The disk, or whatever lies behind.
    Disk,
}

/// One read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its place in the queue.
    pub at: usize,
    /// The file that was read.
    pub file: FileId,
    /// From where.
    pub source: Source,
}

/// Serves a queue, read by read.
#[derive(Clone, Debug)]
pub struct Follower<'a> {
    queue: &'a Queue,
    capacity: Bytes,
    rule: Rule,
    at: usize,
    /// In the order in which they came.
    held: Vec<FileId>,
    is_held: Vec<bool>,
    /// Reads of each file from `at` on.
    references: Vec<usize>,
}

impl<'a> Follower<'a> {
    /// Before the first read, with nothing in memory.
    pub fn new(queue: &'a Queue, capacity: Bytes, rule: Rule) -> Follower<'a> {
        Follower {
            queue,
            capacity,
            rule,
            at: 0,
            held: Vec::new(),
            is_held: vec![false; queue.files()],
            references: queue.references(),
        }
    }

    /// The files in memory now.
    pub fn held(&self) -> &[FileId] {
        &self.held
    }

    /// Serves all reads that are left.
    pub fn tally(self) -> Tally {
        let queue = self.queue;
        self.fold(Tally::default(), |mut tally, step| {
            let size = queue.size(step.file);
            match step.source {
                Source::Memory => tally.memory += size,
                Source::Disk => tally.disk += size,
            }
            tally
        })
    }

    /// Victims for the file that is read next, or `None` if it passes by.
    fn victims(&self, file: FileId) -> Option<Vec<FileId>> {
        let later = self.references[file.index()] - 1;
        let wanted = IncomingFile {
            size: self.queue.size(file),
            references: later,
        };
        let residents = self.residents();
        let memory = Memory {
            capacity: self.capacity,
            residents: &residents,
            pinned: None,
        };
        match self.rule {
            Rule::Literal if later > 0 => victims::literal(memory, wanted),
            Rule::Paper if later > 0 => victims::paper(memory, wanted),
            Rule::Literal | Rule::Paper => None,
            Rule::Covering => victims::covering(memory, wanted),
        }
    }

    fn residents(&self) -> Vec<Resident> {
        let held = self.held.iter().map(|file| Resident {
            file: *file,
            size: self.queue.size(*file),
            references: self.references[file.index()],
            dirty: Bytes::ZERO,
        });
        held.collect()
    }

    fn fetch(&mut self, file: FileId, victims: &[FileId]) {
        for victim in victims {
            self.is_held[victim.index()] = false;
        }
        self.held.retain(|held| self.is_held[held.index()]);
        self.is_held[file.index()] = true;
        self.held.push(file);
    }
}

impl Iterator for Follower<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.at == self.queue.len() {
            return None;
        }
        let (at, file) = (self.at, self.queue.file(self.at));
        let source = if self.is_held[file.index()] {
            Source::Memory
        } else {
            if let Some(victims) = self.victims(file) {
                self.fetch(file, &victims);
            }
            Source::Disk
        };
        self.references[file.index()] -= 1;
        self.at += 1;
        Some(Step { at, file, source })
    }
}
