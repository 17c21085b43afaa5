//! A network of arcs with room and price, and the cheapest way to carry an amount through it.
//!
//! Successive cheapest paths: each round finds the cheapest path from source to sink that has room
//! left and fills it. Prices are held non-negative by *potentials*, so that Dijkstra's method does
//! for every round; it stops at the sink.
//!
//! 1. An arc carries at most its room, and what enters a vertex between the ends leaves it.
//! 2. Of all ways to carry the same amount, none is cheaper.
//! 3. All rooms are whole numbers, and so is what every arc carries.

use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Vertices and arcs, with what they carry.
#[derive(Clone, Debug)]
pub struct Network {
    /// An arc, and at the next odd place the way back along it.
    arcs: Vec<Arc>,
    leaving: Vec<Vec<u32>>,
    potential: Vec<i128>,
}

#[derive(Clone, Debug)]
struct Arc {
    to: usize,
    /// Room that is left.
    room: u64,
    price: i128,
}

/// An arc of a [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArcId(usize);

/// The amount carried, and its price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// How much; less than asked if there was no more room.
    pub amount: u64,
    /// The price of all of it.
    pub price: u128,
}

impl Network {
    /// Vertices `0..vertices`, no arcs.
    pub fn new(vertices: usize) -> Network {
        Network {
            arcs: Vec::new(),
            leaving: vec![Vec::new(); vertices],
            potential: vec![0; vertices],
        }
    }

    /// Adds an arc.
    pub fn arc(&mut self, from: usize, to: usize, room: u64, price: u64) -> ArcId {
        let id = self.arcs.len();
        let there = Arc {
            to,
            room,
            price: i128::from(price),
        };
        let back = Arc {
            to: from,
            room: 0,
            price: -i128::from(price),
        };
        self.arcs.extend([there, back]);
        self.leaving[from].push(id as u32);
        self.leaving[to].push(id as u32 + 1);
        ArcId(id)
    }

    /// The amount that an arc carries.
    pub fn carried(&self, arc: ArcId) -> u64 {
        self.arcs[arc.0 ^ 1].room
    }

    /// Carries up to `amount` from `source` to `sink`, as cheaply as can be. To be called once.
    pub fn carry(&mut self, source: usize, sink: usize, amount: u64) -> Carried {
        let mut left = amount;
        let mut price = 0;
        while left > 0 {
            let Some(path) = self.cheapest_path(source, sink) else {
                break;
            };
            let room = path.iter().map(|arc| self.arcs[*arc].room).min();
            let filled = room.expect("source and sink differ").min(left);
            for arc in path {
                self.arcs[arc].room -= filled;
                self.arcs[arc ^ 1].room += filled;
                price += self.arcs[arc].price * i128::from(filled);
            }
            left -= filled;
        }
        Carried {
            amount: amount - left,
            price: u128::try_from(price).expect("no arc has a negative price"),
        }
    }

    /// Arcs with room from `source` to `sink`, last first.
    fn cheapest_path(&mut self, source: usize, sink: usize) -> Option<Vec<usize>> {
        let mut reached: Vec<Option<i128>> = vec![None; self.leaving.len()];
        let mut by = vec![usize::MAX; self.leaving.len()];
        let mut final_at = vec![false; self.leaving.len()];
        let mut ahead = BinaryHeap::from([Reverse((0i128, source))]);
        reached[source] = Some(0);
        while let Some(Reverse((price, from))) = ahead.pop() {
            if final_at[from] {
                continue;
            }
            final_at[from] = true;
            if from == sink {
                break;
            }
            for arc in &self.leaving[from] {
                let Arc {
                    to,
                    room,
                    price: step,
                } = self.arcs[*arc as usize];
                let next = price + step + self.potential[from] - self.potential[to];
                if room > 0 && reached[to].is_none_or(|old| next < old) {
                    reached[to] = Some(next);
                    by[to] = *arc as usize;
                    ahead.push(Reverse((next, to)));
                }
            }
        }
        self.raise_potentials(
            &reached,
            &final_at,
            reached[sink].filter(|_| final_at[sink])?,
        );
        Some(self.walk_back(source, sink, &by))
    }

    /// Vertices that the search did not finish count as far as the sink: that keeps prices from
    /// falling below zero.
    fn raise_potentials(&mut self, reached: &[Option<i128>], final_at: &[bool], sink: i128) {
        for (vertex, potential) in self.potential.iter_mut().enumerate() {
            *potential += match reached[vertex] {
                Some(price) if final_at[vertex] => price,
                Some(_) | None => sink,
            };
        }
    }

    fn walk_back(&self, source: usize, sink: usize, by: &[usize]) -> Vec<usize> {
        let mut path = Vec::new();
        let mut at = sink;
        while at != source {
            path.push(by[at]);
            at = self.arcs[by[at] ^ 1].to;
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheap_way_is_filled_first() {
        let mut network = Network::new(4);
        let cheap = network.arc(0, 1, 3, 1);
        network.arc(1, 3, 3, 0);
        let dear = network.arc(0, 2, 9, 5);
        network.arc(2, 3, 9, 0);
        let carried = network.carry(0, 3, 5);
        assert_eq!(
            carried,
            Carried {
                amount: 5,
                price: 3 + 10
            }
        );
        assert_eq!((network.carried(cheap), network.carried(dear)), (3, 2));
    }

    #[test]
    fn an_early_choice_is_taken_back() {
        let mut network = Network::new(4);
        network.arc(0, 1, 1, 0);
        network.arc(0, 2, 1, 10);
        let crossing = network.arc(1, 2, 1, 0);
        network.arc(1, 3, 1, 20);
        network.arc(2, 3, 1, 0);
        assert_eq!(
            network.carry(0, 3, 2),
            Carried {
                amount: 2,
                price: 30
            }
        );
        assert_eq!(network.carried(crossing), 0);
    }

    #[test]
    fn no_more_is_carried_than_there_is_room_for() {
        let mut network = Network::new(2);
        network.arc(0, 1, 4, 7);
        assert_eq!(
            network.carry(0, 1, 9),
            Carried {
                amount: 4,
                price: 28
            }
        );
    }
}
