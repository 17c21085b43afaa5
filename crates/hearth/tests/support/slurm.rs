//! A Slurm of several nodes on this machine, in namespaces of its own: see `slurm.sh`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::fixture::{LIMIT, finish, text, until};

/// The programs that it is made of.
pub(crate) const PROGRAMS: [&str; 9] = [
    "slurmctld",
    "slurmd",
    "munged",
    "sbatch",
    "srun",
    "sinfo",
    "unshare",
    "nsenter",
    "ip",
];

/// Dropping it ends every process in its namespaces.
pub(crate) struct Slurm {
    dir: PathBuf,
    /// `unshare`, which kills the first process of the namespaces when it is killed.
    holder: Child,
    /// That process, as seen from here.
    first: u32,
}

impl Slurm {
    /// Starts one below `dir`. The error says why it cannot be had here.
    pub(crate) fn start(dir: &Path, nodes: &[&str]) -> Result<Slurm, String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/slurm.sh");
        let said = fs::File::create(dir.join("said")).expect("our own directory");
        let mut holder = Command::new("unshare")
            .args(["--net", "--pid", "--uts", "--mount", "--mount-proc"])
            .args(["--fork", "--kill-child"])
            .arg(script)
            .arg(dir)
            .args(nodes)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(said)
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        let mut line = String::new();
        let stdout = holder.stdout.take().expect("it is a pipe");
        let read = BufReader::new(stdout).read_line(&mut line);
        read.expect("a pipe can be read");
        let mut slurm = Slurm {
            dir: dir.to_owned(),
            first: 0,
            holder,
        };
        if line.trim() != "up" {
            return Err(format!("Slurm does not start: {}", slurm.words()));
        }
        slurm.first = slurm.first_process();
        slurm.wait_for(nodes.len())?;
        Ok(slurm)
    }

    fn first_process(&self) -> u32 {
        let holder = self.holder.id();
        let children = format!("/proc/{holder}/task/{holder}/children");
        let children = fs::read_to_string(children).expect("processes list their children");
        children.trim().parse().expect("it has one")
    }

    /// Waits until all nodes take jobs.
    fn wait_for(&self, nodes: usize) -> Result<(), String> {
        let begun = Instant::now();
        let mut idle = 0;
        until("nodes answer, or time is over", 2 * LIMIT, || {
            let output = finish(&mut self.command("sinfo", &["-h", "-N", "-o", "%t"]));
            idle = text(&output.stdout)
                .lines()
                .filter(|state| *state == "idle")
                .count();
            idle == nodes || begun.elapsed() > LIMIT
        });
        match idle == nodes {
            true => Ok(()),
            false => Err(format!(
                "{idle} of {nodes} nodes of Slurm answer: {}",
                self.words()
            )),
        }
    }

    /// The last lines of its logs.
    fn words(&self) -> String {
        let logs = ["said", "slurmctld.log", "munge/log"];
        let logs = logs
            .iter()
            .filter_map(|log| fs::read_to_string(self.dir.join(log)).ok());
        let ends = logs.map(|log| log.lines().rev().take(3).collect::<Vec<_>>().join("; "));
        ends.collect::<Vec<_>>().join("; ")
    }

    /// A command within the namespaces.
    pub(crate) fn command(&self, program: impl AsRef<Path>, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.first.to_string()]);
        command.args(["--net", "--pid", "--uts", "--mount", "--"]);
        command.arg(program.as_ref()).args(words);
        command.env("SLURM_CONF", self.dir.join("slurm.conf"));
        command.current_dir(&self.dir).stdin(Stdio::null());
        command
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
