//! When each modelled I/O server is free again, shared by all processes that open the same file.
//!
//! A request takes its turn with [`ServerQueue::reserve`] and then sleeps until the turn has
//! ended: that is all there is to a first-come-first-served server. There is no lock and no owner,
//! so a process that dies leaves at worst a turn that nobody uses.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use rustix::time::ClockId;

use crate::segment::Words;

/// Most servers of one queue file.
pub const SERVERS_MAX: usize = WORDS - 1;

// One page, whatever the number of servers: the file never changes size once it has one.
const WORDS: usize = 512;
const FILE_BYTES: u64 = (WORDS * size_of::<u64>()) as u64;

/// First word of the file: a mark in the upper half, the number of servers in the lower.
const MARK: u64 = 0x4865_6172 << 32;

/// A server that seems busy for longer than this holds a value from before a reboot (the clock
/// starts anew) or rubbish; it is taken to be free.
const BACKLOG_MAX_NS: u64 = 60_000_000_000;

/// One request's time at a server, in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The server begins.
    pub start_ns: u64,
    /// The server is done.
    pub end_ns: u64,
}

/// The queues of some modelled I/O servers.
#[derive(Debug)]
pub struct ServerQueue {
    words: Words,
    servers: usize,
}

impl ServerQueue {
    /// Opens the queues of `servers` servers in the file at `path`, which is made if missing.
    ///
    /// Fails if the file was made for another number of servers.
    pub fn open(path: &Path, servers: usize) -> io::Result<Self> {
        if !(1..=SERVERS_MAX).contains(&servers) {
            let why = format!("{servers} modelled servers: not from 1 to {SERVERS_MAX}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        set_len_once(&file)?;
        let words = Words::new(file.as_fd(), WORDS)?;
        let mark = MARK | servers as u64;
        // No bytes are published by the mark: unused words are zero, which means free.
        match words
            .word(0)
            .compare_exchange(0, mark, Ordering::Relaxed, Ordering::Relaxed)
        {
            Ok(_) => Ok(Self { words, servers }),
            Err(found) if found == mark => Ok(Self { words, servers }),
            Err(_) => Err(unusable(path, &format!("not a queue of {servers} servers"))),
        }
    }

    /// Number of servers.
    pub fn servers(&self) -> usize {
        self.servers
    }

    /// Takes the next `service_ns` nanoseconds of a server, from now or from when it is free.
    pub fn reserve(&self, server: usize, service_ns: u64) -> Turn {
        self.reserve_at(monotonic_ns(), server, service_ns)
    }

    fn reserve_at(&self, now_ns: u64, server: usize, service_ns: u64) -> Turn {
        assert!(server < self.servers, "server {server} of {}", self.servers);
        let busy_until = self.words.word(1 + server);
        let turn_after = |busy_ns: u64| {
            let stale = busy_ns > now_ns.saturating_add(BACKLOG_MAX_NS);
            let start_ns = if stale { now_ns } else { busy_ns.max(now_ns) };
            Turn {
                start_ns,
                end_ns: start_ns.saturating_add(service_ns),
            }
        };
        // Relaxed: the word carries only itself; no other memory is read on the strength of it.
        let before = busy_until
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |busy_ns| {
                Some(turn_after(busy_ns).end_ns)
            })
            .expect("the closure always has a next value");
        turn_after(before)
    }
}

/// Now, on the clock of [`Turn`].
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).expect("the monotonic clock starts at zero");
    let nanos = u64::try_from(now.tv_nsec).expect("nanoseconds are not negative");
    seconds * 1_000_000_000 + nanos
}

// Processes that race here all set the same length.
fn set_len_once(file: &File) -> io::Result<()> {
    match file.metadata()?.len() {
        0 => file.set_len(FILE_BYTES),
        FILE_BYTES => Ok(()),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "server queue file has a strange length",
        )),
    }
}

fn unusable(path: &Path, why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("open server queue `{}`: {why}", path.display()),
    )
}

#[cfg(test)]
mod tests;
