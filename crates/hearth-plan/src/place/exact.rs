//! The cheapest placement with seats: a flow of jobs to nodes.
//!
//! ```text
//!              bytes missing there
//!   source -> job ----------------> holder ----> sink
//!              \                      ^   seats   ^
//!               \ all its bytes       | 0         |
//!                `-----------> anywhere -----------'  dearer than any seat
//! ```
//!
//! A job has an arc to each node that holds bytes of it, and one to *anywhere*, so arcs are as many
//! as there are facts, not jobs times nodes.

use alloc::vec::Vec;

use super::{Placement, Situation};
use crate::flow::{ArcId, Network};
use crate::units::{Bytes, NodeIndex};

/// The placement that moves the fewest bytes if every job fetches for itself. As many jobs get a
/// seat as there are seats.
pub fn cheapest(situation: &Situation) -> Placement {
    let whole = |job: usize| situation.reads(job);
    solve(situation, &whole, &|job| situation.holders(job)).0
}

/// No placement moves fewer bytes, even if jobs on one node share what they fetch.
///
/// Each reader of a file pays its part of a transfer; a transfer that serves all of them is then paid
/// just once, and any other is paid at most.
pub fn bound_shared(situation: &Situation) -> Bytes {
    Bytes(solve_shared(situation).1)
}

/// A placement in which each job pays its part of a transfer: a start for jobs that share.
pub(super) fn by_parts(situation: &Situation) -> Placement {
    solve_shared(situation).0
}

fn solve_shared(situation: &Situation) -> (Placement, u64) {
    let readers = situation.readers();
    let part =
        |file: crate::FileIndex, bytes: Bytes| Bytes(bytes.0 / u64::from(readers[file.index()]));
    let whole = |job: usize| {
        let files = situation.jobs[job].iter();
        let parts = files.map(|file| part(*file, situation.sizes[file.index()]));
        parts.sum::<Bytes>()
    };
    let held = |job: usize| {
        let nodes = situation.holders(job).into_iter();
        let saved = nodes.map(|(node, _)| {
            let files = situation.jobs[job].iter();
            let missing: Bytes = files
                .map(|file| part(*file, situation.missing(*file, node)))
                .sum();
            (node, whole(job).saturating_sub(missing))
        });
        saved.collect()
    };
    solve(situation, &whole, &held)
}

struct Arcs {
    to_holders: Vec<Vec<(NodeIndex, ArcId)>>,
    from_anywhere: Vec<ArcId>,
}

/// The placement, and the bytes it moves as `whole` and `held` count them.
fn solve(
    situation: &Situation,
    whole: &dyn Fn(usize) -> Bytes,
    held: &dyn Fn(usize) -> Vec<(NodeIndex, Bytes)>,
) -> (Placement, u64) {
    let (jobs, nodes) = (situation.jobs.len(), situation.seats.len());
    let (source, anywhere, sink) = (0, 1 + jobs + nodes, 2 + jobs + nodes);
    let unseated: Bytes = (0..jobs).map(whole).sum::<Bytes>() + Bytes(1);
    let mut network = Network::new(sink + 1);
    let mut arcs = Arcs {
        to_holders: Vec::new(),
        from_anywhere: Vec::new(),
    };
    for job in 0..jobs {
        let all = whole(job);
        network.arc(source, 1 + job, 1, 0);
        network.arc(1 + job, anywhere, 1, all.0);
        let to_holders = held(job).into_iter().map(|(node, bytes)| {
            let missing = all.saturating_sub(bytes).0;
            (
                node,
                network.arc(1 + job, 1 + jobs + node.index(), 1, missing),
            )
        });
        arcs.to_holders.push(to_holders.collect());
    }
    for (node, seats) in situation.seats.iter().enumerate() {
        let seats = u64::from(*seats).min(jobs as u64);
        arcs.from_anywhere
            .push(network.arc(anywhere, 1 + jobs + node, seats, 0));
        network.arc(1 + jobs + node, sink, seats, 0);
    }
    let none = network.arc(anywhere, sink, jobs as u64, unseated.0);
    let carried = network.carry(source, sink, jobs as u64);
    let punished = u128::from(network.carried(none)) * u128::from(unseated.0);
    let moved = u64::try_from(carried.price - punished).unwrap_or(u64::MAX);
    (read_off(&network, &arcs), moved)
}

/// Jobs that went through *anywhere* take the seats that it filled, in order.
fn read_off(network: &Network, arcs: &Arcs) -> Placement {
    let mut seats = arcs
        .from_anywhere
        .iter()
        .enumerate()
        .flat_map(|(node, arc)| {
            let filled = network.carried(*arc) as usize;
            core::iter::repeat_n(NodeIndex(node as u32), filled)
        });
    let jobs = arcs.to_holders.iter().map(|holders| {
        let held = holders.iter().find(|(_, arc)| network.carried(*arc) > 0);
        held.map(|(node, _)| *node).or_else(|| seats.next())
    });
    Placement(jobs.collect())
}
