//! The placement for jobs that share what a node has fetched: a local search.
//!
//! A file that two jobs of one node read is moved there once. So the cost of a job depends on the
//! places of the others, and the exact answer is NP-hard. The search starts from the published
//! method and from two flows: each job pays its part of a transfer, or each pays whole. It takes any
//! step that moves fewer bytes: one job to another node, two jobs exchanged, two or all readers of a
//! file to one node. [`super::bound_shared`] says how much could be left to gain.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use super::{Placement, Situation, exact, greedy};
use crate::units::{Bytes, FileIndex, NodeIndex};

/// Steps that are tried before the search stops where it is.
const TRIES_MAX: u64 = 2_000_000;

/// A placement that moves few bytes if jobs on one node share what they fetch; never more than the
/// published method or [`super::cheapest`] do.
pub fn cheapest_shared(situation: &Situation) -> Placement {
    let starts = [
        exact::by_parts(situation),
        exact::cheapest(situation),
        greedy::paper(situation),
    ];
    let readers = readers_of(situation);
    let ends = starts.map(|start| {
        let mut board = Board::new(situation, start);
        while board.improve_jobs(&readers) || board.improve_groups(&readers) {}
        (board.moved, board.at)
    });
    let best = ends.into_iter().min_by_key(|(moved, _)| *moved);
    Placement(best.expect("three starts").1)
}

/// For each file the jobs that read it.
fn readers_of(situation: &Situation) -> Vec<Vec<usize>> {
    let mut readers = vec![Vec::new(); situation.sizes.len()];
    for (job, files) in situation.jobs.iter().enumerate() {
        for file in files {
            readers[file.index()].push(job);
        }
    }
    readers
}

/// A placement that changes, with what it moves.
struct Board<'a> {
    situation: &'a Situation,
    at: Vec<Option<NodeIndex>>,
    load: Vec<u32>,
    /// Jobs of a node that read a file.
    readers: BTreeMap<(NodeIndex, FileIndex), u32>,
    moved: Bytes,
    tries_left: u64,
}

impl<'a> Board<'a> {
    fn new(situation: &'a Situation, placement: Placement) -> Board<'a> {
        let mut board = Board {
            situation,
            load: vec![0; situation.seats.len()],
            at: vec![None; placement.0.len()],
            readers: BTreeMap::new(),
            moved: (0..placement.0.len()).map(|job| situation.reads(job)).sum(),
            tries_left: TRIES_MAX,
        };
        for (job, node) in placement.0.into_iter().enumerate() {
            board.put(job, node);
        }
        board
    }

    fn put(&mut self, job: usize, to: Option<NodeIndex>) {
        if let Some(from) = self.at[job] {
            self.load[from.index()] -= 1;
            self.count(job, from, -1);
        } else {
            self.moved -= self.situation.reads(job);
        }
        if let Some(to) = to {
            self.load[to.index()] += 1;
            self.count(job, to, 1);
        } else {
            self.moved += self.situation.reads(job);
        }
        self.at[job] = to;
    }

    /// A file is fetched for its first reader on a node and not for the others.
    fn count(&mut self, job: usize, node: NodeIndex, change: i32) {
        for file in &self.situation.jobs[job] {
            let readers = self.readers.entry((node, *file)).or_insert(0);
            let before = *readers;
            *readers = before
                .checked_add_signed(change)
                .expect("each reader was counted");
            match (before, *readers) {
                (0, _) => self.moved += self.situation.missing(*file, node),
                (_, 0) => self.moved -= self.situation.missing(*file, node),
                _ => {}
            }
        }
    }

    fn has_seat(&self, node: NodeIndex) -> bool {
        self.load[node.index()] < self.situation.seats[node.index()]
    }

    /// Takes `moves` if they leave fewer bytes to be moved and nobody without a seat.
    fn attempt(&mut self, moves: &[(usize, Option<NodeIndex>)]) -> bool {
        self.tries_left = self.tries_left.saturating_sub(moves.len() as u64);
        let before = self.moved;
        let back: Vec<_> = moves.iter().map(|(job, _)| (*job, self.at[*job])).collect();
        for (job, to) in moves {
            self.put(*job, *to);
        }
        let seated = moves.iter().all(|(_, to)| {
            to.is_none_or(|to| self.load[to.index()] <= self.situation.seats[to.index()])
        });
        if seated && self.moved < before {
            return true;
        }
        for (job, from) in back.into_iter().rev() {
            self.put(job, from);
        }
        false
    }

    /// The nodes on which a job may be better off: those with bytes of its files, or with other
    /// readers of them.
    fn candidates(&self, job: usize, readers: &[Vec<usize>]) -> BTreeSet<NodeIndex> {
        let files = &self.situation.jobs[job];
        let holders = self
            .situation
            .holders(job)
            .into_iter()
            .map(|(node, _)| node);
        let others = files.iter().flat_map(|file| &readers[file.index()]);
        holders
            .chain(others.filter_map(|other| self.at[*other]))
            .collect()
    }

    fn improve_jobs(&mut self, readers: &[Vec<usize>]) -> bool {
        let mut improved = false;
        for job in 0..self.at.len() {
            for to in self.candidates(job, readers) {
                if self.tries_left == 0 {
                    return false;
                }
                if self.at[job] != Some(to) {
                    improved |= self.move_or_swap(job, to);
                }
            }
        }
        improved
    }

    fn move_or_swap(&mut self, job: usize, to: NodeIndex) -> bool {
        if self.has_seat(to) {
            return self.attempt(&[(job, Some(to))]);
        }
        let from = self.at[job];
        let others = (0..self.at.len()).filter(|other| self.at[*other] == Some(to));
        let others: Vec<usize> = others.collect();
        others
            .into_iter()
            .any(|other| self.attempt(&[(job, Some(to)), (other, from)]))
    }

    /// Tries all readers of a file, and each two of them.
    fn improve_groups(&mut self, readers: &[Vec<usize>]) -> bool {
        let mut improved = false;
        for all in readers.iter().filter(|all| all.len() > 1) {
            improved |= self.improve_group(all, readers);
            for (place, one) in all.iter().enumerate() {
                for other in &all[place + 1..] {
                    if self.tries_left == 0 {
                        return false;
                    }
                    improved |= self.improve_group(&[*one, *other], readers);
                }
            }
        }
        improved
    }

    fn improve_group(&mut self, group: &[usize], readers: &[Vec<usize>]) -> bool {
        let near = group.iter().flat_map(|job| self.candidates(*job, readers));
        let near: BTreeSet<NodeIndex> = near.collect();
        let mut improved = false;
        for to in near {
            let moves: Vec<_> = group.iter().map(|job| (*job, Some(to))).collect();
            improved |= self.attempt(&moves);
        }
        improved
    }
}
