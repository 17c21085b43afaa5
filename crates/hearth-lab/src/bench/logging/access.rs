//! Files read and written by records of several sizes, in order and at random, without logging, with
//! the preloaded library, and with a line of text for each call.

use super::driver::{Driver, Workload};
use super::pair::Pair;
use super::{Effort, Place};
use crate::hearth::hearth;
use hearth_set::failure::Failure;
use hearth_set::output::progress;
use hearth_set::preload;
use hearth_set::report::{BenchReport, median, percentile, rounded};
use hearth_set::signals::Signals;
use hearth_set::watch::stop_if_told;
use std::time::Instant;

const RECORDS: [u64; 4] = [4 << 10, 64 << 10, 1 << 20, 16 << 20];
const PASSES: [&str; 4] = ["write", "read", "random read", "random write"];
const SYSTEMS: [&str; 3] = ["off", "ring", "text"];
/// Records of a ring: calls on cached files come at millions a second, and a client that is woken
/// needs a moment to come.
const RING: &str = "32768";
/// Rounds for each size of record; fewer than of bursts, since each moves whole files.
const ROUNDS_PART: usize = 2;

pub(crate) fn run(
    place: &Place,
    effort: Effort,
    signals: &Signals,
) -> Result<BenchReport, Failure> {
    let mut report = BenchReport::new("logging", "posix");
    let library = preload::library(&hearth()?)?;
    let workload = Workload::build(&place.work)?;
    let areas = place.in_memory().join("access");
    let pair = Pair::start(&areas, &place.work.join("served"), &place.work)?;
    let begun = Instant::now();
    let mut overheads = Overheads::default();
    for record in RECORDS {
        let mut drivers = Vec::new();
        for system in SYSTEMS {
            let mut command = workload.command("access");
            command.arg(place.work.join("file"));
            command.args([effort.file_bytes.to_string(), record.to_string()]);
            match system {
                "ring" => {
                    command.env("LD_PRELOAD", &library).env("HEARTH_TRACE", "1");
                    command.env("HEARTH_TRACE_DIR", &areas);
                    command.env("HEARTH_TRACE_RING", RING);
                }
                "text" => {
                    command.arg(place.work.join("log"));
                }
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
    hearth_set::output::progress_over();
    let took = begun.elapsed().as_nanos() as f64;
    let busy = pair.settle()?;
    let stored = pair.end()?;
    for (name, ns) in [("client", busy.client_ns), ("server", busy.server_ns)] {
        let percent = ns / took * 100.0;
        report.row(
            &format!("log {name}"),
            "the whole run",
            "processor",
            percent,
            "%",
        );
        report.sum_up(&format!("log_{name}_cpu_percent"), rounded(percent));
    }
    let sum = stored.records + stored.dropped + stored.torn;
    report.sum_up("verified", stored.attempted == sum && stored.records > 0);
    report.sum_up("records", stored.attempted);
    report.sum_up("dropped", stored.dropped);
    sum_up(&mut report, &overheads);
    Ok(report)
}

/// Measures of each pass.
const MEASURES: [&str; 2] = ["time", "processor time"];

/// Seconds by system, measure, pass and round.
type Seconds = Vec<[[Vec<f64>; PASSES.len()]; MEASURES.len()]>;

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
                let places = seconds[system].iter_mut().flatten();
                places.zip(spent).for_each(|(to, spent)| to.push(spent));
            }
        }
    }
    Ok(seconds)
}

/// Adds what each kind of logging costs over none, in percent.
fn rows(report: &mut BenchReport, record: u64, seconds: &Seconds, overheads: &mut Overheads) {
    for (at, pass) in PASSES.iter().enumerate() {
        let case = format!("{pass} by {} KiB", record >> 10);
        for (measure, name) in MEASURES.iter().enumerate() {
            let of = |system: usize| &seconds[system][measure][at];
            let metric = format!("{name}, median");
            report.row("off", &case, &metric, median(of(0)) * 1e3, "ms");
            for (system, overheads) in (1..).zip(overheads.iter_mut()) {
                let over = |with: f64, off: f64| (with / off - 1.0) * 100.0;
                let pairs = of(system).iter().zip(of(0));
                let percents: Vec<f64> = pairs.map(|(with, off)| over(*with, *off)).collect();
                let whole = over(median(of(system)), median(of(0)));
                let name = format!("{name} added");
                for (part, value) in [
                    ("p5", percentile(&percents, 5.0)),
                    ("of medians", whole),
                    ("p95", percentile(&percents, 95.0)),
                ] {
                    report.row(
                        SYSTEMS[system],
                        &case,
                        &format!("{name}, {part}"),
                        value,
                        "%",
                    );
                }
                overheads[measure].push(whole);
            }
        }
    }
}

/// Percents over none, by kind of logging and measure.
type Overheads = [[Vec<f64>; MEASURES.len()]; 2];

fn sum_up(report: &mut BenchReport, overheads: &Overheads) {
    for (system, overheads) in SYSTEMS[1..].iter().zip(overheads) {
        for (measure, overheads) in ["time", "cpu"].iter().zip(overheads) {
            let key = |what: &str| format!("{system}_{measure}_overhead_percent_{what}");
            report.sum_up(&key("median"), rounded(median(overheads)));
            report.sum_up(&key("worst"), rounded(percentile(overheads, 100.0)));
        }
    }
}
