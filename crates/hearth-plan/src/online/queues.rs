//! Several queues over one set of files; a file stands in one of them or in none.
//!
//! Links are kept by file, so nothing is allocated or hashed on the way.

use alloc::vec::Vec;

use crate::units::{Bytes, FileIndex};

const NOWHERE: u8 = u8::MAX;
const NOBODY: u32 = u32::MAX;

/// `N` queues. New files enter at the head and leave at the tail.
#[derive(Clone, Debug)]
pub(super) struct Queues<const N: usize> {
    places: Vec<Place>,
    ends: [Ends; N],
}

#[derive(Clone, Copy, Debug)]
struct Place {
    size: Bytes,
    /// The neighbour towards the head.
    ahead: u32,
    /// The neighbour towards the tail.
    behind: u32,
    queue: u8,
    /// A policy's own note about a file, kept while the file stands in any queue.
    mark: u8,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    head: u32,
    tail: u32,
    bytes: Bytes,
}

impl<const N: usize> Queues<N> {
    pub(super) fn new() -> Queues<N> {
        let empty = Ends {
            head: NOBODY,
            tail: NOBODY,
            bytes: Bytes::ZERO,
        };
        Queues {
            places: Vec::new(),
            ends: [empty; N],
        }
    }

    /// The queue that a file stands in.
    pub(super) fn queue(&self, file: FileIndex) -> Option<usize> {
        let place = self.places.get(file.index())?;
        (place.queue != NOWHERE).then_some(usize::from(place.queue))
    }

    pub(super) fn bytes(&self, queue: usize) -> Bytes {
        self.ends[queue].bytes
    }

    pub(super) fn tail(&self, queue: usize) -> Option<FileIndex> {
        let tail = self.ends[queue].tail;
        (tail != NOBODY).then_some(FileIndex(tail))
    }

    /// The neighbour of a file towards the head.
    pub(super) fn ahead(&self, file: FileIndex) -> Option<FileIndex> {
        let ahead = self.places[file.index()].ahead;
        (ahead != NOBODY).then_some(FileIndex(ahead))
    }

    pub(super) fn mark(&self, file: FileIndex) -> u8 {
        self.places[file.index()].mark
    }

    pub(super) fn set_mark(&mut self, file: FileIndex, mark: u8) {
        self.places[file.index()].mark = mark;
    }

    /// A file that stands nowhere enters a queue at the head, unmarked.
    pub(super) fn enter(&mut self, queue: usize, file: FileIndex, size: Bytes) {
        if self.places.len() <= file.index() {
            let nowhere = Place {
                size: Bytes::ZERO,
                ahead: NOBODY,
                behind: NOBODY,
                queue: NOWHERE,
                mark: 0,
            };
            self.places.resize(file.index() + 1, nowhere);
        }
        let ends = &mut self.ends[queue];
        let place = &mut self.places[file.index()];
        assert!(place.queue == NOWHERE, "a file stands in one queue");
        *place = Place {
            size,
            ahead: NOBODY,
            behind: ends.head,
            queue: queue as u8,
            mark: 0,
        };
        match ends.head {
            NOBODY => ends.tail = file.0,
            head => self.places[head as usize].ahead = file.0,
        }
        ends.head = file.0;
        ends.bytes += size;
    }

    /// A file leaves its queue; its size is the answer.
    pub(super) fn leave(&mut self, file: FileIndex) -> Bytes {
        let place = self.places[file.index()];
        let ends = &mut self.ends[usize::from(place.queue)];
        ends.bytes -= place.size;
        match place.ahead {
            NOBODY => ends.head = place.behind,
            ahead => self.places[ahead as usize].behind = place.behind,
        }
        match place.behind {
            NOBODY => ends.tail = place.ahead,
            behind => self.places[behind as usize].ahead = place.ahead,
        }
        self.places[file.index()].queue = NOWHERE;
        place.size
    }

    /// A file goes to the head of a queue, its mark kept.
    pub(super) fn shift(&mut self, queue: usize, file: FileIndex) {
        let mark = self.mark(file);
        let size = self.leave(file);
        self.enter(queue, file, size);
        self.set_mark(file, mark);
    }
}
