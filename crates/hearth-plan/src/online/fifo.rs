//! One queue: by arrival, and by last use.

use super::queues::Queues;
use super::{Cache, Met};
use crate::units::{Bytes, FileIndex};

const QUEUE: usize = 0;

/// First in, first out: the file that came first goes first.
pub(super) struct Fifo {
    capacity: Bytes,
    queues: Queues<1>,
}

impl Fifo {
    pub(super) fn new(capacity: Bytes) -> Fifo {
        Fifo {
            capacity,
            queues: Queues::new(),
        }
    }

    fn admit(&mut self, file: FileIndex, size: Bytes) {
        if size > self.capacity {
            return;
        }
        while self.queues.bytes(QUEUE) + size > self.capacity {
            let tail = self.queues.tail(QUEUE);
            self.queues.leave(tail.expect("something takes the room"));
        }
        self.queues.enter(QUEUE, file, size);
    }
}

impl Cache for Fifo {
    fn read(&mut self, file: FileIndex, size: Bytes) -> Met {
        if self.holds(file) {
            return Met::Hit;
        }
        self.admit(file, size);
        Met::Miss
    }

    fn holds(&self, file: FileIndex) -> bool {
        self.queues.queue(file).is_some()
    }

    fn used(&self) -> Bytes {
        self.queues.bytes(QUEUE)
    }
}

/// Least recently used: the file that was not read for the longest time goes first.
pub(super) struct Lru(Fifo);

impl Lru {
    pub(super) fn new(capacity: Bytes) -> Lru {
        Lru(Fifo::new(capacity))
    }
}

impl Cache for Lru {
    fn read(&mut self, file: FileIndex, size: Bytes) -> Met {
        let met = self.0.read(file, size);
        if met == Met::Hit {
            self.0.queues.shift(QUEUE, file);
        }
        met
    }

    fn holds(&self, file: FileIndex) -> bool {
        self.0.holds(file)
    }

    fn used(&self) -> Bytes {
        self.0.used()
    }
}
