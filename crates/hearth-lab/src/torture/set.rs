//! A set of agents over one directory, started as users start it: one `hearth up` for each host of a list.

use std::fs;
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use super::net::Net;
use super::process::{Ended, Running, bounded, signal};
use rustix::process::Signal;

/// The agents of a round, and all that belongs to them on this machine.
pub(crate) struct HostSet {
    hearth: PathBuf,
    pub(crate) dir: PathBuf,
    pub(crate) store: PathBuf,
    args: Vec<String>,
    nodes: usize,
    net: Option<Net>,
    pids: Vec<Option<i32>>,
    store_is_mounted: bool,
    daemon: Option<Child>,
}

/// A set that was not taken down in good order.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) what: String,
    pub(crate) words: String,
    /// Whether it did not end at all.
    pub(crate) hangs: bool,
}

/// Time for an agent to start, on a busy machine.
const START_MOST: Duration = Duration::from_secs(60);
/// Time for a set to end, on a busy machine.
const DOWN_MOST: Duration = Duration::from_secs(20);

impl HostSet {
    /// Directories, a secret and addresses; no agent runs yet.
    pub(crate) fn new(
        hearth: &Path,
        dir: &Path,
        nodes: usize,
        options: &[String],
        net: Option<Net>,
    ) -> io::Result<HostSet> {
        let store = dir.join("store");
        fs::create_dir(&store)?;
        let secret = dir.join("secret");
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&secret)?;
        let random = fs::read_to_string("/proc/sys/kernel/random/uuid")?
            .trim()
            .replace('-', "");
        write!(file, "{random}{random}")?;
        for node in 0..nodes {
            fs::create_dir(dir.join(format!("mount{node}")))?;
            fs::create_dir(dir.join(format!("tier{node}")))?;
            fs::DirBuilder::new()
                .mode(0o700)
                .create(dir.join(format!("run{node}")))?;
        }
        let hosts = match &net {
            Some(net) => net.addresses(),
            None => free_addresses(nodes)?,
        };
        let mut args = vec![
            "--store".into(),
            text(&store),
            "--hosts".into(),
            hosts.join(","),
        ];
        args.extend(["--secret-file".into(), text(&secret)]);
        args.extend(options.iter().cloned());
        Ok(HostSet {
            hearth: hearth.to_owned(),
            dir: dir.to_owned(),
            store,
            args,
            nodes,
            net,
            pids: vec![None; nodes],
            store_is_mounted: false,
            daemon: None,
        })
    }

    /// Starts a daemon for policy `bank`, which all agents share.
    pub(crate) fn start_daemon(&mut self) -> io::Result<()> {
        let address = free_addresses(1)?.remove(0);
        let port = address.rsplit(':').next().unwrap_or_default();
        let mut daemon = Command::new("memcached");
        daemon.args([
            "-l",
            "127.0.0.1",
            "-p",
            port,
            "-U",
            "0",
            "-m",
            "64",
            "-u",
            "nobody",
        ]);
        self.daemon = Some(daemon.spawn()?);
        self.args.extend(["--bank".into(), address]);
        Ok(())
    }

    /// Makes the store a file system of that size.
    pub(crate) fn bound_store(&mut self, size: &str) -> io::Result<()> {
        let option = format!("size={size}");
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &option, "hearth-lab"])
            .arg(&self.store);
        let done = bounded(&mut mount, START_MOST)?;
        if done.code != Some(0) {
            return Err(io::Error::other(done.err));
        }
        self.store_is_mounted = true;
        Ok(())
    }

    /// The mount of an agent.
    pub(crate) fn mount(&self, node: usize) -> PathBuf {
        self.dir.join(format!("mount{node}"))
    }

    /// The network between the agents, if it is their own.
    pub(crate) fn net(&self) -> Option<&Net> {
        self.net.as_ref()
    }

    /// The shipped command with the directory of an agent.
    pub(crate) fn command(&self, node: usize) -> Command {
        let mut command = Command::new(&self.hearth);
        command.env("HEARTH_DIR", self.dir.join(format!("run{node}")));
        command
    }

    fn begin(&self, node: usize) -> io::Result<Running> {
        let mut command = match &self.net {
            Some(net) => {
                let mut command = net.command(node);
                command.arg(&self.hearth);
                command.env("HEARTH_DIR", self.dir.join(format!("run{node}")));
                command
            }
            None => self.command(node),
        };
        command
            .args(["up", "--node", &node.to_string(), "--at"])
            .arg(self.mount(node));
        command.args(self.with_tier(node));
        Running::start(&mut command)
    }

    fn with_tier(&self, node: usize) -> Vec<String> {
        let tier = text(&self.dir.join(format!("tier{node}")));
        self.args
            .iter()
            .map(|arg| {
                if arg == "TIER" {
                    tier.clone()
                } else {
                    arg.clone()
                }
            })
            .collect()
    }

    /// Starts all agents; says why one did not start.
    pub(crate) fn up(&mut self) -> io::Result<()> {
        let begun: Vec<Running> = (0..self.nodes)
            .map(|node| self.begin(node))
            .collect::<io::Result<_>>()?;
        for running in begun {
            let ended = running.wait(START_MOST)?;
            if ended.code != Some(0) {
                return Err(io::Error::other(format!(
                    "an agent did not start: {}",
                    ended.err
                )));
            }
        }
        for node in 0..self.nodes {
            self.pids[node] = self.ask_pid(node)?;
            self.keep_log(node, "");
        }
        Ok(())
    }

    /// An agent takes its log away when it ends; a second name lets it stay with the other logs of the round.
    fn keep_log(&self, node: usize, life: &str) {
        let name = format!("agent-{node}.log");
        let Ok(jobs) = fs::read_dir(self.dir.join(format!("run{node}"))) else {
            return;
        };
        for job in jobs.flatten() {
            let to = self.dir.join(format!("agent{node}{life}.log"));
            let _ = fs::hard_link(job.path().join(&name), to);
        }
    }

    /// Starts an agent again with the same command.
    pub(crate) fn again(&mut self, node: usize) -> io::Result<Ended> {
        self.let_go(node);
        let ended = self.begin(node)?.wait(START_MOST)?;
        if ended.code == Some(0) {
            self.pids[node] = self.ask_pid(node)?;
            self.keep_log(node, "-again");
        }
        Ok(ended)
    }

    fn ask_pid(&self, node: usize) -> io::Result<Option<i32>> {
        let status = bounded(self.command(node).args(["status", "--json"]), START_MOST)?;
        let mut pids = status.out.lines().filter_map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).ok()?;
            i32::try_from(row.get("pid")?.as_i64()?).ok()
        });
        Ok(pids.next_back())
    }

    /// The process of an agent.
    pub(crate) fn pid(&self, node: usize) -> Option<i32> {
        self.pids[node]
    }

    /// Signals an agent.
    pub(crate) fn signal(&mut self, node: usize, what: Signal) {
        if let Some(pid) = self.pids[node] {
            signal(pid, what);
        }
        if what == Signal::KILL {
            self.pids[node] = None;
        }
    }

    /// Takes every agent down in good order; what did not end so.
    pub(crate) fn down(&mut self) -> io::Result<Vec<Refusal>> {
        let mut begun = Vec::new();
        for node in (0..self.nodes).filter(|node| self.pids[*node].is_some()) {
            begun.push((node, Running::start(self.command(node).arg("down"))?));
        }
        let mut said = Vec::new();
        for (node, running) in begun {
            let ended = running.wait(DOWN_MOST)?;
            match ended.code {
                Some(0) => self.pids[node] = None,
                Some(code) => said.push(Refusal {
                    what: format!("`hearth down` of agent {node} exits with {code}"),
                    words: ended.err.trim().to_owned(),
                    hangs: false,
                }),
                None => said.push(Refusal {
                    what: format!(
                        "`hearth down` of agent {node} did not end in {:.0} s",
                        ended.took.as_secs_f64()
                    ),
                    words: self.pids[node].map_or(String::new(), super::process::stacks),
                    hangs: true,
                }),
            }
        }
        Ok(said)
    }

    fn let_go(&self, node: usize) {
        let _ = bounded(
            Command::new("umount").arg("-l").arg(self.mount(node)),
            START_MOST,
        );
    }

    /// Ends whatever is left, by force.
    pub(crate) fn end(&mut self) {
        for node in 0..self.nodes {
            if let Some(pid) = self.pids[node].take() {
                signal(pid, Signal::CONT);
                let _ = bounded(
                    self.command(node).args(["down", "--discard", "--force"]),
                    DOWN_MOST,
                );
                signal(pid, Signal::KILL);
            }
            self.let_go(node);
        }
        if self.store_is_mounted {
            let _ = bounded(
                Command::new("umount").arg("-l").arg(&self.store),
                START_MOST,
            );
        }
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        self.net = None;
    }
}

impl Drop for HostSet {
    fn drop(&mut self) {
        self.end();
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Addresses that nobody listens at.
fn free_addresses(count: usize) -> io::Result<Vec<String>> {
    // Held together, so that no two are the same.
    let held: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect::<io::Result<_>>()?;
    held.iter()
        .map(|listener| Ok(listener.local_addr()?.to_string()))
        .collect()
}
