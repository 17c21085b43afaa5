//! Programs at every agent, and what they may find.
//!
//! Each block of a file is a cell: even ones write the program at the file's own agent, which is its home as a rule,
//! odd ones the program at the next. A write that returned is *acknowledged*, or under `erasure` one that was closed
//! ([`super::closing`]). If others have what a home has, no read that begins later and no look at the store may
//! find an older version, whichever agent died. A program whose call fails opens its file again.

use crate::bench::cells::{BLOCK, Cell, Dice, Wrong, filled, in_store, version_of};
use hearth_set::failure::{Failure, OrFail};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Blocks of a file. Two are a page, so pages have two writers.
pub(super) const BLOCKS: usize = 16;

/// Before a program whose agent is away tries again.
const PAUSE: Duration = Duration::from_millis(5);

/// Results of the load.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) reads: u64,
    pub(super) writes: u64,
    /// Closes that acknowledged something.
    pub(super) closes: u64,
    /// Calls that failed.
    pub(super) refused: u64,
    /// Acknowledged cells of which the store has an older version.
    pub(super) lost: u64,
    pub(super) wrong: Wrong,
}

impl Found {
    pub(super) fn add(&mut self, other: Found) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.closes += other.closes;
        self.refused += other.refused;
        self.lost += other.lost;
        self.wrong.join(other.wrong);
    }
}

/// All cells of a set, and the checker.
#[derive(Default)]
pub(super) struct Board {
    /// Those of a file for each agent.
    cells: Vec<[Cell; BLOCKS]>,
    /// Nothing that was acknowledged may be missed.
    strict: bool,
    /// How often each agent was killed.
    lives: Vec<AtomicU64>,
    done: AtomicU64,
    found: Mutex<Found>,
}

impl Board {
    pub(super) fn new(agents: usize, strict: bool) -> Board {
        Board {
            cells: (0..agents).map(|_| Default::default()).collect(),
            lives: (0..agents).map(|_| AtomicU64::new(0)).collect(),
            strict,
            ..Board::default()
        }
    }

    /// Makes the files, each at its own agent.
    pub(super) fn lay_out(
        &self,
        point: impl Fn(usize) -> std::path::PathBuf,
    ) -> Result<(), Failure> {
        let make = |file| std::fs::write(point(file).join(name(file)), vec![0; BLOCKS * BLOCK]);
        self.files()
            .try_for_each(make)
            .or_fail(|| "cannot make the files".to_owned())
    }

    pub(super) fn files(&self) -> Range<usize> {
        0..self.cells.len()
    }

    pub(super) fn cell(&self, file: usize, block: usize) -> &Cell {
        &self.cells[file][block]
    }

    /// The file that a hand is to write as the other of its two.
    pub(super) fn before(&self, hand: usize) -> usize {
        let files = self.cells.len();
        (hand + files - 1) % files
    }

    pub(super) fn life(&self, agent: usize) -> u64 {
        self.lives[agent].load(Ordering::SeqCst)
    }

    /// An agent is about to die. From then on its operating system may tell what it kept: nobody calls that back.
    pub(super) fn ends_life(&self, agent: usize) {
        self.lives[agent].fetch_add(1, Ordering::SeqCst);
    }

