//! Bytes that this process has written and nobody has confirmed to be in the store. If the agent is
//! gone, so may they be, and the program must hear of it before it reads older bytes in their place.
//!
//! 1. Bytes are noted before they are written, and forgotten when a sync or a close that began after
//!    the write has succeeded, or has told the program.
//! 2. If there is no room to say which, all bytes of the file count as such.
//!
//! Kept by the file's number, so that all descriptors of a file agree. Memory of a fixed size, no lock
//! is waited for: a thread that finds a file busy says "all".

use std::ops::Range;
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

/// Files that are told apart; beyond, two that meet in one place are one.
const FILES: usize = 128;
/// Runs of one file.
const RUNS: usize = 32;
/// Looks at a busy file.
const LOOKS: usize = 1000;
/// No file has this number. Which they were is not known any more, so it stays.
const SEVERAL: u64 = u64::MAX;

static TABLE: [File; FILES] = [const { File::new() }; FILES];

struct File {
    is_busy: AtomicBool,
    /// Number of a file all of which counts, 0 for none, [`SEVERAL`] for more than one.
    all_of: AtomicU64,
    /// How many of the runs count.
    count: AtomicU64,
    /// Number of the file, and its first and last byte.
    runs: [Run; RUNS],
}

struct Run {
    number: AtomicU64,
    from: AtomicU64,
    to: AtomicU64,
}

/// A copy of what is known of a file.
pub(crate) struct Noted {
    is_all: bool,
    runs: [(u64, u64); RUNS],
    count: usize,
}

impl Noted {
    pub(crate) const NOTHING: Noted = Noted {
        is_all: false,
        runs: [(0, 0); RUNS],
        count: 0,
    };

    pub(crate) fn is_empty(&self) -> bool {
        !self.is_all && self.count == 0
    }
}

impl File {
    const fn new() -> File {
        File {
            is_busy: AtomicBool::new(false),
            all_of: AtomicU64::new(0),
            count: AtomicU64::new(0),
            runs: [const {
                Run {
                    number: AtomicU64::new(0),
                    from: AtomicU64::new(0),
                    to: AtomicU64::new(0),
                }
            }; RUNS],
        }
    }

    /// Does `work` alone; `None` if somebody else is at it, perhaps the thread that a signal handler
    /// has interrupted.
    fn alone<T>(&self, work: impl FnOnce(&File) -> T) -> Option<T> {
        // Acquire and release: what one has written the next one reads.
        let take = || {
            self.is_busy
                .compare_exchange_weak(false, true, Acquire, Relaxed)
        };
        (0..LOOKS).find(|_| {
            let taken = take().is_ok();
            if !taken {
                std::hint::spin_loop();
            }
            taken
        })?;
        let done = work(self);
        self.is_busy.store(false, Release);
        Some(done)
    }

    fn is_all_of(&self, number: u64) -> bool {
        let known = self.all_of.load(Relaxed);
        known == number || known == SEVERAL
    }

    fn say_all_of(&self, number: u64) {
        let known = self.all_of.compare_exchange(0, number, Relaxed, Relaxed);
        if known.is_err_and(|known| known != number) {
            self.all_of.store(SEVERAL, Relaxed);
        }
    }

    fn count(&self) -> usize {
        (self.count.load(Relaxed) as usize).min(RUNS)
    }

    fn each(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().take(self.count())
    }

    /// Adds a run: to one that it touches, or in a new place.
    fn add(&self, number: u64, bytes: &Range<u64>) {
        let touches = |run: &&Run| {
            run.number.load(Relaxed) == number
                && run.from.load(Relaxed) <= bytes.end
                && run.to.load(Relaxed) >= bytes.start
        };
        if let Some(run) = self.each().find(touches) {
            run.from.fetch_min(bytes.start, Relaxed);
            run.to.fetch_max(bytes.end, Relaxed);
            return;
        }
        let count = self.count();
        match self.runs.get(count) {
            Some(run) => {
                run.set(number, bytes);
                self.count.store(count as u64 + 1, Relaxed);
            }
            None => self.widen(number, bytes),
        }
    }

    /// There is no room: the nearest run of the file grows to reach the new bytes.
    fn widen(&self, number: u64, bytes: &Range<u64>) {
        let own = self.each().filter(|run| run.number.load(Relaxed) == number);
        let distance = |run: &&Run| {
            let (from, to) = (run.from.load(Relaxed), run.to.load(Relaxed));
            from.saturating_sub(bytes.end)
                .max(bytes.start.saturating_sub(to))
        };
        match own.min_by_key(distance) {
            Some(run) => {
                run.from.fetch_min(bytes.start, Relaxed);
                run.to.fetch_max(bytes.end, Relaxed);
            }
            None => self.say_all_of(number),
        }
    }

