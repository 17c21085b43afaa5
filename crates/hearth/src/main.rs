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

fn main() -> ExitCode {
    paint::start();
    let words: Vec<OsString> = std::env::args_os().collect();
    let cli = cli::Cli::typed(&words).unwrap_or_else(|error| error.exit());
    match cli.run() {
        Ok(code) => code,
        Err(failure) => {
            hearth_client::say!("{failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
