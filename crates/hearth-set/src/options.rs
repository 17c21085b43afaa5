//! How a set of agents is to be: what people may say, and what stands where they say nothing.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use hearth_agent::net::{Carrier, NoCarrier};
use hearth_agent::{Allocation, CloseRule, Policy, Replicas, Semantics};
use hearth_client::words::counted;
use serde::{Deserialize, Serialize};

use crate::agent;
use crate::bank::{BankArgs, BankSpec};
use crate::failure::Failure;
use crate::membership::{self, MembershipChoice};
use crate::memory;
use crate::replicas;
use crate::rules::{self, RuleSpec};
use crate::size::{HumanDuration, Size};
use crate::store_at::StoreAt;
use crate::tier::{TierArgs, TierSpec};
use crate::typed::parser;

/// Fewer pages than this leave no room for reading ahead beside what is dirty.
const POOL_PAGES_MIN: u64 = 32;

/// Block of a bank, unless told otherwise.
const BLOCK_SIZE: Size = Size(16 << 10);

/// More agents than this on one machine are a mistake.
const AGENTS_MAX: u32 = 256;

/// The options of the command line about a set.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Cache")]
pub struct SetArgs {
    /// Agents on this machine [default: 1]
    #[arg(long, value_name = "N")]
    pub agents: Option<u32>,
    /// One of home, home:plus, hint, single, local, bank, none [default: home]
    ///
    /// The rule for which memories may hold which bytes; docs/semantics.md says what each policy promises.
    #[arg(
        long,
        value_name = "P",
        value_parser = parser::<Policy>(),
        hide_possible_values = true
    )]
    pub policy: Option<Policy>,
    /// Promise for each file: posix, mpi-atomic, mpi, cto, commit or job [default: posix]
    ///
    /// A file's attribute `user.hearth.semantics` says otherwise of that file, and so does a rule.
    #[arg(
        long,
        value_name = "LEVEL",
        value_parser = parser::<Semantics>(),
        hide_possible_values = true,
        hide_short_help = true
    )]
    pub semantics: Option<Semantics>,
    /// Atomic unit of a read or write: each page, or the whole call [default: page]
    ///
    /// With `call` no read shows a part of a write over several pages, at the price of another message to
    /// each home where the pages have several. Files of level `mpi-atomic` have it in any case.
    #[arg(
        long,
        value_name = "WHAT",
        hide_possible_values = true,
        hide_short_help = true
    )]
    pub atomic: Option<Atomic>,
    /// Exceptions for some files: lines of a pattern, a policy and a level
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub rules: Option<PathBuf>,
    /// Memory of each agent, or a share of the host's: 10% [default: 256MiB]
    ///
    /// A share is of the memory that the control group of the command may have, where that is less.
    #[arg(long, value_name = "SIZE", value_parser = memory::pool)]
    pub pool: Option<Size>,
    /// Unit of coherence, a power of two from 4KiB to 4MiB [default: 256KiB]
    ///
    /// In a bank, from 256B to 1MiB [default: 16KiB].
    #[arg(long, value_name = "SIZE")]
    pub page_size: Option<Size>,
    /// Unit of placement, whole pages [default: 8MiB]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub chunk: Option<Size>,
    /// Rule by which a chunk gets its home [default: slot]
    #[arg(
        long,
        value_name = "HOW",
        value_parser = parser::<Allocation>(),
        hide_short_help = true
    )]
    pub allocation: Option<Allocation>,
    /// Transport between agents: tcp, unix, shm, udp or udt [default: unix]
    ///
    /// Over unix and shm agents of one host share a socket or memory, and others use TCP. With --way-in mpiio:
    /// shm, unix, tcp or mpi [default: shm].
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub transport: Option<TransportName>,
    /// Wait at close: flushed, or buffered for none [default: flushed]
    #[arg(
        long,
        value_name = "RULE",
        value_parser = parser::<CloseRule>(),
        hide_possible_values = true
    )]
    pub close: Option<CloseRule>,
    /// Kind of store: posix, model[:OPTION=N,...] or fault:PLAN [default: posix]
    #[arg(long, value_name = "KIND", hide_short_help = true)]
    pub backing: Option<String>,
    /// Agents whose hosts have the store; the others reach it through these [default: all]
    ///
    /// With --hosts, and a port at which they listen for that.
    #[arg(long, value_name = "I,J[:PORT]", hide_short_help = true)]
    pub store_at: Option<StoreAt>,
    /// How long names and attributes may be stale [default: 1s]
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    pub attr_ttl: Option<HumanDuration>,
    /// Let other users in; only root can
    #[arg(
        long,
        value_name = "on|off",
        value_parser = BoolishValueParser::new(),
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "on",
        hide_possible_values = true,
        hide_short_help = true
    )]
    pub allow_other: Option<bool>,
    /// Replicas of written bytes until the store has them: none, async[:K] or sync[:K] at K other agents, or
    /// erasure[:K,M] [default: none]
    ///
    /// Policy local. With `sync` a write returns when K others have it, or the store has. The bytes outlive the death
    /// of one agent at a time. With `async` the others are sent the bytes afterwards, and `hearth status` names a loss.
    /// With `erasure` a close returns when K+M agents (4+2 unless told otherwise) have shards of the written bytes, or
    /// the store has them. The bytes outlive M of the agents.
    #[arg(
        long,
        value_name = "R",
        value_parser = replicas::parse,
        hide_short_help = true
    )]
    pub replicas: Option<Replicas>,
    /// Whether files go from agents whose memory is full to others with room: on or off [default: on]
    ///
    /// Policy local, without tiers. Only files that nobody has open go, before their pages would be dropped.
    #[arg(
        long,
        value_name = "on|off",
        hide_short_help = true,
        hide_possible_values = true
    )]
    pub balance: Option<Balance>,
    /// The way to tell which agents are members: auto, static or embedded [default: auto]
    ///
    /// With `embedded` the agents decide by majority, and go on without one that dies: writes wait for some seconds. One that
    /// is started again joins. Not with --store-at.
    /// `static` is the list that agents are started with. An agent that dies is missed until the set is started anew.
    /// `auto` is `embedded` for three agents and more where that can be, and `static` elsewhere.
    #[arg(
        long,
        value_name = "HOW",
        hide_short_help = true,
        hide_possible_values = true
    )]
    pub membership: Option<MembershipChoice>,
    /// The least time that the death of an agent stops writes for, where the others go on [default: 4s]
    ///
    /// An agent that stands still for longer, and that others need, is excluded. From 1s to 1m.
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    pub lease: Option<HumanDuration>,
    /// Options of a bank.
    #[command(flatten)]
    pub bank: BankArgs,
    /// Options of tiers.
    #[command(flatten)]
    pub tier: TierArgs,
}

