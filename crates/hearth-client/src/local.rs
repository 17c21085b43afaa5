//! Local hits: what a program copies out of its agent's memory by itself.
//!
//! A call ends as any call of a way in does: served, or passed by with a reason. Nothing of a program
//! fails here, since all that is not served goes on to the mount, which is always right.

use std::io;
use std::mem::MaybeUninit;

use hearth_shm::{COUNTS, Copied, Counts, View};
pub use hearth_shm::{Lane, Ticket, Told};

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

    /// What the agent last told the operating system of a file.
    pub fn told(&self, file: u64) -> Option<Told> {
        self.view.told(file)
    }

    /// How often names have changed.
    pub fn names(&self) -> u64 {
        self.view.names()
    }

    /// Whether an answer that agrees with what was told may still be given, at `now_ns` of the clock
    /// that nobody sets.
    #[inline(always)]
    pub fn is_good(&self, told: &Told, now_ns: u64) -> bool {
        now_ns < told.until_ns && self.view.is_still_told(told)
    }

    /// Whether what a path leads to may be kept, too.
    pub fn names_are_kept(&self) -> bool {
        self.view.names_are_kept()
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

/// A time of a file, in seconds and nanoseconds.
pub type Moment = (i64, u64);

/// What `stat` says of a regular file and an agent may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// In bytes.
    pub size: u64,
    /// Of 512 bytes.
    pub blocks: u64,
    /// Permissions.
    pub mode: u32,
    /// Names that lead to it.
    pub links: u64,
    /// User and group.
    pub owner: (u32, u32),
    /// When it was last read.
    pub accessed: Moment,
    /// When its bytes last changed.
    pub modified: Moment,
    /// When anything of it last changed.
    pub changed: Moment,
}

impl Attributes {
    /// One number for all of them.
    pub fn digest(&self) -> u64 {
        let times = [self.accessed, self.modified, self.changed];
        let times = times
            .iter()
            .flat_map(|time| [time.0.cast_unsigned(), time.1]);
        let owner = u64::from(self.owner.0) << 32 | u64::from(self.owner.1);
        let rest = [
            self.size,
            self.blocks,
            u64::from(self.mode),
            self.links,
            owner,
        ];
        rest.into_iter()
            .chain(times)
            .fold(0x243f_6a88_85a3_08d3, |digest, word| {
                let mixed = (digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (mixed ^ (mixed >> 29))
                    .wrapping_mul(0xbf58_476d_1ce4_e5b9)
                    .rotate_left(31)
            })
    }
}
