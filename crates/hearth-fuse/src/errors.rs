//! One place where everything that can go wrong becomes an error number.

use std::io;
use std::sync::{Arc, Mutex, Once, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use hearth_client::{Done, FileKey, Outcome};
use rustix::process::{Resource, getrlimit};

/// A thread that waits for other agents looks for its answer so often, and gives up after so many looks. A silent agent
/// is given up before, so this is for what nobody thought of.
const LOOK: Duration = Duration::from_secs(1);
const LOOKS_MAX: u64 = 9;

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

/// The value of an outcome, once failures are errors; `None` means that the store must do it.
pub(crate) fn served<T>(outcome: Outcome<T>) -> io::Result<Option<T>> {
    match outcome {
        Outcome::Serve(value) => Ok(Some(value)),
        Outcome::Bypass(_) => Ok(None),
        Outcome::Fail(error) => Err(raw(error.0)),
    }
}

/// An answer that a thread waits for, and its file or directory: for the message if it does not come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sought {
    what: &'static str,
    file: FileKey,
}

impl Sought {
    pub(crate) fn of(what: &'static str, file: FileKey) -> Sought {
        Sought { what, file }
    }

    fn word(self) -> String {
        let (what, ino) = (self.what, self.file.ino);
        format!(
            "{what} of inode {ino} did not come within {} s; `hearth status` names the agent that owes it",
            LOOKS_MAX * LOOK.as_secs()
        )
    }
}

/// Starts something that ends in a completion, and waits for it, for as long as a lock or the store takes: the agent
/// says what is late. Only for threads that [`crate::background`] lets wait, never from a completion.
pub(crate) fn wait<T: Send + 'static>(
    start: impl FnOnce(Box<dyn FnOnce(T) + Send>),
) -> io::Result<T> {
    let (answer, answered) = mpsc::sync_channel(1);
    start(Box::new(move |value| {
        // The asker waits until this has come.
        let _ = answer.send(value);
    }));
    answered.recv().map_err(|_| raw(libc::EIO))
}

/// Starts a session call and waits for its answer, as [`wait`] does; `None` means that the store
/// must do it.
pub(crate) fn ask<T: Send + 'static>(start: impl FnOnce(Done<T>)) -> io::Result<Option<T>> {
    wait(start).and_then(served)
}

/// As [`ask`], for answers that need nothing but other agents: `EIO` if there is none within [`LOOKS_MAX`] seconds.
pub(crate) fn ask_soon<T: Send + 'static>(
    sought: Sought,
    start: impl FnOnce(Done<T>),
) -> io::Result<Option<T>> {
    ask_or(sought, start, drop)
}

/// As [`ask_soon`], for answers that others wait to be used: `unused` is called with one that comes too late.
pub(crate) fn ask_or<T: Send + 'static>(
    sought: Sought,
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
    let mut countdown = Countdown::begin(Instant::now());
    loop {
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *place, Place::Awaited) {
            Place::Told(outcome) => return served(outcome),
            Place::Awaited | Place::GivenUp if countdown.is_over(Instant::now()) => {
                *place = Place::GivenUp;
                log::warn!("{}", sought.word());
                return Err(raw(libc::EIO));
            }
            Place::Awaited | Place::GivenUp => {}
        }
        drop(place);
        thread::park_timeout(countdown.rest(Instant::now()));
    }
}

/// How often a thread has looked for its answer. A look that comes late counts as one: on a host that stood still the
/// answer may have come long ago, and agents give up a silent one by the same count.
struct Countdown {
    count: u64,
    next: Instant,
}

impl Countdown {
    fn begin(now: Instant) -> Countdown {
        Countdown {
            count: 0,
            next: now + LOOK,
        }
    }

    fn is_over(&mut self, now: Instant) -> bool {
        if now >= self.next {
            self.count += 1;
            self.next = now + LOOK;
        }
        self.count >= LOOKS_MAX
    }

    fn rest(&self, now: Instant) -> Duration {
        self.next.saturating_duration_since(now)
    }
}

/// An answer, between who gives it and who waits for it.
enum Place<T> {
    Awaited,
    Told(Outcome<T>),
    GivenUp,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds at each of which a thread looks, after which it gives up.
    fn given_up(each: u64) -> Option<u64> {
        let begun = Instant::now();
        let mut countdown = Countdown::begin(begun);
        let seconds = (0..100).map(|count| count * each);
        let mut over = |&s: &u64| countdown.is_over(begun + Duration::from_secs(s));
        seconds.into_iter().find(&mut over)
    }

    #[test]
    fn an_answer_of_agents_is_awaited_for_less_than_ten_seconds_of_a_thread_that_runs() {
        assert_eq!(given_up(1), Some(9));
        assert_eq!(
            given_up(60),
            Some(9 * 60),
            "a host that stands still each minute"
        );
    }

    #[test]
    fn an_answer_in_time_is_used_and_the_word_for_a_late_one_names_the_file() {
        let sought = Sought::of("leave to keep attributes", FileKey { ino: 7 });
        let unused = |_| panic!("it is used");
        let at_once = ask_or(sought, |done| done(Outcome::Serve(3)), unused);
        assert_eq!(at_once.ok(), Some(Some(3)));
        let word = sought.word();
        assert!(
            word.contains("leave to keep attributes of inode 7") && word.contains("within 9 s"),
            "{word}"
        );
    }
}
