//! The service of an agent for commands.

use std::fs;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hearth_agent::WaitWords;
use hearth_agent::net::Endpoint;
use hearth_fuse::{Identity, Ledger, Mount, MountOptions};
use hearth_gateway::Gateway;

use super::metrics;
use super::served_mount::{Door, Served, WardedMount};
use super::warden::{Held, Warden};
use crate::gateway;
use crate::node::Node;
use hearth_agent::Replicas;
use hearth_client::belief;
use hearth_set::agent::{AgentConfig, Health};
use hearth_set::control::{Answerer, Busy, ControlAnswer, ControlRequest, Ids};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::mountinfo;
use hearth_set::options::{Others, SetSpec};
use hearth_set::unmount::connection_at;

/// Programs whose buffers are smaller make many requests, however small blocks are.
const REQUEST_BYTES_MIN: u64 = 4 << 10;

/// One agent and its mount.
pub(super) struct Service {
    node: Node,
    /// Serves the store to agents whose hosts do not have it.
    gateway: Option<Gateway>,
    door: Mutex<Door>,
    warden: Warden,
    spec: SetSpec,
    /// The name of the set.
    job: String,
    /// The address of its metrics, if it tells any.
    metrics: Option<SocketAddr>,
    /// Closed to end the process.
    stop: Mutex<Option<UnixStream>>,
}

/// Names the node to processes that Slurm starts there.
const SLURM_NODE: &str = "SLURMD_NODENAME";

const HOSTNAME: &str = "/proc/sys/kernel/hostname";

impl Service {
    /// Starts the agent; comes back once every member is connected.
    pub(super) fn start(
        config: &AgentConfig,
        (peers, waits): (OwnedFd, WaitWords),
        (stop, warden): (UnixStream, Warden),
        metrics: Option<SocketAddr>,
    ) -> Result<Service, Failure> {
        let secret = config.job_dir()?.secret()?;
        // Before the others are awaited: they wait for the store.
        let gateway = gateway::serve(&config.node, secret.clone())?;
        let root = gateway::reach(&config.node)?;
        let endpoint = Endpoint::from_fd(config.node.spec.transport.of_nodes()?, peers);
        let called = node_name()?;
        let node = Node::start(
            &config.node,
            secret,
            root,
            (endpoint, waits, warden.lease_alarm()),
        )?;
        node.call(called);
        Ok(Service {
            node,
            gateway,
            door: Mutex::default(),
            warden,
            spec: config.node.spec.clone(),
            job: config.node.job.clone(),
            metrics,
            stop: Mutex::new(Some(stop)),
        })
    }

    /// Tells this run from others of its agent.
    pub(super) fn run(&self) -> u64 {
        self.node.run()
    }

    /// Lends the pool to a program that asks for it.
    pub(super) fn lend(&self, program: BorrowedFd<'_>) {
        let lent = self.node.share().and_then(|()| self.node.lend(program));
        if let Err(error) = lent {
            log::warn!("cannot lend the pool to a program: {error}");
        }
    }

    /// Lends a write ring to a program that asks for one.
    pub(super) fn lend_write_ring(&self, program: BorrowedFd<'_>) {
        if let Err(error) = self.node.lend_write_ring(program) {
            log::debug!("a program's writes come through the mount: {error}");
        }
    }

    /// Flushes, unmounts, stops.
    pub(super) fn end(self: Arc<Self>) {
        self.node.end_write_rings();
        self.flush_or_warn();
        self.door().close();
        // The unmount brought the bytes that the kernel still held.
        self.flush_or_warn();
        self.node.leave();
        // A command that is still being answered ends with the process.
        if let Some(service) = Arc::into_inner(self) {
            service.node.stop();
        }
    }

    fn flush_or_warn(&self) {
        if let Err(failure) = self.node.flush() {
            log::error!("{failure}");
        }
    }

