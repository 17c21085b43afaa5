//! Time that recording adds to a call of a program that never heard of it: processor time of `pwrite`
//! and `pread` of 4 KiB on a file in memory, with and without the preloaded library.

use super::drain::LiveDrain;
use super::driver::{Driver, Workload};
use super::{Effort, Place, spread};
use crate::hearth::hearth;
use hearth_set::failure::Failure;
use hearth_set::output::progress;
use hearth_set::preload;
use hearth_set::report::{BenchReport, median, rounded};
use hearth_set::signals::Signals;
use hearth_set::watch::stop_if_told;
use std::process::Command;

const KEYS: [&str; 2] = ["added_ns_pwrite", "added_ns_pread"];
const CASES: [[&str; 3]; 2] = [
    ["pwrite", "pwrite traced", "pwrite added"],
    ["pread", "pread traced", "pread added"],
];

pub(crate) fn measure(
    place: &Place,
    effort: Effort,
    signals: &Signals,
    report: &mut BenchReport,
) -> Result<(), Failure> {
    let library = match hearth().and_then(|hearth| preload::library(&hearth)) {
        Ok(library) => library,
        Err(failure) => {
            for key in KEYS {
                report.sum_up(key, serde_json::Value::Null);
            }
            report.sum_up("added_skipped", failure.to_string());
            return Ok(());
        }
    };
    let workload = Workload::build(&place.work)?;
    let areas = place.in_memory().join("calls");
    let drain = LiveDrain::start(&areas)?;
    // One file for both: the pages of two would differ by more than a record costs.
    let command = || {
        let mut command = workload.command("calls");
        command.arg(place.in_memory().join("file"));
        command
    };
    let mut plain = Driver::start(&mut command())?;
    let traced: &mut Command = &mut command();
    traced.env("LD_PRELOAD", library).env("HEARTH_TRACE", "1");
    traced.env("HEARTH_TRACE_DIR", &areas);
    traced.env("HEARTH_TRACE_RING", "16384");
    let mut traced = Driver::start(traced)?;
    let mut figures = [const { [const { Vec::new() }; 3] }; 2];
    for round in 0..effort.rounds {
        stop_if_told(signals)?;
        progress(&format!("calls: round {} of {}", round + 1, effort.rounds));
        let per_call = |spent: Vec<f64>| spent.into_iter().map(|ns| ns / effort.calls as f64);
        let (with, without) = if round % 2 == 0 {
            let without = plain.ask(effort.calls)?;
            (traced.ask(effort.calls)?, without)
        } else {
            (traced.ask(effort.calls)?, plain.ask(effort.calls)?)
        };
        for ((without, with), figures) in per_call(without).zip(per_call(with)).zip(&mut figures) {
            figures[0].push(without);
            figures[1].push(with);
            figures[2].push(with - without);
        }
    }
    traced.end()?;
    plain.end()?;
    let sums = drain.end()?;
    let calls = 2 * effort.rounds as u64 * effort.calls;
    for (names, figures) in CASES.iter().zip(&figures) {
        for (name, figures) in names.iter().zip(figures) {
            spread(report, "preload", name, figures);
        }
    }
    report.row("preload", "calls", "recorded", sums.taken as f64, "");
    report.row("preload", "calls", "dropped", sums.dropped as f64, "");
    if sums.attempted < calls || !sums.adds_up() {
        report.sum_up("verified", false);
    }
    for (key, figures) in KEYS.iter().zip(&figures) {
        report.sum_up(key, rounded(median(&figures[2])));
    }
    Ok(())
}
