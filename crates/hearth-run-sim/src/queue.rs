//! The clock that nobody sets.

use std::cell::Cell;

::std::thread_local! {
    static LOOKS: Cell<u64> = const { Cell::new(0) };
}

/// Now. Of two looks the later one always tells more, though time stands still while threads run.
pub fn monotonic_ns() -> u64 {
    LOOKS.set(LOOKS.get() + 1);
    std::clock::now().as_nanos() as u64 * 1000 + LOOKS.get()
}
