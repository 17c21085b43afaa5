//! Traces made in memory: programs that do I/O with a cost that the test says.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::convert::Infallible;

use hearth_trace::{
    Event, Flags, Gap, Host, HostId, Layer, Op, ProcessId, Source, Stream, StreamId, Tables, Tally,
    TracedFile, TracedFileId, TracedProcess,
};

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;
/// When every trace begins: 2026-01-01.
pub(crate) const START: i64 = 1_767_225_600_000_000_000;

/// Records of one thread in a run.
const RUN: usize = 64;

/// A trace in the making.
#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) tables: Tables,
    events: Vec<Vec<Event>>,
    now: Vec<i64>,
}

impl Trace {
    /// Ranks of one program on one host, all of one thread.
    pub(crate) fn of_ranks(ranks: u32) -> Trace {
        let mut trace = Trace::default();
        trace.host("node01", None);
        (0..ranks).for_each(|rank| {
            trace.rank(HostId(0), rank);
        });
        trace
    }

    pub(crate) fn host(&mut self, name: &str, clock_bound: Option<u64>) -> HostId {
        self.tables.hosts.push(Host {
            name: name.to_owned(),
            clock_bound,
        });
        HostId(self.tables.hosts.len() as u32 - 1)
    }

    pub(crate) fn rank(&mut self, host: HostId, rank: u32) -> StreamId {
        let process = ProcessId(self.tables.processes.len() as u32);
        self.tables.processes.push(TracedProcess {
            host,
            pid: 4000 + rank,
            rank: Some(rank),
            exe: "/opt/bin/solver".to_owned(),
            start: START,
            end: START,
            totals: Vec::new(),
        });
        self.tables.streams.push(Stream {
            process,
            tid: 4000 + rank,
            attempted: 0,
            stored: 0,
            dropped: 0,
            torn: 0,
        });
        self.events.push(Vec::new());
        self.now.push(START);
        StreamId(self.tables.streams.len() as u32 - 1)
    }

    pub(crate) fn file(&mut self, path: &str, fs: &str) -> TracedFileId {
        self.tables.files.push(TracedFile {
            path: path.to_owned(),
            fs: fs.to_owned(),
            stripe: None,
        });
        TracedFileId(self.tables.files.len() as u32 - 1)
    }

    /// The thread does something else for a while.
    pub(crate) fn think(&mut self, stream: u32, took: u64) {
        self.now[stream as usize] += took as i64;
    }

    /// Everybody waits for the last.
    pub(crate) fn barrier(&mut self) {
        let last = self.now.iter().copied().max().unwrap_or(START);
        self.now.fill(last);
    }

    /// One operation, after which the thread goes on.
    pub(crate) fn op(&mut self, stream: u32, op: Op, file: TracedFileId, took: u64) -> &mut Event {
        self.event(stream, op, Some(file), 0, 0, took)
    }

    pub(crate) fn read(
        &mut self,
        stream: u32,
        file: TracedFileId,
        offset: u64,
        bytes: u64,
        took: u64,
    ) -> &mut Event {
        self.event(stream, Op::Pread, Some(file), offset, bytes, took)
    }

    pub(crate) fn write(
        &mut self,
        stream: u32,
        file: TracedFileId,
        offset: u64,
        bytes: u64,
        took: u64,
    ) -> &mut Event {
        self.event(stream, Op::Pwrite, Some(file), offset, bytes, took)
    }

    fn event(
        &mut self,
        stream: u32,
        op: Op,
        file: Option<TracedFileId>,
        offset: u64,
        bytes: u64,
        took: u64,
    ) -> &mut Event {
        let at = stream as usize;
        // No two calls take quite the same time.
        let jitter = (self.events[at].len() as u64 * 7919) % 21;
        let took = took * (90 + jitter) / 100;
        let event = Event {
            start: self.now[at],
            took,
            op,
            layer: Layer::App,
            flags: Flags::default(),
            offset,
            asked: bytes,
            result: bytes as i64,
            file,
            request: 0,
            near: 0,
            peer: 0,
            depth: 0,
            caller: 0,
            seq: self.events[at].len() as u64 + 1,
        };
        self.now[at] = event.end();
        self.events[at].push(event);
        self.events[at].last_mut().expect("an event was just added")
    }

    /// A record of an agent's layer, within what the thread does.
    pub(crate) fn inner(
        &mut self,
        stream: u32,
        op: Op,
        layer: Layer,
        request: u64,
        bytes: u64,
        took: u64,
    ) {
        let now = self.now[stream as usize];
        let event = self.event(stream, op, None, 0, bytes, 0);
        (event.layer, event.request, event.took, event.start) = (layer, request, took, now);
        self.now[stream as usize] = now;
    }

