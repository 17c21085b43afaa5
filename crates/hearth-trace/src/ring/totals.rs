//! Sums by operation: in shared memory, where a full ring adds to them, and as a drain reads them.

use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use crate::{Op, Record};

/// Rows of a table: the codes of operations are below this.
const ROWS: usize = 128;

/// One row of a shared table.
#[repr(C)]
struct Row {
    count: AtomicU64,
    bytes: AtomicU64,
    ticks: AtomicU64,
}

impl Row {
    const fn new() -> Row {
        Row {
            count: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            ticks: AtomicU64::new(0),
        }
    }

    fn words(&self) -> [&AtomicU64; 3] {
        [&self.count, &self.bytes, &self.ticks]
    }

    fn copy_to(&self, other: &Row) {
        for (from, to) in self.words().into_iter().zip(other.words()) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    fn clear(&self) {
        for word in self.words() {
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// A table of sums in shared memory, by the code of the operation.
#[repr(C)]
pub(crate) struct SharedTotals([Row; ROWS]);

/// The share of one attempt in a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) op: u8,
    pub(crate) bytes: u64,
    pub(crate) ticks: u64,
}

impl Share {
    /// The share that a written record would have added.
    pub(crate) fn of(record: &Record) -> Share {
        let moves = Op::from_code(record.op).is_some_and(Op::moves_bytes);
        let bytes = u64::try_from(record.outcome()).unwrap_or(0);
        Share {
            op: record.op,
            bytes: if moves { bytes } else { 0 },
            ticks: record.ticks(),
        }
    }
}

impl SharedTotals {
    /// A table of zeroes.
    pub(crate) const fn new() -> Self {
        SharedTotals([const { Row::new() }; ROWS])
    }

    /// Adds, where others may at the same time.
    pub(crate) fn add(&self, share: Share) {
        let row = &self.0[usize::from(share.op) % ROWS];
        row.bytes.fetch_add(share.bytes, Ordering::Relaxed);
        row.ticks.fetch_add(share.ticks, Ordering::Relaxed);
        row.count.fetch_add(1, Ordering::Relaxed);
    }

    /// The sums in it now.
    pub(crate) fn read(&self) -> Totals {
        let row = |(code, row): (usize, &Row)| OpTotal {
            code: code as u8,
            count: row.count.load(Ordering::Relaxed),
            bytes: row.bytes.load(Ordering::Relaxed),
            ticks: row.ticks.load(Ordering::Relaxed),
        };
        let rows = self.0.iter().enumerate().map(row);
        Totals(rows.filter(|row| row.count != 0).collect())
    }

    /// Takes all rows out and adds them to `other`; answers how many operations that were.
    pub(crate) fn move_to(&self, other: &SharedTotals) -> u64 {
        let mut moved = 0;
        for (from, to) in self.0.iter().zip(&other.0) {
            for (from, to) in [(&from.bytes, &to.bytes), (&from.ticks, &to.ticks)] {
                to.fetch_add(from.swap(0, Ordering::Relaxed), Ordering::Relaxed);
            }
            let count = from.count.swap(0, Ordering::Relaxed);
            to.count.fetch_add(count, Ordering::Relaxed);
            moved += count;
        }
        moved
    }
}

/// A table of sums that one thread adds to, and that a kill in the middle of it leaves exact.
///
/// The row's new values are written down first, whole; then `pending` says so; then the row gets them.
/// A reader that finds `pending` set after the thread's end gives them to the row again.
#[repr(C)]
pub(crate) struct Drops {
    rows: SharedTotals,
    /// Not 0: code of the operation plus 1.
    pending: AtomicU64,
    next: Row,
}

impl Drops {
    /// Adds; only the thread of the ring does.
    pub(crate) fn add(&self, share: Share) {
        let row = &self.rows.0[usize::from(share.op) % ROWS];
        for (next, (word, more)) in self.next.words().into_iter().zip([
            (&row.count, 1),
            (&row.bytes, share.bytes),
            (&row.ticks, share.ticks),
        ]) {
            let sum = word.load(Ordering::Relaxed).wrapping_add(more);
            next.store(sum, Ordering::Relaxed);
        }
        // A kill ends the program between two of its stores: their order in it is all that counts.
        compiler_fence(Ordering::SeqCst);
        let code = u64::from(share.op) % ROWS as u64;
        self.pending.store(code + 1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.next.copy_to(row);
        compiler_fence(Ordering::SeqCst);
        self.pending.store(0, Ordering::Relaxed);
    }

    /// Completes what a kill interrupted; only after the end of the thread.
    pub(crate) fn settle(&self) {
        let pending = self.pending.load(Ordering::Relaxed);
        if let Some(row) = pending
            .checked_sub(1)
            .and_then(|code| self.rows.0.get(usize::try_from(code).ok()?))
        {
            self.next.copy_to(row);
            self.pending.store(0, Ordering::Relaxed);
        }
    }

    /// The sums in it now.
    pub(crate) fn read(&self) -> Totals {
        self.rows.read()
    }

    /// Back to zeroes.
    pub(crate) fn clear(&self) {
        self.rows.0.iter().for_each(Row::clear);
        self.pending.store(0, Ordering::Relaxed);
    }
}

/// A sum over operations of one kind, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpTotal {
    /// Code of an [`Op`]; whatever stood in shared memory.
    pub code: u8,
    /// How many.
    pub count: u64,
    /// Bytes moved by them.
    pub bytes: u64,
    /// Ticks spent in them.
    pub ticks: u64,
}

/// Sums by operation, in the order of the codes; no row is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals(pub Vec<OpTotal>);

impl Totals {
    /// How many operations, of all kinds.
    pub fn count(&self) -> u64 {
        self.0
            .iter()
            .fold(0, |sum, row| sum.saturating_add(row.count))
    }

    /// Adds one written record.
    pub fn add_record(&mut self, record: &Record) {
        let share = Share::of(record);
        self.add_row(OpTotal {
            code: share.op,
            count: 1,
            bytes: share.bytes,
            ticks: share.ticks,
        });
    }

    /// Adds every row of `other`.
    pub fn add(&mut self, other: &Totals) {
        for row in &other.0 {
            self.add_row(*row);
        }
    }

    fn add_row(&mut self, more: OpTotal) {
        match self.0.binary_search_by_key(&more.code, |row| row.code) {
            Ok(at) => {
                let row = &mut self.0[at];
                row.count = row.count.saturating_add(more.count);
                row.bytes = row.bytes.saturating_add(more.bytes);
                row.ticks = row.ticks.saturating_add(more.ticks);
            }
            Err(at) => self.0.insert(at, more),
        }
    }
}
