//! How a program leaves writes for its agent. Written over [`Ring`], so that the model of the memory in
//! `tests/write_rings.rs` runs these very lines.
//!
//! ```text
//! program                                 agent
//!   1  the gate is open? (g)                before any other input:
//!   2  the page is offered?                   gate := shut
//!   3  the bytes, and what they are           fence (all)
//!   4  tail := behind them  (release)         take what the tail says, apply it
//!      fence (all)                            ... the input, offers change ...
//!   5  the gate is still g?                   gate := open, another g  (release)
//!      yes: the write is done
//!      no: tail back, and the real call; if the agent has taken it, wait for its verdict
//! ```
//!
//! Invariants:
//! - LEFT-1: a write that ended at step 5 is applied before the next other input. If step 5 has not seen the
//!   gate shut, the agent's fence came after the program's, and what follows it sees the tail.
//! - LEFT-2: the page was offered all along: offers change while the gate is shut, and no opening has the same
//!   number as an earlier one.
//! - LEFT-3: the agent never has an entry that the program took back: both change the tail at once or not
//!   at all.
//! - LEFT-4: a write ring that the agent has forgotten takes nothing. It is ended while the gate is shut. So a
//!   program that sees a later opening finds no room, and one that saw an earlier opening takes back its
//!   entry.

use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};

/// One program's words, as both sides see them.
pub(crate) trait Ring {
    fn load(&self, word: usize, order: Ordering) -> u64;
    fn store(&self, word: usize, value: u64, order: Ordering);
    fn fence(&self, order: Ordering);
    /// Sets bits; what was there before.
    fn set(&self, word: usize, bits: u64, order: Ordering) -> u64;
    /// Replaces one value by another, if it is there.
    fn replace(&self, word: usize, from: u64, to: u64, order: Ordering) -> bool;
}

/// Places for entries; an entry takes as many one after another as its bytes need.
pub(crate) const SLOTS: u64 = 512;
/// Bytes of a slot.
pub(crate) const SLOT_BYTES: usize = 4096;

/// Slots that were ever written, and whether the agent has taken all of them. Written by the program.
pub(crate) const TAIL: usize = 0;
/// Slots that the program may use again. Written by the agent.
pub(crate) const HEAD: usize = 8;
/// A thread of the program is at it.
const LOCK: usize = 16;
/// Heads of entries, a line of the processor's cache each.
pub(crate) const HEADS: usize = 32;
pub(crate) const HEAD_WORDS: usize = 8;

/// Words of an entry's head.
const STAMP: usize = 0;
const FILE: usize = 1;
const OFFSET: usize = 2;
const LEN: usize = 3;
const VERDICT: usize = 4;

/// Set in the tail by an agent that has taken all up to it.
const TAKEN: u64 = 1 << 63;

/// The head of a ring that is ended: farther from any tail than a ring is long.
const ENDED: u64 = 1 << 62;

const APPLIED: u64 = 1;
const REFUSED: u64 = 2;

/// The head of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) stamp: u64,
    pub(crate) file: u64,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// The agent's verdict on an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Applied,
    Refused,
}

/// The first word of the head of the entry at a position.
fn head_of(at: u64) -> usize {
    HEADS + (at % SLOTS) as usize * HEAD_WORDS
}

/// Slots that so many bytes need.
pub(crate) fn slots_of(len: u64) -> u64 {
    len.div_ceil(SLOT_BYTES as u64)
}

/// Takes the ring for this thread, if nobody has it. A thread never waits for it.
#[inline(always)]
pub(crate) fn seize(ring: &impl Ring) -> bool {
    // Acquire and release: what one thread has written the next one goes on from.
    ring.load(LOCK, Relaxed) == 0 && ring.replace(LOCK, 0, 1, Acquire)
}

#[inline(always)]
pub(crate) fn let_go(ring: &impl Ring) {
    ring.store(LOCK, 0, Release);
}

/// The position of the next entry of so many slots, and how many slots are in use with it.
#[inline(always)]
pub(crate) fn room(ring: &impl Ring, slots: u64) -> Option<(u64, u64)> {
    let at = ring.load(TAIL, Relaxed) & !TAKEN;
    // Pairs with `settle`: the agent has read what is overwritten now.
    let used = at
        .wrapping_sub(ring.load(HEAD, Acquire))
        .wrapping_add(slots);
    (used <= SLOTS).then_some((at, used))
}

/// Says what the entry at a position is.
#[inline(always)]
pub(crate) fn describe(ring: &impl Ring, at: u64, said: &Said) {
    let head = head_of(at);
    ring.store(head + STAMP, said.stamp, Relaxed);
    ring.store(head + FILE, said.file, Relaxed);
    ring.store(head + OFFSET, said.offset, Relaxed);
    ring.store(head + LEN, said.len, Relaxed);
    ring.store(head + VERDICT, 0, Relaxed);
}

/// The entry is whole. A gate that is loaded open after this was open when the entry could be seen
/// (LEFT-1).
#[inline(always)]
pub(crate) fn publish(ring: &impl Ring, at: u64, slots: u64) {
    ring.store(TAIL, at + slots, Release);
    ring.fence(SeqCst);
}

/// Takes the last entry back; false if the agent has it (LEFT-3).
pub(crate) fn retract(ring: &impl Ring, at: u64, slots: u64) -> bool {
    ring.replace(TAIL, at + slots, at, Relaxed)
}

/// The verdict on an entry that the agent has taken, once it has said so.
pub(crate) fn verdict(ring: &impl Ring, at: u64, slots: u64) -> Option<Verdict> {
    // Pairs with the last store of `settle`.
    let settled = ring.load(HEAD, Acquire);
    if settled < at + slots {
        return None;
    }
    Some(match ring.load(head_of(at) + VERDICT, Relaxed) {
        APPLIED => Verdict::Applied,
        _ => Verdict::Refused,
    })
}

/// The agent takes all that the program has published beyond `taken`: up to where. The tail that it
/// reads may be anything.
#[inline(always)]
pub(crate) fn take(ring: &impl Ring, taken: u64) -> u64 {
    // A look costs little where nothing is new.
    if ring.load(TAIL, Acquire) & !TAKEN == taken {
        return taken;
    }
    // Pairs with `publish`: the entry is there.
    ring.set(TAIL, TAKEN, AcqRel) & !TAKEN
}

/// The head of the entry at a position, read once.
pub(crate) fn read(ring: &impl Ring, at: u64) -> Said {
    let head = head_of(at);
    Said {
        stamp: ring.load(head + STAMP, Relaxed),
        file: ring.load(head + FILE, Relaxed),
        offset: ring.load(head + OFFSET, Relaxed),
        len: ring.load(head + LEN, Relaxed),
    }
}

/// Says what became of an entry; [`settle`] follows.
pub(crate) fn judge(ring: &impl Ring, at: u64, verdict: Verdict) {
    let word = match verdict {
        Verdict::Applied => APPLIED,
        Verdict::Refused => REFUSED,
    };
    ring.store(head_of(at) + VERDICT, word, Relaxed);
}

/// The agent is done with all entries before a position.
pub(crate) fn settle(ring: &impl Ring, head: u64) {
    ring.store(HEAD, head, Release);
}

/// Nothing is left in this ring any more (LEFT-4), and what was taken has its verdict. While the gate is shut.
pub(crate) fn end(ring: &impl Ring) {
    // Before the gate opens, which is a release.
    ring.store(HEAD, ENDED, Release);
}
