//! The shape of a run: it is drawn from the seed, and every field can be set by hand.

use crate::rng::Rng;
use crate::tamper::Tamper;
use hearth_proto::bank::BankPlacement;
use hearth_proto::{
    Allocation, BankAttributes, BankConfig, BankUpdate, CloseRule, Config, NodeId, Policy, Ranges,
    Replicas, Semantics, Span, Spill, Synced,
};

/// Everything that decides a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Chance.
    pub seed: u64,
    /// Operations that sessions begin, closes at the end not counted.
    pub steps: u32,
    /// Nodes of the job.
    pub nodes: u32,
    /// Sessions; each does one operation after another.
    pub sessions: u32,
    /// Files.
    pub files: u32,
    /// Pages of a file that the workload touches.
    pub file_pages: u64,
    /// Which policy.
    pub policy: Policy,
    /// The semantics that are promised of every file.
    pub semantics: Semantics,
    /// The rule that chooses a home.
    pub allocation: Allocation,
    /// The condition that close waits for.
    pub close: CloseRule,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages of a chunk.
    pub chunk_pages: u32,
    /// Frames of each node.
    pub frames: u32,
    /// How reads and writes over several homes are made one.
    pub ranges: Ranges,
    /// Largest store write in bytes.
    pub store_io_bytes: u32,
    /// Write bytes in flight from one node to one home.
    pub window_bytes: u64,
    /// Longest usual delay of a message.
    pub net_delay: Span,
    /// Longest usual delay of a store operation.
    pub store_delay: Span,
    /// Longest usual delay between a session and its agent, and of a revocation.
    pub local_delay: Span,
    /// The store fails now and then.
    pub store_faults: bool,
    /// Connections break and stall now and then.
    pub link_faults: bool,
    /// Packets are lost, doubled and overtaken below the transport, which makes up for it.
    pub packet_faults: bool,
    /// Nodes are cut off from others, one or several at a time.
    pub partitions: bool,
    /// Agents stand still for a while.
    pub pauses: bool,
    /// Agents die and start anew, with nothing; store writes of theirs may come late.
    pub crashes: bool,
    /// With `sync` replicas and shards: reads miss nothing that was acknowledged, or sealed, whoever has died.
    pub strict: bool,
    /// An agent that has died is soon back, and met by the others.
    pub hurries: bool,
    /// Daemons of the bank die, stand still, forget, or cannot be reached by some.
    pub bank_faults: bool,
    /// Daemons and gateways.
    pub bank: BankConfig,
    /// The other nodes that have the bytes that a home has and the store lacks.
    pub replicas: Replicas,
    /// Under policy `local`: each node has a tier.
    pub tier: bool,
    /// The end of a sync for the kernel, if there are tiers; those of a world bring all to the store then.
    pub synced: Synced,
    /// Somebody writes to the store behind the cache.
    pub outside: bool,
    /// Sessions look at attributes, which nodes keep under leave.
    pub looks: bool,
    /// Sessions ask for the attributes of several files at once, as the FUSE front end does in a directory that it lists.
    pub batches: bool,
    /// Under daemons that have attributes: sessions open little, and look at attributes and names or change
    /// them.
    pub only_looks: bool,
    /// Under a policy that delegates: sessions stay with the pages that they have used.
    pub stays: bool,
    /// Agents that died start anew; real ones are refused, so without this they stay away.
    pub returns: bool,
    /// Pages are offered to sessions, which then write them without asking.
    pub offers: bool,
    /// Some reads and writes are part of calls that are larger than the pool.
    pub asides: bool,
    /// Sessions soon close what they open, and have homes hand files over to other nodes.
    pub hands: bool,
    /// Few pages and many sessions, as [`Plan::hot`] has it.
    pub hot: bool,
    /// Views that follow the first.
    pub views: u32,
    /// Nodes without sessions, which come and go with views.
    pub spares: u32,
    /// How the faults were chosen.
    pub trouble: Trouble,
    /// A guard that is broken on purpose, around the kernels.
    pub tamper: Tamper,
    /// A guard that kernels are without. Only canary kernels can be.
    #[cfg(feature = "canary")]
    pub without: Option<hearth_proto::Guard>,
}

/// Which faults a plan may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// None.
    Never,
    /// Of the store and of connections, in some runs.
    Some,
    /// Of every kind; each run has some of them.
    All,
}

