//! `hearth run`: a command with its files cached.
//!
//! Uses the agents that are up for the store, or starts some and ends them afterwards. The command
//! sees the store at its own path ([`crate::namespace`]), or with `--at` at another one.

pub(crate) mod child;
mod membership;
mod ranks;
mod report;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::builder::BoolishValueParser;

use super::trace::recording::{Recording, loading};
use crate::place;
use crate::pool;
use crate::probe::known;
use crate::requirements;
use crate::settings::keys::Keys;
use crate::settings::{Settings, Typed};
use child::{Exit, wait};
use hearth_set::control::{Busy, ControlRequest, Peer, call};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::options::Others;
use hearth_set::set::{self, Set};
use hearth_set::signals::{self, Signals};
use hearth_set::{preload, program};
use membership::Membership;
pub(crate) use membership::check_settings;
use report::Counts;

const EXAMPLES: &str = "\
Examples:
  hearth run -- make -j8                           this directory is the store
  hearth run --store /scratch --report -- ./solver
  hearth run --store /scratch --at /mnt/c -- ./solver /mnt/c/input
  hearth up --store /scratch --agents 4 && mpirun -n 4 hearth run --store /scratch -- ./solver
  hearth run --way-in mpiio --store /scratch -- mpirun -n 4 ./solver

The command sees the cached files at their own paths, nobody else does. It gets HEARTH_AT with
--at. What it leaves running in the background loses its files when the last command ends.

Exit codes: the command's own, 128 and the signal's number if one ended it, 2 if its bytes could
not be brought to the store or it could not be started.";

/// Options of `hearth run`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory to cache [default: the current one]
    #[arg(long, value_name = "DIR", env = "HEARTH_STORE", hide_env = true)]
    store: Option<PathBuf>,
    /// Mount it here for everybody, instead of at its own path for the command alone
    #[arg(long, value_name = "DIR", env = "HEARTH_OPTION_AT", hide_env = true)]
    at: Option<PathBuf>,
    /// Record what the command and its agents do with files
    #[arg(
        long,
        value_name = "FILE",
        env = "HEARTH_OPTION_TRACE",
        hide_env = true
    )]
    trace: Option<PathBuf>,
    /// Say at the end where the bytes came from
    #[arg(long, env = "HEARTH_OPTION_REPORT", hide_env = true, value_parser = BoolishValueParser::new())]
    report: bool,
    #[command(flatten)]
    settings: Typed<Keys>,
    /// Command to run
    #[arg(last = true, required = true, num_args = 1.., value_name = "CMD")]
    #[arg(help_heading = "Arguments")]
    command: Vec<OsString>,
}

/// The way in of programs, which is a setting too.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct WayIn {
    /// How programs reach the cache: fuse, preload or mpiio [default: preload]
    ///
    /// `fuse`: by its mount. `preload`: with a library in each program that copies what is in this node's memory and
    /// leaves all else to the mount; not where the library is not installed. `mpiio`: in the ranks of an MPI job. They
    /// are then the cache of what they open through MPI, without agents or a mount.
    #[arg(
        long = "way-in",
        value_name = "WAY",
        value_enum,
        hide_possible_values = true
    )]
    pub(crate) front_end: Option<FrontEnd>,
}

/// How programs reach the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FrontEnd {
    Fuse,
    Preload,
    Mpiio,
}

/// Runs the command to its end.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let store = args.store.clone().unwrap_or_else(|| PathBuf::from("."));
    let store = place::store(&store)?;
    let settings = Settings::of(&store, &args.settings)?;
    let front_end = settings.options().way_in.front_end;
    if front_end == Some(FrontEnd::Mpiio) {
        return ranks::run(args, &store);
    }
    known::check(&store, false)?;
    let at = args.at.as_ref().map(|at| place::mount_point(at, &store));
    let at = at.transpose()?;
    match &at {
        Some(_) => requirements::check_mounting()?,
        None => drop(requirements::open_device()?),
    }
    let signals = Signals::catch(signals::HANDED_ON)?;
    let library = library(front_end)?;
    let recording = args.trace.as_deref().map(Recording::start).transpose()?;
    let directory = recording.as_ref().map(Recording::directory);
    let membership = Membership::join(&store, &settings, directory, &signals)?;
    let help = Help {
        environment: environment(library.as_deref(), recording.as_ref()),
        pool: library.is_some(),
        signals: &signals,
    };
    let ran = use_set(args, membership.set(), at, &help);
    // Ended in every case; the first failure is the one to tell.
    let left = membership.leave();
    let recorded = recording.map(Recording::finish).transpose();
    let exit = ran?;
    left?;
    recorded?;
    if let Some(trace) = &args.trace {
        hearth_client::say!("trace: hearth trace report {}", trace.display());
    }
    Ok(exit.code())
}

