//! `hearth-lab sim run`: random worlds, or one large one.

mod scale;

use std::process::ExitCode;
use std::time::Instant;

use hearth_sim::{
    Faults, LONGEST, Plan, Policy, Ranges, Replicas, RunOutcome, Semantics, Span, Trouble, shrink,
};

use hearth_set::failure::Failure;
use hearth_set::output::{progress, progress_over};
use hearth_set::report::BenchReport;

/// Failed runs that are told; what comes after them is counted.
const TOLD_MAX: u64 = 3;

/// Options of `hearth-lab sim run`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Which policy: none, home, hint, ...
    #[arg(long, default_value = "home", value_parser = super::parse_policy, value_name = "P")]
    policy: Policy,
    /// Promise for every file: posix, mpi-atomic, mpi, cto, commit or job
    #[arg(long, default_value = "posix", value_parser = super::parse_semantics, value_name = "LEVEL", conflicts_with = "nodes")]
    semantics: Semantics,
    /// How reads and writes over several homes are made one: apart (they are not), home or wound-wait
    #[arg(long, default_value = "apart", value_parser = super::parse_ranges, value_name = "HOW", conflicts_with = "nodes")]
    ranges: Ranges,
    /// Replicas of what a home has and the store lacks, under policy local: none, async[:K] or sync[:K] on other
    /// nodes; with any, of the faults that part nodes there are deaths alone, one at a time
    #[arg(long, value_parser = super::parse_replicas, value_name = "R", conflicts_with = "nodes")]
    replicas: Option<Replicas>,
    /// Sessions soon close what they open, and homes hand files over to other nodes (policy local)
    #[arg(long, conflicts_with = "nodes")]
    hand_over: bool,
    /// Faults of every kind: packets, connections, partitions, pauses, crashes, the store
    #[arg(long)]
    faults: bool,
    /// How many worlds
    #[arg(
        long,
        default_value_t = 1000,
        value_name = "N",
        conflicts_with = "nodes"
    )]
    seeds: u64,
    /// One large world without faults, of so many nodes
    #[arg(long, value_name = "N", conflicts_with = "faults")]
    nodes: Option<u32>,
    /// Operations of the large world
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        requires = "nodes"
    )]
    ops: u64,
    /// Seed of the first
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

/// Totals of all worlds.
#[derive(Default)]
struct Sum {
    digest: u64,
    operations: u64,
    events: u64,
    messages: u64,
    faults: Faults,
    slowest: u64,
    violations: u64,
}

impl Sum {
    fn add(&mut self, outcome: &RunOutcome) {
        self.digest = self.digest.rotate_left(1) ^ outcome.digest;
        self.operations += u64::from(outcome.steps);
        self.events += outcome.events;
        self.messages += outcome.messages;
        self.faults.add(&outcome.faults);
        self.slowest = self.slowest.max(outcome.slowest.0);
        self.violations += outcome.violations.len() as u64;
    }
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    if let Some(nodes) = args.nodes {
        return scale::run(args, nodes);
    }
    super::hush_panics();
    let trouble = if args.faults {
        Trouble::All
    } else {
        Trouble::Never
    };
    let (begin, mut sum, mut failed) = (Instant::now(), Sum::default(), 0);
    for number in 0..args.seeds {
        let plan = Plan {
            policy: args.policy,
            semantics: args.semantics,
            ranges: args.ranges,
            ..Plan::new(args.seed.wrapping_add(number), trouble)
        };
        let plan = super::replicated(plan, args.replicas, args.hand_over)?;
        let outcome = hearth_sim::run(&plan);
        sum.add(&outcome);
        if !outcome.violations.is_empty() {
            failed += 1;
            if failed <= TOLD_MAX {
                tell(&plan);
            }
        }
        if number % 256 == 0 {
            progress(&format!("{number} of {} worlds", args.seeds));
        }
    }
    progress_over();
    super::print(
        &report(args, &sum, begin.elapsed().as_secs_f64()),
        args.json,
    )?;
    match failed {
        0 => Ok(ExitCode::SUCCESS),
        _ => Err(Failure::no(format!(
            "{failed} of {} worlds broke a promise",
            args.seeds
        ))),
    }
}

/// Says what a run broke, made small, and how to see it again.
fn tell(plan: &Plan) {
    let small = shrink(plan);
    let outcome = hearth_sim::run(&small);
    if let Some(violation) = outcome.violations.first() {
        eprintln!("{violation}\nreplay: {}\n", small.replay());
    }
}

fn report(args: &Args, sum: &Sum, wall: f64) -> BenchReport {
    let name = match args.semantics {
        Semantics::Posix => args.policy.name().to_owned(),
        other => format!("{} {}", args.policy.name(), other.name()),
    };
    let name = name.as_str();
    let mut report = BenchReport::new("sim run", "simulated");
    let counts = [
        ("worlds", args.seeds),
        ("operations", sum.operations),
        ("messages", sum.messages),
        ("events", sum.events),
    ];
    for (metric, count) in counts {
        report.row(name, "all", metric, count as f64, "");
    }
    for (metric, count) in sum.faults.named() {
        report.row(name, "faults", metric, count as f64, "");
    }
    let seconds = |span: Span| span.0 as f64 / 1e9;
    let slowest = seconds(Span(sum.slowest));
    report.row(name, "operations", "slowest", slowest, "s simulated");
    report.row(name, "operations", "bound", seconds(LONGEST), "s simulated");
    report.sum_up("digest", format!("{:016x}", sum.digest));
    report.sum_up("worlds", args.seeds);
    report.sum_up("violations", sum.violations);
    report.sum_up("slowest_s", slowest);
    report.sum_up("bound_s", seconds(LONGEST));
    report.sum_up("wall_s", wall);
    report.sum_up("events_per_s", (sum.events as f64 / wall).round());
    report
}
