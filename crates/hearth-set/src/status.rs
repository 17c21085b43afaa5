//! The parts of an agent's status that commands read.

use serde::Deserialize;

/// The parts of an agent's status that commands read. A value that the status lacks is empty or 0.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// Size of the pool.
    pub pool_bytes: u64,
    /// Of it, in use.
    pub pool_used_bytes: u64,
    /// Bytes that the store does not have yet.
    pub dirty_bytes: u64,
    /// The store in one line.
    pub store: String,
    /// Counts since the start.
    pub counters: Counters,
    /// The calls that programs served in the pool by themselves.
    pub programs: Programs,
    /// The other members.
    pub peers: Vec<PeerStatus>,
    /// The daemons of its bank.
    pub bank: Vec<DaemonStatus>,
    /// Its tier.
    pub tier: Option<TierStatus>,
    /// The replicas of its bytes that the store lacks, and how much of others it keeps.
    pub replicas: String,
    /// Bytes of others that it keeps.
    pub kept_bytes: u64,
    /// Files with fewer copies than asked for.
    pub at_risk: Vec<String>,
    /// Open files of which something else is promised than `posix`.
    pub promises: Vec<FilePromise>,
    /// States that need a person's care.
    pub alarms: Vec<String>,
}

/// The parts of a tier's status that commands read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TierStatus {
    /// Its directory.
    pub dir: String,
    /// Bytes that it may hold.
    pub limit_bytes: u64,
    /// Bytes that it holds.
    pub used_bytes: u64,
    /// Bytes of it that the store does not have yet.
    pub dirty_bytes: u64,
    /// All that was lost or put aside, by name.
    pub lost: Vec<String>,
}

/// Counts since the start.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Bytes that programs read.
    pub read_bytes: u64,
    /// Bytes that programs wrote.
    pub written_bytes: u64,
    /// Of the bytes read, those that were here.
    pub own_bytes: u64,
    /// Of the bytes read, those that came from other agents.
    pub peer_bytes: u64,
    /// Requests to the store.
    pub store_read_requests: u64,
    /// Bytes that they brought.
    pub store_read_bytes: u64,
    /// Requests to the store.
    pub store_write_requests: u64,
    /// Bytes that they took.
    pub store_write_bytes: u64,
}

/// The calls that programs served in the pool by themselves, and those that passed it by, and why.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Programs {
    /// Programs.
    pub programs: u64,
    /// Reads that were served.
    pub reads: u64,
    /// Bytes that they copied.
    pub bytes: u64,
    /// Calls of `stat` and its kin that were served.
    pub stats: u64,
    /// Passed by: not in memory, or past the end.
    pub not_here: u64,
    /// Passed by: written meanwhile.
    pub called_back: u64,
    /// Passed by: over too many pages.
    pub too_long: u64,
    /// Passed by: the agent was gone.
    pub no_agent: u64,
    /// Descriptors passed by: opened for direct I/O.
    pub flags: u64,
    /// Writes that were left for the agent.
    pub writes: u64,
    /// Bytes of them.
    pub written: u64,
    /// Writes passed by: their page was not offered.
    pub not_offered: u64,
    /// Writes passed by: the agent was at something else, or had not come to those before.
    pub crowded: u64,
}

/// The promise for an open file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct FilePromise {
    /// Its path.
    pub file: String,
    /// The level.
    pub semantics: String,
}

/// One other member.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PeerStatus {
    /// Its number.
    pub node: u32,
    /// Whether it is connected.
    pub up: bool,
    /// Why not.
    pub why: Option<String>,
}

/// One daemon of the bank.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DaemonStatus {
    /// The address at which it listens.
    pub at: String,
    /// Whether this agent reaches it.
    pub up: bool,
    /// Blocks that it had for this agent.
    pub hits: u64,
    /// Blocks that it had not.
    pub misses: u64,
    /// Orders that it did not answer.
    pub lost: u64,
    /// The number under which this agent's own blocks are in it; 0: they are not.
    pub epoch: u64,
    /// Bytes of its entries.
    pub bytes: u64,
    /// Bytes that it may have.
    pub bytes_max: u64,
    /// Entries that it forgot.
    pub evictions: u64,
}
