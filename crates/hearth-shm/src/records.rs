//! A log of records in memory that outlives its writer.
//!
//! ```text
//! word 0     the format
//! word 1     how often the log was written anew (its upper half), and its length
//! a page on  half 0, then half 1, used in turns: records one after another, each behind its length
//! ```
//!
//! A log that has grown is written anew, shorter, into the other half; then word 1 points there.
//!
//! Invariants:
//! - R1: bytes below the length of word 1 never change while their half is in use. So a writer that dies at any
//!   instruction leaves whole records, as word 1 is stored last (its partner is the load in `mark`).
//! - R2: one thread writes at a time. Readers take no lock; if the log was rewritten meanwhile they look again.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Mutex, PoisonError};

use rustix::fs::FallocateFlags;

use crate::segment::Words;

const FORMAT: u64 = u64::from_le_bytes(*b"hearth.1");
const WORD_FORMAT: usize = 0;
const WORD_MARK: usize = 1;
/// The first half begins here.
const HEAD_BYTES: usize = 4096;
/// Longest log. Memory behind it is taken when it is written.
const HALF_BYTES: usize = 128 << 20;
/// A log is written anew at the earliest when it is twice as long as it was then, and so much longer.
const SLACK_BYTES: usize = 1 << 20;
/// Bytes of a length.
const LENGTH_BYTES: usize = 2;
/// The mark of a log that had no room for a record.
const FULL: u64 = u64::MAX;
/// A reader gives up when the log was written anew so often while it read.
const LOOKS_MAX: u32 = 8;

/// A log of records in memory that outlives its writer.
#[derive(Debug)]
pub struct Records {
    fd: OwnedFd,
    words: Words,
    writer: Mutex<Writer>,
}

#[derive(Debug)]
struct Writer {
    mark: Mark,
    /// The length beyond which the log is written anew, if half of it is worth nothing.
    long: usize,
    /// Bytes of records that later ones have made worthless, as far as writers have said so.
    worthless: usize,
}

/// How often the log was written anew, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    turn: u32,
    len: usize,
}

impl Records {
    /// An empty log.
    pub fn new(name: &str) -> io::Result<Records> {
        let (fd, words) = Words::open_to_all(name, WORDS)?;
        words.word(WORD_FORMAT).store(FORMAT, Ordering::Relaxed);
        Ok(Records::of(fd, words, Mark { turn: 0, len: 0 }))
    }

    /// The log behind a descriptor of one.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Records> {
        let long_enough = rustix::fs::fstat(&fd)?.st_size >= (WORDS * size_of::<u64>()) as i64;
        let is_log = long_enough.then(|| Words::new(fd.as_fd(), WORDS));
        let words = is_log.unwrap_or_else(|| Err(no_log()))?;
        if words.word(WORD_FORMAT).load(Ordering::Relaxed) != FORMAT {
            return Err(no_log());
        }
        let mark = mark(&words)?;
        Ok(Records::of(fd, words, mark))
    }

    fn of(fd: OwnedFd, words: Words, mark: Mark) -> Records {
        let long = mark.long();
        // The writer before has taken its count along.
        let worthless = mark.len;
        let writer = Mutex::new(Writer {
            mark,
            long,
            worthless,
        });
        Records { fd, words, writer }
    }

    /// Adds a record, which makes so many bytes worthless, its own among them. When half of the log is, `shorten` is given
    /// all records and returns those that say the same. A log without room is good for nothing from then on, and
    /// [`Records::read`] says so.
    pub fn append(
        &self,
        (record, worthless): (&[u8], usize),
        shorten: impl FnOnce(&[u8]) -> Vec<u8>,
    ) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let len = LENGTH_BYTES + record.len();
        writer.worthless = writer.worthless.saturating_add(worthless);
        if writer.is_due(len) {
            let shorter = shorten(&self.bytes(writer.mark));
            self.rewrite(&mut writer, &shorter);
        }
        let (Ok(length), true) = (
            u16::try_from(record.len()),
            writer.mark.len + len <= HALF_BYTES,
        ) else {
            return self.spoil();
        };
        let start = writer.mark.start() + writer.mark.len;
        self.words.copy_in(start, &length.to_le_bytes());
        self.words.copy_in(start + LENGTH_BYTES, record);
        writer.mark.len += len;
        self.publish(writer.mark);
    }

    /// Every record, as [`each`] takes them apart.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        for _ in 0..LOOKS_MAX {
            let before = mark(&self.words)?;
            let bytes = self.bytes(before);
            fence(Ordering::Acquire);
            if mark(&self.words)?.turn == before.turn {
                return Ok(bytes);
            }
        }
        let why = "the log is written anew all the time: its writer lives";
        Err(io::Error::new(io::ErrorKind::WouldBlock, why))
    }

    fn bytes(&self, mark: Mark) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.words.append(mark.start(), mark.len, &mut bytes);
        bytes
    }

    fn rewrite(&self, writer: &mut Writer, shorter: &[u8]) {
        let before = writer.mark;
        if shorter.len() > HALF_BYTES {
            return self.spoil();
        }
        writer.mark = Mark {
            turn: before.turn.wrapping_add(1),
            len: shorter.len(),
        };
        writer.long = writer.mark.long();
        writer.worthless = 0;
        self.words.copy_in(writer.mark.start(), shorter);
        self.publish(writer.mark);
        if before.len > 2 * SLACK_BYTES {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // Without it the memory stays taken, for the next turn.
            let _ = rustix::fs::fallocate(
                &self.fd,
                hole,
                before.start() as u64,
                before.len.next_multiple_of(4096) as u64,
            );
        }
    }

    fn publish(&self, mark: Mark) {
        let word = self.words.word(WORD_MARK);
        if word.load(Ordering::Relaxed) != FULL {
            word.store(mark.word(), Ordering::Release);
        }
    }

    fn spoil(&self) {
        self.words.word(WORD_MARK).store(FULL, Ordering::Release);
    }
}

