//! Agents of one list, each a set of its own as on a host of its own, so that one can die.

use super::schedule::{Mode, Step};
use crate::hearth::hearth;
use hearth_set::control::{CallError, ControlRequest, call};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::process::Process;
use hearth_set::set::{self, Set};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long an agent that was killed may take until it is gone.
const GONE_SPAN: Duration = Duration::from_secs(10);

/// Size of the disk of the tiers, and of each tier on it.
const DISK: &str = "size=24m";
const TIER: &str = "6MiB";

/// Agents of one mode, over a store; dropping it ends them.
pub(super) struct Agents {
    dir: tempfile::TempDir,
    mode: Mode,
    this: PathBuf,
    hosts: String,
    pids: Vec<Option<u32>>,
    disk: Option<PathBuf>,
}

impl Agents {
    pub(super) fn start(mode: Mode) -> Result<Agents, Failure> {
        let what = || "cannot make a directory".to_owned();
        let mut agents = Agents {
            dir: tempfile::tempdir().or_fail(what)?,
            mode,
            this: hearth()?,
            hosts: addresses(mode.agents())?,
            pids: vec![None; mode.agents()],
            disk: None,
        };
        fs::create_dir(agents.store()).or_fail(what)?;
        for agent in agents.all() {
            fs::create_dir(agents.point(agent)).or_fail(what)?;
            let mut private = fs::DirBuilder::new();
            private
                .mode(0o700)
                .create(agents.own(agent))
                .or_fail(what)?;
        }
        let mut secret = File::options();
        let secret = secret.write(true).create_new(true).mode(0o600);
        let secret = secret.open(agents.dir.path().join("secret"));
        secret
            .and_then(|mut file| writeln!(file, "{:064x}", 0x4ea7_u32))
            .or_fail(|| "cannot write the secret".to_owned())?;
        if mode.tier {
            let disk = agents.dir.path().join("disk");
            fs::create_dir(&disk).or_fail(what)?;
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", DISK, "tmpfs"]).arg(&disk);
            crate::bench::rig::run(&mut mount)?;
            agents.disk = Some(disk);
        }
        agents.start_all()?;
        Ok(agents)
    }

    /// Starts all at once: each waits for the others.
    fn start_all(&mut self) -> Result<(), Failure> {
        let starts: Result<Vec<Child>, Failure> = self.all().map(|agent| self.up(agent)).collect();
        let mut starts = self.all().zip(starts?);
        starts.try_for_each(|(agent, child)| self.is_up(agent, child))
    }

    fn all(&self) -> Range<usize> {
        0..self.pids.len()
    }

    pub(super) fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    pub(super) fn point(&self, agent: usize) -> PathBuf {
        self.dir.path().join(format!("mount{agent}"))
    }

    /// Directory in which the commands of one agent keep its set.
    fn own(&self, agent: usize) -> PathBuf {
        self.dir.path().join(format!("run{agent}"))
    }

    pub(super) fn is_here(&self, agent: usize) -> bool {
        self.pids[agent].is_some()
    }

