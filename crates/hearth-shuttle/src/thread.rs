//! Threads of the world.

use crate::clock;
use std::io;
use std::time::Duration;

pub use shuttle::thread::{
    JoinHandle, Scope, ScopedJoinHandle, Thread, ThreadId, current, park, scope, spawn, yield_now,
};
pub use std::thread::Result;

/// As [`park`], for so long at most.
pub fn park_timeout(span: Duration) {
    let me = current();
    let timer = clock::at(clock::now() + span, move || me.unpark());
    park();
    clock::cancel(timer);
}

/// Waits for so long.
pub fn sleep(span: Duration) {
    let until = clock::now() + span;
    while clock::now() < until {
        park_timeout(until - clock::now());
    }
}

/// As in `std`.
#[derive(Debug, Default)]
pub struct Builder(shuttle::thread::Builder);

impl Builder {
    /// A thread without a name.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Names it.
    pub fn name(self, name: String) -> Builder {
        Builder(self.0.name(name))
    }

    /// Starts it.
    pub fn spawn<T: Send + 'static>(
        self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        self.0.spawn(f)
    }

    /// Starts it in a scope.
    pub fn spawn_scoped<'scope, T: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        f: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        Ok(scope.spawn(f))
    }
}
