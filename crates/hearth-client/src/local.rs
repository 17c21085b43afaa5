//! Local hits: what a program copies out of its agent's memory by itself.
//!
//! A call ends as any call of a front end does: served, or passed by with a reason. Nothing of a program
//! fails here, since all that is not served goes on to the mount, which is always right.

use std::io;
use std::mem::MaybeUninit;

pub use hearth_shm::{
    AttributeTicket, CounterShard, LEFT_MAX, NamesMark, ToldAttributes, WriteRing,
    attach_write_ring,
};
use hearth_shm::{COUNTS, Copied, LaneOutcome, PoolView, SharedCounts};

use crate::{Bypass, Outcome};

/// The memory of this node's agent.
pub struct Local {
    view: PoolView,
    counts: SharedCounts,
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
    /// Writes that were left for the agent.
    Writes,
    /// Bytes of them.
    Written,
    /// Writes passed by: their page was not offered.
    NotOffered,
    /// Writes passed by, because the agent was at something else, or had not come to those before.
    Crowded,
    /// Programs that were given a write ring.
    WriteRings,
}

impl Local {
    /// Maps what the agent lends that listens at `path`. Allocates nothing.
    pub fn attach(path: &[u8]) -> io::Result<Local> {
        let (view, counts) = hearth_shm::attach(path)?;
        let local = Local { view, counts };
        local.count(CounterShard::SHARED, Count::Programs, 1);
        Ok(local)
    }

    /// A place to count in, for one thread.
    pub fn shard(&self) -> CounterShard {
        self.counts.shard()
    }

    /// Reads bytes of a file, all of them or none. The content of `into` is undefined if the read is not served.
    #[inline(always)]
    pub fn read(
        &self,
        shard: CounterShard,
        (file, offset): (u64, u64),
        into: &mut [MaybeUninit<u8>],
    ) -> Outcome<usize> {
        let copied = self.view.copy(file, offset, into);
        self.ended(shard, copied, into.len())
    }

    /// The same for bytes that go to several places, in order; `len` in all.
    pub fn read_parts<'a>(
        &self,
        shard: CounterShard,
        (file, offset): (u64, u64),
        len: usize,
        parts: impl Iterator<Item = &'a mut [MaybeUninit<u8>]>,
    ) -> Outcome<usize> {
        let copied = self.view.copy_parts(file, offset, parts);
        self.ended(shard, copied, len)
    }

    #[inline(always)]
    fn ended(&self, shard: CounterShard, copied: Copied, len: usize) -> Outcome<usize> {
        if copied == Copied::All {
            self.count(shard, Count::Reads, 1);
            self.count(shard, Count::Bytes, len as u64);
            return Outcome::Serve(len);
        }
        Outcome::Bypass(self.passed_by(shard, copied))
    }

    #[cold]
    #[inline(never)]
    fn passed_by(&self, shard: CounterShard, copied: Copied) -> Bypass {
        let (count, why) = match copied {
            Copied::All => unreachable!("what was copied is served"),
            Copied::Missing => (Count::NotHere, Bypass::NotHere),
            Copied::Changed => (Count::CalledBack, Bypass::CalledBack),
            Copied::Long => (Count::TooLong, Bypass::TooLong),
            Copied::Dead => (Count::NoAgent, Bypass::NoAgent),
        };
        self.count(shard, count, 1);
        why
    }

    /// Leaves a write to a file, all of its bytes or none, for the agent to apply. It is done.
    #[inline(always)]
    pub fn leave(
        &self,
        write_ring: &WriteRing,
        counting: CounterShard,
        (file, offset): (u64, u64),
        bytes: &[u8],
    ) -> Outcome<LeftSome> {
        match write_ring.leave(&self.view, file, offset, bytes) {
            LaneOutcome::Done { much } => {
                self.count(counting, Count::Writes, 1);
                self.count(counting, Count::Written, bytes.len() as u64);
                Outcome::Serve(LeftSome { much })
            }
            other => Outcome::Bypass(self.not_left(counting, other)),
        }
    }

    /// Whether the agent offers to take a write of so many bytes there now.
    #[inline(always)]
    pub fn takes(&self, (file, offset): (u64, u64), count: usize) -> bool {
        hearth_shm::is_offered(&self.view, file, offset, count)
    }

    #[cold]
    #[inline(never)]
    fn not_left(&self, counting: CounterShard, left: LaneOutcome) -> Bypass {
        let (count, why) = match left {
            LaneOutcome::Done { .. } => unreachable!("what was left is served"),
            LaneOutcome::NotOffered => (Count::NotOffered, Bypass::NotHere),
            LaneOutcome::Shut | LaneOutcome::Full | LaneOutcome::Busy => {
                (Count::Crowded, Bypass::CalledBack)
            }
            LaneOutcome::Dead => (Count::NoAgent, Bypass::NoAgent),
        };
        self.count(counting, count, 1);
        why
    }

    /// Tells an agent that waits that much was left.
    pub fn ring(&self) {
        self.view.ring();
    }

    /// This program was given a write ring.
    pub fn has_write_ring(&self) {
        self.count(CounterShard::SHARED, Count::WriteRings, 1);
    }

    /// The attributes of a file that the agent last told the operating system.
    pub fn told(&self, file: u64) -> Option<ToldAttributes> {
        self.view.told(file)
    }

    /// The counts of names now.
    pub fn names(&self) -> NamesMark {
        self.view.names()
    }

    /// Whether an answer that agrees with what was told may still be given, at `now_ns` of the clock
    /// that nobody sets.
    #[inline(always)]
    pub fn is_good(&self, told: &ToldAttributes, now_ns: u64) -> bool {
        now_ns < told.until_ns && self.view.is_still_told(told)
    }

    /// Whether what a path has led to since then may be kept, too.
    pub fn are_heard_since(&self, names: &NamesMark) -> bool {
        self.view.are_heard_since(names)
    }

    /// Adds to a number.
    #[inline(always)]
    pub fn count(&self, shard: CounterShard, what: Count, amount: u64) {
        self.counts.add(shard, what as usize, amount);
    }
}

/// A write was left for the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftSome {
    /// The agent should be told.
    pub much: bool,
}

/// The sums of all that programs have counted.
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

/// The attributes of a regular file that `stat` tells and an agent may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolatileAttributes {
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

impl VolatileAttributes {
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
