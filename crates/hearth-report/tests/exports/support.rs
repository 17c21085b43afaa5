//! A small job in memory, known to the last byte, and the tools that are to read its exports.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use hearth_trace::{
    Event, Flags, Gap, Host, HostId, Layer, Op, ProcessId, Source, Stream, StreamId, Tables,
    TracedFile, TracedFileId, TracedProcess,
};

/// When the job began: nanoseconds since the Unix epoch.
pub(crate) const BEGIN: i64 = 1_790_000_000_000_000_000;

/// A trace in memory.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) tables: Tables,
    pub(crate) runs: Vec<(StreamId, Vec<Event>)>,
}

impl Source for Job {
    type Error = Infallible;

    fn tables(&self) -> &Tables {
        &self.tables
    }

    fn events_expected(&self) -> u64 {
        self.events().count() as u64
    }

    fn each_run(&mut self, take: &mut dyn FnMut(StreamId, &[Event])) -> Result<(), Infallible> {
        for (stream, events) in &self.runs {
            take(*stream, events);
        }
        Ok(())
    }
}

impl Job {
    pub(crate) fn events(&self) -> impl Iterator<Item = &Event> {
        self.runs.iter().flat_map(|(_, events)| events)
    }

    /// Sums `what` over the events that `which` picks.
    pub(crate) fn sum(&self, which: impl Fn(&Event) -> bool, what: impl Fn(&Event) -> u64) -> u64 {
        self.events().filter(|event| which(event)).map(what).sum()
    }

    pub(crate) fn count(&self, which: impl Fn(&Event) -> bool) -> u64 {
        self.sum(which, |_| 1)
    }
}

pub(crate) fn is_read(event: &Event) -> bool {
    event.op.is_read()
}

pub(crate) fn is_write(event: &Event) -> bool {
    event.op.is_write()
}

/// Two hosts and three ranks, the last with two threads. Rank 0 and 1 write a shared file in turns of
/// 64 KiB, rank 2 reads it back in steps, and each keeps a log through stdio.
pub(crate) fn job() -> Job {
    let hosts = ["alpha", "beta"].map(|name| Host {
        name: name.to_owned(),
        clock_bound: Some(1000),
    });
    let process = |rank: u32| TracedProcess {
        host: HostId(rank / 2),
        pid: 100 + rank,
        rank: Some(rank),
        exe: "/opt/app/solver".to_owned(),
        start: BEGIN,
        end: BEGIN + 2_000_000_000,
        totals: Vec::new(),
    };
    let file = |path: &str| TracedFile {
        path: path.to_owned(),
        fs: "lustre".to_owned(),
        stripe: Some((4, 1 << 20)),
    };
    let runs: Vec<_> = (0..4)
        .map(|number| (StreamId(number), run(number)))
        .collect();
    let stream = |(id, events): &(StreamId, Vec<Event>)| Stream {
        process: ProcessId(id.0.min(2)),
        tid: 100 + id.0,
        attempted: events.len() as u64,
        stored: events.len() as u64,
        dropped: 0,
        torn: 0,
    };
    Job {
        tables: Tables {
            hosts: hosts.into(),
            processes: (0..3).map(process).collect(),
            streams: runs.iter().map(stream).collect(),
            files: [
                "/scratch/run/shared.dat",
                "/scratch/run/log, \"0\".txt",
                "/scratch/run/in",
            ]
            .map(file)
            .into(),
            ..Tables::default()
        },
        runs,
    }
}

/// The same job with seven records of rank 1 lost.
pub(crate) fn lossy_job() -> Job {
    let mut job = job();
    job.tables.streams[1].attempted += 7;
    job.tables.streams[1].dropped = 7;
    job.tables.gaps.push(Gap {
        stream: StreamId(1),
        first: 40,
        count: 7,
        from: BEGIN + 300_000_000,
        to: BEGIN + 310_000_000,
    });
    job
}

