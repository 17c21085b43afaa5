//! The reading side of all areas of a directory: finds them, hands out what is in them, and clears
//! away those whose process is gone.
//!
//! Invariants:
//! - DRAIN-1: an area has one drain, which holds a lock on its file.
//! - DRAIN-2: nothing in an area is trusted: sizes are checked against the file before it is mapped, and
//!   everything else is only a number.
//! - DRAIN-3: places are given back after the sink has taken what was in them; a file is removed after the
//!   sink has heard its end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::FlockOperation;

use super::attach::{AreaState, Facts, Here, Process, is_whole, map};
use super::layout::slot as state;
use super::map::Mapping;
use super::names::{self, Name};
use super::producer::WhenFull;
use super::stream::{Account, Reader};
use super::totals::Totals;
use crate::Record;
use crate::area::{self, AreaName, DirectoryError};

/// One area, as long as this drain lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AreaId(pub u32);

/// One thread of one area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamKey {
    /// The area of its process.
    pub area: AreaId,
    /// Its slot, which threads use one after another.
    pub slot: u32,
    /// Which of them it is.
    pub generation: u32,
    /// Its number in the operating system.
    pub tid: u32,
}

/// The facts known at the end of an area, beside the accounts of its streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Attempts that found no ring, by operation: all of them dropped.
    pub unringed: Totals,
    /// Of these, made by a signal handler inside another record or before the area was there.
    pub nested: u64,
    /// Of these, made by threads beyond the slots.
    pub beyond: u64,
    /// Of these, made by threads for whose ring there was no memory.
    pub unbacked: u64,
    /// Names that found no room.
    pub names_lost: u64,
    /// Names that made no sense.
    pub names_bad: u64,
}

/// The receiver of a drain's finds. An error ends the pass; all that was not taken comes again.
pub trait Sink {
    /// Why something cannot be taken.
    type Error;

    /// An area was found.
    fn began(&mut self, area: AreaId, facts: &Facts) -> Result<(), Self::Error>;

    /// The process of an area named something. May come again after an error or a new drain.
    fn named(&mut self, area: AreaId, name: Name<'_>) -> Result<(), Self::Error>;

    /// The next records of a thread, in its order; a step of more than one in `seq` is a gap.
    fn records(&mut self, stream: StreamKey, records: &[Record]) -> Result<(), Self::Error>;

    /// A thread is over, and this is what became of its attempts.
    fn stream_ended(&mut self, stream: StreamKey, account: &Account) -> Result<(), Self::Error>;

    /// The process is over, after all its streams.
    fn ended(&mut self, area: AreaId, ended: &Ended) -> Result<(), Self::Error>;
}

/// The work of one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Records handed out.
    pub records: u64,
    /// The fullest ring, in 256ths.
    pub fullest: u32,
    /// Areas that came to their end.
    pub ended: u32,
}

/// All areas of one directory.
pub struct Drain {
    directory: OwnedFd,
    here: Here,
    areas: Vec<Attached>,
    last_id: u32,
    batch: Vec<Record>,
}

/// One area that this drain has.
struct Attached {
    id: AreaId,
    facts: Facts,
    /// Holds the lock.
    file: OwnedFd,
    process: Process,
    map: Mapping,
    began: bool,
    names_bad: u64,
    /// Slots whose pages are known to be there.
    backed: Vec<bool>,
    /// Streams of a finished process whose end the sink has heard.
    heard: Vec<bool>,
}

impl Drain {
    /// A drain of a directory, which is made if need be. [`scan`](Self::scan) finds what is in it.
    pub fn open(directory: &Path) -> Result<Drain, DirectoryError> {
        let failed = |source| DirectoryError::Failed {
            action: "learn the machine's boot number for",
            path: directory.to_owned(),
            source,
        };
        Ok(Drain {
            directory: area::open_directory(directory)?,
            here: Here::now().map_err(failed)?,
            areas: Vec::new(),
            last_id: 0,
            batch: Vec::new(),
        })
    }

    /// Attaches to areas that have come since, and answers how many. Leaves alone what another drain
    /// has and what is no area, and removes the areas of earlier boots and half-made ones of the dead.
    pub fn scan(&mut self) -> io::Result<usize> {
        let known = self.areas.len();
        for name in area::list(&self.directory)? {
            if self.areas.iter().any(|area| area.facts.name == name) {
                continue;
            }
            if let Some(area) = self.attach(name) {
                self.areas.push(area);
            }
        }
        Ok(self.areas.len() - known)
    }

    fn attach(&mut self, name: AreaName) -> Option<Attached> {
        let file = area::open(&self.directory, &name).ok()?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        let Some((facts, map)) = map(&file, name) else {
            if self.here.is_abandoned(&file, &name) {
                // If it cannot be removed it is found again.
                let _ = area::remove(&self.directory, &name);
            }
            return None;
        };
        self.last_id += 1;
        let slots = map.slots().len();
        Some(Attached {
            id: AreaId(self.last_id),
            process: self.here.process(&facts),
            facts,
            file,
            map,
            began: false,
            names_bad: 0,
            backed: vec![false; slots],
            heard: vec![false; slots],
        })
    }

    /// The areas that this drain has.
    pub fn areas(&self) -> impl Iterator<Item = (AreaId, &Facts)> {
        self.areas.iter().map(|area| (area.id, &area.facts))
    }

    /// Descriptors that become readable when a process ends.
    pub fn processes(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.areas.iter().filter_map(|area| match &area.process {
            Process::Running(pidfd) => Some(pidfd.as_fd()),
            Process::Gone | Process::Elsewhere => None,
        })
    }

