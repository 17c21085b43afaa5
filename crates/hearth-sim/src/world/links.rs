//! The network: one connection per pair, in order, with delays; it may stall, break and mend.

use hearth_proto::Time;
use hearth_proto::msg::Envelope;
use std::collections::{BTreeMap, VecDeque};

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

/// Every connection.
#[derive(Default)]
pub(crate) struct Links {
    pairs: BTreeMap<(u32, u32), Pair>,
    ways: BTreeMap<(u32, u32), (Time, VecDeque<Parcel>)>,
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

    /// Takes a message in; returns when it arrives, unless it is lost.
    pub(crate) fn send(
        &mut self,
        (from, to): (u32, u32),
        at: Time,
        parcel: Parcel,
    ) -> Option<Time> {
        if self.state(from, to) != State::Up {
            return None;
        }
        let (last, queue) = self.ways.entry((from, to)).or_default();
        *last = at.max(*last);
        queue.push_back(parcel);
        Some(*last)
    }

    /// The oldest message of a connection that still stands.
    pub(crate) fn arrive(&mut self, from: u32, to: u32, life: u32) -> Option<Parcel> {
        if self.life(from, to) != life {
            return None;
        }
        self.ways.get_mut(&(from, to))?.1.pop_front()
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

    fn drop_messages(&mut self, a: u32, b: u32) {
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

    /// Pairs that do not carry.
    pub(crate) fn troubled(&self) -> Vec<(u32, u32)> {
        let bad = |(_, pair): &(&(u32, u32), &Pair)| pair.state != State::Up;
        self.pairs.iter().filter(bad).map(|(&ab, _)| ab).collect()
    }
}