/// Variables that stand for options of one run. A run inside of it has its own.
const OF_ONE_RUN: [&str; 3] = [
    "HEARTH_OPTION_AT",
    "HEARTH_OPTION_TRACE",
    "HEARTH_OPTION_REPORT",
];

/// A command that begins a life without the options of this one.
fn apart(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for name in OF_ONE_RUN {
        command.env_remove(name);
    }
    command
}

/// The library that programs are helped by; `None` if they use the mount alone.
fn library(front_end: Option<FrontEnd>) -> Result<Option<PathBuf>, Failure> {
    let library = || preload::loadable(&program::this()?);
    match front_end {
        Some(FrontEnd::Fuse | FrontEnd::Mpiio) => Ok(None),
        Some(FrontEnd::Preload) => library().map(Some),
        None => Ok(library().map_err(warn_of_the_mount_alone).ok()),
    }
}

/// Programs do without what nobody asked for by name.
fn warn_of_the_mount_alone(failure: Failure) {
    hearth_client::say!(
        "warning: programs reach the cache by its mount alone, which is slower: {}; `make install` puts the library in place, --way-in fuse does without",
        failure.in_a_line()
    );
}

/// The surroundings of a command.
struct Help<'a> {
    /// Variables for its environment.
    environment: Vec<(&'static str, OsString)>,
    /// Whether it is told where its agent's pool is.
    pool: bool,
    /// Signals that end it.
    signals: &'a Signals,
}

/// The variables that a command's environment needs for its front end and its recording.
fn environment(
    library: Option<&Path>,
    recording: Option<&Recording>,
) -> Vec<(&'static str, OsString)> {
    let recorded = recording.map(Recording::environment);
    recorded.unwrap_or_else(|| library.map(loading).into_iter().collect())
}

fn use_set(args: &Args, set: &Set, at: Option<PathBuf>, help: &Help<'_>) -> Result<Exit, Failure> {
    let peer = set.peer_of_rank(rank());
    let before = args.report.then(|| Counts::ask(set));
    let exit = match at {
        Some(at) => run_at(args, set, &peer, at, help),
        None => run_apart(args, set, &peer, help),
    }?;
    if let Some(before) = before {
        let counts = Counts::ask(set).since(&before).to_string();
        hearth_client::say!("{}", counts.trim_end());
    }
    Ok(exit)
}

/// The number of this process among those of its job on this machine, as launchers tell it.
fn rank() -> usize {
    let names = [
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "MPI_LOCALRANKID",
        "SLURM_LOCALID",
        "PMI_RANK",
    ];
    let values = names.iter().filter_map(|name| std::env::var(name).ok());
    values
        .filter_map(|value| value.parse().ok())
        .next()
        .unwrap_or(0)
}

/// The command sees the store at its own path, in namespaces of its own.
fn run_apart(args: &Args, set: &Set, peer: &Peer, help: &Help<'_>) -> Result<Exit, Failure> {
    let what = || "cannot start the command".to_owned();
    let mut command = apart(std::env::current_exe().or_fail(what)?);
    command.arg("enter").arg("--store").arg(&set.file.store);
    command.arg("--node").arg(peer.node.to_string());
    command.arg("--socket").arg(&peer.socket);
    command.arg("--owner").arg(std::process::id().to_string());
    if set.file.spec.others == Others::Allowed {
        command.arg("--allow-other");
    }
    if help.pool {
        command.arg("--pool");
    }
    command.arg("--").args(&args.command);
    command.envs(help.environment.iter().cloned());
    let child = command.spawn().or_fail(what)?;
    wait(child, help.signals)
}

/// The command sees the store at another path, and so does everybody.
fn run_at(
    args: &Args,
    set: &Set,
    peer: &Peer,
    at: PathBuf,
    help: &Help<'_>,
) -> Result<Exit, Failure> {
    set::mount(set, peer, &at)?;
    let [program, words @ ..] = args.command.as_slice() else {
        unreachable!("the command line requires a command");
    };
    let mut command = apart(program);
    command.args(words).env("HEARTH_AT", &at);
    command.envs(help.environment.iter().cloned());
    // Without it programs use the mount.
    if let Ok(told) = pool::environment(&at, &peer.socket, Some(&set.file.store), None)
        && help.pool
    {
        command.envs(told);
    }
    let exit = match command.spawn() {
        Ok(child) => wait(child, help.signals),
        Err(error) => Ok(Exit::NotRun(super::enter::cannot_run(program, &error))),
    };
    let request = ControlRequest::Unmount {
        at: at.clone(),
        busy: Busy::Detach,
    };
    call(peer, &request).map_err(|error| error.into_failure())?;
    set.dir
        .change_set(|file| file.mounts.retain(|mount| mount.at != at))?;
    exit
}
