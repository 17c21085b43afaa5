//! Online policies: the worked example, simple models beside them, and what each is known for.

mod support;

use hearth_plan::online::{EvictionPolicy, Met};
use hearth_plan::{Bytes, FileIndex};
use support::Draw;

/// Bytes (from the disk, from memory).
fn replay(kind: EvictionPolicy, capacity: u64, reads: &[(u32, u64)]) -> (u64, u64) {
    let mut cache = kind.cache(Bytes(capacity));
    let mut bytes = (0, 0);
    for (file, size) in reads {
        match cache.read(FileIndex(*file), Bytes(*size)) {
            Met::Miss => bytes.0 += size,
            Met::Hit => bytes.1 += size,
        }
    }
    bytes
}

#[test]
fn w_without_the_future_the_worked_example_costs_more() {
    let sizes = [20, 40, 9, 40];
    let reads = [1, 2, 3, 4, 3, 1, 2, 4, 3].map(|file| (file - 1, sizes[file as usize - 1]));
    assert_eq!(replay(EvictionPolicy::Lru, 100, &reads), (218, 9));
    assert_eq!(replay(EvictionPolicy::GdsfBytes, 100, &reads), (209, 18));
}

#[test]
fn no_cache_holds_more_than_it_may() {
    for kind in EvictionPolicy::ALL {
        for seed in 0..40 {
            let mut draw = Draw(seed);
            let capacity = Bytes(draw.within(0, 300));
            let mut cache = kind.cache(capacity);
            for _ in 0..500 {
                let file = FileIndex(draw.within(0, 30) as u32);
                let was_there = cache.holds(file);
                let met = cache.read(file, Bytes(draw.within(0, 90)));
                assert_eq!(met == Met::Hit, was_there, "{} seed {seed}", kind.name());
                assert!(cache.used() <= capacity, "{} seed {seed}", kind.name());
            }
        }
    }
}

/// Least recently used first, as plainly as it can be written.
struct PlainLru {
    capacity: u64,
    files: Vec<(u32, u64)>,
}

impl PlainLru {
    fn read(&mut self, file: u32, size: u64) -> Met {
        let found = self.files.iter().position(|(held, _)| *held == file);
        let (met, size) = match found {
            Some(place) => (Met::Hit, self.files.remove(place).1),
            None => (Met::Miss, size),
        };
        if size > self.capacity {
            return met;
        }
        self.files.push((file, size));
        while self.files.iter().map(|(_, size)| size).sum::<u64>() > self.capacity {
            self.files.remove(0);
        }
        met
    }
}

#[test]
fn lru_does_what_a_plain_list_does() {
    for seed in 0..60 {
        let mut draw = Draw(seed);
        let capacity = draw.within(50, 300);
        let mut plain = PlainLru {
            capacity,
            files: Vec::new(),
        };
        let mut cache = EvictionPolicy::Lru.cache(Bytes(capacity));
        for _ in 0..400 {
            let (file, size) = (draw.within(0, 20) as u32, draw.within(1, 90));
            let met = cache.read(FileIndex(file), Bytes(size));
            assert_eq!(met, plain.read(file, size), "seed {seed}");
        }
    }
}

#[test]
fn sieve_spares_what_was_read_again() {
    let mut cache = EvictionPolicy::Sieve.cache(Bytes(3));
    for file in [0, 1, 2, 0, 3] {
        cache.read(FileIndex(file), Bytes(1));
    }
    assert!(cache.holds(FileIndex(0)) && !cache.holds(FileIndex(1)));
    cache.read(FileIndex(4), Bytes(1));
    assert!(
        !cache.holds(FileIndex(2)),
        "the hand goes on from where it stood"
    );
    assert!(cache.holds(FileIndex(0)) && cache.holds(FileIndex(3)) && cache.holds(FileIndex(4)));
}

#[test]
fn a_scan_leaves_alone_what_is_read_often() {
    let hot = (0..40).cycle().take(400).map(|file| (file, 1));
    let scan = (1000..1400).map(|file| (file, 1));
    let again = (0..40).map(|file| (file, 1));
    let reads: Vec<(u32, u64)> = hot.chain(scan).chain(again).collect();
    assert_eq!(replay(EvictionPolicy::Lru, 100, &reads).1, 360);
    for kind in [
        EvictionPolicy::S3Fifo,
        EvictionPolicy::Sieve,
        EvictionPolicy::Arc,
        EvictionPolicy::Gdsf,
    ] {
        let hits = replay(kind, 100, &reads).1;
        assert_eq!(hits, 400, "{} forgot what is read often", kind.name());
    }
}

#[test]
fn gdsf_lets_a_large_file_go_before_an_older_small_one() {
    let kept = |kind: EvictionPolicy| {
        let mut cache = kind.cache(Bytes(100));
        for (file, size) in [(0, 10), (1, 60), (2, 40)] {
            cache.read(FileIndex(file), Bytes(size));
        }
        [0, 1, 2].map(|file| cache.holds(FileIndex(file)))
    };
    assert_eq!(kept(EvictionPolicy::Lru), [false, true, true]);
    assert_eq!(kept(EvictionPolicy::Gdsf), [true, false, true]);
}

#[test]
fn a_file_larger_than_the_cache_passes_by() {
    for kind in EvictionPolicy::ALL {
        let reads = [(0, 10), (1, 101), (1, 101), (0, 10)];
        assert_eq!(replay(kind, 100, &reads), (212, 10), "{}", kind.name());
    }
}
