//! The protocol of the shared index over words of this process, by threads as they run: for an
//! interpreter that sees undefined behaviour and weak memory (`make miri`), which cannot map memory files.
//!
//! The very lines of `src/index/protocol.rs`, as in `model.rs`, which goes through every order of few
//! steps; here are many steps in some orders.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "the sources are the library's, of which a part is used"
)]

#[path = "../src/index/layout.rs"]
mod layout;
#[path = "../src/index/protocol.rs"]
mod protocol;

use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};
use std::sync::atomic::{self, AtomicU64};
use std::thread;

use layout::Layout;
use protocol::{
    Board, Look, PageName, change_names, hide, look, publish, still, still_told, tell, told, untell,
};

const FRAMES: u32 = 4;
/// Changes of each test.
const CHANGES: u64 = if cfg!(miri) { 4 } else { 20_000 };

/// All words of an index, and two words of each frame.
struct Memory {
    words: Vec<AtomicU64>,
    frames: Vec<[AtomicU64; 2]>,
    /// Changes that somebody was told of.
    news: AtomicU64,
}

fn shape() -> Layout {
    Layout::of(FRAMES, 4096)
}

impl Memory {
    fn new() -> Memory {
        let memory = Memory {
            words: (0..shape().words()).map(|_| AtomicU64::new(0)).collect(),
            frames: (0..FRAMES).map(|_| Default::default()).collect(),
            news: AtomicU64::new(0),
        };
        shape().write(&memory);
        memory
    }
}

impl Look for Memory {
    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.words[word].load(order)
    }

    fn fence(&self, order: Ordering) {
        atomic::fence(order);
    }
}

impl Board for Memory {
    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.words[word].store(value, order);
    }
}

/// Does `work` in a thread while `look` is made again and again; the news counts what is done.
fn beside(memory: &Memory, work: impl Fn(u64) + Sync, look: impl Fn()) {
    thread::scope(|scope| {
        let agent = scope.spawn(|| {
            for number in 1..=CHANGES {
                work(number);
                memory.news.store(number, Release);
            }
        });
        while !agent.is_finished() {
            look();
            thread::yield_now();
        }
    });
}

#[test]
fn what_another_process_mapped_is_an_index_of_this_shape() {
    let memory = Memory::new();
    let read = Layout::read(|word| memory.words[word].load(Acquire));
    assert_eq!(read, Some(shape()));
    assert_eq!(Layout::read(|_| 0), None);
}

/// X2, X3: pages move from frame to frame, and change as they do.
#[test]
fn a_copy_that_passes_is_one_version_and_none_that_was_called_back() {
    let memory = Memory::new();
    let page = |number: u64| PageName {
        file: 1,
        page: number % 3,
    };
    let change = |number: u64| {
        let frame = (number % u64::from(FRAMES)) as u32;
        // The owner hides a frame before it takes it, and calls a page back before it changes.
        (0..FRAMES).for_each(|frame| hide(&memory, &shape(), frame));
        let words = &memory.frames[frame as usize];
        words.iter().for_each(|word| word.store(number, Relaxed));
        publish(&memory, &shape(), frame, page(number), 4096);
    };
    beside(&memory, change, || {
        let heard = memory.news.load(Acquire);
        for number in 0..3 {
            let Some(found) = look(&memory, &shape(), page(number)) else {
                continue;
            };
            let words = &memory.frames[found.frame as usize];
            let [one, other] = [0, 1].map(|at: usize| words[at].load(Relaxed));
            if still(&memory, &shape(), &found) {
                assert_eq!(one, other, "a torn page");
                assert_eq!(one % 3, number, "another page");
                assert!(one >= heard, "a page that was called back");
            }
        }
    });
}

/// X5: what is told of a file, again and again, and taken back.
#[test]
fn what_was_told_is_not_believed_after_the_news() {
    let memory = Memory::new();
    let change = |number: u64| {
        match number % 4 {
            0 => change_names(&memory),
            _ => untell(&memory, &shape(), 9),
        }
        tell(&memory, &shape(), 9, number, number);
        tell(&memory, &shape(), 9, number, number);
    };
    beside(&memory, change, || {
        let heard = memory.news.load(Acquire);
        if let Some(told) = told(&memory, &shape(), 9) {
            assert_eq!(told.digest, told.until_ns, "of two times");
            assert!(told.digest >= heard, "an answer of before the change");
            let later = memory.news.load(Acquire);
            // The next change has begun before its news.
            if later > told.digest {
                assert!(!still_told(&memory, &told), "believed after the news");
            }
        }
    });
}
