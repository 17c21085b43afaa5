//! Room of files that were removed a moment ago.
//!
//! A file without a name keeps its room in the store until every agent has closed it. An agent hears of the removal some
//! milliseconds after the program that removed it is told. So a write that finds no room is tried once more, after a
//! pause. A store that is truly full would make every write wait: after a pause in vain none waits for a while.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hearth_client::Errno;
use rustix::io::Errno as Sys;

/// Agents have closed a file that is gone by then, unless the store or the machine is slow.
const PAUSE: Duration = Duration::from_millis(100);
/// After a pause in vain.
const NO_PAUSE_FOR: Duration = Duration::from_secs(1);

/// When a pause last ended in vain. One for all stores of a process: it has one.
static IN_VAIN: Mutex<Option<Instant>> = Mutex::new(None);

/// Makes a write; once more after a pause, if there was no room and there may be some by then.
pub(super) fn with_room<T>(mut write: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let first = write();
    if !is_without_room(&first) || !is_worth_a_pause(Instant::now()) {
        return first;
    }
    thread::park_timeout(PAUSE);
    let second = write();
    if is_without_room(&second) {
        *lock() = Some(Instant::now());
    }
    second
}

fn is_without_room<T>(written: &Result<T, Errno>) -> bool {
    let errors = [Sys::NOSPC, Sys::DQUOT].map(Sys::raw_os_error);
    matches!(written, Err(Errno(errno)) if errors.contains(errno))
}

fn is_worth_a_pause(now: Instant) -> bool {
    lock().is_none_or(|last| now.saturating_duration_since(last) >= NO_PAUSE_FOR)
}

fn lock() -> std::sync::MutexGuard<'static, Option<Instant>> {
    IN_VAIN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_without_room_is_tried_once_more_but_not_again_and_again() {
        let full = Errno(Sys::NOSPC.raw_os_error());
        let mut tries = 0;
        let mut refuse_until = |last: u32| {
            tries = 0;
            with_room(|| {
                tries += 1;
                if tries > last { Ok(tries) } else { Err(full) }
            })
        };
        assert_eq!(refuse_until(1), Ok(2), "room came during the pause");
        assert_eq!(refuse_until(2), Err(full), "the pause was in vain");
        assert_eq!(refuse_until(1), Err(full), "none waits after that");
        let broken = Errno(Sys::IO.raw_os_error());
        assert_eq!(with_room(|| Err::<(), _>(broken)), Err(broken));
    }
}
