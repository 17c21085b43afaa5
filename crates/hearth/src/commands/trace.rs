//! `hearth trace`: see every operation on files. Each subcommand has its file in `trace`.

mod binary;
mod check;
mod client;
mod export;
mod generate;
mod ls;
pub(crate) mod recording;
mod replay;
mod report;
mod run;
mod serve;
mod snapshot;
mod switch;
mod top;

use std::process::ExitCode;

use hearth_set::failure::Failure;

/// Options of `hearth trace`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Run a command and record what it does with files
    Run(run::Args),
    /// List the processes that can be traced now
    Ls(ls::Args),
    /// Show what is traced now, as it goes on
    Top(top::Args),
    /// Have processes record
    On(switch::Args),
    /// Have processes stop recording
    Off(switch::Args),
    /// Save the last records of processes that go on
    Snapshot(snapshot::Args),
    /// Say whether a trace file is whole
    Check(check::Args),
    /// Say where the time went, and what to change
    Report(report::Args),
    /// Do again, on copies of the files, what programs did
    Replay(replay::Args),
    /// Store what log clients of many machines send
    Serve(serve::Args),
    /// Send what is traced on this machine to a log server
    Client(client::Args),
    /// Write a trace in the format of another tool
    Export(export::Args),
    /// Write the trace of a job that never ran, for measuring
    Generate(generate::Args),
}

/// Does what was asked.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    match &args.command {
        Command::Run(args) => run::run(args),
        Command::Ls(args) => ls::run(args),
        Command::Top(args) => top::run(args),
        Command::On(args) => switch::on(args),
        Command::Off(args) => switch::off(args),
        Command::Snapshot(args) => snapshot::run(args),
        Command::Check(args) => check::run(args),
        Command::Report(args) => report::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Client(args) => client::run(args),
        Command::Export(args) => export::run(args),
        Command::Generate(args) => generate::run(args),
    }
}
