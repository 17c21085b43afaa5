//! `hearth-lab many`: many files, listed, looked at and opened through all agents of a set at once. It says how long the
//! longest call of a program took, and how much memory each agent has after it.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

/// Options of `hearth-lab many`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Files, all empty
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    files: u64,
    /// Files in each directory
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(1..))]
    each: u64,
    /// Agents, each with a program of its own
    #[arg(long, value_name = "N", default_value_t = 3)]
    agents: usize,
    /// The binary to test [default: the one beside this]
    #[arg(long, value_name = "PATH")]
    hearth: Option<PathBuf>,
    /// Directory of the store and the mounts, with room for the files' inodes [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Remove the files through the first agent at the end, and measure its memory when it has given some back
    #[arg(long)]
    remove: bool,
    /// Fail if a call takes longer than so many milliseconds
    #[arg(long, value_name = "MS")]
    longest: Option<f64>,
    /// One object for each phase on stdout
    #[arg(long)]
    json: bool,
    /// Options of `hearth up`
    #[arg(last = true)]
    extra: Vec<String>,
}

/// An agent gives back what is free at most so often.
const GIVES_BACK: Duration = Duration::from_secs(11);

/// A phase, of all programs together.
#[derive(Serialize)]
struct Row {
    phase: &'static str,
    calls: u64,
    wrong: u64,
    seconds: f64,
    longest_ms: f64,
    /// Memory of each agent beside its pool.
    memory_mib: Vec<u64>,
    /// The longest step of each agent so far.
    longest_step_ms: Vec<f64>,
    /// The facts that began them.
    longest_step: Vec<String>,
}

/// The longest step of an agent, in milliseconds, and the fact that began it.
type Step = (f64, String);

/// Whether SIGINT or SIGTERM has come: programs make no more calls then, and the set is taken down.
#[derive(Clone, Default)]
struct Interrupted(Arc<AtomicBool>);

impl Interrupted {
    /// From now on these signals end nothing by themselves.
    fn catch() -> io::Result<Interrupted> {
        let interrupted = Interrupted::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted.0))?;
        }
        Ok(interrupted)
    }

    fn has_come(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn check(&self) -> io::Result<()> {
        match self.has_come() {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => Ok(()),
        }
    }
}

/// Counts of one program.
#[derive(Clone, Default)]
struct Tally {
    interrupted: Interrupted,
    calls: u64,
    wrong: u64,
    longest: Duration,
}

impl Tally {
    /// Times a call, which has a result if all is right.
    fn call<T>(&mut self, call: impl FnOnce() -> io::Result<T>) -> Option<T> {
        if self.interrupted.has_come() {
            return None;
        }
        let begun = Instant::now();
        let done = call();
        self.longest = self.longest.max(begun.elapsed());
        self.calls += 1;
        self.wrong += u64::from(done.is_err());
        done.ok()
    }

    fn and(self, other: Tally) -> Tally {
        Tally {
            interrupted: self.interrupted,
            calls: self.calls + other.calls,
            wrong: self.wrong + other.wrong,
            longest: self.longest.max(other.longest),
        }
    }
}

/// The work of a program below a mount.
type Phase = fn(&Args, &Path, Tally) -> Tally;