/// Whether files go to agents with room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// They do.
    #[default]
    On,
    /// They do not.
    Off,
}

/// Says on standard error what a policy gives up.
pub fn warn_of(policy: Policy) {
    if let Some(warning) = warning(policy) {
        hearth_client::say!("hearth: {warning}");
    }
}

/// The warning about a policy that is known to be wrong: it names the guarantee that the policy gives up.
fn warning(policy: Policy) -> Option<&'static str> {
    match policy {
        Policy::HintPaper => Some(
            "policy hint:paper is for comparison only: a read under way when another node writes, or \
             soon after, can leave old bytes in a node's memory for ever (`hint` does not)",
        ),
        Policy::BankPaper => Some(
            "policy bank:paper is for comparison only: a read after a write, or while a daemon is cut \
             off, can return old bytes (`bank` does not)",
        ),
        Policy::Home
        | Policy::HomePlus
        | Policy::Hint
        | Policy::Single
        | Policy::Local
        | Policy::Bank
        | Policy::None => None,
    }
}

/// The unit of a read or write that takes effect at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Atomic {
    /// Each page by itself.
    #[default]
    Page,
    /// All that reaches the agent as one.
    Call,
}

impl fmt::Display for Atomic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Atomic::Page => "page",
            Atomic::Call => "call",
        })
    }
}

/// The users that may enter a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Others {
    /// Only the user that mounts.
    Refused,
    /// Everybody, each under their own rights.
    Allowed,
}

/// The transport between agents, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum TransportName {
    /// A transport that any process can have.
    Of(Carrier),
    /// MPI, between ranks of one job.
    Mpi,
}

const MPI: &str = "mpi";

impl Default for TransportName {
    fn default() -> TransportName {
        TransportName::Of(Carrier::default())
    }
}

impl TransportName {
    /// The carrier between agents of nodes.
    pub fn of_nodes(self) -> Result<Carrier, Failure> {
        match self {
            TransportName::Of(carrier) => Ok(carrier),
            TransportName::Mpi => Err(Failure::new(
                "agents of nodes cannot talk over MPI".to_owned(),
            )
            .hint(
                "take another transport, or `hearth run --way-in mpiio`, whose agents are ranks",
            )),
        }
    }

