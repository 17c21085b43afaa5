//! ARC: files read once and files read more often share the room; ghosts of both say how.
//!
//! A file whose ghost returns shows that its part was too small, and the *share* of recent files
//! moves by that file's size, more if the other part has the more ghosts. All is measured in bytes.

use super::queues::Queues;
use super::{Cache, Met};
use crate::units::{Bytes, FileIndex};

/// Read once.
const RECENT: usize = 0;
/// Read more often.
const FREQUENT: usize = 1;
/// Gone from [`RECENT`].
const GHOST_RECENT: usize = 2;
/// Gone from [`FREQUENT`].
const GHOST_FREQUENT: usize = 3;

pub(super) struct Arc {
    capacity: Bytes,
    /// The share of the cache that recent files are to take.
    share: Bytes,
    queues: Queues<4>,
}

impl Arc {
    pub(super) fn new(capacity: Bytes) -> Arc {
        Arc {
            capacity,
            share: Bytes::ZERO,
            queues: Queues::new(),
        }
    }

    /// A ghost returns.
    fn revive(&mut self, file: FileIndex, size: Bytes, ghost: usize) {
        let (ours, theirs) = (self.queues.bytes(ghost), self.queues.bytes(GHOSTS - ghost));
        let step = Bytes((size.0).max(weigh(size, theirs, ours)));
        self.share = if ghost == GHOST_RECENT {
            (self.share + step).min(self.capacity)
        } else {
            self.share.saturating_sub(step)
        };
        self.queues.leave(file);
        self.make_room(size, ghost == GHOST_FREQUENT);
        self.queues.enter(FREQUENT, file, size);
    }

    fn admit(&mut self, file: FileIndex, size: Bytes) {
        while self.recent_and_ghosts() + size > self.capacity {
            match (self.queues.tail(GHOST_RECENT), self.queues.tail(RECENT)) {
                (Some(oldest), _) | (None, Some(oldest)) => self.queues.leave(oldest),
                (None, None) => break,
            };
        }
        self.make_room(size, false);
        self.queues.enter(RECENT, file, size);
    }

    fn recent_and_ghosts(&self) -> Bytes {
        self.queues.bytes(RECENT) + self.queues.bytes(GHOST_RECENT)
    }

    /// Sets `size` free; the evicted leave ghosts, which take as much as the cache at most.
    fn make_room(&mut self, size: Bytes, is_equal_enough: bool) {
        while self.used() + size > self.capacity {
            let recent = self.queues.bytes(RECENT);
            let is_over = recent > self.share || (is_equal_enough && recent == self.share);
            match (self.queues.tail(RECENT), self.queues.tail(FREQUENT)) {
                (Some(oldest), _) if is_over => self.queues.shift(GHOST_RECENT, oldest),
                (_, Some(oldest)) => self.queues.shift(GHOST_FREQUENT, oldest),
                (Some(oldest), None) => self.queues.shift(GHOST_RECENT, oldest),
                (None, None) => unreachable!("something takes the room"),
            }
        }
        while self.used() + self.ghosts() > self.capacity + self.capacity {
            let oldest = self.queues.tail(GHOST_FREQUENT);
            let oldest = oldest.or_else(|| self.queues.tail(GHOST_RECENT));
            self.queues.leave(oldest.expect("what is there fits"));
        }
    }

    fn ghosts(&self) -> Bytes {
        self.queues.bytes(GHOST_RECENT) + self.queues.bytes(GHOST_FREQUENT)
    }
}

/// The other list of ghosts is this less the one.
const GHOSTS: usize = GHOST_RECENT + GHOST_FREQUENT;

/// `size` times `theirs` over `ours`.
fn weigh(size: Bytes, theirs: Bytes, ours: Bytes) -> u64 {
    let product = u128::from(size.0) * u128::from(theirs.0);
    let weighed = product / u128::from(ours.0.max(1));
    u64::try_from(weighed).unwrap_or(u64::MAX)
}

impl Cache for Arc {
    fn read(&mut self, file: FileIndex, size: Bytes) -> Met {
        match self.queues.queue(file) {
            Some(RECENT | FREQUENT) => {
                self.queues.shift(FREQUENT, file);
                return Met::Hit;
            }
            _ if size > self.capacity => {}
            Some(ghost) => self.revive(file, size, ghost),
            None => self.admit(file, size),
        }
        Met::Miss
    }

    fn holds(&self, file: FileIndex) -> bool {
        matches!(self.queues.queue(file), Some(RECENT | FREQUENT))
    }

    fn used(&self) -> Bytes {
        self.queues.bytes(RECENT) + self.queues.bytes(FREQUENT)
    }
}
