//! The words of the voters: entries of their log, and requests between agents.

use crate::lease::LeaseTerms;
use crate::log::{LogError, Renewed};
use crate::membership::{
    Founding, MemberKey, Membership, MembershipChange, ViewNumber, ViewRefusal,
};
use openraft::raft::{AppendEntriesRequest, VoteRequest};
use openraft::{EmptyNode, SnapshotMeta, Vote};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

openraft::declare_raft_types!(
    /// The types of the voters' log. A snapshot is a view.
    pub(super) RaftTypes:
        D = Proposal,
        R = Outcome,
        NodeId = MemberKey,
        Node = EmptyNode,
        SnapshotData = Membership,
);

pub(super) type Raft = openraft::Raft<RaftTypes>;
pub(super) type Entry = openraft::Entry<RaftTypes>;
pub(super) type LogId = openraft::LogId<MemberKey>;
pub(super) type StorageError = openraft::StorageError<MemberKey>;

/// A number of elections. Each has one coordinator at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Term(pub(super) u64);

/// An entry of the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Proposal {
    pub(super) change: MembershipChange,
    pub(super) at: ViewNumber,
    /// The term in which the coordinator looked at its leases. In another they were not its own.
    pub(super) term: Term,
}

/// An entry's effect.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Outcome {
    /// It was no change.
    Nothing,
    Decided(Box<Membership>),
    Refused(ViewRefusal),
    /// The coordinator was replaced, and came back, before the entry was written.
    OtherTerm,
}

/// A voter of one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seat {
    pub(super) voter: MemberKey,
    pub(super) log: Founding,
}

/// A request between agents. Those of the voters' log name the voter's life, and the log.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    Append(Seat, AppendEntriesRequest<RaftTypes>),
    Vote(Seat, VoteRequest<MemberKey>),
    Snapshot(
        Seat,
        Vote<MemberKey>,
        SnapshotMeta<MemberKey, EmptyNode>,
        Box<Membership>,
    ),
    Propose(MembershipChange, ViewNumber),
    Renew(MemberKey),
    Views(ViewNumber),
    Vouch(MemberKey, ViewNumber),
    /// Whether this agent would have its log end in this view, and then that it does.
    Stop(ViewNumber, Stop),
    /// The first view of another log.
    Founded(Box<Membership>),
}

/// How much is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Stop {
    /// A word.
    Asked,
    /// The deed.
    Done,
}

/// The answer of an agent that may coordinate.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Decided(Result<Box<Membership>, LogError>),
    Granted(Result<Renewed, LogError>),
    /// Another coordinates, as far as it knows.
    Elsewhere(Option<MemberKey>),
}

/// The settings of an agent's log.
#[derive(Clone, Debug)]
pub struct EmbeddedConfig {
    /// This agent.
    pub me: MemberKey,
    /// The first voters, the same at all of them; they need not be known to others.
    pub voters: Vec<MemberKey>,
    /// How many vote, as long as there are members: at most [`super::VOTERS_MAX`], an odd number.
    pub seats: usize,
    /// The terms of leases.
    pub terms: LeaseTerms,
    /// How often a coordinator is heard of. After 10 to 20 times this without, another is elected.
    pub heartbeat: std::time::Duration,
    /// Whether this agent holds its lease.
    pub holds: LeaseProbe,
}

/// Tells whether a lease holds.
#[derive(Clone)]
pub struct LeaseProbe(pub Arc<dyn Fn() -> bool + Send + Sync>);

impl std::fmt::Debug for LeaseProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LeaseProbe")
    }
}
