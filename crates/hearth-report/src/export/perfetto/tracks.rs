//! Names and numbers of tracks, each described when it is first needed.

use std::collections::HashSet;
use std::io::{self, Write};

use hearth_trace::{ProcessId, StreamId, Tables, TracedProcess};

use super::Writer;
use super::wire::{Message, track};

/// One more than the largest process number of Linux.
const PID_END: u32 = 1 << 22;

/// Which of a process's rates.
#[derive(Clone, Copy)]
pub(super) enum Rate {
    Read,
    Write,
}

/// Tracks are numbered by what they are of.
fn process_track(process: ProcessId) -> u64 {
    1 << 56 | u64::from(process.0)
}

pub(super) fn rate_track(process: ProcessId, rate: Rate) -> u64 {
    let which = match rate {
        Rate::Read => 2,
        Rate::Write => 3,
    };
    which << 56 | u64::from(process.0)
}

pub(super) fn lost_track(stream: StreamId) -> u64 {
    4 << 56 | u64::from(stream.0)
}

pub(super) fn lane_track(stream: StreamId, lane: usize) -> u64 {
    5 << 56 | (lane as u64) << 32 | u64::from(stream.0)
}

/// Describes a lane beyond the first, which is the thread's own track.
pub(super) fn lane(
    writer: &mut Writer<'_, impl Write>,
    stream: StreamId,
    lane: usize,
) -> io::Result<()> {
    if lane == 0 {
        return Ok(());
    }
    let name = format!("lane {}", lane + 1);
    let parent = lane_track(stream, 0);
    writer.track(&child(lane_track(stream, lane), parent, &name))
}

/// The processes and threads that have been described.
pub(super) struct Tracks<'a> {
    tables: &'a Tables,
    pids: Vec<u32>,
    processes: HashSet<ProcessId>,
    threads: HashSet<StreamId>,
    lost: HashSet<StreamId>,
}

impl<'a> Tracks<'a> {
    pub(super) fn new(tables: &'a Tables) -> Tracks<'a> {
        Tracks {
            tables,
            pids: pids(&tables.processes),
            processes: HashSet::new(),
            threads: HashSet::new(),
            lost: HashSet::new(),
        }
    }

    pub(super) fn thread(
        &mut self,
        writer: &mut Writer<'_, impl Write>,
        stream: StreamId,
    ) -> io::Result<()> {
        if !self.threads.insert(stream) {
            return Ok(());
        }
        let of = &self.tables.streams[stream.0 as usize];
        self.process(writer, of.process)?;
        let mut thread = Message::default();
        let pid = self.pids[of.process.0 as usize];
        thread.number(track::THREAD_PID, u64::from(pid));
        let shift = pid / PID_END * PID_END;
        thread.number(track::THREAD_TID, u64::from(of.tid + shift));
        thread.text(track::THREAD_NAME, &format!("thread {}", of.tid));
        let mut descriptor = Message::default();
        descriptor.number(track::UUID, lane_track(stream, 0));
        descriptor.number(track::PARENT, process_track(of.process));
        descriptor.message(track::THREAD, &thread);
        writer.track(&descriptor)
    }

    pub(super) fn lost(
        &mut self,
        writer: &mut Writer<'_, impl Write>,
        stream: StreamId,
    ) -> io::Result<()> {
        self.thread(writer, stream)?;
        if !self.lost.insert(stream) {
            return Ok(());
        }
        let parent = lane_track(stream, 0);
        writer.track(&child(lost_track(stream), parent, "lost"))
    }

    pub(super) fn rate(
        &mut self,
        writer: &mut Writer<'_, impl Write>,
        process: ProcessId,
        rate: Rate,
    ) -> io::Result<()> {
        self.process(writer, process)?;
        let name = match rate {
            Rate::Read => "read",
            Rate::Write => "written",
        };
        let number = rate_track(process, rate);
        let mut descriptor = child(number, process_track(process), name);
        let mut counter = Message::default();
        counter.text(track::COUNTER_UNIT_NAME, "bytes/s");
        descriptor.message(track::COUNTER, &counter);
        writer.track(&descriptor)
    }

    fn process(&mut self, writer: &mut Writer<'_, impl Write>, id: ProcessId) -> io::Result<()> {
        if !self.processes.insert(id) {
            return Ok(());
        }
        let of = &self.tables.processes[id.0 as usize];
        let host = &self.tables.hosts[of.host.0 as usize].name;
        let rank = of
            .rank
            .map_or(String::new(), |rank| format!("rank {rank}, "));
        let exe = of.exe.rsplit('/').next().unwrap_or_default();
        let mut process = Message::default();
        process.number(track::PROCESS_PID, u64::from(self.pids[id.0 as usize]));
        process.text(
            track::PROCESS_NAME,
            &format!("{exe} ({rank}{host}, {})", of.pid),
        );
        let mut descriptor = Message::default();
        descriptor.number(track::UUID, process_track(id));
        descriptor.message(track::PROCESS, &process);
        writer.track(&descriptor)
    }
}

fn child(number: u64, parent: u64, name: &str) -> Message {
    let mut descriptor = Message::default();
    descriptor.number(track::UUID, number);
    descriptor.number(track::PARENT, parent);
    descriptor.text(track::NAME, name);
    descriptor
}

/// Numbers that no two processes share, since Perfetto knows one machine and one life of each
/// number: the first process keeps its own, others have a multiple of [`PID_END`] added.
fn pids(processes: &[TracedProcess]) -> Vec<u32> {
    let mut taken = HashSet::new();
    let free = |process: &TracedProcess| {
        let shifts = (0..u32::MAX / PID_END).map(|shift| shift * PID_END);
        let mut numbers = shifts.map(|shift| process.pid % PID_END + shift);
        let pid = numbers.find(|number| !taken.contains(number));
        let pid = pid.unwrap_or(process.pid);
        taken.insert(pid);
        pid
    };
    processes.iter().map(free).collect()
}
