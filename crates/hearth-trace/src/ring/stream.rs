//! How a ring is read: by one drain, while its thread writes.
//!
//! See [`ring`](super) for RING-1 to RING-5. The tail moves only after the records have been handed over, so
//! a drain that dies between loses nothing: its successor hands them out again.

use std::sync::atomic::{Ordering, fence};

use super::layout::{Control, Line, SEQ, SEQ_BITS, SEQ_MASK};
use super::totals::Totals;
use crate::Record;

/// Records that are taken at once: what the nearest caches of a processor hold.
const BATCH_MAX: u64 = 1024;

/// The account of one thread's attempts: `attempted = stored + dropped + torn`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Records that the thread began.
    pub attempted: u64,
    /// Records handed out.
    pub stored: u64,
    /// Records that found no room, or were overwritten.
    pub dropped: u64,
    /// Half-written when the thread was killed; at most 1.
    pub torn: u64,
    /// The drops by operation.
    pub drops: Totals,
}

impl Account {
    fn new(attempted: u64, stored: u64, drops: Totals) -> Account {
        let dropped = drops.count();
        Account {
            attempted,
            stored,
            dropped,
            torn: attempted.saturating_sub(stored).saturating_sub(dropped),
            drops,
        }
    }
}

/// One ring as its reader sees it.
pub(crate) struct Reader<'a> {
    pub(crate) control: &'a Control,
    pub(crate) lines: &'a [Line],
    pub(crate) generation: u8,
}

impl Reader<'_> {
    /// Appends the next committed records to `batch`, at most half a ring and [`BATCH_MAX`], and
    /// without their generation. Half, because a tail that is stored just before its `seq` must never
    /// leave a whole lap between the two.
    pub(crate) fn take(&self, batch: &mut Vec<Record>) {
        let read = &self.control.read.0;
        let tail = read.tail.load(Ordering::Relaxed);
        let mut last = read.seq.load(Ordering::Relaxed);
        let most = (self.lines.len() as u64 / 2).clamp(1, BATCH_MAX);
        for position in (0..most).map(|step| tail.wrapping_add(step)) {
            let Some(record) = self.committed(position, last) else {
                break;
            };
            last = record.seq;
            batch.push(record);
        }
    }

    /// The record at a position, if it is there and newer than `last`.
    fn committed(&self, position: u64, last: u64) -> Option<Record> {
        let line = &self.lines[position as usize & (self.lines.len() - 1)];
        // RING-2: paired with the release of the commit.
        let seq = line.0[SEQ].load(Ordering::Acquire);
        let fresh = seq & SEQ_MASK > last && (seq >> SEQ_BITS) as u8 == self.generation;
        fresh.then(|| copy(line, seq))
    }

    /// Says that the records taken are safe elsewhere: their places may be written again.
    pub(crate) fn release(&self, taken: &[Record]) {
        let Some(last) = taken.last() else { return };
        let read = &self.control.read.0;
        let tail = read.tail.load(Ordering::Relaxed);
        // Paired with the thread's acquire when it looks for room (RING-3).
        let next = tail.wrapping_add(taken.len() as u64);
        read.tail.store(next, Ordering::Release);
        read.seq.store(last.seq, Ordering::Release);
    }

    /// The content of a flight recorder, oldest first: after the end of its thread, or as a picture of
    /// a moment. Such a picture leaves out records that are overwritten meanwhile. Answers which
    /// attempt was the last at that moment.
    pub(crate) fn last_lap(&self, batch: &mut Vec<Record>) -> u64 {
        let attempted = self.control.attempted.0.load(Ordering::Acquire);
        let lap = self.lines.len() as u64;
        // The one before these may be half overwritten by the last attempt.
        let first = attempted.saturating_sub(lap - 1).max(1);
        for seq in first..=attempted {
            let line = &self.lines[(seq - 1) as usize & (self.lines.len() - 1)];
            let whole = seq & SEQ_MASK | u64::from(self.generation) << SEQ_BITS;
            if line.0[SEQ].load(Ordering::Acquire) != whole {
                continue;
            }
            let record = copy(line, whole);
            // Paired with the fence of whoever overwrites: words of a later lap are seen only
            // together with the missing `seq`.
            fence(Ordering::Acquire);
            if line.0[SEQ].load(Ordering::Relaxed) == whole {
                batch.push(record);
            }
        }
        attempted
    }

    /// The records that the ring still has of the attempts after `after` and up to `upto`, in their
    /// order, whether or not a drain has taken them. The thread goes on, and records that it
    /// overwrites meanwhile are left out.
    pub(crate) fn recent(&self, after: u64, upto: u64) -> Vec<Record> {
        let generation = u64::from(self.generation) << SEQ_BITS;
        let mut records = Vec::new();
        for (at, line) in self.lines.iter().enumerate() {
            let whole = line.0[SEQ].load(Ordering::Acquire);
            let seq = whole & SEQ_MASK;
            if whole != seq | generation || !(after.saturating_add(1)..=upto).contains(&seq) {
                continue;
            }
            let record = copy(line, whole);
            fence(Ordering::Acquire);
            // Behind a younger record the thread writes next: half of these words may be of that.
            let before = &self.lines[at.wrapping_sub(1) & (self.lines.len() - 1)];
            let is_next = before.0[SEQ].load(Ordering::Relaxed) & SEQ_MASK > seq;
            if line.0[SEQ].load(Ordering::Relaxed) == whole && !is_next {
                records.push(record);
            }
        }
        records.sort_unstable_by_key(|record| record.seq);
        records
    }

    /// The account of a thread that is over, and whose records were handed out.
    pub(crate) fn last_account(&self) -> Account {
        self.control.drops.0.settle();
        self.account()
    }

    /// The account so far; its parts may be of different moments.
    pub(crate) fn account(&self) -> Account {
        let attempted = self.control.attempted.0.load(Ordering::Acquire);
        let stored = self.control.read.0.tail.load(Ordering::Relaxed);
        Account::new(attempted, stored, self.control.drops.0.read())
    }

    /// The same for a flight recorder, of which `stored` records were handed out.
    pub(crate) fn last_account_of_flight(&self, stored: u64) -> Account {
        self.control.drops.0.settle();
        let attempted = self.control.attempted.0.load(Ordering::Acquire);
        let mut drops = self.control.drops.0.read();
        let overwritten = attempted.saturating_sub(self.lines.len() as u64);
        if overwritten > 0 && drops.count() == overwritten - 1 {
            // Killed after its attempt was numbered, before the record in its place was counted.
            let line = &self.lines[(attempted - 1) as usize & (self.lines.len() - 1)];
            drops.add_record(&copy(line, 0));
        }
        Account::new(attempted, stored, drops)
    }

    /// Empties the ring for the next thread.
    pub(crate) fn clear(&self) {
        for line in self.lines {
            if line.0[SEQ].load(Ordering::Relaxed) == 0 {
                break;
            }
            line.0[SEQ].store(0, Ordering::Relaxed);
        }
        self.control.drops.0.clear();
        let read = &self.control.read.0;
        for word in [&self.control.attempted.0, &read.tail, &read.seq] {
            word.store(0, Ordering::Relaxed);
        }
    }
}

fn copy(line: &Line, seq: u64) -> Record {
    let mut words = [0; 8];
    for (copied, word) in words[..SEQ].iter_mut().zip(&line.0) {
        *copied = word.load(Ordering::Relaxed);
    }
    words[SEQ] = seq & SEQ_MASK;
    Record::from_words(words)
}
