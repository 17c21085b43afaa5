//! Going through a queue with one rule for the next file: Algorithm 2.
//!
//! While one read is being served the next one is looked at: if its file is not in memory it is
//! fetched, after victims have made room, or passes by. A victim may be the very file that is being
//! read, as in the paper's own example: then it goes, and the new one comes, when that read is over.

use alloc::vec;
use alloc::vec::Vec;

use super::victims::{self, EvictionCandidate, IncomingFile, Memory};
use super::{Queue, ServedBytes};
use crate::units::{Bytes, FileIndex};

/// How victims are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimRule {
    /// As printed, with its faults.
    Literal,
    /// As it was meant.
    Paper,
    /// The cheapest victims.
    Covering,
}

/// The source that served a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedFrom {
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
    pub file: FileIndex,
    /// From where.
    pub source: ServedFrom,
}

/// Serves a queue, read by read.
#[derive(Clone, Debug)]
pub struct Follower<'a> {
    queue: &'a Queue,
    capacity: Bytes,
    rule: VictimRule,
    at: usize,
    /// In the order in which they came.
    held: Vec<FileIndex>,
    is_held: Vec<bool>,
    /// Reads of each file from `at` on.
    references: Vec<usize>,
}

impl<'a> Follower<'a> {
    /// Before the first read, with nothing in memory.
    pub fn new(queue: &'a Queue, capacity: Bytes, rule: VictimRule) -> Follower<'a> {
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
    pub fn held(&self) -> &[FileIndex] {
        &self.held
    }

    /// Serves all reads that are left.
    pub fn tally(self) -> ServedBytes {
        let queue = self.queue;
        self.fold(ServedBytes::default(), |mut tally, step| {
            let size = queue.size(step.file);
            match step.source {
                ServedFrom::Memory => tally.memory += size,
                ServedFrom::Disk => tally.disk += size,
            }
            tally
        })
    }

    /// Victims for the file that is read next, or `None` if it passes by.
    fn victims(&self, file: FileIndex) -> Option<Vec<FileIndex>> {
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
            VictimRule::Literal if later > 0 => victims::literal(memory, wanted),
            VictimRule::Paper if later > 0 => victims::paper(memory, wanted),
            VictimRule::Literal | VictimRule::Paper => None,
            VictimRule::Covering => victims::covering(memory, wanted),
        }
    }

    fn residents(&self) -> Vec<EvictionCandidate> {
        let held = self.held.iter().map(|file| EvictionCandidate {
            file: *file,
            size: self.queue.size(*file),
            references: self.references[file.index()],
            dirty: Bytes::ZERO,
        });
        held.collect()
    }

    fn fetch(&mut self, file: FileIndex, victims: &[FileIndex]) {
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
            ServedFrom::Memory
        } else {
            if let Some(victims) = self.victims(file) {
                self.fetch(file, &victims);
            }
            ServedFrom::Disk
        };
        self.references[file.index()] -= 1;
        self.at += 1;
        Some(Step { at, file, source })
    }
}
