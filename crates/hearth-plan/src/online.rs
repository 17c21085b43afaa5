//! Which files stay when the future is not known.
//!
//! A [`Cache`] is told of each read and says whether it holds the file. Whole files, or blocks, of
//! any size; a file keeps the size that it came in with. A file larger than the cache passes by.
//!
//! | policy | what goes first |
//! |---|---|
//! | [`EvictionPolicy::Fifo`] | what came first |
//! | [`EvictionPolicy::Lru`] | what was not read for the longest time |
//! | [`EvictionPolicy::Sieve`] | what was not read since a hand last passed it |
//! | [`EvictionPolicy::S3Fifo`] | what was read once, through a small queue that new files pass first |
//! | [`EvictionPolicy::Arc`] | by recency or by frequency, as ghosts of what went say is better |
//! | [`EvictionPolicy::Gdsf`] | what was read seldom and is large: made for hits |
//! | [`EvictionPolicy::GdsfBytes`] | what was read seldom: made for bytes |

mod arc;
mod fifo;
mod gdsf;
mod queues;
mod s3fifo;
mod sieve;

use alloc::boxed::Box;

use crate::units::{Bytes, FileIndex};

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// The file was there.
    Hit,
    /// It was not.
    Miss,
}

/// A cache of whole files.
pub trait Cache {
    /// A file is read; `size` counts if it was not there.
    fn read(&mut self, file: FileIndex, size: Bytes) -> Met;

    /// Whether a file is there.
    fn holds(&self, file: FileIndex) -> bool;

    /// Bytes that are there.
    fn used(&self) -> Bytes;
}

/// A policy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvictionPolicy {
    /// First in, first out.
    Fifo,
    /// Least recently used.
    Lru,
    /// SIEVE.
    Sieve,
    /// S3-FIFO: a small, a main and a ghost queue.
    S3Fifo,
    /// ARC, with its two parts measured in bytes.
    Arc,
    /// Greedy dual size frequency: each miss costs the same.
    Gdsf,
    /// Greedy dual size frequency: each byte costs the same.
    GdsfBytes,
}

impl EvictionPolicy {
    /// All of them.
    pub const ALL: [EvictionPolicy; 7] = [
        EvictionPolicy::Fifo,
        EvictionPolicy::Lru,
        EvictionPolicy::Sieve,
        EvictionPolicy::S3Fifo,
        EvictionPolicy::Arc,
        EvictionPolicy::Gdsf,
        EvictionPolicy::GdsfBytes,
    ];

    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            EvictionPolicy::Fifo => "fifo",
            EvictionPolicy::Lru => "lru",
            EvictionPolicy::Sieve => "sieve",
            EvictionPolicy::S3Fifo => "s3-fifo",
            EvictionPolicy::Arc => "arc",
            EvictionPolicy::Gdsf => "gdsf",
            EvictionPolicy::GdsfBytes => "gdsf-bytes",
        }
    }

    /// An empty cache.
    pub fn cache(self, capacity: Bytes) -> Box<dyn Cache> {
        match self {
            EvictionPolicy::Fifo => Box::new(fifo::Fifo::new(capacity)),
            EvictionPolicy::Lru => Box::new(fifo::Lru::new(capacity)),
            EvictionPolicy::Sieve => Box::new(sieve::Sieve::new(capacity)),
            EvictionPolicy::S3Fifo => Box::new(s3fifo::S3Fifo::new(capacity)),
            EvictionPolicy::Arc => Box::new(arc::Arc::new(capacity)),
            EvictionPolicy::Gdsf => Box::new(gdsf::Gdsf::new(capacity, gdsf::Price::Miss)),
            EvictionPolicy::GdsfBytes => Box::new(gdsf::Gdsf::new(capacity, gdsf::Price::Byte)),
        }
    }
}
