//! One large world: counted messages beside those that there must be.

use std::process::ExitCode;
use std::time::Instant;

use hearth_sim::Policy;
use hearth_sim::scale::{self, Forecast, MessageKind, ScaleOutcome, Shape};

use super::Args;
use hearth_set::failure::Failure;
use hearth_set::output::{progress, progress_over};
use hearth_set::report::BenchReport;

/// More nodes than this are a mistake: each takes a tenth of a megabyte.
const NODES_MAX: u32 = 1 << 16;

pub(super) fn run(args: &Args, nodes: u32) -> Result<ExitCode, Failure> {
    if nodes == 0 || nodes > NODES_MAX {
        return Err(Failure::new(format!("cannot simulate {nodes} nodes"))
            .hint(format!("--nodes 1 to {NODES_MAX}")));
    }
    let shape = Shape::new(args.policy, nodes, args.ops, args.seed);
    let begin = Instant::now();
    let outcome = scale::run(&shape, |done| {
        progress(&format!("{done} of {} operations", args.ops))
    });
    progress_over();
    let report = report(&shape, &outcome, begin.elapsed().as_secs_f64());
    super::super::print(&report, args.json)?;
    match outcome.violations.first() {
        None => Ok(ExitCode::SUCCESS),
        Some(violation) => Err(Failure::no(violation.clone())),
    }
}

fn report(shape: &Shape, outcome: &ScaleOutcome, wall: f64) -> BenchReport {
    let name = shape.policy.name();
    let mut report = BenchReport::new("sim run", "simulated");
    let counted = &outcome.messages;
    if shape.policy == Policy::Home {
        let forecast = Forecast::of(shape);
        for kind in MessageKind::ALL {
            let (seen, due) = (counted.of(kind) as f64, forecast.kind(kind));
            report.row(name, kind.name(), "counted", seen, "messages");
            report.row(name, kind.name(), "closed form", due.round(), "messages");
            if due > 0.0 {
                report.row(name, kind.name(), "ratio", seen / due, "");
            }
        }
        let ratio = counted.total() as f64 / forecast.total();
        report.sum_up("message_ratio", ratio);
        report.sum_up("worst_kind_ratio", worst(counted, &forecast));
    }
    if shape.policy == Policy::Bank {
        let (seen, due) = (outcome.bank_orders as f64, Forecast::bank_orders(shape));
        report.row(name, "daemons", "counted", seen, "orders");
        report.row(name, "daemons", "closed form", due.round(), "orders");
        report.sum_up("bank_order_ratio", seen / due);
    }
    report.row(
        name,
        "opening",
        "counted",
        outcome.opening as f64,
        "messages",
    );
    report.row(name, "store", "reads", outcome.store_reads as f64, "");
    report.row(name, "store", "writes", outcome.store_writes as f64, "");
    report.sum_up("digest", format!("{:016x}", outcome.digest));
    report.sum_up("nodes", shape.nodes);
    report.sum_up("ops", shape.ops);
    report.sum_up("messages", counted.total());
    report.sum_up("events", outcome.events);
    report.sum_up("violations", outcome.violations.len());
    report.sum_up("simulated_s", outcome.took.0 as f64 / 1e9);
    report.sum_up("wall_s", wall);
    report.sum_up("events_per_s", (outcome.events as f64 / wall).round());
    report
}

/// The ratio of the kind that is farthest from 1.
fn worst(counted: &scale::MessageCounts, forecast: &Forecast) -> f64 {
    let kinds = MessageKind::ALL
        .into_iter()
        .filter(|&kind| forecast.kind(kind) > 0.0);
    let ratios = kinds.map(|kind| counted.of(kind) as f64 / forecast.kind(kind));
    ratios
        .max_by(|a, b| (a - 1.0).abs().total_cmp(&(b - 1.0).abs()))
        .unwrap_or(1.0)
}
