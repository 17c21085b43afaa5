//! The published method, Algorithm 1: one job after another takes the node that is best for it.

use alloc::vec;

use super::{Placement, Situation};
use crate::units::{Bytes, NodeIndex};

/// Algorithm 1 line by line.
///
/// It looks up where a file is and then adds the file's size whether or not it is there. So all
/// nodes cost the same, and the first one always wins. Seats are unknown to it.
pub fn literal(situation: &Situation) -> Placement {
    let place = |job| {
        let mut cost_min = None;
        let mut chosen = None;
        for node in nodes(situation) {
            let cost = situation.reads(job);
            if cost_min.is_none_or(|least| cost < least) {
                cost_min = Some(cost);
                chosen = Some(node);
            }
        }
        chosen
    };
    Placement((0..situation.jobs.len()).map(place).collect())
}

/// Algorithm 1 as it was meant: only what lies elsewhere costs. Of equal nodes the one with fewer
/// jobs wins, then the first.
///
/// Optimal while seats do not run out; after that what it does hangs on the order of the jobs.
pub fn paper(situation: &Situation) -> Placement {
    let mut load = vec![0; situation.seats.len()];
    let jobs = 0..situation.jobs.len();
    let place = |job| {
        let node = best(situation, job, &load)?;
        load[node.index()] += 1;
        Some(node)
    };
    Placement(jobs.map(place).collect())
}

fn best(situation: &Situation, job: usize, load: &[u32]) -> Option<NodeIndex> {
    let mut held = vec![Bytes::ZERO; situation.seats.len()];
    for (node, bytes) in situation.holders(job) {
        held[node.index()] = bytes;
    }
    let free = nodes(situation).filter(|node| load[node.index()] < situation.seats[node.index()]);
    free.min_by_key(|node| {
        let moved = situation.reads(job).saturating_sub(held[node.index()]);
        (moved, load[node.index()], *node)
    })
}

fn nodes(situation: &Situation) -> impl Iterator<Item = NodeIndex> + use<> {
    (0..situation.seats.len() as u32).map(NodeIndex)
}
