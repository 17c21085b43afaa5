//! One place where everything that can go wrong becomes an error number.

use std::io;
use std::sync::{Arc, Mutex, Once, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use hearth_client::{Done, Outcome};
use rustix::process::{Resource, getrlimit};

/// Longest wait for the session before a store operation that needs its answer.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(30);

/// Said once: programs get the error each time.
static NO_DESCRIPTORS: Once = Once::new();

/// The error number a program gets.
pub(crate) fn errno(error: &io::Error) -> fuser::Errno {
    if error.raw_os_error() == Some(libc::EMFILE) {
        NO_DESCRIPTORS.call_once(|| {
            let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
            log::warn!(
                "too many files are open: each takes one of the {limit} descriptors of this agent; start it where \
                 `ulimit -Hn` is higher"
            );
        });
    }
    fuser::Errno::from_i32(error.raw_os_error().unwrap_or(libc::EIO))
}

/// An error with a fixed number.
pub(crate) fn raw(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// What is left of an outcome once failures are errors; `None` means that the store must do it.
pub(crate) fn served<T>(outcome: Outcome<T>) -> io::Result<Option<T>> {
    match outcome {
        Outcome::Serve(value) => Ok(Some(value)),
        Outcome::Bypass(_) => Ok(None),
        Outcome::Fail(error) => Err(raw(error.0)),
    }
}

/// Starts something that ends in a completion, and waits for it. Only for threads that
/// [`crate::errands`] lets wait, never from a completion.
pub(crate) fn wait<T: Send + 'static>(
    start: impl FnOnce(Box<dyn FnOnce(T) + Send>),
) -> io::Result<T> {
    let (answer, answered) = mpsc::sync_channel(1);
    start(Box::new(move |value| {
        // The asker may have given up.
        let _ = answer.send(value);
    }));
    answered.recv_timeout(ANSWER_WAIT_MAX).map_err(|_| {
        log::warn!("the session did not answer within {ANSWER_WAIT_MAX:?}");
        raw(libc::EIO)
    })
}

/// Starts a session call and waits for its answer, as [`wait`] does; `None` means that the store
/// must do it.
pub(crate) fn ask<T: Send + 'static>(start: impl FnOnce(Done<T>)) -> io::Result<Option<T>> {
    wait(start).and_then(served)
}

/// As [`ask`], for answers that others wait to be used: `unused` is called with one that comes too late.
pub(crate) fn ask_or<T: Send + 'static>(
    start: impl FnOnce(Done<T>),
    unused: impl FnOnce(T) + Send + 'static,
) -> io::Result<Option<T>> {
    let place = Arc::new(Mutex::new(Place::Awaited));
    let told = Arc::clone(&place);
    let wake = thread::current();
    start(Box::new(move |outcome| {
        let mut place = told.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*place, outcome) {
            (Place::GivenUp, Outcome::Serve(late)) => {
                drop(place);
                unused(late);
            }
            (_, outcome) => {
                *place = Place::Told(outcome);
                wake.unpark();
            }
        }
    }));
    let until = Instant::now() + ANSWER_WAIT_MAX;
    loop {
        let now = Instant::now();
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *place, Place::Awaited) {
            Place::Told(outcome) => return served(outcome),
            Place::Awaited | Place::GivenUp if now >= until => {
                *place = Place::GivenUp;
                log::warn!("the session did not answer within {ANSWER_WAIT_MAX:?}");
                return Err(raw(libc::EIO));
            }
            Place::Awaited | Place::GivenUp => {}
        }
        drop(place);
        thread::park_timeout(until - now);
    }
}

/// An answer, between who gives it and who waits for it.
enum Place<T> {
    Awaited,
    Told(Outcome<T>),
    GivenUp,
}
