//! Writes a session: records and facts become frames, frames go to a [`Sink`].
//!
//! 1. A thread's records are written in the order they are given. If their numbers skip, a
//!    [`Fact::Gap`] says so.
//! 2. All that was given is in the sink after [`Writer::flush`]. Before, short runs wait for more
//!    of their thread, at most [`WAITING_MAX`] records each.

use std::io;

use super::block::{Head, Sums, attempt};
use super::fact::Fact;
use super::frame::{FrameKind, HEADER_LEN, SessionId, seal};
use crate::Record;
use crate::codec::{BLOCK_RECORDS_MAX, Encoder};

/// Records of one thread that wait for more.
pub const WAITING_MAX: usize = 1024;
/// Facts of more bytes than this become a frame.
const FACTS_LEN: usize = 32 << 10;
/// Frames of more bytes than this go to the sink.
const OUT_LEN: usize = 128 << 10;
/// A longer text of a fact is cut.
const TEXT_LEN_MAX: usize = 16 << 10;

/// Takes whole frames, in their order.
pub trait Sink {
    /// Takes frames that together have not more than 512 KiB; `numbers` are those of the first and
    /// of the one after the last.
    fn take(&mut self, frames: &[u8], numbers: (u64, u64)) -> io::Result<()>;
}

/// Appends to a file, or to whatever else can be written to.
impl<W: io::Write> Sink for W {
    fn take(&mut self, frames: &[u8], _: (u64, u64)) -> io::Result<()> {
        self.write_all(frames)
    }
}

/// A process, by its number in the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessKey(pub u32);

/// A thread, by its number in the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamKey(pub u32);

/// The facts about a process that are known when tracing of it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewProcess {
    /// Its number in the operating system.
    pub pid: u32,
    /// When it began, in clock ticks since boot.
    pub start_time: u64,
    /// How often it called exec before.
    pub image: u32,
    /// Code of the clock whose ticks its records hold.
    pub clock: u8,
    /// Ticks when tracing of it began.
    pub start: u64,
}

/// Writes one session.
pub struct Writer<S> {
    sink: S,
    session: SessionId,
    number: u64,
    /// Frames not yet in the sink, and the number of the first.
    out: Vec<u8>,
    out_first: u64,
    facts: Vec<u8>,
    processes: u32,
    streams: Vec<Waiting>,
    encoder: Encoder,
    sums: Sums,
    records: u64,
    bytes: u64,
}

/// A thread whose records are written.
struct Waiting {
    process: u32,
    records: Vec<Record>,
    /// Number of the last attempt, and ticks at its end.
    seq_last: u64,
    end: u64,
}

impl<S: Sink> Writer<S> {
    /// Begins a session of this machine, called `host` and booted as `boot`.
    pub fn new(sink: S, session: SessionId, (host, boot): (&str, u128)) -> io::Result<Writer<S>> {
        let mut writer = Writer {
            sink,
            session,
            number: 0,
            out: Vec::with_capacity(2 * OUT_LEN),
            out_first: 0,
            facts: Vec::new(),
            processes: 0,
            streams: Vec::new(),
            encoder: Encoder::new(),
            sums: Sums::new(),
            records: 0,
            bytes: 0,
        };
        let name = host.as_bytes();
        let start = writer.begin_frame();
        Fact::Host {
            name: cut(name),
            boot,
        }
        .put(&mut writer.out);
        writer.end_frame(start, FrameKind::Session)?;
        Ok(writer)
    }

    /// Begins a session of this machine.
    pub fn here(sink: S) -> io::Result<Writer<S>> {
        let host = crate::area::read_small("/proc/sys/kernel/hostname")?;
        let host = String::from_utf8_lossy(host.trim_ascii());
        Writer::new(sink, SessionId::fresh()?, (&host, crate::area::boot()?))
    }

    /// Says that a process is traced.
    pub fn process(&mut self, new: &NewProcess) -> io::Result<ProcessKey> {
        let process = self.processes;
        self.processes += 1;
        self.fact(&Fact::Process {
            process,
            pid: new.pid,
            start_time: new.start_time,
            image: new.image,
            clock: new.clock,
            start: new.start,
        })?;
        Ok(ProcessKey(process))
    }

    /// Says that a process has a thread: its place among the threads, how many had that place
    /// before, and its number in the operating system.
    pub fn stream(
        &mut self,
        process: ProcessKey,
        (slot, generation): (u32, u32),
        tid: u32,
    ) -> io::Result<StreamKey> {
        let stream = u32::try_from(self.streams.len()).map_err(io::Error::other)?;
        self.streams.push(Waiting {
            process: process.0,
            records: Vec::new(),
            seq_last: 0,
            end: 0,
        });
        self.fact(&Fact::Stream {
            stream,
            process: process.0,
            slot,
            generation,
            tid,
        })?;
        Ok(StreamKey(stream))
    }

    /// Nothing more comes of a thread: what waits is written, and its memory given back.
    pub fn end_stream(&mut self, stream: StreamKey) -> io::Result<()> {
        self.put_waiting(stream.0 as usize)?;
        self.streams[stream.0 as usize].records = Vec::new();
        Ok(())
    }

