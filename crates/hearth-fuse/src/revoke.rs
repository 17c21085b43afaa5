//! Drops what the kernel keeps, when the session says so.
//!
//! One queue, one thread as a rule. A notification about pages waits for the kernel's folio locks. So it may wait for a
//! read or a write-back that the session has yet to answer. Nothing else ever waits for this thread while holding
//! a lock.
//!
//! **Shared writable mappings.** A dirty page of a mapping is locked by the kernel from the moment its write-back
//! is sent until it is answered. A revocation of the page itself starts that write-back. Were the revocation to
//! wait, and the write to wait for the revocation, neither would end. So as soon as a write-back of a file is
//! seen, revocations of that file count as done at once. The kernel is told afterwards. Programs on different
//! nodes that map one file shared and writable are given no order between their stores.
//!
//! The thread waits all the same, and the session may answer that write only after other files are revoked: all are, when
//! members change. So a thread that may be held up has another beside it. Orders of one file keep their order.
//!
//! While a truncation of this mount is under way the kernel sends no write-back of the file at all. A revocation
//! of a dirty page waits for one. So the same holds from the request to its answer, for a file that a program of
//! this mount has open and may have mapped. The kernel drops the pages itself when it has that.
//!
//! Programs that keep answers of their own hear of a revocation after the last answer out of memory that it
//! voids. So nothing that such an answer told them outlives it.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fuser::{INodeNo, Notifier};
use hearth_client::{FileKey, LateCall, PageRange, Revoker, Session};
use rustix::fs::FileType;

use crate::calls::{Begun, Calls};
use crate::handles::Way;
use crate::idle::IdleHandles;
use crate::leaving::Leaving;
use crate::memory::Memory;
use crate::nodes::Nodes;

type Done = Box<dyn FnOnce() + Send>;

/// The subject of an order: a file, and its pages or its attributes alone.
type What = (FileKey, Option<PageRange>);

/// The kernel holds back write-backs of a file until this is dropped.
pub(crate) struct HeldBack {
    revoker: Arc<KernelRevoker>,
    file: FileKey,
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        self.revoker.write_back_ends(self.file);
    }
}

/// Threads at most: one per file whose revocation is held up, and one more.
const THREADS_MAX: usize = 64;

/// Asks the kernel for attributes only: no pages, no folio locks, so any thread may.
const ATTRIBUTES_ONLY: i64 = -1;

/// The front end's side of revocation.
pub(crate) struct KernelRevoker {
    nodes: Arc<Nodes>,
    memory: Arc<Memory>,
    idle: Arc<IdleHandles>,
    calls: Arc<Calls>,
    pub(crate) leaving: Arc<Leaving>,
    session: Weak<dyn Session>,
    notifier: OnceLock<Notifier>,
    state: Mutex<State>,
    changed: Condvar,
    /// For the threads that it starts.
    me: Weak<KernelRevoker>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Order>,
    /// Those that a thread is telling the kernel about, at most one per file.
    current: HashMap<FileKey, Order>,
    /// Write-backs of mapped pages that the session has not answered, per file.
    write_backs: HashMap<FileKey, u32>,
    threads: usize,
    closed: bool,
}

impl State {
    /// The place of the first order that may be carried out now.
    fn due(&self) -> Option<usize> {
        let is_free = |order: &Order| !self.current.contains_key(&order.file);
        self.queue.iter().position(is_free)
    }

    /// A thread takes the first order that is due.
    fn begin(&mut self) -> Option<What> {
        let order = self.due().and_then(|at| self.queue.remove(at))?;
        let what = (order.file, order.pages);
        self.current.insert(order.file, order);
        Some(what)
    }

    /// True if one more thread is needed, which is counted from now on.
    fn count_in_helper(&mut self) -> bool {
        let is_needed = self.needs_thread();
        self.threads += usize::from(is_needed);
        is_needed
    }

    /// True if orders are due, and every thread may be held up by a write-back.
    fn needs_thread(&self) -> bool {
        let held_up = self.current.keys();
        let held_up = held_up.filter(|file| self.write_backs.contains_key(file));
        let all_are = held_up.count() >= self.threads;
        all_are && (1..THREADS_MAX).contains(&self.threads) && self.due().is_some()
    }
}

