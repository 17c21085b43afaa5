//! Starts the agents of a set on this machine: all of them, or none.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hearth_agent::net::{Endpoint, NoTransport, Secret};
use hearth_client::words::counted;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::agent::{AgentConfig, NodeConfig, StartWord, Started};
use crate::bank::{BankSite, Daemonry};
use crate::failure::{Failure, OrFail};
use crate::job::{self, AgentEntry, JobDir, SetFile, SetOwner};
use crate::leftovers;
use crate::memory::{BoundBy, MemoryBound};
use crate::options::SetSpec;
use crate::overlap;
use crate::process::{Process, timespec};
use crate::replicas::shortage;
use crate::secret;
use crate::set::Set;
use crate::signals::Signals;
use crate::size::Size;
use crate::watch::pause;

/// How long agents on one machine may take to find each other.
const JOIN_SPAN_LOCAL: Duration = Duration::from_secs(20);

/// How long agents on several hosts may: launchers start them one after another.
const JOIN_SPAN_HOSTS: Duration = Duration::from_secs(60);

/// An agent that exceeds its own limit by more than this counts as stuck.
const START_SLACK: Duration = Duration::from_secs(10);

/// A set to be.
#[derive(Clone, Debug)]
pub struct LaunchPlan {
    /// The file of the command whose processes its agents are.
    pub program: PathBuf,
    /// The store's true path.
    pub store: PathBuf,
    /// How it is to be.
    pub spec: SetSpec,
    /// Its owner.
    pub owner: SetOwner,
    /// Its members.
    pub members: Members,
    /// Directory of rings that its agents record in, if they are to.
    pub trace: Option<PathBuf>,
    /// The address at which its first agent here tells metrics, if they are to. Ports of the others count up from it.
    pub metrics: Option<SocketAddr>,
}

/// The members of a set.
#[derive(Clone, Debug)]
pub enum Members {
    /// Agents on this machine only.
    Here,
    /// One agent on each host of a list; this machine's is started here.
    Hosts {
        /// The addresses at which they listen.
        members: Vec<SocketAddr>,
        /// Which of them is this machine's.
        node: u32,
        /// The secret that they prove to know.
        secret: Secret,
        /// The file that it is from.
        secret_file: PathBuf,
    },
}

/// Agents of which some may not be ready yet. Dropping it ends them and removes their directory.
struct Launch {
    program: PathBuf,
    dir: JobDir,
    trace: Option<PathBuf>,
    bank: Daemonry,
    agents: Vec<Starting>,
}

struct Starting {
    node: u32,
    child: Child,
    report: ChildStdout,
    /// The line that it has begun.
    said: Vec<u8>,
    /// The process that starts another one when it dies.
    warden: Option<Process>,
    is_ready: bool,
}

/// A set that is up, and its processes, which are children of this one.
#[derive(Debug)]
pub struct Launched {
    /// The set.
    pub set: Set,
    children: Vec<Child>,
}

impl Launched {
    /// Takes in the exit codes of agents that have ended, after the set was taken down.
    pub fn reap(mut self) {
        for child in &mut self.children {
            if let Err(error) = child.try_wait() {
                log::debug!("cannot reap an agent: {error}");
            }
        }
    }
}

impl Members {
    /// How many agents are on this machine.
    pub fn here(&self, spec: &SetSpec) -> u32 {
        match self {
            Members::Here => spec.agents,
            Members::Hosts { .. } => 1,
        }
    }

    /// Whether agents see the store as several hosts have it.
    pub fn is_several(&self) -> bool {
        match self {
            Members::Here => false,
            Members::Hosts { members, .. } => members.len() > 1,
        }
    }
}

impl LaunchPlan {
    /// The job of a list of hosts, and this host's place in it.
    pub fn seat(&self) -> Result<Option<(String, u32)>, Failure> {
        let plan = self.settled()?;
        Ok(match &plan.members {
            Members::Here => None,
            Members::Hosts { members, node, .. } => Some((job_of(members, &plan.spec), *node)),
        })
    }