    /// Some records of a thread were counted and not kept.
    pub(crate) fn lose(&mut self, stream: u32, count: u64, from: u64, to: u64) {
        self.tables.streams[stream as usize].dropped += count;
        self.tables.gaps.push(Gap {
            stream: StreamId(stream),
            first: 1,
            count,
            from: START + from as i64,
            to: START + to as i64,
        });
        self.tables.lost.push(Tally {
            op: Op::Pwrite,
            count,
            bytes: count * 100,
            took: count * US,
        });
    }

    /// Ends every process after the last of them.
    pub(crate) fn end(mut self) -> Trace {
        self.barrier();
        for (stream, &now) in self.now.iter().enumerate() {
            self.tables.processes[self.tables.streams[stream].process.0 as usize].end = now;
            let stored = self.events[stream].len() as u64;
            let stream = &mut self.tables.streams[stream];
            stream.stored = stored;
            stream.attempted = stored + stream.dropped;
        }
        self
    }
}

impl Source for Trace {
    type Error = Infallible;

    fn tables(&self) -> &Tables {
        &self.tables
    }

    fn events_expected(&self) -> u64 {
        self.events.iter().map(|events| events.len() as u64).sum()
    }

    fn each_run(&mut self, take: &mut dyn FnMut(StreamId, &[Event])) -> Result<(), Infallible> {
        let mut runs: Vec<(i64, StreamId, &[Event])> = Vec::new();
        for (stream, events) in self.events.iter().enumerate() {
            let cut = events.chunks(RUN);
            runs.extend(cut.map(|run| (run[0].start, StreamId(stream as u32), run)));
        }
        runs.sort_by_key(|(start, ..)| *start);
        runs.into_iter()
            .for_each(|(_, stream, run)| take(stream, run));
        Ok(())
    }
}

/// A job with something of everything: two hosts, four ranks, checkpoints, layers of agents, and
/// records that were lost.
pub(crate) fn showcase() -> Trace {
    let mut trace = Trace::default();
    let first = trace.host("node01", Some(40_000));
    let second = trace.host("node02", None);
    for rank in 0..4 {
        trace.rank(if rank < 2 { first } else { second }, rank);
    }
    let input = trace.file("/scratch/run12/input-0001.h5", "fuse.hearth");
    let log = trace.file("/scratch/run12/log.txt", "ext4");
    let config = trace.file("/home/user/etc/settings.toml", "nfs4");
    let mut request = 1;
    for step in 0..8u64 {
        for rank in 0..4u32 {
            read_input(&mut trace, rank, input, step, &mut request);
        }
        trace.barrier();
        (0..4).for_each(|rank| trace.think(rank, 120 * MS));
        write_out(&mut trace, step, log, config);
        trace.barrier();
    }
    trace.lose(3, 1234, 900 * MS, 980 * MS);
    trace
        .tables
        .remarks
        .push("the host node02 left 0.3 s before the end".to_owned());
    trace
}

/// Each rank reads the whole input, most of it from the store.
fn read_input(trace: &mut Trace, rank: u32, input: TracedFileId, step: u64, request: &mut u64) {
    for block in 0..100u64 {
        *request += 1;
        let took = match (block + step) % 5 {
            0 => {
                trace.inner(rank, Op::Read, Layer::Cache, *request, 256 * KIB, 40 * US);
                60 * US
            }
            1 => {
                trace.inner(rank, Op::Read, Layer::Cache, *request, 256 * KIB, 180 * US);
                trace.inner(
                    rank,
                    Op::PeerGet,
                    Layer::PeerClient,
                    *request,
                    256 * KIB,
                    150 * US,
                );
                trace.inner(
                    rank,
                    Op::ServeGet,
                    Layer::PeerServer,
                    *request,
                    256 * KIB,
                    50 * US,
                );
                200 * US
            }
            _ => {
                trace.inner(rank, Op::Read, Layer::Cache, *request, 256 * KIB, 880 * US);
                trace.inner(
                    rank,
                    Op::StoreRead,
                    Layer::Store,
                    *request,
                    256 * KIB,
                    800 * US,
                );
                900 * US
            }
        };
        let event = trace.read(rank, input, block * 256 * KIB, 256 * KIB, took);
        event.request = *request;
    }
}

/// Rank 0 keeps a log, everybody asks for the settings, rank 2 is slow.
fn write_out(trace: &mut Trace, step: u64, log: TracedFileId, config: TracedFileId) {
    for record in 0..2000 {
        trace.write(0, log, (step * 2000 + record) * 90, 90, 12 * US);
    }
    for rank in 0..4 {
        for _ in 0..60 {
            trace.op(rank, Op::Stat, config, 150 * US);
        }
    }
    for rank in 0..4u32 {
        let path = format!("/scratch/run12/checkpoint-{step:04}.{rank}");
        let file = trace.file(&path, "lustre");
        trace.op(rank, Op::Open, file, 300 * US);
        for block in 0..16 {
            let took = if rank == 2 { 5 * MS } else { 2 * MS };
            trace.write(rank, file, block * MIB, MIB, took);
        }
        trace.op(rank, Op::Fsync, file, 8 * MS);
        trace.op(rank, Op::Close, file, 100 * US);
    }
}
