//! The fixture of the programs: a store, a plain directory beside it, and the agents over the store.

use crate::hearth::hearth;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde::Deserialize;
use tempfile::TempDir;

use super::rows::Row;
use hearth_agent::AgentStatus;
use hearth_set::failure::{Failure, OrFail};

/// Names the Python that the rows use.
const PYTHON: &str = "HEARTH_PYTHON";

/// How programs reach the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Preload,
    Mount,
}

impl Way {
    pub(super) const ALL: [Way; 2] = [Way::Preload, Way::Mount];

    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Preload => "preload",
            Way::Mount => "mount",
        }
    }

    fn option(self) -> &'static str {
        match self {
            Way::Preload => "preload",
            Way::Mount => "fuse",
        }
    }
}

/// How one run went.
#[derive(Debug)]
pub(super) struct Ran {
    /// Reads that the library served.
    pub(super) reads: u64,
    /// Reads that it passed by.
    pub(super) passed: u64,
    /// Why.
    pub(super) why: Vec<String>,
    /// Requests to the store.
    pub(super) store_reads: u64,
    /// The difference from the same run over a plain directory.
    pub(super) wrong: Option<String>,
}

/// One line of `hearth status --json`.
#[derive(Deserialize)]
struct Line {
    node: AgentStatus,
}

pub(super) struct ProgramFixture {
    dir: TempDir,
    python: String,
}

impl ProgramFixture {
    pub(super) fn prepare() -> Result<ProgramFixture, Failure> {
        let what = || "cannot make a directory".to_owned();
        let dir = tempfile::tempdir().or_fail(what)?;
        for name in ["control", "store", "plain", "made"] {
            fs::create_dir(dir.path().join(name)).or_fail(what)?;
        }
        let private = fs::Permissions::from_mode(0o700);
        fs::set_permissions(dir.path().join("control"), private).or_fail(what)?;
        let python = std::env::var(PYTHON).unwrap_or_else(|_| "python3".to_owned());
        Ok(ProgramFixture { dir, python })
    }

    fn path(&self, part: &str) -> PathBuf {
        self.dir.path().join(part)
    }

    fn place(&self, row: &Row, way: Way) -> PathBuf {
        self.path("store").join(way.name()).join(file_name(row))
    }

