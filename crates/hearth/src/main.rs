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
mod place;
mod pool;
mod probe;
mod replay;
mod requirements;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(code) => code,
        Err(failure) => {
            hearth_client::say!("{failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
