//! Local hits: what a program copies out of its agent's memory by itself.
//!
//! A call ends as any call of a way in does: served, or passed by with a reason. Nothing of a program
//! fails here, since all that is not served goes on to the mount, which is always right.

use std::io;
use std::mem::MaybeUninit;

pub use hearth_shm::Lane;
use hearth_shm::{COUNTS, Copied, Counts, View};

use crate::{Bypass, Outcome};

/// The memory of this node's agent.
pub struct Local {
    view: View,
    counts: Counts,
}

/// Numbers that programs count, in the order in which they are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Count {
    /// Reads that were served.
    Reads,
    /// Bytes that they copied.
    Bytes,
    /// Reads passed by: [`Bypass::NotHere`].
    NotHere,
    /// Reads passed by: [`Bypass::CalledBack`].
    CalledBack,
    /// Reads passed by: [`Bypass::TooLong`].
    TooLong,
    /// Reads passed by: [`Bypass::NoAgent`].
    NoAgent,
    /// Reads passed by, because the descriptor was opened with a flag that asks for more than bytes.
    Flags,
    /// Programs that mapped the memory.
    Programs,
    /// Calls of `stat` and its kin that were served.
    Stats,
}

impl Local {
    /// Maps what the agent lends that listens at `path`. Allocates nothing.
    pub fn attach(path: &[u8]) -> io::Result<Local> {
        let (view, counts) = hearth_shm::attach(path)?;
        let local = Local { view, counts };
        local.count(Lane::SHARED, Count::Programs, 1);
        Ok(local)
    }

    /// A place to count in, for one thread.
    pub fn lane(&self) -> Lane {
        self.counts.lane()
    }

    /// Reads bytes of a file, all of them or none. What is in `into` is undefined if it is not served.
    #[inline(always)]
    pub fn read(
        &self,
        lane: Lane,
        (file, offset): (u64, u64),
        into: &mut [MaybeUninit<u8>],
    ) -> Outcome<usize> {
        let copied = self.view.copy(file, offset, into);
        if copied == Copied::All {
            self.count(lane, Count::Reads, 1);
            self.count(lane, Count::Bytes, into.len() as u64);
            return Outcome::Serve(into.len());
        }
        Outcome::Bypass(self.passed_by(lane, copied))
    }

    #[cold]
    #[inline(never)]
    fn passed_by(&self, lane: Lane, copied: Copied) -> Bypass {
        let (count, why) = match copied {
            Copied::All => unreachable!("what was copied is served"),
            Copied::Missing => (Count::NotHere, Bypass::NotHere),
            Copied::Changed => (Count::CalledBack, Bypass::CalledBack),
            Copied::Long => (Count::TooLong, Bypass::TooLong),
            Copied::Dead => (Count::NoAgent, Bypass::NoAgent),
        };
        self.count(lane, count, 1);
        why
    }

    /// Adds to a number.
    #[inline(always)]
    pub fn count(&self, lane: Lane, what: Count, amount: u64) {
        self.counts.add(lane, what as usize, amount);
    }
}

/// What programs have counted in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums(pub [u64; COUNTS]);

impl Sums {
    /// One number.
    pub fn of(&self, what: Count) -> u64 {
        self.0[what as usize]
    }
}
