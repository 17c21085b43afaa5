//! The work of this thread that others wait for, and a check that it asks in order. Debug builds alone check it.

use std::cell::RefCell;

use hearth_client::waits::{Asks, Holds};

thread_local! {
    static HOLDS: RefCell<Holds> = RefCell::default();
}

/// The thread is about to ask. Panics if an answer could wait for what it holds.
pub(crate) fn asks(asks: Asks) {
    if cfg!(debug_assertions) {
        let why = HOLDS.with_borrow(|holds| holds.forbids(asks));
        debug_assert_eq!(why, None, "a thread asks out of order: {asks:?}");
    }
}

/// Notes a change of the work that others wait for.
pub(crate) fn note(change: impl FnOnce(&mut Holds)) {
    if cfg!(debug_assertions) {
        HOLDS.with_borrow_mut(change);
    }
}
