//! The matrix program of Coopc-PVFS (section 5.1) natively and under each policy, in turns.

use super::cluster::{Cluster, Counts};
use super::crew::Crew;
use super::report::{Report, median, rounded};
use crate::failure::{Failure, OrFail};
use crate::options::{Policy, SetSpec};
use crate::signals::Signals;
use crate::workload::{IoTimes, matmul};
use std::path::Path;

/// Processes, agents and mounts.
pub(crate) const PROCESSES: u32 = 4;

/// What reads and writes the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// The store's own mount as users have it: each node's kernel caches for itself.
    Native,
    /// The agents' own.
    Under(Policy),
}

impl System {
    pub(crate) const NONE: System = System::Under(Policy::None);
    pub(crate) const HINT: System = System::Under(Policy::Hint);
    pub(crate) const HOME: System = System::Under(Policy::Home);

    /// Those that the demonstration and test hosts compare.
    pub(crate) const MAIN: &[System] = &[System::Native, System::NONE, System::HINT, System::HOME];
    pub(crate) const ALL: &[System] = &[
        System::Native,
        System::NONE,
        System::HINT,
        System::HOME,
        System::Under(Policy::Single),
        System::Under(Policy::Local),
    ];

    /// Those to compare when these policies are asked for; `usual` if none is.
    pub(crate) fn chosen(policies: &[Policy], usual: &[System]) -> Vec<System> {
        if policies.is_empty() {
            return usual.to_vec();
        }
        let mut systems = vec![System::Native, System::NONE, System::HOME];
        for &policy in policies {
            if !systems.contains(&System::Under(policy)) {
                systems.push(System::Under(policy));
            }
        }
        systems
    }

    pub(crate) fn name(self) -> String {
        match self {
            System::Native => "native".to_owned(),
            System::Under(policy) => policy.to_string(),
        }
    }

    pub(crate) fn policy(self) -> Policy {
        match self {
            System::Native => Policy::None,
            System::Under(policy) => policy,
        }
    }

    fn spec(self, backing: &str) -> SetSpec {
        SetSpec {
            agents: PROCESSES,
            backing: backing.to_owned(),
            policy: self.policy(),
            kernel_cache: self == System::Native,
            ..SetSpec::default()
        }
    }
}

/// One run of one system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) system: System,
    pub(crate) times: IoTimes,
    pub(crate) counts: Counts,
    pub(crate) verified: bool,
}

/// Runs each system `turns` times, one after another within each turn.
pub(crate) fn sample(
    systems: &[System],
    (backing, n): (&str, usize),
    turns: usize,
    signals: &Signals,
    mut tell: impl FnMut(&str),
) -> Result<Vec<Sample>, Failure> {
    let dir = tempfile::tempdir().or_fail(|| "cannot make a directory".to_owned())?;
    let mut samples = Vec::new();
    for turn in 0..turns {
        for &system in systems {
            tell(&format!("turn {} of {turns}: {}", turn + 1, system.name()));
            let place = dir.path().join(format!("{}{turn}", system.name()));
            samples.push(one(system, backing, n, &place, signals)?);
        }
    }
    Ok(samples)
}

fn one(
    system: System,
    backing: &str,
    n: usize,
    dir: &Path,
    signals: &Signals,
) -> Result<Sample, Failure> {
    let store = dir.join("store");
    let made = std::fs::create_dir_all(&store).and_then(|()| matmul::init(&store, n));
    made.or_fail(|| format!("cannot write the inputs in `{}`", store.display()))?;
    let cluster = Cluster::start(&store, dir, system.spec(backing), signals)?;
    let report = Crew::start("matmul", cluster.points(), n, signals)?.end()?;
    let counts = cluster.counts()?;
    cluster.end()?;
    let verified = matmul::verify(&store, n).or_fail(|| "cannot read the product".to_owned())?;
    Ok(Sample {
        system,
        times: report.times,
        counts,
        verified,
    })
}

