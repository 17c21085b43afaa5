//! The protocol of the shared index under every order of events that the memory model allows.
//!
//! The very lines of `src/index/protocol.rs` run over words of a model (loom). A canary takes one
//! order of the protocol away, and the model must find a page that is torn, or one that is read after
//! it was called back.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "the sources are the library's, of which a part is used"
)]

#[path = "../src/index/layout.rs"]
mod layout;
#[path = "../src/index/protocol.rs"]
mod protocol;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};

use layout::Layout;
use loom::sync::atomic::AtomicU64;
use protocol::{
    Board, Look, PageName, are_heard_since, change_names, hide, look, names, publish, still,
    still_told, tell, tell_unheard, told, untell,
};

/// The fence that is taken away.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    /// The fence between hiding a frame and changing it.
    FenceOfHide,
    /// The fence between a copy and the second look at the sequence.
    FenceOfStill,
}

/// The words of one frame's header and of one bucket, and two words of the frame.
struct Memory {
    words: BTreeMap<usize, AtomicU64>,
    frame: [AtomicU64; 2],
    without: Without,
}

const PAGE: PageName = PageName { file: 3, page: 0 };
const FRAME: u32 = 0;

/// One frame, and so a single bucket.
fn shape() -> Layout {
    Layout::of(1, 4096)
}

impl Memory {
    fn new(without: Without) -> Arc<Memory> {
        let header = shape().header(FRAME);
        let bucket = shape().bucket(0);
        let place = shape().place(PAGE.file);
        let names = [layout::NAMES, layout::NAMES_ARE_KEPT, layout::NAMES_UNHEARD];
        let told = (place..place + 4).chain(names);
        let used = (header..header + 5).chain(bucket..bucket + layout::WAYS);
        let used = used.chain(told);
        Arc::new(Memory {
            words: used.map(|word| (word, AtomicU64::new(0))).collect(),
            frame: [AtomicU64::new(0), AtomicU64::new(0)],
            without,
        })
    }

    fn change(&self, value: u64) {
        hide(self, &shape(), FRAME);
        self.frame
            .iter()
            .for_each(|word| word.store(value, Relaxed));
        publish(self, &shape(), FRAME, PAGE, 4096);
    }

    fn copy(&self) -> Option<[u64; 2]> {
        let found = look(self, &shape(), PAGE)?;
        let copied = [self.frame[0].load(Relaxed), self.frame[1].load(Relaxed)];
        still(self, &shape(), &found).then_some(copied)
    }
}

impl Look for Memory {
    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.words[&word].load(order)
    }

    fn fence(&self, order: Ordering) {
        let is_gone = match order {
            Release => self.without == Without::FenceOfHide,
            Acquire => self.without == Without::FenceOfStill,
            _ => false,
        };
        if !is_gone {
            loom::sync::atomic::fence(order);
        }
    }
}

impl Board for Memory {
    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.words[&word].store(value, order);
    }
}

/// A page changes while a program copies it; with `first` it was shown before.
fn change_under_a_copy(without: Without, first: &'static [u64]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let memory = Memory::new(without);
        first.iter().for_each(|&value| memory.change(value));
        let agent = {
            let memory = Arc::clone(&memory);
            loom::thread::spawn(move || memory.change(2))
        };
        if let Some([one, other]) = memory.copy() {
            assert!(one != 0 && other != 0, "a page without its bytes");
            assert_eq!(one, other, "a torn page");
        }
        agent.join().expect("the agent ends");
    });
}

/// The agent's first action.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Hides,
    Tells,
}

/// A program hears that a page was called back, and reads it.
fn read_after_the_news(first: First) {
    loom::model(move || {
        let memory = Memory::new(Without::Nothing);
        memory.change(1);
        let news = Arc::new(AtomicU64::new(0));
        let agent = {
            let (memory, news) = (Arc::clone(&memory), Arc::clone(&news));
            loom::thread::spawn(move || {
                if first == First::Tells {
                    news.store(1, Release);
                }
                hide(&*memory, &shape(), FRAME);
                news.store(1, Release);
            })
        };
        if news.load(Acquire) == 1 {
            assert_eq!(memory.copy(), None, "a page that was called back");
        }
        agent.join().expect("the agent ends");
    });
}

#[test]
fn a_copy_that_passes_is_one_version_of_the_page() {
    change_under_a_copy(Without::Nothing, &[1]);
}

