//! The place of one thread: how a record is written.
//!
//! The usual case is a handful of loads and stores on two lines that no other processor writes. A
//! seat lives in memory that a fork wipes, so a child finds its parent's seats not ready.
//!
//! Invariants:
//! - SEAT-1: only the thread that took a seat uses it, and the signal handlers that run on that thread.
//! - SEAT-2: `ready` is 0 while a record is being written, so a handler that comes between finds the seat
//!   busy and counts its own attempt elsewhere.
//! - SEAT-3: `ready` is 1 only if `control` and `lines` point into a mapping that is never unmapped.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence};

use super::layout::{Control, Line, SEQ, SEQ_BITS};
use super::producer::WhenFull;
use super::totals::Share;
use crate::{Flags, Layer, Op, Record, clock};

/// When full, the tail is looked at again on the 64th attempt, or when so many ticks have passed.
const LOOK_ATTEMPTS: u64 = 64;
const LOOK_TICKS: u64 = 1 << 13;
/// The reader is woken when this part of the ring waits for it, and at each more.
const KNOCK_PARTS: u64 = 4;

/// The facts recorded of an operation beside its times.
#[derive(Clone, Copy, Debug)]
pub struct OpFacts {
    /// The operation.
    pub op: Op,
    /// The layer in which it was done.
    pub layer: Layer,
    /// Further facts, a bit each; the record itself sets the flags about units and failure.
    pub flags: Flags,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes asked for.
    pub asked: u64,
    /// Bytes done, or a negative error number.
    pub result: i64,
    /// The file, as [`tracer::file`](super::tracer::file) numbered it; 0 is none.
    pub file: u32,
    /// Joins the records of one request; 0 is none.
    pub request: u64,
    /// Bytes that the nearest layer served.
    pub near: u32,
    /// The node that served it.
    pub peer: u16,
    /// Requests before this one, at entry.
    pub depth: u16,
    /// Of a request to an agent: the thread of the program that made it; 0 is unknown.
    pub caller: u32,
}

impl OpFacts {
    /// A call of a program, nothing else known.
    pub fn new(op: Op) -> OpFacts {
        OpFacts {
            op,
            layer: Layer::App,
            flags: Flags::default(),
            offset: 0,
            asked: 0,
            result: 0,
            file: 0,
            request: 0,
            near: 0,
            peer: 0,
            depth: 0,
            caller: 0,
        }
    }

    /// The record of it, with no `seq` yet.
    #[inline(always)]
    pub fn record(&self, started: u64, ended: u64, thread: u32) -> Record {
        let mut flags = self.flags;
        let ticks = ended.saturating_sub(started);
        let took = u32::try_from(ticks).unwrap_or_else(|_| {
            flags = flags | Flags::LONG;
            u32::try_from(ticks >> 20).unwrap_or(u32::MAX)
        });
        let (mut asked, mut result) = (self.asked, self.result);
        if asked > u64::from(u32::MAX) || result > i64::from(i32::MAX) {
            flags = flags | Flags::BIG;
            asked = asked.div_ceil(4096);
            result = if result > 0 { result / 4096 } else { result };
        }
        if result < 0 {
            flags = flags | Flags::ERROR;
        }
        Record {
            start: started,
            took,
            op: self.op as u8,
            layer: self.layer as u8,
            flags,
            offset: self.offset,
            asked: u32::try_from(asked).unwrap_or(u32::MAX),
            result: result.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32,
            file: self.file,
            thread: match self.layer {
                Layer::Cache => self.caller,
                _ => thread,
            },
            request: self.request,
            near: self.near,
            peer: self.peer,
            depth: self.depth,
            seq: 0,
        }
    }

    pub(crate) fn share(&self, started: u64, ended: u64) -> Share {
        let bytes = u64::try_from(self.result).unwrap_or(0);
        Share {
            op: self.op as u8,
            bytes: if self.op.moves_bytes() { bytes } else { 0 },
            ticks: ended.saturating_sub(started),
        }
    }
}

