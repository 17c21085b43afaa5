//! The laboratory: proves what the shipped programs do.
//!
//! It starts the same binaries as users do, and looks at them from outside alone: no crate of the
//! product is linked into it, and none depends on it.

#![deny(unsafe_code)]

mod linear;
mod many;
mod random;
#[expect(
    unsafe_code,
    reason = "maps files, locks parts of them, and closes them with a word of how it went"
)]
mod sys;
mod torture;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    let done = match Cli::parse().command {
        Command::Torture(args) => torture::run(&args),
        Command::Many(args) => many::run(&args),
        Command::Worker { spec } => torture::work(&spec).map(|()| ExitCode::SUCCESS),
        Command::Spin => {
            torture::spin();
            Ok(ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::from(2)
    })
}
