//! Processes of ours, told from later ones with the same number by when they started.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// One process, for as long as the machine is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since the machine did.
    pub started: u64,
}

impl Process {
    /// The process that has this number now.
    pub fn of(pid: u32) -> Option<Process> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (state, started) = parse(&stat)?;
        let is_over = matches!(state, "Z" | "X");
        (!is_over).then_some(Process { pid, started })
    }

    /// Whether it is still there; one that waits to be reaped is not.
    pub fn lives(self) -> bool {
        Process::of(self.pid) == Some(self)
    }

    /// Sends a signal, to this process and never to a later one; nothing if it is gone.
    pub fn signal(self, signal: Signal) -> io::Result<()> {
        let Some(fd) = self.open()? else {
            return Ok(());
        };
        match pidfd_send_signal(fd, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until it is gone, or until the limit: then `false`.
    pub fn wait_gone(self, limit: Duration) -> io::Result<bool> {
        match self.open()? {
            None => Ok(true),
            Some(fd) => wait_readable(&fd, limit),
        }
    }

    fn open(self) -> io::Result<Option<OwnedFd>> {
        let Some(pid) = Pid::from_raw(self.pid.cast_signed()) else {
            return Ok(None);
        };
        let fd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => fd,
            Err(Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // Looked at after the descriptor is held: the number cannot pass to another process now.
        Ok(self.lives().then_some(fd))
    }
}

fn wait_readable(fd: &OwnedFd, limit: Duration) -> io::Result<bool> {
    let end = Instant::now() + limit;
    loop {
        let left = timespec(end.saturating_duration_since(Instant::now()));
        match poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready != 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A span as the kernel takes it.
pub fn timespec(span: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: span.subsec_nanos().into(),
    }
}

/// State and start time in `/proc/PID/stat`. The name stands in parentheses and may hold any
/// letter, so the fields are counted from the last one.
fn parse(stat: &str) -> Option<(&str, u64)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    let started = fields.nth(18)?.parse().ok()?;
    Some((state, started))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20";
        assert_eq!(parse(stat), Some(("S", 4242)));
    }

    #[test]
    fn a_process_is_signalled_waited_for_and_then_gone() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        assert!(process.lives());
        assert!(!process.wait_gone(Duration::ZERO).unwrap());
        process.signal(Signal::KILL).unwrap();
        assert!(process.wait_gone(Duration::from_secs(60)).unwrap());
        assert!(!process.lives());
        child.wait().unwrap();
        process.signal(Signal::KILL).unwrap();
    }

    #[test]
    fn another_process_with_the_same_number_is_not_it() {
        let me = Process::of(std::process::id()).unwrap();
        let other = Process {
            started: me.started + 1,
            ..me
        };
        assert!(!other.lives());
        other.signal(Signal::KILL).unwrap();
    }
}