/// Puts samples into rows and a summary.
pub(crate) fn report(systems: &[System], backing: &str, n: usize, samples: &[Sample]) -> Report {
    let mut report = Report::new("matmul", backing);
    for &system in systems {
        rows(&mut report, system, samples);
    }
    let of = |system: System, figure: fn(&Sample) -> f64| {
        let taken: Vec<f64> = samples
            .iter()
            .filter(|s| s.system == system)
            .map(figure)
            .collect();
        median(&taken)
    };
    // Runs of one turn are compared with each other, so that a slow moment meets all of them.
    let ratios = |figure: fn(&Sample) -> f64, above: System, below: System| {
        let ratio = |turn: &[Sample]| {
            let at = |system| turn.iter().find(|s| s.system == system).map_or(0.0, figure);
            at(above) / at(below).max(f64::MIN_POSITIVE)
        };
        let all: Vec<f64> = samples.chunks(systems.len()).map(ratio).collect();
        rounded(median(&all))
    };
    report.sum_up("verified", samples.iter().all(|sample| sample.verified));
    let read = of(System::HOME, |s| s.counts.store_read_bytes as f64);
    report.sum_up(
        "store_read_bytes_ratio",
        rounded(read / matmul::input_bytes(n) as f64),
    );
    report.sum_up(
        "read_time_ratio",
        ratios(|s| s.times.read_s, System::NONE, System::HOME),
    );
    report.sum_up(
        "write_time_ratio",
        ratios(|s| s.times.write_s, System::NONE, System::HOME),
    );
    report.sum_up(
        "native_read_time_ratio",
        ratios(|s| s.times.read_s, System::Native, System::HOME),
    );
    report.sum_up(
        "native_write_time_ratio",
        ratios(|s| s.times.write_s, System::Native, System::HOME),
    );
    if systems.contains(&System::HINT) {
        // Which part of the time under hint reads and writes take under home.
        report.sum_up(
            "home_over_hint_read",
            ratios(|s| s.times.read_s, System::HOME, System::HINT),
        );
        report.sum_up(
            "home_over_hint_write",
            ratios(|s| s.times.write_s, System::HOME, System::HINT),
        );
    }
    for &system in systems {
        let (reads, writes) = (
            of(system, |s| s.counts.store_read_requests as f64),
            of(system, |s| s.counts.store_write_requests as f64),
        );
        report.sum_up(&format!("store_read_requests_{}", system.name()), reads);
        report.sum_up(&format!("store_write_requests_{}", system.name()), writes);
    }
    report
}

/// A figure of one run.
type Figure = (&'static str, &'static str, fn(&Sample) -> f64);

const FIGURES: [Figure; 10] = [
    ("read time", "s", |s| s.times.read_s),
    ("write time", "s", |s| s.times.write_s),
    ("store read requests", "", |s| {
        s.counts.store_read_requests as f64
    }),
    ("store read bytes", "B", |s| {
        s.counts.store_read_bytes as f64
    }),
    ("store write requests", "", |s| {
        s.counts.store_write_requests as f64
    }),
    ("store write bytes", "B", |s| {
        s.counts.store_write_bytes as f64
    }),
    ("bytes from own memory", "B", |s| own_bytes(s) as f64),
    ("bytes from peers", "B", |s| s.counts.peer_bytes as f64),
    ("bytes from the store", "B", |s| from_store(s) as f64),
    ("messages", "", |s| s.counts.messages_sent as f64),
];

/// Bytes that the processes read and the store did not have to bring for them.
pub(crate) fn own_bytes(sample: &Sample) -> u64 {
    let read = sample.times.bytes_read;
    read.saturating_sub(sample.counts.peer_bytes + from_store(sample))
}

pub(crate) fn from_store(sample: &Sample) -> u64 {
    match sample.system {
        System::Native | System::NONE => sample.counts.store_read_bytes,
        System::Under(_) => sample.counts.store_bytes,
    }
}

fn rows(report: &mut Report, system: System, samples: &[Sample]) {
    for (metric, unit, figure) in FIGURES {
        let taken: Vec<f64> = samples
            .iter()
            .filter(|s| s.system == system)
            .map(figure)
            .collect();
        report.row(&system.name(), "median", metric, median(&taken), unit);
        let spread = |f: fn(f64, f64) -> f64| taken.iter().copied().reduce(f).unwrap_or(0.0);
        if unit == "s" {
            report.row(&system.name(), "least", metric, spread(f64::min), unit);
            report.row(&system.name(), "most", metric, spread(f64::max), unit);
        }
    }
}