fn run(stream: u32) -> Vec<Event> {
    let mut pen = Pen::new(stream);
    let (shared, log, input) = (TracedFileId(0), TracedFileId(1), TracedFileId(2));
    pen.put(Op::Stat, input, 0, 0, 0);
    pen.fail(Op::Open, input);
    pen.put(Op::Open, shared, 0, 0, 3);
    for turn in 0..50_u64 {
        match stream {
            0 | 1 => {
                let at = (2 * turn + u64::from(stream)) * (64 << 10);
                pen.put(Op::Pwrite, shared, at, 64 << 10, 64 << 10);
            }
            _ => {
                let at = turn * (128 << 10) + u64::from(stream) * (16 << 10);
                pen.put(Op::Pread, shared, at, 16 << 10, 16 << 10);
            }
        }
    }
    pen.put(Op::Fsync, shared, 0, 0, 0);
    pen.put(Op::Close, shared, 0, 0, 0);
    pen.flags = Flags::BUFFERED;
    pen.put(Op::Open, log, 0, 0, 4);
    (0..10).for_each(|line| pen.put(Op::Write, log, line * 30, 30, 30));
    pen.put(Op::Close, log, 0, 0, 0);
    pen.events
}

/// Writes the events of a thread, one after the other.
struct Pen {
    events: Vec<Event>,
    stream: u32,
    flags: Flags,
}

impl Pen {
    fn new(stream: u32) -> Pen {
        Pen {
            events: Vec::new(),
            stream,
            flags: Flags::default(),
        }
    }

    fn fail(&mut self, op: Op, file: TracedFileId) {
        self.flags = Flags::ERROR;
        self.put(op, file, 0, 0, -2);
        self.flags = Flags::default();
    }

    fn put(&mut self, op: Op, file: TracedFileId, offset: u64, asked: u64, result: i64) {
        let seq = self.events.len() as u64 + 1;
        // Threads are 1 ms apart, operations 10 ms, and no two of them take equally long.
        let start = BEGIN + 1_000_000 * i64::from(self.stream) + 10_000_000 * seq as i64;
        self.events.push(Event {
            start,
            took: 100_000 + 1000 * seq + u64::from(self.stream),
            op,
            layer: Layer::App,
            flags: self.flags,
            offset,
            asked,
            result,
            file: Some(file),
            request: u64::from(self.stream) << 36 | seq,
            near: 0,
            peer: 0,
            depth: 0,
            caller: 0,
            seq,
        });
    }
}

/// The Python interpreter of a virtual environment with the tools, or why there is none.
pub(crate) fn python() -> Result<PathBuf, String> {
    static PYTHON: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("python");
        let output = Command::new(root.join("setup/python.sh"))
            .arg(dir)
            .output()
            .map_err(|error| format!("setup/python.sh: {error}"))?;
        let (said, path) = (output.stderr, output.stdout);
        if output.status.success() {
            Ok(PathBuf::from(String::from_utf8_lossy(&path).trim_end()))
        } else {
            Err(String::from_utf8_lossy(&said)
                .lines()
                .last()
                .unwrap_or("")
                .to_owned())
        }
    });
    PYTHON.clone()
}

/// Runs a script of `tests/tools` and returns what it prints, one JSON value per line.
pub(crate) fn answers(program: &Path, script: &str, arguments: &[&str]) -> Vec<serde_json::Value> {
    answers_in(&std::env::temp_dir(), program, script, arguments)
}

/// The same, in a directory.
pub(crate) fn answers_in(
    dir: &Path,
    program: &Path,
    script: &str,
    arguments: &[&str],
) -> Vec<serde_json::Value> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools");
    let output = Command::new("timeout")
        .arg("60")
        .arg(program)
        .arg(tools.join(script))
        .args(arguments)
        .current_dir(dir)
        .output()
        .expect("timeout is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {said}");
    let lines = String::from_utf8(output.stdout).expect("the script prints text");
    let parse = |line: &str| serde_json::from_str(line).expect("the script prints JSON");
    lines.lines().map(parse).collect()
}

/// Whether a command can be run.
pub(crate) fn has(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}
