//! `hearth trace run`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use hearth_client::words::counted;
use hearth_trace::file::Reader;
use hearth_trace::{Op, Source, Tables};

use super::binary;
use super::recording::Recording;
use crate::commands::run::child::{Exit, wait};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::signals::{self, Signals};
use hearth_set::size::Size;

const EXAMPLES: &str = "\
Examples:
  hearth trace run -- ./solver input.h5
  hearth trace run -o job.htrace -- mpirun -n 4 ./solver
  HEARTH_TRACE_ONLY='/scratch:*.h5' hearth trace run -- make -j8

Every program that the command starts on this machine is recorded too. Programs that are linked
statically (Go programs are) or run with another user's rights are not.

Exit codes: the command's own, 128 and the signal's number if one ended it, 2 if it could not be
traced or started.";

/// Options of `hearth trace run`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The trace file to write [default: the command's name and process, .htrace]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Records that a thread can have waiting; a power of two
    #[arg(long, value_name = "N", value_parser = ring)]
    ring: Option<u32>,
    /// Behaviour of a thread whose ring is full: drop and count, wait a moment first, or keep the last
    #[arg(long, value_enum, default_value = "drop")]
    policy: Policy,
    /// Command to run
    #[arg(last = true, required = true, num_args = 1.., value_name = "CMD")]
    #[arg(help_heading = "Arguments")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Policy {
    /// Go on, and count what is lost
    Drop,
    /// Wait up to a hundredth of a second, then as drop
    Wait,
    /// Keep the last records of each thread, for `hearth trace snapshot` and the end
    Flight,
}

fn ring(text: &str) -> Result<u32, String> {
    let records: u32 = text.parse().map_err(|_| "not a number".to_owned())?;
    if records.is_power_of_two() && (2..=1 << 20).contains(&records) {
        Ok(records)
    } else {
        Err("not a power of two from 2 to 1048576".to_owned())
    }
}

/// Runs a command to its end and records what it does with files.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let [program, words @ ..] = args.command.as_slice() else {
        unreachable!("the command line requires a command");
    };
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| default_output(program));
    let signals = Signals::catch(signals::HANDED_ON)?;
    let recording = Recording::start(&output)?;
    let mut command = Command::new(program);
    command.args(words).envs(recording.environment());
    if let Some(ring) = args.ring {
        command.env("HEARTH_TRACE_RING", ring.to_string());
    }
    let policy = match args.policy {
        Policy::Drop => "drop",
        Policy::Wait => "wait",
        Policy::Flight => "flight",
    };
    command.env("HEARTH_TRACE_POLICY", policy);
    let began = Instant::now();
    let exit = match command.spawn() {
        Ok(child) => wait(child, &signals),
        Err(error) => Ok(Exit::NotRun(crate::commands::enter::cannot_run(
            program, &error,
        ))),
    };
    let took = began.elapsed();
    let left = recording.finish()?;
    let exit = exit?;
    if matches!(exit, Exit::Ran(_)) {
        let words = closing_words(&output, program, took, args.policy)?;
        hearth_client::say!("{}", words.trim_end());
    }
    if left.processes > 0 {
        hearth_client::say!(
            "still running, and recorded no longer: {}",
            counted(left.processes, "process")
        );
    }
    Ok(exit.code())
}

fn default_output(program: &OsStr) -> PathBuf {
    let name = Path::new(program).file_name().unwrap_or(program);
    let mut file = name.to_owned();
    file.push(format!(".{}.htrace", std::process::id()));
    PathBuf::from(file)
}

