//! `hearth umount`.

use std::path::PathBuf;
use std::process::ExitCode;

use hearth_set::control::{Busy, ControlRequest, call};
use hearth_set::failure::Failure;
use hearth_set::job;
use hearth_set::set;
use hearth_set::takedown::check_mount;

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
    let at = args.at.canonicalize().unwrap_or_else(|_| args.at.clone());
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
        let request = ControlRequest::Unmount { at, busy };
        call(&set.peer(agent), &request).map_err(|error| error.into_failure())?;
        set.dir
            .change_set(|file| file.mounts.retain(|other| *other != mount))?;
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::no(format!(
        "no agent of yours serves a mount at `{}`",
        args.at.display()
    )))
}
