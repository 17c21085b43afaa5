//! Retention: the published cases by name, and every way to keep a few files as a check.

mod support;

use hearth_plan::flow::Network;
use hearth_plan::online::{EvictionPolicy, Met};
use hearth_plan::retain::victims::{self, EvictionCandidate, IncomingFile, Memory};
use hearth_plan::retain::{
    Follower, Queue, RetainPlan, ServedBytes, ServedFrom, VictimRule, best, bound,
    bound_fractional, optimum, packing,
};
use hearth_plan::{Bytes, FileIndex};
use support::Draw;

/// The worked example of the paper: F1 is file 0.
fn worked_example() -> Queue {
    let reads = [1, 2, 3, 4, 3, 1, 2, 4, 3];
    let sizes = [20, 40, 9, 40];
    queue(&reads.map(|file| file - 1), &sizes)
}

fn queue(reads: &[u32], sizes: &[u64]) -> Queue {
    let reads = reads.iter().map(|file| FileIndex(*file));
    Queue::new(
        reads.collect(),
        sizes.iter().map(|size| Bytes(*size)).collect(),
    )
}

fn tally(disk: u64, memory: u64) -> ServedBytes {
    ServedBytes {
        disk: Bytes(disk),
        memory: Bytes(memory),
    }
}

#[test]
fn w_the_worked_example_reads_127_bytes_from_the_disk() {
    let queue = worked_example();
    for rule in [VictimRule::Literal, VictimRule::Paper, VictimRule::Covering] {
        let follower = Follower::new(&queue, Bytes(100), rule);
        assert_eq!(follower.tally(), tally(127, 100), "{rule:?}");
    }
    assert_eq!(best(&queue, Bytes(100)).plan.tally(&queue), tally(127, 100));
    assert_eq!(
        optimum(&queue, Bytes(100)).unwrap().tally(&queue),
        tally(127, 100)
    );
    assert!(bound(&queue, Bytes(100)) >= Bytes(100));
}

#[test]
fn w_each_step_of_the_worked_example_is_that_of_the_paper() {
    let queue = worked_example();
    let mut follower = Follower::new(&queue, Bytes(100), VictimRule::Paper);
    let mut steps = Vec::new();
    while let Some(step) = follower.next() {
        let mut held: Vec<u32> = follower.held().iter().map(|file| file.0 + 1).collect();
        held.sort_unstable();
        steps.push((step.source, held));
    }
    let expected = [
        (ServedFrom::Disk, vec![1]),
        (ServedFrom::Disk, vec![1, 2]),
        (ServedFrom::Disk, vec![1, 2, 3]),
        (ServedFrom::Disk, vec![1, 2, 4]),
        (ServedFrom::Disk, vec![1, 2, 4]),
        (ServedFrom::Memory, vec![1, 2, 4]),
        (ServedFrom::Memory, vec![1, 2, 4]),
        (ServedFrom::Memory, vec![1, 2, 4]),
        (ServedFrom::Disk, vec![1, 2, 4]),
    ];
    assert_eq!(steps, expected);
}

#[test]
fn w_what_lru_holds_after_each_step() {
    let queue = worked_example();
    let mut lru = EvictionPolicy::Lru.cache(Bytes(100));
    let mut steps = Vec::new();
    for at in 0..queue.len() {
        let met = lru.read(queue.file(at), queue.size_at(at));
        let held = (0..4).filter(|file| lru.holds(FileIndex(*file)));
        steps.push((met, held.map(|file| file + 1).collect::<Vec<u32>>()));
    }
    let expected = [
        (Met::Miss, vec![1]),
        (Met::Miss, vec![1, 2]),
        (Met::Miss, vec![1, 2, 3]),
        (Met::Miss, vec![2, 3, 4]),
        (Met::Hit, vec![2, 3, 4]),
        (Met::Miss, vec![1, 3, 4]),
        (Met::Miss, vec![1, 2, 3]),
        (Met::Miss, vec![1, 2, 4]),
        (Met::Miss, vec![2, 3, 4]),
    ];
    assert_eq!(steps, expected);
}

