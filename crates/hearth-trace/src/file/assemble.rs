//! Several sessions become one: the tables of a trace, and a list of its blocks by time.
//!
//! 1. A process or thread that two sessions saw, because its log client began anew, is one.
//! 2. For every thread `attempted = stored + dropped + torn`. Records that a damaged file lost
//!    count as dropped.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::block::{Head, Sum};
use super::scan::{self, Scan, Session};
use crate::merge::{HostClock, Timeline};
use crate::{
    Gap, Host, HostId, Op, ProcessId, Stream, StreamId, Tables, Tally, TracedFileId, TracedProcess,
};

/// Which image of which process on which machine: boot, pid, start time, image.
type ProcessName = (u128, u32, u64, u32);

/// A block, and whose it is.
pub(super) struct Placed {
    /// Index of the file.
    pub(super) file: usize,
    pub(super) at: u64,
    pub(super) len: usize,
    pub(super) count: usize,
    pub(super) stream: StreamId,
    /// Index of what its numbers mean.
    pub(super) meaning: usize,
    /// Time of its first record.
    pub(super) start: i64,
    /// Holds what machines asked of each other.
    pub(super) between: bool,
}

/// The meaning of the numbers in a process's records.
pub(super) struct Meaning {
    pub(super) host: HostId,
    pub(super) timeline: Arc<Timeline>,
    pub(super) files: HashMap<u32, TracedFileId>,
}

/// A whole trace but its records.
pub(super) struct Trace {
    pub(super) tables: Tables,
    pub(super) blocks: Vec<Placed>,
    pub(super) meanings: Vec<Meaning>,
    /// Sentences about what is missing.
    pub(super) missing: Vec<String>,
    pub(super) events: u64,
}

/// Puts together what was found.
pub(super) fn assemble(scan: Scan, names: &[String]) -> Trace {
    let missing = missing(&scan, names);
    let mut assembly = Assembly::default();
    assembly.clocks(&scan);
    for session in scan.sessions.values() {
        assembly.session(session);
    }
    assembly.finish(missing)
}

/// Sentences about damage, missing frames and sessions that did not end.
fn missing(scan: &Scan, names: &[String]) -> Vec<String> {
    let mut sentences = Vec::new();
    for (file, at, len) in &scan.damages {
        let name = &names[*file];
        sentences.push(format!(
            "{name}: {len} bytes from byte {at} on are no part of a trace"
        ));
    }
    for session in scan.sessions.values() {
        let host = host_name(session);
        let frames = session.seen.missing();
        if frames > 0 {
            sentences.push(format!("{frames} frames from {host} are missing"));
        }
        if session.malformed > 0 {
            let count = session.malformed;
            sentences.push(format!("{count} frames from {host} make no sense"));
        }
        if !session.ended {
            sentences.push(format!(
                "what came from {host} does not end: the log client was killed, or still runs"
            ));
        }
    }
    sentences
}

fn host_name(session: &Session) -> String {
    if session.host.is_empty() {
        "an unknown host".to_owned()
    } else {
        String::from_utf8_lossy(&session.host).into_owned()
    }
}

#[derive(Default)]
struct Assembly {
    tables: Tables,
    hosts: HashMap<u128, HostId>,
    /// By boot, then by code of the clock.
    timelines: HashMap<u128, BTreeMap<u8, Arc<Timeline>>>,
    processes: HashMap<ProcessName, ProcessId>,
    streams: HashMap<(ProcessId, u32, u32), StreamId>,
    files: HashMap<String, TracedFileId>,
    meanings: Vec<Meaning>,
    blocks: Vec<Placed>,
    /// Heads of each stream's blocks, with the index of their meaning.
    heads: Vec<Vec<(Head, usize)>>,
    /// Gaps that were said to be, likewise.
    gaps: Vec<Vec<(scan::Gap, usize)>>,
    kept: HashMap<ProcessId, BTreeMap<u8, Tally>>,
}

