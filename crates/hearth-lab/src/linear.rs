//! Is a history of calls linearizable? The search is that of Wing and Gong, with Lowe's memory of what was
//! tried. Calls are put in an order one after the other, each as early as it can be. A set of calls
//! done that led to a state is never tried twice. A call without an end may take effect at any later
//! time, or never: it is tried last, and of several that do the same the first. A call that only looks
//! has its place as soon as it sees what is there. A set of calls done that led nowhere leads nowhere
//! from the same state with more of the calls that may not have happened.

use std::collections::HashMap;
use std::hash::Hash;

/// The behaviour of an object under one call after another.
pub(crate) trait Model {
    /// The object's state between two calls.
    type State: Clone + Eq + Hash;
    /// A call with its result.
    type Op: PartialEq;

    /// The state before the first call.
    fn begin(&self) -> Self::State;

    /// The state after a call, or `None` where it cannot have had that result.
    fn step(&self, state: &Self::State, op: &Self::Op) -> Option<Self::State>;

    /// Whether a call changes nothing but what is known of the state.
    fn looks(&self, op: &Self::Op) -> bool;
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
/// Most that are compared of one such pair. Those with the fewest calls that may not have happened come first.
const COMPARED_MOST: usize = 64;

/// Checks a history, and finds the earliest time at which it is wrong.
pub(crate) fn check<M: Model>(model: &M, spans: &[Span<M::Op>]) -> Verdict {
    match search(model, spans, u64::MAX) {
        Some(true) => return Verdict::Right,
        None => return Verdict::TooHard,
        Some(false) => {}
    }
    let mut ends: Vec<u64> = spans.iter().filter_map(|span| span.ended).collect();
    ends.sort_unstable();
    // A history that is wrong stays wrong with more returns, so halving finds the first.
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

/// Calls that ended and their returns in order of time, as a list from which calls are lifted out; place 0 is before
/// the first.
struct List {
    events: Vec<Event>,
    next: Vec<usize>,
    before: Vec<usize>,
    /// Of each call, its place and that of its return.
    places: Vec<(usize, usize)>,
    /// Calls of which nobody knows whether they happened.
    open: Vec<Open>,
}

struct Open {
    index: usize,
    /// The first place in the list after it.
    since: usize,
    /// The place of a call that does the same and may happen earlier.
    twin: Option<usize>,
}

impl List {
    /// Calls that began by `until`; returns after it count as unknown.
    fn new<O: PartialEq>(spans: &[Span<O>], until: u64) -> List {
        let mut order: Vec<(u64, u8, Event)> = Vec::new();
        let mut unknown: Vec<usize> = Vec::new();
        let begun = |(_, span): &(usize, &Span<O>)| span.begun <= until;
        for (index, span) in spans.iter().enumerate().filter(begun) {
            match span.ended.filter(|end| *end <= until) {
                Some(end) => {
                    order.push((span.begun, 0, Event::Call(index)));
                    order.push((end, 1, Event::Return(index)));
                }
                None => unknown.push(index),
            }
        }
        order.sort_by_key(|(at, rank, _)| (*at, *rank));
        unknown.sort_by_key(|index| spans[*index].begun);
        let mut open: Vec<Open> = Vec::new();
        for index in unknown {
            let span = &spans[index];
            let earlier = order.partition_point(|(at, rank, _)| (*at, *rank) <= (span.begun, 0));
            let does_the_same = |other: &Open| spans[other.index].op == span.op;
            let twin = open.iter().rposition(does_the_same);
            open.push(Open {
                index,
                since: earlier + 1,
                twin,
            });
        }
        let events: Vec<Event> = std::iter::once(Event::Call(usize::MAX))
            .chain(order.into_iter().map(|(_, _, event)| event))
            .collect();
        let mut list = List {
            next: (1..=events.len()).collect(),
            before: (0..=events.len()).map(|at| at.saturating_sub(1)).collect(),
            places: vec![(0, 0); spans.len()],
            events,
            open,
        };
        for (at, event) in list.events.iter().enumerate().skip(1) {
            match event {
                Event::Call(index) => list.places[*index].0 = at,
                Event::Return(index) => list.places[*index].1 = at,
            }
        }
        list
    }

    /// Whether no call that ended is left.
    fn is_empty(&self) -> bool {
        self.next[0] == self.events.len()
    }

    /// The calls from a place on that may be next, and behind them the return which must come after its call.
    fn candidates(&self, mut at: usize) -> (impl Iterator<Item = usize> + '_, usize) {
        let from = at;
        while let Some(Event::Call(_)) = self.events.get(at) {
            at = self.next[at];
        }
        let places = std::iter::successors(Some(from), |at| self.next.get(*at).copied());
        let calls = places.map_while(|at| match self.events.get(at) {
            Some(Event::Call(index)) => Some(*index),
            Some(Event::Return(_)) | None => None,
        });
        (calls, at)
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
        let (call, its_return) = self.places[index];
        self.take(call);
        self.take(its_return);
    }

    fn unlift(&mut self, index: usize) {
        let (call, its_return) = self.places[index];
        self.give_back(its_return);
        self.give_back(call);
    }
}

/// The next try: a call that ended, by its place, or one of those without an end.
#[derive(Clone, Copy)]
enum Next {
    Ended(usize),
    Open(usize),
}

/// A call that was put in order: by its number, or by its place if it has no end.
#[derive(Clone, Copy)]
enum Put {
    Ended(usize),
    Open(usize),
}

/// A step of the search.
struct Step<S> {
    put: Put,
    /// The state before it.
    earlier: S,
    /// The call to try instead; `None`: if this order is wrong then all with another call here are.
    instead: Option<Next>,
}

struct Search<'a, M: Model> {
    model: &'a M,
    spans: &'a [Span<M::Op>],
    list: List,
    state: M::State,
    /// Calls that ended, and by their places those without an end, that were put in order.
    done: Bits,
    taken: Bits,
    /// Calls done that led to a state, and beside them the smallest sets of calls without an end that were taken.
    tried: HashMap<(Bits, M::State), Vec<Bits>>,
    count: usize,
    path: Vec<Step<M::State>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Bits(Box<[u64]>);

impl Bits {
    fn none_of(count: usize) -> Bits {
        Bits(vec![0; count.div_ceil(64)].into())
    }

    fn flip(&mut self, at: usize) {
        self.0[at / 64] ^= 1 << (at % 64);
    }

    fn has(&self, at: usize) -> bool {
        self.0[at / 64] & (1 << (at % 64)) != 0
    }

    fn are_among(&self, others: &Bits) -> bool {
        let mut both = self.0.iter().zip(&others.0);
        both.all(|(own, others)| own & !others == 0)
    }
}

/// Whether an order explains what returned by `until`; `None` if that was too much work.
fn search<M: Model>(model: &M, spans: &[Span<M::Op>], until: u64) -> Option<bool> {
    let list = List::new(spans, until);
    let mut search = Search {
        model,
        spans,
        state: model.begin(),
        done: Bits::none_of(spans.len()),
        taken: Bits::none_of(list.open.len()),
        tried: HashMap::new(),
        count: 0,
        path: Vec::new(),
        list,
    };
    search.look();
    let mut next = Next::Ended(search.list.next[0]);
    while !search.list.is_empty() {
        next = match search.go_on(next) {
            true => {
                search.look();
                Next::Ended(search.list.next[0])
            }
            false => match search.go_back() {
                Some(instead) => instead,
                None => return Some(false),
            },
        };
        if search.count > TRIED_MOST {
            return None;
        }
    }
    Some(true)
}

impl<M: Model> Search<'_, M> {
    /// Puts in order, at once, all that only looks and sees what is there: what else comes first, it could come before.
    fn look(&mut self) {
        loop {
            let (mut calls, _) = self.list.candidates(self.list.next[0]);
            let Some(index) = calls.find(|index| {
                let op = &self.spans[*index].op;
                self.model.looks(op)
                    && self.model.step(&self.state, op).as_ref() == Some(&self.state)
            }) else {
                return;
            };
            drop(calls);
            let state = self.state.clone();
            self.put(Put::Ended(index), state, None);
        }
    }

    /// Puts one more call in order: of those that ended from `next` on, or else one that may have happened.
    fn go_on(&mut self, next: Next) -> bool {
        let mut from = 0;
        match next {
            Next::Ended(at) => {
                let (calls, _) = self.list.candidates(at);
                let calls: Vec<usize> = calls.collect();
                for index in calls {
                    let instead = Next::Ended(self.list.next[self.list.places[index].0]);
                    if self.may_be_next(Put::Ended(index), instead) {
                        return true;
                    }
                }
            }
            Next::Open(place) => from = place,
        }
        let (_, bound) = self.list.candidates(self.list.next[0]);
        for place in from..self.list.open.len() {
            let open = &self.list.open[place];
            if open.since > bound {
                return false;
            }
            let waits_for_twin = open.twin.is_some_and(|twin| !self.taken.has(twin));
            if !waits_for_twin
                && !self.taken.has(place)
                && self.may_be_next(Put::Open(place), Next::Open(place + 1))
            {
                return true;
            }
        }
        false
    }

    /// Puts a call in order if it can be next and what that leads to was not tried. One that may not have happened need
    /// not where it changes nothing.
    fn may_be_next(&mut self, put: Put, instead: Next) -> bool {
        let (index, is_open) = match put {
            Put::Ended(index) => (index, false),
            Put::Open(place) => (self.list.open[place].index, true),
        };
        let Some(after) = self.model.step(&self.state, &self.spans[index].op) else {
            return false;
        };
        if is_open && after == self.state {
            return false;
        }
        self.flip(put);
        let tried = self.tried.entry((self.done.clone(), after.clone()));
        let tried = tried.or_default();
        let mut fewest = tried.iter().take(COMPARED_MOST);
        let is_new = !fewest.any(|taken| taken.are_among(&self.taken));
        if is_new {
            tried.push(self.taken.clone());
            self.count += 1;
        }
        self.flip(put);
        if is_new {
            self.put(put, after, Some(instead));
        }
        is_new
    }

    fn put(&mut self, put: Put, after: M::State, instead: Option<Next>) {
        let earlier = std::mem::replace(&mut self.state, after);
        self.path.push(Step {
            put,
            earlier,
            instead,
        });
        self.flip(put);
        if let Put::Ended(index) = put {
            self.list.lift(index);
        }
    }

    /// Takes back the last call for which there was a choice, and says what else to try.
    fn go_back(&mut self) -> Option<Next> {
        loop {
            let step = self.path.pop()?;
            self.state = step.earlier;
            self.flip(step.put);
            if let Put::Ended(index) = step.put {
                self.list.unlift(index);
            }
            if step.instead.is_some() {
                return step.instead;
            }
        }
    }

    fn flip(&mut self, put: Put) {
        match put {
            Put::Ended(index) => self.done.flip(index),
            Put::Open(place) => self.taken.flip(place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Register;

    #[derive(Clone, Copy, Debug, PartialEq)]
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

        fn looks(&self, op: &Do) -> bool {
            matches!(op, Do::Read(_))
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

    #[test]
    fn calls_that_failed_do_not_make_a_history_too_hard() {
        let mut history = Vec::new();
        for step in 0..60_u64 {
            let (at, value) = (step * 100, step as u32);
            history.extend([1, 2].map(|value| (at, 0, Do::Write(value))));
            history.push((at + 1, at + 50, Do::Write(value + 3)));
            history.push((
                at + 60,
                at + 70,
                Do::Read(if step % 7 == 0 { 2 } else { value + 3 }),
            ));
        }
        assert_eq!(verdict(&history), Verdict::Right);
        history.push((6000, 6001, Do::Read(500)));
        assert_eq!(verdict(&history), Verdict::WrongAt(6001));
    }

    /// Whether an order explains a history, by trying all of them.
    fn is_explained(calls: &[Span<Do>], done: &mut Vec<bool>, state: u32) -> bool {
        let left = |index: usize, done: &[bool]| !done[index] && calls[index].ended.is_some();
        if (0..calls.len()).all(|index| !left(index, done)) {
            return true;
        }
        let first_return = (0..calls.len()).filter(|index| left(*index, done));
        let bound = first_return.filter_map(|index| calls[index].ended).min();
        (0..calls.len()).any(|index| {
            let may_be_next =
                !done[index] && bound.is_some_and(|bound| calls[index].begun <= bound);
            let after = Register
                .step(&state, &calls[index].op)
                .filter(|_| may_be_next);
            after.is_some_and(|after| {
                done[index] = true;
                let is_explained = is_explained(calls, done, after);
                done[index] = false;
                is_explained
            })
        })
    }

    #[test]
    fn verdicts_are_those_of_trying_all_orders() {
        let mut random = crate::random::Random::of(1, 1);
        let mut counts = [0; 2];
        for _ in 0..20_000 {
            let calls: Vec<Span<Do>> = (0..7)
                .map(|_| {
                    let begun = random.below(20);
                    let value = random.below(3) as u32;
                    let is_read = random.chance(50);
                    Span {
                        begun,
                        ended: (is_read || random.chance(60)).then(|| begun + 1 + random.below(8)),
                        op: if is_read {
                            Do::Read(value)
                        } else {
                            Do::Write(value)
                        },
                    }
                })
                .collect();
            let is_right = is_explained(&calls, &mut vec![false; calls.len()], 0);
            let verdict = check(&Register, &calls);
            assert_eq!(verdict == Verdict::Right, is_right, "{calls:?}");
            counts[usize::from(is_right)] += 1;
        }
        assert!(counts.iter().all(|count| *count > 1000), "{counts:?}");
    }
}
