//! `hearth trace serve` and `hearth trace client`, as people start them: a server that dies and comes
//! again has everything once.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here fails the test, and a skipped test says so"
)]

#[path = "support/addresses.rs"]
mod addresses;
#[path = "support/fixture.rs"]
mod fixture;

use std::fs::{self, DirBuilder};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fixture::{lacks_library, library, program};
use hearth_trace::Source;
use hearth_trace::file::Reader;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// No wait is longer.
const LIMIT: Duration = Duration::from_secs(180);
/// Writes of each program.
const WRITES: u64 = 20_000;
/// Records that are far more than what waits in memory.
const SPILLED: u64 = 200_000;

/// A server's address and directories for all.
struct Place {
    dir: TempDir,
    addr: SocketAddr,
}

/// A command that runs; killed when dropped.
struct Running(Child);

impl Running {
    fn end(mut self, signal: Signal) -> i32 {
        let pid = Pid::from_raw(self.0.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
        let status = wait(&mut self.0);
        status.code().unwrap_or(-1)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may be over.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait(child: &mut Child) -> std::process::ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(begun.elapsed() < LIMIT, "a command does not end");
        std::thread::yield_now();
    }
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        for name in ["areas", "spill"] {
            let mut builder = DirBuilder::new();
            builder.mode(0o700).create(dir.path().join(name)).unwrap();
        }
        let addr = addresses::own_address();
        Place { dir, addr }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.arg("trace").args(words).stdin(Stdio::null());
        command.env("HEARTH_TRACE_DIR", self.path("areas"));
        command
    }

    /// Starts a server, and waits until it listens.
    fn serve(&self) -> Running {
        let addr = self.addr.to_string();
        let mut command = self.command(&["serve", "--listen", &addr, "-o"]);
        command.arg(self.path("traces"));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = Running(child.spawn().unwrap());
        let mut line = String::new();
        let out = server.0.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), addr);
        server
    }

    fn client(&self, more: &[&str]) -> Running {
        let addr = self.addr.to_string();
        let mut command = self.command(&["client", "--server", &addr, "--secret"]);
        command.arg(self.path("traces/secret")).arg("--spill");
        command.arg(self.path("spill")).args(more);
        Running(command.stderr(Stdio::null()).spawn().unwrap())
    }

    /// Runs a program under the library that writes so many times.
    fn write(&self, library: &Path, count: u64) {
        let mut command = Command::new("dd");
        command
            .args(["if=/dev/zero", "bs=1", "status=none"])
            .arg(format!("of={}", self.path("out").display()))
            .arg(format!("count={count}"))
            .env("LD_PRELOAD", library)
            .env("HEARTH_TRACE", "on")
            // Nothing is dropped for want of a drain in time.
            .env("HEARTH_TRACE_POLICY", "wait:60000000")
            .env("HEARTH_TRACE_DIR", self.path("areas"));
        let status = wait(&mut command.spawn().unwrap());
        assert!(status.success());
    }

    /// Bytes of the traces that the server has.
    fn stored_bytes(&self) -> u64 {
        let traces = traces(&self.path("traces"));
        traces
            .iter()
            .map(|it| fs::metadata(it).unwrap().len())
            .sum()
    }

    /// The account of the server: attempts, and the records in its files.
    fn account(&self) -> (u64, u64) {
        let mut reader = Reader::open(&traces(&self.path("traces"))).unwrap();
        assert_eq!(reader.missing(), &[] as &[String]);
        let mut read = 0;
        reader
            .each_run(&mut |_, events| read += events.len() as u64)
            .unwrap();
        let streams = &reader.tables().streams;
        let sum = streams.iter().map(|it| it.stored + it.dropped + it.torn);
        let attempted: u64 = streams.iter().map(|it| it.attempted).sum();
        assert_eq!(attempted, sum.sum::<u64>());
        (attempted, read)
    }
}

fn traces(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory)
        .unwrap()
        .map(|it| it.unwrap().path());
    entries
        .filter(|path| path.extension().is_some_and(|it| it == "htrace"))
        .collect()
}

#[test]
fn a_server_that_is_killed_and_started_again_has_every_record_once() {
    let name = "a_server_that_is_killed_and_started_again_has_every_record_once";
    if lacks_library(name) {
        return;
    }
    let library = library();
    let place = Place::new();
    let server = place.serve();
    let client = place.client(&[]);
    place.write(&library, WRITES);
    let begun = Instant::now();
    while place.stored_bytes() < WRITES {
        assert!(begun.elapsed() < LIMIT, "the server gets nothing");
        std::thread::yield_now();
    }
    assert_eq!(server.end(Signal::KILL), -1);
    // Nobody is there for these; then somebody is, at the same place.
    place.write(&library, WRITES);
    let server = place.serve();
    place.write(&library, WRITES);
    assert_eq!(client.end(Signal::TERM), 0, "the server has everything");
    assert_eq!(server.end(Signal::TERM), 0);
    let (attempted, read) = place.account();
    assert!(attempted >= 3 * WRITES, "{attempted}");
    assert_eq!(read, attempted, "nothing is lost, and nothing there twice");
    let spilled = fs::read_dir(place.path("spill")).unwrap().count();
    assert_eq!(spilled, 0, "what was delivered is not kept here");
}

#[test]
fn what_no_server_takes_is_in_a_file_that_is_part_of_the_trace() {
    let name = "what_no_server_takes_is_in_a_file_that_is_part_of_the_trace";
    if lacks_library(name) {
        return;
    }
    let library = library();
    let place = Place::new();
    // Only for its secret.
    assert_eq!(place.serve().end(Signal::TERM), 0);
    let client = place.client(&["--linger", "0"]);
    place.write(&library, SPILLED);
    assert_eq!(client.end(Signal::TERM), 2, "not everything is delivered");
    let left = traces(&place.path("spill"));
    let [left] = &left[..] else {
        panic!("{left:?}");
    };
    fs::rename(left, place.path("traces").join(left.file_name().unwrap())).unwrap();
    let (attempted, read) = place.account();
    assert!(attempted >= SPILLED);
    assert_eq!(read, attempted);
}
