//! How bytes go through a ring, and how an end that has nothing to do sleeps. Written over [`Cells`], so that
//! the model of the memory in `tests/pipes.rs` runs these very lines.
//!
//! ```text
//! writer                               reader
//!   the bytes, where there is room       copies what is there
//!   TAIL := behind them  (release)       HEAD := behind what was copied  (release)
//!   fence (all)                          fence (all)
//!   the reader listens? wake it          the writer waits, and half is free? wake it
//!
//! before it sleeps:                    before it sleeps:
//!   WAITS := 1                           LISTENS := 1
//!   fence (all)                          fence (all)
//!   half is free? do not sleep           something is there? do not sleep
//! ```
//!
//! Invariants:
//! - P1: bytes that the reader copies were written: the tail that it saw came after the bytes.
//! - P2: bytes that the writer overwrites were copied: the head that it saw came after the copy.
//! - P3: an end that sleeps is woken. It says that it sleeps, then looks once more; the other end makes its
//!   change, then looks whether somebody sleeps. Each has a fence between, so one of the two sees the other.
//!
//! Each end keeps its own position to itself and believes nothing of the other's word but where it may be:
//! [`room`] and [`filled`] are `None` for a position that no honest end would have.

use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release, SeqCst};

/// The words of a ring, as both ends see them.
pub(crate) trait Cells {
    fn load(&self, word: usize, order: Ordering) -> u64;
    fn store(&self, word: usize, value: u64, order: Ordering);
    fn swap(&self, word: usize, value: u64, order: Ordering) -> u64;
    fn fence(&self, order: Ordering);
}

/// Bytes that were ever written. Each word has a line of the processor's cache to itself.
pub(crate) const TAIL: usize = 0;
/// Bytes that were ever copied out.
pub(crate) const HEAD: usize = 8;
/// The reader sleeps, or is about to.
pub(crate) const LISTENS: usize = 16;
/// The writer sleeps, or is about to.
pub(crate) const WAITS: usize = 24;
/// Words before the bytes.
pub(crate) const HEAD_WORDS: usize = 32;

/// Bytes that the writer, who has written up to `tail`, may write.
pub(crate) fn room(cells: &impl Cells, tail: u64, capacity: u64) -> Option<u64> {
    // Pairs with `free`: the reader has copied what is overwritten now (P2).
    let used = tail.wrapping_sub(cells.load(HEAD, Acquire));
    capacity.checked_sub(used)
}

/// All up to `tail` is written. True: wake the reader.
pub(crate) fn publish(cells: &impl Cells, tail: u64) -> bool {
    // Pairs with `filled` (P1).
    cells.store(TAIL, tail, Release);
    cells.fence(SeqCst);
    sleeps(cells, LISTENS)
}

/// Says that the writer, who has written up to `tail`, is about to sleep. The room that there is after all:
/// half of the ring or more, or it may sleep and is woken.
pub(crate) fn wait(cells: &impl Cells, tail: u64, capacity: u64) -> Option<u64> {
    cells.store(WAITS, 1, Relaxed);
    cells.fence(SeqCst);
    let room = room(cells, tail, capacity)?;
    Some(if is_much(room, capacity) { room } else { 0 })
}

/// Bytes that the reader, who has copied up to `head`, may copy.
pub(crate) fn filled(cells: &impl Cells, head: u64, capacity: u64) -> Option<u64> {
    // Pairs with `publish`: the bytes are there (P1).
    let filled = cells.load(TAIL, Acquire).wrapping_sub(head);
    (filled <= capacity).then_some(filled)
}

/// All up to `head` is copied; `left` bytes that were seen behind it are not. True: wake the writer.
pub(crate) fn free(cells: &impl Cells, head: u64, left: u64, capacity: u64) -> bool {
    // Pairs with `room` (P2).
    cells.store(HEAD, head, Release);
    cells.fence(SeqCst);
    is_much(capacity - left, capacity) && sleeps(cells, WAITS)
}

/// Says that the reader, who has copied up to `head`, is about to sleep. The bytes that are there after all;
/// if none are it may sleep and is woken.
pub(crate) fn listen(cells: &impl Cells, head: u64, capacity: u64) -> Option<u64> {
    cells.store(LISTENS, 1, Relaxed);
    cells.fence(SeqCst);
    filled(cells, head, capacity)
}

/// An end that found something to do after all.
pub(crate) fn wakes(cells: &impl Cells, word: usize) {
    cells.store(word, 0, Relaxed);
}

/// Whether an end sleeps that nobody has woken yet.
fn sleeps(cells: &impl Cells, word: usize) -> bool {
    cells.load(word, Relaxed) != 0 && cells.swap(word, 0, Relaxed) != 0
}

/// Room for which a writer is woken: less would wake it for each small read.
fn is_much(room: u64, capacity: u64) -> bool {
    room >= capacity / 2
}
