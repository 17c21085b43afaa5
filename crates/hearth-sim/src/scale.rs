//! Thousands of kernels under millions of operations, without faults: do they say what they must, and
//! no more?
//!
//! Groups of nodes share a file each; a node does one whole-page read or write after another, at random pages
//! of its group's file. Bytes are not kept: a frame holds the version of its page. So each check costs the
//! same however large the world is. A read returns no version below one that was complete when it began (I3),
//! and a write gets one above (I4). At the end the store has the last of all (I17).
//!
//! Delays are of two kinds, one hop and one store access, so that two queues in order of arrival stand
//! for all that is to happen.

mod cluster;
mod forms;
mod host;
mod traffic;

pub use forms::Forecast;
pub use traffic::{MessageCounts, MessageKind};

use cluster::Cluster;
use hearth_proto::{Policy, Semantics, Span};

/// Pages of a chunk. Small, so that homes spread over many nodes.
const CHUNK_PAGES: u32 = 8;

/// The world that is simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Which policy.
    pub policy: Policy,
    /// The semantics that are promised of each file.
    pub semantics: Semantics,
    /// Operations between an open and the next of a node; `None`: one open serves all.
    pub reopens: Option<u32>,
    /// Nodes.
    pub nodes: u32,
    /// Reads and writes of all nodes together.
    pub ops: u64,
    /// Chance.
    pub seed: u64,
    /// Nodes that share a file.
    pub group: u32,
    /// Pages of a file.
    pub file_pages: u32,
    /// Writes in a hundred operations.
    pub write_percent: u32,
    /// One way from node to node.
    pub hop: Span,
    /// One store access.
    pub store: Span,
    /// Pages that a node's pool holds.
    pub frames: u32,
}

/// A whole page that a node reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageAccess {
    /// Page of the file.
    pub page: u32,
    /// It is written.
    pub write: bool,
}

impl Shape {
    /// The usual mixture.
    pub fn new(policy: Policy, nodes: u32, ops: u64, seed: u64) -> Shape {
        Shape {
            policy,
            semantics: Semantics::Posix,
            reopens: None,
            nodes,
            ops,
            seed,
            group: 8.min(nodes),
            file_pages: 128,
            write_percent: 10,
            hop: Span(20_000),
            store: Span(580_000),
            frames: 256,
        }
    }

    pub(crate) fn files(&self) -> u32 {
        self.nodes.div_ceil(self.group)
    }
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleOutcome {
    /// The same for the same shape.
    pub digest: u64,
    /// Messages of operations, by kind.
    pub messages: traffic::MessageCounts,
    /// Messages while files were opened.
    pub opening: u64,
    /// Bytes of payload that messages carried, for pages of 256 KiB.
    pub payload_bytes: u64,
    /// Inputs that kernels took.
    pub events: u64,
    /// Reads that the node's own memory served.
    pub own_reads: u64,
    /// Reads.
    pub reads: u64,
    /// Store reads and writes.
    pub store_reads: u64,
    /// Store writes.
    pub store_writes: u64,
    /// Orders to daemons of the bank.
    pub bank_orders: u64,
    /// Simulated time of the operations.
    pub took: Span,
    /// Promises that did not hold.
    pub violations: Vec<String>,
}

/// Runs a shape; `watch` is told now and then how many operations have ended.
pub fn run(shape: &Shape, mut watch: impl FnMut(u64)) -> ScaleOutcome {
    let mut cluster = Cluster::new(*shape);
    cluster.draw();
    cluster.open_all();
    cluster.work(&mut watch);
    cluster.finish()
}

/// Runs what somebody has seen nodes do, each its own list in its order: one file that all share, as
/// long as its highest page says. Of the shape the policy, the times and the pool count.
pub fn replay(
    shape: &Shape,
    lists: Vec<Vec<PageAccess>>,
    mut watch: impl FnMut(u64),
) -> ScaleOutcome {
    let highest = lists.iter().flatten().map(|access| access.page).max();
    let nodes = lists.len().max(1) as u32;
    let mut cluster = Cluster::new(Shape {
        nodes,
        group: nodes,
        ops: lists.iter().map(|list| list.len() as u64).sum(),
        // Whole chunks: a home may fill more of one than was asked for.
        file_pages: highest
            .map_or(1, |page| page + 1)
            .next_multiple_of(CHUNK_PAGES),
        ..*shape
    });
    cluster.follow(lists);
    cluster.open_all();
    cluster.work(&mut watch);
    cluster.finish()
}
