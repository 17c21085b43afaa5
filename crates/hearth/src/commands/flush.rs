//! `hearth flush`.

use std::process::ExitCode;

use hearth_set::failure::Failure;
use hearth_set::set::{NamedSet, choose};
use hearth_set::takedown;

const EXAMPLES: &str = "\
Examples:
  hearth flush
  hearth flush --store /scratch

Exit codes: 0 everything is in the store, 1 an agent was gone, 2 the store refused or an agent does
not answer.";

/// Options of `hearth flush`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    named: NamedSet,
}

/// Brings every dirty byte of the chosen sets to the store.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut code = ExitCode::SUCCESS;
    for set in choose(&args.named.choice())? {
        for note in takedown::flush(&set)? {
            hearth_client::say!("note: {note}");
            code = ExitCode::from(1);
        }
    }
    Ok(code)
}
