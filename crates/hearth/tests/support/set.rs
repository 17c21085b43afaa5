//! Agents of this process, each with a real FUSE mount over one store.

use hearth_agent::net::Secret;
use hearth_agent::{Agent, AgentSettings};
use hearth_fuse::{Ledger, Mount, MountOptions, WhenBusy};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A set of agents and mounts; taken down when dropped.
pub(crate) struct Set {
    mounts: Vec<Option<Mount>>,
    agents: Vec<Agent>,
    points: Vec<PathBuf>,
    dir: tempfile::TempDir,
}

/// Says why a test cannot run here, in the words that the summary counts.
pub(crate) fn skipped(test: &str) -> bool {
    let fuse = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse");
    if let Err(error) = &fuse {
        eprintln!("skipped: {test}: /dev/fuse cannot be opened: {error}");
    }
    fuse.is_err()
}

/// The settings of one agent over `dir/store`.
fn settings(node: u32, members: Vec<SocketAddr>, dir: &Path) -> AgentSettings {
    let named = ("test".to_owned(), Secret::new([9; 32]));
    AgentSettings {
        page_bytes: 4096,
        chunk_bytes: 4 * 4096,
        pool_bytes: 16 << 20,
        flush_age: Duration::from_millis(300),
        ..AgentSettings::plain((node, members), named, (dir.join("store"), dir.to_owned()))
    }
}

impl Set {
    /// Starts `nodes` agents with a mount each; `change` may alter the settings.
    pub(crate) fn start(nodes: u32, change: impl Fn(&mut AgentSettings)) -> Set {
        let dir = tempfile::tempdir().expect("a directory");
        let store = dir.path().join("store");
        std::fs::create_dir(&store).expect("a store");
        let listeners: Vec<TcpListener> = (0..nodes)
            .map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"))
            .collect();
        let members = listeners.iter().map(TcpListener::local_addr);
        let members: Vec<_> = members.map(|at| at.expect("an address")).collect();
        let starts: Vec<_> = (0..)
            .zip(listeners)
            .map(|(node, listener)| {
                let mut config = settings(node, members.clone(), dir.path());
                change(&mut config);
                std::thread::spawn(move || Agent::start(config, listener).expect("an agent"))
            })
            .collect();
        let agents: Vec<Agent> = starts
            .into_iter()
            .map(|s| s.join().expect("a start"))
            .collect();
        let points: Vec<PathBuf> = (0..nodes)
            .map(|node| dir.path().join(format!("mount{node}")))
            .collect();
        let mounts = agents.iter().zip(&points).map(|(agent, at)| {
            std::fs::create_dir(at).expect("a mount point");
            let root = agent.store_root().expect("the store's root");
            let options = MountOptions {
                name_ttl: Duration::ZERO,
                ..MountOptions::default()
            };
            let ledger = Arc::new(Ledger::new().expect("a ledger"));
            Some(Mount::at(at, ledger, root, agent.session(), options).expect("a mount"))
        });
        Set {
            mounts: mounts.collect(),
            agents,
            points: points.clone(),
            dir,
        }
    }

    /// The mount of an agent.
    pub(crate) fn mount(&self, node: usize) -> &Path {
        &self.points[node]
    }

    /// An agent.
    #[allow(dead_code, reason = "not every file of tests asks agents")]
    pub(crate) fn agent(&self, node: usize) -> &Agent {
        &self.agents[node]
    }

    /// The store itself.
    pub(crate) fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        for mount in self.mounts.iter_mut().filter_map(Option::take) {
            if let Err(error) = mount.unmount(WhenBusy::Detach) {
                eprintln!("cannot unmount: {error}");
            }
        }
    }
}
