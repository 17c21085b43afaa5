//! Two files that just do not fit together: the worst that can happen to LRU, and the best for a
//! cache that lets one of them pass by.

use hearth_plan::Bytes;
use hearth_plan::online::Kind;
use hearth_plan::retain::{Follower, Queue, Rule, Tally, best, bound};

use super::random::SIZE_MAX;
use super::{Args, GB, MB, Said, online, row, split};
use crate::bench::report::rounded;

/// Rounds after which the first reads count for next to nothing.
const ROUNDS_LONG: usize = 4096;
/// The paper's figure: 86,232 s over 3,009 s.
const PUBLISHED: f64 = 86_232.0 / 3_009.0;

/// One way to count.
struct Case {
    name: String,
    rounds: usize,
    ratio: f64,
}

/// Prints the pair over the volume, for long, and as the paper counts.
pub(super) fn run(args: &Args, said: &mut Said) {
    let capacity = Bytes(args.memory * MB);
    let large = Bytes(SIZE_MAX.min(capacity.0));
    let small = capacity - large + Bytes(1);
    let share = args.volume * GB / u64::from(args.nodes);
    let rounds = usize::try_from(share / (large + small).0).unwrap_or(ROUNDS_LONG);
    let rounds = rounds.clamp(1, ROUNDS_LONG);
    let case = |name: &str, rounds, ratio| Case {
        name: name.to_owned(),
        rounds,
        ratio,
    };
    let cases = [
        case(&format!("{} GB", args.volume), rounds, args.memory_speed),
        case("for long", ROUNDS_LONG, args.memory_speed),
        case(
            &format!("{} GB, only the disk counts", args.volume),
            rounds,
            f64::INFINITY,
        ),
    ];
    let mut lines = vec![row(&[
        "case",
        "rounds",
        "LRU hit",
        "paper/LRU",
        "improved/LRU",
        "bound/LRU",
    ])];
    for (case, key) in cases.iter().zip(["volume", "long", "disk_only"]) {
        let measured = measure(case, capacity, [large, small]);
        let [lru, paper, improved, bound] = measured;
        let times = |other: Tally| lru.time(case.ratio) / other.time(case.ratio);
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
        said.report
            .sum_up(&format!("pair_speedup_{key}"), rounded(times(improved)));
        if key == "long" {
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
fn measure(case: &Case, capacity: Bytes, sizes: [Bytes; 2]) -> [Tally; 4] {
    let queue = Queue::round_robin(sizes.to_vec(), 2 * case.rounds);
    [
        online(&queue, capacity, Kind::Lru),
        Follower::new(&queue, capacity, Rule::Paper).tally(),
        best(&queue, capacity).plan.tally(&queue),
        split(queue.total(), bound(&queue, capacity)),
    ]
}
