//! Write rings: memory in which a program leaves writes for its agent, without a system call.
//!
//! A write ring is of one program and its agent alone: what a program scribbles there spoils its own writes. The
//! agent makes it, and believes nothing that is in it: heads are read once and checked, bytes are copied,
//! and a tail that makes no sense ends the write ring. [`protocol`] has the argument why a write that was left
//! is seen by whatever comes after it.
//!
//! Two write rings may write one page. Each entry has the time at which its write began, by the clock that nobody
//! sets, which is one for all processors: of two writes of which one had ended when the other began, it is
//! the earlier. The agent reads the clock, then takes what is there, and applies in that order what is
//! older than its own reading. Whatever came before such an entry was there to be taken.

pub(crate) mod protocol;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{self, AtomicU64, Ordering};

use crate::index::protocol::PageName;
use crate::queue::monotonic_ns;
use crate::segment::Words;
use crate::view::PoolView;
use protocol::{
    HEAD_WORDS, HEADS, Ring, SLOT_BYTES, SLOTS, Said, Verdict, describe, end, judge, let_go,
    publish, read, retract, room, seize, settle, slots_of, take, verdict,
};

/// Rings side by side in one write ring; threads that find all of them taken make the real call.
const RINGS: usize = 2;
/// Longer writes are passed by.
pub const LEFT_MAX: usize = 64 << 10;

const WORD: usize = size_of::<u64>();
/// The offset in a ring at which the bytes of its entries begin.
const BYTES_AT: usize = ((HEADS + SLOTS as usize * HEAD_WORDS) * WORD).next_multiple_of(SLOT_BYTES);
const BYTES: usize = SLOTS as usize * SLOT_BYTES;
const RING_BYTES: usize = BYTES_AT + BYTES;
const WRITE_RING_WORDS: usize = RINGS * RING_BYTES / WORD;

/// Bytes that a program can have left at most.
pub const WRITE_RING_BYTES: u64 = (RINGS * BYTES) as u64;

/// Looks at the gate while it is shut: it opens within microseconds, or for long not.
const LOOKS: u32 = 128;
/// Looks for a verdict before the processor is given to others.
const TURNS: u32 = 256;

/// One of the rings side by side in a write ring.
struct Part<'a> {
    words: &'a Words,
    number: usize,
}

impl Part<'_> {
    #[inline(always)]
    fn word(&self, word: usize) -> &AtomicU64 {
        self.words.word(self.number * RING_BYTES / WORD + word)
    }

    /// The two runs of memory that so many bytes at a position are in.
    #[inline(always)]
    fn runs(&self, at: u64, len: usize) -> (usize, usize) {
        let first = (at % SLOTS) as usize * SLOT_BYTES;
        let start = self.number * RING_BYTES + BYTES_AT + first;
        (start, len.min(BYTES - first))
    }

    #[inline(always)]
    fn fill(&self, at: u64, bytes: &[u8]) {
        let (start, first) = self.runs(at, bytes.len());
        self.words.copy_in(start, &bytes[..first]);
        if first < bytes.len() {
            let begin = self.number * RING_BYTES + BYTES_AT;
            self.words.copy_in(begin, &bytes[first..]);
        }
    }

    fn copy(&self, at: u64, into: &mut [u8]) {
        let (start, first) = self.runs(at, into.len());
        let (one, other) = into.split_at_mut(first);
        self.words.copy_out(start, one);
        if !other.is_empty() {
            let begin = self.number * RING_BYTES + BYTES_AT;
            self.words.copy_out(begin, other);
        }
    }
}

impl Ring for Part<'_> {
    #[inline(always)]
    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.word(word).load(order)
    }

    #[inline(always)]
    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.word(word).store(value, order);
    }

    #[inline(always)]
    fn fence(&self, order: Ordering) {
        atomic::fence(order);
    }

    fn set(&self, word: usize, bits: u64, order: Ordering) -> u64 {
        self.word(word).fetch_or(bits, order)
    }

    #[inline(always)]
    fn replace(&self, word: usize, from: u64, to: u64, order: Ordering) -> bool {
        let word = self.word(word);
        word.compare_exchange(from, to, order, Ordering::Relaxed)
            .is_ok()
    }
}

/// A program's side of its write ring.
#[derive(Debug)]
pub struct WriteRing {
    words: Words,
}

