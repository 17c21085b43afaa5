//! Work of a task that others wait for.

use hearth_client::waits::Holds;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::thread;

::std::thread_local! {
    static OF_ALL: RefCell<BTreeMap<usize, Holds>> = RefCell::default();
}

/// A value for each task, of a kind that a thread would have.
pub(crate) struct PerTask<T>(PhantomData<fn() -> T>);

impl<T> PerTask<T> {
    pub(crate) const fn new() -> PerTask<T> {
        PerTask(PhantomData)
    }
}

impl PerTask<RefCell<Holds>> {
    pub(crate) fn with_borrow<T>(&self, look: impl FnOnce(&Holds) -> T) -> T {
        self.with_borrow_mut(|holds| look(holds))
    }

    pub(crate) fn with_borrow_mut<T>(&self, change: impl FnOnce(&mut Holds) -> T) -> T {
        let task = usize::from(thread::current().id());
        OF_ALL.with_borrow_mut(|all| change(all.entry(task).or_default()))
    }
}
