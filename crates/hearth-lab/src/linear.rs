//! Is a history of calls linearizable? The search of Wing and Gong with Lowe's memory of what was tried:
//! calls are put in an order one after the other, each as early as it can be, and a set of calls
//! done that led to a state is never tried twice. A call without an end may take effect at any later
//! time, or never.

use std::collections::HashSet;
use std::hash::Hash;

/// What an object does with one call after another.
pub(crate) trait Model {
    /// What the object is between two calls.
    type State: Clone + Eq + Hash;
    /// A call with its result.
    type Op;

    /// The state before the first call.
    fn begin(&self) -> Self::State;

    /// The state after a call, or `None` where it cannot have had that result.
    fn step(&self, state: &Self::State, op: &Self::Op) -> Option<Self::State>;
}

/// A call and the time that it took.
#[derive(Clone, Debug)]
pub(crate) struct Span<O> {
    pub(crate) begun: u64,
    /// `None`: nobody knows whether it happened.
    pub(crate) ended: Option<u64>,
    pub(crate) op: O,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Right,
    /// No order explains what had returned by this time; one explains all before.
    WrongAt(u64),
    /// The search came to its bound.
    TooHard,
}

/// Most pairs of calls and state that one search remembers.
const TRIED_MOST: usize = 150_000;

/// Checks a history, and finds the earliest time at which it is wrong.
pub(crate) fn check<M: Model>(model: &M, spans: &[Span<M::Op>]) -> Verdict {
    match search(model, spans, u64::MAX) {
        Some(true) => return Verdict::Right,
        None => return Verdict::TooHard,
        Some(false) => {}
    }
    let mut ends: Vec<u64> = spans.iter().filter_map(|span| span.ended).collect();
    ends.sort_unstable();
    // What is wrong stays wrong with more returns, so halving finds the first.
    let (mut right, mut wrong) = (0, ends.len() - 1);
    while right < wrong {
        let middle = right.midpoint(wrong);
        match search(model, spans, ends[middle]) {
            Some(true) => right = middle + 1,
            Some(false) => wrong = middle,
            None => break,
        }
    }
    Verdict::WrongAt(ends[wrong])
}

#[derive(Clone, Copy)]
enum Event {
    Call(usize),
    Return(usize),
}

/// Events in order of time, as a list from which calls are lifted out; place 0 is before the first.
struct List {
    events: Vec<Event>,
    next: Vec<usize>,
    before: Vec<usize>,
    /// Of each call, the place of its return, or 0.
    returns: Vec<usize>,
    calls: Vec<usize>,
}

impl List {
    /// Calls that began by `until`; returns after it count as unknown.
    fn new<O>(spans: &[Span<O>], until: u64) -> (List, usize) {
        let mut order: Vec<(u64, u8, Event)> = Vec::new();
        let mut ended = 0;
        for (index, span) in spans
            .iter()
            .enumerate()
            .filter(|(_, span)| span.begun <= until)
        {
            order.push((span.begun, 0, Event::Call(index)));
            if let Some(end) = span.ended.filter(|end| *end <= until) {
                order.push((end, 1, Event::Return(index)));
                ended += 1;
            }
        }
        order.sort_by_key(|(at, rank, _)| (*at, *rank));
        let events: Vec<Event> = std::iter::once(Event::Call(usize::MAX))
            .chain(order.into_iter().map(|(_, _, event)| event))
            .collect();
        let mut list = List {
            next: (1..=events.len()).collect(),
            before: (0..=events.len()).map(|at| at.saturating_sub(1)).collect(),
            returns: vec![0; spans.len()],
            calls: vec![0; spans.len()],
            events,
        };
        for (at, event) in list.events.iter().enumerate().skip(1) {
            match event {
                Event::Call(index) => list.calls[*index] = at,
                Event::Return(index) => list.returns[*index] = at,
            }
        }
        (list, ended)
    }

    fn take(&mut self, at: usize) {
        let (before, next) = (self.before[at], self.next[at]);
        self.next[before] = next;
        self.before[next] = before;
    }

    fn give_back(&mut self, at: usize) {
        let (before, next) = (self.before[at], self.next[at]);
        self.next[before] = at;
        self.before[next] = at;
    }

    fn lift(&mut self, index: usize) {
        self.take(self.calls[index]);
        if self.returns[index] != 0 {
            self.take(self.returns[index]);
        }
    }

    fn unlift(&mut self, index: usize) {
        if self.returns[index] != 0 {
            self.give_back(self.returns[index]);
        }
        self.give_back(self.calls[index]);
    }
}

