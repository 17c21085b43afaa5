//! Counters of programs, in memory that they share with their agent.
//!
//! A few words for each of many *shards*. A thread counts in a shard of its own, with plain additions. An
//! addition that locks the line would wait for all loads before it, which costs more than a small read.
//! When all shards are given out, later threads add to one that they share. Programs may write anything
//! there: it is told to people and believed by nobody.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

use crate::segment::Words;

/// Numbers that are counted.
pub const COUNTS: usize = 16;
/// The first is shared; its last word says how many were given out.
const SHARDS: u64 = 4096;
const GIVEN: usize = COUNTS - 1;
const WORDS: usize = SHARDS as usize * COUNTS;

/// Counts of many threads of many processes.
#[derive(Debug)]
pub struct SharedCounts {
    words: Words,
}

/// The shard in which a thread counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterShard(u32);

impl CounterShard {
    /// The one of all that have none of their own.
    pub const SHARED: CounterShard = CounterShard(0);

    /// As a number, for a place that holds numbers.
    pub fn number(self) -> u32 {
        self.0
    }

    /// From its number.
    #[inline(always)]
    pub fn numbered(number: u32) -> CounterShard {
        CounterShard(number)
    }
}

impl SharedCounts {
    /// New counts, all zero, and the memory for others.
    pub(crate) fn new(name: &str) -> io::Result<(OwnedFd, SharedCounts)> {
        let (fd, words) = Words::open_to_all(&format!("{name}-counts"), WORDS)?;
        Ok((fd, SharedCounts { words }))
    }

    /// Those of somebody else.
    pub(crate) fn of(fd: BorrowedFd<'_>) -> io::Result<SharedCounts> {
        let seals = rustix::fs::fcntl_get_seals(fd)?;
        let len = rustix::fs::fstat(fd)?.st_size;
        let wanted = (WORDS * size_of::<u64>()) as i64;
        if len < wanted || !seals.contains(rustix::fs::SealFlags::SHRINK) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(SharedCounts {
            words: Words::new(fd.as_fd(), WORDS)?,
        })
    }

    /// A shard that nobody else has, if there is one left.
    pub fn shard(&self) -> CounterShard {
        let given = self.words.word(GIVEN);
        if given.load(Relaxed) >= SHARDS - 1 {
            return CounterShard::SHARED;
        }
        match given.fetch_add(1, Relaxed) + 1 {
            number if number < SHARDS => CounterShard(number as u32),
            _ => CounterShard::SHARED,
        }
    }

    /// Adds to a number, in the shard of this thread.
    #[inline(always)]
    pub fn add(&self, shard: CounterShard, number: usize, amount: u64) {
        let shard_number = shard.0 as usize % SHARDS as usize;
        let word = self.words.word(shard_number * COUNTS + number % COUNTS);
        // Only counted.
        if shard == CounterShard::SHARED {
            word.fetch_add(amount, Relaxed);
        } else {
            word.store(word.load(Relaxed).wrapping_add(amount), Relaxed);
        }
    }

    /// Sums over all shards.
    pub fn sums(&self) -> [u64; COUNTS] {
        let shards = self.words.word(GIVEN).load(Relaxed).min(SHARDS - 1) as usize;
        std::array::from_fn(|number| {
            if number == GIVEN {
                return 0;
            }
            let shard = |shard| self.words.word(shard * COUNTS + number).load(Relaxed);
            (0..=shards).map(shard).fold(0, u64::wrapping_add)
        })
    }
}