    /// Names a file that the records of a process know by a number.
    pub fn file(
        &mut self,
        process: ProcessKey,
        file: u32,
        (path, fs): (&[u8], &str),
    ) -> io::Result<()> {
        let fs = cut(fs.as_bytes());
        let path = cut(path);
        self.fact(&Fact::File {
            process: process.0,
            file,
            path,
            fs,
        })
    }

    /// Writes any fact. Texts of more than 16 KiB have to be cut before.
    pub fn fact(&mut self, fact: &Fact<'_>) -> io::Result<()> {
        fact.put(&mut self.facts);
        if self.facts.len() > FACTS_LEN {
            self.put_facts()?;
        }
        Ok(())
    }

    /// Writes records of a thread, in the order it made them.
    pub fn records(&mut self, stream: StreamKey, records: &[Record]) -> io::Result<()> {
        let at = stream.0 as usize;
        self.gaps(stream, records)?;
        let waiting = &mut self.streams[at];
        let is_enough = waiting.records.is_empty() && records.len() >= WAITING_MAX / 2;
        if !is_enough && waiting.records.len() + records.len() <= WAITING_MAX {
            waiting.records.extend_from_slice(records);
            return Ok(());
        }
        self.put_waiting(at)?;
        for block in records.chunks(BLOCK_RECORDS_MAX) {
            self.put_block(at, block)?;
        }
        Ok(())
    }

    /// Says where the numbers of a thread's records skip.
    fn gaps(&mut self, stream: StreamKey, records: &[Record]) -> io::Result<()> {
        let waiting = &self.streams[stream.0 as usize];
        let (mut seq_last, mut end) = (waiting.seq_last, waiting.end);
        for record in records {
            let seq = attempt(record);
            if seq > seq_last + 1 {
                self.fact(&Fact::Gap {
                    stream: stream.0,
                    first: seq_last + 1,
                    count: seq - seq_last - 1,
                    from: end,
                    to: record.start,
                })?;
            }
            seq_last = seq_last.max(seq);
            end = record.start.wrapping_add(record.ticks());
        }
        let waiting = &mut self.streams[stream.0 as usize];
        (waiting.seq_last, waiting.end) = (seq_last, end);
        Ok(())
    }

    fn put_waiting(&mut self, at: usize) -> io::Result<()> {
        let mut records = std::mem::take(&mut self.streams[at].records);
        if !records.is_empty() {
            self.put_block(at, &records)?;
        }
        records.clear();
        self.streams[at].records = records;
        Ok(())
    }

    fn put_block(&mut self, at: usize, records: &[Record]) -> io::Result<()> {
        let (Some(first), Some(last)) = (records.first(), records.last()) else {
            return Ok(());
        };
        let mut span = (first.start, first.start);
        for record in records {
            self.sums.add(record);
            span.0 = span.0.min(record.start);
            span.1 = span.1.max(record.start.saturating_add(record.ticks()));
        }
        let head = Head {
            stream: at as u32,
            process: self.streams[at].process,
            count: records.len() as u32,
            seq_first: attempt(first),
            seq_last: attempt(last),
            start: span.0,
            end: span.1,
            sums: self.sums.drain(),
        };
        self.records += records.len() as u64;
        let start = self.begin_frame();
        head.put(&mut self.out);
        self.out.extend_from_slice(self.encoder.encode(records));
        self.end_frame(start, FrameKind::Block)
    }

    fn put_facts(&mut self) -> io::Result<()> {
        if self.facts.is_empty() {
            return Ok(());
        }
        let start = self.begin_frame();
        self.out.append(&mut self.facts);
        self.end_frame(start, FrameKind::Facts)
    }

    /// Leaves room for a header; the payload is appended to `out`.
    fn begin_frame(&mut self) -> usize {
        let start = self.out.len();
        self.out.resize(start + HEADER_LEN, 0);
        start
    }

    fn end_frame(&mut self, start: usize, kind: FrameKind) -> io::Result<()> {
        seal(&mut self.out[start..], kind, self.session, self.number);
        self.number += 1;
        self.bytes += (self.out.len() - start) as u64;
        if self.out.len() > OUT_LEN {
            self.put_out()?;
        }
        Ok(())
    }

    fn put_out(&mut self) -> io::Result<()> {
        if !self.out.is_empty() {
            self.sink.take(&self.out, (self.out_first, self.number))?;
            self.out.clear();
            self.out_first = self.number;
        }
        Ok(())
    }

    /// Brings everything that was given to the sink.
    pub fn flush(&mut self) -> io::Result<()> {
        for at in 0..self.streams.len() {
            self.put_waiting(at)?;
        }
        self.put_facts()?;
        self.put_out()
    }

    /// Ends the session: nothing is missing behind.
    pub fn finish(mut self) -> io::Result<S> {
        self.flush()?;
        let start = self.begin_frame();
        self.end_frame(start, FrameKind::End)?;
        self.put_out()?;
        Ok(self.sink)
    }

    /// Records written so far.
    pub fn records_written(&self) -> u64 {
        self.records
    }

    /// Bytes of frames made so far.
    pub fn bytes_written(&self) -> u64 {
        self.bytes
    }

    /// The sink of the frames.
    pub fn sink(&self) -> &S {
        &self.sink
    }
}

fn cut(text: &[u8]) -> &[u8] {
    &text[..text.len().min(TEXT_LEN_MAX)]
}