impl Plan {
    /// The plan of a seed, with these faults.
    pub fn new(seed: u64, trouble: Trouble) -> Plan {
        let mut plan = Plan::from_seed(seed);
        plan.trouble = trouble;
        let mut rng = Rng::new(seed, 4);
        match trouble {
            Trouble::Never => {
                plan.store_faults = false;
                plan.link_faults = false;
            }
            Trouble::Some => {}
            Trouble::All => {
                let kinds = [
                    &mut plan.store_faults,
                    &mut plan.link_faults,
                    &mut plan.packet_faults,
                    &mut plan.partitions,
                    &mut plan.pauses,
                    &mut plan.crashes,
                    &mut plan.bank_faults,
                ];
                for kind in kinds {
                    *kind |= rng.chance(40);
                }
            }
        }
        plan
    }

    /// The same world where other nodes have, or know of, what homes have: three nodes at least, and of the faults that part
    /// nodes only deaths, which is what replicas are promised for.
    pub fn replicated(self, replicas: Replicas) -> Plan {
        if replicas == Replicas::None || self.policy != Policy::Local {
            return self;
        }
        let faults = self.trouble == Trouble::All;
        // One more than have shards, and a spare for one that is away.
        let nodes = replicas
            .shards()
            .map_or(3, |(data, parity)| (data + parity + 1).max(5));
        Plan {
            replicas,
            nodes: self.nodes.max(nodes as u32),
            sessions: self.sessions.max(nodes as u32 + 1),
            tier: self.tier && replicas.shards().is_none(),
            crashes: faults,
            link_faults: false,
            partitions: false,
            pauses: false,
            ..self
        }
    }

    /// The same world with reads that miss nothing, and agents that are soon back in most.
    pub fn strictly(self) -> Plan {
        Plan {
            strict: true,
            hurries: Rng::new(self.seed, 13).chance(60),
            ..self
        }
    }

    /// The same world with sessions that keep no file open for long, and have homes hand files over: under policy `local`
    /// they do.
    pub fn handing_over(self) -> Plan {
        Plan {
            hands: true,
            ..self
        }
    }

    /// The same world with two sessions on each of three nodes and two pages for all: what rarely meets elsewhere does here.
    pub fn hot(self) -> Plan {
        Plan {
            hot: true,
            nodes: 3,
            sessions: 6,
            files: 1,
            file_pages: 2,
            frames: 64,
            steps: 120,
            semantics: Semantics::Posix,
            outside: false,
            asides: self.seed.is_multiple_of(4),
            ..self
        }
    }

    /// The same world with views that follow each other, and nodes that come and go with them; no node is lost.
    pub fn viewed(self) -> Plan {
        let mut rng = Rng::new(self.seed, 15);
        let spares = rng.below(3) as u32;
        Plan {
            views: rng.within(1, 6) as u32,
            spares,
            nodes: self.nodes + spares,
            link_faults: false,
            partitions: false,
            pauses: false,
            crashes: false,
            ..self
        }
    }

    /// True if the membership says who lives.
    pub fn has_views(&self) -> bool {
        self.views > 0
    }

    /// The same world with views that follow each other, and agents that die.
    pub fn viewed_with_deaths(self) -> Plan {
        Plan {
            crashes: true,
            ..self.viewed()
        }
    }

    /// True if a connection may be given up though both its sides are well.
    pub fn parts_nodes(&self) -> bool {
        self.link_faults || self.partitions || self.pauses || self.crashes
    }

    /// The plan of a seed.
    pub fn from_seed(seed: u64) -> Plan {
        let mut rng = Rng::new(seed, 1);
        let rng = &mut rng;
        let nodes = rng.within(1, 5) as u32;
        Plan {
            seed,
            steps: rng.within(20, 120) as u32,
            nodes,
            sessions: nodes + rng.below(5) as u32,
            files: rng.within(1, 3) as u32,
            file_pages: *rng.pick(&[2, 5, 12, 20]),
            policy: if rng.chance(6) {
                Policy::None
            } else {
                Policy::Home
            },
            semantics: Semantics::Posix,
            allocation: *rng.pick(&[
                Allocation::Slot,
                Allocation::FirstTouch,
                Allocation::RoundRobin,
            ]),
            close: *rng.pick(&[CloseRule::Flushed, CloseRule::Buffered]),
            page_bytes: 16,
            chunk_pages: *rng.pick(&[1, 4]),
            frames: *rng.pick(&[8, 12, 24, 64]),
            ranges: Ranges::default(),
            store_io_bytes: *rng.pick(&[16, 32, 1024]),
            window_bytes: *rng.pick(&[24, 64, 4096]),
            net_delay: *rng.pick(&[Span(10_000), Span::millis(1), Span::millis(40)]),
            store_delay: *rng.pick(&[Span(20_000), Span::millis(2), Span::millis(60)]),
            local_delay: *rng.pick(&[Span(0), Span(5_000), Span::millis(5)]),
            store_faults: rng.chance(25),
            link_faults: rng.chance(25),
            packet_faults: false,
            partitions: false,
            pauses: false,
            crashes: false,
            strict: false,
            hurries: false,
            bank_faults: false,
            bank: bank_of(seed, nodes),
            replicas: Replicas::None,
            tier: Rng::new(seed, 6).chance(50),
            synced: Synced::Store,
            outside: rng.chance(30),
            // From a stream of its own, so that all else of a seed is as if there were no looks.
            looks: Rng::new(seed, 7).chance(60),
            batches: Rng::new(seed, 14).chance(40),
            only_looks: Rng::new(seed, 12).chance(15),
            stays: Rng::new(seed, 8).chance(75),
            returns: true,
            offers: Rng::new(seed, 9).chance(60),
            asides: Rng::new(seed, 11).chance(50),
            hands: false,
            hot: false,
            views: 0,
            spares: 0,
            trouble: Trouble::Some,
            tamper: Tamper::Nothing,
            #[cfg(feature = "canary")]
            without: None,
        }
    }