/// The place of one thread. Zeroes are a seat that nobody has.
#[repr(C, align(128))]
pub(crate) struct Seat {
    /// 1: the thread that has the seat may record.
    ready: AtomicU32,
    slot: AtomicU32,
    control: AtomicPtr<Control>,
    lines: AtomicPtr<Line>,
    mask: AtomicU64,
    /// Records written, how many may be before the reader is looked at, and how many may be by what
    /// was seen of it then.
    head: AtomicU64,
    limit: AtomicU64,
    bound: AtomicU64,
    /// The ring's generation, where a `seq` has it.
    generation: AtomicU64,
    /// When full: attempts and ticks of the last look at the reader.
    looked_attempt: AtomicU64,
    looked_at: AtomicU64,
    /// A [`WhenFull`] and its bound in ticks.
    policy: AtomicU32,
    wait_us: AtomicU32,
}

/// The seat of threads that have none.
pub(crate) static NOBODY: Seat = Seat {
    ready: AtomicU32::new(0),
    slot: AtomicU32::new(0),
    control: AtomicPtr::new(std::ptr::null_mut()),
    lines: AtomicPtr::new(std::ptr::null_mut()),
    mask: AtomicU64::new(0),
    head: AtomicU64::new(0),
    limit: AtomicU64::new(0),
    bound: AtomicU64::new(0),
    generation: AtomicU64::new(0),
    looked_attempt: AtomicU64::new(0),
    looked_at: AtomicU64::new(0),
    policy: AtomicU32::new(0),
    wait_us: AtomicU32::new(0),
};

