//! The memory of a thread's records so far, which both sides keep.

use crate::{Flags, Record};

/// Lines that are remembered.
pub(super) const LINES: usize = 64;
/// Lines that one kind of operation on one file may be in.
const WAYS: usize = 4;

/// The last operation of one kind on one file.
#[derive(Clone, Copy, Default)]
pub(super) struct Line {
    pub(super) flags: Flags,
    pub(super) peer: u16,
    pub(super) depth: u16,
    pub(super) asked: u32,
    pub(super) done: i32,
    pub(super) near: u32,
    pub(super) thread: u32,
    pub(super) offset: u64,
    pub(super) end: u64,
    pub(super) stride: u64,
}

impl Line {
    /// Bytes done that the line expects of a request for `asked`: as many are missing as were.
    pub(super) fn result(&self, asked: u32) -> i32 {
        let missing = i64::from(self.asked) - i64::from(self.done);
        (i64::from(asked).wrapping_sub(missing)) as i32
    }

    /// Bytes served near that the line expects.
    pub(super) fn near(&self, result: i32) -> u32 {
        let far = i64::from(self.done) - i64::from(self.near);
        (i64::from(result).wrapping_sub(far)) as u32
    }

    /// Whether a record is the line's last but for its place and times; one branch for all fields.
    #[inline]
    pub(super) fn is_like(&self, record: &Record) -> bool {
        let half = (record.flags.0 ^ self.flags.0)
            | (record.peer ^ self.peer)
            | (record.depth ^ self.depth);
        let whole = (record.asked ^ self.asked)
            | (record.result ^ self.done).cast_unsigned()
            | (record.near ^ self.near)
            | (record.thread ^ self.thread);
        whole | u32::from(half) == 0
    }

    /// Takes where it happened.
    #[inline]
    pub(super) fn follow(&mut self, record: &Record) {
        self.stride = record.offset.wrapping_sub(self.offset);
        self.offset = record.offset;
        let unit = if record.flags.has(Flags::BIG) { 12 } else { 0 };
        let done = u64::from(record.result.max(0) as u32) << unit;
        self.end = record.offset.wrapping_add(done);
    }

    /// Takes what happened.
    #[inline]
    fn learn(&mut self, record: &Record) {
        self.flags = record.flags;
        self.asked = record.asked;
        self.done = record.result;
        self.near = record.near;
        self.peer = record.peer;
        self.depth = record.depth;
        self.thread = record.thread;
        self.follow(record);
    }
}

/// A thread's lines, and what its last record was.
pub(super) struct Model {
    /// Which operation on which file each line is about.
    keys: [u64; LINES],
    pub(super) lines: [Line; LINES],
    /// The last line of each operation, from which a new line of that operation learns.
    kin: [u8; 256],
    /// Which way of a full set goes next.
    victim: usize,
    /// When the last record returned.
    pub(super) end: u64,
    pub(super) file: u32,
    pub(super) request: u64,
    pub(super) seq: u64,
}

/// One kind of operation on one file.
pub(super) fn key(record: &Record) -> u64 {
    u64::from(record.file) | u64::from(record.op) << 32 | u64::from(record.layer) << 40
}

impl Model {
    pub(super) fn new() -> Model {
        Model {
            // No key is all ones: the top bits of a key are zero.
            keys: [u64::MAX; LINES],
            lines: [Line::default(); LINES],
            kin: [0; 256],
            victim: 0,
            end: 0,
            file: 0,
            request: 0,
            seq: 0,
        }
    }

    /// The line that `key` has, if it has one. All ways are compared, without a branch for each.
    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<usize> {
        let set = set_of(key);
        let ways = &self.keys[set..set + WAYS];
        let marks = (0..WAYS).fold(0, |marks, way| marks | u32::from(ways[way] == key) << way);
        (marks != 0).then(|| set + marks.trailing_zeros() as usize)
    }

    /// The line that a new key takes.
    pub(super) fn choose(&mut self, key: u64) -> usize {
        self.victim = (self.victim + 1) % WAYS;
        set_of(key) + self.victim
    }

    /// Gives a line to another key; it expects what the operation's last line does.
    pub(super) fn assign(&mut self, line: usize, key: u64) {
        let op = usize::from((key >> 32) as u8);
        self.lines[line] = self.lines[usize::from(self.kin[op])];
        self.kin[op] = line as u8;
        self.keys[line] = key;
        self.file = key as u32;
    }

    /// The subject of a line; all ones if nothing was said about the line.
    #[inline]
    pub(super) fn key(&self, line: usize) -> u64 {
        self.keys[line]
    }

    /// The request that is expected next.
    #[inline]
    pub(super) fn next_request(&self) -> u64 {
        self.request.wrapping_add(u64::from(self.request != 0))
    }

    /// Takes a whole record.
    #[inline]
    pub(super) fn learn(&mut self, line: usize, record: &Record) {
        self.lines[line].learn(record);
        self.pass(record);
    }

    /// Takes of a record what its line has nothing to do with.
    #[inline]
    pub(super) fn pass(&mut self, record: &Record) {
        self.end = record.start.wrapping_add(record.ticks());
        self.request = record.request;
        self.seq = record.seq;
    }
}

/// First line of the set that a key may be in.
#[inline]
fn set_of(key: u64) -> usize {
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60;
    hash as usize * WAYS
}

/// Small for numbers near zero on either side.
pub(super) fn fold(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// Undoes [`fold`].
pub(super) fn unfold(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
