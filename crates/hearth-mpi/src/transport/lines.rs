//! Messages from and to each rank, from the begin of MPI to its end.
//!
//! Pieces to one rank are numbered, over all connections, and the number is the tag: a doorbell names the first of a
//! message, so its receiver asks MPI for that very message, whatever overtakes what. Pieces whose doorbell was lost
//! with a connection are received when the next doorbell, or the end, shows the gap; else MPI would keep them, and
//! its end would wait for them.
//!
//! Invariants:
//! - LINE-1: a doorbell is rung after its message was given to MPI.
//! - LINE-2: every piece that a rank has sent is received, by its number, or by [`Lines::finish`].
//! - LINE-3: at most [`WINDOW`] bytes and one frame are under way to a rank that has not passed them on. A frame counts
//!   [`FRAME_COST`] beside its bytes, so there are fewer pieces under way than tags.
//! - LINE-5: a frame that waits for the window goes: what the other side has passed on and not told is less than that.
//! - LINE-4: after [`Lines::finish`] nobody calls MPI through this.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::comm::{Comm, CommError, Message, PIECE_LEN_MAX, TAGS, pieces_of};

use super::doorbell::Doorbell;

/// Bytes under way to one rank.
const WINDOW: u64 = 4 << 20;

/// The cost of a frame in the window, beside its bytes.
const FRAME_COST: u64 = 1 << 10;

/// Bytes passed on of which the sender is told.
const TELL: u64 = WINDOW / 2;

/// A gap that no honest rank leaves between two doorbells.
const GAP_MAX: u64 = TAGS;
const _: () = assert!(TELL < WINDOW && 2 * WINDOW / FRAME_COST < TAGS - 64);

/// How long the end waits for messages under way.
const FINISH_SPAN: Duration = Duration::from_secs(60);

/// The private messages of one job of MPI.
#[derive(Debug)]
pub struct Lines {
    comm: Comm,
    out: Vec<Mutex<Out>>,
    inbox: Vec<Mutex<In>>,
    /// Messages under way, in both directions.
    under_way: AtomicUsize,
    pub(super) counts: Vec<Counts>,
}

/// Bytes of frames from and to one rank.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) bytes_in: AtomicU64,
    pub(super) bytes_out: AtomicU64,
}

/// The outgoing side of the line to one rank.
#[derive(Debug, Default)]
struct Out {
    is_up: bool,
    is_over: bool,
    /// Pieces given to MPI, ever.
    pieces: u64,
    going: VecDeque<Message>,
    /// Frames that wait for the window.
    queue: VecDeque<[Vec<u8>; 2]>,
    queued_bytes: usize,
    /// Bytes given to MPI, and passed on at the other side, since the connection stands.
    given: u64,
    passed: u64,
}

/// The incoming side of the line to one rank.
#[derive(Debug, Default)]
struct In {
    is_over: bool,
    /// Pieces asked of MPI, ever.
    pieces: u64,
    coming: VecDeque<Coming>,
    lost: Lost,
    /// Bytes passed on since the connection stands, and how many of them the sender knows of.
    passed: u64,
    told: u64,
}

/// Pieces that no doorbell has told of: they are received one by one, and dropped.
#[derive(Debug, Default)]
struct Lost {
    message: Option<Message>,
    rest: VecDeque<Range<u64>>,
}

#[derive(Debug)]
struct Coming {
    message: Message,
    lens: [usize; 2],
    /// Of a connection that is gone.
    is_stale: bool,
}

/// The outcome of an attempt to send a frame.
pub(super) enum Sent {
    Done,
    /// MPI must be asked how far it is.
    Slow,
    Down,
    /// More is queued than may be.
    Full,
    Failed(CommError),
}

/// A frame that has come whole.
pub(super) struct Frame {
    pub(super) head: Vec<u8>,
    pub(super) payload: Vec<u8>,
    /// The doorbell that is due to the sender, if it is time for one.
    pub(super) passed: Option<Doorbell>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lens_of(parts: &[Vec<u8>; 2]) -> [usize; 2] {
    [parts[0].len(), parts[1].len()]
}

/// The cost of a frame in the window.
fn cost(lens: [usize; 2]) -> u64 {
    FRAME_COST + lens.iter().map(|len| *len as u64).sum::<u64>()
}

impl Lines {
    /// Lines in a communicator of our own.
    pub fn new(comm: Comm) -> Lines {
        let ranks = comm.ranks();
        Lines {
            out: (0..ranks).map(|_| Mutex::default()).collect(),
            inbox: (0..ranks).map(|_| Mutex::default()).collect(),
            counts: (0..ranks).map(|_| Counts::default()).collect(),
            under_way: AtomicUsize::new(0),
            comm,
        }
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.comm.rank()
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.comm.ranks()
    }