/// How a write that was to be left went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneOutcome {
    /// It is done; the agent should be told if there is much.
    Done {
        /// Another quarter of the ring is in use.
        much: bool,
    },
    /// The page is not offered, or not as far.
    NotOffered,
    /// The gate was shut, or was meanwhile.
    Shut,
    /// The agent has not come to what was left before.
    Full,
    /// Other threads have all rings.
    Busy,
    /// The agent is gone.
    Dead,
}

impl WriteRing {
    /// Maps a write ring that an agent has made. A child does not get it with its parent's memory.
    pub(crate) fn of(fd: BorrowedFd<'_>) -> io::Result<WriteRing> {
        let seals = rustix::fs::fcntl_get_seals(fd)?;
        let len = rustix::fs::fstat(fd)?.st_size;
        if len < (WRITE_RING_WORDS * WORD) as i64 || !seals.contains(rustix::fs::SealFlags::SHRINK)
        {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let words = Words::new(fd, WRITE_RING_WORDS)?;
        words.keep_from_children()?;
        Ok(WriteRing { words })
    }

    /// Leaves a write of some bytes to a file, all of them or none. Neither allocates nor waits, but for an
    /// agent that is at these very bytes.
    #[inline(always)]
    pub fn leave(&self, view: &PoolView, file: u64, offset: u64, bytes: &[u8]) -> LaneOutcome {
        self.leave_by(monotonic_ns, view, (file, offset), bytes)
    }

    /// The same by another clock, which an agent must not believe: for tests of agents.
    #[doc(hidden)]
    #[inline(always)]
    pub fn leave_by(
        &self,
        clock: impl FnOnce() -> u64,
        view: &PoolView,
        (file, offset): (u64, u64),
        bytes: &[u8],
    ) -> LaneOutcome {
        if bytes.is_empty() || bytes.len() > LEFT_MAX {
            return LaneOutcome::NotOffered;
        }
        let Some(gate) = open_gate(view) else {
            return LaneOutcome::Shut;
        };
        if !is_offered(view, file, offset, bytes.len()) {
            return LaneOutcome::NotOffered;
        }
        let part = |number| Part {
            words: &self.words,
            number,
        };
        let Some(ring) = (0..RINGS).map(part).find(seize) else {
            return LaneOutcome::Busy;
        };
        let left = leave_in(&ring, view, (gate, clock), (file, offset, bytes));
        let_go(&ring);
        left
    }
}

/// Whether a write of so many bytes is within a page, and as far as that is offered now.
#[inline(always)]
pub fn is_offered(view: &PoolView, file: u64, offset: u64, count: usize) -> bool {
    let page_bytes = view.page_bytes();
    let end = offset % page_bytes + count as u64;
    let page = offset / page_bytes;
    end <= page_bytes && end <= view.offered(PageName { file, page })
}

/// The gate's number, once it is open.
#[inline(always)]
fn open_gate(view: &PoolView) -> Option<u64> {
    let gate = view.gate();
    if gate % 2 == 1 {
        return Some(gate);
    }
    (0..LOOKS).find_map(|_| {
        std::hint::spin_loop();
        Some(view.gate()).filter(|gate| gate % 2 == 1)
    })
}

#[inline(always)]
fn leave_in(
    ring: &Part<'_>,
    view: &PoolView,
    (gate, clock): (u64, impl FnOnce() -> u64),
    (file, offset, bytes): (u64, u64, &[u8]),
) -> LaneOutcome {
    let len = bytes.len() as u64;
    let slots = slots_of(len);
    let Some((at, used)) = room(ring, slots) else {
        return LaneOutcome::Full;
    };
    let said = Said {
        stamp: clock(),
        file,
        offset,
        len,
    };
    ring.fill(at, bytes);
    describe(ring, at, &said);
    publish(ring, at, slots);
    // The agent's life and lease last: one that had both here takes what was left, or dies with it as with any other byte
    // that is not in the store.
    if view.gate() == gate && view.is_current() {
        return LaneOutcome::Done {
            much: is_much(used - slots, used),
        };
    }
    give_up(ring, view, at, slots)
}

/// Whether the slots in use have just become as many as the agent should be told of. To tell it at every
/// write until it comes would cost as many system calls.
#[inline(always)]
fn is_much(before: u64, used: u64) -> bool {
    const STEP: u64 = SLOTS / 4;
    used / STEP > before / STEP
}

/// The gate was shut before the entry could be seen, or the agent is gone.
#[cold]
#[inline(never)]
fn give_up(ring: &Part<'_>, view: &PoolView, at: u64, slots: u64) -> LaneOutcome {
    if retract(ring, at, slots) {
        return if view.is_alive() {
            LaneOutcome::Shut
        } else {
            LaneOutcome::Dead
        };
    }
    for turn in 1.. {
        match verdict(ring, at, slots) {
            Some(Verdict::Applied) => return LaneOutcome::Done { much: false },
            Some(Verdict::Refused) => return LaneOutcome::Shut,
            None if !view.is_alive() => return LaneOutcome::Dead,
            None if turn % TURNS == 0 => rustix::thread::sched_yield(),
            None => std::hint::spin_loop(),
        }
    }
    LaneOutcome::Dead
}

/// An agent's side of a write ring. It is given up while the gate is shut: then the program's side takes nothing
/// any more (LEFT-4).
#[derive(Debug)]
pub struct WriteRingEnd {
    words: Words,
    rings: [Taken; RINGS],
}

/// How far the agent is in a ring.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    /// All before is settled.
    head: u64,
    /// All before is read.
    read: u64,
    /// All before is the agent's.
    tail: u64,
    /// It makes no sense any more.
    is_broken: bool,
}

