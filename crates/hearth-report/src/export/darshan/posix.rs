//! Darshan's counters of POSIX calls for one file and one rank: version 4 of its record.

use std::io::{self, Write};

use hearth_trace::{Event, Op, StreamId};

use super::times::{Spans, seconds};

/// Places of the counters that are filled in.
mod counter {
    pub(super) const OPENS: usize = 0;
    pub(super) const READS: usize = 3;
    pub(super) const WRITES: usize = 4;
    pub(super) const SEEKS: usize = 5;
    pub(super) const STATS: usize = 6;
    pub(super) const MMAPS: usize = 7;
    pub(super) const FSYNCS: usize = 8;
    pub(super) const FDSYNCS: usize = 9;
    pub(super) const RENAME_SOURCES: usize = 10;
    pub(super) const BYTES_READ: usize = 14;
    pub(super) const BYTES_WRITTEN: usize = 15;
    pub(super) const MAX_BYTE_READ: usize = 16;
    pub(super) const MAX_BYTE_WRITTEN: usize = 17;
    pub(super) const CONSEC_READS: usize = 18;
    pub(super) const CONSEC_WRITES: usize = 19;
    pub(super) const SEQ_READS: usize = 20;
    pub(super) const SEQ_WRITES: usize = 21;
    pub(super) const RW_SWITCHES: usize = 22;
    pub(super) const FILE_NOT_ALIGNED: usize = 25;
    pub(super) const FILE_ALIGNMENT: usize = 26;
    pub(super) const MAX_READ_TIME_SIZE: usize = 27;
    pub(super) const MAX_WRITE_TIME_SIZE: usize = 28;
    pub(super) const SIZE_READ: usize = 29;
    pub(super) const SIZE_WRITE: usize = 39;
    pub(super) const STRIDES: usize = 49;
    pub(super) const STRIDE_COUNTS: usize = 53;
    pub(super) const ACCESSES: usize = 57;
    pub(super) const ACCESS_COUNTS: usize = 61;
    pub(super) const COUNT: usize = 69;
}

/// Upper bounds of the classes of sizes; the last class has none.
const SIZE_BOUNDS: [u64; 9] = [
    100,
    1 << 10,
    10 << 10,
    100 << 10,
    1 << 20,
    4 << 20,
    10 << 20,
    100 << 20,
    1 << 30,
];

/// Different values that are counted one by one. Later ones are not, as in Darshan itself.
const VALUES_MAX: usize = 32;

/// How often each of a few values came.
#[derive(Default)]
struct Common(Vec<(i64, i64)>);

impl Common {
    fn count(&mut self, value: i64) {
        match self.0.iter().position(|(known, _)| *known == value) {
            Some(at) => self.0[at].1 += 1,
            None if self.0.len() < VALUES_MAX => self.0.push((value, 1)),
            None => {}
        }
    }

    /// The four most frequent, into two rows of four counters.
    fn put(&self, counters: &mut [i64], values_at: usize, counts_at: usize) {
        let mut order = self.0.clone();
        order.sort_unstable_by_key(|&(value, count)| (-count, -value));
        for (place, (value, count)) in order.into_iter().take(4).enumerate() {
            counters[values_at + place] = value;
            counters[counts_at + place] = count;
        }
    }
}

/// The ends of a thread's last accesses of the file.
#[derive(Clone, Copy)]
struct Position {
    stream: StreamId,
    read: Option<u64>,
    written: Option<u64>,
    last_was_read: Option<bool>,
}

/// The counters of one file and rank.
pub(super) struct Posix {
    counters: [i64; counter::COUNT],
    spans: Spans,
    read_max: u64,
    write_max: u64,
    strides: Common,
    accesses: Common,
    positions: Vec<Position>,
}

impl Posix {
    pub(super) fn new(alignment: u64) -> Posix {
        let mut counters = [0; counter::COUNT];
        counters[counter::FILE_ALIGNMENT] = alignment as i64;
        Posix {
            counters,
            spans: Spans::default(),
            read_max: 0,
            write_max: 0,
            strides: Common::default(),
            accesses: Common::default(),
            positions: Vec::new(),
        }
    }

    /// Returns whether there is a counter for such an event. Darshan counts what succeeded.
    pub(super) fn count(&mut self, stream: StreamId, event: &Event, begin: i64) -> bool {
        let place = match event.op {
            op if op.is_read() => {
                self.read(stream, event, begin);
                return true;
            }
            op if op.is_write() => {
                self.write(stream, event, begin);
                return true;
            }
            Op::Close => {
                self.spans.close.cover(event, begin);
                self.spans.meta += event.took;
                return true;
            }
            Op::Fsync => counter::FSYNCS,
            Op::Fdatasync => counter::FDSYNCS,
            Op::Open => counter::OPENS,
            Op::Lseek => counter::SEEKS,
            Op::Stat | Op::Fstat => counter::STATS,
            Op::Mmap => counter::MMAPS,
            Op::Rename => counter::RENAME_SOURCES,
            _ => return false,
        };
        self.counters[place] += 1;
        match event.op {
            Op::Open => self.spans.open.cover(event, begin),
            Op::Fsync | Op::Fdatasync => self.spans.writing += event.took,
            _ => {}
        }
        if !event.op.is_sync() && event.op != Op::Mmap {
            self.spans.meta += event.took;
        }
        true
    }

