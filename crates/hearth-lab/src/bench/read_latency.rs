//! The latency experiments of IMCa: records of one size are written one after another, then read from
//! the beginning, by one client, by several with files of their own, and by several that share one.
//!
//! A *cold* read comes after the operating system's pages were dropped on all hosts, a *warm* one after
//! another read. Agents and daemons keep what they hold, since they are what is measured.

use super::fixture::{Field, Fixture, System, Translators, bare_name, is_model};
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

/// The volume without its client's caches.
const UNCACHED: &str = "none";

/// Systems of Hearth, by their names.
const OURS: [(&str, System); 3] = [
    ("bank", System::Under(Policy::Bank)),
    ("bank inline", System::BankInline),
    ("home", System::Under(Policy::Home)),
];

/// A system and its name.
type Named = (&'static str, System);

/// Systems that are measured, by the fixture that they use.
fn systems(store: &str) -> Vec<(Translators, Vec<Named>)> {
    let mut whole = vec![(bare_name(store), System::Store)];
    whole.extend(OURS);
    let mut all = vec![(Translators::AsShipped, whole)];
    if store == "gluster" {
        all.insert(0, (Translators::Off, vec![(UNCACHED, System::Store)]));
    }
    all
}

/// Systems that ratios are over. A directory past a model is no rival of it.
fn rivals(store: &str) -> &'static [&'static str] {
    match store {
        "gluster" => &[UNCACHED, "store"],
        model if is_model(model) => &[],
        _ => &["store"],
    }
}

/// A system, a case, a size of records, a phase.
type Spot = (&'static str, &'static str, usize, &'static str);

/// Measures on each fixture; the systems of a fixture one after another within each turn.
pub(super) fn run(load: &Load<'_>, signals: &Signals) -> Result<BenchReport, Failure> {
    let (store, effort, clients) = (load.store, load.effort, load.clients());
    let mut report = BenchReport::new("read-latency", store);

    let mut samples: BTreeMap<Spot, Vec<f64>> = BTreeMap::new();
    let mut right = true;
    for (translators, systems) in systems(store) {
        let fixture = Fixture::prepare(store, clients, translators, signals)?;
        for turn in 0..effort.turns {
            for &(name, system) in &systems {
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
    sum_up(&mut report, &samples, load);
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

/// Times of records, by where they were taken.
type Samples = BTreeMap<Spot, Vec<f64>>;

/// The middle of a record's time over that of another system.
fn ratio(samples: &Samples, (system, case, size, phase): Spot, below: &'static str) -> f64 {
    let of = |system| samples.get(&(system, case, size, phase));
    let middle = |system| median(of(system).map_or(&[][..], Vec::as_slice));
    middle(system) / middle(below).max(f64::MIN_POSITIVE)
}

fn sum_up(report: &mut BenchReport, samples: &Samples, load: &Load<'_>) {
    let rivals = rivals(load.store);
    for &below in rivals {
        let names = ["store"].into_iter().chain(OURS.map(|(name, _)| name));
        for system in names.filter(|name| *name != below) {
            compare(report, samples, (system, below), load.effort);
        }
    }
    if !rivals.is_empty() {
        report.sum_up("bank_loses", losses(samples, rivals, load.effort));
    }
    report.sum_up("reason", reason(rivals));
}

/// The medians of all ratios of a system over another.
fn compare(
    report: &mut BenchReport,
    samples: &Samples,
    (system, below): (&'static str, &'static str),
    effort: &Effort,
) {
    let mut sum_up = |what: String, ratios: &[f64]| {
        let key = format!("{system} {what} over {below}").replace(' ', "_");
        report.sum_up(&key, rounded(median(ratios)));
    };
    let of = |case, phase| {
        let sizes = effort.sizes.iter();
        sizes.map(move |&size| ratio(samples, (system, case, size, phase), below))
    };
    for (case, _) in CASES {
        for phase in PHASES {
            sum_up(
                format!("{case} {phase}"),
                &of(case, phase).collect::<Vec<_>>(),
            );
        }
    }
    if system.starts_with("bank") {
        let writes = CASES.iter().flat_map(|(case, _)| of(case, "write"));
        sum_up("write".to_owned(), &writes.collect::<Vec<_>>());
    }
}

/// The cases in which the bank takes longer than the faster of its rivals, with how many times as long.
fn losses(samples: &Samples, rivals: &[&'static str], effort: &Effort) -> Vec<String> {
    let mut lost = Vec::new();
    for (case, phase) in CASES
        .iter()
        .flat_map(|(case, _)| PHASES.map(|phase| (*case, phase)))
    {
        for &size in effort.sizes {
            let over = |below: &&'static str| ratio(samples, ("bank", case, size, phase), below);
            let most = rivals.iter().map(over).fold(0.0, f64::max);
            if most > 1.0 {
                lost.push(format!("{case}, {phase} of {size} B: {}", rounded(most)));
            }
        }
    }
    lost
}

fn reason(rivals: &[&str]) -> &'static str {
    if rivals.is_empty() {
        return "agents alone reach a model. So rows of `directory` are of a directory on this machine, and \
                nothing is compared with them";
    }
    "ratios are medians over the sizes of records, of a record's time over that of the rival: `store` is \
     the store as shipped, `none` the volume without its client's caches. `bank_loses` is over the faster \
     one. Nothing is kept where it is read under policy bank, so each read of a block is a round trip to a \
     daemon; readers that the operating system reads ahead for pay less"
}
