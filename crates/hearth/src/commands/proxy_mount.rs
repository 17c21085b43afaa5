//! `hearth stand-in`: the process behind the store of an agent whose host does not have it; started by agents
//! only.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::{gateway, logging};
use hearth_set::failure::Failure;

/// Options of `hearth stand-in`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Its agent's configuration
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Runs until its agent ends.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    logging::start();
    gateway::proxy_mount(&args.config)
}
