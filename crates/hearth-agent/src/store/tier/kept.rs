//! One file of a tier.
//!
//! K1: bytes that the store lacks are never overwritten where they lie (see [`Place`]), so whenever
//! the agent dies the journal names bytes that are there.
//! K2: bytes are answered only if their checksum holds; else from the store, if it has them, or not.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Instant;

use hearth_client::{Errno, FileStamp};

use super::block::{BLOCK, Block, Place, Stand, crc_of, pieces};
use super::journal::Record;
use super::shelf::Shelf;

/// The part of one file that is here.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) ino: u64,
    /// Its path in the store, relative to the root.
    pub(super) path: PathBuf,
    /// A descriptor of it in the store that may be written.
    pub(super) store: Option<OwnedFd>,
    pub(super) blocks: BTreeMap<u64, Block>,
    /// The store's stamp of the file when the store last had all of it.
    pub(super) stamp: Option<FileStamp>,
    /// Any write since then has left another stamp.
    pub(super) is_sure: bool,
    /// Since when it is to be asked for again.
    pub(super) told: Option<Instant>,
    /// Bytes may be on their way to the store.
    pub(super) is_open: bool,
    /// Bytes were found to be lost, and nobody has been told by an error.
    pub(super) is_untold: bool,
    /// Copies are known to be what the store has.
    pub(super) is_verified: bool,
    /// A settlement has failed: nothing goes to the store at leisure until the next one.
    pub(super) is_held: bool,
    /// Since when the store lacks something.
    pub(super) since: Option<Instant>,
    /// The last run that was written, as far as the disk has not been told to take it.
    pub(super) run: (Place, Range<u64>),
    /// When it was last used; larger is later.
    pub(super) used: u64,
}

/// Blocks that follow one another, and the writes that bring them to the store.
pub(super) struct Run {
    /// Each block, and what it was when it was read.
    blocks: Vec<(u64, Block)>,
    pub(super) writes: Vec<(u64, Vec<u8>)>,
}

/// A block cannot be read as it was written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// The store has the bytes too.
    Copy,
    /// Nobody else has them.
    Only,
}

const EIO: Errno = Errno(hearth_proto::errno::EIO);

impl Run {
    fn add(&mut self, offset: u64, bytes: &[u8]) {
        match self.writes.last_mut() {
            Some((at, last)) if *at + last.len() as u64 == offset => last.extend(bytes),
            Some(_) | None => self.writes.push((offset, bytes.to_vec())),
        }
    }
}

impl Kept {
    /// True if the store lacks something.
    pub(super) fn is_dirty(&self) -> bool {
        self.blocks.values().any(|block| match block.stand {
            Stand::Dirty | Stand::Written | Stand::Lost => true,
            Stand::Clean => false,
        })
    }

    /// True if something is to go to the store, or to be synced there.
    pub(super) fn is_waiting(&self) -> bool {
        let waits = |block: &Block| matches!(block.stand, Stand::Dirty | Stand::Written);
        self.blocks.values().any(waits)
    }

    /// Bytes that the store lacks.
    pub(super) fn dirty_bytes(&self) -> u64 {
        let dirty = self.blocks.values();
        let dirty = dirty.filter(|block| matches!(block.stand, Stand::Dirty | Stand::Lost));
        dirty.map(|block| u64::from(block.valid.bytes())).sum()
    }

    /// Runs of bytes that are here and not lost.
    pub(super) fn held(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let whole = |(_, block): &(_, &Block)| block.stand != Stand::Lost;
        self.blocks
            .iter()
            .filter(whole)
            .flat_map(|(number, block)| {
                let start = number * BLOCK as u64;
                let runs = block.valid.iter();
                runs.map(move |(from, to)| (start + u64::from(from), start + u64::from(to)))
            })
    }

    /// Takes written bytes in. Fails without a trace if there is no room or the tier refuses.
    pub(super) fn put(&mut self, shelf: &Shelf, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let new = pieces(offset, bytes.len());
        let new = new.filter(|(number, ..)| !self.blocks.contains_key(number));
        let room = new.count() as u64 * BLOCK as u64;
        if !shelf.reserve(room) {
            return Err(io::Error::from_raw_os_error(
                rustix::io::Errno::NOSPC.raw_os_error(),
            ));
        }
        let put = self.put_blocks(shelf, offset, bytes);
        if put.is_err() {
            shelf.release(room);
        }
        put
    }

