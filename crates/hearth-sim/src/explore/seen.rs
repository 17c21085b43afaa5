//! The states that are known: a fingerprint each, and how it was reached.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// States beyond this are not numbered.
const STATES_MAX: usize = u32::MAX as usize;

/// A fingerprint is as good a hash as any.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }
    fn write_u128(&mut self, value: u128) {
        self.0 = value as u64;
    }
}

/// How a state was first reached: from which, by what.
struct Link<E> {
    before: u32,
    event: E,
}

/// Every state that is known; they are numbered from 0.
pub(super) struct Seen<E> {
    fingerprints: HashSet<u128, BuildHasherDefault<AsItIs>>,
    links: Vec<Link<E>>,
}

impl<E> Default for Seen<E> {
    fn default() -> Seen<E> {
        Seen {
            fingerprints: HashSet::default(),
            links: Vec::new(),
        }
    }
}

impl<E: Copy> Seen<E> {
    /// The beginning, which has number 0.
    pub(super) fn first(&mut self, fingerprint: u128) -> u32 {
        self.fingerprints.insert(fingerprint);
        0
    }

    /// One more state; its number, if it is new.
    pub(super) fn add(&mut self, fingerprint: u128, before: u32, event: E) -> Option<u32> {
        if !self.fingerprints.insert(fingerprint) {
            return None;
        }
        assert!(
            self.links.len() < STATES_MAX,
            "states have numbers of 32 bits"
        );
        self.links.push(Link { before, event });
        Some(self.links.len() as u32)
    }

    pub(super) fn count(&self) -> u64 {
        self.fingerprints.len() as u64
    }

    /// The events from the beginning to a state.
    pub(super) fn path(&self, mut number: u32) -> Vec<E> {
        let mut path = Vec::new();
        while let Some(link) = number.checked_sub(1).map(|at| &self.links[at as usize]) {
            path.push(link.event);
            number = link.before;
        }
        path.reverse();
        path
    }
}
