//! Programs that the benchmarks run as processes of their own. They know nothing of Hearth: they open, read, write and
//! close files.

pub(crate) mod local_hit;
pub(crate) mod records;
pub(crate) mod small_io;
pub(crate) mod stat;

use std::io;
use std::process::ExitCode;

use hearth_set::failure::Failure;
use hearth_set::trial::matmul::program as matmul;
use hearth_set::trial::{ProcessArgs, ProcessReport};

/// Options of the hidden `hearth-lab workload`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Which program
    #[arg(value_enum)]
    program: Program,
    #[command(flatten)]
    seat: ProcessArgs,
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

/// Runs one process of a program.
pub(crate) fn main(args: &Args) -> Result<ExitCode, Failure> {
    let Args { program, seat } = args;
    let ProcessArgs {
        dir,
        rank,
        of,
        size,
    } = seat;
    if *program == Program::LocalHit {
        return local_hit::run(dir, *size, *rank, *of);
    }
    let records = |files| records::run(dir, *size, *rank, files).map(ProcessReport::from);
    let ran: io::Result<ProcessReport> = match program {
        Program::Matmul => matmul::run(dir, *size, *rank, *of).map(|times| (times, true).into()),
        Program::SmallIo => {
            small_io::run(&dir.join("shared"), *size as u64, *rank, *of).map(ProcessReport::from)
        }
        Program::RecordsSingle => records(records::Files::Single),
        Program::RecordsOwn => records(records::Files::Own),
        Program::RecordsShared => records(records::Files::Shared),
        Program::Stat => stat::run(dir, *size as u64, false),
        Program::StatListed => stat::run(dir, *size as u64, true),
        Program::LocalHit => unreachable!("it has been run"),
    };
    seat.tell(ran)
}
