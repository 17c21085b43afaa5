//! `hearth top`.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use hearth_set::failure::Failure;
use hearth_set::set::NamedSet;

const EXAMPLES: &str = "\
Examples:
  hearth top
  hearth top --once                    one table of one second
  hearth top --store /scratch | cat    the same: a pipe is no terminal

Keys: q ends, ? shows all others.

Exit codes: 0 done, 1 no agents are up; with --once also if something needs care.";

/// Options of `hearth top`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    named: NamedSet,
    /// Print one table of one second, and end; so it is without a terminal
    #[arg(long)]
    once: bool,
}

/// Shows the chosen sets, all of them unless one is named.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let choice = args.named.all_unless_named();
    if args.once || !has_terminal() {
        hearth_top::print_once(&choice)
    } else {
        hearth_top::show(&choice)
    }
}

/// Whether pages can be shown: on a terminal that knows more than lines.
fn has_terminal() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
    io::stdout().is_terminal() && !is_dumb
}
