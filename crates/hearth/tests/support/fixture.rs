//! A set of agents with mounts, for tests that drive it from outside with ordinary programs.
//!
//! Everything lies in one directory whose name nothing else has, so anything that still names it after `hearth down` is
//! a leftover. Programs get a limit of time, and a guard kills the agents of a test that takes too long. So a call that
//! hangs in a mount ends with an error instead.

#![allow(dead_code, reason = "every test file uses its own part")]
#![allow(clippy::print_stdout, reason = "the summary counts what is skipped")]

use std::fs::{self, DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::Value;
use tempfile::TempDir;

/// A program that takes longer hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(180);

/// A test that takes longer hangs.
const TEST_SPAN_MAX: Duration = Duration::from_secs(400);

/// Between two looks at a condition.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// A store, a control directory and mount points of its own.
pub(crate) struct Fixture {
    dir: TempDir,
    /// Dropped at the end, which lets the guard go.
    _guard: Sender<()>,
}

impl Fixture {
    /// Nothing is up yet.
    pub(crate) fn new() -> Fixture {
        let dir = TempDir::with_prefix("hearth-test-").expect("a directory");
        for name in ["control", "store"] {
            let mut builder = DirBuilder::new();
            let made = builder.mode(0o700).create(dir.path().join(name));
            made.expect("a directory");
        }
        let (_guard, ended) = channel();
        let path = dir.path().to_owned();
        thread::spawn(move || {
            if ended.recv_timeout(TEST_SPAN_MAX) == Err(RecvTimeoutError::Timeout) {
                println!("took longer than {TEST_SPAN_MAX:?}; its processes are killed");
                kill_all(&path);
            }
        });
        Fixture { dir, _guard }
    }

    /// A place of this test.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A new directory.
    pub(crate) fn dir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).expect("a directory");
        path
    }

    /// The store itself.
    pub(crate) fn store(&self) -> PathBuf {
        self.path("store")
    }

    /// The mount of an agent.
    pub(crate) fn mount(&self, agent: usize) -> PathBuf {
        self.path(&format!("mount{agent}"))
    }

    /// Lets other users reach the places of this test.
    pub(crate) fn let_others_in(&self) {
        for dir in [self.dir.path().to_owned(), self.store()] {
            fs::set_permissions(dir, Permissions::from_mode(0o755)).expect("our own directory");
        }
    }

    /// The command under test, with this test's control directory.
    pub(crate) fn hearth(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(words).env("HEARTH_DIR", self.path("control"));
        // Not the settings of whoever runs the tests.
        command.env("XDG_CONFIG_HOME", self.path("config"));
        command
    }

    /// Runs the command under test.
    pub(crate) fn run(&self, words: &[&str]) -> Output {
        finish(&mut self.hearth(words))
    }

    /// `hearth run` over the store.
    pub(crate) fn run_in_store(&self, words: &[&str]) -> Command {
        let mut command = self.hearth(&["run", "--store"]);
        command.arg(self.store()).arg("--").args(words);
        command
    }

    /// Starts agents, each with a mount.
    pub(crate) fn up(&self, agents: usize, options: &[&str]) -> String {
        let mut command = self.hearth(&["up", "--agents", &agents.to_string()]);
        command.arg("--store").arg(self.store()).args(options);
        for agent in 0..agents {
            let at = self.dir(&format!("mount{agent}"));
            command.arg("--at").arg(at);
        }
        let output = finish(&mut command);
        well(&output);
        text(&output.stderr)
    }

    /// Ends the set; nothing may be lost and nothing may be left.
    pub(crate) fn down(&self) {
        well(&self.run(&["down"]));
        self.assert_clean();
    }

    /// One object for each agent, and the exit code.
    pub(crate) fn status(&self) -> (Vec<Value>, i32) {
        let output = self.run(&["status", "--json"]);
        let lines = text(&output.stdout);
        let agents = lines
            .lines()
            .map(|line| serde_json::from_str(line).expect("one object a line"));
        (
            agents.collect(),
            output.status.code().expect("it is not killed"),
        )
    }

    /// The words of `hearth status` for people, of both streams.
    pub(crate) fn status_words(&self) -> String {
        let output = self.run(&["status"]);
        text(&output.stdout) + &text(&output.stderr)
    }

    /// The set's own description of itself.
    pub(crate) fn set_file(&self) -> Value {
        let jobs = fs::read_dir(self.path("control")).expect("our own directory");
        let mut files = jobs.map(|job| job.expect("an entry").path().join("set.json"));
        let file = files.find(|file| file.exists()).expect("a set is up");
        let bytes = fs::read(file).expect("our own file");
        serde_json::from_slice(&bytes).expect("an object")
    }

    /// The processes of the agents.
    pub(crate) fn agents(&self) -> Vec<u32> {
        let set = self.set_file();
        let agents = set["agents"].as_array().expect("agents are listed");
        let pids = agents.iter().map(|agent| agent["process"]["pid"].as_u64());
        pids.map(|pid| pid.expect("a number") as u32).collect()
    }

    /// The processes, mounts and files that are left of this test's sets, in words.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let mut found = processes(self.dir.path());
        found.extend(mounts(self.dir.path()));
        let entries = fs::read_dir(self.path("control")).expect("our own directory");
        let entries = entries.map(|entry| entry.expect("an entry").path());
        // Locks of stores are files that stay.
        found.extend(
            entries
                .filter(|path| path.is_dir())
                .map(|path| format!("directory {}", path.display())),
        );
        found
    }

    /// Nothing of any set is left: no process, mount, socket or directory.
    pub(crate) fn assert_clean(&self) {
        let begun = Instant::now();
        // A process that was killed needs a moment to be gone.
        while !self.leftovers().is_empty() && begun.elapsed() < LIMIT {
            thread::park_timeout(BETWEEN_LOOKS);
        }
        assert_eq!(self.leftovers(), Vec::<String>::new());
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // Only after a test that failed is there anything.
        if !self.leftovers().is_empty() {
            kill_all(self.dir.path());
        }
    }
}

