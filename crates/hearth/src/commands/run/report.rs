//! Where the bytes of a command came from.

use std::fmt;

use crate::control::Request;
use crate::node::{Counters, NodeStatus};
use crate::set::{Set, ask_all};
use crate::size::Size;
use crate::takedown;

/// Counts of all agents of a set together.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(Counters);

impl Counts {
    /// As they are now; an agent that does not answer adds nothing.
    pub(super) fn ask(set: &Set) -> Counts {
        let answers = ask_all(&set.peers(), &Request::Status);
        let all = answers.into_iter().flatten().map(takedown::health);
        let all = all.filter_map(|health| serde_json::from_value(health.node).ok());
        let all = all.map(|status: NodeStatus| status.counters);
        Counts(all.fold(Counters::default(), |sum, one| {
            join(&sum, &one, u64::wrapping_add)
        }))
    }

    /// What was added since.
    pub(super) fn since(&self, before: &Counts) -> Counts {
        Counts(join(&self.0, &before.0, u64::saturating_sub))
    }
}

fn join(a: &Counters, b: &Counters, with: fn(u64, u64) -> u64) -> Counters {
    Counters {
        read_bytes: with(a.read_bytes, b.read_bytes),
        written_bytes: with(a.written_bytes, b.written_bytes),
        own_bytes: with(a.own_bytes, b.own_bytes),
        peer_bytes: with(a.peer_bytes, b.peer_bytes),
        store_read_requests: with(a.store_read_requests, b.store_read_requests),
        store_read_bytes: with(a.store_read_bytes, b.store_read_bytes),
        store_write_requests: with(a.store_write_requests, b.store_write_requests),
        store_write_bytes: with(a.store_write_bytes, b.store_write_bytes),
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.0;
        writeln!(
            f,
            "hearth: programs read {} and wrote {} beyond what the kernel kept",
            Size(counts.read_bytes),
            Size(counts.written_bytes)
        )?;
        writeln!(
            f,
            "hearth: {} were here, {} came from other agents",
            Size(counts.own_bytes),
            Size(counts.peer_bytes)
        )?;
        writeln!(
            f,
            "hearth: the store gave {} in {} requests and took {} in {}",
            Size(counts.store_read_bytes),
            counts.store_read_requests,
            Size(counts.store_write_bytes),
            counts.store_write_requests
        )
    }
}
