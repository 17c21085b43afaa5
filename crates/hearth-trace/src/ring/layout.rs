//! The layout of an area. See `docs/formats/trace-ring.md`.
//!
//! ```text
//! header | slot table | names | ring 0 | ring 1 | ...        each part begins on a page
//! ring   = control (one page) | records
//! ```
//!
//! Everything is a little-endian atomic word, so that any two processes may look at it at any time.

use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::totals::{Drops, SharedTotals};

/// First word of an area; stored last when one is made.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"HearthRg");
/// Version of this layout.
pub(crate) const VERSION: u32 = 1;
pub(crate) const PAGE: usize = 4096;

/// Most threads of a process that can have a ring at one time.
pub(crate) const SLOTS_MAX: u32 = 4096;
/// Fewest and most records of a ring.
pub(crate) const CAPACITY_MIN: u32 = 2;
pub(crate) const CAPACITY_MAX: u32 = 1 << 20;
/// Most bytes of the names' ring.
pub(crate) const NAMES_MAX: u32 = 1 << 28;

/// The head of an area.
#[repr(C, align(4096))]
pub(crate) struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    pub(crate) pid: AtomicU32,
    /// When the process began, as field 22 of `/proc/PID/stat` has it.
    pub(crate) start_time: AtomicU64,
    /// Which program image of the process this is; each exec makes another.
    pub(crate) image: AtomicU32,
    pub(crate) slots: AtomicU32,
    pub(crate) capacity: AtomicU32,
    pub(crate) names_bytes: AtomicU32,
    pub(crate) clock: AtomicU32,
    pub(crate) policy: AtomicU32,
    pub(crate) wait_us: AtomicU32,
    pub(crate) parent: AtomicU32,
    /// A [`SyncPoint`](crate::clock::SyncPoint) of when the area was made.
    pub(crate) sync: [AtomicU64; 4],
    /// In which space of process numbers the process is: the inode of its namespace.
    pub(crate) pid_space: AtomicU64,
    /// Not 0: record. On a line of its own, since every call of the process reads it.
    pub(crate) switch: Lonely<AtomicU32>,
    /// Attempts that found no ring, by reason; each is in `unringed` too.
    pub(crate) nested: Lonely<AtomicU64>,
    pub(crate) beyond: AtomicU64,
    pub(crate) unbacked: AtomicU64,
    pub(crate) names: NamesControl,
    pub(crate) unringed: SharedTotals,
}

const _: () = assert!(size_of::<Header>() == PAGE);
const _: () = assert!(offset_of!(Header, sync) == 56);
const _: () = assert!(offset_of!(Header, switch) == 128);

/// A word with a pair of cache lines to itself: processors fetch lines in pairs.
#[repr(C, align(128))]
pub(crate) struct Lonely<T>(pub(crate) T);

/// The positions of the names' ring.
#[repr(C)]
pub(crate) struct NamesControl {
    /// Bytes ever written; owned by whoever holds the producer's lock.
    pub(crate) head: Lonely<AtomicU64>,
    /// Names that found no room.
    pub(crate) lost: AtomicU64,
    /// Bytes ever read; owned by the drain.
    pub(crate) tail: Lonely<AtomicU64>,
}

/// One entry of the slot table.
#[repr(C)]
pub(crate) struct Slot {
    pub(crate) state: AtomicU32,
    /// Counts the threads that had this slot; owned by the drain.
    pub(crate) generation: AtomicU32,
    pub(crate) tid: AtomicU32,
    /// Not 0: the pages of the ring are there.
    pub(crate) backed: AtomicU32,
}

/// States of a slot.
pub(crate) mod slot {
    /// Nobody's. Producer takes it: [`TAKEN`].
    pub(crate) const FREE: u32 = 0;
    /// A thread is settling in; nothing in the ring yet.
    pub(crate) const TAKEN: u32 = 1;
    /// A thread records.
    pub(crate) const LIVE: u32 = 2;
    /// The thread is gone, its records are not. The drain makes it [`FREE`].
    pub(crate) const EXITED: u32 = 3;
    /// There was no memory for the ring.
    pub(crate) const UNBACKED: u32 = 4;
}

/// The head of a ring.
#[repr(C, align(4096))]
pub(crate) struct Control {
    /// Attempts; owned by the thread.
    pub(crate) attempted: Lonely<AtomicU64>,
    /// How far the drain is; owned by the drain.
    pub(crate) read: Lonely<Read>,
    /// Attempts that found no room, by operation; owned by the thread.
    pub(crate) drops: Lonely<Drops>,
}

const _: () = assert!(size_of::<Control>() == PAGE);

/// How far the drain of a ring is.
#[repr(C)]
pub(crate) struct Read {
    /// Records that it is done with.
    pub(crate) tail: AtomicU64,
    /// Attempt number of the last of them; stored after `tail`.
    pub(crate) seq: AtomicU64,
}

/// A record as shared memory holds it.
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [AtomicU64; 8]);

/// Place of `seq` in a [`Line`].
pub(crate) const SEQ: usize = 7;
/// The attempt's number is below, the ring's generation above.
pub(crate) const SEQ_BITS: u32 = 56;
pub(crate) const SEQ_MASK: u64 = (1 << SEQ_BITS) - 1;

/// Sizes of an area, from which every place follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) slots: u32,
    pub(crate) capacity: u32,
    pub(crate) names_bytes: u32,
}

impl Geometry {
    /// The sizes, if an area can have them.
    pub(crate) fn checked(slots: u32, capacity: u32, names_bytes: u32) -> Option<Geometry> {
        let fits = (1..=SLOTS_MAX).contains(&slots)
            && (CAPACITY_MIN..=CAPACITY_MAX).contains(&capacity)
            && capacity.is_power_of_two()
            && (PAGE as u32..=NAMES_MAX).contains(&names_bytes)
            && names_bytes.is_power_of_two();
        fits.then_some(Geometry {
            slots,
            capacity,
            names_bytes,
        })
    }

    pub(crate) fn slot_table(&self) -> usize {
        size_of::<Header>()
    }

    pub(crate) fn names(&self) -> usize {
        let table = self.slots as usize * size_of::<Slot>();
        self.slot_table() + table.next_multiple_of(PAGE)
    }

    pub(crate) fn ring(&self, slot: u32) -> usize {
        self.names() + self.names_bytes as usize + slot as usize * self.ring_bytes()
    }

    pub(crate) fn ring_bytes(&self) -> usize {
        let records = self.capacity as usize * size_of::<Line>();
        size_of::<Control>() + records.next_multiple_of(PAGE)
    }

    pub(crate) fn total(&self) -> usize {
        self.ring(self.slots)
    }
}
