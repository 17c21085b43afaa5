//! The record: one completed operation in one cache line.

use std::mem::{offset_of, size_of};
use std::ops::BitOr;

/// One completed operation, as the thread that did it wrote it. Little-endian, one cache line.
///
/// Ticks are those of the clock that the ring's header names. Codes are kept as numbers: whatever
/// stands in shared memory may be anything, and becomes an [`Op`](crate::Op) only when it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Record {
    /// Ticks at entry.
    pub start: u64,
    /// Ticks from entry to return; with [`Flags::LONG`], in units of 2^20 ticks.
    pub took: u32,
    /// Code of an [`Op`](crate::Op).
    pub op: u8,
    /// Code of a [`Layer`](crate::Layer).
    pub layer: u8,
    /// See [`Flags`].
    pub flags: Flags,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes asked for; with [`Flags::BIG`], in units of 4 KiB rounded up.
    pub asked: u32,
    /// Bytes done, or a negative error number; with [`Flags::BIG`], bytes in units of 4 KiB.
    pub result: i32,
    /// The file, as the names that travel beside the ring call it; 0 is no file.
    pub file: u32,
    /// The thread's slot in its process; of a request to an agent, the thread of the program that
    /// made it, as the operating system numbers it, or 0.
    pub thread: u32,
    /// Joins the records that one request left in several layers; 0 is none.
    /// From the top: 16 bits node, 12 bits thread, 36 bits count.
    pub request: u64,
    /// Bytes that the nearest layer served.
    pub near: u32,
    /// The node that served it.
    pub peer: u16,
    /// Requests before this one in the queue, at entry.
    pub depth: u16,
    /// The attempt's number in its thread, from 1; written last. Its top byte is the ring's
    /// generation, so that a record of an earlier lap never passes for a new one.
    pub seq: u64,
}

const _: () = {
    assert!(size_of::<Record>() == 64);
    assert!(offset_of!(Record, took) == 8);
    assert!(offset_of!(Record, op) == 12);
    assert!(offset_of!(Record, flags) == 14);
    assert!(offset_of!(Record, offset) == 16);
    assert!(offset_of!(Record, asked) == 24);
    assert!(offset_of!(Record, file) == 32);
    assert!(offset_of!(Record, request) == 40);
    assert!(offset_of!(Record, near) == 48);
    assert!(offset_of!(Record, peer) == 52);
    assert!(offset_of!(Record, seq) == 56);
};

/// Further facts about an operation, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Flags(pub u16);

impl Flags {
    /// Served by this node's cache.
    pub const HIT: Flags = Flags(1);
    /// Not served by this node's cache.
    pub const MISS: Flags = Flags(1 << 1);
    /// Served by the cache of a peer.
    pub const PEER: Flags = Flags(1 << 2);
    /// Not asked for by a program yet.
    pub const READAHEAD: Flags = Flags(1 << 3);
    /// Begins where the thread's last access to the file ended.
    pub const SEQUENTIAL: Flags = Flags(1 << 4);
    /// The descriptor asks that every write be safe.
    pub const SYNC: Flags = Flags(1 << 5);
    /// Failed; `result` says how.
    pub const ERROR: Flags = Flags(1 << 6);
    /// Goes around the operating system's page cache.
    pub const DIRECT: Flags = Flags(1 << 7);
    /// The file's name was too long to be kept whole.
    pub const NAME_CUT: Flags = Flags(1 << 8);
    /// `took` is in units of 2^20 ticks.
    pub const LONG: Flags = Flags(1 << 9);
    /// `asked` and `result` are in units of 4 KiB.
    pub const BIG: Flags = Flags(1 << 10);
    /// Through stdio or another buffer of the program.
    pub const BUFFERED: Flags = Flags(1 << 11);
    /// Gathered by the program: several operations stand in one record.
    pub const MANY: Flags = Flags(1 << 12);

    /// Every flag, with the word that people read.
    pub const NAMES: [(Flags, &str); 13] = [
        (Flags::HIT, "hit"),
        (Flags::MISS, "miss"),
        (Flags::PEER, "peer"),
        (Flags::READAHEAD, "readahead"),
        (Flags::SEQUENTIAL, "sequential"),
        (Flags::SYNC, "sync"),
        (Flags::ERROR, "error"),
        (Flags::DIRECT, "direct"),
        (Flags::NAME_CUT, "name-cut"),
        (Flags::LONG, "long"),
        (Flags::BIG, "big"),
        (Flags::BUFFERED, "buffered"),
        (Flags::MANY, "many"),
    ];

    /// The words for the flags that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let set = Flags::NAMES
            .into_iter()
            .filter(move |(flag, _)| self.has(*flag));
        set.map(|(_, name)| name)
    }

    /// Whether all bits of `other` are set.
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl Record {
    /// The record as eight words, as memory holds it on a little-endian machine.
    #[inline(always)]
    pub fn to_words(&self) -> [u64; 8] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let codes = u32::from(self.op) | u32::from(self.layer) << 8 | u32::from(self.flags.0) << 16;
        let place = u32::from(self.peer) | u32::from(self.depth) << 16;
        [
            self.start,
            pair(self.took, codes),
            self.offset,
            pair(self.asked, self.result.cast_unsigned()),
            pair(self.file, self.thread),
            self.request,
            pair(self.near, place),
            self.seq,
        ]
    }

    /// The record that eight words are.
    pub fn from_words(words: [u64; 8]) -> Record {
        let (low, high) = (|word: u64| word as u32, |word: u64| (word >> 32) as u32);
        let (codes, place) = (high(words[1]), high(words[6]));
        Record {
            start: words[0],
            took: low(words[1]),
            op: codes as u8,
            layer: (codes >> 8) as u8,
            flags: Flags((codes >> 16) as u16),
            offset: words[2],
            asked: low(words[3]),
            result: high(words[3]).cast_signed(),
            file: low(words[4]),
            thread: high(words[4]),
            request: words[5],
            near: low(words[6]),
            peer: place as u16,
            depth: (place >> 16) as u16,
            seq: words[7],
        }
    }

    /// Bytes asked for.
    pub fn asked_bytes(&self) -> u64 {
        let unit = if self.flags.has(Flags::BIG) { 4096 } else { 1 };
        u64::from(self.asked) * unit
    }

    /// Bytes done, or a negative error number.
    pub fn outcome(&self) -> i64 {
        let big = self.flags.has(Flags::BIG) && self.result > 0;
        i64::from(self.result) * if big { 4096 } else { 1 }
    }

    /// Ticks from entry to return.
    pub fn ticks(&self) -> u64 {
        let shift = if self.flags.has(Flags::LONG) { 20 } else { 0 };
        u64::from(self.took) << shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_own_place_in_the_words() {
        let words = std::array::from_fn(|word| {
            u64::from_le_bytes(std::array::from_fn(|byte| (word * 8 + byte) as u8))
        });
        let record = Record::from_words(words);
        assert_eq!(record.to_words(), words);
        assert_eq!((record.op, record.layer), (12, 13));
        assert_eq!(record.depth, 0x3736);
    }
}