/// Sums up the trace: its operations, the time in them, the loss, the file, and the command that shows more.
fn closing_words(
    output: &Path,
    program: &OsStr,
    took: Duration,
    policy: Policy,
) -> Result<String, Failure> {
    let what = || format!("cannot read `{}`", output.display());
    let reader = Reader::open(&[output]).or_fail(what)?;
    let tables = reader.tables();
    if tables.processes.is_empty() {
        return Ok(format!("traced  nothing: {}\n", why_nothing(program)));
    }
    let sums = Sums::of(tables);
    let lost = match (sums.attempted - sums.stored, policy) {
        (0, _) => String::new(),
        (_, Policy::Flight) => ", overwritten as a flight recorder does".to_owned(),
        (_, _) => ", counted by operation; try --ring 65536 or --policy wait".to_owned(),
    };
    let path = output.display();
    Ok(format!(
        "traced  {}, {}: {} operations, {} read, {} written, in {:.3} s\n\
         time    {:.3} s in them: {}\n\
         lost    {} of {}{lost}\n\
         file    {path}, {}\n\
         report  hearth trace report {path}\n",
        counted(tables.processes.len(), "process"),
        counted(tables.streams.len(), "thread"),
        sums.attempted,
        Size(sums.read),
        Size(sums.written),
        took.as_secs_f64(),
        Duration::from_nanos(sums.nanos()).as_secs_f64(),
        sums.shares(),
        sums.attempted - sums.stored,
        sums.attempted,
        Size(reader.bytes()),
    ))
}

/// Why a command left no area.
fn why_nothing(program: &OsStr) -> String {
    let name = program.display();
    match binary::look(program) {
        Some(binary::Linkage::Static) => format!(
            "{name} is linked statically (Go programs are), so its calls pass no library; cache or trace its mount instead"
        ),
        Some(binary::Linkage::OtherRights) => {
            format!(
                "{name} runs with another user's rights, so the system loads no library into it"
            )
        }
        Some(binary::Linkage::Dynamic) | None => {
            format!(
                "{name} and what it started loaded no library, cleared their environment, or have a limit (`ulimit -f`) below the file of a trace"
            )
        }
    }
}

/// Sums over all processes.
struct Sums {
    attempted: u64,
    stored: u64,
    read: u64,
    written: u64,
    /// Nanoseconds by operation, the longest first.
    by_op: Vec<(Op, u64)>,
}

impl Sums {
    fn of(tables: &Tables) -> Sums {
        let totals = || tables.processes.iter().flat_map(|process| &process.totals);
        let bytes = |counts: fn(Op) -> bool| {
            let counted = totals().filter(|tally| counts(tally.op));
            counted.map(|tally| tally.bytes).sum()
        };
        let took = |op: Op| {
            let counted = totals().filter(|tally| tally.op == op);
            counted.map(|tally| tally.took).sum::<u64>()
        };
        let mut by_op: Vec<(Op, u64)> = Op::ALL.iter().map(|op| (*op, took(*op))).collect();
        by_op.retain(|(_, nanos)| *nanos > 0);
        by_op.sort_by_key(|(_, nanos)| std::cmp::Reverse(*nanos));
        let streams = || tables.streams.iter();
        Sums {
            attempted: streams().map(|stream| stream.attempted).sum(),
            stored: streams().map(|stream| stream.stored).sum(),
            read: bytes(|op| op.is_read() || op == Op::Copy),
            written: bytes(Op::is_write),
            by_op,
        }
    }

    fn nanos(&self) -> u64 {
        self.by_op.iter().map(|(_, nanos)| nanos).sum()
    }

    fn shares(&self) -> String {
        const SHOWN: usize = 4;
        let all = self.nanos().max(1);
        let percent = |nanos: u64| (nanos as f64 * 100.0 / all as f64).round();
        let shown = self.by_op.iter().take(SHOWN);
        let mut words: Vec<String> = shown
            .map(|(op, nanos)| format!("{} {} %", op.name(), percent(*nanos)))
            .collect();
        let others: u64 = self.by_op.iter().skip(SHOWN).map(|(_, nanos)| nanos).sum();
        if others > 0 {
            words.push(format!("others {} %", percent(others)));
        }
        if words.is_empty() {
            words.push("none".to_owned());
        }
        words.join(", ")
    }
}