    /// The transport between the agents inside of ranks, by its name.
    pub fn of_ranks(self) -> Result<String, Failure> {
        match self {
            TransportName::Of(Carrier::Datagrams(service)) => Err(Failure::new(format!(
                "cannot run ranks over {}: shm, unix, tcp or mpi",
                Carrier::Datagrams(service)
            ))),
            TransportName::Of(_) | TransportName::Mpi => Ok(self.to_string()),
        }
    }
}

impl FromStr for TransportName {
    type Err = NoCarrier;

    fn from_str(name: &str) -> Result<TransportName, NoCarrier> {
        match name {
            MPI => Ok(TransportName::Mpi),
            other => other.parse().map(TransportName::Of),
        }
    }
}

impl fmt::Display for TransportName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransportName::Of(carrier) => carrier.fmt(f),
            TransportName::Mpi => f.write_str(MPI),
        }
    }
}

impl From<TransportName> for String {
    fn from(transport: TransportName) -> String {
        transport.to_string()
    }
}

impl TryFrom<String> for TransportName {
    type Error = NoCarrier;

    fn try_from(name: String) -> Result<TransportName, NoCarrier> {
        name.parse()
    }
}

/// A set, with nothing left open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetSpec {
    /// Agents, on one machine or as many as there are hosts.
    pub agents: u32,
    /// The policy of the set.
    #[serde(with = "crate::typed")]
    pub policy: Policy,
    /// The promise for a file of which nothing else is said.
    #[serde(default, with = "crate::typed")]
    pub semantics: Semantics,
    /// The atomic unit of a read or write.
    #[serde(default)]
    pub atomic: Atomic,
    /// The first that fits a file counts.
    #[serde(default)]
    pub rules: Vec<RuleSpec>,
    /// Memory of each agent.
    pub pool: Size,
    /// Unit of coherence.
    pub page_size: Size,
    /// Unit of placement.
    pub chunk: Size,
    /// The rule by which a chunk gets its home.
    #[serde(with = "crate::typed")]
    pub allocation: Allocation,
    /// The transport between agents.
    #[serde(default)]
    pub transport: TransportName,
    /// The event that close waits for.
    #[serde(with = "crate::typed")]
    pub close: CloseRule,
    /// Kind of store, as it is typed.
    pub backing: String,
    /// Agents whose hosts have the store; none said: all.
    #[serde(default)]
    pub store_at: Option<StoreAt>,
    /// How long names and attributes may be stale.
    pub attr_ttl: HumanDuration,
    /// The users that may enter a mount.
    pub others: Others,
    /// Benchmarks alone: behave as the store's own mount would, kernel cache and all.
    #[serde(default)]
    pub kernel_cache: bool,
    /// The daemons, under a policy that has any.
    #[serde(default)]
    pub bank: Option<BankSpec>,
    /// The replicas of written bytes until the store has them.
    #[serde(default, with = "crate::replicas")]
    pub replicas: Replicas,
    /// Whether files go to agents with room.
    #[serde(default)]
    pub balance: Balance,
    /// The way to tell which agents are members.
    #[serde(default)]
    pub membership: MembershipChoice,
    /// The term of leases, if members may change.
    #[serde(default = "membership::usual_lease")]
    pub lease: HumanDuration,
    /// The tiers, under policy `local`.
    #[serde(default)]
    pub tier: Option<TierSpec>,
}

impl Default for SetSpec {
    fn default() -> SetSpec {
        SetSpec {
            agents: 1,
            policy: Policy::Home,
            semantics: Semantics::Posix,
            atomic: Atomic::Page,
            rules: Vec::new(),
            pool: Size(256 << 20),
            page_size: Size(256 << 10),
            chunk: Size(8 << 20),
            allocation: Allocation::Slot,
            transport: TransportName::default(),
            close: CloseRule::Flushed,
            backing: "posix".to_owned(),
            store_at: None,
            attr_ttl: HumanDuration(std::time::Duration::from_secs(1)),
            others: Others::Refused,
            kernel_cache: false,
            bank: None,
            replicas: Replicas::default(),
            balance: Balance::default(),
            membership: MembershipChoice::default(),
            lease: membership::usual_lease(),
            tier: None,
        }
    }
}

impl SetArgs {
    /// Fills in the defaults and refuses what cannot work.
    pub fn resolve(&self) -> Result<SetSpec, Failure> {
        let mut spec = self.described();
        if let Some(option) = self.tier.astray() {
            let what = format!("{option} says something of a tier, and there is none");
            return Err(Failure::new(what).hint("--tier DIR"));
        }
        self.check_heeded(&spec)?;
        if let Some(path) = &self.rules {
            spec.rules = rules::read(path, spec.policy)?;
        }
        spec.check()?;
        warn_of(spec.policy);
        Ok(spec)
    }

