//! Programs under the library, and what it recorded of them.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "each test uses its part; what fails here fails the test, and a skipped test says so"
)]

use std::collections::HashMap;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

use hearth_trace::ring::{Account, AreaId, Drain, Ended, Facts, Name, Sink, StreamKey};
use hearth_trace::{Flags, Op, Record};
use tempfile::TempDir;

/// The library under test, as it was built beside this test.
pub(crate) fn library() -> PathBuf {
    if let Some(named) = std::env::var_os("HEARTH_PRELOAD") {
        return PathBuf::from(named);
    }
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().join("libhearth_preload.so");
    assert!(
        built.exists(),
        "{built:?} is not there: cargo build -p hearth-preload"
    );
    built
}

/// A place to run programs in.
pub(crate) struct Place {
    dir: TempDir,
}

/// One recorded call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) area: AreaId,
    pub(crate) tid: u32,
    pub(crate) op: Op,
    pub(crate) path: String,
    pub(crate) record: Record,
}

/// The records of a program and its children.
#[derive(Default)]
pub(crate) struct Recorded {
    calls: Vec<(StreamKey, Record)>,
    names: HashMap<(AreaId, u32), String>,
    programs: Vec<String>,
    pub(crate) attempted: u64,
    pub(crate) missing: u64,
    pub(crate) nested: u64,
}

/// How a program ended, and what was recorded of it.
pub(crate) struct Traced {
    pub(crate) output: Output,
    pub(crate) calls: Vec<Call>,
    /// Names of the programs that were traced.
    pub(crate) programs: Vec<String>,
    /// Attempts of signal handlers inside of records: counted, not kept.
    pub(crate) nested: u64,
}

impl Place {
    pub(crate) fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(dir.path().join("areas"))
            .unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        Place { dir }
    }

    pub(crate) fn areas(&self) -> PathBuf {
        self.dir.path().join("areas")
    }

    /// Path of a file that programs work on.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("work").join(name)
    }

    /// The same as text.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A command that runs in this place, traced by nothing.
    pub(crate) fn command(&self, line: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(line[0].as_ref());
        command
            .args(&line[1..])
            .current_dir(self.dir.path().join("work"))
            .stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HEARTH_TRACE") {
                command.env_remove(name);
            }
        }
        command
    }

    /// The same, with the library.
    pub(crate) fn traced_command(&self, line: &[impl AsRef<OsStr>]) -> Command {
        let mut command = self.command(line);
        command
            .env("LD_PRELOAD", library())
            .env("HEARTH_TRACE", "on")
            .env("HEARTH_TRACE_RING", "65536")
            .env("HEARTH_TRACE_THREADS", "16")
            .env("HEARTH_TRACE_DIR", self.areas());
        command
    }

    /// Runs a program without and with the library, and checks that one cannot tell.
    pub(crate) fn compare(&self, line: &[&str]) -> Traced {
        let plain = self.command(line).output().unwrap();
        let traced = self.trace(line);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(text(&traced.output.stdout), text(&plain.stdout), "{line:?}");
        assert_eq!(text(&traced.output.stderr), text(&plain.stderr), "{line:?}");
        assert_eq!(traced.output.status, plain.status, "{line:?}");
        traced
    }

    /// Runs a program to its end under the library.
    pub(crate) fn trace(&self, line: &[impl AsRef<OsStr>]) -> Traced {
        self.finish(self.traced_command(line))
    }

    /// Runs a command to its end, and takes what was recorded.
    pub(crate) fn finish(&self, mut command: Command) -> Traced {
        let output = command.output().unwrap();
        let recorded = self.drain();
        Traced {
            output,
            programs: recorded.programs.clone(),
            nested: recorded.nested,
            calls: recorded.calls(),
        }
    }

    /// All that the areas hold, which are those of processes that have ended.
    pub(crate) fn drain(&self) -> Recorded {
        let mut recorded = Recorded::default();
        let mut drain = Drain::open(&self.areas()).unwrap();
        drain.scan().unwrap();
        while drain.pass(&mut recorded).unwrap().records > 0 {}
        assert_eq!(recorded.missing, 0, "the ring was large enough for all");
        assert_eq!(recorded.attempted, recorded.calls.len() as u64);
        recorded
    }
}

impl Recorded {
    fn calls(&self) -> Vec<Call> {
        let call = |(stream, record): &(StreamKey, Record)| Call {
            area: stream.area,
            tid: stream.tid,
            op: Op::from_code(record.op).unwrap(),
            path: match record.file {
                0 => String::new(),
                file => self.names[&(stream.area, file)].clone(),
            },
            record: *record,
        };
        self.calls.iter().map(call).collect()
    }
}

