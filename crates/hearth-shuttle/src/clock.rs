//! Time, which goes on when nobody can run.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

thread_local! {
    static CLOCK: RefCell<Clock> = RefCell::default();
}

type Wake = Box<dyn FnOnce()>;

#[derive(Default)]
struct Clock {
    now: Duration,
    made: u64,
    timers: BTreeMap<Timer, Wake>,
}

/// Something that is to happen at a moment. Of two at one moment, the earlier made comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timer {
    due: Duration,
    number: u64,
}

/// The time since the beginning of the world.
pub fn now() -> Duration {
    CLOCK.with_borrow(|clock| clock.now)
}

/// Has something called at a moment, by a thread of its own that must not wait.
pub fn at(due: Duration, wake: impl FnOnce() + 'static) -> Timer {
    CLOCK.with_borrow_mut(|clock| {
        clock.made += 1;
        let number = clock.made;
        let timer = Timer { due, number };
        clock.timers.insert(timer, Box::new(wake));
        timer
    })
}

/// Takes it back.
pub fn cancel(timer: Timer) {
    // Outside of the borrow: what is dropped may ask for the time.
    let gone = CLOCK.with_borrow_mut(|clock| clock.timers.remove(&timer));
    drop(gone);
}

/// The world ends: says when.
pub(crate) fn end() -> Duration {
    let old = CLOCK.take();
    let now = old.now;
    // Its locks are of a world that is no more.
    std::mem::forget(old);
    now
}

/// Goes on to the next moment; false if there is none.
pub(crate) fn go_on() -> bool {
    let next = CLOCK.with_borrow_mut(|clock| {
        let (timer, wake) = clock.timers.pop_first()?;
        clock.now = clock.now.max(timer.due);
        Some(wake)
    });
    next.map(|wake| wake()).is_some()
}
