//! The matrix program of Coopc-PVFS (section 5.1) natively and under each policy, in turns.

use super::IoTimes;
use super::cluster::{Cluster, ClusterCounts};
use super::workers::WorkerGroup;
use crate::failure::{Failure, OrFail};
use crate::options::SetSpec;
use crate::report::{BenchReport, median, rounded};
use crate::signals::Signals;
use hearth_agent::Policy;
use std::path::Path;

pub mod program;

/// Rows and columns of the matrices.
pub const MATRIX: usize = 1024;

/// Processes, agents and mounts.
pub const PROCESSES: u32 = 4;

/// The system that reads and writes the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// The store's own mount as users have it: each node's kernel caches for itself.
    Native,
    /// The agents' own.
    Under(Policy),
}

impl System {
    /// Each request goes to the store.
    pub const NONE: System = System::Under(Policy::None);
    /// Policy `hint`.
    pub const HINT: System = System::Under(Policy::Hint);
    /// Policy `home`.
    pub const HOME: System = System::Under(Policy::Home);

    /// Those that the demonstration and test hosts compare.
    pub const MAIN: &[System] = &[System::Native, System::NONE, System::HINT, System::HOME];
    /// Those that a whole measurement compares.
    pub const ALL: &[System] = &[
        System::Native,
        System::NONE,
        System::HINT,
        System::HOME,
        System::Under(Policy::Single),
        System::Under(Policy::Local),
    ];

    /// Those to compare when these policies are asked for; `usual` if none is.
    pub fn chosen(policies: &[Policy], usual: &[System]) -> Vec<System> {
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

    /// As it is printed.
    pub fn name(self) -> String {
        match self {
            System::Native => "native".to_owned(),
            System::Under(policy) => policy.to_string(),
        }
    }

    /// The policy of its agents.
    pub fn policy(self) -> Policy {
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
pub struct Sample {
    /// The system that was run.
    pub system: System,
    /// The times of the reads and writes of all processes.
    pub times: IoTimes,
    /// The counts of all agents.
    pub counts: ClusterCounts,
    /// Whether the product is right.
    pub verified: bool,
}

/// Runs each system `turns` times, one after another within each turn.
pub fn sample(
    hearth: &Path,
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
            samples.push(one(hearth, system, (backing, n), &place, signals)?);
        }
    }
    Ok(samples)
}

fn one(
    hearth: &Path,
    system: System,
    (backing, n): (&str, usize),
    dir: &Path,
    signals: &Signals,
) -> Result<Sample, Failure> {
    let store = dir.join("store");
    let made = std::fs::create_dir_all(&store).and_then(|()| program::init(&store, n));
    made.or_fail(|| format!("cannot write the inputs in `{}`", store.display()))?;
    let cluster = Cluster::start(hearth, &store, dir, system.spec(backing), signals)?;
    let report = WorkerGroup::start("matmul", cluster.points(), n, signals)?.end()?;
    let counts = cluster.counts()?;
    cluster.end()?;
    let verified = program::verify(&store, n).or_fail(|| "cannot read the product".to_owned())?;
    Ok(Sample {
        system,
        times: report.times,
        counts,
        verified,
    })
}

/// Puts samples into rows and a summary.
pub fn report(systems: &[System], backing: &str, n: usize, samples: &[Sample]) -> BenchReport {
    let mut report = BenchReport::new("matmul", backing);
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
        rounded(read / program::input_bytes(n) as f64),
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
pub fn own_bytes(sample: &Sample) -> u64 {
    let read = sample.times.bytes_read;
    read.saturating_sub(sample.counts.peer_bytes + from_store(sample))
}

/// Bytes read that came from the store.
pub fn from_store(sample: &Sample) -> u64 {
    match sample.system {
        System::Native | System::NONE => sample.counts.store_read_bytes,
        System::Under(_) => sample.counts.store_bytes,
    }
}

fn rows(report: &mut BenchReport, system: System, samples: &[Sample]) {
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