/// A program keeps what was told, and hears that the file, or a name, has changed.
fn believed_after_the_news(change: fn(&Memory), first: First) {
    loom::model(move || {
        let memory = Memory::new(Without::Nothing);
        tell(&*memory, &shape(), PAGE.file, 7, 1);
        let kept = told(&*memory, &shape(), PAGE.file).expect("it was told");
        let news = Arc::new(AtomicU64::new(0));
        let agent = {
            let (memory, news) = (Arc::clone(&memory), Arc::clone(&news));
            loom::thread::spawn(move || {
                if first == First::Tells {
                    news.store(1, Release);
                }
                change(&memory);
                news.store(1, Release);
            })
        };
        if news.load(Acquire) == 1 {
            assert!(
                !still_told(&*memory, &kept),
                "an answer of before the change"
            );
        }
        agent.join().expect("the agent ends");
    });
}

/// A program goes through a path on which it is told a name that may change unheard.
fn kept_after_an_unheard_name(first: First) {
    loom::model(move || {
        let memory = Memory::new(Without::Nothing);
        let before = names(&*memory);
        let name = Arc::new(AtomicU64::new(0));
        let agent = {
            let (memory, name) = (Arc::clone(&memory), Arc::clone(&name));
            loom::thread::spawn(move || {
                if first == First::Tells {
                    name.store(1, Release);
                }
                tell_unheard(&*memory);
                name.store(1, Release);
            })
        };
        if name.load(Acquire) == 1 {
            assert!(!are_heard_since(&*memory, &before), "it is kept");
        }
        agent.join().expect("the agent ends");
    });
}

#[test]
fn what_a_path_led_to_is_not_kept_after_an_unheard_name() {
    kept_after_an_unheard_name(First::Hides);
}

#[test]
#[should_panic(expected = "it is kept")]
fn canary_an_agent_that_tells_a_name_before_it_counts_is_found_out() {
    kept_after_an_unheard_name(First::Tells);
}

fn change_file(memory: &Memory) {
    untell(memory, &shape(), PAGE.file);
}

/// The attributes told of a file change while a program takes them.
fn told_is_of_one_time(without: Without) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let memory = Memory::new(without);
        tell(&*memory, &shape(), PAGE.file, 1, 1);
        let agent = {
            let memory = Arc::clone(&memory);
            loom::thread::spawn(move || tell(&*memory, &shape(), PAGE.file, 2, 2))
        };
        if let Some(told) = told(&*memory, &shape(), PAGE.file) {
            assert_eq!(told.digest, told.until_ns, "of two times");
        }
        agent.join().expect("the agent ends");
    });
}

#[test]
fn what_was_told_is_of_one_time() {
    told_is_of_one_time(Without::Nothing);
}

#[test]
#[should_panic(expected = "of two times")]
fn canary_without_the_fence_of_hide_what_was_told_is_mixed() {
    told_is_of_one_time(Without::FenceOfHide);
}

#[test]
fn what_was_told_is_not_believed_after_the_news_of_a_change() {
    believed_after_the_news(change_file, First::Hides);
    believed_after_the_news(change_names, First::Hides);
}

#[test]
#[should_panic(expected = "an answer of before the change")]
fn canary_an_agent_that_tells_of_a_changed_file_too_early_is_found_out() {
    believed_after_the_news(change_file, First::Tells);
}

#[test]
#[should_panic(expected = "an answer of before the change")]
fn canary_an_agent_that_tells_of_a_changed_name_too_early_is_found_out() {
    believed_after_the_news(change_names, First::Tells);
}

#[test]
fn a_page_is_found_with_its_bytes() {
    change_under_a_copy(Without::Nothing, &[]);
}

#[test]
#[should_panic(expected = "a torn page")]
fn canary_without_the_fence_of_hide_a_torn_page_passes() {
    change_under_a_copy(Without::FenceOfHide, &[1]);
}

#[test]
#[should_panic(expected = "a torn page")]
fn canary_without_the_fence_of_still_a_torn_page_passes() {
    change_under_a_copy(Without::FenceOfStill, &[1]);
}

#[test]
fn a_page_is_not_read_after_the_news_that_it_was_called_back() {
    read_after_the_news(First::Hides);
}

#[test]
#[should_panic(expected = "a page that was called back")]
fn canary_an_agent_that_tells_before_it_hides_is_found_out() {
    read_after_the_news(First::Tells);
}
