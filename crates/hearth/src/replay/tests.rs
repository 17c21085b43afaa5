//! Small traces, replayed.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hearth_trace::{
    Event, Flags, Host, HostId, Layer, Op, ProcessId, Source, Stream, StreamId, Tables, TracedFile,
    TracedFileId, TracedProcess,
};

use super::plan::Plan;
use super::run::{Outcome, Think, run};
use super::tree;

const MS: i64 = 1_000_000;

/// A trace of one process and two threads.
struct Trace {
    tables: Tables,
    runs: [Vec<Event>; 2],
}

impl Source for Trace {
    type Error = Infallible;

    fn tables(&self) -> &Tables {
        &self.tables
    }

    fn events_expected(&self) -> u64 {
        0
    }

    fn each_run(&mut self, take: &mut dyn FnMut(StreamId, &[Event])) -> Result<(), Infallible> {
        for (number, events) in (0..).zip(&self.runs) {
            take(StreamId(number), events);
        }
        Ok(())
    }
}

fn trace(runs: [Vec<Event>; 2]) -> Trace {
    let stream = |tid| Stream {
        process: ProcessId(0),
        tid,
        attempted: 0,
        stored: 0,
        dropped: 0,
        torn: 0,
    };
    let file = |path: &str| TracedFile {
        path: path.to_owned(),
        fs: String::new(),
        stripe: None,
    };
    Trace {
        tables: Tables {
            hosts: vec![Host {
                name: "here".to_owned(),
                clock_bound: None,
            }],
            processes: vec![TracedProcess {
                host: HostId(0),
                pid: 1,
                rank: None,
                exe: String::new(),
                start: 0,
                end: 0,
                totals: Vec::new(),
            }],
            streams: vec![stream(1), stream(2)],
            files: vec![file("/data/new"), file("/data/old")],
            ..Tables::default()
        },
        runs,
    }
}

fn event(op: Op, start: i64, file: u32, asked: u64, result: i64) -> Event {
    Event {
        start,
        took: 1000,
        op,
        layer: Layer::App,
        flags: Flags::default(),
        offset: 0,
        asked,
        result,
        file: Some(TracedFileId(file)),
        request: 0,
        near: 0,
        peer: 0,
        depth: 0,
        caller: 0,
        seq: 1,
    }
}

fn replay(mut trace: Trace, at: &Path, think: Think) -> Outcome {
    let plan = Plan::of(&mut trace, at).unwrap();
    let files = trace.tables.files.iter();
    let places: Vec<PathBuf> = files.map(|file| tree::place(at, &file.path)).collect();
    tree::make(&places, &plan.files).unwrap();
    run(&plan, &places, &[0, 0], think).unwrap()
}

const CREATE: u64 = 0o101;

#[test]
fn a_thread_waits_for_the_file_that_another_makes() {
    // Many times, since a race would be won now and then.
    for _ in 0..50 {
        let dir = tempfile::tempdir().unwrap();
        let maker = vec![
            event(Op::Stat, 0, 0, 0, -2),
            event(Op::Open, 5 * MS, 0, CREATE, 3),
            event(Op::Write, 6 * MS, 0, 4096, 4096),
        ];
        let reader = vec![
            event(Op::Open, 8 * MS, 0, 0, 4),
            event(Op::Read, 9 * MS, 0, 8192, 4096),
        ];
        let outcome = replay(trace([maker, reader]), dir.path(), Think::Drop);
        assert_eq!(outcome.operations, 5);
        assert_eq!(outcome.differ, 0, "{:?}", outcome.examples);
    }
}

#[test]
fn the_time_between_operations_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let slow = vec![
        event(Op::Stat, 0, 1, 0, 0),
        event(Op::Read, 40 * MS, 1, 4096, 4096),
    ];
    let outcome = replay(trace([slow.clone(), Vec::new()]), dir.path(), Think::Keep);
    assert!(outcome.elapsed >= Duration::from_millis(40), "{outcome:?}");
    assert_eq!(outcome.bytes_read, 4096);
    assert_eq!(outcome.differ, 0, "{:?}", outcome.examples);
}

#[test]
fn what_ends_differently_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = vec![
        event(Op::Stat, 0, 1, 0, 0),
        event(Op::Unlink, MS, 1, 0, 0),
        event(Op::Unlink, 2 * MS, 1, 0, 0),
    ];
    let outcome = replay(trace([wrong, Vec::new()]), dir.path(), Think::Drop);
    assert_eq!(outcome.differ, 1);
    assert!(
        outcome.examples[0].starts_with("unlink of `"),
        "{:?}",
        outcome.examples
    );
}
