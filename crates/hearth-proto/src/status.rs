//! The account that a node gives people of itself.

/// Counts since the start. Bytes of origins are bytes that local sessions asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KernelCounters {
    /// Reads of local sessions.
    pub reads: u64,
    /// Writes of local sessions.
    pub writes: u64,
    /// Bytes that local sessions read.
    pub read_bytes: u64,
    /// Bytes that local sessions wrote.
    pub written_bytes: u64,
    /// Read bytes that were in this node's memory.
    pub own_bytes: u64,
    /// Read bytes that were in a peer's memory.
    pub peer_bytes: u64,
    /// Read bytes that had to come from the store.
    pub store_bytes: u64,
    /// Read bytes that were in a daemon of the bank.
    pub bank_bytes: u64,
    /// Blocks that daemons were asked for and had.
    pub bank_hits: u64,
    /// Blocks that daemons were asked for and had not.
    pub bank_misses: u64,
    /// Entries that this node gave to daemons as a gateway.
    pub bank_sets: u64,
    /// Entries that it had daemons delete.
    pub bank_deletes: u64,
    /// Writes that ended on this node, because it writes their pages by itself.
    pub own_writes: u64,
    /// Messages sent to other nodes.
    pub messages_sent: u64,
    /// Revocations of what ways in keep.
    pub revocations: u64,
    /// Store writes that this node ordered as a home.
    pub flush_writes: u64,
    /// Store reads that this node ordered as a home.
    pub fill_reads: u64,
    /// Pages that this node handed over to the next home of their file.
    pub handed_pages: u64,
    /// Pages that it was handed as the next home.
    pub inherited_pages: u64,
}

/// A plain value for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Counts since the start.
    pub counters: KernelCounters,
    /// Frames of the pool.
    pub frames: u32,
    /// Frames in use.
    pub frames_used: u32,
    /// Pages evicted so far.
    pub evictions: u64,
    /// Bytes that the store does not have yet.
    pub dirty_bytes: u64,
    /// Bytes of other homes that are kept here until the store has them.
    pub kept_bytes: u64,
    /// Files of which fewer nodes have what the store lacks than the job wants, or whose home is gone.
    pub at_risk: usize,
    /// Files with state here.
    pub files: usize,
    /// Local requests without an answer yet.
    pub requests_open: usize,
}
