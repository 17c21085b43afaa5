//! The command.
//!
//! `cli` is what people type; each subcommand has its file in `commands`. Words for people go to
//! standard error, data to standard output. Exit codes: 0 done, 1 answered no, 2 could not do it.

#![deny(unsafe_code)]

mod agent;
mod bank;
mod bench;
mod cli;
mod commands;
mod control;
mod demo;
mod failure;
mod gateway;
mod holders;
mod hosts;
mod job;
mod launch;
mod leftovers;
mod logging;
mod mountinfo;
mod namespace;
mod node;
mod options;
mod os;
mod output;
mod overlap;
mod place;
mod pool;
mod preload;
mod probe;
mod process;
mod replay;
mod replicas;
mod requirements;
mod rules;
mod secret;
mod set;
mod signals;
mod sim;
mod size;
mod takedown;
mod tier;
mod unmount;
mod workload;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
