//! The settings that an agent is given when it starts.

use crate::bank::BankSettings;
use crate::placement_rules::Rule;
use crate::store::{StoreSpec, TierConfig};
use hearth_net::Secret;
use hearth_proto::{
    Allocation, CloseRule, NodeId, Policy, Ranges, Replicas, Semantics, Span, Spill, Synced, View,
};
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Smallest pool, in pages: one large request of the kernel must fit several times.
const PAGES_MIN: u64 = 32;

/// Largest request of a front end, in bytes, which must fit into the pool several times over.
const REQUEST_BYTES_MAX: u64 = 1 << 20;

/// Settings of one agent. All agents of a job must agree on everything below `incarnation`.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// This agent's place in `members`.
    pub node: u32,
    /// Which life of this agent this is: larger than any before, below 2^31.
    pub incarnation: u64,
    /// The run of this agent that this one takes the place of ([`Agent::run`](crate::Agent::run)), if nothing of that is left
    /// on this machine.
    pub succeeds: Option<u64>,
    /// The addresses at which the agents of the job listen.
    pub members: Vec<SocketAddr>,
    /// The secret that the agents of the job prove to each other.
    pub secret: Secret,
    /// Name of the job.
    pub job: String,
    /// The store's root directory.
    pub store_root: PathBuf,
    /// How the store is reached.
    pub store: StoreSpec,
    /// Policy of every file.
    pub policy: Policy,
    /// The level that is promised of files of which neither an attribute nor a rule says one.
    pub semantics: Semantics,
    /// Rules for files that are treated differently; the first rule that fits counts.
    pub rules: Vec<Rule>,
    /// The choice of the node that becomes the home of a chunk.
    pub allocation: Allocation,
    /// The event that close waits for.
    pub close: CloseRule,
    /// Bytes of a page: a power of two, 4 KiB to 4 MiB; in a bank 256 B to 1 MiB.
    pub page_bytes: u32,
    /// Bytes of a chunk: a multiple of the page size.
    pub chunk_bytes: u64,
    /// Bytes of this agent's pool.
    pub pool_bytes: u64,
    /// Age at which dirty bytes are flushed.
    pub flush_age: Duration,
    /// Under policy `none`: let the kernel of each node keep pages between opens as long as the
    /// store's stamp stays the same, as the store's own mount would.
    pub kernel_cache: bool,
    /// How reads and writes over several homes are made one.
    pub ranges: Ranges,
    /// The directory of all that agents of this machine share (queues of a modelled store).
    pub job_dir: PathBuf,
    /// How long to wait for the other agents at the start.
    pub join_span: Duration,
    /// Hears of a long wait for them.
    pub waits: WaitWords,
    /// The daemons, under a policy that has any.
    pub bank: Option<BankSettings>,
    /// The tier, under policy `local`. Either all agents of a job have one or none.
    pub tier: Option<TierConfig>,
    /// The promise of fsync if there is a tier.
    pub synced: Synced,
    /// The replicas of bytes that a home has and the store lacks, under policy `local`.
    pub replicas: Replicas,
    /// Files go from agents whose memory is full to others with room, under policy `local` without tiers.
    pub balance: bool,
    /// The party that says which agents are members.
    pub membership: MembershipRule,
    /// A timer that rings soon after this agent's lease is over, unless that is renewed: others may go on without it then, and
    /// pages that the operating system keeps of its mount may be old.
    pub lease_alarm: Option<Arc<OwnedFd>>,
}

/// Hears in words what a start waits for, if anybody does.
#[derive(Clone, Default)]
pub struct WaitWords(Option<Arc<dyn Fn(String) + Send + Sync>>);

impl WaitWords {
    /// Told to this.
    pub fn to(hears: impl Fn(String) + Send + Sync + 'static) -> WaitWords {
        WaitWords(Some(Arc::new(hears)))
    }

    pub(crate) fn tell(&self, words: String) {
        if let Some(hears) = &self.0 {
            hears(words);
        }
    }
}

impl fmt::Debug for WaitWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WaitWords").field(&self.0.is_some()).finish()
    }
}

/// The party that says which agents are members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MembershipRule {
    /// The list that agents are started with, for ever.
    #[default]
    Static,
    /// The agents themselves: they go on without those that are gone.
    Embedded {
        /// The granter's term of a lease: the least time that a death stops writes for.
        lease: Duration,
    },
}

impl MembershipRule {
    /// The term of a lease, if there are leases.
    pub(crate) fn lease(self) -> Option<Duration> {
        match self {
            MembershipRule::Static => None,
            MembershipRule::Embedded { lease } => Some(lease),
        }
    }
}

/// Why settings make no sense.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Not a power of two within the bounds.
    #[error("page size {0} is no power of two from 4 KiB to 4 MiB, or 256 B to 1 MiB in a bank")]
    Page(u32),
    /// Not a multiple of the page size.
    #[error("chunk size {0} is not a multiple of the page size")]
    Chunk(u64),
    /// Too small for the page size.
    #[error("a pool of {pool} bytes is too small: it must hold at least {least}")]
    Pool {
        /// As asked for.
        pool: u64,
        /// The smallest pool that would do.
        least: u64,
    },
    /// Only whole files can be in a tier.
    #[error("only policy `local` has tiers")]
    Tier,
    /// Shards are of what memory has, not of what a tier has.
    #[error("there are no shards where there is a tier")]
    ShardsOfTier,
    /// Of whole files alone other nodes have copies.
    #[error("only policy `local` has replicas")]
    Replicas,
    /// The place is not on the list.
    #[error("node {node} is not among the {members} members")]
    Node {
        /// As asked for.
        node: u32,
        /// How many there are.
        members: usize,
    },
}

