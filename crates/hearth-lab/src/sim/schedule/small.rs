//! Cases that are small enough to know the optimum: how far each method is from it.

use hearth_plan::online::EvictionPolicy;
use hearth_plan::retain::{Follower, Queue, RetainPlan, VictimRule, best, optimum, packing};
use hearth_plan::{Bytes, FileIndex};
use hearth_sim::rng::Rng;

use super::{Args, Said, online, row};
use hearth_set::output::{progress, progress_over};
use hearth_set::report::rounded;

const PURPOSE: u64 = 300;

const BELOW: &str = "\
Bytes from the disk over those of the optimum, mean and worst. `as printed` may hold more than fits.";

/// Cases of one kind.
struct Group {
    name: &'static str,
    cases: u64,
    files: (u64, u64),
    reads: (u64, u64),
}

const GROUPS: [Group; 3] = [
    Group {
        name: "3-6 files, 8-18 reads",
        cases: 600,
        files: (3, 6),
        reads: (8, 18),
    },
    Group {
        name: "10-14 files, 100 reads",
        cases: 60,
        files: (10, 14),
        reads: (100, 100),
    },
    // More sets than the improved plan follows, few enough to follow all of them.
    Group {
        name: "15-16 files, 200 reads",
        cases: 20,
        files: (15, 16),
        reads: (200, 200),
    },
];

const METHODS: [&str; 8] = [
    "as printed",
    "paper",
    "exact victims",
    "packing",
    "improved",
    "LRU",
    "GDSF",
    "S3-FIFO",
];

/// Prints a row for each method.
pub(super) fn run(args: &Args, said: &mut Said) {
    let ratios: Vec<Vec<[f64; METHODS.len()]>> =
        GROUPS.iter().map(|group| ratios(args, group)).collect();
    progress_over();
    let mut head = row(&["method"]);
    for group in &GROUPS {
        head.extend(row(&[group.name, "worst"]));
    }
    let lines = METHODS.iter().enumerate().map(|(method, name)| {
        let mut line = vec![(*name).to_owned()];
        for group in &ratios {
            line.push(format!("{:.3}", mean(group, method)));
            line.push(format!("{:.3}", worst(group, method)));
        }
        line
    });
    let lines: Vec<_> = [head].into_iter().chain(lines).collect();
    said.table("Where the optimum is known", &lines, BELOW);
    for (group, figures) in GROUPS.iter().zip(&ratios) {
        for (method, name) in METHODS.iter().enumerate() {
            let report = &mut said.report;
            report.row(name, group.name, "over optimum", mean(figures, method), "");
            report.row(
                name,
                group.name,
                "worst over optimum",
                worst(figures, method),
                "",
            );
        }
    }
    let all: Vec<_> = ratios.concat();
    for (key, method) in [("paper", 1), ("improved", 4)] {
        said.report
            .sum_up(&format!("{key}_over_optimum"), rounded(mean(&all, method)));
        said.report.sum_up(
            &format!("{key}_over_optimum_worst"),
            rounded(worst(&all, method)),
        );
    }
}

fn mean(ratios: &[[f64; METHODS.len()]], method: usize) -> f64 {
    let sum: f64 = ratios.iter().map(|ratios| ratios[method]).sum();
    sum / ratios.len().max(1) as f64
}

fn worst(ratios: &[[f64; METHODS.len()]], method: usize) -> f64 {
    ratios
        .iter()
        .map(|ratios| ratios[method])
        .fold(0.0, f64::max)
}

/// For each case what each method reads from the disk, over the optimum.
fn ratios(args: &Args, group: &Group) -> Vec<[f64; METHODS.len()]> {
    let mut rng = Rng::new(args.seed, PURPOSE);
    let cases = (0..group.cases).filter_map(|case| {
        progress(&format!("{}: {case} of {}", group.name, group.cases));
        let (queue, capacity) = drawn(&mut rng, group);
        let least = optimum(&queue, capacity)?.tally(&queue).disk;
        let disk = disks(&queue, capacity);
        Some(disk.map(|disk| disk.0 as f64 / least.0 as f64))
    });
    cases.collect()
}

fn disks(queue: &Queue, capacity: Bytes) -> [Bytes; METHODS.len()] {
    let follow = |rule| Follower::new(queue, capacity, rule).tally().disk;
    let planned = |plan: RetainPlan| plan.tally(queue).disk;
    [
        follow(VictimRule::Literal),
        follow(VictimRule::Paper),
        follow(VictimRule::Covering),
        planned(packing(queue, capacity)),
        planned(best(queue, capacity).plan),
        online(queue, capacity, EvictionPolicy::Lru).disk,
        online(queue, capacity, EvictionPolicy::GdsfBytes).disk,
        online(queue, capacity, EvictionPolicy::S3Fifo).disk,
    ]
}

/// Sizes from 1 to 60, and memory for a fifth to four fifths of all.
fn drawn(rng: &mut Rng, group: &Group) -> (Queue, Bytes) {
    let files = rng.within(group.files.0, group.files.1);
    let sizes: Vec<Bytes> = (0..files).map(|_| Bytes(rng.within(1, 60))).collect();
    let all: Bytes = sizes.iter().copied().sum();
    let capacity = Bytes(all.0 * rng.within(20, 80) / 100);
    let reads = rng.within(group.reads.0, group.reads.1);
    let reads = (0..reads)
        .map(|_| FileIndex(rng.below(files) as u32))
        .collect();
    (Queue::new(reads, sizes), capacity)
}
