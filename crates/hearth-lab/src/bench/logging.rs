//! `hearth-lab bench logging`: what a record costs, beside what others cost, in one run.
//!
//! Bursts of each system are taken in turns, so that all of them meet the same noise.

mod access;
mod calls;
mod chain;
mod drain;
mod driver;
mod lttng;
mod pair;
mod record;

use driver::{Driver, Workload};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::output::progress;
use hearth_set::report::{BenchReport, median, percentile, rounded};
use hearth_set::signals::Signals;
use hearth_set::watch::stop_if_told;
use lttng::Session;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// Records of one burst. A ring holds more, so that none is dropped.
const BURST: u64 = 10_000;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Rounds of bursts.
    pub(crate) rounds: usize,
    /// Calls of one burst of calls.
    pub(crate) calls: u64,
    /// How long operations are made at each rate.
    pub(crate) span: Duration,
    /// Bytes of the file that is read and written by records.
    pub(crate) file_bytes: u64,
}

impl Effort {
    pub(crate) const FULL: Effort = Effort {
        rounds: 200,
        calls: 4000,
        span: Duration::from_secs(10),
        file_bytes: 128 << 20,
    };
    pub(crate) const QUICK: Effort = Effort {
        rounds: 30,
        calls: 2000,
        span: Duration::from_secs(4),
        file_bytes: 64 << 20,
    };
}

/// A thing that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logged {
    /// Single records and calls.
    Calls,
    /// Programs that do I/O on a directory, with and without.
    Programs,
}

/// Parameters of a measurement.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) logged: Logged,
    pub(super) effort: Effort,
}

/// Measures.
pub(super) fn run(load: &Load, signals: &Signals) -> Result<BenchReport, Failure> {
    let place = Place::new()?;
    match load.logged {
        Logged::Programs => access::run(&place, load.effort, signals),
        Logged::Calls => costs(&place, load.effort, signals),
    }
}

fn costs(place: &Place, effort: Effort, signals: &Signals) -> Result<BenchReport, Failure> {
    let mut report = BenchReport::new("logging", "none");
    record_costs(place, effort, signals, &mut report)?;
    calls::measure(place, effort, signals, &mut report)?;
    chain::measure(place, effort.span, signals, &mut report)?;
    hearth_set::output::progress_over();
    Ok(report)
}

/// Cycles of a record, a line of text and a tracepoint, each for one operation.
fn record_costs(
    place: &Place,
    effort: Effort,
    signals: &Signals,
    report: &mut BenchReport,
) -> Result<(), Failure> {
    let workload = Workload::build(&place.work)?;
    let mut text = Driver::start(workload.command("text").arg(place.work.join("log")))?;
    let (mut lttng, why_not) = match Session::start(&workload, &place.work) {
        Ok(session) => (Some(session), None),
        Err(reason) => (None, Some(reason)),
    };
    let mut ring = record::Ring::start(&place.areas)?;
    let mut figures = [const { Vec::new() }; 3];
    let mut stamped = Vec::new();
    for round in 0..effort.rounds {
        stop_if_told(signals)?;
        progress(&format!(
            "records: round {} of {}",
            round + 1,
            effort.rounds
        ));
        figures[0].push(ring.burst(BURST)? / BURST as f64);
        figures[1].push(text.ask(BURST)?[0] / BURST as f64);
        if let Some(session) = &mut lttng {
            figures[2].push(session.driver.ask(BURST)?[0] / BURST as f64);
        }
        ring.stamped_burst(BURST, &mut stamped)?;
    }
    for (system, figures) in ["ring", "text", "lttng"].iter().zip(&figures) {
        spread(report, system, "cycles of a record", figures);
    }
    let floor = record::floor();
    for (case, percent) in [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9)] {
        let value = percentile(&stamped, percent);
        report.row("ring", "one call, stamped", case, value, "cycles");
    }
    report.row("clock", "two readings", "p50", floor, "cycles");
    let account = ring.end()?;
    let attempts = (2 * effort.rounds as u64) * BURST;
    report.sum_up(
        "verified",
        account.attempted == attempts && account.adds_up(),
    );
    report.sum_up("records_attempted", account.attempted);
    report.sum_up("records_dropped", account.dropped);
    if let Some(session) = lttng {
        let events = BURST * effort.rounds as u64;
        let bytes = session.end()?;
        report.row(
            "lttng",
            "stored",
            "bytes of an event",
            bytes / events as f64,
            "B",
        );
    }
    sum_up_records(report, &figures, &stamped, why_not);
    Ok(())
}

fn sum_up_records(
    report: &mut BenchReport,
    [ring, text, lttng]: &[Vec<f64>; 3],
    stamped: &[f64],
    why_not: Option<String>,
) {
    let p50 = median(ring);
    report.sum_up("clock", record::clock_name());
    report.sum_up("record_cycles_p50", rounded(p50));
    report.sum_up("record_cycles_p999", rounded(percentile(stamped, 99.9)));
    report.sum_up("baseline_over_record", rounded(median(text) / p50));
    match why_not {
        None => report.sum_up("lttng_over_record", rounded(median(lttng) / p50)),
        Some(reason) => {
            report.sum_up("lttng_over_record", serde_json::Value::Null);
            report.sum_up("lttng_skipped", reason);
        }
    }
}

/// Lets time pass: others are to work meanwhile.
fn pause(span: Duration) {
    let (_nobody, nothing) = mpsc::channel::<()>();
    // Nothing ever comes, so this is the end of the time.
    let _ = nothing.recv_timeout(span);
}

/// Adds the median of some figures, and where nine tenths of them lie.
fn spread(report: &mut BenchReport, system: &str, case: &str, figures: &[f64]) {
    if figures.is_empty() {
        return;
    }
    let unit = if case.starts_with("cycles") {
        "cycles"
    } else {
        "ns"
    };
    for (metric, percent) in [("p5", 5.0), ("median", 50.0), ("p95", 95.0)] {
        report.row(system, case, metric, percentile(figures, percent), unit);
    }
}

/// Directories for a benchmark's files: areas in memory, the rest on disk.
pub(crate) struct Place {
    pub(crate) areas: PathBuf,
    pub(crate) work: PathBuf,
    _memory: tempfile::TempDir,
    _disk: tempfile::TempDir,
}

impl Place {
    fn new() -> Result<Place, Failure> {
        let what = || "cannot make a directory".to_owned();
        let shm = Path::new("/dev/shm");
        let memory = match shm.is_dir() {
            true => tempfile::tempdir_in(shm),
            false => tempfile::tempdir(),
        };
        let memory = memory.or_fail(what)?;
        let disk = tempfile::tempdir().or_fail(what)?;
        Ok(Place {
            areas: memory.path().join("areas"),
            work: disk.path().to_owned(),
            _memory: memory,
            _disk: disk,
        })
    }

    /// A directory in memory, for files whose store must cost next to nothing.
    pub(crate) fn in_memory(&self) -> &Path {
        self._memory.path()
    }
}