impl Assembly {
    /// Learns what the ticks of every machine mean.
    fn clocks(&mut self, scan: &Scan) {
        let mut points: BTreeMap<u128, (Vec<scan::ClockPoint>, Vec<scan::Ping>)> = BTreeMap::new();
        for session in scan.sessions.values() {
            let known = points.entry(session.boot).or_default();
            known.0.extend_from_slice(&session.clocks);
            known.1.extend_from_slice(&session.pings);
            self.host(session);
        }
        let alone = points.len() == 1;
        for (boot, (points, pings)) in points {
            // A trace of one machine is on that machine's own clock.
            let clock = if alone {
                HostClock::alone(&points)
            } else {
                HostClock::compared(&points, &pings)
            };
            let host = &mut self.tables.hosts[self.hosts[&boot].0 as usize];
            host.clock_bound = if alone { Some(0) } else { clock.bound };
            let remarks = clock.remarks.iter();
            let name = &host.name;
            let remarks = remarks.map(|remark| format!("{name}: {remark}"));
            self.tables.remarks.extend(remarks);
            let timelines = clock.timelines(&points).into_iter();
            let timelines = timelines.map(|(code, line)| (code, Arc::new(line)));
            self.timelines.insert(boot, timelines.collect());
        }
    }

    fn host(&mut self, session: &Session) -> HostId {
        let hosts = &mut self.tables.hosts;
        *self.hosts.entry(session.boot).or_insert_with(|| {
            hosts.push(Host {
                name: host_name(session),
                clock_bound: None,
            });
            HostId(hosts.len() as u32 - 1)
        })
    }

    fn session(&mut self, session: &Session) {
        let host = self.hosts[&session.boot];
        let mut processes = HashMap::new();
        for (number, process) in &session.processes {
            let meaning = self.meaning(session, process);
            let id = self.process(session.boot, host, process, meaning);
            processes.insert(*number, (id, meaning));
        }
        let mut streams = HashMap::new();
        for (number, stream) in &session.streams {
            if let Some((process, meaning)) = processes.get(&stream.process) {
                let id = self.stream(*process, stream);
                streams.insert(*number, (id, *meaning));
            }
        }
        for block in &session.blocks {
            if let Some((stream, meaning)) = streams.get(&block.head.stream) {
                self.block(block, *stream, *meaning);
            }
        }
        for gap in &session.gaps {
            if let Some((stream, meaning)) = streams.get(&gap.stream) {
                self.gaps[stream.0 as usize].push((*gap, *meaning));
            }
        }
        self.tables.remarks.extend(session.remarks.iter().cloned());
    }

    /// Adds the meaning of the numbers in the records of a process; its index.
    fn meaning(&mut self, session: &Session, process: &scan::Process) -> usize {
        let known = self.timelines.get(&session.boot);
        let timeline = known.and_then(|clocks| clocks.get(&process.clock)).cloned();
        let timeline = timeline.unwrap_or_else(|| {
            if !HostClock::ticks_are_ns(process.clock) {
                let host = host_name(session);
                let remark = format!(
                    "{host}: nothing says what its ticks are; one is taken for a nanosecond"
                );
                if !self.tables.remarks.contains(&remark) {
                    self.tables.remarks.push(remark);
                }
            }
            Arc::new(Timeline::through(&[], 1.0))
        });
        let files = process.files.iter();
        let files =
            files.map(|(number, file)| (*number, file_id(&mut self.tables, &mut self.files, file)));
        let files = files.collect();
        let host = self.hosts[&session.boot];
        self.meanings.push(Meaning {
            host,
            timeline,
            files,
        });
        self.meanings.len() - 1
    }

