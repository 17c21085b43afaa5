//! Starting memcached, for this user alone.

use crate::address::Address;
use crate::stats::{self, Stats};
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a daemon may take until it answers.
const START_SPAN: Duration = Duration::from_secs(5);

/// How often a start looks whether it has.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// memcached's own limit, unless told otherwise.
const ITEM_BYTES_DEFAULT: usize = 1 << 20;

/// Its limit must be a multiple of this.
const ITEM_STEP_BYTES: usize = 512 << 10;

/// The place at which a daemon is to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seat {
    /// At a socket that only this user can connect to.
    Unix(PathBuf),
    /// At a port that the system gives.
    AnyPort(IpAddr),
    /// At this port.
    Port(SocketAddr),
}

/// The plan of a daemon that is to be started.
#[derive(Clone, Debug)]
pub struct DaemonPlan {
    /// The place at which it listens.
    pub seat: Seat,
    /// Bytes that it may use for entries; whole MiB.
    pub memory_bytes: u64,
    /// Bytes of the largest item.
    pub item_bytes: usize,
    /// A directory of its own user for what it leaves while it starts.
    pub dir: PathBuf,
    /// It ends with the process that starts it.
    pub end: End,
}

/// When a daemon ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// When it is told to.
    Told,
    /// Also when the process that started it ends.
    WithStarter,
}

/// A daemon that answers.
#[derive(Debug)]
pub struct StartedDaemon {
    /// Its process.
    pub child: Child,
    /// The address at which it listens.
    pub addr: Address,
    /// Its version.
    pub version: String,
}

/// Why there is no daemon.
#[derive(Debug, thiserror::Error)]
pub enum NoDaemon {
    /// The program cannot be run.
    #[error("cannot run `{program}`")]
    Run {
        /// Which.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It ended.
    #[error("memcached ended before it answered: {0}")]
    Ended(String),
    /// It does not answer.
    #[error("memcached did not answer within {} s", START_SPAN.as_secs())]
    Silent,
}

/// Starts a daemon and waits until it answers.
pub fn start(plan: &DaemonPlan) -> Result<StartedDaemon, NoDaemon> {
    let told_at = plan.dir.join(format!("bank-port-{}", std::process::id()));
    // A file that an earlier start left would be taken for this one's.
    let _ = std::fs::remove_file(&told_at);
    let mut command = command(plan);
    command
        .env("MEMCACHED_PORT_FILENAME", &told_at)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|source| NoDaemon::Run {
        program: command.get_program().to_string_lossy().into_owned(),
        source,
    })?;
    let answered = await_answer(plan, &mut child, &told_at);
    let _ = std::fs::remove_file(&told_at);
    match answered {
        Ok((addr, stats)) => Ok(StartedDaemon {
            child,
            addr,
            version: stats.version,
        }),
        Err(error) => {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
            Err(error)
        }
    }
}

fn command(plan: &DaemonPlan) -> Command {
    let mut words: Vec<OsString> = Vec::new();
    let mut say = |all: &[&str]| words.extend(all.iter().map(OsString::from));
    if plan.end == End::WithStarter {
        say(&["setpriv", "--pdeathsig", "TERM", "--"]);
    }
    let mebibytes = (plan.memory_bytes >> 20).max(1).to_string();
    say(&["memcached", "-m", &mebibytes, "-t", "2", "-U", "0"]);
    say(&["-I", &item_limit(plan).to_string()]);
    if rustix::process::geteuid().is_root() {
        // It refuses to guess.
        say(&["-u", "root"]);
    }
    match &plan.seat {
        Seat::Unix(path) => {
            say(&["-a", "0700", "-s"]);
            words.push(path.into());
        }
        Seat::AnyPort(ip) => say(&["-p", "-1", "-l", &ip.to_string()]),
        Seat::Port(addr) => {
            let (port, ip) = (addr.port().to_string(), addr.ip().to_string());
            say(&["-p", &port, "-l", &ip]);
        }
    }
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir("/");
    command
}

/// The limit that the daemon is given: its own, or more if items need it, or half of a small memory.
fn item_limit(plan: &DaemonPlan) -> usize {
    let most = (plan.memory_bytes / 2) as usize;
    let usual = ITEM_BYTES_DEFAULT.min(most.max(ITEM_STEP_BYTES));
    plan.item_bytes.next_multiple_of(ITEM_STEP_BYTES).max(usual)
}

fn await_answer(
    plan: &DaemonPlan,
    child: &mut Child,
    told_at: &Path,
) -> Result<(Address, Stats), NoDaemon> {
    let end = Instant::now() + START_SPAN;
    loop {
        if let Some(addr) = address(&plan.seat, told_at)
            && let Ok(stats) = stats::ask(&addr, START_SPAN)
            && is_of(&stats, child)
        {
            return Ok((addr, stats));
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(NoDaemon::Ended(last_words(child, &status.to_string())));
        }
        if Instant::now() > end {
            return Err(NoDaemon::Silent);
        }
        pause();
    }
}

/// Another daemon may listen there already.
fn is_of(stats: &Stats, child: &Child) -> bool {
    stats.pid == child.id()
}

fn address(seat: &Seat, told_at: &Path) -> Option<Address> {
    match seat {
        Seat::Unix(path) => Some(Address::Unix(path.clone())),
        Seat::Port(addr) => Some(Address::Tcp(*addr)),
        Seat::AnyPort(ip) => {
            let told = std::fs::read_to_string(told_at).ok()?;
            let port = told
                .lines()
                .find_map(|line| line.strip_prefix("TCP INET: "))?;
            Some(Address::Tcp(SocketAddr::new(
                *ip,
                port.trim().parse().ok()?,
            )))
        }
    }
}

fn last_words(child: &mut Child, status: &str) -> String {
    let mut words = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        // Without them the status is all there is to tell.
        let _ = io::Read::read_to_string(&mut stderr, &mut words);
    }
    let line = words.lines().rfind(|line| !line.trim().is_empty());
    line.unwrap_or(status).to_owned()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a daemon tells nobody when it listens"
)]
fn pause() {
    std::thread::sleep(LOOK_AGAIN);
}
