//! A stream of operations that anybody can compute: what a traced process did is known from how far
//! it came.

use hearth_trace::ring::{OpFacts, Totals, tracer};
use hearth_trace::{Op, Record};

/// The operations of one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script {
    pub(crate) seed: u64,
}

impl Script {
    /// The attempt with this number, from 1: what was done, and its ticks at entry and return.
    pub(crate) fn attempt(self, number: u64) -> (OpFacts, u64, u64) {
        const OPS: [Op; 4] = [Op::Pread, Op::Pwrite, Op::Fstat, Op::Read];
        let noise = (number ^ self.seed << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bytes = (noise >> 40) as i64 + 1;
        let done = OpFacts {
            offset: noise,
            asked: bytes.cast_unsigned(),
            result: bytes,
            file: noise as u32,
            request: !noise,
            ..OpFacts::new(OPS[(noise >> 62) as usize])
        };
        let started = number * 1_000;
        (done, started, started + (noise >> 50))
    }

    /// Does it.
    pub(crate) fn act(self, number: u64) {
        let (done, started, ended) = self.attempt(number);
        tracer::record(started, ended, &done);
    }

    /// Asserts that a record is what its number says.
    pub(crate) fn check(self, record: &Record) {
        let (done, started, ended) = self.attempt(record.seq);
        let mut expected = done.record(started, ended, record.thread);
        expected.seq = record.seq;
        assert_eq!(*record, expected, "record {} of {self:?}", record.seq);
    }

    /// Sums over attempts 1 to `last`.
    pub(crate) fn totals(self, last: u64) -> Totals {
        let mut totals = Totals::default();
        for number in 1..=last {
            let (done, started, ended) = self.attempt(number);
            totals.add_record(&done.record(started, ended, 0));
        }
        totals
    }
}