    /// Switches recording in all areas on or off.
    pub fn switch(&self, on: bool) {
        for area in &self.areas {
            let word = &area.map.header().switch.0;
            word.store(u32::from(on), Ordering::Relaxed);
        }
    }

    /// Hands out everything that is there, and ends the areas whose process is over.
    pub fn pass<S: Sink>(&mut self, sink: &mut S) -> Result<Pass, S::Error> {
        let mut pass = Pass::default();
        let mut index = 0;
        while index < self.areas.len() {
            // Asked before reading: what a process wrote before its end is then all there.
            let over = self.state(index) == AreaState::Over;
            let area = &mut self.areas[index];
            area.read(sink, &mut self.batch, over, &mut pass)?;
            if !over {
                index += 1;
                continue;
            }
            sink.ended(area.id, &ending(&area.map, area.names_bad))?;
            pass.ended += 1;
            // If it cannot be removed now, a later drain hands it out again; the sink knows it.
            let _ = area::remove(&self.directory, &area.facts.name);
            self.areas.remove(index);
        }
        Ok(pass)
    }

    fn state(&self, index: usize) -> AreaState {
        let area = &self.areas[index];
        let name = area.facts.name;
        let replaced = self
            .areas
            .iter()
            .any(|other| other.facts.name.follows(&name));
        if replaced {
            AreaState::Over
        } else {
            area.process.state()
        }
    }
}

impl Attached {
    fn read<S: Sink>(
        &mut self,
        sink: &mut S,
        batch: &mut Vec<Record>,
        over: bool,
        pass: &mut Pass,
    ) -> Result<(), S::Error> {
        if !self.began {
            sink.began(self.id, &self.facts)?;
            self.began = true;
        }
        let read = names::read(&self.map, &mut |name| sink.named(self.id, name))?;
        self.names_bad += read.bad;
        let tail = &self.map.header().names.tail.0;
        // Paired with the writer's acquire: the room is free.
        tail.store(read.tail, Ordering::Release);
        for slot in 0..self.map.geometry().slots {
            if !self.heard[slot as usize] {
                self.read_slot(slot, sink, batch, over, pass)?;
            }
        }
        Ok(())
    }

    fn read_slot<S: Sink>(
        &mut self,
        slot: u32,
        sink: &mut S,
        batch: &mut Vec<Record>,
        over: bool,
        pass: &mut Pass,
    ) -> Result<(), S::Error> {
        let entry = &self.map.slots()[slot as usize];
        // Paired with the thread's release: its ring is there, and at the end, complete.
        let now = entry.state.load(Ordering::Acquire);
        if !matches!(now, state::LIVE | state::EXITED) || !self.is_backed(slot) {
            return Ok(());
        }
        let entry = &self.map.slots()[slot as usize];
        let generation = entry.generation.load(Ordering::Relaxed);
        let key = StreamKey {
            area: self.id,
            slot,
            generation,
            tid: entry.tid.load(Ordering::Relaxed),
        };
        let reader = reader(&self.map, slot, generation);
        let flight = self.facts.policy == WhenFull::Overwrite;
        if !flight {
            hand_out(&reader, key, sink, batch, pass)?;
        }
        if !over && now == state::LIVE {
            return Ok(());
        }
        let account = if flight {
            batch.clear();
            reader.last_lap(batch);
            sink.records(key, batch)?;
            pass.records += batch.len() as u64;
            reader.last_account_of_flight(batch.len() as u64)
        } else {
            reader.last_account()
        };
        sink.stream_ended(key, &account)?;
        if over {
            self.heard[slot as usize] = true;
        } else {
            reader.clear();
            let next = generation.wrapping_add(1);
            entry.generation.store(next, Ordering::Relaxed);
            // Paired with the acquire of the thread that takes it.
            entry.state.store(state::FREE, Ordering::Release);
        }
        Ok(())
    }

    /// Whether the pages of a ring are there: touching others would take memory that may be wanting.
    fn is_backed(&mut self, slot: u32) -> bool {
        let known = &mut self.backed[slot as usize];
        if !*known {
            let geometry = self.map.geometry();
            let start = geometry.ring(slot) as u64;
            *known = is_whole(&self.file, start, start + geometry.ring_bytes() as u64);
        }
        *known
    }
}

/// The counters in the head of an area.
pub(crate) fn ending(map: &Mapping, names_bad: u64) -> Ended {
    let header = map.header();
    let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
    Ended {
        unringed: header.unringed.read(),
        nested: word(&header.nested.0),
        beyond: word(&header.beyond),
        unbacked: word(&header.unbacked),
        names_lost: word(&header.names.lost),
        names_bad,
    }
}

pub(crate) fn reader(map: &Mapping, slot: u32, generation: u32) -> Reader<'_> {
    Reader {
        control: map.control(slot),
        lines: map.lines(slot),
        generation: generation as u8,
    }
}

/// Hands out what is in a ring, at most two laps: others wait for their turn.
fn hand_out<S: Sink>(
    reader: &Reader<'_>,
    key: StreamKey,
    sink: &mut S,
    batch: &mut Vec<Record>,
    pass: &mut Pass,
) -> Result<(), S::Error> {
    const LAPS_MAX: u64 = 2;
    let before = pass.records;
    let most = LAPS_MAX * reader.lines.len() as u64;
    while pass.records - before < most {
        batch.clear();
        reader.take(batch);
        if batch.is_empty() {
            break;
        }
        sink.records(key, batch)?;
        reader.release(batch);
        pass.records += batch.len() as u64;
    }
    let share = (pass.records - before).saturating_mul(256) / reader.lines.len() as u64;
    pass.fullest = pass.fullest.max(share.min(256) as u32);
    Ok(())
}
