//! `hearth trace run` and its kin, as people type them.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here fails the test, and a skipped test says so"
)]

#[path = "support/fixture.rs"]
mod fixture;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use fixture::{lacks_library, program};
use hearth_trace::file::Reader;
use hearth_trace::{Op, Source};
use tempfile::TempDir;

struct Place(TempDir);

impl Place {
    /// A place for traces; says so where the library is not there.
    fn new(test: &str) -> Option<Place> {
        if lacks_library(test) {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let mut builder = fs::DirBuilder::new();
        builder
            .mode(0o700)
            .create(dir.path().join("areas"))
            .unwrap();
        Some(Place(dir))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .arg("trace")
            .args(words)
            .current_dir(self.0.path())
            .env("HEARTH_TRACE_DIR", self.path("areas"))
            .stdin(Stdio::null());
        command
    }

    fn trace(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// How many operations a trace holds of one kind on a file of this name, and the bytes they moved.
fn count(trace: &Path, op: Op, name: &str) -> (usize, u64) {
    let mut reader = Reader::open(&[trace]).unwrap();
    let tables = reader.tables().clone();
    let (mut calls, mut bytes) = (0, 0);
    reader
        .each_run(&mut |_, events| {
            for event in events {
                let is_it = event
                    .file
                    .is_some_and(|file| tables.path(file).ends_with(name));
                if is_it && event.op == op {
                    calls += 1;
                    bytes += event.bytes();
                }
            }
        })
        .unwrap();
    (calls, bytes)
}

#[test]
fn a_command_is_recorded_with_its_children_and_its_exit_code_is_kept() {
    let name = "a_command_is_recorded_with_its_children_and_its_exit_code_is_kept";
    let Some(place) = Place::new(name) else {
        return;
    };
    let line =
        "dd if=/dev/zero of=out bs=4k count=100 status=none; cat out > copy; echo done; exit 7";
    let output = place.trace(&["run", "-o", "job.htrace", "--", "sh", "-c", line]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(
        text(&output.stdout),
        "done\n",
        "what the command prints is all there is"
    );
    let words = text(&output.stderr);
    assert_eq!(words.lines().count(), 5, "{words}");
    assert!(words.contains("lost    0 of "), "{words}");
    assert!(words.contains("hearth trace report job.htrace"), "{words}");
    let trace = place.path("job.htrace");
    assert_eq!(count(&trace, Op::Write, "/out"), (100, 409_600));
    let copied = count(&trace, Op::Read, "/out").1 + count(&trace, Op::Copy, "/out").1;
    assert_eq!(copied, 409_600);
    let check = place.trace(&["check", "job.htrace"]);
    assert!(check.status.success(), "{}", text(&check.stdout));
    let left = fs::read_dir(place.path("areas")).unwrap().count();
    assert_eq!(left, 0, "the recording takes its areas away");
}

#[test]
fn a_small_ring_loses_nothing_without_a_count() {
    let Some(place) = Place::new("a_small_ring_loses_nothing_without_a_count") else {
        return;
    };
    let words = ["run", "-o", "a.htrace", "--ring", "2", "--", "dd"];
    let dd = [
        "if=/dev/zero",
        "of=out",
        "bs=1",
        "count=20000",
        "status=none",
    ];
    let output = place.trace(&[&words[..], &dd[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let reader = Reader::open(&[place.path("a.htrace")]).unwrap();
    let tables = reader.tables();
    let (mut attempted, mut kept) = (0, 0);
    for stream in &tables.streams {
        attempted += stream.attempted;
        kept += stream.stored;
        assert_eq!(
            stream.attempted,
            stream.stored + stream.dropped + stream.torn
        );
    }
    assert!(attempted >= 20_000 && kept <= attempted);
    let totals = tables.processes.iter().flat_map(|process| &process.totals);
    let written: u64 = totals
        .filter(|tally| tally.op == Op::Write)
        .map(|tally| tally.bytes)
        .sum();
    assert_eq!(written, 20_000, "sums are whole whatever was lost");
}

/// A new area is drained while its process runs, and a thread that waits wakes the drain.
#[test]
fn a_small_ring_that_waits_loses_nothing() {
    let Some(place) = Place::new("a_small_ring_that_waits_loses_nothing") else {
        return;
    };
    let words = ["run", "-o", "a.htrace", "--ring", "64", "--policy", "wait"];
    let dd = ["--", "dd", "if=/dev/zero", "of=out", "bs=64", "count=50000"];
    let mut command = place.command(&[&words[..], &dd].concat());
    // Longer than any machine is busy with something else.
    command.env("HEARTH_TRACE_POLICY", "wait:30000000");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let written = count(&place.path("a.htrace"), Op::Write, "/out");
    assert_eq!(written, (50_000, 64 * 50_000), "{}", text(&output.stderr));
}

#[test]
fn a_command_that_cannot_be_traced_runs_and_is_told_of() {
    let name = "a_command_that_cannot_be_traced_runs_and_is_told_of";
    let Some(place) = Place::new(name) else {
        return;
    };
    fs::write(place.path("a.c"), "int main(void) { return 4; }\n").unwrap();
    let built = Command::new("cc")
        .args(["-static", "-o", "a", "a.c"])
        .current_dir(place.0.path())
        .output();
    if !built.is_ok_and(|built| built.status.success()) {
        println!("skipped: {name}: no cc that links statically");
        return;
    }
    let output = place.trace(&["run", "-o", "a.htrace", "--", "./a"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(
        text(&output.stderr).contains("linked statically"),
        "{}",
        text(&output.stderr)
    );
    let absent = place.trace(&["run", "-o", "b.htrace", "--", "no-such-program"]);
    assert_eq!(absent.status.code(), Some(127));
}

/// The operating system ends a process that makes a file larger than its limit.
#[test]
fn a_command_whose_files_are_limited_runs_and_is_told_of() {
    let name = "a_command_whose_files_are_limited_runs_and_is_told_of";
    let Some(place) = Place::new(name) else {
        return;
    };
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -f 100; exec \"$0\" trace run -- echo it"])
        .arg(program())
        .current_dir(place.0.path())
        .env("HEARTH_TRACE_DIR", place.path("areas"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(text(&output.stdout), "it\n");
    let words = text(&output.stderr);
    assert!(words.contains("(`ulimit -f`)"), "{words}");
    let left = fs::read_dir(place.path("areas")).unwrap();
    assert_eq!(left.count(), 0, "no area is left");
}

#[test]
fn a_running_process_is_listed_switched_and_pictured() {
    let name = "a_running_process_is_listed_switched_and_pictured";
    let Some(place) = Place::new(name) else {
        return;
    };
    fs::write(place.path("in"), "some bytes\n").unwrap();
    assert_eq!(
        place.trace(&["ls"]).status.code(),
        Some(1),
        "nothing runs yet"
    );
    let script = "while read line; do cat in > /dev/null; read x < in; echo $line; done";
    let words = [
        "run",
        "-o",
        "job.htrace",
        "--policy",
        "flight",
        "--",
        "sh",
        "-c",
        script,
    ];
    let mut child = place
        .command(&words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut turn = |word: &str| {
        writeln!(input, "{word}").unwrap();
        assert_eq!(answers.next().unwrap().unwrap(), word);
    };
    turn("one");
    let list = text(&place.trace(&["ls"]).stdout);
    assert!(
        list.contains(" on ") && list.contains("overwrites"),
        "{list}"
    );
    let snapshot = place.trace(&["snapshot", "-o", "now.htrace"]);
    assert!(snapshot.status.success(), "{}", text(&snapshot.stderr));
    let before = count(&place.path("now.htrace"), Op::Open, "/in").0;
    assert_eq!(before, 1, "the shell has opened it once");
    assert!(place.trace(&["off"]).status.success());
    turn("two");
    assert!(place.trace(&["on"]).status.success());
    turn("three");
    drop(input);
    assert!(child.wait_with_output().unwrap().status.success());
    // The shell's own are two of three, and those of `cat` are left out by name: it reads, too.
    let mut reader = Reader::open(&[place.path("job.htrace")]).unwrap();
    let tables = reader.tables().clone();
    let mut opens = 0;
    reader
        .each_run(&mut |stream, events| {
            if tables.process_of(stream).exe.ends_with("cat") {
                return;
            }
            let is_in = |file| tables.path(file).ends_with("/in");
            let calls = events.iter().filter(|event| event.op == Op::Open);
            opens += calls.filter(|event| event.file.is_some_and(is_in)).count();
        })
        .unwrap();
    assert_eq!(opens, 2, "what happened while it was off is not there");
}

/// The next recording saves the records of a killed one that nobody had taken.
#[test]
fn the_next_recording_keeps_what_one_that_was_killed_left() {
    let name = "the_next_recording_keeps_what_one_that_was_killed_left";
    let Some(place) = Place::new(name) else {
        return;
    };
    fs::write(place.path("in"), "some bytes\n").unwrap();
    let script = "echo ready; read line; cat in > /dev/null";
    let words = ["run", "-o", "a.htrace", "--", "sh", "-c", script];
    let mut child = place
        .command(&words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    answers.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let mut input = child.stdin.take().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    writeln!(input, "go on").unwrap();
    // The shell is gone when nobody has its output any more.
    std::io::copy(&mut answers, &mut std::io::sink()).unwrap();
    let next = place.trace(&["run", "-o", "b.htrace", "--", "true"]);
    assert!(next.status.success(), "{}", text(&next.stderr));
    let left = place.path(&format!("left-by-{}.htrace", child.id()));
    assert!(
        text(&next.stderr).contains("was killed"),
        "{}",
        text(&next.stderr)
    );
    assert_eq!(
        count(&left, Op::Read, "/in").1,
        11,
        "the shell's child read it"
    );
    let areas = fs::read_dir(place.path("areas")).unwrap().count();
    assert_eq!(areas, 0, "nothing of it is left in memory");
}
