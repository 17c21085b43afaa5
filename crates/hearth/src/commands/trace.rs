//! `hearth trace`: see every operation on files. Each subcommand has its file in `trace`.

mod check;
mod generate;
mod report;

use std::process::ExitCode;

use crate::failure::Failure;

/// Options of `hearth trace`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Say whether a trace file is whole
    Check(check::Args),
    /// Say where the time went, and what to change
    Report(report::Args),
    /// Write the trace of a job that never ran, for measuring
    Generate(generate::Args),
}

/// Does what was asked.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    match &args.command {
        Command::Check(args) => check::run(args),
        Command::Report(args) => report::run(args),
        Command::Generate(args) => generate::run(args),
    }
}
