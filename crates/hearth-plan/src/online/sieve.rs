//! SIEVE: one queue by arrival, and a hand that spares what was read since it last passed.
//!
//! A hit only sets a mark. The hand goes from the tail to the head and stays where it took a file, so
//! that new files are looked at only after it has come round.

use super::queues::Queues;
use super::{Cache, Met};
use crate::units::{Bytes, FileIndex};

const QUEUE: usize = 0;
const READ: u8 = 1;

pub(super) struct Sieve {
    capacity: Bytes,
    queues: Queues<1>,
    hand: Option<FileIndex>,
}

impl Sieve {
    pub(super) fn new(capacity: Bytes) -> Sieve {
        Sieve {
            capacity,
            queues: Queues::new(),
            hand: None,
        }
    }

    fn evict(&mut self) {
        let tail = |queues: &Queues<1>| queues.tail(QUEUE).expect("something takes the room");
        let mut at = self.hand.unwrap_or_else(|| tail(&self.queues));
        while self.queues.mark(at) == READ {
            self.queues.set_mark(at, 0);
            at = self.queues.ahead(at).unwrap_or_else(|| tail(&self.queues));
        }
        self.hand = self.queues.ahead(at);
        self.queues.leave(at);
    }
}

impl Cache for Sieve {
    fn read(&mut self, file: FileIndex, size: Bytes) -> Met {
        if self.holds(file) {
            self.queues.set_mark(file, READ);
            return Met::Hit;
        }
        if size <= self.capacity {
            while self.queues.bytes(QUEUE) + size > self.capacity {
                self.evict();
            }
            self.queues.enter(QUEUE, file, size);
        }
        Met::Miss
    }

    fn holds(&self, file: FileIndex) -> bool {
        self.queues.queue(file).is_some()
    }

    fn used(&self) -> Bytes {
        self.queues.bytes(QUEUE)
    }
}