    fn put_blocks(&mut self, shelf: &Shelf, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut records = Vec::new();
        if self.blocks.is_empty() {
            records.push(Record::File {
                ino: self.ino,
                path: self.path.clone(),
            });
            records.extend(self.stamp.map(|stamp| self.closes(stamp)));
        }
        let mut blocks = Vec::new();
        let mut runs: Vec<(Place, u64, usize, usize)> = Vec::new();
        let mut done = 0;
        for (number, at, len) in pieces(offset, bytes.len()) {
            let new = &bytes[done..done + len];
            let (block, in_place) = self.block_with(shelf, number, at, new)?;
            match runs.last_mut() {
                _ if !in_place => {}
                Some((place, _, _, end)) if *place == block.place && *end == done => *end += len,
                Some(_) | None => {
                    runs.push((block.place, offset + done as u64, done, done + len));
                }
            }
            blocks.push((number, block));
            done += len;
        }
        for (place, at, start, end) in runs {
            shelf.write(self.ino, place, at, &bytes[start..end])?;
            self.note_run(shelf, place, at..at + (end - start) as u64);
        }
        let ino = self.ino;
        records.extend(blocks.iter().map(|(number, block)| Record::Block {
            ino,
            number: *number,
            block: block.clone(),
        }));
        shelf.journal().append(&records)?;
        for (number, block) in blocks {
            let place = block.place;
            let before = self.blocks.insert(number, block);
            if let Some(before) = before.filter(|before| before.place != place) {
                shelf.punch(self.ino, before.place, number);
            }
        }
        self.since.get_or_insert_with(Instant::now);
        self.is_verified = true;
        Ok(())
    }

    /// A run was written. Writes that follow one another are one, however the program's were cut on their way here.
    fn note_run(&mut self, shelf: &Shelf, place: Place, new: Range<u64>) {
        let (last_place, last) = &mut self.run;
        *last = match (*last_place, last.end) == (place, new.start) {
            true => last.start..new.end,
            false => new,
        };
        *last_place = place;
        if shelf.begin_sync(self.ino, place, last) {
            *last = last.end..last.end;
        }
    }

    /// A block with new bytes at `at`, and whether they are all that is to be written of it; else it has been written.
    fn block_with(
        &mut self,
        shelf: &Shelf,
        number: u64,
        at: usize,
        new: &[u8],
    ) -> io::Result<(Block, bool)> {
        let end = at + new.len();
        let whole = new.len() == BLOCK;
        let fresh = |place, bytes: &[u8]| {
            let mut block = Block {
                place,
                stand: Stand::Dirty,
                valid: hearth_proto::ranges::Ranges::default(),
                crc: crc32c::crc32c(bytes),
            };
            block.valid.insert(at as u32, end as u32);
            block
        };
        let Some(old) = self.blocks.get(&number).cloned() else {
            return Ok((fresh(Place::Main, new), true));
        };
        if whole || old.stand == Stand::Clean && old.valid.bytes() as usize <= new.len() {
            return Ok((fresh(old.place.other(), new), true));
        }
        let mut bytes = self
            .load(shelf, number)?
            .map_err(|_| io::Error::from_raw_os_error(EIO.0))?;
        bytes[at..end].copy_from_slice(new);
        let mut valid = old.valid.clone();
        let added = valid.insert(at as u32, end as u32) as usize;
        let apart = added == new.len();
        let block = Block {
            place: if apart { old.place } else { old.place.other() },
            stand: Stand::Dirty,
            crc: crc_of(&valid, &bytes),
            valid,
        };
        if !apart {
            let start = number * BLOCK as u64;
            for (from, to) in block.valid.iter() {
                let part = &bytes[from as usize..to as usize];
                shelf.write(self.ino, block.place, start + u64::from(from), part)?;
            }
        }
        Ok((block, apart))
    }

