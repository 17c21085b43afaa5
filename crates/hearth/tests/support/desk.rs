//! A place to type commands at: a control directory, stores, and the agents that were started.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here fails the test, and a skipped test says so"
)]

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use tempfile::TempDir;

/// A control directory and room for stores; what is still up when it is dropped is ended.
pub(crate) struct Desk {
    dir: TempDir,
}

/// The process of an agent.
pub(crate) struct Agent {
    pid: u32,
    fd: OwnedFd,
}

/// The command under test.
pub(crate) fn program() -> PathBuf {
    let named = std::env::var_os("HEARTH_BIN").map(PathBuf::from);
    named.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_hearth")))
}

impl Desk {
    pub(crate) fn new() -> Desk {
        let dir = tempfile::tempdir().unwrap();
        for name in ["control", "store", "store2"] {
            DirBuilder::new()
                .mode(0o700)
                .create(dir.path().join(name))
                .unwrap();
        }
        Desk { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.path("control")
    }

    pub(crate) fn store(&self) -> String {
        self.path("store").to_str().unwrap().to_owned()
    }

    pub(crate) fn another_store(&self) -> String {
        self.path("store2").to_str().unwrap().to_owned()
    }

    /// A new directory.
    pub(crate) fn dir(&self, name: &str) -> String {
        let path = self.path(name);
        fs::create_dir(&path).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A new directory that other users may reach.
    pub(crate) fn open_dir(&self, name: &str) -> String {
        fs::set_permissions(self.dir.path(), Permissions::from_mode(0o711)).unwrap();
        let path = self.dir(name);
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    pub(crate) fn command(&self, args: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(program());
        command.args(args).env("HEARTH_DIR", self.control());
        // Not the settings of whoever runs the tests.
        command.env("XDG_CONFIG_HOME", self.path("config"));
        for name in [
            "OMPI_COMM_WORLD_LOCAL_RANK",
            "MPI_LOCALRANKID",
            "SLURM_LOCALID",
            "PMI_RANK",
        ] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[impl AsRef<OsStr>]) -> Output {
        self.command(args).output().unwrap()
    }

    pub(crate) fn run_in(&self, dir: &str, args: &[&str]) -> Output {
        self.command(args).current_dir(dir).output().unwrap()
    }

    /// Starts a command with pipes in front and behind.
    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Directories of jobs.
    pub(crate) fn jobs(&self) -> Vec<String> {
        let entries = fs::read_dir(self.control()).unwrap().map(Result::unwrap);
        let dirs = entries.filter(|entry| entry.file_type().unwrap().is_dir());
        dirs.map(|entry| entry.file_name().into_string().unwrap())
            .collect()
    }

    /// Every agent of every job.
    pub(crate) fn agents(&self) -> Vec<Agent> {
        let sets = self
            .jobs()
            .into_iter()
            .map(|job| self.control().join(job).join("set.json"));
        sets.flat_map(|set| agents(&set)).collect()
    }

    /// Whether a test can mount; says so if it cannot.
    pub(crate) fn can_mount(&self, test: &str) -> bool {
        match File::options().read(true).write(true).open("/dev/fuse") {
            Ok(_) => true,
            Err(error) => {
                println!("skipped: {test}: /dev/fuse cannot be opened: {error}");
                false
            }
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // Only after a test that failed is there anything.
        if !self.jobs().is_empty() {
            let _ = self.run(&["down", "--all", "--discard", "--force"]);
        }
    }
}

fn agents(set: &Path) -> Vec<Agent> {
    let set: serde_json::Value = serde_json::from_slice(&fs::read(set).unwrap()).unwrap();
    let agents = set["agents"].as_array().unwrap().iter();
    let pids = agents.map(|agent| agent["process"]["pid"].as_u64().unwrap());
    pids.filter_map(|pid| Agent::of(pid.try_into().unwrap()))
        .collect()
}

impl Agent {
    fn of(pid: u32) -> Option<Agent> {
        let fd = pidfd_open(pid_of(pid), PidfdFlags::empty()).ok()?;
        Some(Agent { pid, fd })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn signal(&self, signal: Signal) {
        pidfd_send_signal(&self.fd, signal).unwrap();
    }

    /// Waits until its process has ended.
    pub(crate) fn wait(&self) {
        poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], None).unwrap();
    }

    pub(crate) fn is_gone(&self) -> bool {
        let now = rustix::event::Timespec::default();
        let ready = poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&now));
        ready.unwrap() == 1
    }
}

/// Sends a signal to a child that has not been waited for.
pub(crate) fn signal(pid: u32, signal: Signal) {
    kill_process(pid_of(pid), signal).unwrap();
}

fn pid_of(pid: u32) -> Pid {
    Pid::from_raw(pid.cast_signed()).unwrap()
}

/// Whether programs are installed.
pub(crate) fn has_programs(names: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names
        .iter()
        .all(|name| dirs.iter().any(|dir| dir.join(name).is_file()))
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().expect("the command is not killed")
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