    fn settled(&self) -> Result<LaunchPlan, Failure> {
        let agents = match &self.members {
            Members::Here => self.spec.agents as usize,
            Members::Hosts { members, .. } => members.len(),
        };
        let plan = self.clone();
        let spec = plan.spec.settled(agents)?;
        Ok(LaunchPlan { spec, ..plan })
    }
}

/// Starts a set. The lock of its store is held by the caller.
pub fn start(base: &Path, plan: &LaunchPlan, signals: &Signals) -> Result<Launched, Failure> {
    let plan = &plan.settled()?;
    check_doors(plan)?;
    check_memory(plan)?;
    check_metrics(plan)?;
    let seats = Seats::take(plan)?;
    if let Some(shortage) = shortage(plan.spec.replicas, seats.members.len()) {
        hearth_client::say!("warning: {shortage}");
    }
    let (job, dir) = name(plan, &seats)?;
    // Nobody else looks until the agents can be seen, and the directory says whose it is.
    let looking = job::lock_starts(base, |span| pause(span, signals))?;
    overlap::check(plan, &job)?;
    leftovers::clear_nameless(base)?;
    let mut launch = Launch {
        program: plan.program.clone(),
        dir: JobDir::create(base, &dir)?,
        trace: plan.trace.clone(),
        bank: Daemonry::default(),
        agents: Vec::new(),
    };
    launch.dir.write_secret(&seats.secret)?;
    let members = seats.members;
    launch.start_bank(plan)?;
    for (index, (node, listener)) in (0..).zip(seats.listeners) {
        let mut config = config(plan, &job, &members, node, &launch);
        config.metrics = plan.metrics.and_then(|first| metrics_of(first, index));
        launch.spawn(node, listener, &config)?;
    }
    let file = launch.describe(plan, job, members)?;
    launch.dir.write_set(&file)?;
    drop(looking);
    launch.await_all(signals, join_span(plan) + START_SLACK)?;
    launch.finish()
}

/// Memory is taken when it is used: a pool that can never be had would end in the middle of a job.
fn check_memory(plan: &LaunchPlan) -> Result<(), Failure> {
    let agents = u64::from(plan.members.here(&plan.spec));
    let bound = MemoryBound::here();
    let pools = plan.spec.pool.0.saturating_mul(agents);
    if pools <= bound.bytes {
        return Ok(());
    }
    let pools = counted(agents, "pool");
    let (pool, memory) = (plan.spec.pool, Size(bound.bytes));
    let whose = match bound.by {
        BoundBy::Host => "this host has",
        BoundBy::Group => "the control group of this command may have",
    };
    Err(Failure::new(format!(
        "cannot make {pools} of {pool} each: {whose} {memory} of memory"
    ))
    .hint("a smaller --pool: it is what each agent of this host takes"))
}

/// Each agent of this host has a port of its own.
fn check_metrics(plan: &LaunchPlan) -> Result<(), Failure> {
    let agents = plan.members.here(&plan.spec);
    match plan.metrics {
        Some(first) if metrics_of(first, agents - 1).is_none() => {
            let agents = counted(agents, "agent");
            let what = format!(
                "cannot serve metrics of {agents} at ports from {} on",
                first.port()
            );
            Err(Failure::new(what).hint("--metrics 9700, or another lower port"))
        }
        _ => Ok(()),
    }
}

/// The address of metrics of an agent, counted on its host; port 0 is any for each. Nothing if there is no such port.
fn metrics_of(first: SocketAddr, index: u32) -> Option<SocketAddr> {
    let port = match first.port() {
        0 => 0,
        port => u16::try_from(u32::from(port) + index).ok()?,
    };
    Some(SocketAddr::new(first.ip(), port))
}

