//! The laboratory: proves what the shipped programs do.
//!
//! It starts the same binaries as users do. `torture` and `many` look at them from outside alone. `bench` starts sets as the
//! command does, and `sim` runs the kernel without machines. No crate of the product depends on it.

#![deny(unsafe_code)]

mod bench;
mod hearth;
mod linear;
mod many;
mod random;
mod sim;
#[expect(
    unsafe_code,
    reason = "maps files, locks parts of them, and closes them with a word of how it went"
)]
mod sys;
mod torture;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hearth_set::failure::Failure;

#[derive(Parser, Debug)]
#[command(name = "hearth-lab", version, about = "Proves what Hearth does")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run programs over sets of agents under faults, and check their histories
    Torture(torture::Args),
    /// List, look at and open many files through all agents of a set, and say how long calls took
    Many(many::Args),
    /// Measure
    Bench(bench::Args),
    /// Run the protocol without machines
    Sim(sim::Args),
    #[command(hide = true)]
    Workload(workload::Args),
    #[command(hide = true)]
    TransportRank(bench::TransportRank),
    /// One program of a round
    #[command(hide = true)]
    Worker {
        /// The file that says what to do
        spec: PathBuf,
    },
    /// Keep a processor busy until standard input ends
    #[command(hide = true)]
    Spin,
}

fn main() -> ExitCode {
    let plain = |error: std::io::Error| Failure::new(error.to_string());
    let done = match Cli::parse().command {
        Command::Torture(args) => torture::run(&args).map_err(plain),
        Command::Many(args) => many::run(&args).map_err(plain),
        Command::Bench(args) => bench::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Workload(args) => workload::main(&args),
        Command::TransportRank(args) => bench::be_rank(&args),
        Command::Worker { spec } => torture::work(&spec)
            .map(|()| ExitCode::SUCCESS)
            .map_err(plain),
        Command::Spin => {
            torture::spin();
            Ok(ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|failure| {
        eprintln!("{failure}");
        ExitCode::from(failure.exit_code())
    })
}
