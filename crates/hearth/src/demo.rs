//! `hearth demo`.

use std::process::ExitCode;

use crate::failure::Failure;

/// Options of `hearth demo`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Everything that follows
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    rest: Vec<String>,
}

/// Says that there is none in this build.
pub(crate) fn run(_: &Args) -> Result<ExitCode, Failure> {
    Err(Failure::new("this build has no `hearth demo`"))
}
