//! A set for the time of one measurement, and processes that work over its mounts.

pub mod cluster;
pub mod matmul;
pub mod workers;

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, OrFail};

/// The arguments of one process of a program.
#[derive(clap::Args, Debug)]
pub struct ProcessArgs {
    /// Directory of its files
    #[arg(long)]
    pub dir: PathBuf,
    /// Which of the processes this is
    #[arg(long)]
    pub rank: usize,
    /// How many there are
    #[arg(long)]
    pub of: usize,
    /// Rows of a matrix, or records of a file
    #[arg(long)]
    pub size: usize,
}

impl ProcessArgs {
    /// Says at the end how it went.
    pub fn tell(&self, ran: io::Result<ProcessReport>) -> Result<ExitCode, Failure> {
        let ProcessArgs { dir, rank, of, .. } = self;
        let what = || format!("cannot run process {rank} of {of} in `{}`", dir.display());
        let line = serde_json::to_string(&ran.or_fail(what)?).or_fail(what)?;
        writeln!(io::stdout().lock(), "{line}").or_fail(what)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The report of a process at its end, as one line of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessReport {
    /// The times of its reads and writes.
    pub times: IoTimes,
    /// Whether it read back the bytes that were written.
    pub right: bool,
    /// Of programs that tell them: the nanoseconds of every call, phase by phase.
    #[serde(default)]
    pub calls_ns: Vec<Vec<u64>>,
}

impl From<(IoTimes, bool)> for ProcessReport {
    fn from((times, right): (IoTimes, bool)) -> ProcessReport {
        let calls_ns = Vec::new();
        ProcessReport {
            times,
            right,
            calls_ns,
        }
    }
}

/// Tells the benchmark that a phase is over and waits until all are.
pub fn phase_over() -> io::Result<()> {
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
pub struct IoTimes {
    /// Seconds in open for reading and in reads.
    pub read_s: f64,
    /// Seconds in open for writing, in writes and in close.
    pub write_s: f64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

impl IoTimes {
    /// A read, or an open for reading.
    pub fn add_read(&mut self, span: Duration, bytes: u64) {
        self.read_s += span.as_secs_f64();
        self.bytes_read += bytes;
    }

    /// A write, or an open or close around writes.
    pub fn add_write(&mut self, span: Duration, bytes: u64) {
        self.write_s += span.as_secs_f64();
        self.bytes_written += bytes;
    }

    /// Sums over the processes.
    pub fn sum(all: &[IoTimes]) -> IoTimes {
        all.iter().fold(IoTimes::default(), |sum, one| IoTimes {
            read_s: sum.read_s + one.read_s,
            write_s: sum.write_s + one.write_s,
            bytes_read: sum.bytes_read + one.bytes_read,
            bytes_written: sum.bytes_written + one.bytes_written,
        })
    }
}
