//! Pipes under every order of events that the memory model allows.
//!
//! The very lines of `src/pipe/protocol.rs` run over words of a model (loom). A canary takes one order away,
//! and the model must find an end that sleeps for ever, or bytes that are not the ones that were written. There
//! is none for copies that come after the word that they are done: in the model no load sees a later store.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "the sources are the library's, of which a part is used"
)]

#[path = "../src/pipe/protocol.rs"]
mod protocol;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{self, Relaxed, SeqCst};

use loom::sync::atomic::AtomicU64;
use protocol::{Cells, HEAD, LISTENS, TAIL, WAITS, filled, free, listen, publish, room, wait};

/// The fence or order that is taken away.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    /// The writer's fences: between its bytes and its look at who listens, or between waiting and its look.
    FenceOfWriter,
    /// The reader's fences, in the same places.
    FenceOfReader,
    /// Bytes before the tail.
    OrderOfTail,
}

const CAPACITY: u64 = 2;

/// A ring of two bytes, and whether each end has been woken.
struct Memory {
    words: BTreeMap<usize, AtomicU64>,
    bytes: [AtomicU64; CAPACITY as usize],
    reader_woken: AtomicU64,
    writer_woken: AtomicU64,
    without: Without,
}

/// The same memory as each end sees it.
struct Writer<'a>(&'a Memory);
struct Reader<'a>(&'a Memory);

impl Memory {
    fn new(without: Without) -> Arc<Memory> {
        let zero = || AtomicU64::new(0);
        let words = [TAIL, HEAD, LISTENS, WAITS];
        Arc::new(Memory {
            words: words.into_iter().map(|word| (word, zero())).collect(),
            bytes: [zero(), zero()],
            reader_woken: zero(),
            writer_woken: zero(),
            without,
        })
    }

    fn put(&self, at: u64, byte: u64) {
        self.bytes[(at % CAPACITY) as usize].store(byte, Relaxed);
    }

    fn get(&self, at: u64) -> u64 {
        self.bytes[(at % CAPACITY) as usize].load(Relaxed)
    }

    fn fence(&self, order: Ordering, gone: Without) {
        if order != SeqCst || self.without != gone {
            loom::sync::atomic::fence(order);
        }
    }
}

impl Cells for Writer<'_> {
    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.0.words[&word].load(order)
    }

    fn store(&self, word: usize, value: u64, order: Ordering) {
        let is_gone = word == TAIL && self.0.without == Without::OrderOfTail;
        self.0.words[&word].store(value, if is_gone { Relaxed } else { order });
    }

    fn swap(&self, word: usize, value: u64, order: Ordering) -> u64 {
        self.0.words[&word].swap(value, order)
    }

    fn fence(&self, order: Ordering) {
        self.0.fence(order, Without::FenceOfWriter);
    }
}

impl Cells for Reader<'_> {
    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.0.words[&word].load(order)
    }

    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.0.words[&word].store(value, order);
    }

    fn swap(&self, word: usize, value: u64, order: Ordering) -> u64 {
        self.0.words[&word].swap(value, order)
    }

    fn fence(&self, order: Ordering) {
        self.0.fence(order, Without::FenceOfReader);
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// The writer writes a byte while the reader goes to sleep.
fn written_while_the_reader_falls_asleep(without: Without) {
    check(move || {
        let memory = Memory::new(without);
        let writer = {
            let memory = Arc::clone(&memory);
            loom::thread::spawn(move || {
                memory.put(0, 7);
                if publish(&Writer(&memory), 1) {
                    memory.reader_woken.store(1, Relaxed);
                }
            })
        };
        let there = listen(&Reader(&memory), 0, CAPACITY).expect("an honest writer");
        if there > 0 {
            assert_eq!(memory.get(0), 7, "bytes that nobody wrote");
        }
        writer.join().expect("it ends");
        let woken = memory.reader_woken.load(Relaxed) == 1;
        assert!(there > 0 || woken, "the reader sleeps for ever");
    });
}

#[test]
fn a_reader_that_falls_asleep_sees_the_byte_or_is_woken() {
    written_while_the_reader_falls_asleep(Without::Nothing);
}

#[test]
#[should_panic(expected = "the reader sleeps for ever")]
fn canary_without_the_writers_fence_the_reader_sleeps_on() {
    written_while_the_reader_falls_asleep(Without::FenceOfWriter);
}

#[test]
#[should_panic(expected = "the reader sleeps for ever")]
fn canary_without_the_readers_fence_it_sleeps_on() {
    written_while_the_reader_falls_asleep(Without::FenceOfReader);
}

#[test]
#[should_panic(expected = "bytes that nobody wrote")]
fn canary_without_the_order_of_the_tail_the_byte_is_not_there() {
    written_while_the_reader_falls_asleep(Without::OrderOfTail);
}

/// The ring is full. The reader copies all of it, while the writer goes to sleep, or writes on.
fn read_while_the_writer_falls_asleep(without: Without) {
    check(move || {
        let memory = Memory::new(without);
        memory.put(0, 1);
        memory.put(1, 2);
        publish(&Writer(&memory), CAPACITY);
        let reader = {
            let memory = Arc::clone(&memory);
            loom::thread::spawn(move || {
                let reader = Reader(&memory);
                assert_eq!(filled(&reader, 0, CAPACITY), Some(CAPACITY));
                let copied = [memory.get(0), memory.get(1)];
                if free(&reader, CAPACITY, 0, CAPACITY) {
                    memory.writer_woken.store(1, Relaxed);
                }
                copied
            })
        };
        let writer = Writer(&memory);
        let space = wait(&writer, CAPACITY, CAPACITY).expect("an honest reader");
        if space > 0 {
            memory.put(CAPACITY, 3);
        }
        let copied = reader.join().expect("it ends");
        assert_eq!(copied, [1, 2], "bytes that were overwritten too early");
        let woken = memory.writer_woken.load(Relaxed) == 1;
        assert!(space > 0 || woken, "the writer sleeps for ever");
        assert_eq!(room(&writer, CAPACITY, CAPACITY), Some(CAPACITY));
    });
}

#[test]
fn a_writer_that_falls_asleep_sees_the_room_or_is_woken() {
    read_while_the_writer_falls_asleep(Without::Nothing);
}

#[test]
#[should_panic(expected = "the writer sleeps for ever")]
fn canary_without_the_readers_fence_the_writer_sleeps_on() {
    read_while_the_writer_falls_asleep(Without::FenceOfReader);
}

#[test]
#[should_panic(expected = "the writer sleeps for ever")]
fn canary_without_the_writers_fence_it_sleeps_on() {
    read_while_the_writer_falls_asleep(Without::FenceOfWriter);
}
