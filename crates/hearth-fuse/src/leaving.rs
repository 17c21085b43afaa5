//! Files whose last name went on another node. The operating system does not know, and remembers them; their room in the
//! store would stay taken for as long. So a while after a revocation this looks whether the file has a name, and lets go.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::nodes::{Hold, Nodes};

/// A revocation comes before the name goes.
const PAUSE: Duration = Duration::from_secs(1);
/// Nodes that are looked at later; those that were noted first give way, and stay until the kernel forgets them.
const NOTED_MAX: usize = 4096;

/// Nodes to look at.
#[derive(Default)]
pub(crate) struct Leaving {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    noted: VecDeque<(Instant, u64)>,
    closed: bool,
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
        if state.noted.back().is_some_and(|&(_, last)| last == node) {
            return;
        }
        if state.noted.len() == NOTED_MAX {
            state.noted.pop_front();
        }
        state.noted.push_back((Instant::now() + PAUSE, node));
        if state.noted.len() == 1 {
            self.changed.notify_one();
        }
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
        while let Some(node) = self.next() {
            if nodes.let_go_if_nameless(node) == Hold::Open {
                self.note(node);
            }
        }
    }

    fn next(&self) -> Option<u64> {
        let mut state = self.lock();
        while !state.closed {
            let due = state.noted.front().map(|&(due, _)| due);
            let rest = due.map(|due| due.saturating_duration_since(Instant::now()));
            state = match rest {
                Some(Duration::ZERO) => return state.noted.pop_front().map(|(_, node)| node),
                Some(rest) => {
                    let waited = self.changed.wait_timeout(state, rest);
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
