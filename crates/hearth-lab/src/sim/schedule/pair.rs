//! Two files that just do not fit together: the worst that can happen to LRU, and the best for a
//! cache that lets one of them pass by.

use hearth_plan::Bytes;
use hearth_plan::online::EvictionPolicy;
use hearth_plan::retain::{Follower, Queue, ServedBytes, VictimRule, best, bound};

use super::random::SIZE_MAX;
use super::{Args, GB, MB, Said, online, row, split};
use hearth_set::report::rounded;

/// Rounds after which the first reads count for next to nothing.
const ROUNDS_LONG: usize = 4096;
/// The paper's figure: 86,232 s over 3,009 s.
const PUBLISHED: f64 = 86_232.0 / 3_009.0;

/// Memory over disk at which a pair of 250 and 7 MB comes to the paper's figure.
const RATIO_OF_THE_PAPER: f64 = 134.0;

/// One way to count.
struct Case {
    key: &'static str,
    name: String,
    rounds: usize,
    ratio: f64,
    start: Start,
}

/// Contents of memory when counting begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Nothing: the first round comes from the disk, whatever the method.
    Cold,
    /// Bytes that one round, which is not counted, has left in it.
    Warm,
}

/// The same pair over the volume, counted in four ways, and for long.
fn cases(args: &Args, rounds: usize) -> [Case; 5] {
    let volume = format!("{} GB", args.volume);
    let cold = |key, name: String, rounds, ratio| Case {
        key,
        name,
        rounds,
        ratio,
        start: Start::Cold,
    };
    let apart = format!("{volume}, memory {RATIO_OF_THE_PAPER} times the disk");
    [
        Case {
            start: Start::Warm,
            ..cold(
                "volume",
                format!("{volume}, after a first round"),
                rounds,
                args.memory_speed,
            )
        },
        cold("volume_cold", volume.clone(), rounds, args.memory_speed),
        cold("volume_fast_memory", apart, rounds, RATIO_OF_THE_PAPER),
        cold(
            "long",
            "for long".to_owned(),
            ROUNDS_LONG,
            args.memory_speed,
        ),
        cold(
            "disk_only",
            format!("{volume}, only the disk counts"),
            rounds,
            f64::INFINITY,
        ),
    ]
}

/// Prints the pair in all cases.
pub(super) fn run(args: &Args, said: &mut Said) {
    let capacity = Bytes(args.memory * MB);
    let large = Bytes(SIZE_MAX.min(capacity.0));
    let small = capacity - large + Bytes(1);
    let share = args.volume * GB / u64::from(args.nodes);
    let rounds = usize::try_from(share / (large + small).0).unwrap_or(ROUNDS_LONG);
    let rounds = rounds.clamp(1, ROUNDS_LONG);
    let mut lines = vec![row(&[
        "case",
        "rounds",
        "LRU hit",
        "paper/LRU",
        "improved/LRU",
        "bound/LRU",
    ])];
    for case in &cases(args, rounds) {
        let measured = measure(case, capacity, [large, small]);
        let [lru, paper, improved, bound] = measured;
        let times = |other: ServedBytes| lru.time(case.ratio) / other.time(case.ratio);
        lines.push(vec![
            case.name.clone(),
            case.rounds.to_string(),
            format!("{:.3}", lru.hit_ratio()),
            format!("{:.2}x", times(paper)),
            format!("{:.2}x", times(improved)),
            format!("{:.2}x", times(bound)),
        ]);
        for (system, tally) in [("paper", paper), ("improved", improved), ("bound", bound)] {
            said.report.row(
                system,
                &format!("pair {}", case.name),
                "speedup",
                times(tally),
                "x",
            );
        }
        said.report.sum_up(
            &format!("pair_speedup_{}", case.key),
            rounded(times(improved)),
        );
        said.report
            .sum_up(&format!("pair_bound_{}", case.key), rounded(times(bound)));
        if case.key == "volume" {
            said.report.sum_up("pair_speedup", rounded(times(improved)));
            said.report
                .sum_up("pair_speedup_bound", rounded(times(bound)));
        }
    }
    let heading = format!("A pair that does not fit: {large} and {small} in {capacity}");
    let below = format!("The paper's figure is {PUBLISHED:.2}x at 64,000 GB over 512 nodes.");
    said.table(&heading, &lines, &below);
}

/// LRU, the paper, the improved plan and the bound.
///
/// A first round has no hits under any method, so all hits of a longer queue are in the rounds that
/// count, and what bounds them there bounds them here.
fn measure(case: &Case, capacity: Bytes, sizes: [Bytes; 2]) -> [ServedBytes; 4] {
    let first = match case.start {
        Start::Cold => 0,
        Start::Warm => 1,
    };
    let queue = Queue::round_robin(sizes.to_vec(), 2 * (case.rounds + first));
    let before = sizes.into_iter().sum::<Bytes>().times(first);
    let tallies = [
        online(&queue, capacity, EvictionPolicy::Lru),
        Follower::new(&queue, capacity, VictimRule::Paper).tally(),
        best(&queue, capacity).plan.tally(&queue),
        split(queue.total(), bound(&queue, capacity)),
    ];
    tallies.map(|tally| ServedBytes {
        disk: tally.disk - before,
        memory: tally.memory,
    })
}
