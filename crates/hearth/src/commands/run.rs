//! `hearth run`: a command with its files cached.
//!
//! Uses the agents that are up for the store, or starts some and ends them afterwards. The command
//! sees the store at its own path ([`crate::namespace`]), or with `--at` at another one.

pub(crate) mod child;
mod membership;
mod report;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use rustix::process::Signal;

use super::trace::recording::Recording;
use crate::control::{Busy, Peer, Request, call};
use crate::failure::{Failure, OrFail};
use crate::options::{Others, SetArgs};
use crate::place;
use crate::requirements;
use crate::set::Set;
use crate::signals::Signals;
use child::{Exit, wait};
use membership::Membership;
use report::Counts;

const EXAMPLES: &str = "\
Examples:
  hearth run -- make -j8                           this directory is the store
  hearth run --store /scratch --report -- ./solver
  hearth run --store /scratch --at /mnt/c -- ./solver /mnt/c/input
  hearth up --store /scratch --agents 4 && mpirun -n 4 hearth run --store /scratch -- ./solver

The command sees the cached files at their own paths, nobody else does. It gets HEARTH_AT with
--at. What it leaves running in the background loses its files when the last command ends.

Exit codes: the command's own, 128 and the signal's number if one ended it, 2 if its bytes could
not be brought to the store or it could not be started.";

/// Options of `hearth run`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory to cache [default: the current one]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Mount it here for everybody, instead of at its own path for the command alone
    #[arg(long, value_name = "DIR")]
    at: Option<PathBuf>,
    /// Record what the command and its agents do with files
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Say at the end where the bytes came from
    #[arg(long)]
    report: bool,
    #[command(flatten)]
    set: SetArgs,
    /// What to run
    #[arg(last = true, required = true, num_args = 1.., value_name = "CMD")]
    #[arg(help_heading = "Arguments")]
    command: Vec<OsString>,
}

/// Runs the command to its end.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let store = args.store.clone().unwrap_or_else(|| PathBuf::from("."));
    let store = place::store(&store)?;
    let at = args.at.as_ref().map(|at| place::mount_point(at, &store));
    let at = at.transpose()?;
    match &at {
        Some(_) => requirements::check_mounting()?,
        None => drop(requirements::open_device()?),
    }
    let signals = Signals::catch(&[Signal::INT, Signal::TERM])?;
    let recording = args.trace.as_deref().map(Recording::start).transpose()?;
    let directory = recording.as_ref().map(Recording::directory);
    let membership = Membership::join(&store, &args.set, directory, &signals)?;
    let ran = use_set(args, membership.set(), at, (recording.as_ref(), &signals));
    // Ended in every case; the first failure is the one to tell.
    let left = membership.leave();
    let recorded = recording.map(Recording::finish).transpose();
    let exit = ran?;
    left?;
    recorded?;
    if let Some(trace) = &args.trace {
        eprintln!("trace: hearth trace report {}", trace.display());
    }
    Ok(exit.code())
}

/// What goes along with a command: its recording, and the signals that end it.
type Watch<'a> = (Option<&'a Recording>, &'a Signals);

/// What the environment of a command is to have for its recording.
fn recorded(recording: Option<&Recording>) -> Vec<(&'static str, OsString)> {
    recording.map(Recording::environment).unwrap_or_default()
}

fn use_set(args: &Args, set: &Set, at: Option<PathBuf>, watch: Watch<'_>) -> Result<Exit, Failure> {
    let peer = set.peer_of_rank(rank());
    let before = args.report.then(|| Counts::ask(set));
    let exit = match at {
        Some(at) => run_at(args, set, &peer, at, watch),
        None => run_apart(args, set, &peer, watch),
    }?;
    if let Some(before) = before {
        eprint!("{}", Counts::ask(set).since(&before));
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
fn run_apart(args: &Args, set: &Set, peer: &Peer, watch: Watch<'_>) -> Result<Exit, Failure> {
    let (recording, signals) = watch;
    let what = || "cannot start the command".to_owned();
    let mut command = Command::new(std::env::current_exe().or_fail(what)?);
    command.arg("enter").arg("--store").arg(&set.file.store);
    command.arg("--node").arg(peer.node.to_string());
    command.arg("--socket").arg(&peer.socket);
    command.arg("--owner").arg(std::process::id().to_string());
    if set.file.spec.others == Others::Allowed {
        command.arg("--allow-other");
    }
    command.arg("--").args(&args.command);
    command.envs(recorded(recording));
    let child = command.spawn().or_fail(what)?;
    wait(child, signals)
}

/// The command sees the store at another path, and so does everybody.
fn run_at(
    args: &Args,
    set: &Set,
    peer: &Peer,
    at: PathBuf,
    (recording, signals): Watch<'_>,
) -> Result<Exit, Failure> {
    super::mount::mount(set, peer, &at)?;
    let [program, words @ ..] = args.command.as_slice() else {
        unreachable!("the command line requires a command");
    };
    let child = Command::new(program)
        .args(words)
        .env("HEARTH_AT", &at)
        .envs(recorded(recording))
        .spawn();
    let exit = match child {
        Ok(child) => wait(child, signals),
        Err(error) => Ok(Exit::NotRun(super::enter::cannot_run(program, &error))),
    };
    let request = Request::Unmount {
        at: at.clone(),
        busy: Busy::Detach,
    };
    call(peer, &request).map_err(|error| error.into_failure())?;
    set.dir
        .change_set(|file| file.mounts.retain(|mount| mount.at != at))?;
    exit
}
