//! The command line.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::{
    agent, completions, config, doctor, down, enter, flush, mount, moved, place, proxy_mount, run,
    status, top, trace, umount, up,
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
#[command(name = "hearth", version, after_long_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    #[command(flatten)]
    Shown(Shown),
    #[command(flatten)]
    Inner(Inner),
}

/// Commands that people type.
#[derive(Subcommand, Debug)]
enum Shown {
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
    /// Show settings, and where each is from
    Config(config::Args),
    /// See the cache at work on this machine
    Demo(demo::Args),
    /// See every operation on files
    Trace(trace::Args),
    /// Say where jobs should run
    Place(place::Args),
    /// Print completions for a shell
    Completions(completions::Args),
}

/// Commands that are started by others, or are elsewhere.
#[derive(Subcommand, Debug)]
enum Inner {
    #[command(hide = true)]
    Agent(agent::Args),
    #[command(name = "stand-in", hide = true)]
    ProxyMount(proxy_mount::Args),
    #[command(hide = true)]
    Enter(enter::Args),
    #[command(hide = true)]
    Workload(demo::Process),
    #[command(hide = true)]
    Bench(moved::Args),
    #[command(hide = true)]
    Sim(moved::Args),
}

impl Cli {
    /// Reads words that were typed, the command's own name first.
    pub(crate) fn typed(words: &[OsString]) -> Result<Cli, clap::Error> {
        let matches = Cli::command().try_get_matches_from(words)?;
        check_hosts(&matches)?;
        Cli::from_arg_matches(&matches)
    }

    /// The command line without what its help hides.
    pub(crate) fn shown() -> clap::Command {
        let bare = clap::Command::new("hearth").version(env!("CARGO_PKG_VERSION"));
        Shown::augment_subcommands(bare)
    }

    /// Does what was asked.
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            Command::Shown(command) => command.run(),
            Command::Inner(command) => command.run(),
        }
    }
}

impl Shown {
    fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Shown::Run(args) => run::run(&args),
            Shown::Up(args) => up::run(&args),
            Shown::Down(args) => down::run(&args),
            Shown::Status(args) => status::run(&args),
            Shown::Top(args) => top::run(&args),
            Shown::Mount(args) => mount::run(&args),
            Shown::Umount(args) => umount::run(&args),
            Shown::Flush(args) => flush::run(&args),
            Shown::Doctor(args) => doctor::run(&args),
            Shown::Config(args) => config::run(&args),
            Shown::Completions(args) => completions::run(&args),
            Shown::Demo(args) => demo::run(&args),
            Shown::Trace(args) => trace::run(&args),
            Shown::Place(args) => place::run(&args),
        }
    }
}

impl Inner {
    fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Inner::Bench(args) => Ok(moved::run("bench", &args)),
            Inner::Sim(args) => Ok(moved::run("sim", &args)),
            Inner::Agent(args) => agent::run(&args),
            Inner::ProxyMount(args) => proxy_mount::run(&args),
            Inner::Enter(args) => enter::run(&args),
            Inner::Workload(args) => demo::work(&args),
        }
    }
}

/// A host's place and secret mean nothing without the list. In variables they may stand all the same.
fn check_hosts(matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some(("up", up)) = matches.subcommand() else {
        return Ok(());
    };
    let is_typed = |id: &&str| up.value_source(id) == Some(ValueSource::CommandLine);
    match ["node", "secret_file"].into_iter().find(is_typed) {
        Some(id) if !up.contains_id("hosts") => {
            let words = format!("--{} needs --hosts", id.replace('_', "-"));
            Err(Cli::command().error(ErrorKind::MissingRequiredArgument, words))
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::keys;

    /// Variables that programs under `hearth run`, or libraries in them, have for something else.
    const TAKEN: [&str; 3] = ["HEARTH_AT", "HEARTH_TRACE", "HEARTH_REPORT"];

    #[test]
    fn every_option_of_a_set_has_a_variable_of_its_own() {
        let keys = keys::all();
        let cli = Cli::command();
        for name in ["run", "up", "mount"] {
            let command = cli.find_subcommand(name).expect("it is there");
            for arg in command.get_arguments().filter(|arg| !arg.is_positional()) {
                let key = arg.get_long().expect("options have names");
                let variable = match arg.get_env() {
                    Some(own) => own.to_str().expect("a word").to_owned(),
                    None => keys::variable(key),
                };
                let is_known = arg.get_env().is_some() || keys.iter().any(|it| it == key);
                assert!(is_known, "{name} --{key} has no variable");
                assert!(!TAKEN.contains(&variable.as_str()), "{variable}");
            }
        }
    }

    #[test]
    fn a_place_in_no_list_is_refused_if_it_was_typed() {
        let words = ["hearth", "up", "--store", "/", "--node", "1"].map(OsString::from);
        let told = Cli::typed(&words).unwrap_err().to_string();
        assert!(told.contains("--node needs --hosts"), "{told}");
    }

    #[test]
    fn options_are_consistent() {
        Cli::command().debug_assert();
    }
}