    fn command(&self, agent: usize, words: &[&str]) -> Command {
        let mut command = Command::new(&self.this);
        command.env("HEARTH_DIR", self.own(agent)).args(words);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn up(&self, agent: usize) -> Result<Child, Failure> {
        let mut command = self.command(agent, &["up", "--page-size", "4KiB", "--chunk", "8KiB"]);
        command.args(["--pool", "16MiB", "--hosts", &self.hosts]);
        command
            .args(["--node", &agent.to_string()])
            .args(self.mode.words());
        command
            .arg("--secret-file")
            .arg(self.dir.path().join("secret"));
        command
            .arg("--store")
            .arg(self.store())
            .arg("--at")
            .arg(self.point(agent));
        if let Some(disk) = &self.disk {
            let place = format!("{}:{TIER}", disk.display());
            command.args(["--tier", &place, "--tier-age", "2s"]);
        }
        command
            .spawn()
            .or_fail(|| format!("cannot start agent {agent}"))
    }

    fn is_up(&mut self, agent: usize, child: Child) -> Result<(), Failure> {
        let what = || format!("cannot start agent {agent}");
        let done = child.wait_with_output().or_fail(what)?;
        if !done.status.success() {
            let words = String::from_utf8_lossy(&done.stderr).trim().to_owned();
            return Err(Failure::new(what()).cause(words));
        }
        let process = self.set(agent)?.peer_of_rank(0).process;
        self.pids[agent] = process.map(|process| process.pid);
        process.map(drop).ok_or_else(|| Failure::new(what()))
    }

    fn set(&self, agent: usize) -> Result<Set, Failure> {
        let mut sets = set::all(&self.own(agent))?;
        sets.pop()
            .ok_or_else(|| Failure::new(format!("agent {agent} has no set")))
    }

    /// The status of an agent. No program is started for it: that would close what this one has open.
    pub(super) fn status(&self, agent: usize) -> Result<Value, Failure> {
        let set = self.set(agent)?;
        call(&set.peer_of_rank(0), &ControlRequest::Status).map_err(CallError::into_failure)
    }

    /// Has something happen.
    pub(super) fn suffer(&mut self, step: Step) -> Result<(), Failure> {
        match step {
            Step::Kill(agent) => self.kill(agent),
            Step::Fill => self.fill(),
            Step::Free => self.free(),
        }
    }

    fn kill(&mut self, agent: usize) -> Result<(), Failure> {
        let what = || format!("cannot kill agent {agent}");
        let pid = self.pids[agent].take();
        let process = pid
            .and_then(Process::of)
            .ok_or_else(|| Failure::new(what()))?;
        process.signal(Signal::KILL).or_fail(what)?;
        if !process.wait_gone(GONE_SPAN).or_fail(what)? {
            return Err(Failure::new(what()));
        }
        crate::bench::rig::run(&mut self.unmount(agent)).map(drop)
    }

    /// Takes away what the mount of an agent that is gone leaves, whoever is in it.
    fn unmount(&self, agent: usize) -> Command {
        let mut unmount = Command::new("umount");
        unmount.arg("-l").arg(self.point(agent));
        unmount
    }

    fn filler(&self) -> Option<PathBuf> {
        self.disk.as_ref().map(|disk| disk.join("filler"))
    }

    fn fill(&self) -> Result<(), Failure> {
        let Some(filler) = self.filler() else {
            return Ok(());
        };
        let mut file = File::create(filler).or_fail(|| "cannot fill the disk".to_owned())?;
        // It ends when the disk is full.
        while file.write_all(&[0; 4096]).is_ok() {}
        Ok(())
    }

    fn free(&self) -> Result<(), Failure> {
        match self.filler().filter(|filler| filler.exists()) {
            Some(filler) => fs::remove_file(filler).or_fail(|| "cannot free the disk".to_owned()),
            None => Ok(()),
        }
    }

    /// Everybody who is here knows who is not, and no file has fewer copies than wanted.
    pub(super) fn is_at_ease(&self) -> Result<bool, Failure> {
        for agent in self.all().filter(|&agent| self.is_here(agent)) {
            let status = self.status(agent)?;
            let node = &status["node"];
            let peers = node["peers"].as_array().into_iter().flatten();
            let knows = |peer: &Value| {
                let number = peer["node"].as_u64().map_or(agent, |node| node as usize);
                number == agent || peer["up"].as_bool() == Some(self.is_here(number))
            };
            let at_risk = node["at_risk"]
                .as_array()
                .is_none_or(|files| !files.is_empty());
            if at_risk || !peers.into_iter().all(knows) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Somebody says that an agent is gone, and what that costs.
    pub(super) fn tells_of(&self, gone: usize) -> Result<bool, Failure> {
        let words = format!("agent {gone} is gone");
        for agent in self.all().filter(|&agent| self.is_here(agent)) {
            let status = self.status(agent)?;
            let alarms = status["node"]["alarms"].as_array().into_iter().flatten();
            let mut alarms = alarms.filter_map(Value::as_str);
            if alarms.any(|alarm| alarm.contains(&words)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ends whoever is here, with what is dirty brought to the store; says why that could not be.
    pub(super) fn end(&mut self) -> Result<(), Failure> {
        for agent in self.all() {
            if self.pids[agent].take().is_some() {
                crate::bench::rig::run(&mut self.command(agent, &["down"]))?;
            }
        }
        Ok(())
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        for agent in self.all() {
            if !self.is_here(agent) {
                continue;
            }
            let ended = self.command(agent, &["down", "--force"]).output();
            if ended.is_err() {
                eprintln!("note: agent {agent} may be left");
            }
        }
        if let Some(disk) = &self.disk
            && let Err(failure) = crate::bench::rig::run(Command::new("umount").arg("-l").arg(disk))
        {
            eprintln!("{failure}");
        }
    }
}

/// A place for each agent that nobody listens at, all on addresses of this process's own.
fn addresses(agents: usize) -> Result<String, Failure> {
    let what = || "cannot find a free port".to_owned();
    let pid = std::process::id();
    let mut places = Vec::new();
    for agent in 0..agents {
        let [_, _, high, low] = pid.to_be_bytes();
        let ip = IpAddr::V4(Ipv4Addr::new(127, high | 128, low, 1 + agent as u8));
        let port = TcpListener::bind((ip, 0)).and_then(|listener| listener.local_addr());
        places.push(port.or_fail(what)?.to_string());
    }
    Ok(places.join(","))
}
