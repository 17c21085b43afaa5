//! Areas seen by somebody who is not their drain: what is traced now, switches, and pictures of
//! flight recorders.

use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::attach::{AreaState, Facts, Here, is_whole, map};
use super::drain::{AreaId, Ended, Sink, StreamKey, ending, reader};
use super::layout::slot as state;
use super::map::Mapping;
use super::names::{self, Name};
use super::stream::{Account, Reader};
use super::totals::Totals;
use crate::Record;
use crate::area::{self, AreaName, DirectoryError};

/// One area, seen without taking anything out of it.
pub struct Look {
    facts: Facts,
    state: AreaState,
    file: OwnedFd,
    map: Mapping,
}

/// The counters of an area so far; another moment, other numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AreaCounts {
    /// Threads that have a ring now.
    pub threads: u32,
    /// Attempts in the rings of these threads, and those that found no ring.
    pub attempted: u64,
    /// Records that a drain has taken, or that were overwritten.
    pub taken: u64,
    /// Attempts that were counted only.
    pub dropped: u64,
}

/// The recent records of a thread.
#[derive(Clone, Debug)]
pub struct Recent {
    /// Which thread.
    pub stream: StreamKey,
    /// Its account so far; what is in the ring counts as torn.
    pub account: Account,
    /// The records that its ring still has, of those that were asked for.
    pub records: Vec<Record>,
}

/// Looks at all areas of a directory. None are there if the directory is not.
pub fn look(directory: &Path) -> Result<Vec<Look>, DirectoryError> {
    let failed = |source| DirectoryError::Failed {
        action: "look for areas in",
        path: directory.to_owned(),
        source,
    };
    let directory = area::open_directory(directory)?;
    let here = Here::now().map_err(failed)?;
    let names = area::list(&directory).map_err(failed)?;
    let is_replaced = |name: &AreaName| names.iter().any(|other| other.follows(name));
    let looks = names.iter().filter_map(|name| {
        let file = area::open(&directory, name).ok()?;
        let (facts, map) = map(&file, *name)?;
        let state = match is_replaced(name) {
            true => AreaState::Over,
            false => here.process(&facts).state(),
        };
        Some(Look {
            facts,
            state,
            file,
            map,
        })
    });
    Ok(looks.collect())
}

impl Look {
    /// The content of the area's head.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Whether its process ran when it was looked at.
    pub fn state(&self) -> AreaState {
        self.state
    }

    /// Whether its process records.
    pub fn is_on(&self) -> bool {
        self.map.header().switch.0.load(Ordering::Relaxed) != 0
    }

    /// Has its process record, or stop doing so.
    pub fn switch(&self, on: bool) {
        let word = &self.map.header().switch.0;
        word.store(u32::from(on), Ordering::Relaxed);
    }

    /// The counters so far.
    pub fn counts(&self) -> AreaCounts {
        let unringed = self.map.header().unringed.read().count();
        let mut counts = AreaCounts {
            attempted: unringed,
            dropped: unringed,
            ..AreaCounts::default()
        };
        for (_, ring) in self.rings() {
            let account = ring.account();
            counts.threads += 1;
            counts.attempted = counts.attempted.saturating_add(account.attempted);
            counts.taken = counts.taken.saturating_add(account.stored);
            counts.dropped = counts.dropped.saturating_add(account.dropped);
        }
        counts
    }

    /// Hands out what the flight recorders of this area hold, as a trace of its own that ends now.
    /// Their threads go on meanwhile; what they overwrite under the reader counts as dropped.
    ///
    /// Sums by operation of what was overwritten may be of a moment later than the records.
    pub fn picture<S: Sink>(&self, id: AreaId, sink: &mut S) -> Result<(), S::Error> {
        sink.began(id, &self.facts)?;
        // The drain of a flight recorder takes names as they come, and records at the end.
        names::read_again(&self.map, &mut |name| sink.named(id, name))?;
        for (key, ring) in self.rings() {
            let key = StreamKey { area: id, ..key };
            let mut batch = Vec::new();
            let attempted = ring.last_lap(&mut batch);
            sink.records(key, &batch)?;
            let mut account = ring.account();
            account.attempted = attempted;
            account.stored = batch.len() as u64;
            account.dropped = attempted.saturating_sub(account.stored);
            account.torn = 0;
            sink.stream_ended(key, &account)?;
        }
        let ended: Ended = ending(&self.map, 0);
        sink.ended(id, &ended)
    }

    /// The recent records of the threads, whatever the policy: of each thread those after the
    /// attempt that `after` names. If a thread made more than a ring of them, the last are there.
    pub fn recent(&self, after: impl Fn(StreamKey) -> u64) -> Vec<Recent> {
        let recent = |(stream, ring): (StreamKey, Reader<'_>)| {
            let account = ring.account();
            Recent {
                stream,
                records: ring.recent(after(stream), account.attempted),
                account,
            }
        };
        self.rings().map(recent).collect()
    }

    /// Attempts that found no ring, by operation.
    pub fn unringed(&self) -> Totals {
        self.map.header().unringed.read()
    }

    /// Hands out the names that are still there.
    pub fn names(&self, mut take: impl FnMut(Name<'_>)) {
        let mut take = |name: Name<'_>| {
            take(name);
            Ok::<(), Infallible>(())
        };
        let Ok(_) = names::read_again(&self.map, &mut take);
    }

    fn rings(&self) -> impl Iterator<Item = (StreamKey, Reader<'_>)> {
        let geometry = self.map.geometry();
        let slots = (0..geometry.slots).zip(self.map.slots());
        slots.filter_map(move |(slot, entry)| {
            let now = entry.state.load(Ordering::Acquire);
            let start = geometry.ring(slot) as u64;
            let end = start + geometry.ring_bytes() as u64;
            if !matches!(now, state::LIVE | state::EXITED) || !is_whole(&self.file, start, end) {
                return None;
            }
            let generation = entry.generation.load(Ordering::Relaxed);
            let key = StreamKey {
                area: AreaId(0),
                slot,
                generation,
                tid: entry.tid.load(Ordering::Relaxed),
            };
            Some((key, reader(&self.map, slot, generation)))
        })
    }
}