impl Writer {
    /// Whether the log is to be written anew before a record of this length.
    fn is_due(&mut self, len: usize) -> bool {
        let then = self.mark.len + len;
        if then > HALF_BYTES {
            return true;
        }
        let is_long = then > self.long;
        if is_long && self.worthless < self.mark.len / 2 {
            self.long = self.mark.len + SLACK_BYTES;
            return false;
        }
        is_long
    }
}

impl AsFd for Records {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

const WORDS: usize = (HEAD_BYTES + 2 * HALF_BYTES) / size_of::<u64>();

impl Mark {
    fn start(self) -> usize {
        HEAD_BYTES + (self.turn % 2) as usize * HALF_BYTES
    }

    fn word(self) -> u64 {
        u64::from(self.turn) << 32 | self.len as u64
    }

    /// The length beyond which a log that is so long now is written anew.
    fn long(self) -> usize {
        (2 * self.len + SLACK_BYTES).min(HALF_BYTES)
    }
}

fn no_log() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "this memory has no log of this version",
    )
}

fn mark(words: &Words) -> io::Result<Mark> {
    let word = words.word(WORD_MARK).load(Ordering::Acquire);
    let (turn, len) = ((word >> 32) as u32, word as u32 as usize);
    match len <= HALF_BYTES {
        true => Ok(Mark { turn, len }),
        false => {
            let why = "the log had no room for all of its records";
            Err(io::Error::new(io::ErrorKind::StorageFull, why))
        }
    }
}

/// Puts a record behind others.
pub fn push(bytes: &mut Vec<u8>, record: &[u8]) {
    let length = u16::try_from(record.len()).expect("records are short");
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(record);
}

/// The records of a log, in their order. It ends before one that is not whole.
pub fn each(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
        let (record, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        bytes = rest;
        Some(record)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(records: &Records) -> Vec<Vec<u8>> {
        let bytes = records.read().unwrap();
        each(&bytes).map(<[u8]>::to_vec).collect()
    }

    fn again(records: &Records) -> Records {
        Records::from_fd(records.as_fd().try_clone_to_owned().unwrap()).unwrap()
    }

    #[test]
    fn records_are_read_by_whoever_has_the_descriptor() {
        let records = Records::new("test").unwrap();
        records.append((b"one", 0), |_| panic!("it is short"));
        records.append((b"", 0), |_| panic!("it is short"));
        records.append((b"three", 0), |_| panic!("it is short"));
        let other = again(&records);
        assert_eq!(read(&other), [&b"one"[..], b"", b"three"]);
        other.append((b"four", 0), |_| panic!("it is short"));
        assert_eq!(read(&records).len(), 4);
    }

    #[test]
    fn a_record_shows_only_when_it_is_whole() {
        let records = Records::new("test").unwrap();
        records.append((b"one", 0), |_| panic!("it is short"));
        // The writer dies before the length is stored.
        let start = HEAD_BYTES + LENGTH_BYTES + 3;
        records.words.copy_in(start, &[200, 0, 1, 2, 3]);
        assert_eq!(read(&again(&records)), [b"one"]);
        again(&records).append((b"two", 0), |_| panic!("it is short"));
        assert_eq!(read(&again(&records)), [b"one", b"two"]);
    }

    #[test]
    fn a_log_that_has_grown_is_written_anew() {
        let records = Records::new("test").unwrap();
        let record = [7; 1000];
        let mut shortened = 0;
        for _ in 0..5000 {
            records.append((&record, record.len()), |bytes| {
                shortened += 1;
                assert!(bytes.len() > SLACK_BYTES - 2000);
                let mut shorter = Vec::new();
                push(&mut shorter, b"short");
                shorter
            });
        }
        assert_eq!(shortened, 4);
        let read = read(&again(&records));
        assert_eq!(read[0], b"short");
        assert!(read[1..].iter().all(|read| *read == record));
    }

    #[test]
    fn a_log_of_records_that_all_count_is_not_written_anew() {
        let records = Records::new("test").unwrap();
        for _ in 0..5000 {
            records.append((&[7; 1000], 0), |_| panic!("all count"));
        }
        assert_eq!(read(&records).len(), 5000);
    }

    #[test]
    fn a_log_without_room_says_so() {
        let records = Records::new("test").unwrap();
        let too_long = vec![0; usize::from(u16::MAX) + 1];
        records.append((&too_long, 0), |_| panic!("it is short"));
        records.append((b"one", 0), |_| panic!("it is short"));
        let error = records.read().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn other_memory_is_no_log() {
        let fd = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        assert!(Records::from_fd(fd).is_err());
    }
}
