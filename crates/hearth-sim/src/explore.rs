//! Exhaustive exploration: every state that a small world can come to, each once.
//!
//! A [`World`] says what can happen next and what then is. [`explore`] sees all of its states, depth first,
//! so that few of them wait in memory. If one of them is wrong it searches once more, nearest first, for one
//! of the shortest stories that end badly. A state is known by its fingerprint, 128 bits of a hash of its
//! canonical form ([`words`]), and is kept itself only until its successors are known. Three things remain of
//! it: the fingerprint, the state from which it was first reached, and by what event. A story is told again
//! from those.
//!
//! Two states that count as one must be so like each other that whatever happens to one can happen to
//! the other, and with the same verdict. Each reduction argues this where it is made: names and
//! versions in [`words`], time and what is left out in `small`, the order of operations in `judge`.
//!
//! Collisions: with `n` states the chance that any two share a fingerprint is below `n² / 2^129`; for
//! 10^8 states that is 10^-23. A collision would hide a state, never invent a violation, because a
//! violation is retold from the beginning before it is reported.

pub mod findings;
pub mod judge;
pub mod literal;
pub mod scope;
mod seen;
pub mod small;
pub mod words;

use crate::check::Violation;
use seen::Seen;
use std::collections::VecDeque;

pub use scope::Scope;
pub use small::Small;

/// A world small enough to try everything.
pub trait World: Clone {
    /// Something that can happen.
    type Event: Copy;

    /// Everything that can happen now.
    fn enabled(&self, events: &mut Vec<Self::Event>);

    /// Lets it happen.
    fn happen(&mut self, event: Self::Event, story: &mut Story) -> Result<(), Violation>;

    /// Judges a state by itself.
    fn judge(&self) -> Result<(), Violation>;

    /// The same for states that count as one, and for no others but by a chance of 2^-128.
    fn fingerprint(&self) -> u128;
}

/// The story of events, a line each, if anybody listens.
#[derive(Debug, Default)]
pub struct Story(Option<Vec<String>>);

impl Story {
    /// Nobody listens.
    pub const fn untold() -> Story {
        Story(None)
    }

    /// Every line is kept.
    pub const fn told() -> Story {
        Story(Some(Vec::new()))
    }

    /// One more line.
    pub fn line(&mut self, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.0 {
            lines.push(line());
        }
    }

    /// All lines.
    pub fn lines(self) -> Vec<String> {
        self.0.unwrap_or_default()
    }
}

/// How far a search has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// States that are known.
    pub states: u64,
    /// Of them, states whose successors are not.
    pub frontier: u64,
    /// Steps that were tried.
    pub steps: u64,
    /// Events from the beginning to the states at hand.
    pub depth: u32,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct SearchOutcome {
    /// How far it came.
    pub progress: Progress,
    /// Most states that waited at once.
    pub frontier_most: u64,
    /// Every state was seen.
    pub exhausted: bool,
    /// The promise that does not hold, with its story.
    pub found: Option<Counterexample>,
}

/// A promise that is broken.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// Which.
    pub violation: Violation,
    /// Events from the beginning.
    pub events: u32,
    /// The events, in words.
    pub story: Vec<String>,
}

/// States between two looks at the watch.
const WATCH_EVERY: u64 = 2048;

/// Which state is looked at next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchOrder {
    /// The one that is nearest to the beginning: the first violation has the shortest story, and whole
    /// levels of states wait in memory.
    Nearest,
    /// The one that was found last: only a path of states waits in memory.
    Latest,
}

/// Sees every state, until one is wrong or `go_on` has had enough. If one is wrong, looks once more for
/// the shortest way to break a promise.
pub fn explore<W: World>(root: &W, mut go_on: impl FnMut(&Progress) -> bool) -> SearchOutcome {
    let outcome = search(root, SearchOrder::Latest, &mut go_on);
    if outcome.found.is_none() {
        return outcome;
    }
    let nearest = search(root, SearchOrder::Nearest, &mut go_on);
    match nearest.found {
        Some(_) => nearest,
        None => outcome,
    }
}

/// Sees every state in some order, until one is wrong or `go_on` has had enough.
pub fn search<W: World>(
    root: &W,
    order: SearchOrder,
    mut go_on: impl FnMut(&Progress) -> bool,
) -> SearchOutcome {
    let mut outcome = SearchOutcome {
        progress: Progress::default(),
        frontier_most: 0,
        exhausted: false,
        found: None,
    };
    let mut seen = Seen::default();
    let mut frontier: VecDeque<(u32, u32, W)> = VecDeque::new();
    let mut enabled = Vec::new();
    if let Err(violation) = root.judge() {
        outcome.found = Some(retell(root, &[], violation));
        return outcome;
    }
    let number = seen.first(root.fingerprint());
    frontier.push_back((number, 0, root.clone()));
    let mut looked = 0;
    while let Some((number, depth, world)) = order.next(&mut frontier) {
        let progress = &mut outcome.progress;
        progress.depth = progress.depth.max(depth);
        progress.states = seen.count();
        progress.frontier = frontier.len() as u64;
        outcome.frontier_most = outcome.frontier_most.max(frontier.len() as u64);
        looked += 1;
        if looked % WATCH_EVERY == 0 && !go_on(progress) {
            return outcome;
        }
        enabled.clear();
        world.enabled(&mut enabled);
        for &event in &enabled {
            let mut next = world.clone();
            let result = next.happen(event, &mut Story::untold());
            outcome.progress.steps += 1;
            let new = match &result {
                Ok(()) => seen.add(next.fingerprint(), number, event),
                Err(_) => None,
            };
            let judged = match (result, new) {
                (Err(violation), _) => Err(violation),
                (Ok(()), Some(_)) => next.judge(),
                (Ok(()), None) => Ok(()),
            };
            if let Err(violation) = judged {
                let mut path = seen.path(number);
                path.push(event);
                outcome.progress.states = seen.count();
                outcome.found = Some(retell(root, &path, violation));
                return outcome;
            }
            if let Some(new) = new {
                frontier.push_back((new, depth + 1, next));
            }
        }
    }
    outcome.progress.states = seen.count();
    outcome.progress.frontier = 0;
    outcome.exhausted = true;
    outcome
}

impl SearchOrder {
    fn next<T>(self, frontier: &mut VecDeque<T>) -> Option<T> {
        match self {
            SearchOrder::Nearest => frontier.pop_front(),
            SearchOrder::Latest => frontier.pop_back(),
        }
    }
}

/// Tells what led to a violation, from the beginning.
fn retell<W: World>(root: &W, path: &[W::Event], violation: Violation) -> Counterexample {
    let mut world = root.clone();
    let mut story = Story::told();
    let mut last = None;
    for &event in path {
        last = world.happen(event, &mut story).err();
    }
    let last = last.or_else(|| world.judge().err());
    assert_eq!(
        last.map(|again| again.check),
        Some(violation.check),
        "a story that is told again ends in the same way"
    );
    Counterexample {
        violation,
        events: path.len() as u32,
        story: story.lines(),
    }
}
