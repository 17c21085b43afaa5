//! Pipes: two rings of shared memory by which two processes send each other bytes, without a system call
//! while both are awake.
//!
//! One process makes the memory and hands it to the other as a descriptor; each then has an end for writing
//! and one for reading. An end that has nothing to do says so in the memory. The end that changes this is told
//! to wake it, by a doorbell that is the owner's business. [`protocol`] has the argument why none sleeps for ever.
//!
//! Neither process believes what the other writes: positions are checked against the ring, bytes are copied
//! once, and the memory is sealed against shrinking. A process that scribbles there spoils the pipe and
//! nothing else.

pub(crate) mod protocol;

use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{self, Ordering};

use rustix::fs::SealFlags;

use crate::segment::Words;
use protocol::{
    Cells, HEAD_WORDS, LISTENS, WAITS, filled, free, listen, publish, room, wait, wakes,
};

const WORD: usize = size_of::<u64>();
const HEAD_BYTES: usize = HEAD_WORDS * WORD;
/// Each process writes into one of them.
const RINGS: usize = 2;

/// The smallest and the largest ring, in bytes; all are powers of two.
pub const PIPE_BYTES_MIN: usize = 4 << 10;
/// See [`PIPE_BYTES_MIN`].
pub const PIPE_BYTES_MAX: usize = 16 << 20;

/// Bytes after which the reader is told, so that it copies out while the writer copies in.
const STRIDE: usize = 64 << 10;

/// The other process has written what makes no sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spoiled;

impl fmt::Display for Spoiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the memory that is shared with the peer makes no sense")
    }
}

impl std::error::Error for Spoiled {}

/// One ring, and how far this end of it is.
#[derive(Debug)]
struct Ring {
    words: Arc<Words>,
    /// Its first word.
    first: usize,
    capacity: usize,
    /// Bytes that have passed this end.
    at: u64,
}

/// The end of a pipe that bytes are written to.
#[derive(Debug)]
pub struct PipeWriter(Ring);

/// The end of a pipe that bytes are read from.
#[derive(Debug)]
pub struct PipeReader(Ring);

/// Makes both rings, of so many bytes each, a power of two. The descriptor is for the other process.
pub fn make_pipe(name: &str, capacity: usize) -> io::Result<(OwnedFd, PipeWriter, PipeReader)> {
    let count = words_of(capacity)?;
    let (fd, words) = Words::open_to_all(name, count)?;
    let (writer, reader) = ends(words, capacity, [0, 1])?;
    // The other process has not looked yet, and never will before it is told of something.
    wait_for_both(&writer, &reader);
    Ok((fd, writer, reader))
}

/// Maps what another process has made; its ends are the other ones.
pub fn join_pipe(fd: BorrowedFd<'_>) -> io::Result<(PipeWriter, PipeReader)> {
    let seals = rustix::fs::fcntl_get_seals(fd)?;
    let len = usize::try_from(rustix::fs::fstat(fd)?.st_size);
    let len = len.map_err(|_| io::ErrorKind::InvalidData)?;
    let capacity = (len / RINGS).saturating_sub(HEAD_BYTES);
    // Without the seal the other process could take the memory away under our hands.
    if !seals.contains(SealFlags::SHRINK) || words_of(capacity)? * WORD != len {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let words = Words::new(fd.as_fd(), len / WORD)?;
    ends(words, capacity, [1, 0])
}

fn words_of(capacity: usize) -> io::Result<usize> {
    let fits = (PIPE_BYTES_MIN..=PIPE_BYTES_MAX).contains(&capacity) && capacity.is_power_of_two();
    if !fits {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(RINGS * (HEAD_BYTES + capacity) / WORD)
}

fn ends(
    words: Words,
    capacity: usize,
    [out, back]: [usize; 2],
) -> io::Result<(PipeWriter, PipeReader)> {
    words.keep_from_children()?;
    let words = Arc::new(words);
    let ring = |number: usize| Ring {
        words: Arc::clone(&words),
        first: number * (HEAD_BYTES + capacity) / WORD,
        capacity,
        at: 0,
    };
    Ok((PipeWriter(ring(out)), PipeReader(ring(back))))
}

/// Both readers sleep until something is written.
fn wait_for_both(writer: &PipeWriter, reader: &PipeReader) {
    for ring in [&writer.0, &reader.0] {
        ring.store(LISTENS, 1, Ordering::Relaxed);
    }
}

impl Ring {
    /// The runs of memory that so many bytes from the position on are in; the second may be empty.
    fn runs(&self, len: usize) -> [(usize, usize); 2] {
        let begin = self.first * WORD + HEAD_BYTES;
        let from = (self.at % self.capacity as u64) as usize;
        let first = len.min(self.capacity - from);
        [(begin + from, first), (begin, len - first)]
    }

    fn copy_in(&mut self, bytes: &[u8]) {
        let [(start, first), (begin, _)] = self.runs(bytes.len());
        let (one, other) = bytes.split_at(first);
        self.words.copy_in(start, one);
        self.words.copy_in(begin, other);
        self.at += bytes.len() as u64;
    }

    fn copy_out(&mut self, into: &mut [u8]) {
        let [(start, first), (begin, _)] = self.runs(into.len());
        let (one, other) = into.split_at_mut(first);
        self.words.copy_out(start, one);
        self.words.copy_out(begin, other);
        self.at += into.len() as u64;
    }

    fn append(&mut self, len: usize, into: &mut Vec<u8>) {
        for (start, len) in self.runs(len) {
            self.words.append(start, len, into);
        }
        self.at += len as u64;
    }
}

impl Cells for Ring {
    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.words.word(self.first + word).load(order)
    }

    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.words.word(self.first + word).store(value, order);
    }

    fn swap(&self, word: usize, value: u64, order: Ordering) -> u64 {
        self.words.word(self.first + word).swap(value, order)
    }

    fn fence(&self, order: Ordering) {
        atomic::fence(order);
    }
}

