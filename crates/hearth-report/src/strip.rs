//! When the time was spent: bins of time, one row for each thread.
//!
//! Bins are a power of two wide. When a trace outgrows them, or the rows outgrow their bound, pairs
//! of bins become one.

use hearth_trace::{Op, Tables};

/// At most so many bins; a job fills more than a quarter of them.
const BINS_MAX: usize = 4096;
/// Cells of all rows together.
const CELLS_MAX: usize = 1 << 22;
/// Bins are not narrower than 2^14 ns.
const SHIFT_MIN: u32 = 14;

/// Groups of operations, as people see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Read,
    Write,
    Metadata,
    Sync,
    Other,
}

impl Group {
    pub(crate) const ALL: [Group; 5] = [
        Group::Read,
        Group::Write,
        Group::Metadata,
        Group::Sync,
        Group::Other,
    ];

    pub(crate) fn of(op: Op) -> Group {
        if op.is_read() || op == Op::Copy {
            Group::Read
        } else if op.is_write() {
            Group::Write
        } else if op.is_sync() {
            Group::Sync
        } else if op.is_metadata() {
            Group::Metadata
        } else {
            Group::Other
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Group::Read => "read",
            Group::Write => "write",
            Group::Metadata => "metadata",
            Group::Sync => "sync",
            Group::Other => "other",
        }
    }
}

/// One thread's time in I/O.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// The bin of the first cell.
    pub(crate) first: usize,
    /// Nanoseconds by bin.
    pub(crate) cells: Vec<u64>,
    /// Nanoseconds in all.
    pub(crate) total: u64,
    /// From the first entry to the last return.
    pub(crate) seen: Option<(i64, i64)>,
}

/// The I/O of all threads in a bin.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bin {
    /// Nanoseconds by [`Group`].
    pub(crate) took: [u64; 5],
    /// Operations by [`Group`].
    pub(crate) calls: [u64; 5],
    /// Bytes read and written.
    pub(crate) bytes: u64,
}

/// The bins, and every thread's row.
#[derive(Clone, Debug)]
pub(crate) struct Strip {
    pub(crate) origin: i64,
    shift: u32,
    pub(crate) rows: Vec<Row>,
    pub(crate) bins: Vec<Bin>,
    cells: usize,
}

impl Strip {
    pub(crate) fn new(tables: &Tables) -> Strip {
        let origin = tables.processes.iter().map(|process| process.start).min();
        let end = tables.processes.iter().map(|process| process.end).max();
        let origin = origin.unwrap_or(0);
        let span = end.unwrap_or(0).saturating_sub(origin).max(1) as u64;
        let mut shift = SHIFT_MIN;
        while (span >> shift) as usize >= BINS_MAX {
            shift += 1;
        }
        Strip {
            origin,
            shift,
            rows: vec![Row::default(); tables.streams.len()],
            bins: Vec::new(),
            cells: 0,
        }
    }

    /// Nanoseconds in a bin.
    pub(crate) fn width(&self) -> u64 {
        1 << self.shift
    }

    /// The bin of a moment; moments before the first bin fall into it.
    pub(crate) fn bin_of(&self, at: i64) -> usize {
        (at.saturating_sub(self.origin).max(0) as u64 >> self.shift) as usize
    }

    pub(crate) fn add(&mut self, stream: usize, group: Group, start: i64, took: u64, bytes: u64) {
        let end = start.saturating_add_unsigned(took);
        while self.bin_of(end) >= BINS_MAX || self.cells > CELLS_MAX {
            self.halve();
        }
        let (from, to) = (self.bin_of(start), self.bin_of(end));
        if to >= self.bins.len() {
            self.bins.resize(to + 1, Bin::default());
        }
        self.bins[from].calls[group as usize] += 1;
        self.bins[from].bytes += bytes;
        let row = &mut self.rows[stream];
        self.cells += row.cover(from, to);
        row.total += took;
        row.seen = Some(match row.seen {
            Some((first, last)) => (first.min(start), last.max(end)),
            None => (start, end),
        });
        if from == to {
            row.cells[from - row.first] += took;
            self.bins[from].took[group as usize] += took;
            return;
        }
        for bin in from..=to {
            let opens = self
                .origin
                .saturating_add_unsigned((bin as u64) << self.shift);
            let closes = opens.saturating_add(1 << self.shift);
            let opens = if bin == from { start } else { opens };
            let part = closes.min(end).saturating_sub(opens).max(0) as u64;
            row.cells[bin - row.first] += part;
            self.bins[bin].took[group as usize] += part;
        }
    }

    fn halve(&mut self) {
        self.shift += 1;
        let mut bins = vec![Bin::default(); self.bins.len().div_ceil(2)];
        for (index, bin) in self.bins.iter().enumerate() {
            let whole = &mut bins[index / 2];
            for group in 0..Group::ALL.len() {
                whole.took[group] += bin.took[group];
                whole.calls[group] += bin.calls[group];
            }
            whole.bytes += bin.bytes;
        }
        self.bins = bins;
        self.cells = 0;
        for row in &mut self.rows {
            row.halve();
            self.cells += row.cells.len();
        }
    }
}

impl Row {
    /// Makes room for a run of bins, and says by how many cells the row grew.
    fn cover(&mut self, from: usize, to: usize) -> usize {
        let before = self.cells.len();
        if self.cells.is_empty() {
            self.first = from;
        }
        if from < self.first {
            let missing = self.first - from;
            self.cells.splice(0..0, std::iter::repeat_n(0, missing));
            self.first = from;
        }
        if to - self.first >= self.cells.len() {
            self.cells.resize(to - self.first + 1, 0);
        }
        self.cells.len() - before
    }

    fn halve(&mut self) {
        let first = self.first / 2;
        let end = (self.first + self.cells.len()).div_ceil(2);
        let mut cells = vec![0; end.saturating_sub(first)];
        for (index, took) in self.cells.iter().enumerate() {
            cells[(self.first + index) / 2 - first] += took;
        }
        self.first = first;
        self.cells = cells;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strip() -> Strip {
        let mut strip = Strip::new(&Tables::default());
        strip.rows = vec![Row::default(); 2];
        strip
    }

    #[test]
    fn time_is_spread_over_bins_and_none_is_lost_when_they_widen() {
        let mut strip = strip();
        let width = strip.width() as i64;
        strip.add(0, Group::Read, width / 2, strip.width() * 2, 10);
        assert_eq!(
            strip.rows[0].cells,
            [strip.width() / 2, strip.width(), strip.width() / 2]
        );
        strip.add(1, Group::Write, 1 << 45, 1000, 0);
        assert!(strip.bins.len() <= BINS_MAX);
        for row in &strip.rows {
            assert_eq!(row.cells.iter().sum::<u64>(), row.total);
        }
        let took: u64 = strip.bins.iter().flat_map(|bin| bin.took).sum();
        assert_eq!(took, strip.rows[0].total + strip.rows[1].total);
    }

    #[test]
    fn a_row_grows_to_both_sides() {
        let mut strip = strip();
        let width = strip.width() as i64;
        strip.add(0, Group::Other, 10 * width, 5, 0);
        strip.add(0, Group::Other, 2 * width, 7, 0);
        assert_eq!((strip.rows[0].first, strip.rows[0].cells.len()), (2, 9));
        assert_eq!(strip.rows[0].total, 12);
    }
}