    /// The bytes of a block, each in its place, if they are what was written (K2).
    pub(super) fn load(&mut self, shelf: &Shelf, number: u64) -> io::Result<Result<Vec<u8>, Bad>> {
        let Some(block) = self.blocks.get(&number) else {
            return Ok(Err(Bad::Copy));
        };
        let mut bytes = vec![0; BLOCK];
        let (from, to) = block.span();
        let start = number * BLOCK as u64 + from as u64;
        let read = shelf.read(self.ino, block.place, start, &mut bytes[from..to]);
        if read.is_ok() && block.stand != Stand::Lost && block.is_true(&bytes) {
            return Ok(Ok(bytes));
        }
        match block.stand {
            Stand::Clean | Stand::Written => {
                self.drop_one(shelf, number);
                Ok(Err(Bad::Copy))
            }
            Stand::Dirty | Stand::Lost => {
                self.is_untold |= block.stand == Stand::Dirty;
                self.stand(shelf, number, 1, Stand::Lost);
                Ok(Err(Bad::Only))
            }
        }
    }

    /// Lays what is here of `offset..offset + len` over what the store has of it.
    ///
    /// `base` reads the store, and is not called if all of it is here.
    pub(super) fn read(
        &mut self,
        shelf: &Shelf,
        (offset, len): (u64, usize),
        base: impl FnOnce() -> Result<Vec<u8>, Errno>,
    ) -> Result<Vec<u8>, Errno> {
        let mut found = Vec::new();
        let mut complete = true;
        for (number, at, count) in pieces(offset, len) {
            let Some(valid) = self.blocks.get(&number).map(|block| block.valid.clone()) else {
                complete = false;
                continue;
            };
            let overlaps =
                |&(start, end): &(u32, u32)| (start as usize) < at + count && at < end as usize;
            if !valid.iter().any(|range| overlaps(&range)) {
                complete = false;
                continue;
            }
            match self.load(shelf, number).map_err(|error| errno(&error))? {
                Ok(bytes) => {
                    complete &= valid.covers(at as u32, (at + count) as u32);
                    found.push((number, valid, bytes));
                }
                Err(Bad::Copy) => complete = false,
                Err(Bad::Only) => return Err(EIO),
            }
        }
        let mut bytes = if complete { vec![0; len] } else { base()? };
        for (number, valid, block) in found {
            let start = number * BLOCK as u64;
            for (from, to) in valid.iter() {
                let from = (start + u64::from(from)).max(offset);
                let to = (start + u64::from(to)).min(offset + len as u64);
                if from < to {
                    lay(
                        &mut bytes,
                        (from - offset) as usize,
                        &block[(from - start) as usize..(to - start) as usize],
                    );
                }
            }
        }
        Ok(bytes)
    }

    /// The first dirty blocks that follow one another, until they are `most` bytes.
    pub(super) fn next_run(&mut self, shelf: &Shelf, most: usize) -> Result<Option<Run>, Errno> {
        let is_dirty = |block: &Block| block.stand == Stand::Dirty;
        let mut dirty = self.blocks.iter().filter(|(_, block)| is_dirty(block));
        let Some((&first, _)) = dirty.next() else {
            return Ok(None);
        };
        let mut run = Run {
            blocks: Vec::new(),
            writes: Vec::new(),
        };
        let mut bytes = 0;
        for number in first.. {
            let block = self.blocks.get(&number).cloned();
            let Some(block) = block.filter(|block| is_dirty(block) && bytes < most) else {
                break;
            };
            let loaded = self.load(shelf, number).map_err(|error| errno(&error))?;
            let Ok(content) = loaded else { break };
            let start = number * BLOCK as u64;
            for (from, to) in block.valid.iter() {
                run.add(
                    start + u64::from(from),
                    &content[from as usize..to as usize],
                );
            }
            bytes += block.valid.bytes() as usize;
            run.blocks.push((number, block));
        }
        // A block that was left out is marked lost, and is not met again.
        if run.blocks.is_empty() {
            Err(EIO)
        } else {
            Ok(Some(run))
        }
    }

    /// The store has taken a run; blocks that have been written anew meanwhile are still dirty.
    pub(super) fn taken(&mut self, shelf: &Shelf, run: &Run) {
        let (ino, stand) = (self.ino, Stand::Written);
        let mut records = Vec::new();
        for (number, before) in &run.blocks {
            if let Some(block) = self.blocks.get_mut(number).filter(|block| *block == before) {
                block.stand = stand;
                records.push(Record::Stands {
                    ino,
                    first: *number,
                    count: 1,
                    stand,
                });
            }
        }
        shelf.note(&records);
    }