/// A write that was left, as it describes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    ring: usize,
    at: u64,
    /// When it began, by the clock that nobody sets.
    pub stamp: u64,
    /// The file's inode number.
    pub file: u64,
    /// The offset in the file of its first byte.
    pub offset: u64,
    /// How many bytes; not 0, and no more than [`LEFT_MAX`].
    pub len: u32,
}

impl WriteRingEnd {
    /// A new write ring, and the memory for the program.
    pub(crate) fn new(name: &str) -> io::Result<(WriteRingEnd, OwnedFd)> {
        let (fd, words) = Words::open_to_all(&format!("{name}-lane"), WRITE_RING_WORDS)?;
        let rings = [Taken::default(); RINGS];
        Ok((WriteRingEnd { words, rings }, fd))
    }

    fn part(&self, number: usize) -> Part<'_> {
        Part {
            words: &self.words,
            number,
        }
    }

    /// Takes what the program has left since, in its order.
    #[inline]
    pub fn take(&mut self, mut found: impl FnMut(Entry)) {
        for number in 0..RINGS {
            let mut state = self.rings[number];
            if state.is_broken {
                continue;
            }
            let ring = self.part(number);
            let tail = take(&ring, state.tail);
            if tail == state.tail {
                continue;
            }
            state.is_broken = tail < state.tail || tail - state.head > SLOTS;
            state.tail = tail;
            while !state.is_broken && state.read < tail {
                let said = read(&ring, state.read);
                let slots = slots_of(said.len);
                let sound = (1..=LEFT_MAX as u64).contains(&said.len);
                state.is_broken = !sound || slots > tail - state.read;
                if !state.is_broken {
                    found(Entry {
                        ring: number,
                        at: state.read,
                        stamp: said.stamp,
                        file: said.file,
                        offset: said.offset,
                        len: said.len as u32,
                    });
                    state.read += slots;
                }
            }
            self.rings[number] = state;
        }
    }

    /// Copies the bytes of an entry, which the program may change meanwhile: that spoils its own write.
    pub fn copy(&self, entry: &Entry, into: &mut [u8]) {
        self.part(entry.ring).copy(entry.at, into);
    }

    /// The entry, and all before it in its ring, are done with. The program may use their places again.
    pub fn settle(&mut self, entry: &Entry, is_applied: bool) {
        let ring = self.part(entry.ring);
        let said = match is_applied {
            true => Verdict::Applied,
            false => Verdict::Refused,
        };
        judge(&ring, entry.at, said);
        let head = entry.at + slots_of(u64::from(entry.len));
        settle(&ring, head);
        self.rings[entry.ring].head = head;
    }

    /// Whether the program has written what makes no sense: nothing more is taken, and it is to be forgotten.
    pub fn is_broken(&self) -> bool {
        self.rings.iter().any(|ring| ring.is_broken)
    }
}

impl Drop for WriteRingEnd {
    fn drop(&mut self) {
        (0..RINGS).for_each(|number| end(&self.part(number)));
    }
}
