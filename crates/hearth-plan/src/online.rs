//! Which files stay when the future is not known.
//!
//! A [`Cache`] is told of each read and says whether it holds the file. Whole files, or blocks, of
//! any size; a file keeps the size that it came in with. A file larger than the cache passes by.
//!
//! | kind | what goes first |
//! |---|---|
//! | [`Kind::Fifo`] | what came first |
//! | [`Kind::Lru`] | what was not read for the longest time |
//! | [`Kind::Sieve`] | what was not read since a hand last passed it |
//! | [`Kind::S3Fifo`] | what was read once, through a small queue that new files pass first |
//! | [`Kind::Arc`] | by recency or by frequency, as ghosts of what went say is better |
//! | [`Kind::Gdsf`] | what was read seldom and is large: made for hits |
//! | [`Kind::GdsfBytes`] | what was read seldom: made for bytes |

mod arc;
mod fifo;
mod gdsf;
mod queues;
mod s3fifo;
mod sieve;

use alloc::boxed::Box;

use crate::units::{Bytes, FileId};

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
    fn read(&mut self, file: FileId, size: Bytes) -> Met;

    /// Whether a file is there.
    fn holds(&self, file: FileId) -> bool;

    /// Bytes that are there.
    fn used(&self) -> Bytes;
}

/// A policy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
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

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] = [
        Kind::Fifo,
        Kind::Lru,
        Kind::Sieve,
        Kind::S3Fifo,
        Kind::Arc,
        Kind::Gdsf,
        Kind::GdsfBytes,
    ];

    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Fifo => "fifo",
            Kind::Lru => "lru",
            Kind::Sieve => "sieve",
            Kind::S3Fifo => "s3-fifo",
            Kind::Arc => "arc",
            Kind::Gdsf => "gdsf",
            Kind::GdsfBytes => "gdsf-bytes",
        }
    }

    /// An empty cache.
    pub fn cache(self, capacity: Bytes) -> Box<dyn Cache> {
        match self {
            Kind::Fifo => Box::new(fifo::Fifo::new(capacity)),
            Kind::Lru => Box::new(fifo::Lru::new(capacity)),
            Kind::Sieve => Box::new(sieve::Sieve::new(capacity)),
            Kind::S3Fifo => Box::new(s3fifo::S3Fifo::new(capacity)),
            Kind::Arc => Box::new(arc::Arc::new(capacity)),
            Kind::Gdsf => Box::new(gdsf::Gdsf::new(capacity, gdsf::Price::Miss)),
            Kind::GdsfBytes => Box::new(gdsf::Gdsf::new(capacity, gdsf::Price::Byte)),
        }
    }
}
