//! `workloads/findings.c`: built, prepared and run.

use crate::hearth::hearth;
use hearth_report::{Finding, analyse};
use hearth_set::failure::{Failure, OrFail};
use hearth_trace::file::Reader;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SOURCE: &str = include_str!("../../../../../workloads/findings.c");

/// The built program.
pub(super) struct Program {
    path: PathBuf,
}

/// With its fault or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Faulty,
    Fixed,
}

/// Figures that the program prints at its end.
#[derive(Deserialize)]
struct Told {
    seconds: f64,
}

impl Program {
    /// Builds it into `dir`.
    pub(super) fn build(dir: &Path) -> Result<Program, Failure> {
        let source = dir.join("findings.c");
        std::fs::write(&source, SOURCE).or_fail(|| "cannot write the program".to_owned())?;
        let path = dir.join("findings");
        let mut compiler = Command::new("cc");
        compiler
            .args(["-O2", "-o"])
            .arg(&path)
            .arg(&source)
            .arg("-lpthread");
        said(&mut compiler, "build the program")?;
        Ok(Program { path })
    }

    /// Makes the input files of a case in a store.
    pub(super) fn prepare(&self, case: &str, store: &Path) -> Result<(), Failure> {
        let mut command = Command::new(&self.path);
        command.args([case, "prepare"]).arg(store);
        said(&mut command, "prepare the program's files").map(drop)
    }

    /// Runs a case in the directories, traced, and gives its seconds.
    pub(super) fn run(
        &self,
        case: &str,
        variant: Variant,
        dirs: [&PathBuf; 2],
        trace: &Path,
    ) -> Result<f64, Failure> {
        let what = || format!("cannot run `{case}`");
        let mut command = Command::new(hearth()?);
        command
            .args(["trace", "run", "-o"])
            .arg(trace)
            .arg("--")
            .arg(&self.path);
        let variant = match variant {
            Variant::Faulty => "faulty",
            Variant::Fixed => "fixed",
        };
        command.args([case, variant]).args(dirs);
        let line = said(&mut command, &format!("run `{case}`"))?;
        let told: Told = serde_json::from_str(&line).or_fail(what)?;
        Ok(told.seconds)
    }
}

/// Output of a command; its own complaint if it failed.
fn said(command: &mut Command, to_do: &str) -> Result<String, Failure> {
    let what = || format!("cannot {to_do}");
    let done = command.stdin(Stdio::null()).output().or_fail(what)?;
    if !done.status.success() {
        let words = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        return Err(Failure::new(what()).cause(words));
    }
    String::from_utf8(done.stdout).or_fail(what)
}

/// Names and predicted seconds of what the report says of a trace.
pub(super) fn findings(trace: &Path) -> Result<Vec<(String, f64)>, Failure> {
    let reader = Reader::open(&[trace]).or_fail(|| "cannot read the trace".to_owned())?;
    let named = |finding: &Finding| (finding.kind.name().to_owned(), finding.seconds.mid);
    Ok(analyse(reader).findings.iter().map(named).collect())
}