/// The smallest pool for pages of so many bytes.
pub fn pool_bytes_least(page_bytes: u32) -> u64 {
    (PAGES_MIN * u64::from(page_bytes)).max(8 * REQUEST_BYTES_MAX)
}

impl AgentSettings {
    /// The plain settings of an agent over a store that it has: of the first life, alone with its list of members, with
    /// 8 MiB chunks of 256 KiB pages and 256 MiB of memory.
    pub fn plain(
        (node, members): (u32, Vec<SocketAddr>),
        (job, secret): (String, Secret),
        (store_root, job_dir): (PathBuf, PathBuf),
    ) -> AgentSettings {
        AgentSettings {
            node,
            incarnation: 1,
            succeeds: None,
            members,
            secret,
            job,
            store_root,
            store: StoreSpec::Posix,
            policy: Policy::Home,
            semantics: Semantics::Posix,
            rules: Vec::new(),
            allocation: Allocation::Slot,
            close: CloseRule::Flushed,
            page_bytes: 256 << 10,
            chunk_bytes: 8 << 20,
            pool_bytes: 256 << 20,
            flush_age: Duration::from_secs(5),
            kernel_cache: false,
            ranges: Ranges::default(),
            job_dir,
            join_span: Duration::from_secs(120),
            waits: WaitWords::default(),
            bank: None,
            tier: None,
            synced: Synced::Store,
            replicas: Replicas::None,
            balance: true,
            membership: MembershipRule::Static,
            lease_alarm: None,
        }
    }

    /// True if files go to agents with room. Bytes of a file in a tier would not go along.
    pub(crate) fn balances(&self) -> bool {
        self.balance && self.policy == Policy::Local && self.tier.is_none()
    }

    /// True if the members may change.
    pub(crate) fn has_views(&self) -> bool {
        self.membership.lease().is_some()
    }

    /// The view that the first kernel begins in: none if it has to wait until tiers are recovered.
    fn view_before(&self) -> View {
        match self.has_views() && self.tier.is_some() {
            true => View(0),
            false => View(1),
        }
    }

    /// A job that is started as a whole on one machine has a secret of its own, so nobody knows an earlier life of its
    /// agents. All of them are at one address then.
    fn may_rejoin(&self) -> bool {
        let mut places = self.members.iter().map(SocketAddr::ip);
        let first = places.next();
        let one = places.all(|place| Some(place) == first);
        !(one && first.is_none_or(|place| place.is_loopback()))
    }

    /// The kernel's view of the settings.
    pub(crate) fn kernel(&self) -> Result<hearth_proto::Config, ConfigError> {
        let page = self.page_bytes;
        let pages = match self.bank {
            None => 4 << 10..=4 << 20,
            Some(_) => 256..=1 << 20,
        };
        if !page.is_power_of_two() || !pages.contains(&page) {
            return Err(ConfigError::Page(page));
        }
        let chunk_pages = self.chunk_bytes / u64::from(page);
        if chunk_pages == 0 || !self.chunk_bytes.is_multiple_of(u64::from(page)) {
            return Err(ConfigError::Chunk(self.chunk_bytes));
        }
        let least = pool_bytes_least(page);
        if self.pool_bytes < least {
            return Err(ConfigError::Pool {
                pool: self.pool_bytes,
                least,
            });
        }
        if self.tier.is_some() && self.policy != Policy::Local {
            return Err(ConfigError::Tier);
        }
        if self.replicas != Replicas::None && self.policy != Policy::Local {
            return Err(ConfigError::Replicas);
        }
        if self.replicas.shards().is_some() && self.tier.is_some() {
            return Err(ConfigError::ShardsOfTier);
        }
        if self.node as usize >= self.members.len() {
            return Err(ConfigError::Node {
                node: self.node,
                members: self.members.len(),
            });
        }
        Ok(hearth_proto::Config {
            incarnation: self.incarnation,
            policy: self.policy,
            allocation: self.allocation,
            close: self.close,
            ranges: self.ranges,
            page_bytes: page,
            chunk_pages: u32::try_from(chunk_pages).unwrap_or(u32::MAX),
            frames: (self.pool_bytes / u64::from(page)) as u32,
            flush_age: Span(self.flush_age.as_nanos() as u64),
            spill: match &self.tier {
                Some(_) => Spill::Tier(self.synced),
                None => Spill::Store,
            },
            replicas: self.replicas,
            goes_on: self.has_views(),
            view: self.view_before(),
            rejoins: self.may_rejoin(),
            bank: match &self.bank {
                // In another view nobody asks for entries of an earlier life.
                Some(bank) => bank.kernel(self.may_rejoin() && !self.has_views()),
                None => hearth_proto::BankConfig::default(),
            },
            #[cfg(feature = "canary")]
            without: taken_out(),
            ..hearth_proto::Config::new(NodeId(self.node), self.members.len() as u32)
        })
    }
}

/// The guard that kernels are without, so that histories of programs can be seen to show it.
#[cfg(feature = "canary")]
fn taken_out() -> Option<hearth_proto::Guard> {
    let name = std::env::var("HEARTH_WITHOUT").ok()?;
    let named = hearth_proto::Guard::ALL.iter().copied();
    Some(
        { named }
            .find(|guard| guard.name() == name)
            .expect("a guard has this name"),
    )
}
