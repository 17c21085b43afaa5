//! A plan: at each read, whether the file stays until it is read again.

use alloc::vec;
use alloc::vec::Vec;

use super::{Follower, Queue, ServedFrom};
use crate::units::Bytes;

/// Which files stay after which reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainPlan {
    stays: Vec<bool>,
}

/// Bytes by where they came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServedBytes {
    /// From the disk, or whatever lies behind.
    pub disk: Bytes,
    /// From the node's memory.
    pub memory: Bytes,
}

impl RetainPlan {
    /// Nothing stays.
    pub fn nothing(queue: &Queue) -> RetainPlan {
        RetainPlan {
            stays: vec![false; queue.len()],
        }
    }

    /// The stays of a follower, without those that it kept in vain.
    pub fn of(follower: Follower<'_>, queue: &Queue) -> RetainPlan {
        let mut plan = RetainPlan::nothing(queue);
        for step in follower {
            match (step.source, queue.previous(step.at)) {
                (ServedFrom::Memory, Some(since)) => plan.stays[since] = true,
                (ServedFrom::Memory | ServedFrom::Disk, _) => {}
            }
        }
        plan
    }

    /// Whether the file that is read at a place stays until it is read again.
    pub fn stays(&self, at: usize) -> bool {
        self.stays[at]
    }

    /// Lets the file that is read at a place stay, or not.
    pub(super) fn set(&mut self, at: usize, stays: bool) {
        self.stays[at] = stays;
    }

    /// Whether what stays fits into `capacity` at every moment.
    pub fn fits(&self, queue: &Queue, capacity: Bytes) -> bool {
        self.used(queue).into_iter().all(|used| used <= capacity)
    }

    /// Bytes that stay after each read.
    pub(super) fn used(&self, queue: &Queue) -> Vec<Bytes> {
        let mut used = Bytes::ZERO;
        let after = (0..queue.len()).map(|at| {
            if queue.previous(at).is_some_and(|since| self.stays[since]) {
                used -= queue.size_at(at);
            }
            if self.stays[at] && queue.next(at).is_some() {
                used += queue.size_at(at);
            }
            used
        });
        after.collect()
    }

    /// The bytes from memory and from the disk under this plan.
    pub fn tally(&self, queue: &Queue) -> ServedBytes {
        let stayed = (0..queue.len()).filter(|at| self.stays[*at] && queue.next(*at).is_some());
        let memory = stayed.map(|at| queue.size_at(at)).sum();
        ServedBytes {
            disk: queue.total() - memory,
            memory,
        }
    }
}

impl ServedBytes {
    /// The part of all bytes that came from memory.
    pub fn hit_ratio(self) -> f64 {
        match (self.disk + self.memory).0 {
            0 => 0.0,
            all => self.memory.0 as f64 / all as f64,
        }
    }

    /// Time in units of what the disk takes for a byte; memory is `ratio` times as fast.
    pub fn time(self, ratio: f64) -> f64 {
        self.disk.0 as f64 + self.memory.0 as f64 / ratio
    }
}
