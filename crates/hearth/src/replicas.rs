//! Who else has what a home has and the store lacks.

use std::fmt;
use std::str::FromStr;

use hearth_agent::Replicas as Kernel;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::options::Policy;

/// What people say: `none`, `async[:K]` or `sync[:K]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Replicas(Kernel);

impl Replicas {
    /// What agents are told.
    pub(crate) fn kernel(self) -> Kernel {
        self.0
    }

    /// Refuses what cannot be.
    pub(crate) fn check(self, policy: Policy) -> Result<(), Failure> {
        if self.0 != Kernel::None && policy != Policy::Local {
            let what = format!("policy {policy} has no replicas");
            return Err(Failure::new(what).hint("--policy local, or --replicas none"));
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
