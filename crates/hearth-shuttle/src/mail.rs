//! Messages between the nodes of a world: those of two nodes stay in order; nothing else does.

use crate::clock;
use crate::condvar::Condvar;
use crate::dice::Dice;
use shuttle::sync::Mutex;
use std::collections::VecDeque;
use std::time::Duration;

/// An inbox for each node.
pub struct Mail<M> {
    inboxes: Vec<Inbox<M>>,
}

struct Inbox<M> {
    state: Mutex<Arrived<M>>,
    changed: Condvar,
}

struct Arrived<M> {
    /// From each node.
    from: Vec<VecDeque<M>>,
    /// When the node's clock rings.
    due: Option<Duration>,
    dice: Dice,
    closed: bool,
}

/// The next thing for a node's thread to take in.
pub enum Next<M> {
    /// From this node.
    Message(u32, M),
    /// The moment came at which it wants to be woken.
    Due,
    /// Nothing comes any more.
    End,
}

impl<M> Mail<M> {
    /// For so many nodes; the seed draws whose message is next.
    pub fn new(seed: u64, nodes: u32) -> Mail<M> {
        let inbox = |node| Inbox {
            state: Mutex::new(Arrived {
                from: (0..nodes).map(|_| VecDeque::new()).collect(),
                due: None,
                dice: Dice::new(seed, 50 + u64::from(node)),
                closed: false,
            }),
            changed: Condvar::new(),
        };
        Mail {
            inboxes: (0..nodes).map(inbox).collect(),
        }
    }

    fn with(&self, node: u32, change: impl FnOnce(&mut Arrived<M>)) {
        let inbox = &self.inboxes[node as usize];
        change(&mut inbox.state.lock().expect("nothing panics under this lock"));
        inbox.changed.notify_all();
    }

    /// From one node to another.
    pub fn send(&self, from: u32, to: u32, message: M) {
        self.with(to, |inbox| inbox.from[from as usize].push_back(message));
    }

    /// The node wants to be woken then.
    pub fn ring(&self, node: u32, due: Option<Duration>) {
        self.with(node, |inbox| inbox.due = due);
    }

    /// Ends all waits.
    pub fn close(&self) {
        for node in 0..self.inboxes.len() {
            self.with(node as u32, |inbox| inbox.closed = true);
        }
    }

    /// Waits for what a node takes next.
    pub fn next(&self, node: u32) -> Next<M> {
        let inbox = &self.inboxes[node as usize];
        let mut state = inbox.state.lock().expect("nothing panics under this lock");
        loop {
            let now = clock::now();
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
                let message = state.from[from].pop_front().expect("it is not empty");
                return Next::Message(from as u32, message);
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