    fn process(
        &mut self,
        boot: u128,
        host: HostId,
        process: &scan::Process,
        meaning: usize,
    ) -> ProcessId {
        let timeline = &self.meanings[meaning].timeline;
        let start = timeline.at(process.start);
        let end = process.end.map_or(start, |end| timeline.at(end));
        let name = (boot, process.pid, process.start_time, process.image);
        let known = &mut self.tables.processes;
        let id = *self.processes.entry(name).or_insert_with(|| {
            known.push(TracedProcess {
                host,
                pid: process.pid,
                rank: None,
                exe: String::new(),
                start,
                end,
                totals: Vec::new(),
            });
            ProcessId(known.len() as u32 - 1)
        });
        let known = &mut known[id.0 as usize];
        known.start = known.start.min(start);
        known.end = known.end.max(end);
        known.rank = process.rank.or(known.rank);
        if !process.exe.is_empty() {
            known.exe = String::from_utf8_lossy(&process.exe).into_owned();
        }
        let kept = self.kept.entry(id).or_default();
        for sum in process.kept.values() {
            tally(kept, sum, timeline, process.start);
        }
        let mut lost = BTreeMap::new();
        for sum in process.lost.values() {
            tally(kept, sum, timeline, process.start);
            tally(&mut lost, sum, timeline, process.start);
        }
        for more in lost.into_values() {
            match self.tables.lost.iter_mut().find(|row| row.op == more.op) {
                Some(row) => add(row, more),
                None => self.tables.lost.push(more),
            }
        }
        id
    }

    fn stream(&mut self, process: ProcessId, stream: &scan::Stream) -> StreamId {
        let known = &mut self.tables.streams;
        let heads = &mut self.heads;
        let gaps = &mut self.gaps;
        let id = *self
            .streams
            .entry((process, stream.slot, stream.generation))
            .or_insert_with(|| {
                known.push(Stream {
                    process,
                    tid: stream.tid,
                    attempted: 0,
                    stored: 0,
                    dropped: 0,
                    torn: 0,
                });
                heads.push(Vec::new());
                gaps.push(Vec::new());
                StreamId(known.len() as u32 - 1)
            });
        let known = &mut known[id.0 as usize];
        known.attempted = known.attempted.max(stream.attempted);
        known.torn = known.torn.max(stream.torn);
        id
    }

    fn block(&mut self, block: &scan::Block, stream: StreamId, meaning: usize) {
        let timeline = &self.meanings[meaning].timeline;
        let start = timeline.at(block.head.start);
        let known = &mut self.tables.streams[stream.0 as usize];
        known.stored += u64::from(block.head.count);
        known.attempted = known.attempted.max(block.head.seq_last);
        let process = &mut self.tables.processes[known.process.0 as usize];
        process.end = process.end.max(timeline.at(block.head.end));
        process.start = process.start.min(start);
        self.heads[stream.0 as usize].push((block.head.clone(), meaning));
        self.blocks.push(Placed {
            file: block.file,
            at: block.at,
            len: block.len,
            count: block.head.count as usize,
            stream,
            meaning,
            start,
            between: block.between,
        });
    }

    fn finish(mut self, missing: Vec<String>) -> Trace {
        for (process, kept) in std::mem::take(&mut self.kept) {
            self.tables.processes[process.0 as usize].totals = kept.into_values().collect();
        }
        self.tables.lost.sort_by_key(|row| row.op);
        for at in 0..self.tables.streams.len() {
            let gaps = self.gaps_of(StreamId(at as u32));
            self.tables.gaps.extend(gaps);
            let stream = &mut self.tables.streams[at];
            let rest = stream.attempted.saturating_sub(stream.stored);
            stream.torn = stream.torn.min(rest);
            stream.dropped = rest - stream.torn;
            // More can be stored than was counted only if what counted is lost.
            stream.attempted = stream.attempted.max(stream.stored);
        }
        self.order();
        self.tables.remarks.extend(missing.iter().cloned());
        Trace {
            events: self.tables.streams.iter().map(|stream| stream.stored).sum(),
            tables: self.tables,
            blocks: self.blocks,
            meanings: self.meanings,
            missing,
        }
    }

