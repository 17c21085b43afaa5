//! Greedy dual size frequency: a file is worth what its misses cost per byte of room, times how often
//! it was read, on top of a level that rises with each file that goes, so that old fame fades.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{Cache, Met};
use crate::units::{Bytes, FileIndex};

/// The cost of a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Price {
    /// One each: large files go first.
    Miss,
    /// Its bytes: size cancels out.
    Byte,
}

/// One, in the numbers that worth is counted in.
const ONE: u128 = 1 << 64;

pub(super) struct Gdsf {
    capacity: Bytes,
    price: Price,
    used: Bytes,
    /// The worth of the last file that went.
    level: u128,
    /// Lowest worth first; of equal ones the one touched longest ago.
    order: BTreeSet<(u128, u64, FileIndex)>,
    held: Vec<Option<Held>>,
    /// Counts reads, to tell equal worth apart.
    clock: u64,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    size: Bytes,
    reads: u64,
    worth: u128,
    touched: u64,
}

impl Gdsf {
    pub(super) fn new(capacity: Bytes, price: Price) -> Gdsf {
        Gdsf {
            capacity,
            price,
            used: Bytes::ZERO,
            level: 0,
            order: BTreeSet::new(),
            held: Vec::new(),
            clock: 0,
        }
    }

    fn place(&mut self, file: FileIndex, size: Bytes, reads: u64) {
        let unit = match self.price {
            Price::Miss => ONE / u128::from(size.0.max(1)),
            Price::Byte => ONE,
        };
        let held = Held {
            size,
            reads,
            worth: self.level + unit * u128::from(reads),
            touched: self.clock,
        };
        self.order.insert((held.worth, held.touched, file));
        self.held[file.index()] = Some(held);
        self.used += size;
    }

    fn take(&mut self, file: FileIndex) -> Option<Held> {
        let held = self.held.get_mut(file.index())?.take()?;
        self.order.remove(&(held.worth, held.touched, file));
        self.used -= held.size;
        Some(held)
    }

    fn make_room(&mut self, size: Bytes) {
        while self.used + size > self.capacity {
            let lowest = self.order.first().copied();
            let (worth, _, file) = lowest.expect("something takes the room");
            self.level = worth;
            self.take(file);
        }
    }
}

impl Cache for Gdsf {
    fn read(&mut self, file: FileIndex, size: Bytes) -> Met {
        self.clock += 1;
        if let Some(held) = self.take(file) {
            self.place(file, held.size, held.reads + 1);
            return Met::Hit;
        }
        if size <= self.capacity {
            self.make_room(size);
            if self.held.len() <= file.index() {
                self.held.resize(file.index() + 1, None);
            }
            self.place(file, size, 1);
        }
        Met::Miss
    }

    fn holds(&self, file: FileIndex) -> bool {
        self.held.get(file.index()).is_some_and(Option::is_some)
    }

    fn used(&self) -> Bytes {
        self.used
    }
}