struct Order {
    file: FileKey,
    pages: Option<PageRange>,
    /// Taken when it has been called.
    done: Option<Done>,
}

impl KernelRevoker {
    pub(crate) fn new(
        nodes: Arc<Nodes>,
        (memory, idle): (Arc<Memory>, Arc<IdleHandles>),
        (calls, leaving): (Arc<Calls>, Arc<Leaving>),
        session: Weak<dyn Session>,
    ) -> Arc<KernelRevoker> {
        Arc::new_cyclic(|me| KernelRevoker {
            nodes,
            memory,
            idle,
            calls,
            leaving,
            session,
            notifier: OnceLock::new(),
            state: Mutex::default(),
            changed: Condvar::new(),
            me: Weak::clone(me),
        })
    }

    /// The kernel can be spoken to from here on. Before, it keeps nothing that this agent has told it, and revocations are
    /// done at once.
    pub(crate) fn speak_by(&self, notifier: Notifier) {
        self.leaving.speak_by(notifier.clone());
        // Once per mount.
        let _ = self.notifier.set(notifier);
    }

    /// Starts the thread.
    pub(crate) fn start(self: &Arc<Self>) -> io::Result<JoinHandle<()>> {
        let revoker = Arc::clone(self);
        self.lock().threads = 1;
        named().spawn(move || {
            while let Some(order) = revoker.next() {
                revoker.carry_out(order);
            }
        })
    }

    /// Starts another thread if those that there are may be held up. It ends when nothing is due.
    fn help(&self) {
        if !self.lock().count_in_helper() {
            return;
        }
        let revoker = self.me.upgrade().expect("whoever calls has one");
        let helper = named().spawn(move || {
            while let Some(order) = revoker.next_for_helper() {
                revoker.carry_out(order);
            }
        });
        if let Err(error) = helper {
            self.lock().threads -= 1;
            log::warn!("revocations wait for a write-back: cannot start a thread: {error}");
        }
    }

    /// Ends the thread when the queue is empty; the kernel keeps nothing from then on.
    pub(crate) fn stop(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
        self.leaving.stop();
    }

    /// Makes the kernel ask for the attributes of a node again. Never waits for pages.
    pub(crate) fn drop_attributes(&self, node: u64) {
        self.notify(node, ATTRIBUTES_ONLY, 0);
    }

    /// A write-back of mapped pages arrived; see the head of this file.
    pub(crate) fn write_back_begins(&self, file: FileKey) {
        let freed: Vec<Done> = {
            let mut state = self.lock();
            *state.write_backs.entry(file).or_default() += 1;
            let State { queue, current, .. } = &mut *state;
            let orders = queue.iter_mut().chain(current.values_mut());
            orders
                .filter(|order| order.file == file)
                .filter_map(|order| order.done.take())
                .collect()
        };
        self.help();
        freed.into_iter().for_each(|done| done());
    }

    /// A truncation by a program of this mount begins; see the head of this file.
    pub(crate) fn truncation_begins(self: &Arc<Self>, file: FileKey) -> HeldBack {
        self.write_back_begins(file);
        HeldBack {
            revoker: Arc::clone(self),
            file,
        }
    }

