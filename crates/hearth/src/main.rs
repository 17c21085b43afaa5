//! The command.
//!
//! `cli` is what people type; each subcommand has its file in `commands`. Words for people go to
//! standard error, data to standard output. Exit codes: 0 done, 1 answered no, 2 could not do it.

#![deny(unsafe_code)]

mod agent;
mod cli;
mod commands;
mod demo;
mod gateway;
mod hints;
mod hosts;
mod logging;
mod namespace;
mod node;
mod os;
#[cfg(test)]
mod pages;
mod paint;
mod place;
mod pool;
mod probe;
mod replay;
mod requirements;
mod settings;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use hearth_set::failure::Failure;

fn main() -> ExitCode {
    paint::start();
    let words: Vec<OsString> = std::env::args_os().collect();
    let done = match cli::Cli::typed(&words) {
        Ok(cli) => cli.run(),
        Err(error) if words.len() < 2 && is_silence(&error) => {
            Err(Failure::new("a command is missing")
                .hint("hearth run -- CMD runs a command; hearth --help lists all there is"))
        }
        Err(error) => return refuse(&error, &words),
    };
    match done {
        Ok(code) => code,
        Err(failure) => {
            hearth_client::say!("{failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Whether nothing was typed.
fn is_silence(error: &clap::Error) -> bool {
    error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
}

/// Prints help that was asked for, or says why words cannot be understood.
fn refuse(error: &clap::Error, words: &[OsString]) -> ExitCode {
    // There is nobody to tell if it cannot be printed.
    let _ = error.print();
    if let Some(hint) = hints::of(error, words) {
        hearth_client::say!("hint: {hint}");
    }
    match error.use_stderr() {
        true => ExitCode::from(2),
        false => ExitCode::SUCCESS,
    }
}
