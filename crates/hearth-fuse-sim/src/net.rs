//! The network of a world: messages between two nodes stay in order; nothing else does.

use crate::agent::Agent;
use crate::nodes::proc_path;
use hearth_proto::NodeId;
use hearth_proto::msg::Envelope;
use real_rustix::fs::{Mode, OFlags};
use std::Dice;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

/// The network, and the files that nodes tell each other of.
pub(crate) struct Net {
    inboxes: Vec<Inbox>,
    pub(crate) agents: OnceLock<Vec<Arc<Agent>>>,
}

struct Inbox {
    state: Mutex<Arrived>,
    changed: Condvar,
}

struct Arrived {
    /// From each node.
    from: Vec<VecDeque<(Envelope, u32)>>,
    /// When the node's clock rings.
    due: Option<Duration>,
    dice: Dice,
    closed: bool,
}

/// The next thing for a node's thread to take in.
pub(crate) enum Next {
    Message(NodeId, Envelope, u32),
    Due,
    End,
}

impl Net {
    pub(crate) fn new(seed: u64, nodes: u32) -> Net {
        let inbox = |node| Inbox {
            state: Mutex::new(Arrived {
                from: (0..nodes).map(|_| VecDeque::new()).collect(),
                due: None,
                dice: Dice::new(seed, 50 + u64::from(node)),
                closed: false,
            }),
            changed: Condvar::new(),
        };
        Net {
            inboxes: (0..nodes).map(inbox).collect(),
            agents: OnceLock::new(),
        }
    }

    fn with(&self, node: NodeId, change: impl FnOnce(&mut Arrived)) {
        let inbox = &self.inboxes[node.0 as usize];
        change(&mut inbox.state.lock().expect("nothing panics under this lock"));
        inbox.changed.notify_all();
    }

    /// With so many bytes.
    pub(crate) fn send(&self, from: NodeId, to: NodeId, message: (Envelope, u32)) {
        self.with(to, |inbox| inbox.from[from.0 as usize].push_back(message));
    }

    /// The node wants to be woken then.
    pub(crate) fn ring(&self, node: NodeId, due: Option<Duration>) {
        self.with(node, |inbox| inbox.due = due);
    }

    pub(crate) fn close(&self) {
        for node in 0..self.inboxes.len() {
            self.with(NodeId(node as u32), |inbox| inbox.closed = true);
        }
    }

    /// Waits for what a node takes next.
    pub(crate) fn next(&self, node: NodeId) -> Next {
        let inbox = &self.inboxes[node.0 as usize];
        let mut state = inbox.state.lock().expect("nothing panics under this lock");
        loop {
            let now = std::clock::now();
            if state.closed {
                return Next::End;
            }
            if state.due.is_some_and(|due| due <= now) {
                state.due = None;
                return Next::Due;
            }
            let some = state.from.iter().enumerate();
            let some = some.filter(|(_, queue)| !queue.is_empty());
            let some: Vec<usize> = some.map(|(from, _)| from).collect();
            if !some.is_empty() {
                let from = some[state.dice.below(some.len() as u64) as usize];
                let (envelope, len) = state.from[from].pop_front().expect("it is not empty");
                return Next::Message(NodeId(from as u32), envelope, len);
            }
            state = match state.due {
                Some(due) => {
                    let waited = inbox.changed.wait_timeout(state, due - now);
                    waited.expect("nothing panics under this lock").0
                }
                None => {
                    let waited = inbox.changed.wait(state);
                    waited.expect("nothing panics under this lock")
                }
            };
        }
    }
}

/// Descriptors of files that somebody has opened: agents tell each other where a file is.
#[derive(Default)]
pub(crate) struct Opened(std::plain::Mutex<std::collections::BTreeMap<u64, Arc<OwnedFd>>>);

impl Opened {
    pub(crate) fn seen(&self, file: u64, fd: &Arc<OwnedFd>) {
        let mut all = self.0.lock().expect("nothing panics under this lock");
        all.entry(file).or_insert_with(|| {
            let flags = OFlags::RDWR | OFlags::CLOEXEC;
            let open = real_rustix::fs::open(proc_path(fd), flags, Mode::empty());
            open.map_or_else(|_| Arc::clone(fd), Arc::new)
        });
    }

    pub(crate) fn of(&self, file: u64) -> Option<Arc<OwnedFd>> {
        let all = self.0.lock().expect("nothing panics under this lock");
        all.get(&file).cloned()
    }
}
