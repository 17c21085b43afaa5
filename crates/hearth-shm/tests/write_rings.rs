//! Write rings and their gate under every order of events that the memory model allows.
//!
//! The very lines of `src/write_ring/protocol.rs`, and of the gate in `src/index/protocol.rs`, run over words of a
//! model (loom). A canary takes one order away, and the model must find a write that was done and that
//! something after it has missed.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "the sources are the library's, of which a part is used"
)]

#[path = "../src/index/layout.rs"]
mod layout;
#[path = "../src/index/protocol.rs"]
mod protocol;
#[path = "../src/write_ring/protocol.rs"]
mod write_ring;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{self, Relaxed, SeqCst};

use layout::Layout;
use loom::sync::atomic::AtomicU64;
use protocol::{Board, Look, PageName, gate, offer, offered, open_gate, shut_gate, take_back};
use write_ring::{
    Ring, Said, Verdict, describe, end, judge, publish, read, retract, room, settle, take,
};

/// The step that is taken away.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    /// The program's fence between its entry and its look at the gate.
    FenceOfPublish,
    /// The agent's fence between shutting the gate and its look at what was left.
    FenceOfShut,
    /// The end of a write ring that is forgotten.
    End,
}

const PAGE: PageName = PageName { file: 3, page: 0 };
const FRAME: u32 = 0;

/// The words of the index that count here, those of one ring with one entry, and a byte of the entry.
struct Memory {
    index: BTreeMap<usize, AtomicU64>,
    ring: BTreeMap<usize, AtomicU64>,
    byte: AtomicU64,
    without: Without,
}

/// The same memory as the program or the agent fences in it.
struct Index<'a>(&'a Memory);
struct SharedRing<'a>(&'a Memory);

fn shape() -> Layout {
    Layout::of(1, 4096)
}

impl Memory {
    /// A page is offered, and the gate is open.
    fn new(without: Without) -> Arc<Memory> {
        let (header, bucket) = (shape().header(FRAME), shape().bucket(0));
        let index = (header..header + 5)
            .chain(bucket..bucket + layout::WAYS)
            .chain([layout::GATE]);
        let ring = [write_ring::TAIL, write_ring::HEAD]
            .into_iter()
            .chain(write_ring::HEADS..write_ring::HEADS + 2 * write_ring::HEAD_WORDS);
        let words = |words: &mut dyn Iterator<Item = usize>| {
            words.map(|word| (word, AtomicU64::new(0))).collect()
        };
        let memory = Arc::new(Memory {
            index: words(&mut index.into_iter()),
            ring: words(&mut ring.into_iter()),
            byte: AtomicU64::new(0),
            without,
        });
        offer(&Index(&memory), &shape(), FRAME, PAGE, 4096);
        open_gate(&Index(&memory));
        memory
    }

    /// The program writes; true if it is done without a call.
    fn leave(&self) -> bool {
        let before = gate(&Index(self));
        if before.is_multiple_of(2) || offered(&Index(self), &shape(), PAGE) == 0 {
            return false;
        }
        let Some((at, _)) = room(&SharedRing(self), 1) else {
            return false;
        };
        self.byte.store(7, Relaxed);
        let said = Said {
            stamp: 1,
            file: PAGE.file,
            offset: 0,
            len: 1,
        };
        describe(&SharedRing(self), at, &said);
        publish(&SharedRing(self), at, 1);
        gate(&Index(self)) == before || !retract(&SharedRing(self), at, 1)
    }

    /// The agent takes what was left: the byte.
    fn bring(&self) -> Option<u64> {
        let tail = take(&SharedRing(self), 0);
        if tail == 0 {
            return None;
        }
        assert_eq!(
            read(&SharedRing(self), 0).len,
            1,
            "an entry without its head"
        );
        let byte = self.byte.load(Relaxed);
        judge(&SharedRing(self), 0, Verdict::Applied);
        settle(&SharedRing(self), tail);
        Some(byte)
    }

