//! `hearth mount`.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::place;
use crate::requirements;
use crate::settings::{Settings, Typed};
use hearth_set::control::Peer;
use hearth_set::failure::Failure;
use hearth_set::job::{self, SetOwner};
use hearth_set::launch::{self, LaunchPlan, Members};
use hearth_set::leftovers;
use hearth_set::options::SetArgs;
use hearth_set::program;
use hearth_set::set::{self, Set, mount};
use hearth_set::signals::{self, Signals};
use hearth_set::takedown::{How, take_down};
use hearth_set::watch::pause;

use super::run::check_settings;

const EXAMPLES: &str = "\
Examples:
  hearth mount /scratch /mnt/scratch            starts an agent if none is up for the store
  hearth up --store /scratch --agents 2         two mounts of one store, kept coherent
  hearth mount /scratch /mnt/a && hearth mount /scratch /mnt/b
  hearth umount /mnt/a";

/// Options of `hearth mount`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The store
    #[arg(value_name = "STORE")]
    store: PathBuf,
    /// An empty directory to mount it at
    #[arg(value_name = "AT")]
    at: PathBuf,
    /// The agent that is to serve it [default: the first that serves nothing]
    #[arg(long, value_name = "I", env = "HEARTH_AGENT", hide_env = true)]
    agent: Option<u32>,
    #[command(flatten)]
    settings: Typed<SetArgs>,
}

/// Mounts through an agent that is up, or through a new one.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let store = place::store(&args.store)?;
    let at = place::mount_point(&args.at, &store)?;
    let settings = Settings::of(&store, &args.settings)?;
    requirements::check_mounting()?;
    let base = job::base()?;
    let signals = Signals::catch(signals::ENDS)?;
    let _one_at_a_time = job::lock_store(&base, &store, |span| pause(span, &signals))?;
    if let Some(set) = set::for_store(&base, &store)? {
        check_settings(&set, &settings)?;
        let peer = match args.agent {
            Some(node) => agent(&set, node)?,
            None => free_agent(&set)?,
        };
        mount(&set, &peer, &at)?;
        return Ok(ExitCode::SUCCESS);
    }
    leftovers::clear_dead(&base, &store)?;
    let plan = LaunchPlan {
        store,
        spec: settings.resolve(1)?,
        program: program::this()?,
        owner: SetOwner::Nobody,
        members: Members::Here,
        trace: None,
        metrics: None,
    };
    let launched = launch::start(&base, &plan, &signals)?;
    let mounted = agent(&launched.set, args.agent.unwrap_or(0))
        .and_then(|peer| mount(&launched.set, &peer, &at));
    if let Err(failure) = mounted {
        take_down(&launched.set, How::AT_ONCE)?;
        return Err(failure);
    }
    Ok(ExitCode::SUCCESS)
}

fn agent(set: &Set, node: u32) -> Result<Peer, Failure> {
    let found = set.file.agents.iter().find(|agent| agent.node == node);
    found.map(|agent| set.peer(agent)).ok_or_else(|| {
        let count = set.file.agents.len();
        Failure::new(format!("job {} has no agent {node} here", set.file.job))
            .cause(format!("it has {count}, numbered from 0"))
    })
}

fn free_agent(set: &Set) -> Result<Peer, Failure> {
    let is_free = |node: u32| set.file.mounts.iter().all(|mount| mount.node != node);
    let free = set.file.agents.iter().find(|agent| is_free(agent.node));
    free.map(|agent| set.peer(agent)).ok_or_else(|| {
        Failure::new(format!(
            "every agent of job {} serves a mount already",
            set.file.job
        ))
        .hint("hearth umount AT, or start more: hearth down; hearth up --agents N")
    })
}
