//! Signals as readable descriptors.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::process::Signal;

use crate::failure::{Failure, OrFail};

/// Signals by which people and systems end a command: Ctrl-C, `kill`, a closed terminal, Ctrl-\\.
pub const ENDS: &[Signal] = &[Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

/// Signals that a command hands on to the program that it runs: those that end it, and those by which programs and queues
/// of jobs speak to each other. Without this they would end the command, and take the cache from under the program.
pub const HANDED_ON: &[Signal] = &[
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::VTALARM,
    Signal::XCPU,
];

/// Catches some signals from its making to the end of the process.
#[derive(Debug)]
pub struct Signals(Vec<Caught>);

#[derive(Debug)]
struct Caught {
    signal: Signal,
    stream: UnixStream,
}

impl Signals {
    /// Starts to catch, except for the signals that the starting process wants ignored.
    pub fn catch(signals: &[Signal]) -> Result<Signals, Failure> {
        let ignored = ignored();
        let wanted = signals.iter().copied();
        let wanted = wanted.filter(|signal| ignored >> (signal.as_raw() - 1) & 1 == 0);
        let caught: io::Result<Vec<Caught>> = wanted.map(Caught::new).collect();
        caught
            .map(Signals)
            .or_fail(|| "cannot catch signals".to_owned())
    }

    /// Descriptors that become readable when a signal has come.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|caught| caught.stream.as_fd())
    }

    /// Whether a signal has come since the last call by which people and systems end a command.
    pub fn tell_to_end(&self) -> bool {
        self.take().iter().any(|signal| ENDS.contains(signal))
    }

    /// The signals that have come since the last call.
    pub fn take(&self) -> Vec<Signal> {
        let come = self.0.iter().filter(|caught| caught.has_come());
        come.map(|caught| caught.signal).collect()
    }
}

impl Caught {
    fn new(signal: Signal) -> io::Result<Caught> {
        let (stream, writer) = UnixStream::pair()?;
        stream.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(signal.as_raw(), writer)?;
        Ok(Caught { signal, stream })
    }

    fn has_come(&self) -> bool {
        let mut bytes = [0; 64];
        matches!((&self.stream).read(&mut bytes), Ok(count) if count > 0)
    }
}

/// One bit for each ignored signal, the lowest for signal 1.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
