//! The sets that are up on this machine, and those that once were.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::control::{CallError, ControlRequest, Peer, call, call_within};
use crate::failure::Failure;
use crate::job::{self, AgentEntry, JobDir, MountEntry, SetFile};

/// A set and its directory.
#[derive(Clone, Debug)]
pub struct Set {
    /// Its directory.
    pub dir: JobDir,
    /// The set's file in that directory.
    pub file: SetFile,
}

/// How much of a set is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Every agent's process is there.
    Up,
    /// Some are.
    Partly,
    /// None is.
    Dead,
}

/// Which sets a command is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The only one that is up.
    Only,
    /// Those for this store.
    Store(PathBuf),
    /// The one with this name.
    Job(String),
    /// Every one.
    All,
}

/// The two ways to name a set.
#[derive(clap::Args, Clone, Debug)]
#[group(multiple = false)]
pub struct NamedSet {
    /// The set for this store
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// The set with this name, as `hearth status` shows it
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
    /// Every set of yours on this machine
    #[arg(long)]
    all: bool,
}

impl NamedSet {
    /// The sets that were named.
    pub fn choice(&self) -> Choice {
        match (&self.store, &self.job) {
            (Some(store), _) => Choice::Store(store.clone()),
            (_, Some(job)) => Choice::Job(job.clone()),
            (None, None) if self.all => Choice::All,
            (None, None) => Choice::Only,
        }
    }

    /// The same for a command that only looks: all sets, unless one is named.
    pub fn all_unless_named(&self) -> Choice {
        match self.choice() {
            Choice::Only => Choice::All,
            named => named,
        }
    }
}

impl Set {
    /// The set in a directory, if there is one.
    pub fn read(dir: JobDir) -> Option<Set> {
        let file = dir.set().ok()?;
        Some(Set { dir, file })
    }

    /// The same set, as it is written down now.
    pub fn again(&self) -> Result<Set, Failure> {
        let (dir, file) = (self.dir.clone(), self.dir.set()?);
        Ok(Set { dir, file })
    }

    /// How much of it is left.
    pub fn life(&self) -> Life {
        let agents = &self.file.agents;
        let living = agents.iter().filter(|agent| agent.lives()).count();
        match living {
            0 => Life::Dead,
            all if all == agents.len() => Life::Up,
            _ => Life::Partly,
        }
    }

    /// How to reach one of its agents.
    pub fn peer(&self, agent: &AgentEntry) -> Peer {
        Peer {
            node: agent.node,
            process: Some(agent.process),
            warden: agent.warden,
            socket: self.dir.socket(agent.node),
        }
    }

    /// How to reach them all.
    pub fn peers(&self) -> Vec<Peer> {
        self.file
            .agents
            .iter()
            .map(|agent| self.peer(agent))
            .collect()
    }

    /// The agent on this machine that a program with this rank here uses: one that lives, if any does.
    pub fn peer_of_rank(&self, rank: usize) -> Peer {
        let agents = &self.file.agents;
        let living: Vec<&AgentEntry> = agents.iter().filter(|agent| agent.lives()).collect();
        match living.len() {
            0 => self.peer(&agents[rank % agents.len()]),
            count => self.peer(living[rank % count]),
        }
    }
}

/// Every set of ours, dead or alive.
pub fn all(base: &Path) -> Result<Vec<Set>, Failure> {
    Ok(job::all(base)?.into_iter().filter_map(Set::read).collect())
}

/// The living set for a store; its true path is given.
pub fn for_store(base: &Path, store: &Path) -> Result<Option<Set>, Failure> {
    let living = all(base)?
        .into_iter()
        .filter(|set| set.life() != Life::Dead);
    Ok(living.into_iter().find(|set| set.file.store == store))
}

/// The sets that a command is about: at least one, or the failure that says there is none.
pub fn choose(choice: &Choice) -> Result<Vec<Set>, Failure> {
    let sets = all(&job::base()?)?;
    let chosen: Vec<Set> = match choice {
        Choice::All => sets,
        Choice::Only => return only(sets),
        Choice::Job(job) => sets
            .into_iter()
            .filter(|set| set.file.job == *job)
            .collect(),
        Choice::Store(store) => {
            let store = store.canonicalize().unwrap_or_else(|_| store.clone());
            sets.into_iter()
                .filter(|set| set.file.store == store)
                .collect()
        }
    };
    if chosen.is_empty() {
        return Err(none_is_up(choice));
    }
    Ok(chosen)
}

fn only(sets: Vec<Set>) -> Result<Vec<Set>, Failure> {
    match sets.len() {
        0 => Err(none_is_up(&Choice::Only)),
        1 => Ok(sets),
        many => {
            let jobs: Vec<&str> = sets.iter().map(|set| set.file.job.as_str()).collect();
            Err(
                Failure::new(format!("{many} sets are up: {}", jobs.join(", ")))
                    .hint("name one with --store or --job, or say --all"),
            )
        }
    }
}

fn none_is_up(choice: &Choice) -> Failure {
    let what = match choice {
        Choice::Only | Choice::All => "no agents are up".to_owned(),
        Choice::Store(store) => format!("no agents are up for `{}`", store.display()),
        Choice::Job(job) => format!("no agents are up for job {job}"),
    };
    Failure::no(what).hint("hearth up --store DIR")
}

/// Mounts a set's store through one of its agents, and writes that down.
pub fn mount(set: &Set, peer: &Peer, at: &Path) -> Result<(), Failure> {
    let node = peer.node;
    let at = at.to_owned();
    // Written down first: if this process is killed in between, `down` still finds the mount.
    let entry = MountEntry { node, at };
    set.dir.change_set(|file| file.mounts.push(entry.clone()))?;
    let at = entry.at.clone();
    call(peer, &ControlRequest::Mount { at })
        .map(drop)
        .map_err(|error| {
            let failure = error.into_failure();
            match set
                .dir
                .change_set(|file| file.mounts.retain(|other| *other != entry))
            {
                Ok(()) => failure,
                Err(second) => failure.after(second),
            }
        })
}

/// Asks every agent at once; the answers come in the order of the agents.
pub fn ask_all(
    peers: &[Peer],
    request: &ControlRequest,
) -> Vec<Result<serde_json::Value, CallError>> {
    each(peers, |peer| call(peer, request))
}

/// The same; who takes longer counts as silent.
pub fn ask_all_within(
    peers: &[Peer],
    request: &ControlRequest,
    limit: Duration,
) -> Vec<Result<serde_json::Value, CallError>> {
    each(peers, |peer| call_within(peer, request, limit))
}

fn each<T: Send>(peers: &[Peer], call: impl Fn(&Peer) -> T + Sync) -> Vec<T> {
    let call = &call;
    std::thread::scope(|scope| {
        let calls: Vec<_> = peers
            .iter()
            .map(|peer| scope.spawn(move || call(peer)))
            .collect();
        calls
            .into_iter()
            .map(|call| call.join().expect("a call does not panic"))
            .collect()
    })
}
