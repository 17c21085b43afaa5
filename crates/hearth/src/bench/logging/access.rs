//! Files read and written by records of several sizes, in order and at random, without logging, with
//! the preloaded library, and with a line of text for each call.

use super::drain::LiveDrain;
use super::driver::{Driver, Workload};
use super::{Effort, Place, stop_if_told};
use crate::bench::progress;
use crate::bench::report::{Report, median, percentile, rounded};
use crate::failure::Failure;
use crate::preload;
use crate::signals::Signals;

const RECORDS: [u64; 4] = [4 << 10, 64 << 10, 1 << 20, 16 << 20];
const PASSES: [&str; 4] = ["write", "read", "random read", "random write"];
const SYSTEMS: [&str; 3] = ["off", "ring", "text"];
/// Rounds for each size of record; fewer than of bursts, since each moves whole files.
const ROUNDS_PART: usize = 10;

pub(crate) fn run(place: &Place, effort: Effort, signals: &Signals) -> Result<Report, Failure> {
    let mut report = Report::new("logging", "posix");
    let library = preload::library()?;
    let workload = Workload::build(&place.work)?;
    let areas = place.in_memory().join("access");
    let drain = LiveDrain::start(&areas)?;
    let mut overheads = [const { Vec::new() }; 2];
    for record in RECORDS {
        let mut drivers = Vec::new();
        for system in SYSTEMS {
            let mut command = workload.command("access");
            command.arg(place.work.join(system));
            command.args([effort.file_bytes.to_string(), record.to_string()]);
            match system {
                "ring" => {
                    command.env("LD_PRELOAD", &library).env("HEARTH_TRACE", "1");
                    command.env("HEARTH_TRACE_DIR", &areas);
                }
                "text" => drop(command.arg(place.work.join("log"))),
                _ => {}
            }
            drivers.push(Driver::start(&mut command)?);
        }
        let rounds = (effort.rounds / ROUNDS_PART).max(3);
        let seconds = sample(&mut drivers, rounds, record, signals)?;
        for driver in drivers {
            driver.end()?;
        }
        rows(&mut report, record, &seconds, &mut overheads);
    }
    super::super::progress_over();
    let sums = drain.end()?;
    report.sum_up("verified", sums.adds_up());
    report.sum_up("records", sums.attempted);
    report.sum_up("dropped", sums.dropped);
    for (key, overheads) in ["ring", "text"].iter().zip(&overheads) {
        let worst = percentile(overheads, 100.0);
        report.sum_up(
            &format!("{key}_overhead_percent_median"),
            rounded(median(overheads)),
        );
        report.sum_up(&format!("{key}_overhead_percent_worst"), rounded(worst));
    }
    Ok(report)
}

/// Seconds by system, pass and round.
type Seconds = Vec<[Vec<f64>; PASSES.len()]>;

fn sample(
    drivers: &mut [Driver],
    rounds: usize,
    record: u64,
    signals: &Signals,
) -> Result<Seconds, Failure> {
    let mut seconds: Seconds = drivers.iter().map(|_| Default::default()).collect();
    // The first makes the files.
    for round in 0..=rounds {
        stop_if_told(signals)?;
        progress(&format!(
            "records of {} KiB: round {round} of {rounds}",
            record >> 10
        ));
        for turn in 0..drivers.len() {
            let system = (turn + round) % drivers.len();
            let spent = drivers[system].ask(round as u64 + 1)?;
            if round > 0 {
                for (figures, spent) in seconds[system].iter_mut().zip(spent) {
                    figures.push(spent);
                }
            }
        }
    }
    Ok(seconds)
}

/// Adds what each kind of logging costs over none, in percent, round by round.
fn rows(report: &mut Report, record: u64, seconds: &Seconds, overheads: &mut [Vec<f64>; 2]) {
    let off = &seconds[0];
    for (at, pass) in PASSES.iter().enumerate() {
        let case = format!("{pass} by {} KiB", record >> 10);
        report.row("off", &case, "median", median(&off[at]) * 1e3, "ms");
        for (system, overheads) in [1, 2].into_iter().zip(overheads.iter_mut()) {
            let pairs = seconds[system][at].iter().zip(&off[at]);
            let percents: Vec<f64> = pairs
                .map(|(with, off)| (with / off - 1.0) * 100.0)
                .collect();
            for (metric, percent) in [("p5", 5.0), ("median", 50.0), ("p95", 95.0)] {
                let metric = format!("overhead {metric}");
                let value = percentile(&percents, percent);
                report.row(SYSTEMS[system], &case, &metric, value, "%");
            }
            overheads.push(median(&percents));
        }
    }
}
