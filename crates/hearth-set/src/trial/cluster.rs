//! A set of agents with a mount each, as processes of their own, for the time of one measurement.

use crate::agent::Health;
use crate::control::{Busy, CallError, ControlRequest};
use crate::failure::{Failure, OrFail};
use crate::job::{self, SetOwner};
use crate::launch::{self, LaunchPlan, Launched, Members};
use crate::options::SetSpec;
use crate::process::Process;
use crate::set::{ask_all, mount};
use crate::signals::Signals;
use crate::takedown::{Dirty, How, detach_stale, take_down};
use rustix::process::Signal;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an agent that was killed may take until it is gone.
const GONE_SPAN: Duration = Duration::from_secs(10);

/// Counts of all agents together.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClusterCounts {
    /// Bytes that programs read.
    pub read_bytes: u64,
    /// Of them, those that came from other agents.
    pub peer_bytes: u64,
    /// Of them, those that came from the store.
    pub store_bytes: u64,
    /// Messages to other agents.
    pub messages_sent: u64,
    /// Requests to the store.
    pub store_read_requests: u64,
    /// Bytes that they brought.
    pub store_read_bytes: u64,
    /// Requests to the store.
    pub store_write_requests: u64,
    /// Bytes that they took.
    pub store_write_bytes: u64,
}

impl ClusterCounts {
    /// Adds those of another agent.
    pub fn add(&mut self, other: &ClusterCounts) {
        self.read_bytes += other.read_bytes;
        self.peer_bytes += other.peer_bytes;
        self.store_bytes += other.store_bytes;
        self.messages_sent += other.messages_sent;
        self.store_read_requests += other.store_read_requests;
        self.store_read_bytes += other.store_read_bytes;
        self.store_write_requests += other.store_write_requests;
        self.store_write_bytes += other.store_write_bytes;
    }
}

/// Agents that are up; dropping it ends them.
pub struct Cluster {
    launched: Option<Launched>,
    points: Vec<PathBuf>,
}

impl Cluster {
    /// Starts agents over `store`, each with a mount below `dir`; their processes are of the command `hearth`.
    pub fn start(
        hearth: &Path,
        store: &Path,
        dir: &Path,
        spec: SetSpec,
        signals: &Signals,
    ) -> Result<Cluster, Failure> {
        let agents = spec.agents;
        let plan = LaunchPlan {
            program: hearth.to_owned(),
            store: store.to_owned(),
            spec,
            owner: SetOwner::this_command()?,
            members: Members::Here,
            trace: None,
            metrics: None,
        };
        let launched = launch::start(&job::base()?, &plan, signals)?;
        let mut cluster = Cluster {
            launched: Some(launched),
            points: Vec::new(),
        };
        for node in 0..agents {
            let at = dir.join(format!("mount{node}"));
            std::fs::create_dir_all(&at).or_fail(|| "cannot make a mount point".to_owned())?;
            let set = &cluster.launched().set;
            mount(set, &set.peer_of_rank(node as usize), &at)?;
            cluster.points.push(at);
        }
        Ok(cluster)
    }

    /// The mounts, in the order of the agents.
    pub fn points(&self) -> &[PathBuf] {
        &self.points
    }

    /// The counts of all agents together, once they have brought their dirty bytes to the store. If close does not
    /// wait, these would be counted too late.
    pub fn counts(&self) -> Result<ClusterCounts, Failure> {
        for answer in ask_all(&self.launched().set.peers(), &ControlRequest::Flush) {
            answer.map_err(CallError::into_failure)?;
        }
        let mut sum = ClusterCounts::default();
        for answer in ask_all(&self.launched().set.peers(), &ControlRequest::Status) {
            let value = answer.map_err(CallError::into_failure)?;
            let what = || "cannot read an agent's status".to_owned();
            let health: Health = serde_json::from_value(value).or_fail(what)?;
            let counts = health.node["counters"].clone();
            sum.add(&serde_json::from_value(counts).or_fail(what)?);
        }
        Ok(sum)
    }

    /// Whether an agent has heard that another is gone.
    pub fn has_heard(&self, agent: usize, gone: usize) -> Result<bool, Failure> {
        let peer = &self.launched().set.peers()[agent..=agent];
        let what = || format!("cannot read the status of agent {agent}");
        let answers = ask_all(peer, &ControlRequest::Status).into_iter().next();
        let value = answers.ok_or_else(|| Failure::new(what()))?;
        let value = value.map_err(CallError::into_failure)?;
        let health: Health = serde_json::from_value(value).or_fail(what)?;
        let alarms = health.node["alarms"].as_array();
        let word = format!("agent {gone} is gone");
        let told = |alarm: &serde_json::Value| alarm.as_str().is_some_and(|it| it.contains(&word));
        Ok(alarms.is_some_and(|alarms| alarms.iter().any(told)))
    }

    /// The agents, in their order.
    pub fn processes(&self) -> Vec<Process> {
        let agents = self.launched().set.file.agents.iter();
        agents.map(|agent| agent.process).collect()
    }

    /// Has an agent stand still, or go on.
    pub fn signal(&self, agent: usize, signal: Signal) -> Result<(), Failure> {
        let process = self.processes()[agent];
        process
            .signal(signal)
            .or_fail(|| format!("cannot signal agent {agent}"))
    }

    /// Kills an agent and its warden, as the end of a host does, and waits until they are gone.
    pub fn kill(&self, agent: usize) -> Result<(), Failure> {
        let what = || format!("cannot kill agent {agent}");
        let entry = &self.launched().set.file.agents[agent];
        // The warden first: it would start the next agent.
        for process in entry.warden.into_iter().chain([entry.process]) {
            process.signal(Signal::KILL).or_fail(what)?;
            if !process.wait_gone(GONE_SPAN).or_fail(what)? {
                return Err(Failure::new(what()));
            }
        }
        Ok(())
    }

    /// Ends agents of which one was killed; what is dirty is lost.
    pub fn abandon(mut self) {
        if let Err(failure) = self.leave(How::AT_ONCE) {
            hearth_client::say!("note: {failure}");
        }
    }

    /// Flushes and ends the agents.
    pub fn end(mut self) -> Result<(), Failure> {
        self.leave(How {
            dirty: Dirty::Flush,
            busy: Busy::Detach,
            hurry: false,
        })
    }

    fn launched(&self) -> &Launched {
        self.launched
            .as_ref()
            .expect("a cluster has its set until it ends")
    }

    fn leave(&mut self, how: How) -> Result<(), Failure> {
        let Some(launched) = self.launched.take() else {
            return Ok(());
        };
        let taken = take_down(&launched.set, how);
        launched.reap();
        // Agents that are killed leave them behind, and the set was not told of them.
        let mut cleared = self.points.iter().map(|at| detach_stale(at));
        taken.map(drop).and(cleared.try_for_each(|done| done))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(failure) = self.leave(How::AT_ONCE) {
            hearth_client::say!("{failure}");
        }
    }
}