/// Runs the phases; fails if a call failed or took too long.
pub(crate) fn run(args: &Args) -> io::Result<ExitCode> {
    let set = Set::start(args)?;
    let mut good = true;
    let phases: [(&'static str, Phase); 4] = [
        ("list", list),
        ("stat", stat),
        ("stat again", stat),
        ("open, read, close", open),
    ];
    for (name, phase) in phases {
        good &= set.phase(args, name, phase, set.mounts.len())?;
    }
    if args.remove {
        good &= set.phase(args, "remove", remove, 1)?;
        pause(GIVES_BACK);
        good &= set.phase(args, "at rest", |_, _, tally| tally, 1)?;
    }
    set.down()?;
    Ok(ExitCode::from(u8::from(!good)))
}

fn list(args: &Args, mount: &Path, mut tally: Tally) -> Tally {
    let mut seen = 0;
    for dir in 0..dirs(args) {
        let Some(mut names) = tally.call(|| fs::read_dir(mount.join(format!("d{dir}")))) else {
            continue;
        };
        while let Some(Some(_)) = tally.call(|| names.next().transpose()) {
            seen += 1;
        }
    }
    tally.wrong += u64::from(seen != args.files);
    tally
}

fn stat(args: &Args, mount: &Path, mut tally: Tally) -> Tally {
    for file in 0..args.files {
        let at = mount.join(place(args, file));
        let told = tally.call(|| fs::symlink_metadata(&at));
        tally.wrong += u64::from(told.is_some_and(|told| told.len() != 0 || !told.is_file()));
    }
    tally
}

fn open(args: &Args, mount: &Path, mut tally: Tally) -> Tally {
    for file in 0..args.files {
        let at = mount.join(place(args, file));
        if let Some(mut file) = tally.call(|| File::open(&at)) {
            let got = tally.call(|| file.read(&mut [0; 1]));
            tally.wrong += u64::from(got != Some(0));
            tally.call(|| {
                drop(file);
                Ok(())
            });
        }
    }
    tally
}

fn remove(args: &Args, mount: &Path, mut tally: Tally) -> Tally {
    for file in 0..args.files {
        tally.call(|| fs::remove_file(mount.join(place(args, file))));
    }
    tally
}

fn dirs(args: &Args) -> u64 {
    args.files.div_ceil(args.each)
}

fn place(args: &Args, file: u64) -> String {
    format!("d{}/f{:06}", file / args.each, file % args.each)
}

/// A set of agents over files that were made for it.
struct Set {
    dir: tempfile::TempDir,
    hearth: PathBuf,
    mounts: Vec<PathBuf>,
    interrupted: Interrupted,
}

impl Set {
    fn start(args: &Args) -> io::Result<Set> {
        let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
        let dir = tempfile::Builder::new()
            .prefix("hearth-many-")
            .tempdir_in(parent)?;
        let beside = || Ok::<_, io::Error>(std::env::current_exe()?.with_file_name("hearth"));
        let hearth = args.hearth.clone().map_or_else(beside, Ok)?;
        let store = dir.path().join("store");
        let interrupted = Interrupted::catch()?;
        for number in 0..dirs(args) {
            fs::create_dir_all(store.join(format!("d{number}")))?;
        }
        for file in 0..args.files {
            interrupted.check()?;
            File::create(store.join(place(args, file)))?;
        }
        let mounts = (0..args.agents).map(|agent| dir.path().join(format!("m{agent}")));
        let set = Set {
            mounts: mounts.collect(),
            hearth,
            dir,
            interrupted,
        };
        let mut up = set.command("up");
        up.arg("--store").arg(&store);
        up.arg("--agents").arg(args.agents.to_string());
        for mount in &set.mounts {
            fs::create_dir(mount)?;
            up.arg("--at").arg(mount);
        }
        set.done(up.args(&args.extra))?;
        Ok(set)
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.hearth);
        command.arg(name).env("HEARTH_DIR", self.control());
        command
    }

    /// The command makes it.
    fn control(&self) -> PathBuf {
        self.dir.path().join("control")
    }

    fn done(&self, command: &mut Command) -> io::Result<String> {
        let output = command.output()?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(io::Error::other(format!("{command:?} failed: {words}")))
    }

    /// Has so many programs do something at once, each below a mount of its own; true if all went well.
    fn phase(
        &self,
        args: &Args,
        name: &'static str,
        phase: Phase,
        programs: usize,
    ) -> io::Result<bool> {
        let begun = Instant::now();
        let tally = thread::scope(|scope| {
            let mounts = self.mounts.iter().take(programs);
            let programs: Vec<_> = mounts
                .map(|mount| scope.spawn(move || phase(args, mount, self.tally())))
                .collect();
            let ended = programs.into_iter().map(|one| one.join());
            let each = ended.map(|one| one.expect("a program does not panic"));
            each.fold(self.tally(), Tally::and)
        });
        self.interrupted.check()?;
        let seconds = begun.elapsed().as_secs_f64();
        let (memory_mib, steps) = self.agents()?;
        let (longest_step_ms, longest_step) = steps.into_iter().unzip();
        let row = Row {
            phase: name,
            calls: tally.calls,
            wrong: tally.wrong,
            seconds,
            longest_ms: tally.longest.as_secs_f64() * 1e3,
            memory_mib,
            longest_step_ms,
            longest_step,
        };
        tell(args, &row)?;
        let slow = args.longest.is_some_and(|most| row.longest_ms > most);
        Ok(row.wrong == 0 && !slow)
    }

    fn tally(&self) -> Tally {
        Tally {
            interrupted: self.interrupted.clone(),
            ..Tally::default()
        }
    }

    /// Memory of each agent, and its longest step.
    fn agents(&self) -> io::Result<(Vec<u64>, Vec<Step>)> {
        let output = self.command("status").arg("--json").output()?;
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let rows = told
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let rows: Vec<serde_json::Value> = rows.collect();
        let nodes = || rows.iter().map(|row| &row["node"]);
        let numbers = |key: &'static str| nodes().filter_map(move |node| node[key].as_u64());
        let memory = numbers("pid").map(memory_mib).collect::<io::Result<_>>()?;
        let kinds = nodes().filter_map(|node| Some(node["longest_step"].as_str()?.to_owned()));
        let steps = numbers("longest_step_us").map(|us| us as f64 / 1e3);
        Ok((memory, steps.zip(kinds).collect()))
    }

    fn down(self) -> io::Result<()> {
        self.done(&mut self.command("down")).map(drop)
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        // It is down already, unless something has failed.
        let _ = self
            .command("down")
            .arg("--discard")
            .arg("--force")
            .output();
    }
}

/// Memory of a process that is no file's and not shared: the pool is.
fn memory_mib(pid: u64) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    let kib = kib.ok_or_else(|| io::Error::other("the system does not tell its memory"))?;
    Ok(kib >> 10)
}

fn tell(args: &Args, row: &Row) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if args.json {
        return writeln!(out, "{}", serde_json::to_string(row)?);
    }
    writeln!(
        out,
        "{:18} {:>9} calls {:>3} wrong {:>8.1} s, longest {:>7.1} ms, memory {:?} MiB, longest step {:.1?} ms {:?}",
        row.phase,
        row.calls,
        row.wrong,
        row.seconds,
        row.longest_ms,
        row.memory_mib,
        row.longest_step_ms,
        row.longest_step
    )
}

#[expect(
    clippy::disallowed_methods,
    reason = "nothing tells when an agent has given memory back"
)]
fn pause(span: Duration) {
    thread::sleep(span);
}
