//! Files whose last name went on another node. The operating system does not know, and remembers them; their room in the
//! store would stay taken for as long. So some milliseconds after a revocation this looks whether the file has a name, and
//! tells the operating system if not. When that forgets the file, its descriptor is closed. Not before: the store could
//! give the file's number to another, and programs that come to the one by its old name would have an error of the other.
//!
//! And directories that another node has moved. The operating system has a directory at one place only. It moves it when
//! it finds it at another, except inside of a rename: that fails with `ESTALE` and is tried once more. So the old place
//! is forgotten as soon as a look finds the directory elsewhere, and look-ups wait for that. The second try looks up
//! the directories of both names first. Such a wait has a bound: who looks up may hold the lock of that very place.
//!
//! The operating system is told under the lock of a directory. A program that waits for this agent may hold that lock. An
//! agent that is killed meanwhile does not end by itself, and somebody else has to end its mount.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use fuser::{INodeNo, Notifier};

use crate::nodes::Nodes;

/// A revocation comes before the name goes: that takes as long as the store does. So there are several looks, each so
/// long after the one before.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(35),
    Duration::from_millis(200),
    Duration::from_secs(1),
];
/// Nodes that are looked at later; those that were noted first give way, and stay until the kernel forgets them.
const NOTED_MAX: usize = 4096;
/// Longest wait of a look-up for a place to be forgotten.
const FORGOTTEN_WITHIN: Duration = Duration::from_millis(20);

/// Nodes to look at.
pub(crate) struct Leaving {
    nodes: Arc<Nodes>,
    state: Mutex<State>,
    changed: Condvar,
    /// A name was forgotten.
    forgotten: Condvar,
    notifier: OnceLock<Notifier>,
}

#[derive(Default)]
struct State {
    /// Nodes that are looked at after each pause, in the order of time.
    due: [VecDeque<(Instant, u64)>; PAUSES.len()],
    /// Names by which the operating system believes a directory that is elsewhere, each with its directory.
    left: VecDeque<(u64, OsString)>,
    /// How many of them are not forgotten yet.
    leaving: usize,
    closed: bool,
}

/// A node to look at, after so many looks, or a name to forget.
enum Look {
    At(u64, usize),
    Left(u64, OsString),
}

impl Leaving {
    /// Starts the thread that looks.
    pub(crate) fn start(nodes: Arc<Nodes>) -> io::Result<Arc<Leaving>> {
        let leaving = Arc::new(Leaving {
            nodes,
            state: Mutex::default(),
            changed: Condvar::new(),
            forgotten: Condvar::new(),
            notifier: OnceLock::new(),
        });
        let own = Arc::clone(&leaving);
        thread::Builder::new()
            .name("fuse-leaving".to_owned())
            .spawn(move || own.serve())?;
        Ok(leaving)
    }

    /// The name of a node may be about to go.
    pub(crate) fn note(&self, node: u64) {
        let mut state = self.lock();
        if state.put(0, node) == 1 {
            self.changed.notify_one();
        }
    }

    /// A directory that the operating system believes at this name was found elsewhere.
    pub(crate) fn left(&self, parent: u64, name: OsString) {
        let mut state = self.lock();
        if state.left.len() < NOTED_MAX {
            state.left.push_back((parent, name));
            state.leaving += 1;
            self.changed.notify_one();
        }
    }

    /// Whether the operating system is about to forget a place.
    pub(crate) fn is_leaving(&self) -> bool {
        self.lock().leaving > 0
    }

    /// Waits until it has, or for a while.
    pub(crate) fn until_left(&self) {
        let waited = self
            .forgotten
            .wait_timeout_while(self.lock(), FORGOTTEN_WITHIN, |state| state.leaving > 0);
        drop(waited.expect("nothing panics under this lock"));
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

    fn serve(&self) {
        while let Some(look) = self.next() {
            match look {
                Look::At(node, looks) => {
                    if !self.tell_if_gone(node) && looks + 1 < PAUSES.len() {
                        self.lock().put(looks + 1, node);
                    }
                }
                Look::Left(parent, name) => {
                    self.forget(parent, &name);
                    self.lock().leaving -= 1;
                    self.forgotten.notify_all();
                }
            }
        }
    }

    /// Tells the operating system of a file that has lost its last name, and says whether it has.
    fn tell_if_gone(&self, node: u64) -> bool {
        let names = self.nodes.names_of_gone(node);
        let notifier = self.notifier.get();
        for (parent, name) in &names {
            // It may have found out by itself.
            let _ = notifier.map(|to| to.delete(INodeNo(*parent), INodeNo(node), name));
        }
        !names.is_empty()
    }

    fn forget(&self, parent: u64, name: &OsStr) {
        if let Some(notifier) = self.notifier.get() {
            // It may have forgotten it by itself, or the directory as well.
            let _ = notifier.inval_entry(INodeNo(parent), name);
        }
    }

    fn next(&self) -> Option<Look> {
        let mut state = self.lock();
        while !state.closed {
            if let Some((parent, name)) = state.left.pop_front() {
                return Some(Look::Left(parent, name));
            }
            let now = Instant::now();
            if let Some(look) = state.take(now) {
                return Some(look);
            }
            let firsts = state.due.iter().filter_map(VecDeque::front);
            let due = firsts.map(|&(due, _)| due).min();
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

impl State {
    /// Adds a node that has been looked at so often, and says how many there are.
    fn put(&mut self, looks: usize, node: u64) -> usize {
        let queue = &mut self.due[looks];
        if queue.back().is_none_or(|&(_, last)| last != node) {
            if queue.len() == NOTED_MAX {
                queue.pop_front();
            }
            queue.push_back((Instant::now() + PAUSES[looks], node));
        }
        queue.len()
    }

    /// A node that is due.
    fn take(&mut self, now: Instant) -> Option<Look> {
        for (looks, queue) in self.due.iter_mut().enumerate() {
            let is_due = queue.front().is_some_and(|&(due, _)| due <= now);
            if let Some((_, node)) = is_due.then(|| queue.pop_front()).flatten() {
                return Some(Look::At(node, looks));
            }
        }
        None
    }
}
