//! A herd of nodes asks for the attributes of every file of a directory, in one order and at one time. It is the
//! stat experiment of IMCa, on the shipped kernel, with thousands of nodes.
//!
//! Each node has a kernel and a front end, which asks as the FUSE one does ([`front_end`]). The network takes a hop's
//! time, and a node handles one message at a time. The store is one server that takes one request at a time.
//! Nothing fails and nobody writes, so attributes that a node is told must be those of the file.

mod forms;
mod front_end;
mod herd;
mod openers;
mod pace;

pub use forms::{bare_store, requests_due};
pub use openers::{Openers, run_openers};
pub use pace::{Pace, Times};

use hearth_proto::Span;

/// The herd that is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Nodes, each with one program.
    pub nodes: u32,
    /// Files of the directory.
    pub files: u32,
    /// One way from node to node, or to the store.
    pub hop: Span,
    /// Time of the store for one request.
    pub store: Span,
    /// Time of a node for one message.
    pub message: Span,
    /// And for each file or name in it.
    pub entry: Span,
    /// Time of a node for a file that it has in memory.
    pub hit: Span,
    /// Names that the store tells with one request.
    pub names: u32,
    /// Whether attributes come along with names: who has read them asks the store for no file.
    pub along: bool,
    /// Tells herds of one kind apart. Each has its own numbers of inodes, which decide which node manages which
    /// file, and times that vary by half. 0 is the plain one. All is as long there as it is said, and begins at
    /// once.
    pub seed: u64,
    /// Nodes manage the files by turns, as if each had made some. Else the first that asks manages them.
    pub spread: bool,
}

impl Shape {
    /// Times of a fast network and a busy store: 20 us a hop, and 580 us a request as the publication of
    /// home-based caching measured. A message takes 5 us and 0.1 us for what is in it, a hit 15 us. The store
    /// tells 128 names with one request, and nothing along with them.
    pub fn new(nodes: u32, files: u32) -> Shape {
        Shape {
            nodes,
            files,
            hop: Span(20_000),
            store: Span(580_000),
            message: Span(5_000),
            entry: Span(100),
            hit: Span(15_000),
            names: 128,
            along: false,
            seed: 0,
            spread: false,
        }
    }
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StormOutcome {
    /// Messages between nodes.
    pub messages: u64,
    /// Requests that the store took.
    pub store_requests: u64,
    /// Until the last program had asked for every file.
    pub took: Span,
    /// The same of a second pass.
    pub second_messages: u64,
    /// Requests of the second pass.
    pub second_store_requests: u64,
    /// Promises that did not hold.
    pub violations: Vec<String>,
}

/// Runs so many herds of one kind on a machine that was measured. The cost of a herd depends on which node
/// comes first. They are in the order of their messages, so that the one in the middle is a usual one.
pub fn run_several(shape: &Shape, pace: &Pace, herds: u64) -> Vec<StormOutcome> {
    let each = (1..=herds).map(|seed| run_at(&Shape { seed, ..*shape }, pace));
    let mut outcomes: Vec<StormOutcome> = each.collect();

    outcomes.sort_by_key(|outcome| outcome.messages);
    outcomes
}

/// Runs a shape.
pub fn run(shape: &Shape) -> StormOutcome {
    run_at(shape, &Pace::default())
}

fn run_at(shape: &Shape, pace: &Pace) -> StormOutcome {
    let mut herd = herd::Herd::new(*shape, pace);
    herd.make_files();
    herd.pass();
    let mut outcome = herd.outcome();
    herd.pass();
    let both = herd.outcome();

    outcome.second_messages = both.messages - outcome.messages;
    outcome.second_store_requests = both.store_requests - outcome.store_requests;
    outcome.violations = both.violations;
    outcome
}
