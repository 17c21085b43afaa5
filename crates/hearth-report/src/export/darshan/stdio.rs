//! Darshan's counters of stdio calls for one file and one rank: version 2 of its record.

use std::io::{self, Write};

use hearth_trace::{Event, Op};

use super::times::{Spans, seconds};

/// Places of the counters that are filled in.
mod counter {
    pub(super) const OPENS: usize = 0;
    pub(super) const READS: usize = 2;
    pub(super) const WRITES: usize = 3;
    pub(super) const SEEKS: usize = 4;
    pub(super) const FLUSHES: usize = 5;
    pub(super) const BYTES_WRITTEN: usize = 6;
    pub(super) const BYTES_READ: usize = 7;
    pub(super) const MAX_BYTE_READ: usize = 8;
    pub(super) const MAX_BYTE_WRITTEN: usize = 9;
    pub(super) const COUNT: usize = 14;
}

/// The counters of one file and rank.
#[derive(Default)]
pub(super) struct Stdio {
    counters: [i64; counter::COUNT],
    spans: Spans,
}

impl Stdio {
    /// Returns whether there is a counter for such an event.
    pub(super) fn count(&mut self, event: &Event, begin: i64) -> bool {
        let length = event.bytes();
        let last = (event.offset + length).saturating_sub(1) as i64;
        let counters = &mut self.counters;
        let mut moved = |count: usize, bytes: usize, max: usize| {
            counters[count] += 1;
            counters[bytes] += length as i64;
            counters[max] = counters[max].max(last);
        };
        match event.op {
            op if op.is_read() => {
                moved(counter::READS, counter::BYTES_READ, counter::MAX_BYTE_READ);
                self.spans.read.cover(event, begin);
                self.spans.reading += event.took;
                return true;
            }
            op if op.is_write() => {
                moved(
                    counter::WRITES,
                    counter::BYTES_WRITTEN,
                    counter::MAX_BYTE_WRITTEN,
                );
                self.spans.write.cover(event, begin);
                self.spans.writing += event.took;
                return true;
            }
            Op::Open => {
                counters[counter::OPENS] += 1;
                self.spans.open.cover(event, begin);
            }
            Op::Close => self.spans.close.cover(event, begin),
            Op::Lseek => counters[counter::SEEKS] += 1,
            Op::Flush => counters[counter::FLUSHES] += 1,
            _ => return false,
        }
        self.spans.meta += event.took;
        true
    }

    /// Writes the record.
    pub(super) fn put(&self, id: u64, rank: i64, out: &mut impl Write) -> io::Result<()> {
        let spans = &self.spans;
        let mut times: Vec<f64> = [spans.meta, spans.writing, spans.reading]
            .map(seconds)
            .to_vec();
        let parts = [&spans.open, &spans.close, &spans.write, &spans.read];
        times.extend(parts.iter().map(|span| span.from));
        times.extend(parts.iter().map(|span| span.to));
        // The fastest and slowest rank and two variances: of files that ranks share in one record.
        times.extend([0.0; 4]);
        super::put_record(out, id, rank, &self.counters, &times)
    }
}