    /// Blocks stand so from now on.
    pub(super) fn stand(&mut self, shelf: &Shelf, first: u64, count: u64, stand: Stand) {
        for (_, block) in self.blocks.range_mut(first..first + count) {
            block.stand = stand;
        }
        let ino = self.ino;
        shelf.note(&[Record::Stands {
            ino,
            first,
            count,
            stand,
        }]);
    }

    /// The store has all that it was given: what was written is a copy now.
    pub(super) fn settle(&mut self, shelf: &Shelf, stamp: FileStamp, durable: Durable) {
        let ino = self.ino;
        let mut records = Vec::new();
        if durable == Durable::Yes {
            for (&number, block) in &mut self.blocks {
                if block.stand == Stand::Written {
                    block.stand = Stand::Clean;
                    records.push(Record::Stands {
                        ino,
                        first: number,
                        count: 1,
                        stand: Stand::Clean,
                    });
                }
            }
        }
        self.since = self.since.filter(|_| self.is_waiting());
        records.push(match self.stamp == Some(stamp) && !self.is_open {
            true => self.closes(stamp),
            false => self.is_told(stamp),
        });
        shelf.note(&records);
    }

    /// Bytes that the store was given and has not synced go there once more.
    pub(super) fn write_again(&mut self) {
        for block in self.blocks.values_mut() {
            if block.stand == Stand::Written {
                block.stand = Stand::Dirty;
            }
        }
    }

    /// All that the journal has to say of the file.
    pub(super) fn records(&self) -> Vec<Record> {
        let ino = self.ino;
        let path = self.path.clone();
        let mut records = vec![Record::File { ino, path }];
        records.extend(self.stamp.map(|stamp| self.closes(stamp)));
        records.extend(self.is_open.then_some(Record::Opens { ino }));
        records.extend(self.blocks.iter().map(|(&number, block)| Record::Block {
            ino,
            number,
            block: block.clone(),
        }));
        records
    }

    /// A block is not wanted any more.
    pub(super) fn drop_one(&mut self, shelf: &Shelf, number: u64) {
        let Some(block) = self.blocks.remove(&number) else {
            return;
        };
        shelf.release(BLOCK as u64);
        let ino = self.ino;
        shelf.note(&[Record::DropsOne { ino, number }]);
        shelf.punch(ino, block.place, number);
    }

    /// Bytes went to the store past the tier: its own copies of them are void. Of a block that is lost
    /// the rest stays lost: what the store has there is older.
    pub(super) fn passed(&mut self, shelf: &Shelf, offset: u64, len: usize) {
        for (number, at, len) in pieces(offset, len) {
            let Some(block) = self.blocks.get_mut(&number) else {
                continue;
            };
            if block.stand != Stand::Lost {
                self.drop_one(shelf, number);
                continue;
            }
            let (from, to) = (at as u32, (at + len) as u32);
            let old = block.valid.take();
            for (start, end) in old.iter() {
                block.valid.insert(start, end.min(from));
                block.valid.insert(start.max(to), end);
            }
            let (ino, block) = (self.ino, block.clone());
            if block.valid.is_empty() {
                self.drop_one(shelf, number);
            } else {
                shelf.note(&[Record::Block { ino, number, block }]);
            }
        }
    }

    /// Drops blocks that `which` names.
    pub(super) fn drop_where(&mut self, shelf: &Shelf, which: impl Fn(u64, &Block) -> bool) {
        let named = self.blocks.iter();
        let named = named.filter(|(number, block)| which(**number, block));
        let numbers: Vec<u64> = named.map(|(&number, _)| number).collect();
        if numbers.len() == self.blocks.len() && !numbers.is_empty() {
            shelf.release(numbers.len() as u64 * BLOCK as u64);
            self.blocks.clear();
            shelf.note(&[Record::Drops { ino: self.ino }]);
            shelf.remove(self.ino);
        } else {
            numbers
                .into_iter()
                .for_each(|number| self.drop_one(shelf, number));
        }
        self.since = self.since.filter(|_| self.is_waiting());
    }
}

/// Whether the store has made bytes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durable {
    Yes,
    NotYet,
}

fn lay(bytes: &mut Vec<u8>, at: usize, part: &[u8]) {
    if bytes.len() < at + part.len() {
        bytes.resize(at + part.len(), 0);
    }
    bytes[at..at + part.len()].copy_from_slice(part);
}

pub(super) fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(EIO, Errno)
}
