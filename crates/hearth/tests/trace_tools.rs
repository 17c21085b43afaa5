//! The uses of traces: exports and replays, by the command.
#![allow(clippy::unwrap_used, reason = "what helps a test fails like a test")]

#[path = "support/desk.rs"]
#[allow(dead_code, reason = "every test file uses its own part")]
mod desk;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use desk::{Desk, code, err, out};
use hearth_trace::ring::{OpFacts, Options, WhenFull, tracer};
use hearth_trace::{Op, area};
use serde_json::Value;

/// A trace of a job that never ran, in `dir`.
fn generated(desk: &Desk, dir: &Path) -> String {
    let path = dir.join("job.htrace").to_str().unwrap().to_owned();
    let output = desk.run(&[
        "trace", "generate", "--events", "5000", "--ranks", "4", "-o", &path,
    ]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    path
}

#[test]
fn a_trace_becomes_every_format() {
    let desk = Desk::new();
    let dir = tempfile::tempdir().unwrap();
    let trace = generated(&desk, dir.path());
    let begins: [(&str, &[u8]); 5] = [
        ("parquet", b"PAR1"),
        ("darshan", b"3.41\0"),
        ("perfetto", b"\n"),
        ("fio", b"fio version 3 iolog\n1 "),
        ("csv", b"start_ns,took_ns,"),
    ];
    for (format, begin) in begins {
        let path = dir.path().join(format!("out.{format}"));
        let to = path.to_str().unwrap();
        let output = desk.run(&["trace", "export", &trace, "--to", format, "-o", to]);
        assert_eq!(code(&output), 0, "{}", err(&output));
        assert!(err(&output).contains(" 0 lost before"), "{}", err(&output));
        assert!(fs::read(&path).unwrap().starts_with(begin), "{format}");
    }
    assert!(dir.path().join("out.gaps.parquet").exists());
    let names = fs::read_dir(dir.path()).unwrap();
    assert_eq!(names.count(), 1 + 5 + 4, "nothing temporary is left");
}

#[test]
fn an_export_to_standard_output_is_text_only() {
    let desk = Desk::new();
    let dir = tempfile::tempdir().unwrap();
    let trace = generated(&desk, dir.path());
    let output = desk.run(&["trace", "export", &trace, "--to", "csv", "-o", "-"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert_eq!(out(&output).lines().count(), 5001);
    let output = desk.run(&["trace", "export", &trace, "--to", "parquet", "-o", "-"]);
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("-o OUT"), "{}", err(&output));
}

#[test]
fn a_replay_moves_the_bytes_of_the_trace() {
    let desk = Desk::new();
    let dir = tempfile::tempdir().unwrap();
    let trace = generated(&desk, dir.path());
    let table = desk.run(&["trace", "export", &trace, "--to", "csv", "-o", "-"]);
    let mut moved = [0_u64; 2];
    for line in out(&table).lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let bytes: u64 = fields[11].parse().unwrap_or(0);
        match fields[6] {
            "pread" | "read" => moved[0] += bytes,
            "pwrite" | "write" => moved[1] += bytes,
            _ => {}
        }
    }
    let copy = dir.path().join("copy");
    let at = copy.to_str().unwrap();
    let output = desk.run(&[
        "trace",
        "replay",
        &trace,
        "--at",
        at,
        "--no-think",
        "--json",
    ]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let found: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(found["bytes_read"], moved[0]);
    assert_eq!(found["bytes_written"], moved[1]);
    assert_eq!(found["operations"], 5000);
    assert_eq!(found["differ"], 0);
    let again = desk.run(&["trace", "replay", &trace, "--at", at]);
    assert_eq!(code(&again), 2);
    assert!(err(&again).contains("it is not empty"), "{}", err(&again));
}

/// Writes 4096 bytes again and again, and records that, until it is told to end.
fn write_on(is_over: &AtomicBool) {
    let target = tempfile::tempfile().unwrap();
    let file = tracer::file(b"/scratch/made-up");
    while !is_over.load(Ordering::Relaxed) {
        let started = tracer::enter().unwrap();
        target.write_all_at(&[1; 4096], 0).unwrap();
        let done = OpFacts {
            file,
            asked: 4096,
            result: 4096,
            ..OpFacts::new(Op::Pwrite)
        };
        tracer::leave(started, &done);
    }
}

#[test]
fn a_live_view_shows_what_a_process_does_now() {
    let desk = Desk::new();
    tracer::start(Options {
        directory: desk.control(),
        policy: WhenFull::Overwrite,
        // Long enough that some of it is still there when it has been looked at.
        capacity: 1 << 14,
        rank: Some(5),
        ..Options::default()
    })
    .unwrap();
    let is_over = AtomicBool::new(false);
    let top = |more: &[&str]| {
        let words = ["trace", "top", "--once", "--interval", "0.4"];
        let mut command = desk.command(&[&words, more].concat());
        let command = command.env(area::DIRECTORY_VARIABLE, desk.control());
        command.output().unwrap()
    };
    let (json, text) = thread::scope(|scope| {
        scope.spawn(|| write_on(&is_over));
        let answers = (top(&["--json"]), top(&[]));
        is_over.store(true, Ordering::Relaxed);
        answers
    });
    assert_eq!(code(&json), 0, "{}", err(&json));
    let view: Value = serde_json::from_str(&out(&json)).unwrap();
    let number = |value: &Value| value.as_f64().unwrap();
    let process = &view["processes"][0];
    assert_eq!(process["pid"], std::process::id());
    assert_eq!(process["rank"], 5);
    assert_eq!(process["operations"], view["total"]["operations"]);
    assert!(number(&process["operations"]) > 0.0, "{view}");
    assert_eq!(process["lost"], 0, "a flight recorder loses nothing");
    let of_one = |it: &Value| number(&it["written_bytes_per_s"]) / number(&it["operations_per_s"]);
    assert!((of_one(&view["files"][0]) / 4096.0 - 1.0).abs() < 0.01);
    let of_all = of_one(process) / 4096.0;
    assert!((f64::EPSILON..1.01).contains(&of_all), "{view}");
    assert_eq!(number(&process["read_bytes_per_s"]), 0.0);
    assert_eq!(view["files"][0]["path"], "/scratch/made-up");
    assert_eq!(view["operations"][0]["operation"], "pwrite");
    assert_eq!(code(&text), 0, "{}", err(&text));
    for word in ["/scratch/made-up", "pwrite", "written"] {
        assert!(out(&text).contains(word), "{}", out(&text));
    }
}

#[test]
fn a_live_view_needs_something_to_show_and_a_place() {
    let desk = Desk::new();
    let top = |more: &[&str]| {
        let mut command = desk.command(&[&["trace", "top"], more].concat());
        let command = command.env(area::DIRECTORY_VARIABLE, desk.control());
        command.output().unwrap()
    };
    let nothing = top(&["--once"]);
    assert_eq!((code(&nothing), out(&nothing).as_str()), (1, ""));
    assert!(err(&nothing).contains("hearth trace run"));
    let nowhere = top(&[]);
    assert_eq!(code(&nowhere), 2);
    assert!(err(&nowhere).contains("--once"), "{}", err(&nowhere));
    assert_eq!(code(&top(&["--once", "--interval", "0"])), 2);
}

#[test]
fn a_replay_needs_a_directory() {
    let desk = Desk::new();
    let dir = tempfile::tempdir().unwrap();
    let trace = generated(&desk, dir.path());
    let nowhere = desk.run(&["trace", "replay", &trace]);
    assert_eq!(code(&nowhere), 2, "{}", err(&nowhere));
    assert!(err(&nowhere).contains("--at"), "{}", err(&nowhere));
}