/// Gateways of other hosts cannot be reached at sockets of this one.
fn check_doors(plan: &LaunchPlan) -> Result<(), Failure> {
    let (Some(at), Members::Hosts { members, .. }) = (&plan.spec.store_at, &plan.members) else {
        return Ok(());
    };
    if let Some(node) = at
        .agents
        .iter()
        .find(|node| **node as usize >= members.len())
    {
        return Err(Failure::new(format!(
            "agent {node}, which is to have the store, is not in the list of {}",
            counted(members.len(), "host")
        )));
    }
    if at.port.is_none() {
        let what = "cannot reach the store of other hosts: no port is said";
        return Err(Failure::new(what).hint(format!("--store-at {at}:7100")));
    }
    Ok(())
}

/// Places that the agents of this machine listen at.
struct Seats {
    members: Vec<SocketAddr>,
    listeners: Vec<(u32, Endpoint)>,
    secret: Secret,
}

impl Seats {
    fn take(plan: &LaunchPlan) -> Result<Seats, Failure> {
        match &plan.members {
            Members::Here => Seats::take_here(&plan.spec),
            Members::Hosts {
                members,
                node,
                secret,
                secret_file: _,
            } => {
                let addr = members[*node as usize];
                Ok(Seats {
                    members: members.clone(),
                    listeners: vec![(*node, listen(&plan.spec, addr)?)],
                    secret: secret.clone(),
                })
            }
        }
    }

    fn take_here(spec: &SetSpec) -> Result<Seats, Failure> {
        let mut listeners = Vec::new();
        let mut members = Vec::new();
        for node in 0..spec.agents {
            let listener = listen(spec, SocketAddr::from(([127, 0, 0, 1], 0)))?;
            let addr = listener.local_addr();
            members.push(addr.or_fail(|| "cannot learn a port's number".to_owned())?);
            listeners.push((node, listener));
        }
        Ok(Seats {
            members,
            listeners,
            secret: secret::make()?,
        })
    }
}

/// Listens for other members.
pub fn listen(spec: &SetSpec, addr: SocketAddr) -> Result<Endpoint, Failure> {
    Endpoint::bind(spec.transport.of_nodes()?, addr).map_err(|error| match error {
        NoTransport::Listen { addr, hint, source } => {
            Failure::new(format!("cannot listen on {addr}"))
                .because(source)
                .hint(hint.to_string())
        }
        other => Failure::new(format!("cannot listen on {addr}")).because(other),
    })
}

/// The name of the job of several hosts: the same on all of them, as members of another job are refused. So are those with
/// other settings.
fn job_of(members: &[SocketAddr], spec: &SetSpec) -> String {
    let members = format!("{members:?}{}", spec.common());
    format!("hosts-{:08x}", job::hash(members.as_bytes()) as u32)
}

/// Name of the job, and of its directory here.
fn name(plan: &LaunchPlan, seats: &Seats) -> Result<(String, String), Failure> {
    let store = plan.store.file_name().unwrap_or_default().to_string_lossy();
    let store: String = store
        .chars()
        .filter(|letter| letter.is_ascii_alphanumeric())
        .take(12)
        .collect();
    let store = if store.is_empty() {
        "store"
    } else {
        store.as_str()
    };
    match &plan.members {
        Members::Here => {
            let random = secret::make()?;
            // Killed commands leave their names taken.
            let [a, b, c, d, ..] = random.bytes();
            let job = format!("{store}-{a:02x}{b:02x}{c:02x}{d:02x}");
            Ok((job.clone(), job))
        }
        Members::Hosts { node, .. } => {
            let job = job_of(&seats.members, &plan.spec);
            let dir = format!("{job}.{node}");
            Ok((job, dir))
        }
    }
}

fn join_span(plan: &LaunchPlan) -> Duration {
    match plan.members {
        Members::Here => JOIN_SPAN_LOCAL,
        Members::Hosts { .. } => JOIN_SPAN_HOSTS,
    }
}

