//! The command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::{
    agent, doctor, down, enter, flush, mount, moved, place, proxy_mount, run, status, top, trace,
    umount, up, warden,
};
use crate::demo;
use hearth_set::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  hearth run -- make -j8                      run a command over a cache of this directory
  hearth run --store /scratch -- ./solver     the same for another directory
  hearth up --store /scratch --agents 4       start four agents that stay
  mpirun -n 4 hearth run --store /scratch -- ./solver
  hearth mount /scratch /mnt/scratch          see the store through a mount
  hearth status
  hearth down

Exit codes: 0 done, 1 answered no, 2 could not do it; `run` has those of its command.";

/// Keeps the files of a parallel job in the memory of the nodes that use them.
#[derive(Parser, Debug)]
#[command(name = "hearth", version, after_long_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run a command with its files cached
    Run(run::Args),
    /// Start agents that stay
    Up(up::Args),
    /// Flush, unmount and end agents
    Down(down::Args),
    /// Show agents and how they are
    Status(status::Args),
    /// Watch agents at work
    Top(top::Args),
    /// Mount a store through an agent
    Mount(mount::Args),
    /// Take such a mount away
    Umount(umount::Args),
    /// Bring every dirty byte to the store
    Flush(flush::Args),
    /// Check this machine, and clear what crashes left
    Doctor(doctor::Args),
    /// See the cache at work on this machine
    Demo(demo::Args),
    /// See every operation on files
    Trace(trace::Args),
    /// Say where jobs should run
    Place(place::Args),
    #[command(hide = true)]
    Agent(agent::Args),
    #[command(name = "stand-in", hide = true)]
    ProxyMount(proxy_mount::Args),
    #[command(hide = true)]
    Enter(enter::Args),
    #[command(hide = true)]
    Warden(warden::Args),
    #[command(hide = true)]
    Workload(demo::Process),
    #[command(hide = true)]
    Bench(moved::Args),
    #[command(hide = true)]
    Sim(moved::Args),
}

impl Cli {
    /// Does what was asked.
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            Command::Run(args) => run::run(&args),
            Command::Up(args) => up::run(&args),
            Command::Down(args) => down::run(&args),
            Command::Status(args) => status::run(&args),
            Command::Top(args) => top::run(&args),
            Command::Mount(args) => mount::run(&args),
            Command::Umount(args) => umount::run(&args),
            Command::Flush(args) => flush::run(&args),
            Command::Doctor(args) => doctor::run(&args),
            Command::Demo(args) => demo::run(&args),
            Command::Trace(args) => trace::run(&args),
            Command::Bench(args) => Ok(moved::run("bench", &args)),
            Command::Place(args) => place::run(&args),
            Command::Sim(args) => Ok(moved::run("sim", &args)),
            Command::Agent(args) => agent::run(&args),
            Command::ProxyMount(args) => proxy_mount::run(&args),
            Command::Enter(args) => enter::run(&args),
            Command::Warden(args) => warden::run(&args),
            Command::Workload(args) => demo::work(&args),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn options_are_consistent() {
        Cli::command().debug_assert();
    }
}
