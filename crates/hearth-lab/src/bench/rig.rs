//! The test hosts of `rig/`, for the time of a benchmark. The scripts travel inside the command.

use super::shares::Shares;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::signals::Signals;
use hearth_set::watch::wait_for;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const SCRIPTS: [(&str, &str); 11] = [
    ("rig.sh", include_str!("../../../../rig/rig.sh")),
    ("net.sh", include_str!("../../../../rig/net.sh")),
    ("stores.sh", include_str!("../../../../rig/stores.sh")),
    ("gluster.sh", include_str!("../../../../rig/gluster.sh")),
    ("moosefs.sh", include_str!("../../../../rig/moosefs.sh")),
    ("ceph.sh", include_str!("../../../../rig/ceph.sh")),
    ("nfs.sh", include_str!("../../../../rig/nfs.sh")),
    ("local.sh", include_str!("../../../../rig/local.sh")),
    ("check.sh", include_str!("../../../../rig/check.sh")),
    ("mpirun.sh", include_str!("../../../../rig/mpirun.sh")),
    ("rsh.sh", include_str!("../../../../rig/rsh.sh")),
];

/// The volume's name, as `rig.sh` has it.
const VOLUME: &str = "hearth";

/// Requests that ask for names and attributes.
const NAME_REQUESTS: [&str; 6] = ["LOOKUP", "STAT", "FSTAT", "READDIR", "READDIRP", "DISCOVER"];

/// The count in a line of a profile, such as `10.5 % 20 us 10 us 90 us 117 LOOKUP`.
fn name_requests_in(line: &str) -> Option<u64> {
    let mut words = line.split_whitespace().rev();
    let operation = words.next()?;
    let is_one = NAME_REQUESTS.contains(&operation);
    words.next()?.parse().ok().filter(|_| is_one)
}

/// Hosts that stand; dropping it takes them down.
pub(crate) struct Rig {
    dir: tempfile::TempDir,
    hosts: Vec<Host>,
    /// Goes after the hosts, when nobody is in it.
    shares: Option<Shares>,
}

/// A compute host.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Host {
    name: String,
    pub(crate) addr: String,
    pub(crate) mount: PathBuf,
}

#[derive(Deserialize)]
struct Told {
    compute: Vec<Host>,
}

impl Rig {
    /// Builds storage and compute hosts with a GlusterFS volume.
    pub(crate) fn start(compute: u32) -> Result<Rig, Failure> {
        Rig::start_with(compute, &[])
    }

    /// As [`Rig::start`], with more options of `rig.sh up`.
    pub(crate) fn start_with(compute: u32, options: &[&str]) -> Result<Rig, Failure> {
        Rig::build(compute, options, run)
    }

    /// As [`Rig::start_with`]; a signal ends it.
    pub(super) fn start_watched(
        compute: u32,
        options: &[&str],
        signals: &Signals,
    ) -> Result<Rig, Failure> {
        Rig::build(compute, options, |up| run_watched(up, signals))
    }

    fn build(
        compute: u32,
        options: &[&str],
        run_up: impl FnOnce(&mut Command) -> Result<String, Failure>,
    ) -> Result<Rig, Failure> {
        let what = || "cannot prepare the test hosts".to_owned();
        let dir = tempfile::Builder::new()
            .prefix("hearth-rig-")
            .tempdir()
            .or_fail(what)?;
        let mut rig = Rig {
            dir,
            hosts: Vec::new(),
            shares: None,
        };
        for (name, text) in SCRIPTS {
            let path = rig.path(name);
            std::fs::write(&path, text).or_fail(what)?;
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(&path, mode).or_fail(what)?;
        }
        run(Command::new(rig.path("rig.sh")).arg("check"))?;
        let hosts = rig.path("hosts");
        let mut up = Command::new(rig.path("rig.sh"));
        up.arg("up")
            .arg(&hosts)
            .args(["--compute", &compute.to_string()])
            .args(options);
        let told: Told = serde_json::from_str(&run_up(&mut up)?).or_fail(what)?;
        rig.hosts = told.compute;
        Ok(rig)
    }

    /// A place below the rig's own directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// From now on commands on a compute host have so many hundredths of a processor together.
    pub(crate) fn share_processors(&mut self, percent: u64) -> Result<(), Failure> {
        let hosts = self.hosts.iter().map(|host| host.name.as_str());
        self.shares = Some(Shares::make(hosts, percent)?);
        Ok(())
    }

