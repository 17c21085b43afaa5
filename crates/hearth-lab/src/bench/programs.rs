//! Programs that people use, each run twice over a cached directory: with the library that reads in the
//! node's memory, and over the mount alone. They must print and leave the same as over a plain
//! directory. The table says what was served and what was passed by, and why.

mod fixture;
mod rows;

use std::collections::BTreeMap;

use fixture::{ProgramFixture, Ran, Way};
use hearth_set::failure::Failure;
use hearth_set::report::BenchReport;
use hearth_set::signals::Signals;
use hearth_set::watch::stop_if_told;
use rows::{Effort, ROWS, Row};

/// Which rows to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    All,
    /// Those that take little time.
    Light,
}

/// Runs the table.
pub(super) fn run(
    choice: Choice,
    signals: &Signals,
    progress: impl Fn(&str),
) -> Result<BenchReport, Failure> {
    let fixture = ProgramFixture::prepare()?;
    let mut report = BenchReport::new("programs", "posix");

    let (mut skipped, mut wrong) = (Vec::new(), Vec::new());
    let chosen = |row: &&Row| choice == Choice::All || row.effort == Effort::Light;
    let mut rows: Vec<&Row> = ROWS.iter().filter(chosen).collect();
    rows.retain(|row| match fixture.lacks(row) {
        Some(missing) => {
            skipped.push(format!("{}: no {missing}", row.name));
            false
        }
        None => true,
    });
    let ran = run_all(&fixture, &rows, signals, progress)?;
    let mut served = 0;
    for (row, way, runs) in &ran {
        tell(&mut report, row, *way, runs);
        served += usize::from(*way == Way::Preload && runs.iter().any(|ran| ran.reads > 0));
        if let Some(why) = runs.iter().find_map(|ran| ran.wrong.clone()) {
            wrong.push(format!("{} {}: {why}", row.name, way.name()));
        }
    }
    report.sum_up("verified", wrong.is_empty());
    report.sum_up("programs", rows.len());
    report.sum_up("served_in_memory", served);
    report.sum_up("skipped", skipped);
    report.sum_up("wrong", wrong);
    Ok(report)
}

/// A row, and how its runs in one way went.
type Told<'a> = (&'a Row, Way, Vec<Ran>);

/// Each row, in each way, cold and warm.
fn run_all<'a>(
    fixture: &ProgramFixture,
    rows: &[&'a Row],
    signals: &Signals,
    progress: impl Fn(&str),
) -> Result<Vec<Told<'a>>, Failure> {
    let mut expected = BTreeMap::new();
    for row in rows {
        stop_if_told(signals)?;
        progress(&format!("{}, without a cache", row.name));
        expected.insert(row.name, fixture.plain(row)?);
    }
    let mut all = Vec::new();
    for way in Way::ALL {
        fixture.up()?;
        let mut ran = Vec::new();
        for row in rows {
            stop_if_told(signals)?;
            progress(&format!("{}, {}", row.name, way.name()));
            ran.push((*row, way, fixture.cached(row, way, &expected[row.name])?));
        }
        fixture.down()?;
        // Other programs find what is in the store now.
        for (row, way, runs) in &mut ran {
            let left = fixture.compare(row, *way);
            if let (Some(last), Err(why)) = (runs.last_mut(), left) {
                last.wrong.get_or_insert(why);
            }
        }
        all.extend(ran);
    }
    Ok(all)
}

fn tell(report: &mut BenchReport, row: &Row, way: Way, runs: &[Ran]) {
    for (ran, when) in runs.iter().zip(["cold", "warm"]) {
        let mut figure = |what: &str, value: u64, unit| {
            let metric = format!("{when} {what}");
            report.row(way.name(), row.name, &metric, value as f64, unit);
        };
        if way == Way::Preload {
            figure("served in memory", ran.reads, "reads");
            figure("passed by", ran.passed, "reads");
        }
        figure("read from the store", ran.store_reads, "requests");
    }
    let why = runs
        .last()
        .map(|ran| ran.why.join(", "))
        .unwrap_or_default();
    let says = match (way, why.is_empty()) {
        (Way::Mount, _) => "all through the mount".to_owned(),
        (Way::Preload, true) => row.how.to_owned(),
        (Way::Preload, false) => format!("{}; passed by: {why}", row.how),
    };
    report.explain(&says);
}
