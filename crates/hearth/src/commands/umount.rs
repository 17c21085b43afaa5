//! `hearth umount`.

use std::path::PathBuf;
use std::process::ExitCode;

use hearth_set::control::{Busy, CallError};
use hearth_set::failure::Failure;
use hearth_set::job;
use hearth_set::set;
use hearth_set::takedown::{check_mount, detach_stale, unmount_by};

/// Options of `hearth umount`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Directory at which the store is mounted
    #[arg(value_name = "AT")]
    at: PathBuf,
    /// Take it away though programs use it
    #[arg(long)]
    force: bool,
}

/// Asks the agent that serves the mount to take it away.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    // A mount whose agent is gone cannot be looked at.
    let at = args
        .at
        .canonicalize()
        .or_else(|_| std::path::absolute(&args.at));
    let at = at.unwrap_or_else(|_| args.at.clone());
    let busy = if args.force {
        Busy::Detach
    } else {
        Busy::Refuse
    };
    for set in set::all(&job::base()?)? {
        let Some(mount) = set.file.mounts.iter().find(|mount| mount.at == at).cloned() else {
            continue;
        };
        let agents = set.file.agents.iter();
        let Some(agent) = agents.into_iter().find(|agent| agent.node == mount.node) else {
            continue;
        };
        check_mount(&at, busy)?;
        match unmount_by(&set.peer(agent), &at, busy) {
            Ok(_) => {}
            Err(CallError::Gone(_)) => detach_stale(&mount.at)?,
            Err(error) => return Err(error.into_failure()),
        }
        set.dir
            .change_set(|file| file.mounts.retain(|other| *other != mount))?;
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::no(format!(
        "no agent of yours serves a mount at `{}`",
        args.at.display()
    )))
}
