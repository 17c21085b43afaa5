//! One agent, from start to stop.

use crate::awaiting::{SECRETS_SPAN, Told, awaited, check_secrets};
use crate::balance::Balance;
use crate::bank::{self, BankSettings};
use crate::config::{AgentSettings, ConfigError};
use crate::core::{Core, State};
use crate::files::Files;
use crate::flushing::{OthersUnflushed, Unflushed};
use crate::intro::LEAVES;
use crate::peers::Peers;
use crate::placement_rules::{NoPattern, PlacementRules};
use crate::residency::{NotTold, Residency};
use crate::status::AgentStatus;
use crate::store::{self, Store, Tier};
use crate::views::{Beginning, NoViews, Views};
use crate::write_rings;
use hearth_client::Session;
use hearth_net::{Anew, Endpoint, Handler, NetConfig, PeerId};
use hearth_proto::{Node, NodeId};
use hearth_shm::{Pool, PoolConfig};
use rustix::fs::{Mode, OFlags};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a start or flush looks whether what it waits for has come.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Those that an agent leaves have its word by then, or take it for dead.
const SAY_SPAN: Duration = Duration::from_millis(500);

/// Why an agent did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings make no sense.
    #[error("cannot start the agent: {0}")]
    Config(#[from] ConfigError),
    /// The store's root cannot be used.
    #[error("cannot open the store `{}`", path.display())]
    Store {
        /// The root.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The tier cannot be used.
    #[error("cannot use `{}` as a tier", path.display())]
    Tier {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no memory for the pool.
    #[error("cannot make a pool of {bytes} bytes")]
    Pool {
        /// Size asked for.
        bytes: u64,
        /// Why.
        source: io::Error,
    },
    /// A rule for files makes no sense.
    #[error("cannot follow the rules for files")]
    Rules(#[from] NoPattern),
    /// The transport did not start.
    #[error("cannot reach other agents")]
    Net(#[from] hearth_net::NoTransport),
    /// A thread did not start.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    /// The log of views did not start.
    #[error("cannot say who the members are")]
    Views(#[from] NoViews),
    /// There are no random numbers.
    #[error("cannot tell this life of the agent from others")]
    Incarnation(#[source] io::Error),
    /// An agent does not come back into its set.
    #[error(
        "agent {by} has met an earlier life of this agent, and an agent does not come back into its set: it has forgotten what it owed"
    )]
    Anew {
        /// The agent that refuses it.
        by: u32,
    },
    /// Another agent ended before all had joined.
    #[error(
        "agent {who} had joined, ended, and was started again; an agent does not come back into its set"
    )]
    JoinedAnew {
        /// Which.
        who: u32,
    },
    /// Agents have another secret, and none has this one's.
    #[error("agent {by} at {at} has another secret")]
    Secrets {
        /// One of them.
        by: u32,
        /// Its address in the list.
        at: SocketAddr,
    },
    /// Other agents did not come.
    #[error("agent {missing:?} did not join within {} s{}", waited.as_secs(), said(refusal.as_ref()))]
    Join {
        /// Those that are missing.
        missing: Vec<u32>,
        /// How long it waited.
        waited: Duration,
        /// The last reason for which a connection was refused.
        refusal: Option<String>,
    },
}

fn said(refusal: Option<&String>) -> String {
    refusal.map_or_else(String::new, |why| format!(": {why}"))
}

/// A running agent. Dropping it stops it without flushing; see [`Agent::flush`].
pub struct Agent {
    core: Arc<Core>,
    workers: Vec<JoinHandle<()>>,
    bank: Option<BankSettings>,
}

impl Agent {
    /// Starts an agent that listens at `endpoint`, and waits until every other agent is connected; if the members may
    /// change, [`Agent::follow_views`] does.
    pub fn start(
        config: AgentSettings,
        endpoint: impl Into<Endpoint>,
    ) -> Result<Agent, StartError> {
        let root = open_root(&config.store_root).map_err(|source| StartError::Store {
            path: config.store_root.clone(),
            source,
        })?;
        Agent::start_over(config, root, endpoint)
    }

    /// The same over a store whose root is open, and which need not be at its path.
    pub fn start_over(
        config: AgentSettings,
        root: OwnedFd,
        endpoint: impl Into<Endpoint>,
    ) -> Result<Agent, StartError> {
        let kernel = config.kernel()?;
        let store_error = |source| StartError::Store {
            path: config.store_root.clone(),
            source,
        };
        let files = Files::new(root, config.store_root.clone()).map_err(store_error)?;
        let bare = store::build(&config.store, &config.job_dir, files.root().as_fd());
        let bare = bare.map_err(store_error)?;
        let stores = behind_tier(&config, bare, &files)?;
        let pool = PoolConfig::new(kernel.page_bytes as usize, kernel.frames);
        let pool = Pool::new(pool).map_err(|source| StartError::Pool {
            bytes: config.pool_bytes,
            source,
        })?;
        let placement_rules =
            PlacementRules::new(config.semantics, &config.rules, files.root_path())?;
        let core = Core::new(
            Node::new(kernel),
            pool,
            stores,
            (files, placement_rules),
            (config.kernel_cache, Balance::new(config.balances())),
        );
        let mut workers = core.start_workers().map_err(StartError::Thread)?;
        workers.push(write_rings::mind(&core).map_err(StartError::Thread)?);
        let agent = Agent {
            core,
            workers,
            bank: config.bank.clone(),
        };
        let handler: Arc<dyn Handler> = Arc::new(Peers(Arc::clone(&agent.core)));
        let net = net_config(&config).map_err(StartError::Incarnation)?;
        agent.core.lock().lives[config.node as usize] = net.incarnation;
        let transport = endpoint.into().start(net, handler)?;
        if agent.core.transport.set(transport).is_err() {
            unreachable!("the transport is set once, here");
        }
        // Those that were connected before that heard nothing.
        for node in agent.core.others_up() {
            agent.core.tell_newest_view(node);
        }
        if let Some(bank) = &config.bank {
            let entry_bytes = bank.attributes.entry_bytes(config.page_bytes as usize);
            let started = bank::start(&agent.core, bank, &config.secret, entry_bytes);
            let started = started.map_err(StartError::Thread)?;
            if agent.core.bank.set(started).is_err() {
                unreachable!("the bank is set once, here");
            }
        }
        if !config.has_views() {
            agent.join(&config, |_, missing| missing.is_empty().then_some(()))?;
        }
        Ok(agent)
    }

    /// The session that front ends of this process use.
    pub fn session(&self) -> Arc<dyn Session> {
        Arc::clone(&self.core) as Arc<dyn Session>
    }

    /// From now on programs of this user may read the pool themselves.
    pub fn share(&self) -> io::Result<()> {
        self.core.pool.share()
    }

    /// Lends the pool to the program at the other end of a connection.
    pub fn lend(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        self.core.pool.lend(program)
    }

    /// Lends a write ring to the program at the other end of a connection.
    pub fn lend_write_ring(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        self.core.lend_write_ring(program)
    }

    /// From now on programs' writes all come through a front end. Before the last flush.
    pub fn end_write_rings(&self) {
        self.core.end_write_rings();
    }

    /// A descriptor of the store's root, opened before any mount hid it.
    pub fn store_root(&self) -> io::Result<OwnedFd> {
        self.core.root.try_clone()
    }

    /// The status of this agent, for people.
    pub fn status(&self) -> AgentStatus {
        self.core.status(self.bank.as_ref())
    }

    /// Which bytes of which files are here. Asks the store where each of these files is.
    pub fn residency(&self) -> Residency {
        self.core.residency()
    }

    /// The residency of an agent of the job: this one, or another that is asked, for ten seconds at most.
    pub fn residency_of(&self, node: u32) -> Result<Residency, NotTold> {
        self.core.residency_of(NodeId(node))
    }

    /// Sets the scheduler's name of this node, for others who ask what is here.
    pub fn call(&self, name: String) {
        self.core.lock().called = name;
    }

    /// Sets the place where a front end shows the store from now on, for those as well.
    pub fn mounted(&self, at: Option<String>) {
        self.core.lock().mounted = at;
    }

    /// Brings every dirty byte that this agent is home of, or has written by itself, to the store.
    ///
    /// Fails when the store refuses, or when `span` is over; the bytes are kept.
    pub fn flush(&self, span: Duration) -> Result<(), Unflushed> {
        let started = Instant::now();
        loop {
            let left = self.core.flush_some();
            if left.is_nothing() {
                return self.settle_tier();
            }
            if left.gives_up(started.elapsed(), span) {
                return Err(left);
            }
            self.pause();
        }
    }

    /// Has every other agent that is connected do the same. Fails if the store refuses one of them, or one does not
    /// answer; all bytes are kept.
    pub fn flush_others(&self, span: Duration) -> Result<(), OthersUnflushed> {
        let started = Instant::now();
        for node in self.core.others_up() {
            loop {
                let left = match self.core.flushed_of(node) {
                    Ok(left) => left,
                    // It has ended, after a flush of its own, or is lost with what it had.
                    Err(NotTold::Away(..)) => break,
                    Err(NotTold::Silent(..)) => return Err(OthersUnflushed::Silent(node.0)),
                };
                if left.is_nothing() {
                    break;
                }
                if left.gives_up(started.elapsed(), span) {
                    return Err(OthersUnflushed::Left(node.0, left));
                }
                self.pause();
            }
        }
        Ok(())
    }

    fn settle_tier(&self) -> Result<(), Unflushed> {
        let Some(tier) = &self.core.tier else {
            return Ok(());
        };
        tier.settle_all()
            .map_err(|errno| Unflushed::in_tier(tier.status().dirty_bytes, errno))?;
        // So that copies count when the agent is started again.
        let begun = Instant::now();
        while tier.is_soon_sure(begun) {
            self.pause();
            tier.make_sure(Instant::now());
        }
        Ok(())
    }

    /// The number of this run of the agent: [`AgentSettings::succeeds`] of the next.
    pub fn run(&self) -> u64 {
        let state = self.core.lock();
        let me = state.node().config().me.0 as usize;
        state.lives[me]
    }

    /// All agents of the set end: none has to go on without this one.
    pub fn all_end(&self) {
        self.core.all_end.store(true, Ordering::Release);
    }

    /// Leaves the other agents, and tells them so; if the members may change, they go on at once. After the last flush, when
    /// no front end asks any more.
    pub fn leave(&self) {
        let views = self.core.views.get();
        let goes_on = !self.core.all_end.load(Ordering::Acquire);
        if let Some(views) = views.filter(|_| goes_on) {
            views.leave(&self.core);
        }
        let is_clean = self.core.lock().node().status().dirty_bytes == 0;
        let others = match is_clean {
            true => self.core.others_up(),
            // Its bytes are lost, and it is as one that died.
            false => return,
        };
        let transport = self.core.transport.get();
        let Some(transport) = transport.filter(|_| !others.is_empty()) else {
            return;
        };
        for NodeId(other) in others {
            // Those that cannot be told take it for dead.
            let _ = transport.send(PeerId(other), &[LEAVES], &[]);
        }
        let begun = Instant::now();
        let is_said = || transport.peers().iter().all(|peer| peer.queued_bytes == 0);
        while !is_said() && begun.elapsed() < SAY_SPAN {
            self.pause();
        }
    }

    /// Stops: no request is served any more. Flush first.
    pub fn stop(mut self) {
        self.halt();
    }

    /// Waits until the others that are connected are enough, given those that are missing.
    fn join<T>(
        &self,
        config: &AgentSettings,
        enough: impl Fn(&State, &[u32]) -> Option<T>,
    ) -> Result<T, StartError> {
        let started = Instant::now();
        let mut told = Told::default();
        loop {
            let missing: Vec<u32> = {
                let state = self.core.lock();
                match state.anew {
                    Some((by, Anew::Me)) => return Err(StartError::Anew { by }),
                    Some((who, Anew::Peer | Anew::Successor)) => {
                        return Err(StartError::JoinedAnew { who });
                    }
                    None => {}
                }
                let others = (0..)
                    .zip(&state.up)
                    .filter(|&(node, up)| !up && node != config.node);
                let missing: Vec<u32> = others.map(|(node, _)| node).collect();
                if let Some(joined) = enough(&state, &missing) {
                    return Ok(joined);
                }
                missing
            };
            let transport = self.core.transport.get().expect("it is set by the start");
            if missing.len() + 1 == config.members.len() && started.elapsed() > SECRETS_SPAN {
                check_secrets(&config.members, &transport.refusals(), started.elapsed())?;
            }
            if told.is_due(started.elapsed(), &missing) {
                let words = awaited(&transport.peers(), &missing, &transport.refusals());
                config.waits.tell(words);
            }
            if started.elapsed() > config.join_span {
                let last = transport.refusals().pop();
                return Err(StartError::Join {
                    missing,
                    waited: config.join_span,
                    refusal: last.map(|refusal| refusal.why),
                });
            }
            self.pause();
        }
    }

    /// Joins the other agents, and from then on the log says who the members are. To be called once, right after the
    /// start, if the settings say [`MembershipRule::Embedded`](crate::MembershipRule); does nothing if they do not.
    pub fn follow_views(&mut self, config: &AgentSettings) -> Result<(), StartError> {
        let Some(lease) = config.membership.lease() else {
            return Ok(());
        };
        let beginning = self.join(config, |state, _| Beginning::of(state))?;
        let views = Views::start(&self.core, config, (lease, beginning))?;
        // First: the log hears the answers of others by it.
        if self.core.views.set(Arc::clone(&views) as _).is_err() {
            unreachable!("views begin once, here");
        }
        self.workers.extend(views.follow(&self.core, config)?);
        Ok(())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "start and flush wait for others, and are rare"
    )]
    fn pause(&self) {
        std::thread::sleep(LOOK_AGAIN);
    }

    fn halt(&mut self) {
        self.core.end_write_rings();
        if let Some(transport) = self.core.transport.get() {
            transport.shutdown();
        }
        if let Some(views) = self.core.views.get() {
            views.end();
        }
        self.core.queue.close();
        if let Some(tier) = &self.core.tier {
            tier.end();
        }
        for worker in self.workers.drain(..) {
            // A worker that the store holds back for ever must not hold back the end.
            if worker.is_finished() {
                let _ = worker.join();
            }
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.halt();
    }
}

/// The store that the agent writes to, and its tier if that is one.
type Stores = (Arc<dyn Store>, Option<Arc<Tier>>);

/// The store, with the agent's tier before it if it has one.
fn behind_tier(
    config: &AgentSettings,
    bare: Arc<dyn Store>,
    files: &Files,
) -> Result<Stores, StartError> {
    let Some(tier) = config.tier.clone() else {
        return Ok((bare, None));
    };
    let path = tier.dir.clone();
    let opened = Tier::open(tier, bare, files.root().as_fd());
    let recovered = opened.and_then(|tier| match config.has_views() {
        // The others may be at work: the kernel says when (VIEW-5).
        true => Ok(tier),
        false => tier.recover(files.root().as_fd()).map(|()| tier),
    });
    let tier = recovered.map_err(|source| StartError::Tier { path, source })?;
    Ok((Arc::clone(&tier) as Arc<dyn Store>, Some(tier)))
}

fn open_root(path: &std::path::Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn net_config(config: &AgentSettings) -> io::Result<NetConfig> {
    Ok(NetConfig {
        me: PeerId(config.node),
        incarnation: NetConfig::own_incarnation()?,
        succeeds: config.succeeds.unwrap_or(0),
        members: config.members.clone(),
        secret: config.secret.clone(),
        job: config.job.clone(),
        limits: hearth_net::Limits::default(),
    })
}