    /// Reads and writes that returned.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Results since the last call of this.
    pub(super) fn take_found(&self) -> Found {
        std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The program at one agent, until it is told to end.
    pub(super) fn work(&self, over: &AtomicBool, at: &Path, hand: usize, seed: u64) {
        let mut dice = Dice::new(seed.wrapping_mul(31).wrapping_add(hand as u64));
        let mut files: Vec<Option<File>> = self.files().map(|_| None).collect();
        let mut life = self.life(hand);
        while !over.load(Ordering::Relaxed) {
            let now = self.life(hand);
            if now != life {
                files.fill_with(|| None);
                life = now;
            }
            let (block, kind) = (dice.roll(BLOCKS / 2), dice.roll(16));
            let file = match kind {
                0..6 => hand,
                6..9 => self.before(hand),
                _ => dice.roll(files.len()),
            };
            let done = open(&mut files[file], at, file).and_then(|open| match kind {
                0..6 => self.write(open, file, 2 * block),
                6..9 => self.write(open, file, 2 * block + 1),
                9 => open.sync_data(),
                _ => self.read(open, (hand, life, file), 2 * block + kind % 2),
            });
            if !self.went_well(&done) {
                files[file] = None;
            }
        }
    }

    /// Counts a call; after one that failed it takes a moment.
    pub(super) fn went_well<T>(&self, done: &io::Result<T>) -> bool {
        if done.is_ok() {
            self.done.fetch_add(1, Ordering::Relaxed);
        } else {
            self.note(|found| found.refused += 1);
            thread::park_timeout(PAUSE);
        }
        done.is_ok()
    }

    fn write(&self, open: &File, file: usize, block: usize) -> io::Result<()> {
        let version = self.put(open, file, block)?;
        self.cells[file][block].end(version);
        Ok(())
    }

    /// Writes the next version of a block, and acknowledges nothing.
    pub(super) fn put(&self, open: &File, file: usize, block: usize) -> io::Result<u64> {
        let version = self.cells[file][block].begin();
        open.write_all_at(&filled(version), (block * BLOCK) as u64)?;
        self.note(|found| found.writes += 1);
        Ok(version)
    }

    /// Reads a block of a file in a life of a hand's agent, and looks at what that found.
    pub(super) fn read(
        &self,
        open: &File,
        (hand, life, file): (usize, u64, usize),
        block: usize,
    ) -> io::Result<()> {
        let cell = &self.cells[file][block];
        let least = cell.least();
        let mut bytes = [0; BLOCK];
        open.read_exact_at(&mut bytes, (block * BLOCK) as u64)?;
        let most = cell.most();
        if self.life(hand) != life {
            return Err(io::Error::other("the agent is gone"));
        }
        self.note(|found| found.reads += 1);
        let found = version_of(&bytes);
        let right = found.is_some_and(|version| (least..=most).contains(&version));
        if !right && self.strict {
            self.wrong(format!(
                "a read at agent {hand} of block {block} of {}: {}, though {least} was acknowledged and {most} was the last",
                name(file),
                words(found)
            ));
        }
        Ok(())
    }

    /// Looks for what was acknowledged in the store itself.
    pub(super) fn look_into(&self, store: &Path) -> Result<(), Failure> {
        for (file, cells) in self.cells.iter().enumerate() {
            let versions = in_store(store, &name(file), BLOCKS)?;
            for (block, (cell, found)) in cells.iter().zip(versions).enumerate() {
                self.look_at((file, block), cell, found);
            }
        }
        Ok(())
    }

    fn look_at(&self, (file, block): (usize, usize), cell: &Cell, found: Option<u64>) {
        let least = cell.least();
        let most = cell.most();
        if found.is_none_or(|version| version < least) {
            self.note(|found| found.lost += 1);
        }
        let right = found.is_some_and(|version| (least..=most).contains(&version));
        if !right && self.strict {
            self.wrong(format!(
                "block {block} of {} in the store: {}, though {least} was acknowledged and {most} was the last",
                name(file),
                words(found)
            ));
        }
        cell.give_up(found.unwrap_or(0));
    }

    pub(super) fn wrong(&self, line: String) {
        self.note(|found| found.wrong.add(line));
    }

    pub(super) fn note(&self, note: impl FnOnce(&mut Found)) {
        note(&mut self.found.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A file whose manager is gone can be read and not written (S13): what is written through the handle fails, and then it is
/// opened anew.
fn open<'a>(file: &'a mut Option<File>, at: &Path, number: usize) -> io::Result<&'a File> {
    match file {
        Some(open) => Ok(open),
        None => {
            let path = at.join(name(number));
            let both = File::options().read(true).write(true).open(&path);
            let open = both.or_else(|error| match error.raw_os_error() {
                Some(code) if code == Errno::HOSTDOWN.raw_os_error() => File::open(&path),
                _ => Err(error),
            })?;
            Ok(file.insert(open))
        }
    }
}

pub(super) fn name(file: usize) -> String {
    format!("cells-{file}")
}

fn words(version: Option<u64>) -> String {
    version.map_or("torn or not there".to_owned(), |version| {
        format!("version {version}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checker_fires_on_what_is_missed_and_counts_it_where_that_is_allowed() {
        for (strict, wrong) in [(true, 2), (false, 0)] {
            let board = Board::new(3, strict);
            let cell = Cell::default();
            for _ in 0..5 {
                cell.begin();
            }
            for (found, lost) in [(Some(3), 0), (Some(2), 1), (Some(5), 0), (None, 1)] {
                cell.give_up(3);
                board.look_at((0, 0), &cell, found);
                let found = board
                    .found
                    .lock()
                    .map_or(0, |mut found| std::mem::take(&mut found.lost));
                assert_eq!(found, lost);
            }
            assert_eq!(board.take_found().wrong.count, wrong);
        }
    }
}