    /// Whether MPI must be asked how far it is.
    pub(super) fn is_busy(&self) -> bool {
        self.under_way.load(Relaxed) > 0
    }

    /// A connection to a rank stands.
    pub(super) fn set_up(&self, peer: usize) {
        self.set_down(peer);
        let mut out = lock(&self.out[peer]);
        (out.is_up, out.given, out.passed) = (true, 0, 0);
        let mut inbox = lock(&self.inbox[peer]);
        (inbox.passed, inbox.told) = (0, 0);
    }

    /// It is gone: what waits is dropped, and what is under way will be when it has come.
    pub(super) fn set_down(&self, peer: usize) {
        let mut out = lock(&self.out[peer]);
        out.is_up = false;
        out.queue.clear();
        out.queued_bytes = 0;
        let mut inbox = lock(&self.inbox[peer]);
        inbox.coming.iter_mut().for_each(|one| one.is_stale = true);
    }

    /// Sends a frame, or queues it up to a bound; `ring` is told of what was given to MPI.
    pub(super) fn send(
        &self,
        peer: usize,
        parts: [Vec<u8>; 2],
        queued_max: usize,
        ring: &dyn Fn(Doorbell) -> bool,
    ) -> Sent {
        let mut out = lock(&self.out[peer]);
        if !out.is_up || out.is_over {
            return Sent::Down;
        }
        let bytes: usize = lens_of(&parts).iter().sum();
        self.counts[peer].bytes_out.fetch_add(bytes as u64, Relaxed);
        if out.queue.is_empty() && out.has_room() {
            return self.give(&mut out, peer, parts, ring);
        }
        out.queued_bytes += bytes;
        if out.queued_bytes > queued_max {
            out.is_up = false;
            return Sent::Full;
        }
        out.queue.push_back(parts);
        Sent::Done
    }

    /// LINE-1
    fn give(
        &self,
        out: &mut Out,
        peer: usize,
        parts: [Vec<u8>; 2],
        ring: &dyn Fn(Doorbell) -> bool,
    ) -> Sent {
        let (lens, first) = (lens_of(&parts), out.pieces);
        out.given += cost(lens);
        let mut message = match self.comm.send(peer as u32, first, parts) {
            Ok(message) => message,
            Err(error) => return Sent::Failed(error),
        };
        out.pieces += pieces_of(lens);
        let is_complete = message.is_complete(&self.comm);
        if !matches!(is_complete, Ok(true)) {
            self.under_way.fetch_add(1, Relaxed);
            out.going.push_back(message);
        }
        match is_complete {
            Err(error) => Sent::Failed(error),
            Ok(_) if !ring(Doorbell::Message { first, lens }) => Sent::Down,
            Ok(true) => Sent::Done,
            Ok(false) => Sent::Slow,
        }
    }

