//! The layout of the index. All of it is words of eight bytes.
//!
//! ```text
//! 0                control: magic, life, frames, bytes of a frame, buckets
//! HEADERS          one header of eight words for each frame, a line of the processor's cache
//! behind them      buckets of eight hints
//! at the end       places of eight words for what files are
//! ```

use std::sync::atomic::Ordering::{Relaxed, Release};

use super::protocol::Board;

/// First word: tells this layout from any other.
pub(crate) const MAGIC: u64 = 0x6865_6172_7468_0005;
/// The agent's sign of life; its first half only, see [`crate::life`].
pub(crate) const LIFE: usize = 1;
const FRAMES: usize = 2;
const FRAME_BYTES: usize = 3;
const BUCKETS: usize = 4;
/// Counts the changes of names, and whether programs may keep what they mean.
pub(crate) const NAMES: usize = 5;
pub(crate) const NAMES_ARE_KEPT: usize = 6;
/// Counts names that were told though their change will not be heard of.
pub(crate) const NAMES_UNHEARD: usize = 7;
/// Odd while programs may leave writes; counts how often that began and ended. A line of its own.
pub(crate) const GATE: usize = 16;
/// The agent waits to be told that much was left; its first half only. A line of its own.
pub(crate) const DOORBELL: usize = 24;
/// When the agent's lease is over, by the clock that counts from the machine's start. A line of its own.
pub(crate) const LEASE: usize = 32;
/// Words of the control page.
pub(crate) const CONTROL: usize = 512;

/// Words of a header.
const HEADER: usize = 8;
/// Hints in a bucket.
pub(crate) const WAYS: usize = 8;
/// Room for hints, for each frame.
const HINTS_PER_FRAME: u64 = 4;

/// Words of a header.
pub(crate) const SEQUENCE: usize = 0;
pub(crate) const FILE: usize = 1;
pub(crate) const PAGE: usize = 2;
pub(crate) const EXTENT: usize = 3;
/// Bytes of the page that programs may write by themselves.
pub(crate) const OFFER: usize = 4;

/// Words of a place for what a file is, beside the first two of a header.
pub(crate) const DIGEST: usize = 2;
pub(crate) const UNTIL: usize = 3;
/// Such places. Files that share one are told in turns.
pub(crate) const PLACES: usize = 1024;

/// Shape of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) frames: u32,
    pub(crate) frame_bytes: u64,
    /// A power of two.
    buckets: u64,
}

impl Layout {
    pub(crate) fn of(frames: u32, frame_bytes: u64) -> Layout {
        let hints = u64::from(frames) * HINTS_PER_FRAME;
        Layout {
            frames,
            frame_bytes,
            buckets: hints.div_ceil(WAYS as u64).next_power_of_two(),
        }
    }

    /// Says what it is, to those who map it.
    pub(crate) fn write(&self, board: &impl Board) {
        board.store(FRAMES, u64::from(self.frames), Relaxed);
        board.store(FRAME_BYTES, self.frame_bytes, Relaxed);
        board.store(BUCKETS, self.buckets, Relaxed);
        board.store(0, MAGIC, Release);
    }

    /// A layout that somebody else wrote, if it makes sense.
    pub(crate) fn read(word: impl Fn(usize) -> u64) -> Option<Layout> {
        let frames = u32::try_from(word(FRAMES)).ok()?;
        let layout = Layout::of(frames, word(FRAME_BYTES));
        let sound = frames > 0
            && layout.frame_bytes.is_power_of_two()
            && layout.frame_bytes <= 1 << 32
            && layout.buckets == word(BUCKETS);
        (word(0) == MAGIC && sound).then_some(layout)
    }

    /// Words in all.
    pub(crate) fn words(&self) -> usize {
        self.places() + PLACES * HEADER
    }

    fn places(&self) -> usize {
        CONTROL + self.frames as usize * HEADER + self.buckets as usize * WAYS
    }

    /// The first word of the place for what a file is.
    #[inline(always)]
    pub(crate) fn place(&self, file: u64) -> usize {
        self.places() + Self::place_number(file) * HEADER
    }

    /// Which of the places that is.
    #[inline(always)]
    pub(crate) fn place_number(file: u64) -> usize {
        let hash = file.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        hash as usize % PLACES
    }

    /// The first word of a frame's header.
    #[inline(always)]
    pub(crate) fn header(&self, frame: u32) -> usize {
        CONTROL + frame as usize * HEADER
    }

    /// The first word of the bucket that a hash leads to.
    #[inline(always)]
    pub(crate) fn bucket(&self, hash: u64) -> usize {
        let number = (hash & (self.buckets - 1)) as usize;
        CONTROL + self.frames as usize * HEADER + number * WAYS
    }
}
