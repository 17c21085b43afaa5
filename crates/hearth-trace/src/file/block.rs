//! The head of a block: what can be known of its records without decoding them.

use super::fields::{Field, Malformed};
use crate::Record;

/// Sums over the records of a block with one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    /// Code of the operation.
    pub(super) op: u8,
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) ticks: u64,
}

/// The head of a block, which stands before its records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// The thread of the records, by its number in the session.
    pub(super) stream: u32,
    /// Of which process.
    pub(super) process: u32,
    pub(super) count: u32,
    /// Attempt numbers of the first and the last.
    pub(super) seq_first: u64,
    pub(super) seq_last: u64,
    /// Ticks at the earliest start and the latest end.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) sums: Vec<Sum>,
}

impl Head {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        for word in [self.stream, self.process, self.count] {
            word.put(out);
        }
        for word in [
            self.seq_first,
            self.seq_last.wrapping_sub(self.seq_first),
            self.start,
            self.end.wrapping_sub(self.start),
            self.sums.len() as u64,
        ] {
            word.put(out);
        }
        for sum in &self.sums {
            sum.op.put(out);
            for word in [sum.count, sum.bytes, sum.ticks] {
                word.put(out);
            }
        }
    }

    /// Takes the head off a payload; the records are what is left.
    pub(super) fn take(input: &mut &[u8]) -> Result<Head, Malformed> {
        let (stream, process) = (u32::take(input)?, u32::take(input)?);
        let count = u32::take(input)?;
        if count as usize > crate::codec::BLOCK_RECORDS_MAX {
            return Err(Malformed);
        }
        let seq_first = u64::take(input)?;
        let seq_last = seq_first.wrapping_add(u64::take(input)?);
        let start = u64::take(input)?;
        let end = start.wrapping_add(u64::take(input)?);
        let sums = (0..u64::take(input)?.min(256)).map(|_| {
            Ok(Sum {
                op: u8::take(input)?,
                count: u64::take(input)?,
                bytes: u64::take(input)?,
                ticks: u64::take(input)?,
            })
        });
        let sums = sums.collect::<Result<_, _>>()?;
        Ok(Head {
            stream,
            process,
            count,
            seq_first,
            seq_last,
            start,
            end,
            sums,
        })
    }
}

/// Bits of a record's sequence number that number the attempt; the others are the ring's.
const ATTEMPT_BITS: u32 = 56;

/// The number of the attempt that a record is.
#[inline]
pub(super) fn attempt(record: &Record) -> u64 {
    record.seq & ((1 << ATTEMPT_BITS) - 1)
}

/// Sums by operation, while a block is gathered.
pub(super) struct Sums {
    rows: Box<[Sum; 256]>,
}

impl Sums {
    pub(super) fn new() -> Sums {
        Sums {
            rows: Box::new([Sum::default(); 256]),
        }
    }

    #[inline]
    pub(super) fn add(&mut self, record: &Record) {
        let row = &mut self.rows[usize::from(record.op)];
        row.count += 1;
        row.bytes = row.bytes.wrapping_add(record.outcome().max(0) as u64);
        row.ticks = row.ticks.wrapping_add(record.ticks());
    }

    /// The rows that are not empty; all are afterwards.
    pub(super) fn drain(&mut self) -> Vec<Sum> {
        let mut sums = Vec::new();
        for (op, row) in self.rows.iter_mut().enumerate() {
            if row.count != 0 {
                let moves = crate::Op::from_code(op as u8).is_some_and(crate::Op::moves_bytes);
                sums.push(Sum {
                    op: op as u8,
                    bytes: if moves { row.bytes } else { 0 },
                    ..*row
                });
                *row = Sum::default();
            }
        }
        sums
    }
}
