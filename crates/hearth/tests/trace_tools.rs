//! What becomes of traces: exports and replays, by the command.
#![allow(clippy::unwrap_used, reason = "what helps a test fails like a test")]

#[path = "support/desk.rs"]
#[allow(dead_code, reason = "every test file uses its own part")]
mod desk;

use std::fs;
use std::path::Path;

use desk::{Desk, code, err, out};
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
