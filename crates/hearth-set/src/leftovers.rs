//! The remains of crashes: directories of dead sets, mounts that nobody serves, agents without a job.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Signal, geteuid};

use crate::failure::{Failure, OrFail};
use crate::holders;
use crate::job::{self, JobDir};
use crate::mountinfo::{self, MountHealth};
use crate::process::Process;
use crate::set::{self, Life, Set};
use crate::takedown;

/// A set that starts has written down whose directory it is within this.
const STARTING_SPAN_MAX: Duration = Duration::from_secs(60);

/// The name of a process that waits for the end of an agent.
pub const WARDEN: &str = "hearth-warden";

/// One thing left over.
#[derive(Debug)]
pub enum Leftover {
    /// A set whose agents are all gone.
    Set(Box<Set>),
    /// A job's directory that says nothing.
    Directory(JobDir),
    /// A mount whose agent is gone, of a set that goes on without it.
    MountOf(Box<Set>, PathBuf),
    /// A mount that nobody serves, and of no set that is known here.
    Mount(PathBuf),
    /// An agent that no set knows.
    Agent(Process),
}

impl Leftover {
    /// In words.
    pub fn describe(&self) -> String {
        match self {
            Leftover::Set(set) => {
                let mounts = set.file.mounts.iter();
                let mounts: String = mounts
                    .map(|mount| format!(", and its mount at `{}`", mount.at.display()))
                    .collect();
                let job = &set.file.job;
                format!("job {job} is dead, its directory is there{mounts}")
            }
            Leftover::Directory(dir) => format!("`{}` belongs to no job", dir.path().display()),
            Leftover::MountOf(_, at) | Leftover::Mount(at) => {
                format!("nobody serves the mount at `{}`", at.display())
            }
            Leftover::Agent(process) => format!("agent with pid {} belongs to no job", process.pid),
        }
    }

    /// Takes it away.
    pub fn clear(&self) -> Result<(), Failure> {
        match self {
            Leftover::Set(set) => {
                check_left(set)?;
                takedown::clear(set)
            }
            Leftover::MountOf(set, at) => {
                check_unused(at)?;
                takedown::detach_stale(at)?;
                set.dir
                    .change_set(|file| file.mounts.retain(|mount| mount.at != *at))
            }
            Leftover::Directory(dir) => dir.remove(),
            // Its programs would write into the directory below.
            Leftover::Mount(at) => Err(Failure::new("it belongs to no set that is known here")
                .hint(format!(
                    "when no program needs it: umount -l {}",
                    at.display()
                ))),
            Leftover::Agent(process) => process
                .signal(Signal::TERM)
                .or_fail(|| format!("cannot end the agent with pid {}", process.pid)),
        }
    }
}

/// Everything that is left over, of this user.
pub fn find(base: &Path) -> Result<Vec<Leftover>, Failure> {
    // Agents first: one that is listed by the time its set is read is not an orphan.
    let agents = agents(Some(base));
    let (mut found, mut alive) = (Vec::new(), Vec::new());
    for dir in job::all(base)? {
        match Set::read(dir.clone()) {
            Some(set) if set.life() == Life::Dead => found.push(Leftover::Set(Box::new(set))),
            Some(set) => alive.push(set),
            None if is_young(dir.path()) => {}
            None => found.push(Leftover::Directory(dir)),
        }
    }
    found.extend(stale_mounts(&found, &alive)?);
    let known = alive.iter().flat_map(|set| &set.file.agents);
    let known = known.flat_map(|agent| [Some(agent.process), agent.warden]);
    let known: Vec<Process> = known.flatten().collect();
    let orphans = agents.into_iter().filter(|agent| {
        let is_known = known.contains(&agent.process);
        !is_known && agent.process.lives() && !agent.dir.join("set.json").exists()
    });
    found.extend(orphans.map(|agent| Leftover::Agent(agent.process)));
    Ok(found)
}

/// Fails while programs are in a mount of a dead set: without it they would go on in the directory below.
fn check_left(set: &Set) -> Result<(), Failure> {
    set.file
        .mounts
        .iter()
        .try_for_each(|mount| check_unused(&mount.at))
}

