//! `hearth-lab sim compare`: what policies cost for one workload, or levels of promises under `home`.

use std::process::ExitCode;

use hearth_sim::scale::{self, Shape};
use hearth_sim::{Policy, Semantics};

use hearth_set::failure::Failure;
use hearth_set::output::{progress, progress_over};
use hearth_set::report::BenchReport;

/// Policies that keep their promises, on one workload each.
const COMPARED: &[&str] = &[
    "none",
    "home",
    "home:plus",
    "hint",
    "single",
    "local",
    "bank",
];

/// Options of `hearth-lab sim compare`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Levels of promises under `home` in place of policies
    #[arg(long)]
    semantics: bool,
    /// With --semantics: operations between an open and the next, since some levels look at opens alone
    #[arg(long, default_value_t = 512, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    reopen: u32,
    /// Nodes; eight share a file
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    nodes: u32,
    /// Reads and writes of all nodes together
    #[arg(long, default_value_t = 200_000, value_name = "N")]
    ops: u64,
    /// Writes in a hundred operations
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100))]
    writes: u32,
    /// Pages that a node's pool holds
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u32).range(8..=65536))]
    frames: u32,
    /// Chance
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut report = BenchReport::new("sim compare", "simulated");
    let mut broken = Vec::new();
    for (name, shape) in shapes(args) {
        let outcome = scale::run(&shape, |done| {
            progress(&format!("{name}: {done} operations"))
        });
        progress_over();
        let rows = [
            ("messages", outcome.messages.total() as f64, ""),
            ("payload", outcome.payload_bytes as f64, "B"),
            ("bank orders", outcome.bank_orders as f64, ""),
            ("store reads", outcome.store_reads as f64, ""),
            ("store writes", outcome.store_writes as f64, ""),
            ("modelled time", outcome.took.0 as f64 / 1e9, "s"),
        ];
        for (metric, value, unit) in rows {
            report.row(name, "all", metric, value, unit);
            report.sum_up(&format!("{}_{name}", metric.replace(' ', "_")), value);
        }
        broken.extend(
            outcome
                .violations
                .first()
                .map(|what| format!("{name}: {what}")),
        );
    }
    report.sum_up("violations", broken.len());
    super::print(&report, args.json)?;
    match broken.first() {
        None => Ok(ExitCode::SUCCESS),
        Some(what) => Err(Failure::no(what.clone())),
    }
}

/// The shapes to compare, with their names.
fn shapes(args: &Args) -> Vec<(&'static str, Shape)> {
    let shape = |policy| Shape {
        write_percent: args.writes,
        frames: args.frames,
        ..Shape::new(policy, args.nodes, args.ops, args.seed)
    };
    if args.semantics {
        let level = |&(name, semantics): &(&'static str, Semantics)| {
            let reopens = Some(args.reopen);
            let shape = Shape {
                semantics,
                reopens,
                ..shape(Policy::Home)
            };
            (name, shape)
        };
        return Semantics::NAMES.iter().map(level).collect();
    }
    let policy =
        |&name: &&'static str| (name, shape(Policy::by_name(name).unwrap_or(Policy::Home)));
    COMPARED.iter().map(policy).collect()
}
