//! What programs count, in memory that they share with their agent.
//!
//! A few words for each of many *lanes*, so that processes seldom meet in one line of the
//! processor's cache. Programs may write anything there: it is told to people and believed by nobody.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

use crate::segment::Words;

/// Numbers that are counted.
pub const COUNTS: usize = 16;
const LANES: usize = 256;

/// Counts of many processes.
#[derive(Debug)]
pub struct Counts {
    words: Words,
}

impl Counts {
    /// New counts, all zero, and the memory for others.
    pub(crate) fn new(name: &str) -> io::Result<(OwnedFd, Counts)> {
        let (fd, words) = Words::open_to_all(&format!("{name}-counts"), LANES * COUNTS)?;
        Ok((fd, Counts { words }))
    }

    /// Those of somebody else.
    pub(crate) fn of(fd: BorrowedFd<'_>) -> io::Result<Counts> {
        let seals = rustix::fs::fcntl_get_seals(fd)?;
        let len = rustix::fs::fstat(fd)?.st_size;
        let wanted = (LANES * COUNTS * size_of::<u64>()) as i64;
        if len < wanted || !seals.contains(rustix::fs::SealFlags::SHRINK) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Counts {
            words: Words::new(fd.as_fd(), LANES * COUNTS)?,
        })
    }

    /// Adds to a number, in the lane of this process.
    #[inline(always)]
    pub fn add(&self, lane: u32, number: usize, amount: u64) {
        let word = (lane as usize % LANES) * COUNTS + number % COUNTS;
        // Only counted.
        self.words.word(word).fetch_add(amount, Relaxed);
    }

    /// Sums over all lanes.
    pub fn sums(&self) -> [u64; COUNTS] {
        std::array::from_fn(|number| {
            let lane = |lane| self.words.word(lane * COUNTS + number).load(Relaxed);
            (0..LANES).map(lane).fold(0, u64::wrapping_add)
        })
    }
}
