//! Programs that wait for a lock.
//!
//! The store is asked without blocking, again and again, by one thread: a thread per waiter could not be called back
//! when its program is killed. As fuser does not pass the kernel's interrupts on, the thread looks at the waiting
//! program's pending signals itself.

use std::fs;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use fuser::ReplyEmpty;

use crate::calls::Call;
use crate::errors::raw;
use crate::identity::Caller;
use crate::locks::Attempt;
use crate::replies::reply_empty;

const PAUSE_FIRST: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// The thread that waits on behalf of programs.
pub(crate) struct LockWaiter {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    arrived: Vec<Waiting>,
    closed: bool,
}

/// One program in `F_SETLKW` or `flock`. Their number is bounded by the kernel's requests.
struct Waiting {
    caller: Caller,
    /// Under way until it is answered.
    _call: Call,
    attempt: Attempt,
    reply: ReplyEmpty,
    pause: Duration,
    due: Instant,
}

impl LockWaiter {
    pub(crate) fn start() -> io::Result<LockWaiter> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        thread::Builder::new()
            .name("fuse-lock-waiter".to_owned())
            .spawn(move || theirs.serve())?;
        Ok(LockWaiter { shared })
    }

    /// Answers when the lock is granted, or when the program no longer waits.
    pub(crate) fn wait(&self, (caller, call): (Caller, Call), attempt: Attempt, reply: ReplyEmpty) {
        let due = Instant::now() + PAUSE_FIRST;
        let waiting = Waiting {
            caller,
            _call: call,
            attempt,
            reply,
            pause: PAUSE_FIRST,
            due,
        };
        self.shared.lock().arrived.push(waiting);
        self.shared.changed.notify_one();
    }
}

impl Drop for LockWaiter {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    fn serve(&self) {
        let mut waiting = Vec::new();
        while self.gather(&mut waiting) {
            waiting = waiting.into_iter().filter_map(Waiting::tick).collect();
        }
        for one in waiting {
            one.reply.error(fuser::Errno::EINTR);
        }
    }

    /// Sleeps until something is due or arrives; whether to go on.
    fn gather(&self, waiting: &mut Vec<Waiting>) -> bool {
        let mut state = self.lock();
        loop {
            waiting.append(&mut state.arrived);
            if state.closed {
                return false;
            }
            let now = Instant::now();
            let pause = waiting
                .iter()
                .map(|one| one.due.saturating_duration_since(now))
                .min();
            state = match pause {
                Some(Duration::ZERO) => return true,
                Some(pause) => {
                    self.changed
                        .wait_timeout(state, pause)
                        .expect("nothing panics under this lock")
                        .0
                }
                None => self
                    .changed
                    .wait(state)
                    .expect("nothing panics under this lock"),
            };
        }
    }
}

impl Waiting {
    /// Tries once more if it is time; `None` once the program has its answer.
    fn tick(mut self) -> Option<Waiting> {
        if self.due > Instant::now() {
            return Some(self);
        }
        match self.attempt.make() {
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
            result => {
                self.attempt.answer(result, self.reply);
                return None;
            }
        }
        if is_interrupted(self.caller) {
            reply_empty(Err::<(), _>(raw(libc::EINTR)), self.reply);
            return None;
        }
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        self.due = Instant::now() + self.pause;
        Some(self)
    }
}

/// Whether a signal that is not blocked waits for the program, or the program is gone.
fn is_interrupted(caller: Caller) -> bool {
    if caller.tid == 0 {
        return false;
    }
    let Ok(status) = fs::read_to_string(format!("/proc/{}/status", caller.tid)) else {
        return true;
    };
    let pending = signals(&status, "SigPnd:") | signals(&status, "ShdPnd:");
    pending & !signals(&status, "SigBlk:") != 0
}

fn signals(status: &str, field: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
