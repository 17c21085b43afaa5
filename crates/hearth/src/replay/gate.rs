//! How far a thread is, for those that wait for it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Counts a thread's steps.
///
/// A step is published before waiters are looked for. A waiter counts itself before it looks at the steps. All of these
/// have one order, so one of the two sees the other.
#[derive(Default)]
pub(crate) struct Gate {
    done: AtomicU64,
    waiting: AtomicU32,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Gate {
    /// One more step is done.
    pub(crate) fn pass(&self) {
        self.done.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let _held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            self.changed.notify_all();
        }
    }

    /// All steps are done that ever will be.
    pub(crate) fn open(&self) {
        self.done.store(u64::MAX / 2, Ordering::SeqCst);
        let _held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.notify_all();
    }

    /// Returns when so many steps are done.
    pub(crate) fn wait(&self, count: u64) {
        if self.done.load(Ordering::SeqCst) >= count {
            return;
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while self.done.load(Ordering::SeqCst) < count {
            held = (self.changed.wait(held)).unwrap_or_else(PoisonError::into_inner);
        }
        drop(held);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_take_turns() {
        let gates = [Gate::default(), Gate::default()];
        let order = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for me in 0..2_usize {
                let (gates, order) = (&gates, &order);
                scope.spawn(move || {
                    for turn in 0..500 {
                        gates[1 - me].wait(turn + me as u64);
                        order.lock().unwrap().push(me);
                        gates[me].pass();
                    }
                });
            }
        });
        let order = order.into_inner().unwrap();
        assert!(order.chunks(2).all(|pair| pair == [0, 1]));
    }
}
