//! Programs that write files and close them. A close that returned 0 acknowledges what was written through the
//! descriptor, and so does a sync; one that failed acknowledges nothing, nor what a sync that failed has told of (S13).

use super::load::{BLOCKS, Board, name};
use crate::bench::cells::Dice;
use crate::sys;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// A program at one agent.
struct Hand<'a> {
    board: &'a Board,
    number: usize,
    /// The life of the agent in which the readers were opened.
    life: u64,
    at: &'a Path,
    /// For each file: one descriptor, so that to close it is to close the last of this node that can write.
    writers: Vec<Option<Writer>>,
    readers: Vec<Option<File>>,
}

/// A file that is open for writing.
struct Writer {
    file: File,
    /// Blocks and versions that nothing has acknowledged.
    written: Vec<(usize, u64)>,
}

impl Board {
    /// The program at one agent, until it is told to end; then it closes what it has open.
    pub(super) fn work_closing(&self, over: &AtomicBool, at: &Path, number: usize, seed: u64) {
        let mut dice = Dice::new(seed.wrapping_mul(31).wrapping_add(number as u64));
        let mut hand = Hand {
            board: self,
            number,
            life: self.life(number),
            at,
            writers: self.files().map(|_| None).collect(),
            readers: self.files().map(|_| None).collect(),
        };
        let (own, other) = (number, self.before(number));
        while !over.load(Ordering::Relaxed) {
            let (block, kind) = (dice.roll(BLOCKS / 2), dice.roll(16));
            hand.begin_life();
            match kind {
                0..5 => hand.write(own, 2 * block),
                5..7 => hand.write(other, 2 * block + 1),
                7 => hand.sync(own),
                8 | 9 => hand.close(own),
                10 => hand.close(other),
                _ => hand.read(dice.roll(hand.readers.len()), 2 * block + kind % 2),
            }
        }
        self.files().for_each(|file| hand.close(file));
    }
}

impl Hand<'_> {
    /// Drops readers that were opened through an agent that is gone.
    fn begin_life(&mut self) {
        let life = self.board.life(self.number);
        if life != self.life {
            self.readers.fill_with(|| None);
            self.life = life;
        }
    }

    fn write(&mut self, file: usize, block: usize) {
        let put = self.writer(file).and_then(|()| {
            let writer = self.writers[file].as_mut().expect("it was just opened");
            let version = self.board.put(&writer.file, file, block)?;
            writer.written.push((block, version));
            Ok(())
        });
        if !self.board.went_well(&put) {
            self.close(file);
        }
    }

    fn writer(&mut self, file: usize) -> io::Result<()> {
        if self.writers[file].is_none() {
            let mut options = File::options();
            let file_there = options
                .read(true)
                .write(true)
                .open(self.at.join(name(file)))?;
            self.writers[file] = Some(Writer {
                file: file_there,
                written: Vec::new(),
            });
        }
        Ok(())
    }

    fn sync(&mut self, file: usize) {
        let Some(writer) = &mut self.writers[file] else {
            return;
        };
        let synced = writer.file.sync_data();
        let written = std::mem::take(&mut writer.written);
        if self.board.went_well(&synced) {
            self.acknowledged(file, &written);
        }
    }

    fn close(&mut self, file: usize) {
        let Some(writer) = self.writers[file].take() else {
            return;
        };
        let closed = sys::close(writer.file);
        if self.board.went_well(&closed) && !writer.written.is_empty() {
            self.acknowledged(file, &writer.written);
            self.board.note(|found| found.closes += 1);
        }
    }

    fn acknowledged(&self, file: usize, written: &[(usize, u64)]) {
        for &(block, version) in written {
            self.board.cell(file, block).end(version);
        }
    }

    fn read(&mut self, file: usize, block: usize) {
        let at = (self.number, self.life, file);
        let read = match &mut self.readers[file] {
            Some(open) => self.board.read(open, at, block),
            none => File::open(self.at.join(name(file)))
                .and_then(|open| self.board.read(none.insert(open), at, block)),
        };
        if !self.board.went_well(&read) {
            self.readers[file] = None;
        }
    }
}
