//! Writers over tiers, simulated: what was measured with a few nodes goes on to thousands.
//!
//! Bytes are a fluid. A node writes as fast as its tier takes bytes. From half a tier on it also brings
//! bytes to the store, and once the tier is full it writes as fast as that goes. The store's bandwidth
//! is shared equally by those who bring something, and nobody has more than a link carries.

use super::{REQUEST_BYTES, Slices};
use hearth_sim::rng::Rng;

const PURPOSE: u64 = 310;

/// Nodes differ in speed by so much at most, in hundredths.
const SPREAD_PERCENT: u64 = 10;

/// A simulated set; rates are bytes per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) nodes: usize,
    /// Rate of a tier.
    pub(super) local: f64,
    /// Rate of a node's link.
    pub(super) link: f64,
    /// Rate of the store for all nodes together.
    pub(super) store: f64,
    /// Bytes that a tier holds.
    pub(super) tier: u64,
    /// Bytes that each node writes.
    pub(super) bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Less than half of the tier waits for the store.
    Filling,
    /// It goes to the store meanwhile.
    Spilling,
    Full,
    Done,
}

struct Node {
    phase: Phase,
    local: f64,
    /// Bytes in the tier that the store lacks.
    held: f64,
    written: f64,
    times: Vec<f64>,
}

/// When each MiB of each writer is done.
pub(super) fn simulate(shape: &Shape, seed: u64) -> Slices {
    let mut rng = Rng::new(seed, PURPOSE);
    let mut nodes: Vec<Node> = (0..shape.nodes)
        .map(|_| {
            let percent = rng.within(100 - SPREAD_PERCENT, 100 + SPREAD_PERCENT);
            Node::new(shape.local * percent as f64 / 100.0)
        })
        .collect();
    let mut now = 0.0;
    while nodes.iter().any(|node| node.phase != Phase::Done) {
        let spilling = nodes.iter().filter(|node| node.spills(shape)).count();
        let share = shape.link.min(shape.store / spilling.max(1) as f64);
        let next = nodes.iter().map(|node| node.next(shape, share));
        let span = next.fold(f64::INFINITY, f64::min);
        for node in &mut nodes {
            node.go_on(shape, share, (now, span));
        }
        now += span;
    }
    nodes.into_iter().map(|node| node.times).collect()
}

impl Node {
    fn new(local: f64) -> Node {
        Node {
            phase: Phase::Filling,
            local,
            held: 0.0,
            written: 0.0,
            times: Vec::new(),
        }
    }

    fn spills(&self, shape: &Shape) -> bool {
        match self.phase {
            Phase::Filling => false,
            Phase::Spilling | Phase::Full => true,
            Phase::Done => self.held > half(shape),
        }
    }

    /// Bytes per second that come in, and that go to the store.
    fn rates(&self, shape: &Shape, share: f64) -> (f64, f64) {
        match self.phase {
            Phase::Filling => (self.local, 0.0),
            Phase::Spilling => (self.local, share.min(self.local)),
            Phase::Full => (share.min(self.local), share.min(self.local)),
            Phase::Done if self.spills(shape) => (0.0, share),
            Phase::Done => (0.0, 0.0),
        }
    }

    /// Seconds until its phase changes.
    fn next(&self, shape: &Shape, share: f64) -> f64 {
        let (comes, goes) = self.rates(shape, share);
        let over = |bytes: f64, rate: f64| {
            if rate > 0.0 {
                bytes / rate
            } else {
                f64::INFINITY
            }
        };
        let done = over(shape.bytes as f64 - self.written, comes);
        match self.phase {
            Phase::Filling => over(half(shape) - self.held, comes).min(done),
            Phase::Spilling => over(shape.tier as f64 - self.held, comes - goes).min(done),
            Phase::Full => done,
            Phase::Done => over(self.held - half(shape), goes),
        }
    }

    fn go_on(&mut self, shape: &Shape, share: f64, (now, span): (f64, f64)) {
        // A bound is reached if all but a rounding error of it is.
        const NEAR: f64 = 1e-3;
        let (comes, goes) = self.rates(shape, share);
        let before = self.written;
        self.written += comes * span;
        self.held += (comes - goes) * span;
        let request = REQUEST_BYTES as f64;
        let reached = ((self.written + NEAR) / request) as usize;
        for count in self.times.len() + 1..=reached {
            self.times
                .push(now + (count as f64 * request - before) / comes);
        }
        self.phase = match self.phase {
            Phase::Done => Phase::Done,
            _ if self.written + NEAR >= shape.bytes as f64 => Phase::Done,
            _ if self.held + NEAR >= shape.tier as f64 => Phase::Full,
            Phase::Filling if self.held + NEAR >= half(shape) => Phase::Spilling,
            phase => phase,
        };
        if self.phase == Phase::Done && self.held <= half(shape) + NEAR {
            self.held = self.held.min(half(shape));
        }
    }
}

fn half(shape: &Shape) -> f64 {
    shape.tier as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::super::rate;
    use super::*;

    const SHAPE: Shape = Shape {
        nodes: 1,
        local: 400e6,
        link: 100e6,
        store: 200e6,
        tier: 64 << 20,
        bytes: 128 << 20,
    };

    #[test]
    fn bandwidth_grows_with_nodes_until_tiers_are_full_and_is_the_stores_then() {
        for nodes in [1, 4, 256] {
            let slices = simulate(&Shape { nodes, ..SHAPE }, 1);
            let first = rate(&slices, 0, 32 << 20) / (400e6 * nodes as f64);
            assert!((0.9..=1.1).contains(&first), "{nodes}: {first}");
            let last = rate(&slices, 112 << 20, 128 << 20);
            let most = 200e6f64.min(100e6 * nodes as f64);
            // A node that is done first leaves its share to the others.
            assert!((0.9..=1.35).contains(&(last / most)), "{nodes}: {last}");
            assert!(slices.iter().all(|slices| slices.len() == 128));
        }
    }
}
