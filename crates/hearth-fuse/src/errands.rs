//! Work that may wait for the session.
//!
//! The kernel locks folios while a read or a write-back is under way, and a revocation waits for
//! those locks. A worker that waits for the session (which may wait for a revocation) must therefore
//! never be the last one able to take a read. So at most [`INLINE_MAX`] workers wait at a time; what
//! comes beyond goes to a queue with threads of its own.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

/// Threads that serve the kernel.
pub(crate) const WORKERS: usize = 4;
/// Workers that may wait for the session at one time.
const INLINE_MAX: usize = WORKERS - 2;
/// Threads for the overflow. The queue before them is bounded by the requests that the kernel has
/// in flight.
const SPILL_THREADS: usize = 2;

type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs that may wait.
pub(crate) struct Errands {
    inline: AtomicUsize,
    queue: Arc<Queue>,
}

/// Jobs that wait for a thread.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl Errands {
    pub(crate) fn start() -> io::Result<Errands> {
        let queue = Arc::new(Queue::default());
        for number in 0..SPILL_THREADS {
            let queue = Arc::clone(&queue);
            thread::Builder::new()
                .name(format!("fuse-errand-{number}"))
                .spawn(move || queue.serve())?;
        }
        Ok(Errands {
            inline: AtomicUsize::new(0),
            queue,
        })
    }

    /// Runs a job here if enough workers stay free, on a thread of its own otherwise.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        // A count only: nothing else is published through it.
        if self.inline.fetch_add(1, Ordering::Relaxed) < INLINE_MAX {
            job();
            self.inline.fetch_sub(1, Ordering::Relaxed);
        } else {
            self.inline.fetch_sub(1, Ordering::Relaxed);
            self.later(job);
        }
    }

    /// Runs a job on a thread of its own: for completions, which must not block.
    pub(crate) fn later(&self, job: impl FnOnce() + Send + 'static) {
        self.queue.later(job);
    }

    /// The queue in which completions leave work that must not be done in them.
    pub(crate) fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.queue)
    }
}

impl Drop for Errands {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.changed.notify_all();
    }
}

impl Queue {
    /// As [`Errands::later`].
    pub(crate) fn later(&self, job: impl FnOnce() + Send + 'static) {
        self.lock().jobs.push_back(Box::new(job));
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no job runs under this lock")
    }

    fn serve(&self) {
        while let Some(job) = self.next() {
            job();
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .expect("no job runs under this lock");
        }
    }
}
