//! Names beside the records: which file an id is, and what the process says of itself.
//!
//! A ring of entries of whole words: `length:32 kind:8 id..`, see [`entry`]. Writers take a lock that
//! they only try for: a handler that interrupts a holder must not wait for it. A name that finds no
//! room or no lock is counted as lost, and comes again with the file's next open.
//!
//! Invariants:
//! - NAME-1: entries lie whole between `tail` and `head`; `head` is stored after their words (release).
//! - NAME-2: an entry never wraps: a pad fills the end of the ring.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::map::Mapping;

/// Longest name, in bytes; longer ones are cut.
pub(crate) const NAME_MAX: usize = 4096;

/// The words of a process beside its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// Path of the file with this id.
    File(u32, &'a [u8]),
    /// Path of the program.
    Exe(&'a [u8]),
    /// The arguments, each ended by a zero byte.
    Args(&'a [u8]),
    /// Directory that the process began in.
    Cwd(&'a [u8]),
    /// Rank in its job.
    Rank(u32),
}

impl<'a> Name<'a> {
    fn parts(self) -> (u8, u32, &'a [u8]) {
        match self {
            Name::File(id, path) => (1, id, path),
            Name::Exe(path) => (2, 0, path),
            Name::Args(args) => (3, 0, args),
            Name::Cwd(path) => (4, 0, path),
            Name::Rank(rank) => (5, rank, &[]),
        }
    }

    fn from_parts(kind: u8, id: u32, bytes: &'a [u8]) -> Option<Name<'a>> {
        match kind {
            1 => Some(Name::File(id, bytes)),
            2 => Some(Name::Exe(bytes)),
            3 => Some(Name::Args(bytes)),
            4 => Some(Name::Cwd(bytes)),
            5 => Some(Name::Rank(id)),
            _ => None,
        }
    }
}

/// Kind of an entry that only fills the end of the ring.
const PAD: u8 = 0;

/// First word of an entry: bytes of the name in the low 24 bits, then the kind, then the id.
fn entry(kind: u8, id: u32, bytes: usize) -> u64 {
    bytes as u64 | u64::from(kind) << 24 | u64::from(id) << 32
}

/// Words of an entry with a name of so many bytes.
fn words_of(bytes: usize) -> u64 {
    1 + bytes.div_ceil(8) as u64
}

/// Which files have been named, in private memory that a fork wipes: all zeroes is an empty table.
#[repr(C)]
pub(crate) struct Known {
    lock: AtomicU32,
    last_id: AtomicU32,
    rows: [KnownRow; KNOWN_ROWS],
}

#[repr(C)]
struct KnownRow {
    /// Of the path; 0 is no row.
    hash: AtomicU64,
    id: AtomicU32,
}

/// Bound of the table. At the bound a file gets another id with each open, and names repeat.
const KNOWN_ROWS: usize = 1 << 15;
/// Most rows that are looked at for one path.
const PROBES: usize = 16;
/// Most tries for the lock.
const TRIES: usize = 1 << 10;

impl Known {
    /// The id of a path; names it first if it is new.
    pub(crate) fn file(&self, map: &Mapping, path: &[u8]) -> u32 {
        let hash = hash(path);
        if let Some(id) = self.find(hash) {
            return id;
        }
        // A number of its own even if the name is lost: different files stay different.
        let id = self
            .last_id
            .fetch_add(1, Ordering::Relaxed)
            .wrapping_add(1)
            .max(1);
        if !self.lock() {
            map.header().names.lost.fetch_add(1, Ordering::Relaxed);
            return id;
        }
        let id = self.find(hash).unwrap_or_else(|| {
            if write(map, Name::File(id, path)) {
                self.insert(hash, id);
            }
            id
        });
        self.lock.store(0, Ordering::Release);
        id
    }

    /// Writes a fact about the process.
    pub(crate) fn say(&self, map: &Mapping, name: Name<'_>) {
        if self.lock() {
            write(map, name);
            self.lock.store(0, Ordering::Release);
        } else {
            map.header().names.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> bool {
        (0..TRIES).any(|_| {
            let taken = self
                .lock
                .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_err() {
                std::hint::spin_loop();
            }
            taken.is_ok()
        })
    }

    fn rows(&self, hash: u64) -> impl Iterator<Item = &KnownRow> {
        let first = hash as usize;
        (0..PROBES).map(move |step| &self.rows[first.wrapping_add(step) % KNOWN_ROWS])
    }

    fn find(&self, hash: u64) -> Option<u32> {
        self.rows(hash)
            .find(|row| row.hash.load(Ordering::Acquire) == hash)
            .map(|row| row.id.load(Ordering::Relaxed))
    }

    /// Under the lock. The hash goes last (release, paired with `find`).
    fn insert(&self, hash: u64, id: u32) {
        if let Some(row) = self
            .rows(hash)
            .find(|row| row.hash.load(Ordering::Relaxed) == 0)
        {
            row.id.store(id, Ordering::Relaxed);
            row.hash.store(hash, Ordering::Release);
        }
    }
}

/// FNV-1a over words and then mixed; never 0. Two paths of one hash would be one file in the trace:
/// with a million files the chance is one in 37 million.
fn hash(path: &[u8]) -> u64 {
    let mut state: u64 = 0xcbf2_9ce4_8422_2325 ^ path.len() as u64;
    for chunk in path.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = (state ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        state ^= state >> 29;
    }
    state = (state ^ state >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (state ^ state >> 32).max(1)
}

/// Under the lock. `false`: no room, and counted.
fn write(map: &Mapping, name: Name<'_>) -> bool {
    let (kind, id, bytes) = name.parts();
    let bytes = &bytes[..bytes.len().min(NAME_MAX)];
    let (ring, names) = (map.names(), &map.header().names);
    let size = ring.len() as u64;
    let mut head = names.head.0.load(Ordering::Relaxed) / 8;
    let tail = names.tail.0.load(Ordering::Acquire) / 8;
    let wanted = words_of(bytes.len());
    let to_end = size - head % size;
    let pad = if wanted > to_end { to_end } else { 0 };
    if wanted + pad > size.saturating_sub(head.wrapping_sub(tail)) {
        names.lost.fetch_add(1, Ordering::Relaxed);
        return false;
    }
    if pad > 0 {
        let filler = entry(PAD, 0, (pad as usize - 1) * 8);
        ring[(head % size) as usize].store(filler, Ordering::Relaxed);
        head += pad;
    }
    let start = (head % size) as usize;
    ring[start].store(entry(kind, id, bytes.len()), Ordering::Relaxed);
    for (place, chunk) in ring[start + 1..].iter().zip(bytes.chunks(8)) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        place.store(u64::from_le_bytes(word), Ordering::Relaxed);
    }
    names.head.0.store((head + wanted) * 8, Ordering::Release);
    true
}

/// Hands out every whole entry from `tail` on, and says where the next begins. Bytes that are no
/// entry end the reading: the ring is empty then, and one is counted as bad.
pub(crate) fn read<E>(
    map: &Mapping,
    take: &mut dyn FnMut(Name<'_>) -> Result<(), E>,
) -> Result<NamesRead, E> {
    let tail = map.header().names.tail.0.load(Ordering::Relaxed) / 8;
    read_from(map, tail, take)
}

/// The same, with what the drain has taken already, as long as nothing was written over it: that is
/// until the ring has been filled once.
pub(crate) fn read_again<E>(
    map: &Mapping,
    take: &mut dyn FnMut(Name<'_>) -> Result<(), E>,
) -> Result<NamesRead, E> {
    let names = &map.header().names;
    let head = names.head.0.load(Ordering::Acquire) / 8;
    if head <= map.names().len() as u64 {
        return read_from(map, 0, take);
    }
    read(map, take)
}

fn read_from<E>(
    map: &Mapping,
    tail: u64,
    take: &mut dyn FnMut(Name<'_>) -> Result<(), E>,
) -> Result<NamesRead, E> {
    let (ring, names) = (map.names(), &map.header().names);
    let size = ring.len() as u64;
    let head = names.head.0.load(Ordering::Acquire) / 8;
    let mut read = NamesRead { tail, bad: 0 };
    let mut bytes = Vec::new();
    while read.tail != head {
        let start = (read.tail % size) as usize;
        let first = ring[start].load(Ordering::Relaxed);
        let (length, kind) = ((first & 0xff_ffff) as usize, (first >> 24) as u8);
        let words = words_of(length);
        let left = head.wrapping_sub(read.tail);
        if words > left || left > size || start as u64 + words > size {
            read.bad += 1;
            read.tail = head;
            break;
        }
        bytes.clear();
        for word in &ring[start + 1..start + words as usize] {
            bytes.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        bytes.truncate(length);
        read.tail += words;
        match Name::from_parts(kind, (first >> 32) as u32, &bytes) {
            Some(name) => take(name)?,
            None if kind == PAD => {}
            None => read.bad += 1,
        }
    }
    read.tail *= 8;
    Ok(read)
}

/// How far a reading of names came.
pub(crate) struct NamesRead {
    /// To be stored as the tail when what was read is safe.
    pub(crate) tail: u64,
    /// Entries that made no sense.
    pub(crate) bad: u64,
}