/// The command under test.
pub(crate) fn program() -> PathBuf {
    let named = std::env::var_os("HEARTH_BIN").map(PathBuf::from);
    named.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_hearth")))
}

/// Whether a test that mounts cannot run here; says why.
pub(crate) fn skipped(test: &str, programs: &[&str]) -> bool {
    let missing = missing(programs);
    if let Some(why) = &missing {
        skip(test, why);
    }
    missing.is_some()
}

/// The library that is loaded into programs: what `HEARTH_PRELOAD` says, or beside the command.
pub(crate) fn library() -> PathBuf {
    let named = std::env::var_os("HEARTH_PRELOAD").map(PathBuf::from);
    named.unwrap_or_else(|| program().with_file_name("libhearth_preload.so"))
}

/// Whether a test that needs the library cannot run here; says so.
pub(crate) fn lacks_library(test: &str) -> bool {
    let lacks = !library().exists();
    if lacks {
        skip(test, "no libhearth_preload.so beside the command");
    }
    lacks
}

/// Says why a test does not run, in the words that the summary counts.
pub(crate) fn skip(test: &str, why: &str) {
    println!("skipped: {test}: {why}");
}

fn missing(programs: &[&str]) -> Option<String> {
    let device = File::options().read(true).write(true).open("/dev/fuse");
    if let Err(error) = device {
        return Some(format!("/dev/fuse cannot be opened: {error}"));
    }
    if !rustix::process::geteuid().is_root() {
        return Some("only root can mount".to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &&&str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    let absent = programs.iter().find(|name| !is_there(name))?;
    Some(format!("{absent} is not installed"))
}

/// Runs a program to its end, which must come within the limit.
pub(crate) fn finish(command: &mut Command) -> Output {
    finish_within(command, LIMIT).0
}

/// Runs a program to its end, and says how long it took.
pub(crate) fn finish_within(command: &mut Command, limit: Duration) -> (Output, Duration) {
    let begun = Instant::now();
    let files = [(); 2].map(|()| tempfile::tempfile().expect("a file"));
    let [stdout, stderr] = files
        .each_ref()
        .map(|file| file.try_clone().expect("a file"));
    // Files, not pipes: what a program leaves running does not keep this one waiting.
    command.stdout(stdout).stderr(stderr);
    let mut child = command.spawn().expect("the program is there");
    let status = wait_within(&mut child, limit);
    let took = begun.elapsed();
    let [stdout, stderr] = files.map(read_from_start);
    let Some(status) = status else {
        let (out, err) = (text(&stdout), text(&stderr));
        panic!("{command:?} took more than {limit:?}\n{out}\n{err}");
    };
    let output = Output {
        status,
        stdout,
        stderr,
    };
    (output, took)
}

fn read_from_start(mut file: File) -> Vec<u8> {
    use std::io::{Read, Seek};
    let mut bytes = Vec::new();
    file.rewind().expect("a file");
    file.read_to_end(&mut bytes).expect("a file");
    bytes
}

/// Waits for a child; kills it if that takes too long.
pub(crate) fn wait_within(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).expect("our own child");
    let limit = Timespec::try_from(limit).expect("a span of this size");
    let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit));
    if ended == Ok(0) {
        let _ = child.kill();
        return None;
    }
    Some(child.wait().expect("our own child"))
}