    fn read(&mut self, stream: StreamId, event: &Event, begin: i64) {
        let length = event.bytes();
        self.counters[counter::READS] += 1;
        self.counters[counter::BYTES_READ] += length as i64;
        self.counters[counter::SIZE_READ + size_class(length)] += 1;
        self.reach(counter::MAX_BYTE_READ, event.offset, length);
        let position = self.position(stream);
        let (last, turned) = (position.read, position.last_was_read == Some(false));
        position.read = Some(event.offset + length);
        position.last_was_read = Some(true);
        self.pattern(
            event.offset,
            length,
            last,
            counter::CONSEC_READS,
            counter::SEQ_READS,
        );
        self.counters[counter::RW_SWITCHES] += i64::from(turned);
        self.spans.read.cover(event, begin);
        self.spans.reading += event.took;
        if event.took >= self.read_max {
            self.read_max = event.took;
            self.counters[counter::MAX_READ_TIME_SIZE] = length as i64;
        }
    }

    fn write(&mut self, stream: StreamId, event: &Event, begin: i64) {
        let length = event.bytes();
        self.counters[counter::WRITES] += 1;
        self.counters[counter::BYTES_WRITTEN] += length as i64;
        self.counters[counter::SIZE_WRITE + size_class(length)] += 1;
        self.reach(counter::MAX_BYTE_WRITTEN, event.offset, length);
        let position = self.position(stream);
        let (last, turned) = (position.written, position.last_was_read == Some(true));
        position.written = Some(event.offset + length);
        position.last_was_read = Some(false);
        self.pattern(
            event.offset,
            length,
            last,
            counter::CONSEC_WRITES,
            counter::SEQ_WRITES,
        );
        self.counters[counter::RW_SWITCHES] += i64::from(turned);
        self.spans.write.cover(event, begin);
        self.spans.writing += event.took;
        if event.took >= self.write_max {
            self.write_max = event.took;
            self.counters[counter::MAX_WRITE_TIME_SIZE] = length as i64;
        }
    }

    fn reach(&mut self, place: usize, offset: u64, length: u64) {
        if length > 0 {
            let last = (offset + length - 1) as i64;
            self.counters[place] = self.counters[place].max(last);
        }
    }

    /// Sequential is beyond the end of the last access, consecutive at its very end.
    fn pattern(&mut self, offset: u64, length: u64, last: Option<u64>, consec: usize, seq: usize) {
        self.accesses.count(length as i64);
        let alignment = self.counters[counter::FILE_ALIGNMENT].max(1) as u64;
        self.counters[counter::FILE_NOT_ALIGNED] += i64::from(!offset.is_multiple_of(alignment));
        let Some(end) = last else { return };
        self.counters[consec] += i64::from(offset == end);
        self.counters[seq] += i64::from(offset >= end);
        if offset > end {
            self.strides.count((offset - end) as i64);
        }
    }

    fn position(&mut self, stream: StreamId) -> &mut Position {
        let known = self.positions.iter().position(|at| at.stream == stream);
        let at = known.unwrap_or_else(|| {
            self.positions.push(Position {
                stream,
                read: None,
                written: None,
                last_was_read: None,
            });
            self.positions.len() - 1
        });
        &mut self.positions[at]
    }

    /// Writes the record.
    pub(super) fn put(&self, id: u64, rank: i64, out: &mut impl Write) -> io::Result<()> {
        let mut counters = self.counters;
        self.strides
            .put(&mut counters, counter::STRIDES, counter::STRIDE_COUNTS);
        self.accesses
            .put(&mut counters, counter::ACCESSES, counter::ACCESS_COUNTS);
        let spans = &self.spans;
        let parts = [&spans.open, &spans.read, &spans.write, &spans.close];
        let mut times: Vec<f64> = parts.iter().map(|span| span.from).collect();
        times.extend(parts.iter().map(|span| span.to));
        let sums = [spans.reading, spans.writing, spans.meta];
        times.extend(sums.map(seconds));
        times.extend([self.read_max, self.write_max].map(seconds));
        // The fastest and slowest rank and two variances: of files that ranks share in one record.
        times.extend([0.0; 4]);
        super::put_record(out, id, rank, &counters, &times)
    }
}

fn size_class(length: u64) -> usize {
    SIZE_BOUNDS.partition_point(|&bound| length > bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fall_into_ten_classes() {
        assert_eq!(size_class(0), 0);
        assert_eq!(size_class(100), 0);
        assert_eq!(size_class(101), 1);
        assert_eq!(size_class(64 << 10), 3);
        assert_eq!(size_class(1 << 40), 9);
    }

    #[test]
    fn the_four_most_frequent_values_are_kept() {
        let mut common = Common::default();
        for (value, count) in [(1, 5), (2, 9), (3, 1), (4, 2), (5, 7)] {
            (0..count).for_each(|_| common.count(value));
        }
        let mut counters = [0; 8];
        common.put(&mut counters, 0, 4);
        assert_eq!(counters, [2, 5, 1, 4, 9, 7, 5, 2]);
    }
}