    fn fence(&self, order: Ordering, gone: Without) {
        if order != SeqCst || self.without != gone {
            loom::sync::atomic::fence(order);
        }
    }
}

impl Look for Index<'_> {
    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.0.index[&word].load(order)
    }

    fn fence(&self, order: Ordering) {
        self.0.fence(order, Without::FenceOfShut);
    }
}

impl Board for Index<'_> {
    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.0.index[&word].store(value, order);
    }
}

impl Ring for SharedRing<'_> {
    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.0.ring[&word].load(order)
    }

    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.0.ring[&word].store(value, order);
    }

    fn fence(&self, order: Ordering) {
        self.0.fence(order, Without::FenceOfPublish);
    }

    fn set(&self, word: usize, bits: u64, order: Ordering) -> u64 {
        self.0.ring[&word].fetch_or(bits, order)
    }

    fn replace(&self, word: usize, from: u64, to: u64, order: Ordering) -> bool {
        let word = &self.0.ring[&word];
        word.compare_exchange(from, to, order, Relaxed).is_ok()
    }
}

/// A program leaves a write while the agent does something that begins with what was left: what they came to is
/// checked in every order.
fn beside(
    without: Without,
    agent: impl Fn(&Memory) -> Option<u64> + Copy + Send + Sync + 'static,
    check: impl Fn(&Memory, bool, Option<u64>) + Send + Sync + 'static,
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let memory = Memory::new(without);
        let beside = {
            let memory = Arc::clone(&memory);
            loom::thread::spawn(move || agent(&memory))
        };
        let done = memory.leave();
        let given = beside.join().expect("the agent ends");
        check(&memory, done, given);
    });
}

/// A program writes while the agent gives the page away.
fn left_before_it_is_given(without: Without, opens_again: bool) {
    let give = move |memory: &Memory| {
        shut_gate(&Index(memory));
        let given = memory.bring();
        take_back(&Index(memory), &shape(), FRAME);
        if opens_again {
            open_gate(&Index(memory));
        }
        given
    };
    beside(without, give, |_, done, given| {
        if done {
            assert_eq!(
                given,
                Some(7),
                "a write that was done is not in what is given away"
            );
        } else {
            assert_eq!(given, None, "a write that the program makes once more");
        }
    });
}

#[test]
fn what_was_left_is_there_before_the_page_is_given_away() {
    left_before_it_is_given(Without::Nothing, false);
    left_before_it_is_given(Without::Nothing, true);
}

#[test]
#[should_panic(expected = "a write that was done is not in what is given away")]
fn canary_without_the_fence_of_publish_a_write_is_missed() {
    left_before_it_is_given(Without::FenceOfPublish, false);
}

#[test]
#[should_panic(expected = "a write that was done is not in what is given away")]
fn canary_without_the_fence_of_shut_a_write_is_missed() {
    left_before_it_is_given(Without::FenceOfShut, false);
}

/// A program writes while the agent forgets its write ring, and goes on without it.
fn left_while_it_is_forgotten(without: Without) {
    let forget = |memory: &Memory| {
        shut_gate(&Index(memory));
        let given = memory.bring();
        if memory.without != Without::End {
            end(&SharedRing(memory));
        }
        open_gate(&Index(memory));
        given
    };
    beside(without, forget, |memory, done, given| {
        assert!(!memory.leave(), "a forgotten write ring takes a write");
        assert_eq!(
            done,
            given.is_some(),
            "a forgotten write ring takes a write"
        );
    });
}

#[test]
fn a_write_ring_that_is_forgotten_takes_nothing() {
    left_while_it_is_forgotten(Without::Nothing);
}

#[test]
#[should_panic(expected = "a forgotten write ring takes a write")]
fn canary_without_its_end_a_forgotten_write_ring_takes_writes() {
    left_while_it_is_forgotten(Without::End);
}
