//! S3-FIFO: new files pass a small queue; those read again there go to the main queue, the others
//! leave a ghost, whose return is taken for a second read.
//!
//! The small queue has a tenth of the room. A file too large for it goes to the main queue at once.

use super::queues::Queues;
use super::{Cache, Met};
use crate::units::{Bytes, FileIndex};

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;
/// Reads that are counted, at most.
const READS_MAX: u8 = 3;
/// Reads in the small queue that bring a file to the main queue.
const READS_TO_MAIN: u8 = 2;

pub(super) struct S3Fifo {
    small: Bytes,
    main: Bytes,
    queues: Queues<3>,
}

impl S3Fifo {
    pub(super) fn new(capacity: Bytes) -> S3Fifo {
        let small = Bytes(capacity.0 / 10);
        S3Fifo {
            small,
            main: capacity - small,
            queues: Queues::new(),
        }
    }

    fn capacity(&self) -> Bytes {
        self.small + self.main
    }

    fn admit(&mut self, file: FileIndex, size: Bytes) {
        if size > self.capacity() {
            return;
        }
        let is_ghost = self.queues.queue(file) == Some(GHOST);
        if is_ghost {
            self.queues.leave(file);
        }
        while self.used() + size > self.capacity() {
            self.evict();
        }
        let queue = if is_ghost || size > self.small {
            MAIN
        } else {
            SMALL
        };
        self.queues.enter(queue, file, size);
    }

    fn evict(&mut self) {
        let main_is_over = self.queues.bytes(MAIN) > self.main;
        match (self.queues.tail(SMALL), self.queues.tail(MAIN)) {
            (_, Some(tail)) if main_is_over => self.evict_from_main(tail),
            (Some(tail), _) => self.evict_from_small(tail),
            (None, Some(tail)) => self.evict_from_main(tail),
            (None, None) => unreachable!("something takes the room"),
        }
    }

    fn evict_from_small(&mut self, tail: FileIndex) {
        if self.queues.mark(tail) >= READS_TO_MAIN {
            self.queues.shift(MAIN, tail);
            self.queues.set_mark(tail, 0);
            return;
        }
        self.queues.shift(GHOST, tail);
        while self.queues.bytes(GHOST) > self.main {
            let oldest = self.queues.tail(GHOST);
            self.queues.leave(oldest.expect("ghosts take the room"));
        }
    }

    fn evict_from_main(&mut self, tail: FileIndex) {
        match self.queues.mark(tail) {
            0 => {
                self.queues.leave(tail);
            }
            reads => {
                self.queues.shift(MAIN, tail);
                self.queues.set_mark(tail, reads - 1);
            }
        }
    }
}

impl Cache for S3Fifo {
    fn read(&mut self, file: FileIndex, size: Bytes) -> Met {
        if self.holds(file) {
            let reads = self.queues.mark(file) + 1;
            self.queues.set_mark(file, reads.min(READS_MAX));
            return Met::Hit;
        }
        self.admit(file, size);
        Met::Miss
    }

    fn holds(&self, file: FileIndex) -> bool {
        matches!(self.queues.queue(file), Some(SMALL | MAIN))
    }

    fn used(&self) -> Bytes {
        self.queues.bytes(SMALL) + self.queues.bytes(MAIN)
    }
}
