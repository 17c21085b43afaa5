//! The working directory, kept so that a relative path costs no system call.
//!
//! A sequence lock over words: odd while it is written. A reader that meets a writer asks the
//! operating system instead of waiting.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use crate::names::{NAME_MAX, Name};
use crate::{life, sys};

const WORDS: usize = NAME_MAX / 8;

static SEQUENCE: AtomicU32 = AtomicU32::new(0);
static LENGTH: AtomicUsize = AtomicUsize::new(0);
static BYTES: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

/// The program has moved, or may have.
pub(crate) fn forget() {
    // A child of `vfork` moves alone.
    if life::is_own_memory() {
        write(&Name::empty());
    }
}

/// Begins `name` with the working directory.
pub(crate) fn read(name: &mut Name) -> Option<()> {
    if let Some(known) = kept() {
        *name = known;
        return Some(());
    }
    name.fill(sys::working_directory)?;
    if life::is_own_memory() {
        write(name);
    }
    Some(())
}

fn kept() -> Option<Name> {
    let before = SEQUENCE.load(Ordering::Acquire);
    let len = LENGTH.load(Ordering::Relaxed);
    if before % 2 == 1 || len == 0 {
        return None;
    }
    let mut name = Name::empty();
    name.fill(|bytes| {
        let (words, _) = bytes.as_chunks_mut::<8>();
        for (to, from) in words.iter_mut().zip(&BYTES).take(len.div_ceil(8)) {
            *to = from.load(Ordering::Relaxed).to_ne_bytes();
        }
        Some(len)
    })?;
    // Pairs with the fence in `write`: if any word was new, so is the sequence.
    fence(Ordering::Acquire);
    (SEQUENCE.load(Ordering::Relaxed) == before).then_some(name)
}

fn write(name: &Name) {
    let before = SEQUENCE.load(Ordering::Relaxed);
    let taken = SEQUENCE.compare_exchange(
        before & !1,
        before | 1,
        Ordering::Acquire,
        Ordering::Relaxed,
    );
    if taken.is_err() {
        return;
    }
    // Pairs with the fence in `kept`.
    fence(Ordering::Release);
    let bytes = name.as_bytes();
    LENGTH.store(bytes.len(), Ordering::Relaxed);
    for (to, from) in BYTES.iter().zip(bytes.chunks(8)) {
        let mut word = [0; 8];
        word[..from.len()].copy_from_slice(from);
        to.store(u64::from_ne_bytes(word), Ordering::Relaxed);
    }
    SEQUENCE.store((before | 1).wrapping_add(1), Ordering::Release);
}
