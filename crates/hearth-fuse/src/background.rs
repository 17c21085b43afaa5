//! Background tasks: work that may wait for the session.
//!
//! The kernel locks folios while a read or a write-back is under way, and a revocation waits for
//! those locks. A worker that waits for the session (which may wait for a revocation) must therefore
//! never be the last one able to take a read. So at most [`INLINE_MAX`] workers wait at a time; what
//! comes beyond goes to a queue with threads of its own.
//!
//! A completion leaves what may block in the store to another queue. Its threads never wait for the session, so a job
//! that waits for a completion always gets it.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
/// Threads for what completions leave.
const LEFT_THREADS: usize = 2;

type Job = Box<dyn FnOnce() + Send>;

/// Runs background tasks: jobs that may wait.
pub(crate) struct BackgroundTasks {
    inline: AtomicUsize,
    spilled: Arc<Queue>,
    left: Arc<Queue>,
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

impl BackgroundTasks {
    pub(crate) fn start() -> io::Result<BackgroundTasks> {
        Ok(BackgroundTasks {
            inline: AtomicUsize::new(0),
            spilled: Queue::serve_by("fuse-background", SPILL_THREADS)?,
            left: Queue::serve_by("fuse-left", LEFT_THREADS)?,
        })
    }

    /// Runs a job here if enough workers stay free, on a thread of its own otherwise.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        // A count only: nothing else is published through it.
        let is_free = self.inline.fetch_add(1, Ordering::Relaxed) < INLINE_MAX;
        let counted = Counted(&self.inline);
        if is_free {
            job();
        } else {
            drop(counted);
            self.spilled.later(job);
        }
    }

    /// Runs a job of a completion, which must not block, on another thread. It may use the store, and never waits for
    /// the session.
    pub(crate) fn later(&self, job: impl FnOnce() + Send + 'static) {
        self.left.later(job);
    }

    /// The queue behind [`BackgroundTasks::later`].
    pub(crate) fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.left)
    }
}

/// A worker that waits, or is about to find out that it may not; also if its job panics.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for BackgroundTasks {
    fn drop(&mut self) {
        for queue in [&self.spilled, &self.left] {
            queue.lock().closed = true;
            queue.changed.notify_all();
        }
    }
}

impl Queue {
    fn serve_by(name: &str, threads: usize) -> io::Result<Arc<Queue>> {
        let queue = Arc::new(Queue::default());
        for number in 0..threads {
            let queue = Arc::clone(&queue);
            thread::Builder::new()
                .name(format!("{name}-{number}"))
                .spawn(move || queue.serve())?;
        }
        Ok(queue)
    }

    /// Leaves a job to the threads of this queue.
    pub(crate) fn later(&self, job: impl FnOnce() + Send + 'static) {
        self.lock().jobs.push_back(Box::new(job));
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no job runs under this lock")
    }

    fn serve(&self) {
        while let Some(job) = self.next() {
            // The program of a job that panics gets `EIO`; the jobs after it still need this thread.
            let _ = catch_unwind(AssertUnwindSafe(job));
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn jobs_that_panic_take_no_thread_along() {
        let background = BackgroundTasks::start().unwrap();
        let (told, ended) = channel();
        for _ in 0..2 * SPILL_THREADS {
            background.spilled.later(|| panic!("on purpose"));
        }
        for _ in 0..INLINE_MAX {
            let caught = catch_unwind(AssertUnwindSafe(|| background.run(|| panic!("on purpose"))));
            assert!(caught.is_err());
        }
        assert_eq!(background.inline.load(Ordering::Relaxed), 0);
        background.spilled.later(move || told.send(()).unwrap());
        let limit = Duration::from_secs(60);
        ended.recv_timeout(limit).expect("a thread is left");
    }

    /// As many opens that empty a file as there can be, each of which waits for what its completion leaves.
    #[test]
    fn jobs_that_wait_get_what_completions_leave() {
        let background = Arc::new(BackgroundTasks::start().unwrap());
        let all = Arc::new(Barrier::new(INLINE_MAX + SPILL_THREADS));
        let (told, ended) = channel();
        for _ in 0..INLINE_MAX + SPILL_THREADS {
            let (background, all, told) = (Arc::clone(&background), Arc::clone(&all), told.clone());
            let own = Arc::clone(&background);
            let job = move || {
                all.wait();
                let (answer, answered) = channel();
                own.later(move || answer.send(()).unwrap());
                answered.recv().unwrap();
                told.send(()).unwrap();
            };
            thread::spawn(move || background.run(job));
        }
        for _ in 0..INLINE_MAX + SPILL_THREADS {
            let limit = Duration::from_secs(60);
            ended.recv_timeout(limit).expect("no job waits for another");
        }
    }
}
