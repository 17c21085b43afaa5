//! The agent library, in the words of the command. Nothing else here runs an agent.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use hearth_agent::Residency;
use hearth_agent::net::{Endpoint, Secret};
use hearth_agent::{
    Agent, AgentSettings, AgentStatus, BankSettings, NoViews, OthersUnflushed, StartError, Synced,
    Unflushed, WaitWords,
};
use hearth_client::Session;

use hearth_set::agent::{NodeConfig, backing};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::membership::MembershipChoice;
use hearth_set::options::{Atomic, Balance};
use hearth_set::rules::RuleSpec;

/// Dirty bytes are flushed at this age.
const FLUSH_AGE: Duration = Duration::from_secs(5);

/// A store that takes nothing for so long has failed.
const FLUSH_SPAN_MAX: Duration = Duration::from_secs(120);

/// A running agent.
pub(crate) struct Node(Agent);

impl Node {
    /// Starts it; comes back once every member is connected. `root` is the store's, if that is not at its path.
    pub(crate) fn start(
        config: &NodeConfig,
        secret: Secret,
        root: Option<OwnedFd>,
        (endpoint, waits, lease_alarm): (Endpoint, WaitWords, Option<OwnedFd>),
    ) -> Result<Node, Failure> {
        let secret_file = config.secret_file.clone();
        let config = AgentSettings {
            waits,
            lease_alarm: lease_alarm.map(Arc::new),
            ..translate(config, secret)?
        };
        let what = format!("cannot start agent {}", config.node);
        let started = match root {
            Some(root) => Agent::start_over(config.clone(), root, endpoint),
            None => Agent::start(config.clone(), endpoint),
        };
        let started = started.and_then(|mut agent| {
            agent.follow_views(&config)?;
            Ok(agent)
        });
        started.map(Node).map_err(|error| {
            let hint = way_out(&error, secret_file.as_deref());
            let failure = Failure::new(what).because(error);
            match hint {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        })
    }

    /// Tells this run from others of its agent.
    pub(crate) fn run(&self) -> u64 {
        self.0.run()
    }

    /// The session that a front end talks to.
    pub(crate) fn session(&self) -> Arc<dyn Session> {
        self.0.session()
    }

    /// From now on programs of this user may read the pool themselves.
    pub(crate) fn share(&self) -> std::io::Result<()> {
        self.0.share()
    }

    /// Lends the pool to the program at the other end of a connection.
    pub(crate) fn lend(&self, program: BorrowedFd<'_>) -> std::io::Result<()> {
        self.0.lend(program)
    }

    /// Lends a write ring to the program at the other end of a connection.
    pub(crate) fn lend_write_ring(&self, program: BorrowedFd<'_>) -> std::io::Result<()> {
        self.0.lend_write_ring(program)
    }

    /// From now on all writes come through the mount.
    pub(crate) fn end_write_rings(&self) {
        self.0.end_write_rings();
    }

    /// The store's root, which a mount may hide by now.
    pub(crate) fn store_root(&self) -> Result<OwnedFd, Failure> {
        self.0
            .store_root()
            .or_fail(|| "cannot open the store again".to_owned())
    }

    /// The status for people and for commands.
    pub(crate) fn status(&self) -> AgentStatus {
        self.0.status()
    }

    /// Which bytes of which files are at an agent's node: this one, or another's.
    pub(crate) fn residency_of(&self, agent: u32) -> Result<Residency, Failure> {
        let told = self.0.residency_of(agent);
        told.map_err(|why| Failure::new(why.to_string()))
    }

    /// Sets the scheduler's name of this node.
    pub(crate) fn call(&self, name: String) {
        self.0.call(name);
    }

    /// Sets the path at which the store is shown on this node, if it is in the common tree.
    pub(crate) fn mounted(&self, at: Option<&Path>) {
        self.0.mounted(at.map(|at| at.display().to_string()));
    }

    /// Brings every dirty byte to the store.
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        let flushed = self.0.flush(FLUSH_SPAN_MAX);
        flushed.map_err(|left| causes(Failure::new("cannot flush"), &left))
    }

    /// Has the agents of other hosts do the same.
    pub(crate) fn flush_others(&self) -> Result<(), Failure> {
        self.0
            .flush_others(FLUSH_SPAN_MAX)
            .map_err(|why| match why {
                OthersUnflushed::Silent(node) => Failure::new(format!(
                    "agent {node} does not say whether all it has is in the store"
                ))
                .hint("look at it on its host; `hearth down --force` goes on without its word"),
                OthersUnflushed::Left(node, left) => {
                    causes(Failure::new(format!("agent {node} could not flush")), &left)
                }
            })
    }