    /// The first need of a row that is not here.
    pub(super) fn lacks(&self, row: &Row) -> Option<&'static str> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there = |need: &&&str| match need.strip_prefix("import ") {
            Some(_) => {
                let mut python = Command::new(&self.python);
                let output = python.args(["-c", need]).stderr(Stdio::null()).status();
                output.is_ok_and(|status| status.success())
            }
            None => std::env::split_paths(&path).any(|dir| dir.join(need).is_file()),
        };
        row.needs.iter().find(|need| !is_there(need)).copied()
    }

    fn shell(&self, script: &str, dir: &Path) -> Command {
        let mut command = Command::new("bash");
        command.args(["-euc", script]);
        self.quiet(&mut command, dir);
        command
    }

    fn quiet(&self, command: &mut Command, dir: &Path) {
        command
            .current_dir(dir)
            .stdin(Stdio::null())
            .env("LC_ALL", "C")
            .env("PYTHON", &self.python)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null");
    }

    /// Makes the files of a row; what it prints over a plain directory, twice.
    pub(super) fn plain(&self, row: &Row) -> Result<Vec<Vec<u8>>, Failure> {
        let made = self.path("made").join(file_name(row));
        fs::create_dir(&made).or_fail(|| "cannot make a directory".to_owned())?;
        said(&mut self.shell(row.make, &made), row.name)?;
        let plain = self.path("plain").join(file_name(row));
        copy(&made, &plain)?;
        for way in Way::ALL {
            copy(&made, &self.place(row, way))?;
        }
        (0..2)
            .map(|_| Ok(said(&mut self.shell(row.run, &plain), row.name)?.stdout))
            .collect()
    }

    fn hearth(&self, words: &[&str]) -> Result<Command, Failure> {
        let mut command = Command::new(hearth()?);
        command.args(words).arg("--store").arg(self.path("store"));
        command.env("HEARTH_DIR", self.path("control"));
        Ok(command)
    }

    pub(super) fn up(&self) -> Result<(), Failure> {
        said(&mut self.hearth(&["up"])?, "hearth up").map(drop)
    }

    pub(super) fn down(&self) -> Result<(), Failure> {
        said(&mut self.hearth(&["down"])?, "hearth down").map(drop)
    }

    fn status(&self) -> Result<AgentStatus, Failure> {
        let told = said(&mut self.hearth(&["status", "--json"])?, "hearth status")?.stdout;
        let line: Line =
            serde_json::from_slice(&told).or_fail(|| "cannot understand the status".to_owned())?;
        Ok(line.node)
    }

    /// Runs a row over the cache, cold and warm.
    pub(super) fn cached(
        &self,
        row: &Row,
        way: Way,
        expected: &[Vec<u8>],
    ) -> Result<Vec<Ran>, Failure> {
        let place = self.place(row, way);
        let mut runs = Vec::new();
        for printed in expected {
            let before = self.status()?;
            let mut command = self.hearth(&["run", "--way-in", way.option()])?;
            command.args(["--", "bash", "-euc", row.run]);
            self.quiet(&mut command, &place);
            let output = command
                .output()
                .or_fail(|| format!("cannot run {}", row.name))?;
            runs.push(ran(&before, &self.status()?, wrong(&output, printed)));
        }
        Ok(runs)
    }

    /// Compares what a row has left in the store with what it left in a plain directory.
    pub(super) fn compare(&self, row: &Row, way: Way) -> Result<(), String> {
        let mut command = Command::new("diff");
        command.args(["-r", "--no-dereference"]);
        command.arg(self.path("plain").join(file_name(row)));
        command.arg(self.place(row, way));
        match command.output() {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            Err(error) => Err(format!("diff: {error}")),
        }
    }
}

impl Drop for ProgramFixture {
    fn drop(&mut self) {
        // Something is up only if the table came to no end.
        if let Ok(mut command) = self.hearth(&["down", "--discard"]) {
            let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    }
}

fn file_name(row: &Row) -> String {
    row.name.replace(' ', "-")
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let what = || "cannot make a directory".to_owned();
    fs::create_dir_all(to.parent().unwrap_or(to)).or_fail(what)?;
    said(Command::new("cp").arg("-a").args([from, to]), "cp").map(drop)
}

fn said(command: &mut Command, who: &str) -> Result<Output, Failure> {
    let what = || format!("cannot run {who}");
    let output = command.output().or_fail(what)?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::new(what()).cause(words));
    }
    Ok(output)
}

fn wrong(output: &Output, printed: &[u8]) -> Option<String> {
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Some(format!("{}: {words}", output.status));
    }
    let is_right = output.stdout == printed;
    (!is_right).then(|| {
        let seen = String::from_utf8_lossy(&output.stdout);
        format!("it printed {:.200}", seen.trim())
    })
}

fn ran(before: &AgentStatus, after: &AgentStatus, wrong: Option<String>) -> Ran {
    let (old, new) = (&before.programs, &after.programs);
    let reasons = [
        (new.not_here - old.not_here, "not in memory or past the end"),
        (new.called_back - old.called_back, "written meanwhile"),
        (new.too_long - old.too_long, "over too many pages"),
        (new.no_agent - old.no_agent, "agent gone"),
        (new.flags - old.flags, "opened for direct I/O"),
    ];
    let told = reasons.iter().filter(|(count, _)| *count > 0);
    Ran {
        reads: new.reads - old.reads,
        passed: reasons.iter().map(|(count, _)| count).sum(),
        why: told.map(|(count, why)| format!("{count} {why}")).collect(),
        store_reads: after.counters.store_read_requests - before.counters.store_read_requests,
        wrong,
    }
}