impl Sink for Recorded {
    type Error = Infallible;

    fn began(&mut self, _: AreaId, _: &Facts) -> Result<(), Infallible> {
        Ok(())
    }

    fn named(&mut self, area: AreaId, name: Name<'_>) -> Result<(), Infallible> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match name {
            Name::File(id, path) => {
                self.names.insert((area, id), text(path));
            }
            Name::Exe(path) => {
                let path = text(path);
                let name = Path::new(&path).file_name().unwrap();
                self.programs.push(name.to_str().unwrap().to_owned());
            }
            Name::Args(_) | Name::Cwd(_) | Name::Rank(_) => {}
        }
        Ok(())
    }

    fn records(&mut self, stream: StreamKey, records: &[Record]) -> Result<(), Infallible> {
        self.calls
            .extend(records.iter().map(|record| (stream, *record)));
        Ok(())
    }

    fn stream_ended(&mut self, _: StreamKey, account: &Account) -> Result<(), Infallible> {
        self.attempted += account.attempted;
        self.missing += account.dropped + account.torn;
        Ok(())
    }

    fn ended(&mut self, _: AreaId, ended: &Ended) -> Result<(), Infallible> {
        self.nested += ended.nested;
        self.missing += ended.beyond + ended.unbacked + ended.names_lost;
        Ok(())
    }
}

impl Traced {
    /// Checks that the program succeeded.
    pub(crate) fn ok(self) -> Traced {
        let stderr = String::from_utf8_lossy(&self.output.stderr);
        assert!(
            self.output.status.success(),
            "{:?}: {stderr}",
            self.output.status
        );
        self
    }

    pub(crate) fn status(&self) -> ExitStatus {
        self.output.status
    }

    /// The signal that ended the program.
    pub(crate) fn signal(&self) -> Option<i32> {
        self.output.status.signal()
    }

    /// The calls with this operation on the file of this path.
    pub(crate) fn on(&self, op: Op, path: &str) -> Vec<&Call> {
        let calls = self.calls.iter();
        calls
            .filter(|call| call.op == op && call.path == path)
            .collect()
    }

    /// Bytes that were read from the file, by whatever call.
    pub(crate) fn bytes_read(&self, path: &str) -> i64 {
        self.bytes(path, |op| op.is_read() || op == Op::Copy)
    }

    /// Bytes that were written to the file, by whatever call.
    pub(crate) fn bytes_written(&self, path: &str) -> i64 {
        self.bytes(path, Op::is_write)
    }

    fn bytes(&self, path: &str, counts: impl Fn(Op) -> bool) -> i64 {
        let calls = self.calls.iter();
        let calls = calls.filter(|call| call.path == path && counts(call.op));
        calls.map(|call| call.record.outcome().max(0)).sum()
    }

    /// The records, for the message of a failed check.
    pub(crate) fn listing(&self) -> String {
        let line = |call: &Call| {
            let record = &call.record;
            format!(
                "{:?} {} {:?} at {} asked {} = {} {:x}\n",
                call.area,
                call.op.name(),
                call.path,
                record.offset,
                record.asked,
                record.result,
                record.flags.0,
            )
        };
        self.calls.iter().map(line).collect()
    }
}

impl Call {
    pub(crate) fn has(&self, flags: Flags) -> bool {
        self.record.flags.has(flags)
    }
}

/// Whether a program is there; says so if not.
pub(crate) fn has(test: &str, program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|dir| dir.join(program).exists());
    if !is_there {
        println!("skipped: {test}: no {program}");
    }
    is_there
}

/// Builds one of the C sources beside these tests; `None` if there is no compiler.
pub(crate) fn build(
    place: &Place,
    compiler: &str,
    source: &str,
    options: &[&str],
) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).find(|dir| dir.join(compiler).exists())?;
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let stem = Path::new(source).file_stem().unwrap().to_str().unwrap();
    let out = place.dir.path().join(stem);
    let mut command = Command::new(compiler);
    command
        .arg("-O1")
        .arg("-o")
        .arg(&out)
        .arg(sources.join(source))
        .args(options);
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    Some(out.to_str().unwrap().to_owned())
}

/// Builds one of them as a library to be preloaded.
pub(crate) fn shared_library(place: &Place, name: &str) -> Option<String> {
    build(
        place,
        "cc",
        &format!("{name}.c"),
        &["-shared", "-fPIC", "-ldl"],
    )
}