/// Runs a shell script in a directory; any failure of it fails the test.
pub(crate) fn sh(dir: &Path, script: &str) -> String {
    let output = finish(&mut shell(dir, script));
    well(&output);
    text(&output.stdout)
}

/// A shell script that stops at its first failure.
pub(crate) fn shell(dir: &Path, script: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-euc", script]).current_dir(dir);
    command.stdin(Stdio::null());
    command
}

/// The program did what it was asked.
pub(crate) fn well(output: &Output) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until a condition holds.
pub(crate) fn until(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < limit, "not within {limit:?}: {what}");
        thread::park_timeout(BETWEEN_LOOKS);
    }
}

/// Sends a signal to a process of this test. One that is to stand still does so when this returns.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let to = Pid::from_raw(pid.cast_signed()).expect("a process");
    kill_process(to, signal).expect("our own process");
    if signal == Signal::STOP {
        until("all its threads stand still", LIMIT, || stands_still(pid));
    }
}

fn stands_still(pid: u32) -> bool {
    let state = |thread: fs::DirEntry| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit(')').next()?.trim_start().chars().next()
    };
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    // One that waits in the operating system stops when it is let go.
    threads
        .flatten()
        .filter_map(state)
        .all(|state| "TtDZX".contains(state))
}

/// The same command, told of an interrupt that is sent to it alone. A shell that runs the tests in the background may
/// have that ignored. In the foreground it would seem to come from the keyboard.
pub(crate) fn that_hears_interrupts(command: &Command) -> Command {
    let mut hearing = Command::new("env");
    hearing.arg("--default-signal=INT");
    hearing.arg(command.get_program()).args(command.get_args());
    let set = command
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    hearing.envs(set).process_group(0);
    hearing
}

/// Kills agents with their wardens, as when their hosts die, and waits until they are gone.
pub(crate) fn kill(pids: &[u32]) {
    for pid in pids.iter().flat_map(|pid| wardens(*pid)) {
        signal(pid, Signal::KILL);
    }
    kill_alone(pids);
}

/// Processes that would start others in the place of an agent: its children, or its parent.
fn wardens(agent: u32) -> Vec<u32> {
    let is_warden = |pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.trim_end() == "hearth-warden"
            && (parent(*pid) == Some(agent) || parent(agent) == Some(*pid))
    };
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    all.filter(is_warden).collect()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Kills processes and waits until they are gone.
pub(crate) fn kill_alone(pids: &[u32]) {
    for pid in pids {
        signal(*pid, Signal::KILL);
    }
    until("killed processes are gone", LIMIT, || {
        pids.iter().all(is_gone)
    });
}

/// Whether a process is over, be it that nobody has asked how it ended.
pub(crate) fn is_gone(pid: &u32) -> bool {
    // The first thread of a process is over before the others let go of its sockets.
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    threads == 0 || threads == 1 && is_zombie(*pid)
}

fn is_zombie(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

/// Living processes, but this one, that name a directory.
fn processes(dir: &Path) -> Vec<String> {
    let found = pids_that_name(dir).into_iter().map(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        format!("process {pid}: {}", text(&line).replace('\0', " "))
    });
    found.collect()
}

fn pids_that_name(dir: &Path) -> Vec<u32> {
    let dir = dir.to_str().expect("we named it");
    let entries = fs::read_dir("/proc").expect("/proc is there").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let names_it = |pid: &u32| {
        ["cmdline", "environ"].iter().any(|file| {
            let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            text(&bytes).contains(dir)
        })
    };
    pids.filter(|pid| *pid != std::process::id() && !is_zombie(*pid))
        .filter(names_it)
        .collect()
}

/// Mounts under a directory, in any process's namespace.
fn mounts(dir: &Path) -> Vec<String> {
    let dir = dir.to_str().expect("we named it");
    let entries = fs::read_dir("/proc").expect("/proc is there").flatten();
    let tables =
        entries.filter_map(|entry| fs::read_to_string(entry.path().join("mountinfo")).ok());
    let mut found: Vec<String> = tables
        .flat_map(|table| {
            table
                .lines()
                .filter(|line| line.contains(dir))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Ends the processes that still name a directory, and takes its mounts away.
fn kill_all(dir: &Path) {
    for pid in pids_that_name(dir) {
        if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    for at in points.filter(|at| Path::new(at).starts_with(dir)) {
        let _ = Command::new("umount").args(["-l", at]).status();
    }
}