    /// The write-back was answered.
    pub(crate) fn write_back_ends(&self, file: FileKey) {
        let mut state = self.lock();
        let Some(count) = state.write_backs.get_mut(&file) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            state.write_backs.remove(&file);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    fn carry_out(&self, (file, pages): What) {
        self.help();
        self.memory.wait_for_answers(file);
        self.end_idle(file);
        let node = self.nodes.id_of(file);
        self.tell_programs(file, pages, node);
        if let Some(node) = node {
            let (offset, len) = kernel_range(pages);
            self.notify(node, offset, len);
            if pages.is_none() {
                self.leaving.note(node);
            }
        }
        let order = self.lock().current.remove(&file);
        // Another order of the file may be due now.
        self.changed.notify_all();
        if let Some(done) = order.and_then(|order| order.done) {
            done();
        }
    }

    /// The session hears that nobody has the file open by idle handles before it hears that the revocation is done.
    fn end_idle(&self, file: FileKey) {
        let Some(session) = self.session.upgrade() else {
            return;
        };
        for handle in self.idle.take_all(file) {
            if let Way::Session(handle) = handle.way {
                session.close(handle);
            }
        }
    }

    /// Programs forget what they keep of a file, or of all names if it may be a directory.
    fn tell_programs(&self, file: FileKey, pages: Option<PageRange>, node: Option<u64>) {
        let Some(session) = self.session.upgrade() else {
            return;
        };
        let node = node.and_then(|id| self.nodes.node(id).ok());
        match pages.is_some() || node.is_some_and(|node| node.kind == FileType::RegularFile) {
            true => session.file_changed(file),
            false => session.names_changed(),
        }
    }

    fn next(&self) -> Option<What> {
        let mut state = self.lock();
        loop {
            if let Some(order) = state.begin() {
                return Some(order);
            }
            if state.closed && state.queue.is_empty() {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .expect("nothing panics under this lock");
        }
    }

    fn next_for_helper(&self) -> Option<What> {
        let mut state = self.lock();
        let order = state.begin();
        if order.is_none() {
            state.threads -= 1;
        }
        order
    }

    fn notify(&self, node: u64, offset: i64, len: i64) {
        let Some(notifier) = self.notifier.get() else {
            return;
        };
        self.nodes.revoked(node);
        if let Err(error) = notifier.inval_inode(INodeNo(node), offset, len) {
            // The mount is going away, and its pages with it.
            log::debug!("cannot revoke node {node}: {error}");
        }
    }
}

impl Revoker for KernelRevoker {
    fn forget(&self, file: FileKey) {
        self.memory.drop_all_of(file);
    }

    fn revoke(&self, file: FileKey, pages: Option<PageRange>, done: Done) {
        self.memory.drop_all_of(file);
        let early = {
            let mut state = self.lock();
            if state.closed {
                Some(done)
            } else {
                let mut order = Order {
                    file,
                    pages,
                    done: Some(done),
                };
                let early = match state.write_backs.contains_key(&file) {
                    true => order.done.take(),
                    false => None,
                };
                state.queue.push_back(order);
                self.changed.notify_one();
                early
            }
        };
        self.help();
        if let Some(done) = early {
            done();
        }
    }

    fn late(&self, span: Duration) -> Vec<LateCall> {
        let now = Instant::now();
        let begun = now
            .checked_sub(span)
            .map(|then| self.calls.begun_before(then));
        let late = |call: Begun| LateCall {
            what: call.what,
            file: self.nodes.node(call.node).ok().map(|node| node.file()),
            waited: now.saturating_duration_since(call.since),
        };
        begun.into_iter().flatten().map(late).collect()
    }
}

fn named() -> thread::Builder {
    thread::Builder::new().name("fuse-revoker".to_owned())
}

/// Offset and length as the kernel takes them: length 0 means to the end.
fn kernel_range(pages: Option<PageRange>) -> (i64, i64) {
    let Some(range) = pages else { return (0, 0) };
    let offset = i64::try_from(range.offset).unwrap_or(i64::MAX);
    let len = i64::try_from(range.len).unwrap_or(0);
    (offset, len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(ino: u64) -> Order {
        Order {
            file: key(ino),
            pages: None,
            done: None,
        }
    }

    fn key(ino: u64) -> FileKey {
        FileKey { ino }
    }

    #[test]
    fn a_file_that_is_held_up_holds_up_no_other() {
        let mut state = State {
            threads: 1,
            queue: VecDeque::from([order(1), order(1), order(2)]),
            ..State::default()
        };
        assert_eq!(state.begin(), Some((key(1), None)));
        assert!(!state.count_in_helper(), "nothing holds it up");
        state.write_backs.insert(key(1), 1);
        assert!(state.count_in_helper());
        assert_eq!(state.begin(), Some((key(2), None)));
        assert!(!state.count_in_helper());
        assert_eq!(state.begin(), None, "orders of one file keep their order");
        state.current.remove(&key(1));
        assert_eq!(state.begin(), Some((key(1), None)));
    }
}
