//! `hearth completions`: a script by which a shell completes the words of this command.

use std::process::ExitCode;

use clap_complete::Generator;
use clap_complete::aot::{Bash, Fish, Zsh};

use crate::cli::Cli;
use hearth_set::failure::Failure;
use hearth_set::output::print;

const EXAMPLES: &str = "\
Examples:
  source <(hearth completions bash)
  hearth completions zsh > ~/.zfunc/_hearth
  hearth completions fish > ~/.config/fish/completions/hearth.fish

`make install` and packages put them in place.";

/// Options of `hearth completions`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// One of bash, zsh, fish
    #[arg(value_name = "SHELL", hide_possible_values = true)]
    shell: For,
}

/// Shells that have been tried.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum For {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let script = match args.shell {
        For::Bash => script(Bash),
        For::Zsh => script(Zsh),
        For::Fish => script(Fish),
    };
    print(&script)?;
    Ok(ExitCode::SUCCESS)
}

fn script(shell: impl Generator) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::shown(), "hearth", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
