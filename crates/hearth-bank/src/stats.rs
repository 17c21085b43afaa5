//! A daemon's own figures, asked for over a connection of its own.

use crate::address::Address;
use crate::reply::{self, Reply};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A daemon's own figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Its version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Entries that it has.
    pub items: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes that it may have.
    pub bytes_max: u64,
    /// Entries that it forgot for want of room.
    pub evictions: u64,
}

/// Asks a daemon, which has `span` to answer.
pub fn ask(addr: &Address, span: Duration) -> io::Result<Stats> {
    let end = Instant::now() + span;
    match addr {
        Address::Tcp(addr) => {
            let stream = TcpStream::connect_timeout(addr, span)?;
            converse(stream, end, |stream, left| {
                stream.set_read_timeout(Some(left))
            })
        }
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            converse(stream, end, |stream, left| {
                stream.set_read_timeout(Some(left))
            })
        }
    }
}

fn converse<S: Read + Write>(
    mut stream: S,
    end: Instant,
    arm: impl Fn(&S, Duration) -> io::Result<()>,
) -> io::Result<Stats> {
    stream.write_all(b"stats\r\n")?;
    let mut answer = Vec::new();
    let mut bytes = [0; 4096];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        arm(&stream, left)?;
        let count = stream.read(&mut bytes)?;
        answer.extend_from_slice(&bytes[..count]);
        if let Some(stats) = understood(&answer)? {
            return Ok(stats);
        }
        if count == 0 || answer.len() > ANSWER_BYTES_MAX {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The figures, once all of them have come.
fn understood(answer: &[u8]) -> io::Result<Option<Stats>> {
    let mut stats = Stats::default();
    let mut rest = answer;
    while let Some((reply, len)) = reply::first(rest, 0).map_err(io::Error::other)? {
        rest = &rest[len..];
        match reply {
            Reply::Stat("version", text) => text.clone_into(&mut stats.version),
            Reply::Stat("pid", text) => stats.pid = text.parse().unwrap_or_default(),
            Reply::Stat("curr_items", text) => stats.items = text.parse().unwrap_or_default(),
            Reply::Stat("bytes", text) => stats.bytes = text.parse().unwrap_or_default(),
            Reply::Stat("limit_maxbytes", text) => {
                stats.bytes_max = text.parse().unwrap_or_default();
            }
            Reply::Stat("evictions", text) => stats.evictions = text.parse().unwrap_or_default(),
            Reply::Stat(..) => {}
            Reply::StatEnd => return Ok(Some(stats)),
            other => return Err(io::Error::other(format!("it answered {other:?}"))),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_understood_once_all_have_come() {
        let text = b"STAT pid 7\r\nSTAT version 1.6.18\r\nSTAT curr_items 3\r\nSTAT bytes 99\r\n\
            STAT threads 4\r\nSTAT limit_maxbytes 1048576\r\nSTAT evictions 2\r\nEND\r\n";
        for end in 0..text.len() {
            assert_eq!(understood(&text[..end]).unwrap(), None);
        }
        let stats = understood(text).unwrap().unwrap();
        assert_eq!((stats.pid, stats.items, stats.bytes), (7, 3, 99));
        assert_eq!((stats.bytes_max, stats.evictions), (1 << 20, 2));
        assert!(understood(b"HTTP/1.1 400\r\n").is_err());
    }
}