impl Seat {
    /// Seats the calling thread at an empty ring.
    pub(crate) fn settle(
        &self,
        slot: u32,
        generation: u32,
        control: &'static Control,
        lines: &'static [Line],
        policy: WhenFull,
    ) {
        self.slot.store(slot, Ordering::Relaxed);
        let control: *const Control = control;
        self.control.store(control.cast_mut(), Ordering::Relaxed);
        self.lines
            .store(lines.as_ptr().cast_mut(), Ordering::Relaxed);
        self.mask.store(lines.len() as u64 - 1, Ordering::Relaxed);
        self.head.store(0, Ordering::Relaxed);
        let capacity = lines.len() as u64;
        let first_look = match policy {
            WhenFull::Overwrite => capacity,
            WhenFull::Drop | WhenFull::Wait { .. } => self.step(),
        };
        self.limit.store(first_look, Ordering::Relaxed);
        self.bound.store(capacity, Ordering::Relaxed);
        let generation = u64::from(generation) << SEQ_BITS;
        self.generation.store(generation, Ordering::Relaxed);
        let (code, wait_us) = policy.to_words();
        self.policy.store(code, Ordering::Relaxed);
        self.wait_us.store(wait_us, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.ready.store(1, Ordering::Relaxed);
    }

    /// Whether somebody has it; a fork makes the child's copy free.
    pub(crate) fn is_taken(&self) -> bool {
        !self.control.load(Ordering::Relaxed).is_null()
    }

    pub(crate) fn slot(&self) -> u32 {
        self.slot.load(Ordering::Relaxed)
    }

    /// The thread is going.
    pub(crate) fn leave(&self) {
        self.ready.store(0, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.control.store(std::ptr::null_mut(), Ordering::Relaxed);
    }

    /// Records one operation, or counts it as dropped; `false` if the seat is not ready.
    #[inline(always)]
    pub(crate) fn record(&self, started: u64, ended: u64, done: &OpFacts) -> bool {
        if self.ready.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.ready.store(0, Ordering::Relaxed);
        // Between program and handlers on one thread, the order of the program is enough.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: ready was 1, so this points into a mapping that is never unmapped (SEAT-3).
        let control = unsafe { &*self.control.load(Ordering::Relaxed) };
        let attempt = control.attempted.0.load(Ordering::Relaxed) + 1;
        control.attempted.0.store(attempt, Ordering::Relaxed);
        let head = self.head.load(Ordering::Relaxed);
        if head != self.limit.load(Ordering::Relaxed)
            || self.make_room(control, attempt, head, started, ended, done)
        {
            let record = done.record(started, ended, self.slot());
            self.commit(self.line(head), &record, attempt);
            self.head.store(head + 1, Ordering::Relaxed);
        }
        compiler_fence(Ordering::SeqCst);
        self.ready.store(1, Ordering::Relaxed);
        true
    }

    #[inline(always)]
    fn line(&self, position: u64) -> &Line {
        let index = position & self.mask.load(Ordering::Relaxed);
        // SAFETY: `lines` points to mask + 1 lines in a mapping that is never unmapped (SEAT-3).
        unsafe { &*self.lines.load(Ordering::Relaxed).add(index as usize) }
    }

    /// RING-2: all words, then `seq`.
    #[inline(always)]
    fn commit(&self, line: &Line, record: &Record, attempt: u64) {
        let words = record.to_words();
        for (word, value) in line.0[..SEQ].iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
        let seq = attempt | self.generation.load(Ordering::Relaxed);
        line.0[SEQ].store(seq, Ordering::Release);
    }

    /// It is time to look at the reader, or the ring seems full; then does as the policy says.
    /// `false`: dropped.
    #[cold]
    #[inline(never)]
    fn make_room(
        &self,
        control: &Control,
        attempt: u64,
        head: u64,
        started: u64,
        ended: u64,
        done: &OpFacts,
    ) -> bool {
        let is_full = head == self.bound.load(Ordering::Relaxed);
        let room = match WhenFull::from_words(self.policy.load(Ordering::Relaxed), 0) {
            Some(WhenFull::Overwrite) => return self.overwrite(control, head),
            _ if !is_full => self.look(control, head),
            Some(WhenFull::Wait { .. }) => self.wait(control, head),
            Some(WhenFull::Drop) | None => self.look_if_due(control, attempt, head, ended),
        };
        if !room {
            control.drops.0.add(done.share(started, ended));
        }
        room
    }

    /// Records between two looks at the reader.
    fn step(&self) -> u64 {
        ((self.mask.load(Ordering::Relaxed) + 1) / KNOCK_PARTS).max(1)
    }

    /// RING-3: the reader's tail is its promise that it is done with what lies before; the acquire is
    /// paired with its release. A reader that has let much come together is woken.
    fn look(&self, control: &Control, head: u64) -> bool {
        let capacity = self.mask.load(Ordering::Relaxed) + 1;
        let tail = control.read.0.tail.load(Ordering::Acquire);
        let unread = head.wrapping_sub(tail);
        if unread < capacity {
            self.bound.store(tail + capacity, Ordering::Relaxed);
            if unread >= self.step() {
                super::tracer::knock();
            }
        }
        // Otherwise it is full, or the tail is nonsense from outside: what was known before holds.
        let bound = self.bound.load(Ordering::Relaxed);
        let limit = bound.min(head + self.step());
        self.limit.store(limit, Ordering::Relaxed);
        head != bound
    }

    fn look_if_due(&self, control: &Control, attempt: u64, head: u64, now: u64) -> bool {
        let attempts = attempt.wrapping_sub(self.looked_attempt.load(Ordering::Relaxed));
        let ticks = now.wrapping_sub(self.looked_at.load(Ordering::Relaxed));
        if attempts < LOOK_ATTEMPTS && ticks < LOOK_TICKS {
            return false;
        }
        self.looked_attempt.store(attempt, Ordering::Relaxed);
        self.looked_at.store(now, Ordering::Relaxed);
        self.look(control, head)
    }

    /// Waits for the reader in short naps, for as long as the policy allows.
    fn wait(&self, control: &Control, head: u64) -> bool {
        const NAP_NS: i64 = 20_000;
        let bound = u64::from(self.wait_us.load(Ordering::Relaxed)) * 1_000;
        let begun = clock::monotonic_ns();
        super::tracer::knock();
        loop {
            if self.look(control, head) {
                return true;
            }
            if clock::monotonic_ns().saturating_sub(begun) >= bound {
                return false;
            }
            let nap = rustix::time::Timespec {
                tv_sec: 0,
                tv_nsec: NAP_NS,
            };
            let _ = rustix::thread::nanosleep(&nap);
        }
    }

    /// The oldest record becomes a drop. Its `seq` goes before its words do, so that nobody who
    /// reads meanwhile takes the mixture for a record.
    fn overwrite(&self, control: &Control, head: u64) -> bool {
        let line = self.line(head);
        let old = Record::from_words(line.0.each_ref().map(|word| word.load(Ordering::Relaxed)));
        control.drops.0.add(Share::of(&old));
        compiler_fence(Ordering::SeqCst);
        line.0[SEQ].store(0, Ordering::Relaxed);
        std::sync::atomic::fence(Ordering::Release);
        self.limit.store(head + 1, Ordering::Relaxed);
        true
    }
}
