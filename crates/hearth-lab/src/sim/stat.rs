//! `hearth-lab sim stat`: the curve of `hearth-lab bench stat`, continued to thousands of nodes.

use std::process::ExitCode;

use hearth_sim::thundering_herd::{self, Shape};

use hearth_set::failure::Failure;
use hearth_set::output::{progress, progress_over};
use hearth_set::report::{BenchReport, rounded};

/// Counts further than this from the closed form break it.
const TOLERANCE: f64 = 0.1;

/// Options of `hearth-lab sim stat`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Nodes, one run for each count
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,64,4096", value_name = "N,N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    nodes: Vec<u32>,
    /// Files of the directory
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    files: u32,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut report = BenchReport::new("sim stat", "simulated");
    let (mut broken, mut worst) = (Vec::new(), 0.0f64);
    for &nodes in &args.nodes {
        progress(&format!("{nodes} nodes"));
        let shape = Shape::new(nodes, args.files);
        let outcome = thundering_herd::run(&shape);
        broken.extend(outcome.violations.iter().cloned());
        worst = worst.max(tell(&mut report, &shape, &outcome));
    }
    progress_over();
    report.sum_up("files", args.files);
    report.sum_up("violations", broken.len());
    report.sum_up("worst_deviation", rounded(worst));
    super::print(&report, args.json)?;
    if worst > TOLERANCE {
        broken.push("requests of the store are not those of the closed form".to_owned());
    }
    match broken.into_iter().next() {
        None => Ok(ExitCode::SUCCESS),
        Some(what) => Err(Failure::no(what)),
    }
}

/// Rows of one count of nodes; returns how far the counts are from the closed form.
fn tell(report: &mut BenchReport, shape: &Shape, outcome: &thundering_herd::StormOutcome) -> f64 {
    let case = format!("{} nodes", shape.nodes);
    let stats = f64::from(shape.nodes) * f64::from(shape.files);
    let counts = [
        ("messages", outcome.messages as f64),
        ("store requests", outcome.store_requests as f64),
    ];
    for (metric, counted) in counts {
        report.row("home", &case, metric, counted, "");
        let each = format!("{metric} a stat");
        report.row("home", &case, &each, counted / stats, "");
    }
    let mut worst = 0.0;
    if let Some(due) = thundering_herd::requests_due(shape) {
        let counted = outcome.store_requests as f64;
        report.row("closed form", &case, "store requests", due, "");
        worst = (counted - due).abs() / due;
        let key = format!("store_requests_over_form_{}", shape.nodes);
        report.sum_up(&key, rounded(counted / due));
    }
    let second = (outcome.second_messages + outcome.second_store_requests) as f64;
    report.row(
        "home",
        &case,
        "messages and requests of a second pass",
        second,
        "",
    );
    let (took, bare) = (
        outcome.took.0 as f64 / 1e9,
        thundering_herd::bare_store(shape).0 as f64 / 1e9,
    );
    report.row("home", &case, "modelled time", took, "s");
    report.row("bare store", &case, "modelled time", bare, "s");
    report.row("bare store", &case, "store requests a stat", 1.0, "");
    report.sum_up(
        &format!("improvement_{}", shape.nodes),
        rounded(1.0 - took / bare),
    );
    worst
}
