//! The replicas of bytes that a home has and the store lacks.

use std::fmt;
use std::str::FromStr;

use hearth_agent::Replicas as Kernel;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::options::Policy;

/// The words of the command line: `none`, `async[:K]`, `sync[:K]` or `erasure[:K,M]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Replicas(Kernel);

impl Replicas {
    /// The same in the words of the agent.
    pub fn kernel(self) -> Kernel {
        self.0
    }

    /// Refuses what cannot be.
    pub fn check(self, policy: Policy, has_tier: bool) -> Result<(), Failure> {
        if self.0 != Kernel::None && policy != Policy::Local {
            let what = format!("policy {policy} has no replicas");
            return Err(Failure::new(what).hint("--policy local, or --replicas none"));
        }
        if self.0.shards().is_some() && has_tier {
            let what = "there are no shards of what is in a tier";
            return Err(Failure::new(what).hint("--replicas sync, or no --tier"));
        }
        Ok(())
    }
}

impl Replicas {
    /// The warning for a set that never has enough agents.
    pub fn shortage(self, agents: usize) -> Option<String> {
        let wanted = self.0.copies() + 1;
        let what = match self.0 {
            Kernel::None | Kernel::Async(_) => return None,
            Kernel::Sync(_) => "write",
            Kernel::Erasure(..) => "close",
        };
        (agents < wanted).then(|| {
            format!("--replicas {self} needs {wanted} agents, and there are {agents}: each {what} waits for the store")
        })
    }
}

impl fmt::Display for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Replicas {
    type Err = String;

    fn from_str(text: &str) -> Result<Replicas, String> {
        let kernel = Kernel::by_name(text).map(Replicas);
        kernel.ok_or_else(|| {
            format!(
                "none, async[:K], sync[:K] or erasure[:K,M], with K and M from 1 to {}",
                Kernel::MOST
            )
        })
    }
}

impl From<Replicas> for String {
    fn from(replicas: Replicas) -> String {
        replicas.to_string()
    }
}

impl TryFrom<String> for Replicas {
    type Error = String;

    fn try_from(text: String) -> Result<Replicas, String> {
        text.parse()
    }
}
