//! Records as a parallel job makes them, for measuring what a trace costs.
//!
//! The mix: of ten operations four are sequential writes of 64 KiB, three strided reads of 16 KiB, two
//! random reads of 4 KiB and one asks for names and attributes. Durations are skewed, as real ones are;
//! times between operations vary; every operation has a request number, reads hit or miss.

use std::io;

use crate::codec::BLOCK_RECORDS_MAX;
use crate::file::{Fact, NewProcess, ProcessKey, Sink, StreamKey, Writer};
use crate::{Flags, Layer, Op, Record};

/// Ticks of the generated clock in a second.
pub const TICKS_PER_SECOND: u64 = 2_500_000_000;
/// Bytes of the file that is read at random, and of the one that is read in strides.
const SHARED_LEN: u64 = 4 << 30;

/// Endless records of one thread.
pub struct Mix {
    rank: u32,
    random: Random,
    now: u64,
    seq: u64,
    written: u64,
    strided: u64,
    opened: u32,
}

/// File numbers that the generated records use: one that each rank writes, and two that all share.
pub mod files {
    /// Written by one rank alone.
    pub const OWN: u32 = 1;
    /// Read in strides by all.
    pub const STRIDED: u32 = 2;
    /// Read at random by all.
    pub const RANDOM: u32 = 3;
    /// The first of those that are only looked at.
    pub const SMALL: u32 = 4;
    /// How many of those there are.
    pub const SMALL_COUNT: u32 = 500;
}

impl Mix {
    /// The records of `rank`, whose clock stands at `start`.
    pub fn new(rank: u32, start: u64) -> Mix {
        Mix {
            rank,
            random: Random(u64::from(rank) * 0x9e37 + 1),
            now: start,
            seq: 0,
            written: 0,
            strided: u64::from(rank) * 16384,
            opened: 0,
        }
    }

    /// Ticks at the end of the last record.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The next record.
    pub fn record(&mut self) -> Record {
        let kind = self.random.below(10);
        let mut record = match kind {
            0..=3 => self.sequential_write(),
            4..=6 => self.strided_read(),
            7..=8 => self.random_read(),
            _ => self.metadata(),
        };
        self.seq += 1;
        record.seq = self.seq;
        record.request = u64::from(self.rank) << 48 | 1 << 36 | self.seq;
        record.start = self.now + self.random.skewed(2_000);
        self.now = record.start + u64::from(record.took);
        record
    }

    fn sequential_write(&mut self) -> Record {
        let offset = self.written;
        self.written += 65536;
        let took = self.random.skewed(60_000);
        Record {
            flags: Flags::SEQUENTIAL,
            ..moved(Op::Pwrite, files::OWN, (offset, 65536), took)
        }
    }

    fn strided_read(&mut self) -> Record {
        let offset = self.strided;
        self.strided = (offset + 64 * 16384) % SHARED_LEN;
        self.read(files::STRIDED, offset, 16384)
    }

    fn random_read(&mut self) -> Record {
        let offset = self.random.below(SHARED_LEN / 4096) * 4096;
        self.read(files::RANDOM, offset, 4096)
    }

    fn read(&mut self, file: u32, offset: u64, len: u32) -> Record {
        let hit = self.random.below(8) != 0;
        let took = self.random.skewed(if hit { 8_000 } else { 600_000 });
        let near = if hit { len } else { 0 };
        Record {
            flags: if hit { Flags::HIT } else { Flags::MISS },
            near,
            ..moved(Op::Pread, file, (offset, len), took)
        }
    }

    fn metadata(&mut self) -> Record {
        let took = self.random.skewed(30_000);
        let op = [Op::Open, Op::Stat, Op::Close][self.opened as usize % 3];
        let file = files::SMALL + self.opened / 3 % files::SMALL_COUNT;
        self.opened += 1;
        let record = moved(op, file, (0, 0), took);
        match op {
            Op::Open => Record {
                asked: 0x8_0000,
                result: 12,
                ..record
            },
            _ => record,
        }
    }
}

/// Code of the generated clock.
const CLOCK: u8 = 1;
/// Ticks and wall time when the generated job begins.
const START: u64 = 1 << 40;
const START_REAL: u64 = 1_700_000_000_000_000_000;