    /// The set with its defaults, whether or not it can be.
    pub fn described(&self) -> SetSpec {
        let mut spec = self.over(SetSpec::default());
        if spec.policy.has_bank() {
            spec.bank = Some(self.bank.over(BankSpec::default()));
            spec.page_size = self.page_size.unwrap_or(BLOCK_SIZE);
        }
        spec
    }

    /// Refuses what was said and would change nothing.
    fn check_heeded(&self, spec: &SetSpec) -> Result<(), Failure> {
        let policy = spec.policy;
        let heeds = match self.allocation {
            None | Some(Allocation::Slot) => true,
            Some(Allocation::FirstTouch) if policy.has_bank() => true,
            Some(_) => matches!(policy, Policy::Home | Policy::HomePlus),
        };
        if !heeds {
            let what = format!("policy {policy} says by itself who is the home of a chunk");
            return Err(Failure::new(what).hint("leave --allocation out, or --policy home"));
        }
        if self.lease.is_some() && !spec.may_have_leases() {
            let what = "agents whose members are fixed have no leases";
            return Err(Failure::new(what).hint("leave --lease out"));
        }
        if self.balance == Some(Balance::On) && (policy != Policy::Local || spec.tier.is_some()) {
            let what = "files go to agents with room under policy local without tiers alone";
            return Err(Failure::new(what).hint("leave --balance out"));
        }
        Ok(())
    }

    /// The set that the options describe, with `base` where they say nothing.
    fn over(&self, base: SetSpec) -> SetSpec {
        SetSpec {
            agents: self.agents.unwrap_or(base.agents),
            policy: self.policy.unwrap_or(base.policy),
            semantics: self.semantics.unwrap_or(base.semantics),
            atomic: self.atomic.unwrap_or(base.atomic),
            rules: base.rules,
            pool: self.pool.unwrap_or(base.pool),
            page_size: self.page_size.unwrap_or(base.page_size),
            chunk: self.chunk.unwrap_or(base.chunk),
            allocation: self.allocation.unwrap_or(base.allocation),
            transport: self.transport.unwrap_or(base.transport),
            close: self.close.unwrap_or(base.close),
            backing: self.backing.clone().unwrap_or(base.backing),
            store_at: self.store_at.clone().or(base.store_at),
            attr_ttl: self.attr_ttl.unwrap_or(base.attr_ttl),
            others: match self.allow_other {
                Some(true) => Others::Allowed,
                Some(false) => Others::Refused,
                None => base.others,
            },
            kernel_cache: base.kernel_cache,
            bank: self.bank_over(base.bank),
            replicas: self.replicas.unwrap_or(base.replicas),
            balance: self.balance.unwrap_or(base.balance),
            membership: base.membership.unless(self.membership),
            lease: self.lease.unwrap_or(base.lease),
            tier: self.tier.over(base.tier),
        }
    }

    fn bank_over(&self, base: Option<BankSpec>) -> Option<BankSpec> {
        match base {
            None if self.bank.is_silent() => None,
            base => Some(self.bank.over(base.unwrap_or_default())),
        }
    }

    /// The first thing that was said and that a set is not; what was not said fits every set.
    pub fn conflict(&self, up: &SetSpec) -> Option<String> {
        up.differences(&self.over(up.clone())).into_iter().next()
    }
}

impl SetSpec {
    fn check(&self) -> Result<(), Failure> {
        self.check_membership()?;
        self.check_agents()?;
        self.check_sizes()?;
        self.check_bank()?;
        self.check_store_at()?;
        if self.tier.is_some() && self.policy != Policy::Local {
            let what = format!("policy {} has no tiers", self.policy);
            return Err(Failure::new(what).hint("--policy local"));
        }
        replicas::check(self.replicas, self.policy, self.tier.is_some())?;
        if self.others == Others::Allowed && !rustix::process::geteuid().is_root() {
            return Err(Failure::new("cannot let other users in: only root can"));
        }
        agent::check_backing(&self.backing)
    }

    fn check_agents(&self) -> Result<(), Failure> {
        match self.agents {
            0 => Err(Failure::new("cannot start a set of no agents").hint("--agents 1")),
            1..=AGENTS_MAX => Ok(()),
            many => Err(Failure::new(format!(
                "cannot start {many} agents on one machine: at most {AGENTS_MAX}"
            ))),
        }
    }