impl PipeWriter {
    /// Writes what there is room for; `wake` is called when the reader is to be woken. If that is less than
    /// all, this end is woken once half of the ring is free.
    pub fn write(&mut self, parts: &[IoSlice<'_>], wake: impl Fn()) -> Result<usize, Spoiled> {
        let ring = &mut self.0;
        let capacity = ring.capacity as u64;
        let mut room = room(ring, ring.at, capacity).ok_or(Spoiled)? as usize;
        let (mut written, mut told) = (0, 0);
        for part in parts {
            let mut rest: &[u8] = part;
            while !rest.is_empty() {
                if room == 0 {
                    room = look_again(ring, &wake)?;
                    told = written;
                    if room == 0 {
                        return Ok(written);
                    }
                }
                let len = rest.len().min(room).min(STRIDE);
                ring.copy_in(&rest[..len]);
                (rest, room, written) = (&rest[len..], room - len, written + len);
                if written - told >= STRIDE {
                    tell(ring, &wake);
                    told = written;
                }
            }
        }
        if written > told {
            tell(ring, &wake);
        }
        Ok(written)
    }
}

fn tell(ring: &Ring, wake: &impl Fn()) {
    if publish(ring, ring.at) {
        wake();
    }
}

/// The ring looks full: the room after the reader was told of all, or 0 after saying that this end sleeps.
fn look_again(ring: &Ring, wake: &impl Fn()) -> Result<usize, Spoiled> {
    tell(ring, wake);
    let capacity = ring.capacity as u64;
    let room = wait(ring, ring.at, capacity).ok_or(Spoiled)?;
    if room > 0 {
        wakes(ring, WAITS);
    }
    Ok(room as usize)
}

impl PipeReader {
    /// Fills `into` with what is there; `wake` is called when the writer is to be woken. If that is less
    /// than asked for, this end is woken once something comes.
    pub fn read(&mut self, into: &mut [u8], wake: impl Fn()) -> Result<usize, Spoiled> {
        let mut done = 0;
        self.take(into.len(), wake, |ring, len| {
            ring.copy_out(&mut into[done..done + len]);
            done += len;
        })
    }

    /// The same behind the end of `into`, `most` bytes at most.
    pub fn append(
        &mut self,
        into: &mut Vec<u8>,
        most: usize,
        wake: impl Fn(),
    ) -> Result<usize, Spoiled> {
        self.take(most, wake, |ring, len| ring.append(len, into))
    }

    fn take(
        &mut self,
        most: usize,
        wake: impl Fn(),
        mut copy: impl FnMut(&mut Ring, usize),
    ) -> Result<usize, Spoiled> {
        let ring = &mut self.0;
        let capacity = ring.capacity as u64;
        let mut taken = 0;
        let mut there = filled(ring, ring.at, capacity).ok_or(Spoiled)?;
        while taken < most {
            if there == 0 {
                there = listen(ring, ring.at, capacity).ok_or(Spoiled)?;
                if there == 0 {
                    break;
                }
                wakes(ring, LISTENS);
            }
            let len = (most - taken).min(there as usize).min(STRIDE);
            copy(ring, len);
            (taken, there) = (taken + len, there - len as u64);
            if free(ring, ring.at, there, capacity) {
                wake();
            }
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests;