    /// Sorts blocks by time, and those of one stream by their order.
    fn order(&mut self) {
        // A later block of a stream can hold an earlier start, of an operation that took long.
        let mut reached: HashMap<StreamId, i64> = HashMap::new();
        for block in &mut self.blocks {
            let time = reached.entry(block.stream).or_insert(block.start);
            *time = (*time).max(block.start);
            block.start = *time;
        }
        self.blocks.sort_by_key(|block| block.start);
    }

    /// The gaps of a stream: between blocks, inside of them, and after the last.
    fn gaps_of(&mut self, stream: StreamId) -> Vec<Gap> {
        let mut heads = std::mem::take(&mut self.heads[stream.0 as usize]);
        heads.sort_by_key(|(head, _)| head.seq_first);
        let said = std::mem::take(&mut self.gaps[stream.0 as usize]);
        let row = &self.tables.streams[stream.0 as usize];
        let process = &self.tables.processes[row.process.0 as usize];
        let mut gaps = Vec::new();
        let (mut next, mut end) = (1, process.start);
        for (head, meaning) in &heads {
            let timeline = &self.meanings[*meaning].timeline;
            if head.seq_first > next {
                let (from, to) = (end, timeline.at(head.start).max(end));
                let count = head.seq_first - next;
                gaps.push(Gap {
                    stream,
                    first: next,
                    count,
                    from,
                    to,
                });
            }
            next = next.max(head.seq_last.saturating_add(1));
            end = timeline.at(head.end);
        }
        let lost_at_end = row.attempted.saturating_sub(row.torn).saturating_add(1);
        if lost_at_end > next {
            let (from, to) = (end, process.end.max(end));
            let count = lost_at_end - next;
            gaps.push(Gap {
                stream,
                first: next,
                count,
                from,
                to,
            });
        }
        for (gap, meaning) in said {
            let at = heads.partition_point(|(head, _)| head.seq_first <= gap.first);
            let inside = |(head, _): &(Head, usize)| gap.first <= head.seq_last;
            if heads[..at].last().is_some_and(inside) {
                let timeline = &self.meanings[meaning].timeline;
                let (from, to) = (timeline.at(gap.from), timeline.at(gap.to));
                gaps.push(Gap {
                    stream,
                    first: gap.first,
                    count: gap.count,
                    from,
                    to,
                });
            }
        }
        gaps.sort_by_key(|gap| gap.first);
        gaps
    }
}

/// The file of this path; one for all processes of the trace.
fn file_id(
    tables: &mut Tables,
    known: &mut HashMap<String, TracedFileId>,
    file: &scan::File,
) -> TracedFileId {
    let path = String::from_utf8_lossy(&file.path).into_owned();
    let id = *known.entry(path.clone()).or_insert_with(|| {
        tables.files.push(crate::TracedFile {
            path,
            fs: String::from_utf8_lossy(&file.fs).into_owned(),
            stripe: None,
        });
        TracedFileId(tables.files.len() as u32 - 1)
    });
    let row = &mut tables.files[id.0 as usize];
    row.stripe = file.stripe.or(row.stripe);
    id
}

/// Adds a sum in ticks to those in nanoseconds. A sum whose code no operation has is left out.
fn tally(rows: &mut BTreeMap<u8, Tally>, sum: &Sum, timeline: &Timeline, about: u64) {
    let Some(op) = Op::from_code(sum.op) else {
        return;
    };
    let row = rows.entry(sum.op).or_insert(Tally {
        op,
        count: 0,
        bytes: 0,
        took: 0,
    });
    let took = timeline.span(about, sum.ticks);
    add(
        row,
        Tally {
            op,
            count: sum.count,
            bytes: sum.bytes,
            took,
        },
    );
}

fn add(row: &mut Tally, more: Tally) {
    row.count = row.count.saturating_add(more.count);
    row.bytes = row.bytes.saturating_add(more.bytes);
    row.took = row.took.saturating_add(more.took);
}