    /// The others end as well.
    pub(crate) fn all_end(&self) {
        self.0.all_end();
    }

    /// Leaves the others, which go on.
    pub(crate) fn leave(&self) {
        self.0.leave();
    }

    /// Ends it.
    pub(crate) fn stop(self) {
        self.0.stop();
    }
}

/// Adds the files that keep bytes from the store.
fn causes(failure: Failure, left: &Unflushed) -> Failure {
    left.words().into_iter().fold(failure, Failure::cause)
}

/// The remedy for an agent that others keep apart.
fn way_out(error: &StartError, secret_file: Option<&Path>) -> Option<String> {
    let hint = match error {
        StartError::Secrets { .. } => {
            let file = secret_file?.display();
            return Some(format!(
                "`{file}` must be the same on all hosts: compare it, as by sha256sum"
            ));
        }
        StartError::Anew { .. } | StartError::JoinedAnew { .. } => {
            Some("end the set on all its hosts (`hearth down`), then start it on all of them again")
        }
        StartError::Join { .. } => Some(
            "start it on all hosts with the same --hosts, the same settings and the same secret",
        ),
        StartError::Views(NoViews::NotTaken(_)) => Some(
            "look at `hearth status` of the others; if they wait too, end the set on all hosts (`hearth down`) and start it on all",
        ),
        _ => None,
    };
    hint.map(str::to_owned)
}

/// The name of a job with its settings, so that agents of others can be told which differ. Settings beyond what a name
/// may have are left out.
fn job_of(config: &NodeConfig) -> String {
    let named = format!("{}{}", config.job, config.spec.common());
    match named.len() <= hearth_agent::net::JOB_LEN_MAX {
        true => named,
        false => config.job.clone(),
    }
}

fn translate(config: &NodeConfig, secret: Secret) -> Result<AgentSettings, Failure> {
    let spec = &config.spec;
    let page_bytes = spec.page_size.0.try_into();
    Ok(AgentSettings {
        node: config.node,
        incarnation: config.incarnation,
        succeeds: config.succeeds,
        members: config.members.clone(),
        secret,
        job: job_of(config),
        store_root: config.store.clone(),
        store: backing(&spec.backing)?,
        policy: spec.policy,
        semantics: spec.semantics,
        rules: spec.rules.iter().map(RuleSpec::kernel).collect(),
        allocation: spec.allocation,
        close: spec.close,
        page_bytes: page_bytes.or_fail(|| "the page size is too large".to_owned())?,
        chunk_bytes: spec.chunk.0,
        pool_bytes: spec.pool.0,
        flush_age: FLUSH_AGE,
        kernel_cache: spec.kernel_cache,
        ranges: match spec.atomic {
            Atomic::Page => hearth_agent::Ranges::Apart,
            Atomic::Call => hearth_agent::Ranges::WoundWait,
        },
        job_dir: config.job_dir.clone(),
        join_span: config.join_span,
        waits: WaitWords::default(),
        bank: bank(config)?,
        tier: match &spec.tier {
            Some(tier) => Some(tier.of_agent(&config.store, config.node, spec.replicas)?),
            None => None,
        },
        replicas: spec.replicas,
        balance: spec.balance == Balance::On,
        lease_alarm: None,
        membership: match spec.membership {
            // Settled where a set is started, which knows the hosts.
            MembershipChoice::Auto | MembershipChoice::Static => {
                hearth_agent::MembershipRule::Static
            }
            MembershipChoice::Embedded => hearth_agent::MembershipRule::Embedded {
                lease: spec.lease.0,
            },
        },
        synced: spec.tier.as_ref().map_or(Synced::Store, |tier| tier.fsync),
    })
}

fn bank(config: &NodeConfig) -> Result<Option<BankSettings>, Failure> {
    let Some(spec) = &config.spec.bank else {
        return Ok(None);
    };
    let daemons: Result<_, _> = config.bank.iter().map(|at| at.parse()).collect();
    Ok(Some(BankSettings {
        daemons: daemons.or_fail(|| "cannot understand where the bank is".to_owned())?,
        placement: spec.placement,
        update: spec.update,
        attributes: spec.attributes,
        attributes_last: config.spec.attr_ttl.0,
        gateways: match (&config.spec.store_at, spec.gateways.as_slice()) {
            (Some(at), []) => at.agents.clone(),
            (_, gateways) => gateways.to_vec(),
        },
    }))
}