    fn door(&self) -> MutexGuard<'_, Door> {
        // A panic while it was held leaves it as it was before or after a mount, both true.
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> Result<ControlAnswer, Failure> {
        let node = serde_json::to_value(self.node.status());
        let mut door = self.door();
        let health = Health {
            mount: door.at().map(Path::to_owned),
            users: door.users(),
            calls_for_others: self.gateway.as_ref().map(Gateway::calls),
            metrics: self.metrics,
            node: node.or_fail(|| "cannot tell the status".to_owned())?,
        };
        drop(door);
        let value = serde_json::to_value(health).or_fail(|| "cannot tell the status".to_owned())?;
        Ok(ControlAnswer {
            value,
            ..ControlAnswer::default()
        })
    }

    /// The numbers of the status, which are told without a look at the mount: that may be busy.
    pub(super) fn account(&self) -> metrics::Agent {
        metrics::Agent {
            set: self.job.clone(),
            calls_for_others: self.gateway.as_ref().map(Gateway::calls),
            status: self.node.status(),
        }
    }

    fn residency(&self, agent: u32) -> Result<ControlAnswer, Failure> {
        let residency = self.node.residency_of(agent)?;
        let value =
            serde_json::to_value(residency).or_fail(|| "cannot tell the files".to_owned())?;
        Ok(ControlAnswer {
            value,
            ..ControlAnswer::default()
        })
    }

    fn mount(&self, at: PathBuf) -> Result<ControlAnswer, Failure> {
        let mut door = self.door();
        door.check_free()?;
        let root = self.node.store_root()?;
        let options = self.options(Ids::AsStored);
        let (ledger, held) = ledger(Ids::AsStored)?;
        let mount = Mount::at(&at, ledger, root, self.node.session(), options)
            .or_fail(|| format!("cannot mount at `{}`", at.display()))
            .map_err(|failure| failure.hint("hearth doctor"))?;
        let connection = connection_at(&at).ok().flatten();
        let mount = self.warded(mount, held.at(&at).by(connection));
        door.open(Served::At { at, mount });
        self.node.mounted(door.at());
        Ok(ControlAnswer::default())
    }

    fn attach(
        &self,
        (ids, connection): (Ids, Option<u32>),
        caller: u32,
        fds: Vec<OwnedFd>,
    ) -> Result<ControlAnswer, Failure> {
        let mut door = self.door();
        door.check_free()?;
        let mut fds = fds.into_iter();
        let device = fds
            .next()
            .ok_or_else(|| Failure::new("no device came with the request"))?;
        let root = self.node.store_root()?;
        let (ledger, held) = ledger(ids)?;
        let options = self.options(ids);
        let mount = Mount::attach(device, ledger, root, self.node.session(), options)
            .or_fail(|| "cannot serve the mount".to_owned())?;
        let namespaces: Vec<OwnedFd> = fds.collect();
        let mount = self.warded(mount, held.in_namespaces(&namespaces).by(connection));
        door.open(Served::Apart { mount, namespaces });
        door.admit(caller);
        Ok(ControlAnswer::default())
    }

    /// Serves the mount of an agent that is dead.
    pub(super) fn take_over(&self, held: &Held) -> Result<(), Failure> {
        let what = || "cannot take over the mount of the agent that died".to_owned();
        let root = self.node.store_root()?;
        let (ledger, namespaces) = held.take().or_fail(what)?;
        let (options, session) = (self.options(held.ids), self.node.session());
        let mount = Mount::resume(ledger, root, session, options).or_fail(what)?;
        let mount = self.warded(mount, held.clone());
        let mut door = self.door();
        match held.at.clone() {
            Some(at) => door.open(Served::At { at, mount }),
            None => door.open(Served::Apart { mount, namespaces }),
        }
        self.node.mounted(door.at());
        Ok(())
    }

    fn warded(&self, mount: Mount, held: Held) -> WardedMount {
        self.warden.serves(Some(held));
        WardedMount::new(mount, self.warden)
    }

