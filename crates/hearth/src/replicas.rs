//! Who else has what a home has and the store lacks.

use std::fmt;
use std::str::FromStr;

use hearth_agent::Replicas as Kernel;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::options::Policy;

/// What people say: `none`, `async[:K]` or `sync[:K]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Replicas(Kernel);

impl Default for Replicas {
    fn default() -> Replicas {
        Replicas(Kernel::Marked)
    }
}

impl Replicas {
    /// What agents are told. Where files are at their writers, a writer that dies takes along those who could say what is
    /// lost: another agent knows of it, replicas or not.
    pub(crate) fn of_policy(self, policy: Policy) -> Kernel {
        match (policy, self.0) {
            (Policy::Local, kernel) => kernel,
            (_, Kernel::Marked) => Kernel::Unmarked,
            (_, kernel) => kernel,
        }
    }

    /// Refuses what cannot be.
    pub(crate) fn check(self, policy: Policy) -> Result<(), Failure> {
        if self.0.copies() > 0 && !matches!(policy, Policy::Local | Policy::Home) {
            let what = format!("policy {policy} has no replicas");
            return Err(Failure::new(what).hint("--policy local"));
        }
        Ok(())
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
                "none, async[:K] or sync[:K], with K from 1 to {}",
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
