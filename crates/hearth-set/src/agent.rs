//! The messages between an agent and the command that starts it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hearth_agent::AgentStatus;
use hearth_agent::store::StoreSpec;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::{Failure, OrFail};
use crate::job::{JobDir, SetOwner};
use crate::options::SetSpec;
use crate::process::Process;

/// The configuration of one agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeConfig {
    /// Its number in the job.
    pub node: u32,
    /// Larger than that of any agent that was in its place before, of another set.
    pub incarnation: u64,
    /// The run of this agent that this one takes the place of, if nothing of that is left on this machine.
    #[serde(default)]
    pub succeeds: Option<u64>,
    /// The addresses at which the members listen.
    pub members: Vec<SocketAddr>,
    /// Name of the job.
    pub job: String,
    /// The store's true path.
    pub store: PathBuf,
    /// How the set is.
    pub spec: SetSpec,
    /// The job's directory.
    pub job_dir: PathBuf,
    /// The addresses of the daemons of its bank.
    #[serde(default)]
    pub bank: Vec<String>,
    /// The file that the secret is from, if a person named one.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// How long the others may take to come.
    pub join_span: Duration,
}

/// The configuration that an agent reads when it starts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgentConfig {
    /// The configuration of the library.
    pub node: NodeConfig,
    /// Its owner.
    pub owner: SetOwner,
    /// The address at which it tells metrics, if it is to.
    #[serde(default)]
    pub metrics: Option<SocketAddr>,
}

impl AgentConfig {
    /// Reads it.
    pub fn read(path: &Path) -> Result<AgentConfig, Failure> {
        let what = || format!("cannot read `{}`", path.display());
        let text = std::fs::read(path).or_fail(what)?;
        serde_json::from_slice(&text).or_fail(what)
    }

    /// The directory of its job.
    pub fn job_dir(&self) -> Result<JobDir, Failure> {
        JobDir::open(&self.node.job_dir)
    }
}

/// A line of an agent that starts, for the command that waits for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartWord {
    /// It waits for other agents: which, and why they are not there.
    Waits(String),
    /// The start is over.
    Over(Started),
}

/// How a start went, as one line for who waits.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Started {
    /// It serves.
    Ready {
        /// The process that starts another one when it dies.
        #[serde(default)]
        warden: Option<Process>,
    },
    /// It does not, and why.
    Failed(Failure),
}

/// An agent's answer to [`ControlRequest::Status`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Health {
    /// The path of its mount, if it is in the common tree.
    pub mount: Option<PathBuf>,
    /// Commands that use it in namespaces of their own.
    pub users: Vec<u32>,
    /// Calls on the store that it has made for agents whose hosts do not have it, if it makes any.
    #[serde(default)]
    pub calls_for_others: Option<u64>,
    /// The address of its metrics, if it tells any.
    #[serde(default)]
    pub metrics: Option<SocketAddr>,
    /// The status of the library.
    pub node: Value,
}

impl Health {
    /// The status of the library; an empty one if it cannot be read, as of an agent of another version.
    pub fn status(&self) -> AgentStatus {
        status_of(self.node.clone())
    }
}

/// A status from its text's parts.
pub fn status_of(node: Value) -> AgentStatus {
    serde_json::from_value(node).unwrap_or_default()
}

/// Refuses a store that nobody knows.
pub fn check_backing(text: &str) -> Result<(), Failure> {
    backing(text).map(drop)
}

/// Understands the name of a kind of store.
pub fn backing(text: &str) -> Result<StoreSpec, Failure> {
    text.parse()
        .or_fail(|| format!("cannot use `{text}` as a kind of store"))
}
