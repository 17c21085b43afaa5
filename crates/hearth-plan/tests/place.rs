//! Placement: the published cases by name, and every way to place a few jobs as a check.

mod support;

use hearth_plan::place::{
    Placement, Situation, bound_shared, cheapest, cheapest_shared, literal, paper,
};
use hearth_plan::{Bytes, FileIndex, NodeIndex};
use support::Draw;

const ROOM: u32 = u32::MAX;

/// Files as (size, node from 1), jobs as lists of files from 0.
fn situation(files: &[(u64, u32)], seats: [u32; 3], jobs: &[&[u32]]) -> Situation {
    Situation {
        sizes: files.iter().map(|(size, _)| Bytes(*size)).collect(),
        held: files
            .iter()
            .map(|(size, node)| vec![(NodeIndex(node - 1), Bytes(*size))])
            .collect(),
        seats: seats.to_vec(),
        jobs: jobs
            .iter()
            .map(|job| job.iter().map(|file| FileIndex(*file)).collect())
            .collect(),
    }
}

/// Nodes from 1.
fn nodes(placement: &Placement) -> Vec<u32> {
    placement
        .0
        .iter()
        .map(|node| node.map_or(0, |node| node.0 + 1))
        .collect()
}

#[test]
fn a1_a_job_goes_to_its_largest_file() {
    let case = situation(&[(100, 2), (10, 3)], [ROOM; 3], &[&[0, 1]]);
    let as_printed = literal(&case);
    assert_eq!(
        (nodes(&as_printed), case.moved(&as_printed)),
        (vec![1], Bytes(110))
    );
    for placement in [paper(&case), cheapest(&case), cheapest_shared(&case)] {
        assert_eq!(
            (nodes(&placement), case.moved(&placement)),
            (vec![2], Bytes(10))
        );
    }
}

#[test]
fn a2_as_printed_every_job_goes_to_the_first_node() {
    let case = situation(&[(100, 2), (10, 3)], [ROOM; 3], &[&[1], &[0]]);
    let as_printed = literal(&case);
    assert_eq!(
        (nodes(&as_printed), case.moved(&as_printed)),
        (vec![1, 1], Bytes(110))
    );
    for placement in [paper(&case), cheapest(&case), cheapest_shared(&case)] {
        assert_eq!(
            (nodes(&placement), case.moved(&placement)),
            (vec![3, 2], Bytes(0))
        );
    }
}

#[test]
fn a3_with_seats_the_order_of_jobs_misleads_the_paper() {
    let files = [(10, 1), (60, 1), (100, 1)];
    let jobs: [&[u32]; 3] = [&[0], &[1], &[2]];
    let roomy = situation(&files, [ROOM; 3], &jobs);
    assert_eq!(
        (nodes(&paper(&roomy)), roomy.moved(&paper(&roomy))),
        (vec![1, 1, 1], Bytes(0))
    );
    let case = situation(&files, [1; 3], &jobs);
    let greedy = paper(&case);
    assert_eq!(
        (nodes(&greedy), case.moved(&greedy)),
        (vec![1, 2, 3], Bytes(160))
    );
    let best = cheapest(&case);
    assert_eq!(case.moved(&best), Bytes(70));
    assert_eq!(nodes(&best)[2], 1);
}

#[test]
fn a4_jobs_that_share_a_file_go_where_sharing_pays() {
    let case = situation(
        &[(100, 1), (60, 2), (60, 2)],
        [2, 2, 0],
        &[&[0, 1], &[0, 2]],
    );
    let greedy = paper(&case);
    assert_eq!(
        (nodes(&greedy), case.moved_once(&greedy)),
        (vec![1, 1], Bytes(120))
    );
    let shared = cheapest_shared(&case);
    assert_eq!(
        (nodes(&shared), case.moved_once(&shared)),
        (vec![2, 2], Bytes(100))
    );
    assert_eq!(bound_shared(&case), Bytes(100));
}

#[test]
fn a5_a_job_leaves_its_best_node_to_one_that_needs_it_more() {
    let case = situation(&[(50, 1), (40, 2), (45, 1)], [1, 1, 0], &[&[0, 1], &[2]]);
    let greedy = paper(&case);
    assert_eq!(
        (nodes(&greedy), case.moved(&greedy)),
        (vec![1, 2], Bytes(85))
    );
    let best = cheapest(&case);
    assert_eq!((nodes(&best), case.moved(&best)), (vec![2, 1], Bytes(50)));
}

