//! Atomics of the world: where it wants that, each use is a place where another thread may go on.
//!
//! Threads take turns, so all see one order of all uses. A model of the memory has the orders beyond that which processors make.

use crate::thread::yield_now;
use std::cell::Cell;
use std::ops::Deref;
use std::sync::atomic;

pub use std::sync::atomic::Ordering;

thread_local! {
    static TAKE_TURNS: Cell<bool> = const { Cell::new(false) };
}

/// From now on in this world uses of atomics are such places.
pub fn take_turns() {
    TAKE_TURNS.set(true);
}

fn turn() {
    if TAKE_TURNS.get() {
        yield_now();
    }
}

/// As in `std`.
pub fn fence(order: Ordering) {
    turn();
    atomic::fence(order);
}

/// Types with the uses that matter for an order; all others are those of `std`.
macro_rules! atomics {
    ($($name:ident($value:ty) { $($fetch:ident)* })*) => { $(
        /// As in `std`, and with its layout.
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(atomic::$name);

        impl $name {
            /// As in `std`.
            pub const fn new(value: $value) -> $name {
                $name(atomic::$name::new(value))
            }

            /// As in `std`.
            pub fn load(&self, order: Ordering) -> $value {
                turn();
                self.0.load(order)
            }

            /// As in `std`.
            pub fn store(&self, value: $value, order: Ordering) {
                turn();
                self.0.store(value, order);
            }

            /// As in `std`.
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                turn();
                self.0.swap(value, order)
            }

            /// As in `std`.
            pub fn compare_exchange(
                &self,
                from: $value,
                to: $value,
                done: Ordering,
                not: Ordering,
            ) -> Result<$value, $value> {
                turn();
                self.0.compare_exchange(from, to, done, not)
            }

            $(
                /// As in `std`.
                pub fn $fetch(&self, value: $value, order: Ordering) -> $value {
                    turn();
                    self.0.$fetch(value, order)
                }
            )*
        }

        impl Deref for $name {
            type Target = atomic::$name;

            fn deref(&self) -> &atomic::$name {
                &self.0
            }
        }
    )* };
}

atomics! {
    AtomicBool(bool) { fetch_or fetch_and }
    AtomicU32(u32) { fetch_add fetch_sub fetch_or fetch_and fetch_min fetch_max }
    AtomicU64(u64) { fetch_add fetch_sub fetch_or fetch_and fetch_min fetch_max }
    AtomicUsize(usize) { fetch_add fetch_sub fetch_or fetch_and fetch_min fetch_max }
}