fn config(
    plan: &LaunchPlan,
    job: &str,
    members: &[SocketAddr],
    node: u32,
    launch: &Launch,
) -> AgentConfig {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    AgentConfig {
        node: NodeConfig {
            node,
            // Below 2^31, as the library wants it; two lives of an agent are not one second apart.
            incarnation: now.as_secs() & 0x7fff_ffff,
            succeeds: None,
            members: members.to_vec(),
            job: job.to_owned(),
            store: plan.store.clone(),
            spec: plan.spec.clone(),
            job_dir: launch.dir.path().to_owned(),
            bank: launch
                .bank
                .entries
                .iter()
                .map(|entry| entry.at.clone())
                .collect(),
            secret_file: match &plan.members {
                Members::Here => None,
                Members::Hosts { secret_file, .. } => Some(secret_file.clone()),
            },
            join_span: join_span(plan),
        },
        owner: plan.owner,
        metrics: None,
    }
}

impl Launch {
    fn start_bank(&mut self, plan: &LaunchPlan) -> Result<(), Failure> {
        let Some(spec) = &plan.spec.bank else {
            return Ok(());
        };
        self.bank = Daemonry::start(&BankSite {
            spec,
            page_bytes: plan.spec.page_size.0,
            owner: plan.owner,
            dir: self.dir.path(),
            hosts: match &plan.members {
                Members::Here => None,
                Members::Hosts { members, node, .. } => Some((members, *node)),
            },
        })?;
        Ok(())
    }

    fn spawn(
        &mut self,
        node: u32,
        listener: Endpoint,
        config: &AgentConfig,
    ) -> Result<(), Failure> {
        self.dir.write(&format!("agent-{node}.json"), config)?;
        let what = || format!("cannot start agent {node}");
        let log = open_log(&self.dir.log(node)).or_fail(what)?;
        let tracing = self.trace.iter().flat_map(|directory| {
            [
                ("HEARTH_TRACE", OsStr::new("on")),
                (
                    hearth_trace::area::DIRECTORY_VARIABLE,
                    directory.as_os_str(),
                ),
            ]
        });
        let mut child = Command::new(&self.program)
            .envs(tracing)
            .arg("agent")
            .arg("--config")
            .arg(self.dir.config(node))
            // A program that is traced may start agents; they are not part of it.
            .env("HEARTH_TRACE_FOLLOW", "no")
            .current_dir("/")
            .stdin(listener.into_fd())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .or_fail(what)?;
        let report = child.stdout.take().expect("its output is a pipe");
        self.agents.push(Starting {
            node,
            child,
            report,
            said: Vec::new(),
            warden: None,
            is_ready: false,
        });
        Ok(())
    }

    fn describe(
        &mut self,
        plan: &LaunchPlan,
        job: String,
        members: Vec<SocketAddr>,
    ) -> Result<SetFile, Failure> {
        let mut agents = Vec::new();
        for index in 0..self.agents.len() {
            let Starting { node, child, .. } = &self.agents[index];
            let node = *node;
            let Some(process) = Process::of(child.id()) else {
                return Err(self.last_word(index));
            };
            agents.push(AgentEntry {
                node,
                process,
                warden: None,
            });
        }
        Ok(SetFile {
            job,
            store: plan.store.clone(),
            spec: plan.spec.clone(),
            owner: plan.owner,
            members,
            agents,
            bank: self.bank.entries.clone(),
            mounts: Vec::new(),
        })
    }

