//! Calls of programs that this front end has not answered, so that long ones can be told.
//!
//! A call that the session knows is told by the agent. This is for the others: they wait for the store, for a thread, or
//! for a lock of another program.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// A call that took so long is logged when it ends.
const LONG: Duration = Duration::from_secs(8);

/// Calls under way, by the order of arrival. The kernel's requests bound it.
#[derive(Default)]
pub(crate) struct Calls {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    given: u64,
    calls: BTreeMap<u64, Begun>,
}

/// A call, in words, with its node and its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) what: &'static str,
    pub(crate) node: u64,
    pub(crate) since: Instant,
}

/// A call that is under way until this is dropped.
pub(crate) struct Call {
    calls: Arc<Calls>,
    number: u64,
}

impl Calls {
    /// A call begins.
    pub(crate) fn begin(self: &Arc<Self>, what: &'static str, node: u64) -> Call {
        let since = Instant::now();
        let mut table = self.lock();
        table.given += 1;
        let number = table.given;
        table.calls.insert(number, Begun { what, node, since });
        Call {
            calls: Arc::clone(self),
            number,
        }
    }

    /// Those that began before this moment, oldest first.
    pub(crate) fn begun_before(&self, moment: Instant) -> Vec<Begun> {
        let table = self.lock();
        let old = table.calls.values().take_while(|call| call.since < moment);
        old.copied().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("nothing panics under this lock")
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let ended = self.calls.lock().calls.remove(&self.number);
        let Some(Begun { what, node, since }) = ended else {
            return;
        };
        let took = since.elapsed();
        if took >= LONG {
            log::warn!("{what} of node {node} took {} s", took.as_secs());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_under_way_from_its_beginning_to_its_end() {
        let calls = Arc::new(Calls::default());
        let first = calls.begin("a look-up", 7);
        let second = calls.begin("an open", 8);
        let later = Instant::now() + Duration::from_secs(1);
        let told = |calls: &Calls| {
            let begun = calls.begun_before(later);
            begun.iter().map(|call| call.what).collect::<Vec<_>>()
        };
        assert_eq!(told(&calls), ["a look-up", "an open"]);
        drop(first);
        assert_eq!(told(&calls), ["an open"]);
        assert!(calls.begun_before(Instant::now() - LONG).is_empty());
        drop(second);
        assert!(told(&calls).is_empty());
    }
}
