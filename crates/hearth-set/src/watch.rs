//! Waits, each of which a signal ends.

use crate::failure::{Failure, OrFail};
use crate::process::timespec;
use crate::signals::Signals;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Fails if a signal has come by which people and systems end a command.
pub fn stop_if_told(signals: &Signals) -> Result<(), Failure> {
    match signals.tell_to_end() {
        false => Ok(()),
        true => Err(Failure::new("ended by a signal")),
    }
}

/// Waits until there is something to be read, or the writer is gone.
pub fn wait_for(words: &impl AsFd, signals: &Signals) -> Result<(), Failure> {
    let forever = Duration::from_secs(u32::MAX.into());
    while !wait(Some(words.as_fd()), signals, forever)? {}
    Ok(())
}

/// Lets time pass: others are to work meanwhile.
pub fn pause(span: Duration, signals: &Signals) -> Result<(), Failure> {
    let end = Instant::now() + span;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        wait(None, signals, left)?;
    }
}

/// Waits once; says whether what was awaited has come.
fn wait(what: Option<BorrowedFd<'_>>, signals: &Signals, limit: Duration) -> Result<bool, Failure> {
    let mut polled: Vec<PollFd<'_>> = signals
        .fds()
        .chain(what)
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    match poll(&mut polled, Some(&timespec(limit))) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error).or_fail(|| "cannot wait".to_owned()),
    }
    stop_if_told(signals)?;
    let come = polled.last().map(|fd| !fd.revents().is_empty());
    Ok(what.is_some() && come == Some(true))
}