    fn await_all(&mut self, signals: &Signals, limit: Duration) -> Result<(), Failure> {
        let end = Instant::now() + limit;
        while let Some(late) = self.agents.iter().find(|agent| !agent.is_ready) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let what = format!("agent {} did not become ready", late.node);
                return Err(Failure::new(what).cause(format!("waited {} s", limit.as_secs())));
            }
            let spoke = self
                .wait(signals, left)
                .or_fail(|| "cannot wait for agents".to_owned())?;
            if signals.tell_to_end() {
                return Err(Failure::new("interrupted; nothing is left running"));
            }
            for index in spoke {
                self.hear(index)?;
            }
        }
        Ok(())
    }

    /// Waits for words of agents that are not ready.
    fn wait(&self, signals: &Signals, limit: Duration) -> io::Result<Vec<usize>> {
        let waiting: Vec<usize> = (0..self.agents.len())
            .filter(|index| !self.agents[*index].is_ready)
            .collect();
        let reports = waiting
            .iter()
            .map(|index| self.agents[*index].report.as_fd());
        let all: Vec<BorrowedFd<'_>> = reports.chain(signals.fds()).collect();
        let mut polled: Vec<PollFd<'_>> = all
            .iter()
            .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
            .collect();
        match poll(&mut polled, Some(&timespec(limit))) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        let spoke = waiting
            .into_iter()
            .zip(&polled)
            .filter(|(_, fd)| !fd.revents().is_empty());
        Ok(spoke.map(|(index, _)| index).collect())
    }

    fn hear(&mut self, index: usize) -> Result<(), Failure> {
        let agent = &mut self.agents[index];
        let mut bytes = [0; 4096];
        let count = agent.report.read(&mut bytes).unwrap_or(0);
        agent.said.extend_from_slice(&bytes[..count]);
        if count == 0 {
            return Err(self.ended(&self.agents[index]));
        }
        while let Some(line) = self.agents[index].line() {
            match serde_json::from_slice(&line) {
                Ok(StartWord::Over(Started::Ready { warden })) => {
                    (self.agents[index].is_ready, self.agents[index].warden) = (true, warden);
                }
                Ok(StartWord::Over(Started::Failed(failure))) => return Err(failure),
                Ok(StartWord::Waits(words)) => tell_wait(&words),
                Err(_) => return Err(self.ended(&self.agents[index])),
            }
        }
        Ok(())
    }

    /// Why an agent is gone: what it has said comes before the end of what it says.
    fn last_word(&mut self, index: usize) -> Failure {
        loop {
            if let Err(failure) = self.hear(index) {
                return failure;
            }
        }
    }

    fn ended(&self, agent: &Starting) -> Failure {
        let failure = Failure::new(format!("agent {} ended before it was ready", agent.node));
        let log = std::fs::read_to_string(self.dir.log(agent.node)).unwrap_or_default();
        let says_why = |line: &&str| !line.trim().is_empty() && !line.starts_with("note:");
        match log.lines().rfind(says_why) {
            Some(line) => failure.cause(format!("its last words: {line}")),
            None => failure,
        }
    }

    fn finish(mut self) -> Result<Launched, Failure> {
        let wardens = self.agents.iter().map(|agent| (agent.node, agent.warden));
        let wardens: BTreeMap<u32, Option<Process>> = wardens.collect();
        self.dir.change_set(|file| {
            for entry in &mut file.agents {
                entry.warden = wardens.get(&entry.node).copied().flatten();
            }
        })?;
        let file = self.dir.set()?;
        let agents = std::mem::take(&mut self.agents);
        let daemons = self.bank.hand_over();
        let children = agents.into_iter().map(|agent| agent.child);
        let dir = self.dir.clone();
        Ok(Launched {
            set: Set { dir, file },
            children: children.chain(daemons).collect(),
        })
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        if self.agents.is_empty() && self.dir.set().is_ok() {
            return;
        }
        // Before it is ready, and so before anything is mounted, an agent has nothing to lose.
        for agent in &mut self.agents {
            if let Err(error) = agent.child.kill().and_then(|()| agent.child.wait()) {
                hearth_client::say!("note: cannot end agent {}: {error}", agent.node);
            }
        }
        if let Err(failure) = self.dir.remove() {
            hearth_client::say!("{failure}");
        }
    }
}

impl Starting {
    /// The next whole line that it has said.
    fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.said.iter().position(|&byte| byte == b'\n')?;
        Some(self.said.drain(..=end).collect())
    }
}

/// Somebody who sits before a terminal wonders what takes so long.
fn tell_wait(words: &str) {
    if io::stderr().is_terminal() {
        hearth_client::say!("note: waiting for {words}");
    }
}

fn open_log(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}
