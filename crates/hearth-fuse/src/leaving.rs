//! Files whose last name went on another node. The operating system does not know, and remembers them; their room in the
//! store would stay taken for as long. So a while after a revocation this looks whether the file has a name, and tells the
//! operating system if not. When that forgets the file, its descriptor is closed. Not before: the store could give the
//! file's number to another, which the operating system would then take for it.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use fuser::{INodeNo, Notifier};

use crate::nodes::Nodes;

/// A revocation comes before the name goes: that takes as long as the store does. So there are two looks.
const SOON: Duration = Duration::from_millis(50);
const LATER: Duration = Duration::from_secs(1);
/// Nodes that are looked at later; those that were noted first give way, and stay until the kernel forgets them.
const NOTED_MAX: usize = 4096;

/// Nodes to look at.
#[derive(Default)]
pub(crate) struct Leaving {
    state: Mutex<State>,
    changed: Condvar,
    notifier: OnceLock<Notifier>,
}

#[derive(Default)]
struct State {
    /// Each in the order of time.
    soon: VecDeque<(Instant, u64)>,
    later: VecDeque<(Instant, u64)>,
    closed: bool,
}

/// A node to look at, for the first time or again.
enum Look {
    First(u64),
    Again(u64),
}

impl Leaving {
    /// Starts the thread that looks.
    pub(crate) fn start(nodes: Arc<Nodes>) -> io::Result<Arc<Leaving>> {
        let leaving = Arc::new(Leaving::default());
        let own = Arc::clone(&leaving);
        thread::Builder::new()
            .name("fuse-leaving".to_owned())
            .spawn(move || own.serve(&nodes))?;
        Ok(leaving)
    }

    /// The name of a node may be about to go.
    pub(crate) fn note(&self, node: u64) {
        let mut state = self.lock();
        if put(&mut state.soon, SOON, node) == 1 {
            self.changed.notify_one();
        }
    }

    /// The kernel can be spoken to from here on.
    pub(crate) fn speak_by(&self, notifier: Notifier) {
        // Once per mount.
        let _ = self.notifier.set(notifier);
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    fn serve(&self, nodes: &Nodes) {
        while let Some(look) = self.next() {
            let (Look::First(node) | Look::Again(node)) = look;
            let names = nodes.names_of_gone(node);
            if names.is_empty() && matches!(look, Look::First(_)) {
                put(&mut self.lock().later, LATER, node);
            }
            let Some(notifier) = self.notifier.get() else {
                continue;
            };
            for (parent, name) in names {
                // It may have found out by itself.
                let _ = notifier.delete(INodeNo(parent), INodeNo(node), &name);
            }
        }
    }

    fn next(&self) -> Option<Look> {
        let mut state = self.lock();
        while !state.closed {
            let now = Instant::now();
            if let Some(node) = take(&mut state.soon, now) {
                return Some(Look::First(node));
            }
            if let Some(node) = take(&mut state.later, now) {
                return Some(Look::Again(node));
            }
            let firsts = [state.soon.front(), state.later.front()];
            let due = firsts.into_iter().flatten().map(|&(due, _)| due).min();
            state = match due {
                Some(due) => {
                    let waited = self.changed.wait_timeout(state, due - now);
                    waited.expect("nothing panics under this lock").0
                }
                None => {
                    let waited = self.changed.wait(state);
                    waited.expect("nothing panics under this lock")
                }
            };
        }
        None
    }
}

/// Adds a node, and says how many there are.
fn put(queue: &mut VecDeque<(Instant, u64)>, pause: Duration, node: u64) -> usize {
    if queue.back().is_none_or(|&(_, last)| last != node) {
        if queue.len() == NOTED_MAX {
            queue.pop_front();
        }
        queue.push_back((Instant::now() + pause, node));
    }
    queue.len()
}

/// The first node, if it is due.
fn take(queue: &mut VecDeque<(Instant, u64)>, now: Instant) -> Option<u64> {
    queue.front().filter(|(due, _)| *due <= now)?;
    queue.pop_front().map(|(_, node)| node)
}