    fn check_bank(&self) -> Result<(), Failure> {
        let Some(bank) = &self.bank else {
            return Ok(());
        };
        if !self.policy.has_bank() {
            let what = format!("policy {} has no bank", self.policy);
            return Err(Failure::new(what).hint("--policy bank"));
        }
        match bank.gateways.iter().find(|node| **node >= self.agents) {
            // Agents of several hosts are counted by their list.
            Some(node) if self.agents > 1 => Err(Failure::new(format!(
                "gateway {node} is not among {}, which are numbered from 0",
                counted(self.agents, "agent")
            ))),
            Some(_) | None => Ok(()),
        }
    }

    fn check_store_at(&self) -> Result<(), Failure> {
        let Some(at) = &self.store_at else {
            return Ok(());
        };
        if self.policy == Policy::None {
            let what = "policy none leaves all to the store, which not every agent has";
            return Err(Failure::new(what).hint("--policy home, or bank"));
        }
        if let Some(node) = at.agents.iter().find(|node| **node >= self.agents)
            && self.agents > 1
        {
            return Err(Failure::new(format!(
                "agent {node}, which is to have the store, is not among {}, numbered from 0",
                self.agents
            )));
        }
        let gateways = self.bank.iter().flat_map(|bank| &bank.gateways);
        match gateways.copied().find(|node| !at.has(*node)) {
            Some(node) => Err(Failure::new(format!(
                "agent {node} cannot be a gateway: its host does not have the store"
            ))),
            None => Ok(()),
        }
    }

    fn check_sizes(&self) -> Result<(), Failure> {
        let (page, chunk, pool) = (self.page_size.0, self.chunk.0, self.pool.0);
        let (pages, bounds) = match self.bank {
            None => (4 << 10..=4 << 20, "4 KiB to 4 MiB"),
            Some(_) => (256..=1 << 20, "256 B to 1 MiB, as a bank takes it"),
        };
        if !page.is_power_of_two() || !pages.contains(&page) {
            let what = format!("page size {} is no power of two", self.page_size);
            return Err(Failure::new(format!("{what} from {bounds}")));
        }
        if chunk == 0 || !chunk.is_multiple_of(page) {
            let what = format!("chunk {} is not a number of whole pages", self.chunk);
            return Err(Failure::new(format!("{what} of {}", self.page_size)));
        }
        if !pool.is_multiple_of(page) || pool / page < POOL_PAGES_MIN {
            let least = Size(page * POOL_PAGES_MIN);
            let what = format!("pool {} does not hold {POOL_PAGES_MIN}", self.pool);
            return Err(
                Failure::new(format!("{what} or more whole pages of {}", self.page_size))
                    .hint(format!("--pool {}", least.to_string().replace(' ', ""))),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(args: &SetArgs) -> String {
        args.resolve().unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let args = SetArgs::default();
        assert_eq!(args.resolve().unwrap(), SetSpec::default());
        let agents = Some(0);
        let text = refusal(&SetArgs {
            agents,
            ..args.clone()
        });
        assert!(text.contains("no agents"), "{text}");
        let pool = Some(Size(1 << 20));
        let text = refusal(&SetArgs {
            pool,
            ..args.clone()
        });
        assert!(text.ends_with("hint: --pool 8MiB"), "{text}");
        let page_size = Some(Size(3000));
        let text = refusal(&SetArgs {
            page_size,
            ..args.clone()
        });
        assert!(text.contains("no power of two"), "{text}");
        let chunk = Some(Size(300 << 10));
        let text = refusal(&SetArgs {
            chunk,
            ..args.clone()
        });
        assert!(text.contains("whole pages"), "{text}");
        let backing = Some("nfs".to_owned());
        let text = refusal(&SetArgs { backing, ..args });
        assert!(text.contains("unknown store `nfs`"), "{text}");
    }

    #[test]
    fn only_what_was_said_can_conflict() {
        let up = SetSpec {
            policy: Policy::None,
            ..SetSpec::default()
        };
        assert_eq!(SetArgs::default().conflict(&up), None);
        let asked = SetArgs {
            policy: Some(Policy::Home),
            ..SetArgs::default()
        };
        assert_eq!(
            asked.conflict(&up).as_deref(),
            Some("it has policy none, not home")
        );
        let asked = SetArgs {
            atomic: Some(Atomic::Call),
            ..SetArgs::default()
        };
        assert_eq!(
            asked.conflict(&up).as_deref(),
            Some("it has atomic page, not call")
        );
    }
}
