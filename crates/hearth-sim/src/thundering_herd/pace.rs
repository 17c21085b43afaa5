//! How fast a machine is that was measured: the times of single steps, one after another as they came.
//!
//! On a real machine slow steps come together, as whoever is at work there has the processor for a while. So
//! some nodes of a herd run ahead of others for the time of many files, and ask for what the others have not
//! read yet. Therefore a herd takes stretches of the times that were measured, and not one time here and one
//! there.

use crate::rng::Rng;
use hearth_proto::Span;

/// Times of one kind of step, in stretches: within one they are in the order in which they were measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times(Vec<Vec<Span>>);

impl Times {
    /// A stretch for each who was measured.
    pub fn new(stretches: impl IntoIterator<Item = Vec<Span>>) -> Times {
        let some = stretches.into_iter().filter(|times| !times.is_empty());
        Times(some.collect())
    }

    /// The next time of who is at a place; at the end of a stretch it goes on anywhere. `None`: nothing was measured.
    pub(super) fn next(&self, place: &mut Option<Place>, rng: &mut Rng) -> Option<Span> {
        let after = |at: &Place| at.step < self.0[at.stretch].len();
        let Place { stretch, step } = match place.take().filter(after) {
            Some(at) => at,
            None => self.anywhere(rng)?,
        };
        *place = Some(Place {
            stretch,
            step: step + 1,
        });
        Some(self.0[stretch][step])
    }

    fn anywhere(&self, rng: &mut Rng) -> Option<Place> {
        let stretch = rng.below(self.0.len() as u64) as usize;
        let steps = self.0.get(stretch)?.len() as u64;
        let step = rng.below(steps) as usize;
        Some(Place { stretch, step })
    }
}

/// A place in measured times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    stretch: usize,
    step: usize,
}

/// The times that were measured, with as many clients at work; if none were, the shape says how long things
/// take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// A request to the store, as its client saw it: the wait for others is in it.
    pub looks: Times,
    /// The same by a client that has just read the names, with which the store sends attributes: its servers are not
    /// asked.
    pub prefetched: Times,
    /// A file out of the memory of a node.
    pub hits: Times,
    /// A message, from node to node.
    pub ways: Times,
}
