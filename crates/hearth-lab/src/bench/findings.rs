//! Programs with one planted fault each, and some with none: does the report name the fault first,
//! does it keep quiet otherwise, and does mending the fault save what it predicts?
//!
//! Every run has a set of its own over an empty cache. A fault is mended by running the mended
//! program, or the same program over another set, whichever the finding says.

mod cases;
mod program;

use crate::hearth::hearth;
use cases::{CASES, Case, Mend};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::options::SetSpec;
use hearth_set::report::{BenchReport, median};
use hearth_set::signals::Signals;
use hearth_set::trial::cluster::Cluster;
use program::{Program, Variant};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A prediction is right within this factor of what was measured.
const FACTOR: f64 = 1.5;

/// Runs every case, `turns` times each way.
pub(crate) fn run(
    turns: usize,
    signals: &Signals,
    mut tell: impl FnMut(&str),
) -> Result<BenchReport, Failure> {
    let dir = tempfile::tempdir().or_fail(|| "cannot make a directory".to_owned())?;
    let program = Program::build(dir.path())?;
    let mut report = BenchReport::new("findings", cases::BACKING);
    let mut score = Score::default();
    for (number, case) in CASES.iter().enumerate() {
        tell(&format!(
            "case {} of {}: {}",
            number + 1,
            CASES.len(),
            case.name
        ));
        let bench = Bench {
            case,
            program: &program,
            dir: dir.path().join(case.name),
            signals,
        };
        let seen = bench.measure(turns)?;
        seen.add_rows(case, &mut report);
        score.add(case, &seen);
    }
    score.sum_up(&mut report);
    Ok(report)
}

/// One case and where it runs.
struct Bench<'a> {
    case: &'a Case,
    program: &'a Program,
    dir: PathBuf,
    signals: &'a Signals,
}

impl Bench<'_> {
    fn measure(&self, turns: usize) -> Result<Seen, Failure> {
        std::fs::create_dir_all(&self.dir).or_fail(|| "cannot make a directory".to_owned())?;
        let trace = self.dir.join("faulty.htrace");
        let mut seen = Seen::default();
        for _ in 0..turns {
            seen.as_is
                .push(self.once(Variant::Faulty, (self.case.set)(), &trace)?);
            seen.findings.push(program::findings(&trace)?);
            seen.mended.push(self.mended(&trace)?);
        }
        std::fs::remove_dir_all(&self.dir).or_fail(|| "cannot remove a directory".to_owned())?;
        Ok(seen)
    }

    /// Traced as well, so that tracing is in both.
    fn mended(&self, trace: &Path) -> Result<f64, Failure> {
        match self.case.mend {
            Mend::Nothing | Mend::Program => self.once(Variant::Fixed, (self.case.set)(), trace),
            Mend::Set(set) => self.once(Variant::Faulty, set(), trace),
        }
    }

    /// Seconds of one run over a set of its own.
    fn once(&self, variant: Variant, spec: SetSpec, trace: &Path) -> Result<f64, Failure> {
        let place =
            tempfile::tempdir_in(&self.dir).or_fail(|| "cannot make a directory".to_owned())?;
        let quick = self.start(&place.path().join("quick"), spec.clone())?;
        let slow = self.start(&place.path().join("slow"), cases::slower(spec))?;
        let dirs = [&quick.points()[0], &slow.points()[0]];
        let seconds = self.program.run(self.case.name, variant, dirs, trace)?;
        quick.end()?;
        slow.end()?;
        Ok(seconds)
    }

    fn start(&self, dir: &Path, spec: SetSpec) -> Result<Cluster, Failure> {
        let store = dir.join("store");
        std::fs::create_dir_all(&store).or_fail(|| "cannot make the store".to_owned())?;
        self.program.prepare(self.case.name, &store)?;
        Cluster::start(&hearth()?, &store, dir, spec, self.signals)
    }
}

/// Findings of the report for each run of a case, and the measured seconds.
#[derive(Default)]
struct Seen {
    /// Name and predicted seconds, the most worthwhile first.
    findings: Vec<Vec<(String, f64)>>,
    as_is: Vec<f64>,
    mended: Vec<f64>,
}

impl Seen {
    fn gain(&self) -> f64 {
        median(&self.as_is) - median(&self.mended)
    }

    /// The finding that most runs name first.
    fn first(&self) -> &str {
        let names = || {
            self.findings
                .iter()
                .map(|run| run.first().map_or("nothing", |(name, _)| name))
        };
        names()
            .max_by_key(|name| names().filter(|other| other == name).count())
            .unwrap_or("nothing")
    }

    /// Predicted seconds of a kind, in the runs that name it.
    fn predicted(&self, kind: &str) -> Option<f64> {
        let named = self
            .findings
            .iter()
            .flatten()
            .filter(|(name, _)| name == kind);
        let seconds: Vec<f64> = named.map(|(_, seconds)| *seconds).collect();
        (!seconds.is_empty()).then(|| median(&seconds))
    }

    fn add_rows(&self, case: &Case, report: &mut BenchReport) {
        let first = self.first();
        report.row(first, case.name, "as it is", median(&self.as_is), "s");
        report.row(first, case.name, "mended", median(&self.mended), "s");
        let named: BTreeSet<&str> = self
            .findings
            .iter()
            .flatten()
            .map(|(name, _)| &**name)
            .collect();
        for name in named {
            let predicted = self.predicted(name).unwrap_or_default();
            report.row(name, case.name, "predicted gain", predicted, "s");
        }
        if case.fault() {
            report.row(first, case.name, "measured gain", self.gain(), "s");
        }
    }
}

/// How the report did over all cases.
#[derive(Default)]
struct Score {
    faults: usize,
    named_first: usize,
    gain_right: usize,
    clean: usize,
    silent: usize,
    missed: Vec<&'static str>,
}

impl Score {
    fn add(&mut self, case: &Case, seen: &Seen) {
        if !case.fault() {
            self.clean += 1;
            self.silent += usize::from(seen.first() == "nothing");
            return;
        }
        self.faults += 1;
        if seen.first() == case.name {
            self.named_first += 1;
        } else {
            self.missed.push(case.name);
        }
        let right = |predicted: f64| (1.0 / FACTOR..=FACTOR).contains(&(predicted / seen.gain()));
        self.gain_right += usize::from(seen.predicted(case.name).is_some_and(right));
    }

    fn sum_up(self, report: &mut BenchReport) {
        report.sum_up("faults", self.faults);
        report.sum_up("named_first", self.named_first);
        report.sum_up("gain_within_1_5", self.gain_right);
        report.sum_up("clean", self.clean);
        report.sum_up("silent_on_clean", self.silent);
        report.sum_up("missed", self.missed);
    }
}
