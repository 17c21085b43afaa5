//! How an agent reaches a store that its host does not have, and serves the store to others that lack it.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;

use hearth_agent::net::{Door, Party, Secret};
use hearth_gateway::{Gateway, ProxyMount};
use rustix::fs::{Mode, OFlags};

use hearth_set::agent::{AgentConfig, NodeConfig};
use hearth_set::control::{hand_over, take_over};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::store_at::StoreAt;

/// The place at which the gateway of an agent listens.
fn door(at: &StoreAt, config: &NodeConfig, node: u32) -> Door {
    match (at.port, config.members.get(node as usize)) {
        (Some(port), Some(member)) => Door::Port(SocketAddr::new(member.ip(), port)),
        _ => Door::Path(config.job_dir.join(format!("store-{node}.sock"))),
    }
}

/// Gateways in the order in which an agent asks them: not all ask the same.
fn doors(at: &StoreAt, config: &NodeConfig) -> Vec<Door> {
    let first = config.node as usize % at.agents.len();
    let (before, behind) = at.agents.split_at(first);
    let order = behind.iter().chain(before);
    order.map(|&node| door(at, config, node)).collect()
}

fn party(config: &NodeConfig, secret: Secret) -> Party {
    Party {
        job: format!("{}/gateway", config.job),
        secret,
    }
}

/// Begins to serve other agents, if this one is a gateway.
pub(crate) fn serve(config: &NodeConfig, secret: Secret) -> Result<Option<Gateway>, Failure> {
    let Some(at) = config
        .spec
        .store_at
        .as_ref()
        .filter(|at| at.has(config.node))
    else {
        return Ok(None);
    };
    let door = door(at, config, config.node);
    let what = || format!("cannot serve the store at {door}");
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(&config.store, flags, Mode::empty()).or_fail(what)?;
    let gateway = Gateway::start(&door, party(config, secret), root);
    gateway.map(Some).or_fail(what)
}

/// The root of the store as this agent reaches it: `None` if its host has it.
pub(crate) fn reach(config: &NodeConfig) -> Result<Option<OwnedFd>, Failure> {
    let elsewhere = |at: &&StoreAt| !at.has(config.node);
    if config.spec.store_at.as_ref().filter(elsewhere).is_none() {
        return Ok(None);
    }
    let what = || "cannot reach the store through a gateway".to_owned();
    let (here, there) = UnixStream::pair().or_fail(what)?;
    let file = config.job_dir.join(format!("agent-{}.json", config.node));
    let child = Command::new(std::env::current_exe().or_fail(what)?)
        .args(["stand-in", "--config"])
        .arg(file)
        .stdin(OwnedFd::from(there))
        .stdout(Stdio::null())
        .spawn()
        .or_fail(what)?;
    here.set_read_timeout(Some(config.join_span))
        .or_fail(what)?;
    let root = take_over(&here).map_err(|failure| Failure::new(what()).after(failure))?;
    mind(child).or_fail(what)?;
    Ok(Some(root))
}

/// Says so when a proxy mount ends; it should when this agent does.
fn mind(mut child: Child) -> std::io::Result<()> {
    let thread = thread::Builder::new().name("proxy-mount".to_owned());
    let wait = move || match child.wait() {
        Ok(status) => log::error!("the way to the store is gone: its process ended with {status}"),
        Err(error) => log::error!("cannot wait for the way to the store: {error}"),
    };
    thread.spawn(wait).map(drop)
}

/// A proxy mount's process, until nobody uses it any more.
pub(crate) fn proxy_mount(config: &Path) -> Result<ExitCode, Failure> {
    let line = std::io::stdin().as_fd().try_clone_to_owned();
    let line = UnixStream::from(line.or_fail(|| "cannot tell who asked for this".to_owned())?);
    let what = || "cannot stand in for the store".to_owned();
    let mounted = AgentConfig::read(config).and_then(|config| mount(&config));
    let (proxy_mount, root) = match mounted {
        Ok((proxy_mount, root)) => (proxy_mount, Ok(root)),
        Err(failure) => return hand_over(&line, Err(failure)).map(|()| ExitCode::FAILURE),
    };
    hand_over(&line, root)?;
    drop(line);
    proxy_mount.wait().or_fail(what)?;
    Ok(ExitCode::SUCCESS)
}

fn mount(config: &AgentConfig) -> Result<(ProxyMount, OwnedFd), Failure> {
    let secret = config.job_dir()?.secret()?;
    let config = &config.node;
    let what = || "cannot mount a proxy of the store".to_owned();
    let at = config.spec.store_at.as_ref();
    let at = at.ok_or_else(|| Failure::new(what()).cause("the store is everywhere"))?;
    let point = Point::make(config).or_fail(what)?;
    let plan = hearth_gateway::ProxyMountPlan {
        gateways: doors(at, config),
        party: party(config, secret),
        point: point.0.clone(),
        patience: config.join_span / 2,
    };
    ProxyMount::mount(plan).or_fail(what)
}

/// A directory for the moment of mounting.
struct Point(PathBuf);

impl Point {
    fn make(config: &NodeConfig) -> std::io::Result<Point> {
        let path = config.job_dir.join(format!("stand-in-{}", config.node));
        std::fs::create_dir(&path)?;
        Ok(Point(path))
    }
}

impl Drop for Point {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir(&self.0) {
            log::warn!("cannot remove {}: {error}", self.0.display());
        }
    }
}
