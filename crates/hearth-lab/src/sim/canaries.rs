//! `hearth-lab sim canaries`: every guard off by name, each to be noticed.

use std::process::ExitCode;

use hearth_sim_canary::canary::{Canary, Guard, try_without};

use hearth_set::failure::Failure;
use hearth_set::output;
use hearth_set::output::{progress, progress_over};
use hearth_set::report::BenchReport;

/// Options of `hearth-lab sim canaries`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Worlds without a violation after which a guard counts as missed
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    worlds: u64,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    super::hush_panics();
    let guards = Guard::ALL.iter().enumerate();
    let canaries: Vec<Canary> = guards
        .map(|(number, &guard)| {
            progress(&format!(
                "{number} of {}: {}",
                Guard::ALL.len(),
                guard.name()
            ));
            try_without(guard, args.worlds)
        })
        .collect();
    progress_over();
    if args.json {
        super::print(&report(&canaries), true)?;
    } else {
        output::print(&table(&canaries))?;
    }
    let missed: Vec<&str> = canaries
        .iter()
        .filter(|canary| canary.caught.is_none())
        .map(|canary| canary.guard.name())
        .collect();
    match missed.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Failure::no(format!(
            "nobody noticed: {}",
            missed.join(", ")
        ))),
    }
}

fn table(canaries: &[Canary]) -> String {
    let head = [
        "guard that is off",
        "noticed by",
        "worlds",
        "operations",
        "events",
        "rule",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for Canary { guard, caught } in canaries {
        let mut row = vec![guard.name().to_owned()];
        match caught {
            Some(caught) => row.extend([
                caught.check.to_owned(),
                caught.worlds.to_string(),
                caught.plan.steps.to_string(),
                caught.outcome.events.to_string(),
            ]),
            None => row.extend(["nobody", "-", "-", "-"].map(str::to_owned)),
        }
        row.push(guard.rule().to_owned());
        rows.push(row);
    }
    let caught = canaries.iter().filter(|canary| canary.caught.is_some());
    let count = caught.count();
    format!(
        "{}{count} of {} noticed\n",
        output::table(&rows),
        canaries.len()
    )
}

fn report(canaries: &[Canary]) -> BenchReport {
    let mut report = BenchReport::new("sim canaries", "simulated");
    for Canary { guard, caught } in canaries {
        let (check, steps, events) = match caught {
            Some(caught) => (
                caught.check,
                u64::from(caught.plan.steps),
                caught.outcome.events,
            ),
            None => ("nobody", 0, 0),
        };
        report.row(guard.name(), check, "operations", steps as f64, "");
        report.row(guard.name(), check, "events", events as f64, "");
    }
    let caught = canaries.iter().filter(|canary| canary.caught.is_some());
    report.sum_up("canaries", canaries.len());
    report.sum_up("caught", caught.count());
    report
}
