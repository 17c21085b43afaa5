//! Files, nodes and bytes.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// A file, by its place in the caller's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIndex(pub u32);

/// A node, by its place in the caller's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u32);

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl FileIndex {
    /// Its place in a list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl NodeIndex {
    /// Its place in a list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Bytes {
    /// None at all.
    pub const ZERO: Bytes = Bytes(0);

    /// The rest after `less` is taken away, at least zero.
    pub fn saturating_sub(self, less: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(less.0))
    }

    /// So many times as much; the most that can be said where that is too much.
    pub fn times(self, count: usize) -> Bytes {
        Bytes(self.0.saturating_mul(count as u64))
    }
}

impl Add for Bytes {
    type Output = Bytes;

    fn add(self, more: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(more.0))
    }
}

impl Sub for Bytes {
    type Output = Bytes;

    fn sub(self, less: Bytes) -> Bytes {
        Bytes(self.0 - less.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, more: Bytes) {
        *self = *self + more;
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, less: Bytes) {
        *self = *self - less;
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(bytes: I) -> Bytes {
        bytes.fold(Bytes::ZERO, Bytes::add)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}