/// Writes the trace of a generated job: `events` operations by `ranks` processes of one thread each.
pub fn write<S: Sink>(writer: &mut Writer<S>, events: u64, ranks: u32) -> io::Result<()> {
    let mut threads = Vec::new();
    for rank in 0..ranks {
        threads.push((begin(writer, rank)?, Mix::new(rank, START)));
    }
    clock(writer, START)?;
    let mut left = events;
    let mut block = Vec::with_capacity(BLOCK_RECORDS_MAX);
    while left > 0 {
        for ((_, stream), mix) in &mut threads {
            let count = left.min(BLOCK_RECORDS_MAX as u64);
            block.clear();
            block.extend((0..count).map(|_| mix.record()));
            writer.records(*stream, &block)?;
            left -= count;
        }
    }
    let end = threads.iter().map(|(_, mix)| mix.now()).max();
    clock(writer, end.unwrap_or(START) + TICKS_PER_SECOND)?;
    for ((process, stream), mix) in &threads {
        writer.fact(&Fact::Counts {
            stream: stream.0,
            attempted: mix.seq,
            dropped: 0,
            torn: 0,
        })?;
        writer.fact(&Fact::Ended {
            process: process.0,
            ticks: mix.now(),
        })?;
    }
    Ok(())
}

/// Says who a rank is, and what its files are called.
fn begin<S: Sink>(writer: &mut Writer<S>, rank: u32) -> io::Result<(ProcessKey, StreamKey)> {
    let pid = 1000 + rank;
    let process = writer.process(&NewProcess {
        pid,
        start_time: 1,
        image: 0,
        clock: CLOCK,
        start: START,
    })?;
    writer.fact(&Fact::Exe {
        process: process.0,
        path: b"/usr/bin/generated",
    })?;
    writer.fact(&Fact::Rank {
        process: process.0,
        rank,
    })?;
    let own = format!("/scratch/out.{rank:05}");
    let mut names = vec![
        (files::OWN, own),
        (files::STRIDED, "/scratch/grid".to_owned()),
        (files::RANDOM, "/scratch/index".to_owned()),
    ];
    names.extend((0..files::SMALL_COUNT).map(|at| {
        let path = format!("/scratch/parameters/{at:04}");
        (files::SMALL + at, path)
    }));
    for (file, path) in names {
        writer.file(process, file, (path.as_bytes(), "lustre"))?;
    }
    Ok((process, writer.stream(process, (0, 0), pid)?))
}

fn clock<S: Sink>(writer: &mut Writer<S>, ticks: u64) -> io::Result<()> {
    let since = u128::from(ticks - START) * 1_000_000_000 / u128::from(TICKS_PER_SECOND);
    let raw = since as u64;
    writer.fact(&Fact::Clock {
        clock: CLOCK,
        ticks,
        raw,
        real: START_REAL + raw,
        window: 50,
    })
}

/// A record of an operation that did all it was asked to.
fn moved(op: Op, file: u32, (offset, len): (u64, u32), took: u64) -> Record {
    Record {
        start: 0,
        took: took as u32,
        op: op as u8,
        layer: Layer::App as u8,
        flags: Flags::default(),
        offset,
        asked: len,
        result: len as i32,
        file,
        thread: 0,
        request: 0,
        near: 0,
        peer: 0,
        depth: 0,
        seq: 0,
    }
}

/// Numbers without order, the same in every run.
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((self.word() >> 32) * bound) >> 32
    }

    /// About log-normal around `median`: the exponent is a sum of four even numbers.
    fn skewed(&mut self, median: u64) -> u64 {
        let word = self.word();
        let sum: u64 = (0..4).map(|at| word >> (16 * at) & 0xffff).sum();
        let exponent = (sum as f32 / 65536.0 - 2.0) * 2.0;
        (median as f32 * exponent.exp2()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Encoder, decode};

    #[test]
    fn the_mix_comes_back_and_takes_less_than_ten_bytes_for_each_record() {
        let (mut bytes, mut count) = (0, 0);
        for rank in 0..8 {
            let mut mix = Mix::new(rank, 1 << 40);
            let records: Vec<Record> = (0..4096).map(|_| mix.record()).collect();
            let mut encoder = Encoder::new();
            let block = encoder.encode(&records);
            let mut back = Vec::new();
            decode(block, records.len(), |record| back.push(record)).expect("own bytes decode");
            assert_eq!(back, records);
            bytes += block.len();
            count += records.len();
        }
        assert!(bytes <= count * 10, "{bytes} bytes for {count} records");
    }
}