#[test]
fn jobs_beyond_the_seats_get_no_node() {
    let case = situation(&[(50, 1), (40, 1)], [1, 0, 0], &[&[1], &[0]]);
    let best = cheapest(&case);
    assert_eq!((nodes(&best), case.moved(&best)), (vec![0, 1], Bytes(40)));
    assert_eq!(nodes(&paper(&case)), [1, 0]);
    let nowhere = situation(&[(50, 1)], [0; 3], &[&[0]]);
    assert_eq!(nodes(&cheapest_shared(&nowhere)), [0]);
}

#[test]
fn what_a_node_holds_in_part_counts_in_part() {
    let mut case = situation(&[(100, 1)], [1, 1, 0], &[&[0]]);
    case.held[0] = vec![(NodeIndex(0), Bytes(30)), (NodeIndex(1), Bytes(70))];
    let best = cheapest(&case);
    assert_eq!((nodes(&best), case.moved(&best)), (vec![2], Bytes(30)));
}

#[test]
fn no_way_to_place_few_jobs_is_cheaper() {
    let (mut shared_sum, mut shared_least_sum) = (0, 0);
    for seed in 0..300 {
        let case = drawn(&mut Draw(seed));
        let ways = every_way(&case);
        let least = ways.iter().map(|way| case.moved(way)).min();
        assert_eq!(
            Some(case.moved(&cheapest(&case))),
            least,
            "seed {seed}: {case:?}"
        );
        let shared = case.moved_once(&cheapest_shared(&case));
        let shared_least = ways.iter().map(|way| case.moved_once(way)).min().unwrap();
        assert!(
            shared >= shared_least,
            "seed {seed}: cheaper than every way"
        );
        assert!(
            bound_shared(&case) <= shared_least,
            "seed {seed}: the bound is none"
        );
        assert!(
            shared <= case.moved_once(&paper(&case)),
            "seed {seed}: behind the paper"
        );
        shared_sum += shared.0;
        shared_least_sum += shared_least.0;
    }
    assert!(
        shared_sum * 100 <= shared_least_sum * 102,
        "the search moves {shared_sum} bytes, {shared_least_sum} would do"
    );
}

/// Up to six jobs and files, three nodes, seats enough or just too few.
fn drawn(draw: &mut Draw) -> Situation {
    let files = draw.within(1, 6);
    let sizes: Vec<Bytes> = (0..files).map(|_| Bytes(draw.within(1, 100))).collect();
    let held = sizes.iter().map(|size| {
        let holders = (0..3)
            .filter(|_| draw.within(0, 2) == 0)
            .collect::<Vec<_>>();
        let part = |node| (NodeIndex(node), Bytes(draw.within(0, size.0)));
        holders.into_iter().map(part).collect()
    });
    let held = held.collect();
    let jobs = (0..draw.within(1, 6)).map(|_| {
        let reads = (0..files as u32).filter(|_| draw.within(0, 1) == 0);
        reads.map(FileIndex).collect()
    });
    let jobs = jobs.collect();
    let seats = (0..3).map(|_| draw.within(0, 3) as u32).collect();
    Situation {
        sizes,
        held,
        seats,
        jobs,
    }
}

/// All placements that leave no seat empty while a job has none.
fn every_way(case: &Situation) -> Vec<Placement> {
    let jobs = case.jobs.len();
    let seated_max = case.seats.iter().sum::<u32>().min(jobs as u32);
    let ways = (0..4usize.pow(jobs as u32)).map(|way| {
        let at = (0..jobs).map(|job| way / 4usize.pow(job as u32) % 4);
        Placement(
            at.map(|at| (at > 0).then(|| NodeIndex(at as u32 - 1)))
                .collect(),
        )
    });
    ways.filter(|way| {
        let on = |node| {
            way.0
                .iter()
                .filter(|at| **at == Some(NodeIndex(node)))
                .count() as u32
        };
        let seated: u32 = (0..3).map(on).sum();
        seated == seated_max && (0..3).all(|node| on(node) <= case.seats[node as usize])
    })
    .collect()
}
