//! Programs that the demonstration and the benchmarks run as processes of their own. They know
//! nothing of Hearth: they open, read, write and close files.

pub(crate) mod local_hit;
pub(crate) mod matmul;
pub(crate) mod records;
pub(crate) mod small_io;
pub(crate) mod stat;

use crate::failure::{Failure, OrFail};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Options of the hidden `hearth workload`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Which program
    #[arg(value_enum)]
    program: Program,
    /// Where its files are
    #[arg(long)]
    dir: PathBuf,
    /// Which of the processes this is
    #[arg(long)]
    rank: usize,
    /// How many there are
    #[arg(long)]
    of: usize,
    /// Rows of a matrix, or records of a file
    #[arg(long)]
    size: usize,
}

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Program {
    /// C = A x B.
    Matmul,
    /// Interleaved records in one file.
    SmallIo,
    /// Records of one size, by one process.
    RecordsSingle,
    /// The same by every process, in a file of its own.
    RecordsOwn,
    /// The same in one file that all read.
    RecordsShared,
    /// Every file's attributes, by every process.
    Stat,
    /// The same, by processes that have just read all names.
    StatListed,
    /// Warm reads of one file, of copies of it, and of memory.
    LocalHit,
}

/// What a process says at its end, as one line of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) times: IoTimes,
    /// What it read back was what was written.
    pub(crate) right: bool,
    /// Of programs that tell them: the nanoseconds of every call, phase by phase.
    #[serde(default)]
    pub(crate) calls_ns: Vec<Vec<u64>>,
}

impl From<(IoTimes, bool)> for Report {
    fn from((times, right): (IoTimes, bool)) -> Report {
        let calls_ns = Vec::new();
        Report {
            times,
            right,
            calls_ns,
        }
    }
}

/// Runs one process of a program.
pub(crate) fn main(args: &Args) -> Result<ExitCode, Failure> {
    let Args {
        program,
        dir,
        rank,
        of,
        size,
    } = args;
    if *program == Program::LocalHit {
        return local_hit::run(dir, *size, *rank, *of);
    }
    let records = |files| records::run(dir, *size, *rank, files).map(Report::from);
    let ran: io::Result<Report> = match program {
        Program::Matmul => matmul::run(dir, *size, *rank, *of).map(|times| (times, true).into()),
        Program::SmallIo => {
            small_io::run(&dir.join("shared"), *size as u64, *rank, *of).map(Report::from)
        }
        Program::RecordsSingle => records(records::Files::Single),
        Program::RecordsOwn => records(records::Files::Own),
        Program::RecordsShared => records(records::Files::Shared),
        Program::Stat => stat::run(dir, *size as u64, false),
        Program::StatListed => stat::run(dir, *size as u64, true),
        Program::LocalHit => unreachable!("it has been run"),
    };
    let what = || format!("cannot run process {rank} of {of} in `{}`", dir.display());
    let line = serde_json::to_string(&ran.or_fail(what)?).or_fail(what)?;
    writeln!(std::io::stdout().lock(), "{line}").or_fail(what)?;
    Ok(ExitCode::SUCCESS)
}

/// Tells the benchmark that a phase is over and waits until all are.
fn phase_over() -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "ready")?;
    out.flush()?;
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line)? == 0 {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the benchmark is gone",
        ));
    }
    Ok(())
}

/// Time that a program spent in reads and in writes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct IoTimes {
    /// Seconds in open for reading and in reads.
    pub(crate) read_s: f64,
    /// Seconds in open for writing, in writes and in close.
    pub(crate) write_s: f64,
    /// Bytes read.
    pub(crate) bytes_read: u64,
    /// Bytes written.
    pub(crate) bytes_written: u64,
}

impl IoTimes {
    fn add_read(&mut self, span: Duration, bytes: u64) {
        self.read_s += span.as_secs_f64();
        self.bytes_read += bytes;
    }

    fn add_write(&mut self, span: Duration, bytes: u64) {
        self.write_s += span.as_secs_f64();
        self.bytes_written += bytes;
    }

    /// Sums over the processes.
    pub(crate) fn sum(all: &[IoTimes]) -> IoTimes {
        all.iter().fold(IoTimes::default(), |sum, one| IoTimes {
            read_s: sum.read_s + one.read_s,
            write_s: sum.write_s + one.write_s,
            bytes_read: sum.bytes_read + one.bytes_read,
            bytes_written: sum.bytes_written + one.bytes_written,
        })
    }
}
