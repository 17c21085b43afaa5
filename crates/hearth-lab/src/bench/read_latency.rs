//! The latency experiments of IMCa: records of one size are written one after another, then read from
//! the beginning, by one client, by several with files of their own, and by several that share one.
//!
//! A *cold* read comes after the operating system's pages were dropped on all hosts, a *warm* one after
//! another read. Agents and daemons keep what they hold, since they are what is measured.

use super::fixture::{Field, Fixture, System, Translators};
use super::hosts::forget_caches;
use crate::workload::records::RECORDS;
use hearth_agent::Policy;
use hearth_set::failure::Failure;
use hearth_set::output::{progress, progress_over};
use hearth_set::report::{BenchReport, median, rounded};
use hearth_set::signals::Signals;
use hearth_set::trial::workers::WorkerGroup;
use std::collections::BTreeMap;
use std::time::Instant;

/// How much is measured.
#[derive(Debug)]
pub(super) struct Effort {
    sizes: &'static [usize],
    /// Clients unless others are asked for.
    clients: u32,
    turns: usize,
}

/// Parameters of a measurement.
#[derive(Debug)]
pub(super) struct Load<'a> {
    pub(super) store: &'a str,
    pub(super) clients: Option<u32>,
    pub(super) effort: &'static Effort,
}

impl Load<'_> {
    fn clients(&self) -> u32 {
        self.clients.unwrap_or(self.effort.clients)
    }
}

impl Effort {
    pub(super) const FULL: Effort = Effort {
        sizes: &[1, 16, 256, 1024, 2048, 4096, 16384, 32768],
        clients: 4,
        turns: 3,
    };
    pub(super) const QUICK: Effort = Effort {
        sizes: &[256, 4096],
        clients: 2,
        turns: 1,
    };
}

/// Cases: the files that clients read.
const CASES: [(&str, &str); 3] = [
    ("single", "records-single"),
    ("own", "records-own"),
    ("shared", "records-shared"),
];

/// The phases of the program that are timed, in order.
const PHASES: [&str; 3] = ["write", "cold read", "warm read"];

/// The system without any cache, which ratios are over.
const BARE: &str = "none";

/// Systems that are compared, by the fixture that they use.
const SYSTEMS: [(Translators, &[(&str, System)]); 2] = [
    (Translators::Off, &[(BARE, System::Store)]),
    (
        Translators::AsShipped,
        &[
            ("store", System::Store),
            ("bank", System::Under(Policy::Bank)),
            ("bank inline", System::BankInline),
            ("home", System::Under(Policy::Home)),
        ],
    ),
];

/// A system, a case, a size of records, a phase.
type Spot = (&'static str, &'static str, usize, &'static str);

/// Measures on each fixture; the systems of a fixture one after another within each turn.
pub(super) fn run(load: &Load<'_>, signals: &Signals) -> Result<BenchReport, Failure> {
    let (store, effort, clients) = (load.store, load.effort, load.clients());
    let mut report = BenchReport::new("read-latency", store);

    let mut samples: BTreeMap<Spot, Vec<f64>> = BTreeMap::new();
    let mut right = true;
    for (translators, systems) in SYSTEMS {
        let fixture = Fixture::prepare(store, clients, translators, signals)?;
        for turn in 0..effort.turns {
            for &(name, system) in systems {
                progress(&format!("turn {} of {}: {name}", turn + 1, effort.turns));
                let field = fixture.field(system, clients, signals)?;
                right &= measure(&field, (name, effort), &mut samples, signals)?;
                field.end()?;
            }
        }
    }
    progress_over();
    for (&(system, case, size, phase), seconds) in &samples {
        let metric = format!("{phase} of {size} B");
        report.row(system, case, &metric, median(seconds), "s a record");
    }
    report.sum_up("verified", right);
    report.sum_up("clients", clients);
    sum_up(&mut report, &samples, effort);
    Ok(report)
}

fn measure(
    field: &Field<'_>,
    (name, effort): (&'static str, &Effort),
    samples: &mut BTreeMap<Spot, Vec<f64>>,
    signals: &Signals,
) -> Result<bool, Failure> {
    let mut right = true;
    for (case, program) in CASES {
        for &size in effort.sizes {
            let points = match case {
                "single" => &field.points[..1],
                _ => &field.points[..],
            };
            let mut workers = WorkerGroup::start(program, points, size, signals)?;
            workers.wait()?;
            for phase in PHASES {
                if phase == "cold read" {
                    forget_pages();
                }
                let begun = Instant::now();
                workers.phase_from_here()?;
                let each = begun.elapsed().as_secs_f64() / RECORDS as f64;
                samples
                    .entry((name, case, size, phase))
                    .or_default()
                    .push(each);
            }
            workers.go()?;
            right &= workers.end()?.right;
        }
    }
    Ok(right)
}

/// Drops the pages of the operating system, where that is allowed; without root a cold read is as warm
/// as the operating system keeps it, for all systems alike.
fn forget_pages() {
    // Only root can.
    let _ = forget_caches();
}

fn sum_up(report: &mut BenchReport, samples: &BTreeMap<Spot, Vec<f64>>, effort: &Effort) {
    let ratio = |(system, case, size, phase): Spot| {
        let of = |system| {
            median(
                samples
                    .get(&(system, case, size, phase))
                    .map_or(&[][..], Vec::as_slice),
            )
        };
        of(system) / of(BARE).max(f64::MIN_POSITIVE)
    };
    let names = ["store", "bank", "bank inline", "home"];
    for (system, (case, _)) in names
        .iter()
        .flat_map(|name| CASES.map(|case| (*name, case)))
    {
        for phase in PHASES {
            let ratios: Vec<f64> = effort
                .sizes
                .iter()
                .map(|&size| ratio((system, case, size, phase)))
                .collect();
            let key = format!("{system} {case} {phase} over none").replace(' ', "_");
            report.sum_up(&key, rounded(median(&ratios)));
        }
    }
    for system in ["bank", "bank inline"] {
        let of_case = |case| {
            let sizes = effort.sizes.iter();
            sizes.map(move |&size| ratio((system, case, size, "write")))
        };
        let ratios: Vec<f64> = CASES.iter().flat_map(|(case, _)| of_case(case)).collect();
        let key = format!("{system} write over none").replace(' ', "_");
        report.sum_up(&key, rounded(median(&ratios)));
    }
    let lost: Vec<String> = CASES
        .iter()
        .flat_map(|(case, _)| PHASES.map(|phase| (*case, phase)))
        .flat_map(|(case, phase)| effort.sizes.iter().map(move |&size| (case, phase, size)))
        .filter_map(|(case, phase, size)| {
            let ratio = ratio(("bank", case, size, phase));
            (ratio > 1.0).then(|| format!("{case}, {phase} of {size} B: {}", rounded(ratio)))
        })
        .collect();
    report.sum_up("bank_loses", lost);
    report.sum_up(
        "reason",
        "ratios are medians over the sizes of records, of a record's time over that of the store without \
         its client's caches. Nothing is kept where it is read under policy bank, so each read of a block \
         is a round trip to a daemon; readers that the operating system reads ahead for pay less",
    );
}
