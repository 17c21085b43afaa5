//! How many descriptors a mount may have open, and who has them: nodes, handles, and the rest of the agent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors of nodes that are open at most: each holds an inode in the operating system's memory.
const NODES_MAX: u64 = 1 << 16;
/// Descriptors of nodes for which there always is room: of directories above those in use, and files that are looked at.
pub(crate) const NODES_LEAST: usize = 16;
/// Share of the limit that is left to the agent, as a divisor: homes keep descriptors of files that programs have closed.
const OTHERS_SHARE: usize = 8;
/// Share of the limit that handles may take which nobody uses, as a divisor.
const IDLE_SHARE: usize = 16;
/// Descriptors assumed when the process has no limit.
const UNLIMITED: u64 = 1 << 20;

/// The descriptors that a mount may open, out of the process's limit.
pub(crate) struct Budget {
    /// Descriptors of nodes, at most.
    pub(crate) nodes: usize,
    /// Descriptors of nodes and handles together.
    pub(crate) all: usize,
    /// Those of handles that nobody uses, at most.
    pub(crate) idle: usize,
    /// Handles that are open.
    seats: Arc<AtomicUsize>,
}

impl Budget {
    /// Raises the limit of open files as far as allowed, and shares it out.
    pub(crate) fn raised() -> Budget {
        let limit = raise_limit();
        let all = usize::try_from(limit).unwrap_or(usize::MAX);
        Budget {
            nodes: (limit / 2).min(NODES_MAX) as usize,
            all: all - all / OTHERS_SHARE,
            idle: all / IDLE_SHARE,
            seats: Arc::default(),
        }
    }

    /// Counts the descriptor of one more handle.
    pub(crate) fn seat(&self) -> Seat {
        // A count only: nothing else is published through it.
        self.seats.fetch_add(1, Ordering::Relaxed);
        Seat(Arc::clone(&self.seats))
    }

    /// So many descriptors of nodes may be open beside those of handles.
    pub(crate) fn left(&self) -> usize {
        let left = self.all.saturating_sub(self.seats.load(Ordering::Relaxed));
        self.nodes.min(left.max(NODES_LEAST))
    }
}

/// A handle's descriptor counts as long as this lives.
pub(crate) struct Seat(Arc<AtomicUsize>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum.unwrap_or(UNLIMITED),
        Err(_) => limit.current.unwrap_or(UNLIMITED),
    }
}
