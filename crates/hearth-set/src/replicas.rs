//! The replicas of bytes that a home has and the store lacks, as people type them: `none`, `async[:K]`, `sync[:K]` or
//! `erasure[:K,M]`. A description keeps them so with `#[serde(with = "crate::replicas")]`.

use hearth_agent::{Policy, Replicas};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

use crate::failure::Failure;

/// Reads what is typed.
pub fn parse(text: &str) -> Result<Replicas, String> {
    Replicas::by_name(text).ok_or_else(|| {
        format!(
            "none, async[:K], sync[:K] or erasure[:K,M], with K and M from 1 to {}",
            Replicas::MOST
        )
    })
}

/// Refuses what cannot be.
pub fn check(replicas: Replicas, policy: Policy, has_tier: bool) -> Result<(), Failure> {
    if replicas != Replicas::None && policy != Policy::Local {
        let what = format!("policy {policy} has no replicas");
        return Err(Failure::new(what).hint("--policy local, or --replicas none"));
    }
    if replicas.shards().is_some() && has_tier {
        let what = "there are no shards of what is in a tier";
        return Err(Failure::new(what).hint("--replicas sync, or no --tier"));
    }
    Ok(())
}

/// The warning for a set that never has enough agents.
pub fn shortage(replicas: Replicas, agents: usize) -> Option<String> {
    let wanted = replicas.copies() + 1;
    let what = match replicas {
        Replicas::None | Replicas::Async(_) => return None,
        Replicas::Sync(_) => "write",
        Replicas::Erasure(..) => "close",
    };
    (agents < wanted).then(|| {
        format!("--replicas {replicas} needs {wanted} agents, and there are {agents}: each {what} waits for the store")
    })
}

/// Writes them as they are typed.
pub fn serialize<S: Serializer>(replicas: &Replicas, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(replicas)
}

/// Reads them from what was written.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Replicas, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).map_err(D::Error::custom)
}
