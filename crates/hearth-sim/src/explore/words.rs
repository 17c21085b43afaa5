//! The canonical form of a state: a row of words in which a name counts only by its place.
//!
//! Kernels number requests, versions, buffers and so on upwards, so two states that differ only in how
//! many of them were given before would never meet. Here every kind of name has a range of its own
//! (a [`NameKind`] in the upmost byte), kernels count from there on
//! ([`Node::naming_after`](hearth_proto::Node::naming_after)), and whatever hashes a state writes its
//! words here. [`Words::settle`] then replaces each name by its rank among the names of its range.
//!
//! Why that is sound: kernels compare names of one range with each other, and a new name is larger than every
//! earlier one of its range. Both are kept by a change of names that keeps their order, so two states with
//! equal rows can do the same for ever. No kernel adds to a name, or compares names of two ranges. Numbers
//! that are compared otherwise keep their value: sizes, offsets, generations.
//!
//! Times are names too, of one clock for each node. That is sound here because in a small world time
//! goes on in steps of one length only (see `small`).

use std::hash::Hasher;

/// The kinds of names that count only by their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NameKind {
    /// Requests between nodes; one range for each node.
    Request = 0x10,
    /// Versions of pages; one range for each home.
    Version = 0x20,
    /// Stamps of the store.
    Stamp = 0x30,
    /// Points in the order of what sessions see.
    Moment = 0x31,
    /// Store operations of a node.
    Op = 0x40,
    /// Revocations of a node.
    Revoke = 0x41,
    /// Copies that a home gave.
    Copy = 0x42,
    /// Requests of a node's sessions.
    Ticket = 0x43,
    /// Buffers of a node's driver.
    Buf = 0x44,
    /// Buffers of a node's kernel; its names have a bit of their own.
    KernelBuf = 0x45,
    /// A node's clock.
    Time = 0x46,
    /// Orders of a node to a daemon.
    Bank = 0x47,
}

/// Names of the first kinds mean the same on every node.
const SHARED: std::ops::Range<u8> = 0x10..0x40;
/// Names of the others mean something on one node alone.
const OWN: std::ops::Range<u8> = 0x40..0x50;
const KERNEL_BUF: u8 = 0x80 | NameKind::KernelBuf as u8;

impl NameKind {
    /// The number after which names of this kind are counted.
    pub const fn base(self) -> u64 {
        (self as u64) << 56
    }

    /// The same where each node has a range of its own.
    pub fn base_of(self, node: u32) -> u64 {
        assert!(node < 16, "a small world has fewer nodes");
        self.base() + (u64::from(node) << 56)
    }
}

/// Which names are settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Those of one node.
    Own,
    /// Those that nodes share.
    Shared,
}

impl Names {
    fn has(self, word: u64) -> bool {
        let kind = (word >> 56) as u8;
        match self {
            Names::Own => OWN.contains(&kind) || kind == KERNEL_BUF,
            Names::Shared => SHARED.contains(&kind),
        }
    }
}

/// A row of words, taken from whatever can be hashed.
#[derive(Clone, Debug, Default)]
pub struct Words(pub Vec<u64>);

impl Words {
    /// Replaces names by their ranks.
    pub fn settle(&mut self, names: Names) {
        let mut known: Vec<u64> = self.0.iter().copied().filter(|&w| names.has(w)).collect();
        known.sort_unstable();
        known.dedup();
        for word in self.0.iter_mut().filter(|word| names.has(**word)) {
            // The rank among all kinds tells as much as the rank within one: how many names of lower
            // kinds there are is the same in rows that are equal.
            let rank = known.binary_search(word).unwrap_or_default() as u64;
            *word = (*word >> 56 << 56) | rank;
        }
    }

    /// 128 bits of the row: two lanes with constants of their own, each a bijection of its state for
    /// every word, mixed by the finaliser of SplitMix64.
    pub fn fingerprint(&self) -> u128 {
        let (mut a, mut b) = (0x243F_6A88_85A3_08D3_u64, 0x1319_8A2E_0370_7344_u64);
        for &word in &self.0 {
            a = mix(a ^ word);
            b = mix(b.wrapping_add(word ^ 0xA409_3822_299F_31D0)).rotate_left(29);
        }
        let length = self.0.len() as u64;
        (u128::from(mix(a ^ length)) << 64) | u128::from(mix(b ^ a.rotate_left(32)))
    }
}

fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Hasher for Words {
    fn finish(&self) -> u64 {
        self.fingerprint() as u64
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend(bytes.iter().map(|&byte| u64::from(byte)));
    }
    fn write_u8(&mut self, value: u8) {
        self.0.push(u64::from(value));
    }
    fn write_u16(&mut self, value: u16) {
        self.0.push(u64::from(value));
    }
    fn write_u32(&mut self, value: u32) {
        self.0.push(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        self.0.push(value);
    }
    fn write_usize(&mut self, value: usize) {
        self.0.push(value as u64);
    }
    fn write_i32(&mut self, value: i32) {
        self.0.push(i64::from(value) as u64);
    }
    fn write_i64(&mut self, value: i64) {
        self.0.push(value as u64);
    }
    fn write_isize(&mut self, value: isize) {
        self.0.push(value as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(names: &[u64]) -> Vec<u64> {
        let mut words = Words(names.to_vec());
        words.settle(Names::Own);
        words.0
    }

    #[test]
    fn names_count_by_their_order_alone() {
        let (op, buf) = (NameKind::Op.base(), NameKind::Buf.base());
        assert_eq!(
            row(&[op + 3, 7, op + 9, buf + 1]),
            row(&[op + 8, 7, op + 11, buf + 5])
        );
        assert_ne!(row(&[op + 3, 7, op + 9]), row(&[op + 9, 7, op + 3]));
        assert_ne!(row(&[op + 3, 7]), row(&[op + 3, 8]));
        assert_ne!(row(&[op + 3, op + 3]), row(&[op + 3, op + 4]));
    }

    #[test]
    fn names_of_other_nodes_keep_their_numbers() {
        let request = NameKind::Request.base_of(2) + 40;
        assert_eq!(row(&[request]), [request]);
    }

    #[test]
    fn rows_that_differ_have_other_fingerprints() {
        let of = |words: &[u64]| Words(words.to_vec()).fingerprint();
        let rows = [&[1, 2][..], &[2, 1], &[1], &[1, 2, 0], &[]];
        let prints: std::collections::BTreeSet<u128> = rows.iter().map(|row| of(row)).collect();
        assert_eq!(prints.len(), rows.len());
    }
}