    /// A command that runs on a compute host.
    pub(crate) fn on(&self, host: &Host, program: &Path) -> Command {
        let door = self
            .shares
            .as_ref()
            .and_then(|shares| shares.door(&host.name));
        let Some(door) = door else {
            return self.on_named(&host.name, program);
        };
        let mut command = self.on_named(&host.name, Path::new("sh"));
        command.args(["-c", r#"echo $$ > "$0" && exec "$@""#]);
        command.arg(door).arg(program);
        command
    }

    fn on_named(&self, host: &str, program: &Path) -> Command {
        let mut command = Command::new(self.path("rig.sh"));
        command
            .arg("exec")
            .arg(self.path("hosts"))
            .arg(host)
            .arg(program);
        command
    }

    /// Starts the first ranks of an MPI program, one on each compute host; the program's path and
    /// its words are to follow.
    pub(crate) fn launch(&self, mpi: &str, ranks: u32) -> Command {
        let mut command = Command::new(self.path("mpirun.sh"));
        command
            .arg(self.path("hosts"))
            .args(["--mpi", mpi, "--ranks", &ranks.to_string(), "--"]);
        command
    }

    /// The network of a host, as a file that threads can enter it by.
    pub(super) fn network(&self, host: &Host) -> Result<PathBuf, Failure> {
        let what = || "cannot find the network of a test host".to_owned();
        let words = std::fs::read_to_string(self.path("hosts/tag")).or_fail(what)?;
        let tag = words.split_whitespace().next().unwrap_or_default();
        Ok(PathBuf::from(format!("/run/netns/{tag}-{}", host.name)))
    }

    /// Has the bricks count their requests from now on.
    pub(crate) fn count_requests(&self) -> Result<(), Failure> {
        self.volume(&["profile", VOLUME, "start"]).map(drop)
    }

    /// Requests for names and attributes that the bricks have taken since the last look.
    pub(crate) fn name_requests(&self) -> Result<u64, Failure> {
        let told = self.volume(&["profile", VOLUME, "info", "incremental"])?;
        Ok(told.lines().filter_map(name_requests_in).sum())
    }

    fn volume(&self, words: &[&str]) -> Result<String, Failure> {
        let mut command = self.on_named("storage0", Path::new("gluster"));
        run(command.args(["--mode=script", "volume"]).args(words))
    }

    /// Bytes that the storage host has sent so far.
    pub(crate) fn storage_sent(&self) -> Result<u64, Failure> {
        let text = run(self
            .on_named("storage0", Path::new("cat"))
            .arg("/proc/self/net/dev"))?;
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("eth0:"));
        let sent = line.and_then(|line| line.split_whitespace().nth(8)?.parse().ok());
        sent.ok_or_else(|| Failure::new("cannot read the counters of the storage host"))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let mut down = Command::new(self.path("rig.sh"));
        if let Err(failure) = run(down.arg("down").arg(self.path("hosts"))) {
            eprintln!("{failure}");
        }
    }
}

/// Runs a command to its end; its words become the cause if it fails.
pub(crate) fn run(command: &mut Command) -> Result<String, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    words_of(&name, output)
}

/// As [`run`], of a command that says something when it has done its work; a signal ends it.
fn run_watched(command: &mut Command, signals: &Signals) -> Result<String, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let child = command.stderr(Stdio::piped()).spawn();
    let mut child = child.or_fail(|| format!("cannot run `{name}`"))?;
    let waited = match &child.stdout {
        Some(words) => wait_for(words, signals),
        None => Ok(()),
    };
    if let Err(failure) = waited {
        let pid = Pid::from_child(&child);
        // One that has ended already needs no signal.
        let _ = kill_process(pid, Signal::TERM);
        let _ = child.wait();
        return Err(failure);
    }
    words_of(&name, child.wait_with_output())
}

/// Output of a command, or the reason of its failure.
fn words_of(name: &str, output: io::Result<Output>) -> Result<String, Failure> {
    let output = output.or_fail(|| format!("cannot run `{name}`"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    // A command that only says no says why on its output.
    let words = match output.stderr.is_empty() {
        true => &output.stdout,
        false => &output.stderr,
    };
    let words = String::from_utf8_lossy(words);
    Err(Failure::new(format!("`{name}` failed: {}", output.status)).cause(words.trim()))
}
