//! Commands that are in the laboratory's command and not in this one.

use std::ffi::OsString;
use std::process::ExitCode;

/// The words typed after the name of a command that moved.
#[derive(clap::Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    #[arg(
        value_name = "WORD",
        num_args = 0..,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<OsString>,
}

/// Says where a command of one name is.
pub(crate) fn run(name: &str, args: &Args) -> ExitCode {
    moved(name, name, &args.words)
}

/// The same of a command that has another name there.
pub(crate) fn moved(name: &str, there: &str, words: &[OsString]) -> ExitCode {
    let words = words.iter().map(|word| format!(" {}", word.display()));
    let words: String = words.collect();
    hearth_client::say!(
        "hearth: `{name}` is a command of hearth-lab now: type `hearth-lab {there}{words}`"
    );
    ExitCode::from(2)
}
