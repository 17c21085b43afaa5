//! Four processes write 240-byte records in turn into one shared file, then read it back.

use crate::hearth::hearth;
use crate::workload::small_io::RECORD_BYTES;
use hearth_agent::Policy;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::options::SetSpec;
use hearth_set::report::{BenchReport, rounded};
use hearth_set::signals::Signals;
use hearth_set::trial::cluster::Cluster;
use hearth_set::trial::matmul::PROCESSES;
use hearth_set::trial::workers::WorkerGroup;
use std::path::Path;

/// Records of a whole run: 12 dumps of BTIO class S.
const RECORDS: usize = 3456;

/// Records of a quick one.
const RECORDS_FEW: usize = RECORDS / 4;

/// Policies that are measured where none is named.
const USUAL: [Policy; 3] = [Policy::Hint, Policy::Single, Policy::Local];

/// Parameters of a measurement.
#[derive(Debug)]
pub(super) struct Load<'a> {
    backing: &'a str,
    /// Those without a cache and with Hearth's own protocol first.
    policies: Vec<Policy>,
    records: usize,
}

impl<'a> Load<'a> {
    /// Over a kind of store, of these policies or the usual ones.
    pub(super) fn whole(backing: &'a str, chosen: &[Policy]) -> Load<'a> {
        let mut policies = vec![Policy::None, Policy::Home];
        let others = if chosen.is_empty() { &USUAL } else { chosen };
        for policy in others {
            if !policies.contains(policy) {
                policies.push(*policy);
            }
        }
        Load {
            backing,
            policies,
            records: RECORDS,
        }
    }

    /// The same with fewer records.
    pub(super) fn quick(self) -> Load<'a> {
        Load {
            records: RECORDS_FEW,
            ..self
        }
    }
}

/// Runs each policy once; counts do not vary.
pub(super) fn run(load: &Load<'_>, signals: &Signals) -> Result<BenchReport, Failure> {
    let &Load {
        backing, records, ..
    } = load;
    let dir = tempfile::tempdir().or_fail(|| "cannot make a directory".to_owned())?;
    let mut report = BenchReport::new("small-io", backing);
    let mut verified = true;
    let (mut none, mut home) = (0, 0);
    for &policy in &load.policies {
        let system = &policy.to_string();
        let place = dir.path().join(system);
        let spec = SetSpec {
            agents: PROCESSES,
            policy,
            backing: backing.to_owned(),
            ..SetSpec::default()
        };
        let chunk = spec.chunk.0;
        let (requests, right) = one(&mut report, system, &place, spec, records, signals)?;
        verified &= right;
        match policy {
            Policy::None => none = requests,
            Policy::Home => home = requests,
            Policy::HomePlus
            | Policy::Hint
            | Policy::HintPaper
            | Policy::Single
            | Policy::Local
            | Policy::Bank
            | Policy::BankPaper => {}
        }
        report.sum_up(&format!("store_write_requests_{system}"), requests);
        let bytes = (records * RECORD_BYTES) as u64;
        report.sum_up("chunks", bytes.div_ceil(chunk));
    }
    report.sum_up("verified", verified);
    report.sum_up("records", records);
    report.sum_up(
        "write_requests_ratio",
        rounded(none as f64 / home.max(1) as f64),
    );
    Ok(report)
}

fn one(
    report: &mut BenchReport,
    system: &str,
    dir: &Path,
    spec: SetSpec,
    records: usize,
    signals: &Signals,
) -> Result<(u64, bool), Failure> {
    let store = dir.join("store");
    std::fs::create_dir_all(&store).or_fail(|| "cannot make the store".to_owned())?;
    let cluster = Cluster::start(&hearth()?, &store, dir, spec, signals)?;
    let mut workers = WorkerGroup::start("small-io", cluster.points(), records, signals)?;
    for _ in 0..3 {
        workers.phase()?;
    }
    let done = workers.end()?;
    let counts = cluster.counts()?;
    cluster.end()?;
    let figures = [
        ("write time", done.times.write_s, "s"),
        ("read time", done.times.read_s, "s"),
        (
            "store write requests",
            counts.store_write_requests as f64,
            "",
        ),
        ("store write bytes", counts.store_write_bytes as f64, "B"),
        ("store read requests", counts.store_read_requests as f64, ""),
        ("store read bytes", counts.store_read_bytes as f64, "B"),
        ("messages", counts.messages_sent as f64, ""),
    ];
    for (metric, value, unit) in figures {
        report.row(system, "all", metric, value, unit);
    }
    Ok((counts.store_write_requests, done.right))
}