/// Residents as (size, later reads), named 0, 1, ...
fn choose(
    how: fn(Memory<'_>, IncomingFile) -> Option<Vec<FileIndex>>,
    capacity: u64,
    residents: &[(u64, usize)],
    wanted: (u64, usize),
) -> Option<Vec<u32>> {
    choose_pinned(how, capacity, residents, wanted, None)
}

fn choose_pinned(
    how: fn(Memory<'_>, IncomingFile) -> Option<Vec<FileIndex>>,
    capacity: u64,
    residents: &[(u64, usize)],
    wanted: (u64, usize),
    pinned: Option<FileIndex>,
) -> Option<Vec<u32>> {
    let residents: Vec<EvictionCandidate> = (0..)
        .zip(residents)
        .map(|(file, (size, references))| EvictionCandidate {
            file: FileIndex(file),
            size: Bytes(*size),
            references: *references,
            dirty: Bytes::ZERO,
        })
        .collect();
    let memory = Memory {
        capacity: Bytes(capacity),
        residents: &residents,
        pinned,
    };
    let wanted = IncomingFile {
        size: Bytes(wanted.0),
        references: wanted.1,
    };
    let victims = how(memory, wanted)?;
    Some(victims.into_iter().map(|file| file.0).collect())
}

type How = fn(Memory<'_>, IncomingFile) -> Option<Vec<FileIndex>>;

const ALL: [How; 3] = [victims::literal, victims::paper, victims::covering];

#[test]
fn w_the_calls_within_the_worked_example() {
    for how in ALL {
        assert_eq!(
            choose(how, 100, &[(20, 1), (40, 1), (9, 2)], (40, 1)),
            Some(vec![2])
        );
        assert_eq!(choose(how, 100, &[(20, 1), (40, 1), (40, 1)], (9, 1)), None);
    }
}

#[test]
fn a6_a_file_larger_than_the_memory_comes_in_as_printed_only() {
    let case = |how| choose(how, 100, &[(60, 1)], (150, 1));
    assert_eq!(ALL.map(case), [Some(vec![0]), None, None]);
}

#[test]
fn a7_a_victim_that_is_not_needed_stays() {
    let case = |how| choose(how, 100, &[(1, 1), (50, 1), (49, 5)], (50, 2));
    assert_eq!(
        ALL.map(case),
        [Some(vec![0, 1]), Some(vec![0, 1]), Some(vec![1])]
    );
}

#[test]
fn a8_one_cheap_victim_is_found_behind_cheaper_small_ones() {
    let case = |how| choose(how, 110, &[(10, 1), (10, 1), (30, 1), (50, 9)], (40, 1));
    assert_eq!(ALL.map(case), [None, None, Some(vec![2])]);
}

#[test]
fn a9_no_benefit_is_no_reason() {
    assert_eq!(
        ALL.map(|how| choose(how, 50, &[(50, 1)], (50, 1))),
        [None, None, None]
    );
}

#[test]
fn a10_the_read_that_a_file_is_fetched_for_is_no_gain() {
    assert_eq!(
        ALL.map(|how| choose(how, 15, &[(15, 1)], (10, 1))),
        [None, None, None]
    );
    let queue = queue(&[0, 1, 0, 1, 2], &[15, 10, 3]);
    for rule in [VictimRule::Literal, VictimRule::Paper, VictimRule::Covering] {
        let memory = Follower::new(&queue, Bytes(15), rule).tally().memory;
        assert_eq!(memory, Bytes(15), "{rule:?}");
    }
}

#[test]
fn a11_what_is_not_read_again_goes_first() {
    let case = |how| choose(how, 100, &[(50, 0), (50, 1)], (50, 1));
    assert_eq!(ALL.map(case), [Some(vec![0]), Some(vec![0]), Some(vec![0])]);
}

#[test]
fn a12_a_file_that_is_read_once_takes_only_room_that_nobody_needs() {
    assert_eq!(
        choose(victims::covering, 50, &[(50, 0)], (50, 0)),
        Some(vec![0])
    );
    assert_eq!(choose(victims::covering, 50, &[(50, 1)], (50, 0)), None);
    let once = queue(&[0, 0, 1], &[50, 50]);
    let held = |rule| {
        let mut follower = Follower::new(&once, Bytes(50), rule);
        assert_eq!(follower.by_ref().count(), 3);
        follower.held().to_vec()
    };
    assert_eq!(held(VictimRule::Paper), [FileIndex(0)]);
    assert_eq!(held(VictimRule::Covering), [FileIndex(1)]);
}

#[test]
fn a_file_that_cannot_go_stays() {
    let pinned = |how| choose_pinned(how, 100, &[(60, 0), (40, 1)], (50, 3), Some(FileIndex(0)));
    assert_eq!(ALL.map(pinned), [Some(vec![0]), None, None]);
}

#[test]
fn bytes_that_have_to_be_written_back_count_as_cost() {
    let clean = EvictionCandidate {
        file: FileIndex(0),
        size: Bytes(50),
        references: 1,
        dirty: Bytes::ZERO,
    };
    let dirty = EvictionCandidate {
        file: FileIndex(1),
        references: 0,
        dirty: Bytes(50),
        ..clean
    };
    let small = EvictionCandidate {
        file: FileIndex(2),
        size: Bytes(40),
        ..clean
    };
    let memory = Memory {
        capacity: Bytes(140),
        residents: &[clean, dirty, small],
        pinned: None,
    };
    let wanted = IncomingFile {
        size: Bytes(40),
        references: 2,
    };
    assert_eq!(victims::covering(memory, wanted), Some(vec![FileIndex(2)]));
}

#[test]
fn no_way_to_keep_a_few_files_reads_less_from_the_disk() {
    let (mut paper, mut least, mut packed) = (0, 0, 0);
    for seed in 0..600 {
        let (queue, capacity) = drawn(&mut Draw(seed));
        let most = every_way(&queue, capacity);
        let best_way = best(&queue, capacity).plan;
        assert!(
            best_way.fits(&queue, capacity),
            "seed {seed}: too much stays"
        );
        assert_eq!(
            best_way.tally(&queue).memory,
            most,
            "seed {seed}: {queue:?} {capacity}"
        );
        let optimum = optimum(&queue, capacity).expect("few sets");
        assert!(optimum.fits(&queue, capacity), "seed {seed}");
        assert_eq!(optimum.tally(&queue).memory, most, "seed {seed}");
        let packed_way = packing(&queue, capacity);
        assert!(packed_way.fits(&queue, capacity), "seed {seed}");
        let as_published = Follower::new(&queue, capacity, VictimRule::Paper);
        let as_plan = RetainPlan::of(as_published.clone(), &queue);
        assert_eq!(
            as_plan.tally(&queue),
            as_published.clone().tally(),
            "seed {seed}"
        );
        assert!(as_plan.fits(&queue, capacity), "seed {seed}");
        assert!(
            bound(&queue, capacity) >= most,
            "seed {seed}: the bound is none"
        );
        paper += as_published.tally().disk.0;
        packed += packed_way.tally(&queue).disk.0;
        least += (queue.total() - most).0;
    }
    assert!(
        paper > least && packed > least,
        "some of these cases are not trivial"
    );
}

#[test]
fn cutting_files_is_a_flow_of_bytes() {
    for seed in 0..300 {
        let (queue, capacity) = drawn(&mut Draw(seed));
        assert_eq!(
            bound_fractional(&queue, capacity),
            flow_of_bytes(&queue, capacity),
            "{seed}"
        );
    }
}

#[test]
fn with_more_sets_than_can_be_followed_no_plan_falls_behind_the_paper() {
    for seed in 0..4 {
        let mut draw = Draw(seed);
        let sizes: Vec<Bytes> = (0..40).map(|_| Bytes(draw.within(6, 250))).collect();
        let reads = (0..600).map(|_| FileIndex(draw.within(0, 39).min(draw.within(0, 39)) as u32));
        let queue = Queue::new(reads.collect(), sizes);
        let capacity = Bytes(900);
        let found = best(&queue, capacity);
        assert!(!found.is_exact && found.plan.fits(&queue, capacity));
        let memory = found.plan.tally(&queue).memory;
        for rule in [VictimRule::Paper, VictimRule::Covering] {
            assert!(memory >= Follower::new(&queue, capacity, rule).tally().memory);
        }
        assert!(memory <= bound(&queue, capacity));
    }
}

/// Three to six files, read eight to sixteen times.
fn drawn(draw: &mut Draw) -> (Queue, Bytes) {
    let files = draw.within(3, 6);
    let sizes: Vec<Bytes> = (0..files).map(|_| Bytes(draw.within(1, 60))).collect();
    let reads = (0..draw.within(8, 16)).map(|_| FileIndex(draw.within(0, files - 1) as u32));
    let reads = reads.collect();
    let capacity = Bytes(draw.within(20, 120));
    (Queue::new(reads, sizes), capacity)
}

/// The most bytes from memory over all sets of stays that fit.
fn every_way(queue: &Queue, capacity: Bytes) -> Bytes {
    let stays: Vec<(usize, usize)> = (0..queue.len())
        .filter_map(|at| Some((at, queue.next(at)?)))
        .collect();
    let mut most = Bytes::ZERO;
    for way in 0..1u32 << stays.len() {
        let chosen = || (0..stays.len()).filter(|stay| way & 1 << stay != 0);
        let memory: Bytes = chosen().map(|stay| queue.size_at(stays[stay].0)).sum();
        if memory <= most {
            continue;
        }
        let fits = (0..queue.len()).all(|gap| {
            let across = chosen().filter(|stay| (stays[*stay].0..stays[*stay].1).contains(&gap));
            across
                .map(|stay| queue.size_at(stays[stay].0))
                .sum::<Bytes>()
                <= capacity
        });
        if fits {
            most = memory;
        }
    }
    most
}

/// Bytes go from read to read through memory, which has room, or past it, which has a price.
fn flow_of_bytes(queue: &Queue, capacity: Bytes) -> Bytes {
    let (source, sink) = (queue.len(), queue.len() + 1);
    let mut network = Network::new(queue.len() + 2);
    let mut amount = Bytes::ZERO;
    for at in 0..queue.len() {
        let size = queue.size_at(at);
        if at + 1 < queue.len() {
            network.arc(at, at + 1, capacity.0, 0);
        }
        match queue.next(at) {
            Some(next) => network.arc(at, next, size.0, 1),
            None => network.arc(at, sink, size.0, 0),
        };
        if queue.previous(at).is_none() {
            network.arc(source, at, size.0, 0);
            amount += size;
        }
    }
    let carried = network.carry(source, sink, amount.0);
    assert_eq!(carried.amount, amount.0);
    queue.total() - amount - Bytes(carried.price as u64)
}