fn check_unused(at: &Path) -> Result<(), Failure> {
    match holders::of(at).into_iter().next() {
        None => Ok(()),
        Some(holder) => Err(Failure::new(format!(
            "a program still uses the mount at `{}`",
            at.display()
        ))
        .cause(holder.to_string())
        .hint("end it first; then the mount can go")),
    }
}

/// Whether somebody may be about to write down whose directory it is.
fn is_young(dir: &Path) -> bool {
    let changed = fs::metadata(dir).and_then(|meta| meta.modified());
    let age = changed.ok().and_then(|changed| changed.elapsed().ok());
    age.is_none_or(|age| age < STARTING_SPAN_MAX)
}

/// Mounts that nobody serves, but for those of dead sets.
fn stale_mounts(found: &[Leftover], alive: &[Set]) -> Result<Vec<Leftover>, Failure> {
    let of_set = |leftover: &Leftover| match leftover {
        Leftover::Set(set) => set.file.mounts.clone(),
        _ => Vec::new(),
    };
    let known: Vec<PathBuf> = found
        .iter()
        .flat_map(of_set)
        .map(|mount| mount.at)
        .collect();
    let mut mounts = mountinfo::read().or_fail(|| "cannot list mounts".to_owned())?;
    mounts.retain(|mount| mount.is_hearth() && !known.contains(&mount.at));
    let services = mountinfo::services(&mounts);
    let stale = mounts
        .into_iter()
        .zip(services)
        .filter(|(_, service)| *service == MountHealth::Gone);
    let has = |set: &&Set, at: &Path| set.file.mounts.iter().any(|mount| mount.at == at);
    let leftover = |at: PathBuf| match alive.iter().find(|set| has(set, &at)) {
        Some(set) => Leftover::MountOf(Box::new(set.clone()), at),
        None => Leftover::Mount(at),
    };
    Ok(stale.map(|(mount, _)| leftover(mount.at)).collect())
}

/// An agent of this user, be it of a set that nobody knows.
pub struct RunningAgent {
    /// Its process.
    pub process: Process,
    /// Its configuration file.
    pub config: PathBuf,
    dir: PathBuf,
}

/// Agents of this user whose job's directory is, or was, in `base`, or anywhere.
pub fn agents(base: Option<&Path>) -> Vec<RunningAgent> {
    let uid = geteuid().as_raw();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.metadata().is_ok_and(|meta| meta.uid() == uid))
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| agent(pid, base))
        .collect()
}

/// `hearth agent --config BASE/JOB/agent-N.json`.
fn agent(pid: u32, base: Option<&Path>) -> Option<RunningAgent> {
    let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = line.split('\0');
    let program = Path::new(words.next()?).file_name()?;
    if program != "hearth" || words.next()? != "agent" || words.next()? != "--config" {
        return None;
    }
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    if comm.trim_end() == WARDEN {
        return None;
    }
    let config = PathBuf::from(words.next()?);
    let dir = config.parent()?.to_owned();
    if base.is_some_and(|base| dir.parent() != Some(base)) {
        return None;
    }
    let process = Process::of(pid)?;
    Some(RunningAgent {
        process,
        config,
        dir,
    })
}

/// Removes directories whose starter was killed before it had written down whose they are. The lock of starts is held
/// by the caller, so nobody is about to.
pub fn clear_nameless(base: &Path) -> Result<(), Failure> {
    for dir in job::all(base)? {
        if !dir.path().join("set.json").exists() {
            dir.remove()?;
        }
    }
    Ok(())
}

/// Clears dead sets of a store, as something else is about to take their place.
pub fn clear_dead(base: &Path, store: &Path) -> Result<(), Failure> {
    let sets = set::all(base)?.into_iter();
    for set in sets.filter(|set| set.file.store == store && set.life() == Life::Dead) {
        hearth_client::say!("note: clearing what job {} left when it died", set.file.job);
        takedown::clear(&set)?;
    }
    Ok(())
}