    /// The rank has passed on so many bytes: there may be room for what waits.
    pub(super) fn heed_passed(
        &self,
        peer: usize,
        passed: u64,
        ring: &dyn Fn(Doorbell) -> bool,
    ) -> Result<(), CommError> {
        let mut out = lock(&self.out[peer]);
        // One that claims more than it was given gets no more than that.
        out.passed = passed.min(out.given);
        while out.is_up && !out.is_over && out.has_room() {
            let Some(parts) = out.queue.pop_front() else {
                break;
            };
            out.queued_bytes -= lens_of(&parts).iter().sum::<usize>();
            if let Sent::Failed(error) = self.give(&mut out, peer, parts, ring) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Asks MPI for a message that a doorbell has told of.
    pub(super) fn expect(
        &self,
        peer: usize,
        first: u64,
        lens: [usize; 2],
    ) -> Result<(), CommError> {
        let mut inbox = lock(&self.inbox[peer]);
        if inbox.is_over {
            return Ok(());
        }
        let gap = first
            .checked_sub(inbox.pieces)
            .filter(|gap| *gap <= GAP_MAX);
        if gap.ok_or_else(CommError::numbers)? > 0 {
            let lost = inbox.pieces..first;
            inbox.lost.rest.push_back(lost);
            self.under_way.fetch_add(1, Relaxed);
        }
        let message = self.comm.receive(peer as u32, first, lens)?;
        inbox.pieces = first + pieces_of(lens);
        inbox.coming.push_back(Coming {
            message,
            lens,
            is_stale: false,
        });
        self.under_way.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Receives pieces that no doorbell has told of, as far as they are there.
    fn drop_lost(&self, lost: &mut Lost, peer: usize) -> Result<(), CommError> {
        while let Some(range) = lost.rest.front_mut() {
            let message = match &mut lost.message {
                Some(message) => message,
                none => {
                    let asked = self
                        .comm
                        .receive(peer as u32, range.start, [0, PIECE_LEN_MAX]);
                    none.insert(asked?)
                }
            };
            if !message.is_complete(&self.comm)? {
                return Ok(());
            }
            lost.message = None;
            range.start += 1;
            if range.is_empty() {
                lost.rest.pop_front();
                self.under_way.fetch_sub(1, Relaxed);
            }
        }
        Ok(())
    }

    /// The next frame from a rank that has come whole.
    pub(super) fn next(&self, peer: usize) -> Result<Option<Frame>, CommError> {
        let mut inbox = lock(&self.inbox[peer]);
        self.drop_lost(&mut inbox.lost, peer)?;
        while let Some(done) = self.pop(&mut inbox)? {
            if done.is_stale {
                continue;
            }
            let [head, payload] = done.message.into_parts();
            let bytes = done.lens.iter().sum::<usize>() as u64;
            self.counts[peer].bytes_in.fetch_add(bytes, Relaxed);
            inbox.passed += cost(done.lens);
            let due = inbox.passed - inbox.told >= TELL;
            if due {
                inbox.told = inbox.passed;
            }
            return Ok(Some(Frame {
                head,
                payload,
                passed: due.then_some(Doorbell::Passed(inbox.passed)),
            }));
        }
        Ok(None)
    }

    fn pop(&self, inbox: &mut In) -> Result<Option<Coming>, CommError> {
        let Some(front) = inbox.coming.front_mut() else {
            return Ok(None);
        };
        if !front.message.is_complete(&self.comm)? {
            return Ok(None);
        }
        self.under_way.fetch_sub(1, Relaxed);
        Ok(inbox.coming.pop_front())
    }

    /// Forgets what MPI has sent; whether that was something.
    pub(super) fn reap(&self, peer: usize) -> Result<bool, CommError> {
        let mut out = lock(&self.out[peer]);
        let mut some = false;
        while let Some(front) = out.going.front_mut() {
            if !front.is_complete(&self.comm)? {
                break;
            }
            out.going.pop_front();
            self.under_way.fetch_sub(1, Relaxed);
            some = true;
        }
        Ok(some)
    }

    /// Bytes that wait for a rank.
    pub(super) fn queued_bytes(&self, peer: usize) -> usize {
        lock(&self.out[peer]).queued_bytes
    }

    /// Ends all of it: what is under way arrives, and the communicator is given back (LINE-2, LINE-4). All ranks must
    /// make this call, before they finalize; transports have been shut down, or find that they are.
    pub fn finish(&self) -> Result<(), CommError> {
        let mut sent = Vec::with_capacity(self.out.len());
        for out in &self.out {
            let mut out = lock(out);
            out.is_over = true;
            sent.push(out.pieces);
        }
        for inbox in &self.inbox {
            lock(inbox).is_over = true;
        }
        let theirs = self.comm.exchange(&sent)?;
        for (inbox, sent) in self.inbox.iter().zip(theirs) {
            let mut inbox = lock(inbox);
            if inbox.pieces < sent {
                let lost = inbox.pieces..sent;
                inbox.lost.rest.push_back(lost);
                self.under_way.fetch_add(1, Relaxed);
            }
        }
        let until = Instant::now() + FINISH_SPAN;
        while self.is_busy() {
            self.rest()?;
            if Instant::now() > until {
                return Err(CommError::stuck(self.under_way.load(Relaxed)));
            }
            std::thread::yield_now();
        }
        self.comm.give_back()
    }

    /// Takes what comes, and forgets what has gone.
    fn rest(&self) -> Result<(), CommError> {
        for peer in 0..self.inbox.len() {
            let mut inbox = lock(&self.inbox[peer]);
            self.drop_lost(&mut inbox.lost, peer)?;
            while self.pop(&mut inbox)?.is_some() {}
            drop(inbox);
            self.reap(peer)?;
        }
        Ok(())
    }
}

impl Out {
    /// LINE-3, LINE-5
    fn has_room(&self) -> bool {
        self.given - self.passed <= WINDOW
    }
}