    /// Takes the runs of a file out.
    fn take(&self, number: u64) -> Noted {
        let noted = self.copy(number);
        let _ = self.all_of.compare_exchange(number, 0, Relaxed, Relaxed);
        let mut kept = 0;
        for at in 0..self.count() {
            let run = &self.runs[at];
            if run.number.load(Relaxed) != number {
                let bytes = run.from.load(Relaxed)..run.to.load(Relaxed);
                self.runs[kept].set(run.number.load(Relaxed), &bytes);
                kept += 1;
            }
        }
        self.count.store(kept as u64, Relaxed);
        noted
    }

    fn copy(&self, number: u64) -> Noted {
        let mut noted = Noted {
            is_all: self.is_all_of(number),
            ..Noted::NOTHING
        };
        for run in self.each().filter(|run| run.number.load(Relaxed) == number) {
            noted.runs[noted.count] = (run.from.load(Relaxed), run.to.load(Relaxed));
            noted.count += 1;
        }
        noted
    }
}

impl Run {
    fn set(&self, number: u64, bytes: &Range<u64>) {
        self.number.store(number, Relaxed);
        self.from.store(bytes.start, Relaxed);
        self.to.store(bytes.end, Relaxed);
    }
}

fn place(number: u64) -> &'static File {
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 57;
    &TABLE[hash as usize % FILES]
}

/// Bytes of a file are about to be written.
pub(crate) fn note(number: u64, bytes: Range<u64>) {
    let file = place(number);
    if file.alone(|file| file.add(number, &bytes)).is_none() {
        file.say_all_of(number);
    }
}

/// A sync or a close begins: what it is to confirm. Put back with [`put_back`] if it does not.
pub(crate) fn take(number: u64) -> Noted {
    let file = place(number);
    if file.count.load(Relaxed) == 0 && !file.is_all_of(number) {
        return Noted::NOTHING;
    }
    let busy = Noted {
        is_all: true,
        ..Noted::NOTHING
    };
    file.alone(|file| file.take(number)).unwrap_or(busy)
}

/// It has confirmed nothing.
pub(crate) fn put_back(number: u64, noted: &Noted) {
    let file = place(number);
    if noted.is_all {
        file.say_all_of(number);
    }
    for (from, to) in noted.runs.iter().take(noted.count) {
        note(number, *from..*to);
    }
}

/// Whether some bytes of a file are not confirmed.
pub(crate) fn any(number: u64) -> bool {
    overlaps(number, 0..u64::MAX)
}

/// Whether some of these are not.
pub(crate) fn overlaps(number: u64, bytes: Range<u64>) -> bool {
    let file = place(number);
    if file.is_all_of(number) {
        return true;
    }
    if file.count.load(Relaxed) == 0 {
        return false;
    }
    let Some(noted) = file.alone(|file| file.copy(number)) else {
        return true;
    };
    let mut runs = noted.runs.iter().take(noted.count);
    noted.is_all || runs.any(|(from, to)| *from < bytes.end && *to > bytes.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_unsaved_until_it_is_taken() {
        note(7, 100..200);
        note(7, 200..300);
        assert!(overlaps(7, 299..300) && !overlaps(7, 300..400) && !overlaps(7, 0..100));
        let taken = take(7);
        assert!(!any(7) && taken.count == 1);
        put_back(7, &taken);
        assert!(overlaps(7, 150..160));
        take(7);
    }

    #[test]
    fn more_runs_than_there_is_room_for_grow_and_never_shrink() {
        for run in 0..100 {
            note(9, run * 1000..run * 1000 + 10);
        }
        assert!((0..100).all(|run| overlaps(9, run * 1000..run * 1000 + 1)));
        assert!(!take(9).is_empty() && !any(9));
    }

    #[test]
    fn a_file_that_is_busy_counts_as_unsaved_in_whole() {
        let file = place(11);
        file.is_busy.store(true, Relaxed);
        note(11, 0..1);
        file.is_busy.store(false, Relaxed);
        assert!(overlaps(11, 5000..5001));
        assert!(!take(11).is_empty() && !any(11));
    }
}
