//! One operation to do again, as it stands in temporary files.

use hearth_report::export::sorter::SortItem;
use hearth_trace::{Event, Layer, Op, StreamId};

/// Whether an operation can be done again, knowing what a trace knows.
pub(crate) fn is_replayable(event: &Event) -> bool {
    let failed = event.failed() || event.result < 0;
    let asks = matches!(event.op, Op::Open | Op::Stat | Op::Access);
    let does = matches!(
        event.op,
        Op::Close
            | Op::Fsync
            | Op::Fdatasync
            | Op::Fstat
            | Op::Truncate
            | Op::Fallocate
            | Op::Mkdir
            | Op::Rmdir
            | Op::Unlink
            | Op::Rename
            | Op::Opendir
            | Op::Statfs
            | Op::Copy
    );
    let moves = event.op.is_read() || event.op.is_write();
    event.layer == Layer::App && event.file.is_some() && (asks || !failed && (does || moves))
}

/// Ordered by time, and within a thread by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Traced {
    pub(crate) start: i64,
    pub(crate) stream: u32,
    pub(crate) seq: u64,
    pub(crate) took: u64,
    pub(crate) file: u32,
    pub(crate) op: Op,
    pub(crate) offset: u64,
    pub(crate) asked: u64,
    pub(crate) result: i64,
}

impl Traced {
    /// The operation, if it has a file.
    pub(crate) fn of(stream: StreamId, event: &Event) -> Option<Traced> {
        Some(Traced {
            start: event.start,
            stream: stream.0,
            seq: event.seq,
            took: event.took,
            file: event.file?.0,
            op: event.op,
            offset: event.offset,
            asked: event.asked,
            result: event.result,
        })
    }

    pub(crate) fn end(&self) -> i64 {
        self.start.saturating_add_unsigned(self.took)
    }

    pub(crate) fn failed(&self) -> bool {
        self.result < 0
    }

    /// Bytes moved.
    pub(crate) fn bytes(&self) -> u64 {
        u64::try_from(self.result).unwrap_or(0)
    }
}

impl SortItem for Traced {
    const SIZE: usize = 57;

    fn put(&self, to: &mut Vec<u8>) {
        to.extend(self.start.to_le_bytes());
        to.extend(self.stream.to_le_bytes());
        to.extend(self.seq.to_le_bytes());
        to.extend(self.took.to_le_bytes());
        to.extend(self.file.to_le_bytes());
        to.extend(self.offset.to_le_bytes());
        to.extend(self.asked.to_le_bytes());
        to.extend(self.result.to_le_bytes());
        to.push(self.op as u8);
    }

    fn take(from: &[u8]) -> Traced {
        let four = |at: usize| u32::from_le_bytes(from[at..at + 4].try_into().expect("four bytes"));
        let eight =
            |at: usize| u64::from_le_bytes(from[at..at + 8].try_into().expect("eight bytes"));
        Traced {
            start: eight(0).cast_signed(),
            stream: four(8),
            seq: eight(12),
            took: eight(20),
            file: four(28),
            offset: eight(32),
            asked: eight(40),
            result: eight(48).cast_signed(),
            op: Op::from_code(from[56]).expect("it was an operation when it was put"),
        }
    }
}

/// An operation with all that its thread must know to do it at the right time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Step {
    pub(crate) stream: u32,
    /// Its number among the thread's steps, from 0.
    pub(crate) index: u64,
    /// Nanoseconds that passed before it, since its thread and what it waits for were ready.
    pub(crate) think: u64,
    /// The thread to wait for, and how many of its steps.
    pub(crate) after: Option<(u32, u64)>,
    pub(crate) what: Traced,
}

impl SortItem for Step {
    const SIZE: usize = 32 + Traced::SIZE;

    fn put(&self, to: &mut Vec<u8>) {
        let (stream, count) = self.after.unwrap_or((u32::MAX, 0));
        to.extend(self.stream.to_le_bytes());
        to.extend(stream.to_le_bytes());
        to.extend(self.index.to_le_bytes());
        to.extend(self.think.to_le_bytes());
        to.extend(count.to_le_bytes());
        self.what.put(to);
    }

    fn take(from: &[u8]) -> Step {
        let four = |at: usize| u32::from_le_bytes(from[at..at + 4].try_into().expect("four bytes"));
        let eight =
            |at: usize| u64::from_le_bytes(from[at..at + 8].try_into().expect("eight bytes"));
        Step {
            stream: four(0),
            after: (four(4) != u32::MAX).then(|| (four(4), eight(24))),
            index: eight(8),
            think: eight(16),
            what: Traced::take(&from[32..]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_back_from_a_file_as_they_went() {
        let what = Traced {
            start: -5,
            stream: 3,
            seq: 9,
            took: 77,
            file: 4,
            op: Op::Pwrite,
            offset: 1 << 40,
            asked: 4096,
            result: -28,
        };
        for after in [None, Some((7, 1 << 33))] {
            let step = Step {
                stream: 3,
                index: 12,
                think: 1_000,
                after,
                what,
            };
            let mut bytes = Vec::new();
            step.put(&mut bytes);
            assert_eq!(bytes.len(), Step::SIZE);
            assert_eq!(Step::take(&bytes), step);
        }
    }
}
