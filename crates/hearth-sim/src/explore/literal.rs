//! Protocols as they were published, where no parameter of the kernel gives them.
//!
//! These are small models of the protocols in the papers, not the shipped kernel. That has no state in which
//! a page is locked for its eviction, a swap is compared without a version, or a writer keeps its own block
//! beside another writer's. The models are explored by the same [`search`](super::search), told in the same
//! way, and judged by the same reference model.

pub mod hint;
pub mod local;
pub mod single;

use super::judge::{Book, Open};
use super::words::{Names, Words};
use std::hash::Hash;

/// Messages on their way, in order on each connection.
#[derive(Clone, Debug, Hash)]
pub(super) struct Wires<M> {
    flights: Vec<(u8, u8, M)>,
}

impl<M: Clone> Wires<M> {
    pub(super) fn new() -> Wires<M> {
        Wires {
            flights: Vec::new(),
        }
    }

    pub(super) fn send(&mut self, from: u8, to: u8, message: M) {
        let at = self.flights.partition_point(|f| (f.0, f.1) <= (from, to));
        self.flights.insert(at, (from, to, message));
    }

    /// Connections with something on its way.
    pub(super) fn busy(&self) -> Vec<(u8, u8)> {
        let mut busy: Vec<(u8, u8)> = self.flights.iter().map(|f| (f.0, f.1)).collect();
        busy.dedup();
        busy
    }

    /// The next message of a connection arrives.
    pub(super) fn take(&mut self, from: u8, to: u8) -> M {
        let at = self.flights.partition_point(|f| (f.0, f.1) < (from, to));
        self.flights.remove(at).2
    }

    pub(super) fn drop_all_of(&mut self, node: u8) {
        self.flights.retain(|f| f.0 != node && f.1 != node);
    }
}

/// The fingerprint of a model with its history; reads of models begin and end at once.
fn fingerprint(model: &impl Hash, book: &Book) -> u128 {
    let mut words = Words::default();
    model.hash(&mut words);
    book.write_down(&mut words, &Open::default());
    words.settle(Names::Shared);
    words.fingerprint()
}