/// Whether an order explains what returned by `until`; `None` if that was too much work.
fn search<M: Model>(model: &M, spans: &[Span<M::Op>], until: u64) -> Option<bool> {
    let (mut list, mut left) = List::new(spans, until);
    let mut done = vec![0_u64; spans.len().div_ceil(64)];
    let mut state = model.begin();
    let mut tried: HashSet<(Box<[u64]>, M::State)> = HashSet::new();
    let mut path: Vec<(usize, M::State)> = Vec::new();
    let mut at = list.next[0];
    while left > 0 {
        if let Event::Call(index) = list.events[at] {
            let after = model.step(&state, &spans[index].op);
            done[index / 64] ^= 1 << (index % 64);
            if let Some(after) =
                after.filter(|after| tried.insert((done.clone().into(), after.clone())))
            {
                path.push((index, std::mem::replace(&mut state, after)));
                left -= usize::from(list.returns[index] != 0);
                list.lift(index);
                at = list.next[0];
            } else {
                done[index / 64] ^= 1 << (index % 64);
                at = list.next[at];
            }
            if tried.len() > TRIED_MOST {
                return None;
            }
        } else {
            // Its call was not put in order, and all that could come before it was tried.
            let Some((index, earlier)) = path.pop() else {
                return Some(false);
            };
            state = earlier;
            left += usize::from(list.returns[index] != 0);
            done[index / 64] ^= 1 << (index % 64);
            list.unlift(index);
            at = list.next[list.calls[index]];
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Register;

    #[derive(Clone, Copy, Debug)]
    enum Do {
        Write(u32),
        Read(u32),
    }

    impl Model for Register {
        type State = u32;
        type Op = Do;

        fn begin(&self) -> u32 {
            0
        }

        fn step(&self, state: &u32, op: &Do) -> Option<u32> {
            match op {
                Do::Write(value) => Some(*value),
                Do::Read(value) => (value == state).then_some(*state),
            }
        }
    }

    fn verdict(calls: &[(u64, u64, Do)]) -> Verdict {
        let spans: Vec<Span<Do>> = calls
            .iter()
            .map(|(begun, ended, op)| Span {
                begun: *begun,
                ended: (*ended != 0).then_some(*ended),
                op: *op,
            })
            .collect();
        check(&Register, &spans)
    }

    #[test]
    fn a_read_beside_a_write_may_see_either_value() {
        for value in [0, 1] {
            let history = [(1, 4, Do::Write(1)), (2, 3, Do::Read(value))];
            assert_eq!(verdict(&history), Verdict::Right);
        }
    }

    #[test]
    fn a_read_of_what_was_overwritten_before_it_began_is_wrong() {
        let history = [
            (1, 2, Do::Write(1)),
            (3, 4, Do::Write(2)),
            (5, 6, Do::Read(1)),
            (7, 8, Do::Read(2)),
        ];
        assert_eq!(verdict(&history), Verdict::WrongAt(6));
    }

    #[test]
    fn old_bytes_after_new_ones_are_wrong_while_the_write_goes_on() {
        let history = [
            (1, 10, Do::Write(1)),
            (2, 3, Do::Read(1)),
            (4, 5, Do::Read(0)),
        ];
        assert_eq!(verdict(&history), Verdict::WrongAt(5));
    }

    #[test]
    fn two_readers_that_see_two_writes_in_two_orders_are_wrong() {
        let history = [
            (1, 10, Do::Write(1)),
            (1, 10, Do::Write(2)),
            (11, 12, Do::Read(1)),
            (13, 14, Do::Read(2)),
        ];
        assert_eq!(verdict(&history), Verdict::WrongAt(14));
    }

    #[test]
    fn a_write_without_an_end_may_show_late_or_never() {
        let late = [
            (1, 0, Do::Write(1)),
            (2, 3, Do::Read(0)),
            (9, 10, Do::Read(1)),
        ];
        assert_eq!(verdict(&late), Verdict::Right);
        assert_eq!(
            verdict(&[(1, 0, Do::Write(1)), (9, 10, Do::Read(0))]),
            Verdict::Right
        );
        let gone = [
            (1, 0, Do::Write(1)),
            (2, 3, Do::Read(1)),
            (4, 5, Do::Read(0)),
        ];
        assert_eq!(verdict(&gone), Verdict::WrongAt(5));
    }

    #[test]
    fn long_histories_of_many_at_once_are_checked_soon() {
        let mut history = Vec::new();
        for step in 0..400_u64 {
            for worker in 0..6 {
                let at = step * 100 + worker;
                history.push((at + 1, at + 90, Do::Write((step * 6 + worker) as u32 + 1)));
            }
            history.push((
                step * 100 + 95,
                step * 100 + 96,
                Do::Read((step * 6) as u32 + 4),
            ));
        }
        assert_eq!(verdict(&history), Verdict::Right);
        history.push((50_000, 50_001, Do::Read(3)));
        assert!(matches!(verdict(&history), Verdict::WrongAt(_)));
    }
}
