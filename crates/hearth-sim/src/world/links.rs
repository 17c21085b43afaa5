//! The network: one connection per pair, which may stall, break and mend. Below it packets come in any
//! order, and twice; the receiving side of the connection puts them in order, as TCP does.

use hearth_proto::FileId;
use hearth_proto::msg::{Body, Envelope};
use std::collections::{BTreeMap, BTreeSet};

/// A message on its way.
pub(crate) struct Parcel {
    pub(crate) envelope: Envelope,
    pub(crate) payload: Vec<u8>,
}

/// How a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It carries.
    Up,
    /// It looks whole and carries nothing.
    Stalled,
    /// Both sides know or will learn that it is gone.
    Broken,
}

struct Pair {
    state: State,
    /// Which connection this is; messages of earlier ones are gone.
    life: u32,
    /// Sides that have yet to be told of the break.
    untold: u32,
}

/// One direction of a connection.
#[derive(Default)]
struct Way {
    sent: u64,
    /// Messages that the receiver has not been given.
    parcels: BTreeMap<u64, Parcel>,
    /// Those of them that are at its side.
    come: BTreeSet<u64>,
    given: u64,
}

/// Every connection.
#[derive(Default)]
pub(crate) struct Links {
    pairs: BTreeMap<(u32, u32), Pair>,
    ways: BTreeMap<(u32, u32), Way>,
}

fn pair(a: u32, b: u32) -> (u32, u32) {
    (a.min(b), a.max(b))
}

impl Links {
    fn of(&mut self, a: u32, b: u32) -> &mut Pair {
        self.pairs.entry(pair(a, b)).or_insert(Pair {
            state: State::Up,
            life: 0,
            untold: 0,
        })
    }

    pub(crate) fn state(&mut self, a: u32, b: u32) -> State {
        self.of(a, b).state
    }

    pub(crate) fn life(&mut self, a: u32, b: u32) -> u32 {
        self.of(a, b).life
    }

    /// Takes a message in; returns its number, unless it is lost for good.
    pub(crate) fn send(&mut self, (from, to): (u32, u32), parcel: Parcel) -> Option<u64> {
        if self.state(from, to) != State::Up {
            return None;
        }
        let way = self.ways.entry((from, to)).or_default();
        way.sent += 1;
        way.parcels.insert(way.sent, parcel);
        Some(way.sent)
    }

    /// A packet has come over a connection that still stands; returns the messages that are next.
    pub(crate) fn arrive(&mut self, from: u32, to: u32, (life, number): (u32, u64)) -> Vec<Parcel> {
        if self.life(from, to) != life {
            return Vec::new();
        }
        let Some(way) = self.ways.get_mut(&(from, to)) else {
            return Vec::new();
        };
        if way.parcels.contains_key(&number) {
            way.come.insert(number);
        }
        let mut next = Vec::new();
        while way.come.remove(&(way.given + 1)) {
            way.given += 1;
            next.extend(way.parcels.remove(&way.given));
        }
        next
    }

    pub(crate) fn stall(&mut self, a: u32, b: u32) {
        self.of(a, b).state = State::Stalled;
        self.drop_messages(a, b);
    }

    /// Breaks a connection; both sides must then be told.
    pub(crate) fn cut(&mut self, a: u32, b: u32) {
        let pair = self.of(a, b);
        pair.state = State::Broken;
        pair.untold = 2;
        self.drop_messages(a, b);
    }

    /// Messages between two nodes are lost.
    pub(crate) fn drop_messages(&mut self, a: u32, b: u32) {
        self.of(a, b).life += 1;
        for way in [(a, b), (b, a)] {
            self.ways.remove(&way);
        }
    }

    /// A side has been told of the break.
    pub(crate) fn told(&mut self, a: u32, b: u32) {
        self.of(a, b).untold -= 1;
    }

    /// Connects again; false if it cannot be yet.
    pub(crate) fn mend(&mut self, a: u32, b: u32) -> bool {
        let pair = self.of(a, b);
        let ready = pair.state == State::Broken && pair.untold == 0;
        if ready {
            pair.state = State::Up;
        }
        ready
    }

    /// True if a node has closed the file, and the one that manages it may not have heard so.
    pub(crate) fn carry_close(&self, file: FileId) -> bool {
        let closes = |parcel: &Parcel| {
            let Envelope { file: of, body, .. } = &parcel.envelope;
            *of == file && matches!(body, Body::Close { .. })
        };
        let mut parcels = self.ways.values().flat_map(|way| way.parcels.values());
        let silent = |pair: &Pair| pair.state == State::Stalled || pair.untold > 0;
        parcels.any(closes) || self.pairs.values().any(silent)
    }

    /// Pairs that do not carry.
    pub(crate) fn troubled(&self) -> Vec<(u32, u32)> {
        let bad = |(_, pair): &(&(u32, u32), &Pair)| pair.state != State::Up;
        self.pairs.iter().filter(bad).map(|(&ab, _)| ab).collect()
    }
}