    /// Configuration of one node.
    pub fn config(&self, me: NodeId) -> Config {
        Config {
            policy: self.policy,
            allocation: self.allocation,
            close: self.close,
            page_bytes: self.page_bytes,
            chunk_pages: self.chunk_pages,
            frames: self.frames,
            ranges: self.ranges,
            store_io_bytes: self.store_io_bytes,
            write_window_bytes: self.window_bytes,
            offers: self.offers,
            bank: self.bank.clone(),
            spill: if self.tier && self.policy == Policy::Local {
                Spill::Tier(self.synced)
            } else {
                Spill::Store
            },
            replicas: self.replicas,
            goes_on: self.has_views(),
            // The membership says who lives.
            give_up_after: match self.views {
                0 => Config::new(me, 1).give_up_after,
                _ => Span::secs(1 << 30),
            },
            #[cfg(feature = "canary")]
            without: self.without,
            ..Config::new(me, self.nodes)
        }
    }

    /// The line that repeats the run.
    pub fn replay(&self) -> String {
        let (seed, steps) = (self.seed, self.steps);
        let policy = self.policy.name();
        let semantics = match self.semantics {
            Semantics::Posix => String::new(),
            other => format!(" --semantics {}", other.name()),
        };
        let ranges = match self.ranges {
            Ranges::Apart => String::new(),
            other => format!(" --ranges {}", other.name()),
        };
        let replicas = match self.replicas {
            Replicas::None => String::new(),
            other => format!(" --replicas {other}"),
        };
        let hands = if self.hands { " --hand-over" } else { "" };
        let choices = format!("--policy {policy}{semantics}{ranges}{replicas}{hands}");
        if self.hot {
            let faults = match self.trouble {
                Trouble::All => " HEARTH_SIM_FAULTS=1",
                Trouble::Some | Trouble::Never => "",
            };
            return format!(
                "HEARTH_SIM_HOT=1{faults} HEARTH_SIM_POLICY={policy} sweep {seed} 1 {steps}"
            );
        }
        match self.trouble {
            Trouble::Some => format!("sweep {seed} 1 {steps}"),
            Trouble::Never => {
                format!("hearth-lab sim step {choices} --seed {seed} --ops {steps}")
            }
            Trouble::All => {
                format!("hearth-lab sim step {choices} --faults --seed {seed} --ops {steps}")
            }
        }
    }
}

/// Daemons of a seed, from a stream of their own.
fn bank_of(seed: u64, nodes: u32) -> BankConfig {
    let mut rng = Rng::new(seed, 5);
    let gateways = match rng.below(3) {
        0 => vec![NodeId(0)],
        1 => (0..nodes.div_ceil(2)).map(NodeId).collect(),
        _ => Vec::new(),
    };
    BankConfig {
        daemons: rng.within(1, 3) as u32,
        placement: *rng.pick(&[BankPlacement::Rendezvous, BankPlacement::Crc32]),
        update: *rng.pick(&[BankUpdate::Thread, BankUpdate::Inline]),
        attributes: *Rng::new(seed, 10).pick(&[BankAttributes::Leave, BankAttributes::Daemons]),
        gateways,
        ..BankConfig::default()
    }
}

/// A delay: short as a rule, sometimes none, seldom very long.
pub(crate) fn delay(rng: &mut Rng, usual: Span) -> Span {
    match rng.below(100) {
        0..10 => Span(0),
        97..100 => Span(usual.0 * 8),
        _ => Span(rng.below(usual.0 + 1)),
    }
}
