//! The network of a world: messages between two nodes stay in order; nothing else does.

use hearth_proto::NodeId;
use hearth_proto::msg::Envelope;
use std::Dice;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// The network.
pub(crate) struct Net {
    inboxes: Vec<Inbox>,
}

struct Inbox {
    state: Mutex<Arrived>,
    changed: Condvar,
}

struct Arrived {
    /// From each node.
    from: Vec<VecDeque<(Envelope, Vec<u8>)>>,
    /// When the node's clock rings.
    due: Option<Duration>,
    dice: Dice,
    closed: bool,
}

/// The next thing for a node's thread to take in.
pub(crate) enum Next {
    Message(NodeId, Box<Envelope>, Vec<u8>),
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
        }
    }

    fn with(&self, node: NodeId, change: impl FnOnce(&mut Arrived)) {
        let inbox = &self.inboxes[node.0 as usize];
        change(&mut inbox.state.lock().expect("nothing panics under this lock"));
        inbox.changed.notify_all();
    }

    pub(crate) fn send(&self, from: NodeId, to: NodeId, message: (Envelope, Vec<u8>)) {
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
                let (envelope, bytes) = state.from[from].pop_front().expect("it is not empty");
                return Next::Message(NodeId(from as u32), Box::new(envelope), bytes);
            }
            let waited = match state.due {
                Some(due) => inbox
                    .changed
                    .wait_timeout(state, due - now)
                    .map(|waited| waited.0)
                    .map_err(drop),
                None => inbox.changed.wait(state).map_err(drop),
            };
            state = waited.expect("nothing panics under this lock");
        }
    }
}
