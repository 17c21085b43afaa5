//! `hearth agent`: an agent's process; started by other subcommands only.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::logging;
use hearth_set::failure::Failure;

/// Options of `hearth agent`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Its configuration
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Runs until the agent ends.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    logging::start();
    crate::agent::run(&args.config)
}