    fn enter(&self, caller: u32) -> Result<ControlAnswer, Failure> {
        let mut door = self.door();
        let (mount_access, fds) = door.mount_access()?;
        door.admit(caller);
        let value = serde_json::to_value(mount_access)
            .or_fail(|| "cannot tell the access to a mount".to_owned())?;
        Ok(ControlAnswer { value, fds })
    }

    fn unmount(&self, at: &Path, busy: Busy) -> Result<ControlAnswer, Failure> {
        let mut door = self.door();
        let unmounted = door.unmount(at, busy);
        self.node.mounted(door.at());
        unmounted.map(|()| ControlAnswer::default())
    }

    fn options(&self, ids: Ids) -> MountOptions {
        let (others, identity) = match self.spec.others {
            Others::Refused => (hearth_fuse::OtherUsers::Refused, Identity::SingleUser),
            Others::Allowed => (hearth_fuse::OtherUsers::Allowed, Identity::AsCaller),
        };
        MountOptions {
            attr_ttl: self.spec.attr_ttl.0,
            name_ttl: self.name_ttl(),
            others,
            identity,
            ids: match ids {
                Ids::AsStored => hearth_fuse::ShownOwners::AsStored,
                Ids::Mine => hearth_fuse::ShownOwners::Mine,
            },
            request_bytes: self.request_bytes(),
            client_lags: self.node.store_root().is_ok_and(belief::lags),
            written_survives: matches!(self.spec.replicas, Replicas::Sync(_)),
            fs_name: mountinfo::SOURCE.to_owned(),
        }
    }

    /// A page at a time, unless the mount stands for the store's own.
    fn request_bytes(&self) -> Option<u32> {
        let page_bytes = u32::try_from(self.spec.page_size.0.max(REQUEST_BYTES_MIN)).ok();
        page_bytes.filter(|_| !self.spec.kernel_cache)
    }

    /// Names are true at once where other agents change them too.
    fn name_ttl(&self) -> Duration {
        if self.node.status().peers.is_empty() {
            self.spec.attr_ttl.0
        } else {
            Duration::ZERO
        }
    }

    fn stop(&self) {
        let mut stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        // Closing this end makes the other readable.
        drop(stop.take());
    }
}

/// A mount that is to be, as another agent would take it over.
fn ledger(ids: Ids) -> Result<(Arc<Ledger>, Held), Failure> {
    let ledger = Ledger::new().or_fail(|| "cannot keep a ledger of the mount".to_owned())?;
    let held = Held::new(&ledger, ids);
    Ok((Arc::new(ledger), held))
}

/// The node, as the scheduler calls it, or else the host.
fn node_name() -> Result<String, Failure> {
    if let Ok(node) = std::env::var(SLURM_NODE) {
        return Ok(node);
    }
    let name =
        fs::read_to_string(HOSTNAME).or_fail(|| "cannot tell this host's name".to_owned())?;
    Ok(name.trim().to_owned())
}

impl Answerer for Service {
    fn answer(
        &self,
        request: ControlRequest,
        caller: u32,
        fds: Vec<OwnedFd>,
    ) -> Result<ControlAnswer, Failure> {
        match request {
            ControlRequest::Status => self.status(),
            ControlRequest::Residency { agent } => self.residency(agent),
            ControlRequest::Flush => self.node.flush().map(|()| ControlAnswer::default()),
            ControlRequest::FlushOthers => {
                self.node.flush_others().map(|()| ControlAnswer::default())
            }
            ControlRequest::Mount { at } => self.mount(at),
            ControlRequest::Unmount { at, busy } => self.unmount(&at, busy),
            ControlRequest::Enter => self.enter(caller),
            ControlRequest::Attach { ids, connection } => {
                self.attach((ids, connection), caller, fds)
            }
            ControlRequest::Stop => {
                self.stop();
                Ok(ControlAnswer::default())
            }
            ControlRequest::StopWithAll => {
                self.node.all_end();
                self.stop();
                Ok(ControlAnswer::default())
            }
        }
    }
}
