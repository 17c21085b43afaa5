//! What a run is: its shape is drawn from the seed, and every field can be set by hand.

use crate::rng::Rng;
use crate::tamper::Tamper;
use hearth_proto::{Allocation, CloseRule, Config, NodeId, Policy, Span};

/// Everything that decides a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Chance.
    pub seed: u64,
    /// Operations that sessions begin, closes at the end not counted.
    pub steps: u32,
    /// Nodes of the job.
    pub nodes: u32,
    /// Sessions; each does one operation after another.
    pub sessions: u32,
    /// Files.
    pub files: u32,
    /// Pages of a file that the workload touches.
    pub file_pages: u64,
    /// Which policy.
    pub policy: Policy,
    /// Who becomes a home.
    pub allocation: Allocation,
    /// What close waits for.
    pub close: CloseRule,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages of a chunk.
    pub chunk_pages: u32,
    /// Frames of each node.
    pub frames: u32,
    /// Largest store write in bytes.
    pub store_io_bytes: u32,
    /// Write bytes in flight from one node to one home.
    pub window_bytes: u64,
    /// Longest usual delay of a message.
    pub net_delay: Span,
    /// Longest usual delay of a store operation.
    pub store_delay: Span,
    /// Longest usual delay between a session and its agent, and of a revocation.
    pub local_delay: Span,
    /// The store fails now and then.
    pub store_faults: bool,
    /// Connections break and stall now and then.
    pub link_faults: bool,
    /// Somebody writes to the store behind the cache.
    pub outside: bool,
    /// A guard that is broken on purpose.
    pub tamper: Tamper,
}

impl Plan {
    /// The plan of a seed.
    pub fn from_seed(seed: u64) -> Plan {
        let mut rng = Rng::new(seed, 1);
        let rng = &mut rng;
        let nodes = rng.within(1, 5) as u32;
        Plan {
            seed,
            steps: rng.within(20, 120) as u32,
            nodes,
            sessions: nodes + rng.below(5) as u32,
            files: rng.within(1, 3) as u32,
            file_pages: *rng.pick(&[2, 5, 12, 20]),
            policy: if rng.chance(6) {
                Policy::None
            } else {
                Policy::Home
            },
            allocation: *rng.pick(&[
                Allocation::Slot,
                Allocation::FirstTouch,
                Allocation::RoundRobin,
            ]),
            close: *rng.pick(&[CloseRule::Flushed, CloseRule::Buffered]),
            page_bytes: 16,
            chunk_pages: *rng.pick(&[1, 4]),
            frames: *rng.pick(&[8, 12, 24, 64]),
            store_io_bytes: *rng.pick(&[16, 32, 1024]),
            window_bytes: *rng.pick(&[24, 64, 4096]),
            net_delay: *rng.pick(&[Span(10_000), Span::millis(1), Span::millis(40)]),
            store_delay: *rng.pick(&[Span(20_000), Span::millis(2), Span::millis(60)]),
            local_delay: *rng.pick(&[Span(0), Span(5_000), Span::millis(5)]),
            store_faults: rng.chance(25),
            link_faults: rng.chance(25),
            outside: rng.chance(30),
            tamper: Tamper::Nothing,
        }
    }

    /// Configuration of one node.
    pub fn config(&self, me: NodeId) -> Config {
        Config {
            policy: self.policy,
            allocation: self.allocation,
            close: self.close,
            page_bytes: self.page_bytes,
            chunk_pages: self.chunk_pages,
            frames: self.frames,
            store_io_bytes: self.store_io_bytes,
            write_window_bytes: self.window_bytes,
            ..Config::new(me, self.nodes)
        }
    }

    /// The line that repeats the run.
    pub fn replay(&self) -> String {
        format!("replay: hearth-sim seed={} steps={}", self.seed, self.steps)
    }
}

/// A delay: short as a rule, sometimes none, seldom very long.
pub(crate) fn delay(rng: &mut Rng, usual: Span) -> Span {
    match rng.below(100) {
        0..10 => Span(0),
        97..100 => Span(usual.0 * 8),
        _ => Span(rng.below(usual.0 + 1)),
    }
}
