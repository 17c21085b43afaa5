//! Round robin over files of random sizes, from 6 to 250 MB.

use hearth_plan::Bytes;
use hearth_plan::online::EvictionPolicy;
use hearth_plan::retain::{Follower, Queue, ServedBytes, VictimRule, best, bound};
use hearth_sim::rng::Rng;

use super::{Args, GB, MB, Said, add, by_files, online, row, speedup, split};
use hearth_set::failure::Failure;
use hearth_set::output::{progress, progress_over};

/// Sizes of files, in bytes.
pub(super) const SIZE_MIN: u64 = 6 * MB;
pub(super) const SIZE_MAX: u64 = 250 * MB;
/// Reads of one node that can be kept in mind.
const READS_MAX: usize = 1 << 20;
/// Keeps the draws of sizes apart from others of the same seed.
const PURPOSE: u64 = 100;

const BELOW: &str = "\
W/C is the mean of a node's files over its memory; hits count bytes; a bound holds for every method.";

/// All nodes with one number of files each.
struct Sums {
    files: u32,
    load: f64,
    lru: ServedBytes,
    gdsf: ServedBytes,
    paper: ServedBytes,
    improved: ServedBytes,
    bound: ServedBytes,
    /// Nodes on which the improved plan is known to be optimal.
    exact: u32,
}

/// Prints a row for each number of files per node.
pub(super) fn run(args: &Args, said: &mut Said) -> Result<(), Failure> {
    let rows = args.files_per_node.iter().map(|files| sum(args, *files));
    let rows: Vec<Sums> = rows.collect::<Result<_, _>>()?;
    progress_over();
    let head = [
        "files/node",
        "W/C",
        "LRU hit",
        "GDSF hit",
        "paper hit",
        "improved hit",
        "bound hit",
        "paper/LRU",
        "improved/LRU",
        "bound/LRU",
        "exact nodes",
    ];
    let lines = rows.iter().map(|sums| line(args, sums));
    let lines: Vec<_> = [row(&head)].into_iter().chain(lines).collect();
    let heading = format!(
        "Random sizes, 6 to 250 MB: {} nodes read {} GB round robin",
        args.nodes, args.volume
    );
    said.table(&heading, &lines, BELOW);
    report(args, &rows, said);
    Ok(())
}

fn sum(args: &Args, files: u32) -> Result<Sums, Failure> {
    let capacity = Bytes(args.memory * MB);
    let mut rng = Rng::new(args.seed, PURPOSE + u64::from(files));
    let mut sums = Sums {
        files,
        load: 0.0,
        lru: ServedBytes::default(),
        gdsf: ServedBytes::default(),
        paper: ServedBytes::default(),
        improved: ServedBytes::default(),
        bound: ServedBytes::default(),
        exact: 0,
    };
    for node in 0..args.nodes {
        progress(&format!(
            "{files} files per node: node {node} of {}",
            args.nodes
        ));
        let sizes: Vec<Bytes> = sizes(&mut rng, files);
        let all = sizes.iter().copied().sum::<Bytes>();
        sums.load += all.0 as f64 / capacity.0 as f64 / f64::from(args.nodes);
        let queue = round_robin(args, sizes)?;
        let plan = best(&queue, capacity);
        sums.exact += u32::from(plan.is_exact);
        add(&mut sums.lru, online(&queue, capacity, EvictionPolicy::Lru));
        add(
            &mut sums.gdsf,
            online(&queue, capacity, EvictionPolicy::GdsfBytes),
        );
        add(
            &mut sums.paper,
            Follower::new(&queue, capacity, VictimRule::Paper).tally(),
        );
        add(&mut sums.improved, plan.plan.tally(&queue));
        add(
            &mut sums.bound,
            split(queue.total(), bound(&queue, capacity)),
        );
    }
    Ok(sums)
}

pub(super) fn sizes(rng: &mut Rng, files: u32) -> Vec<Bytes> {
    (0..files)
        .map(|_| Bytes(rng.within(SIZE_MIN, SIZE_MAX)))
        .collect()
}

/// One node's reads: its share of the volume.
pub(super) fn round_robin(args: &Args, sizes: Vec<Bytes>) -> Result<Queue, Failure> {
    let share = Bytes(args.volume * GB / u64::from(args.nodes));
    let mut reads = 0;
    let mut left = share;
    while left > Bytes::ZERO {
        left = left.saturating_sub(sizes[reads % sizes.len()]);
        reads += 1;
        if reads > READS_MAX {
            return Err(Failure::new(format!("cannot simulate {} GB", args.volume))
                .cause(format!("that is more than {READS_MAX} reads on each node"))
                .hint("more --nodes, or less --volume"));
        }
    }
    Ok(Queue::round_robin(sizes, reads))
}

fn line(args: &Args, sums: &Sums) -> Vec<String> {
    let hit = |tally: ServedBytes| format!("{:.3}", tally.hit_ratio());
    let times = |tally: ServedBytes| format!("{:.2}x", speedup(args, sums.lru, tally));
    vec![
        sums.files.to_string(),
        format!("{:.2}", sums.load),
        hit(sums.lru),
        hit(sums.gdsf),
        hit(sums.paper),
        hit(sums.improved),
        hit(sums.bound),
        times(sums.paper),
        times(sums.improved),
        times(sums.bound),
        format!("{} of {}", sums.exact, args.nodes),
    ]
}

fn report(args: &Args, rows: &[Sums], said: &mut Said) {
    for sums in rows {
        let systems = [
            ("lru", sums.lru),
            ("gdsf", sums.gdsf),
            ("paper", sums.paper),
            ("improved", sums.improved),
            ("bound", sums.bound),
        ];
        let case = format!("random {} files per node", sums.files);
        for (system, tally) in systems {
            let report = &mut said.report;
            report.row(system, &case, "hit ratio", tally.hit_ratio(), "bytes");
            report.row(
                system,
                &case,
                "speedup",
                speedup(args, sums.lru, tally),
                "x",
            );
        }
    }
    let figures = |of: fn(&Sums) -> ServedBytes| {
        let figures = rows.iter();
        let figures = figures.map(|sums| (sums.files, speedup(args, sums.lru, of(sums))));
        by_files(&figures.collect::<Vec<_>>())
    };
    let report = &mut said.report;
    report.sum_up("random_speedup", figures(|sums| sums.improved));
    report.sum_up("random_speedup_paper", figures(|sums| sums.paper));
    report.sum_up("random_speedup_bound", figures(|sums| sums.bound));
}
