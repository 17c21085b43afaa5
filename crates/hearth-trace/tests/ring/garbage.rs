//! Areas that are nonsense: a drain reads what can be read, and clears away what is nobody's.

use std::path::Path;

use hearth_trace::area::AreaName;
use hearth_trace::ring::{Drain, Options, WhenFull, tracer};

use crate::support::script::Script;
use crate::support::{Collected, is_alone, private_directory};

const PAGE: usize = 4096;

#[test]
fn nonsense_in_an_area_never_stops_a_drain() {
    if !is_alone("garbage::nonsense_in_an_area_never_stops_a_drain") {
        return;
    }
    let good = area_of_this_process();
    let directory = private_directory();
    let mut drain = Drain::open(directory.path()).expect("it is ours");
    let mut noise = Noise(0x5eed);
    let mut got = Collected::default();
    for round in 0..1_500 {
        let mut bytes = good.clone();
        spoil(&mut bytes, &mut noise, round);
        put(directory.path(), round, &bytes);
        drain.scan().expect("the directory can be listed");
        drain.pass(&mut got).expect("a collection takes everything");
        assert_eq!(drain.areas().count(), 0, "its process is gone");
        // A file that is no area may become one, and is left alone for a while.
        let _ = std::fs::remove_file(directory.path().join(name(round).to_string()));
    }
    assert!(
        got.ended.len() > 500,
        "most nonsense leaves an area an area"
    );
    let stored: usize = got.streams.iter().map(|stream| stream.records.len()).sum();
    assert!(stored > 500, "and some of its records");
}

#[test]
fn files_that_are_no_areas_are_left_alone() {
    let directory = private_directory();
    std::fs::write(directory.path().join("notes"), "mine").expect("it is ours");
    let target = directory.path().join("notes");
    std::os::unix::fs::symlink(target, directory.path().join(name(1).to_string()))
        .expect("it is ours");
    put(directory.path(), 2, b"HearthRg");
    put(directory.path(), 3, b"");
    let mut drain = Drain::open(directory.path()).expect("it is ours");
    assert_eq!(drain.scan().expect("it can be listed"), 0);
    let left = std::fs::read_dir(directory.path())
        .expect("it is ours")
        .count();
    assert_eq!(left, 4);
}

/// The bytes of a small area with everything in it: names, two rings, drops.
fn area_of_this_process() -> Vec<u8> {
    let directory = private_directory();
    let options = Options {
        directory: directory.path().to_owned(),
        capacity: 64,
        threads: 2,
        names_bytes: PAGE as u32,
        ..Options::default()
    };
    tracer::start(options).expect("a private directory in memory takes an area");
    for number in 0..30 {
        tracer::file(format!("/scratch/file-{number}").as_bytes());
    }
    for _ in 0..2 {
        std::thread::spawn(|| (1..=70).for_each(|n| Script { seed: 1 }.act(n)))
            .join()
            .expect("no panic");
    }
    let name = tracer::area().expect("it was started");
    std::fs::read(directory.path().join(name.to_string())).expect("it is ours")
}

/// A process that is not: this one's number, begun at another time.
fn name(round: u64) -> AreaName {
    let this = AreaName::of_this_process().expect("/proc is there");
    AreaName {
        start_time: this.start_time + 1 + round,
        ..this
    }
}

fn put(directory: &Path, round: u64, bytes: &[u8]) {
    std::fs::write(directory.join(name(round).to_string()), bytes).expect("it is ours");
}

fn spoil(bytes: &mut Vec<u8>, noise: &mut Noise, round: u64) {
    // Half of the damage where it steers most: slots, names, heads of rings.
    let places = [
        0..PAGE,
        PAGE..PAGE + 64,
        2 * PAGE..3 * PAGE,
        3 * PAGE..4 * PAGE,
        0..bytes.len(),
    ];
    for _ in 0..=noise.below(6) {
        let place = places[1 + noise.below(4)].clone();
        let at = (place.start + noise.below(place.len())) & !7;
        let word = match noise.below(4) {
            0 => u64::MAX,
            1 => noise.next() & 0xff,
            2 => 1 << noise.below(64),
            _ => noise.next(),
        };
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    match round % 10 {
        0 => bytes.truncate(noise.below(bytes.len())),
        1 => {
            let at = noise.below(PAGE);
            bytes[at] ^= 1 << noise.below(8);
        }
        2 => {
            let policy = [WhenFull::Drop, WhenFull::Overwrite][noise.below(2)];
            // The place of the policy in the header; see docs/formats/trace-ring.md.
            bytes[44] = if policy == WhenFull::Overwrite { 2 } else { 0 };
        }
        _ => {}
    }
}

/// Numbers that are the same in every run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}
