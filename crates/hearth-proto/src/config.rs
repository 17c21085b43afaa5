//! Settings that are fixed for the life of a node.

use crate::bank::{BankPlacement, Daemon, Key};
use crate::ids::{FileId, NodeId, View};
use crate::semantics::Semantics;
use crate::time::Span;
use alloc::vec::Vec;

/// Which policy a node runs: a name for [`Rules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Every request goes to the store; no client cache, as PVFS had none.
    None,
    /// Each page has a home that serves it, remembers its readers and gathers its writes
    /// (Coopc-PVFS, ICCS 2005, section 4).
    Home,
    /// As [`Policy::Home`], with three additions. A node that alone uses a page writes it by itself. The
    /// bytes that a node wrote are pushed to those that read them before. A home that has evicted a page asks
    /// a node that it gave a copy before it reads the store.
    HomePlus,
    /// Each node fills what it reads from a peer that may have it, or from the store; a write goes
    /// through to the store within a window in which nobody else keeps the range (section 3.2).
    Hint,
    /// As [`Policy::Hint`], with nothing between the invalidation and the write, as it was published:
    /// nodes can keep old bytes for ever.
    HintPaper,
    /// Each page is in the memory of one node, the one that touched it first or that read and overwrote it last;
    /// page `p` is kept track of by node `p mod n` (Liao et al., section 3).
    Single,
    /// All of a file is held by its writer, and close waits for nothing; a file that nobody has open
    /// moves to its next writer (HyCache+, section 3).
    Local,
    /// Blocks are in memcached daemons beside the job, which readers ask first; a gateway for each
    /// block takes the writes and alone touches the store (IMCa).
    Bank,
    /// As [`Policy::Bank`], as it was published: a write is answered before the bank is brought up to
    /// date, and a daemon that cannot be reached is given up on. Reads can return old bytes.
    BankPaper,
}

/// The decisions of a policy; the machines look at nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// The place that requests go to.
    pub served: Served,
    /// The node that is the home of a page.
    pub authorities: Authorities,
    /// The unit that has one home.
    pub grain: Grain,
    /// The places other than its home where a page may be in memory.
    pub copies: Copies,
    /// The party that a home asks for a page that it has evicted.
    pub evicted: Evicted,
    /// The node that writes a page by itself.
    pub delegates: Delegates,
    /// When pages go to nodes that have not asked for them.
    pub pushes: Pushes,
    /// The condition for the acknowledgement of a write.
    pub writes: Writes,
    /// The condition that close waits for, if that is no choice.
    pub close: Option<CloseRule>,
    /// How daemons beside the job are kept in step, if there are any.
    pub bank: Option<BankRules>,
}

/// How daemons are kept in step with the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BankRules {
    /// The condition that the answer to a write waits for.
    pub answer: BankAnswer,
    /// The fate of an entry that cannot be deleted.
    pub unreachable: Unreachable,
}

/// The condition that the answer to a write waits for beside the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BankAnswer {
    /// The daemons' entries are gone.
    Gone,
    /// Nothing; entries are replaced afterwards.
    Store,
}

/// The fate of entries in a daemon that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unreachable {
    /// They count until every client has confirmed that it asks for them no more, or cannot.
    Lease,
    /// They are taken for gone.
    GiveUp,
}

/// The place that requests of sessions go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Served {
    /// To the store, one for one.
    Store,
    /// To the cache.
    Cache,
}

/// The node that is the home of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Authorities {
    /// One node, the same for everybody.
    Placed,
    /// For each node it is that node: as many homes as readers.
    Each,
}

/// The unit that has one home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grain {
    /// A run of pages; [`Allocation`] says who that is.
    Chunk,
    /// A page: the node that touches it first, for the life of the file.
    Page,
    /// A file: the node that opens it first, or that opens it for writing while nobody has it open.
    File,
}

/// The places other than its home where a page may be in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Copies {
    /// Wherever it was read.
    Many,
    /// Nowhere: others get bytes for one use.
    One,
}

/// The party that a home asks for a page that it has evicted and others have copies of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Evicted {
    /// The store.
    Store,
    /// A node that it gave a copy, and then the store.
    Readers,
}

/// The node that writes a page by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delegates {
    /// Its home.
    Never,
    /// The node that alone uses it, until the home calls the page back.
    Sole,
    /// A node that has read a page and overwrites all of it, until the home calls it back: it moves from one
    /// to the next. Others read it there.
    Overwriter,
}

/// When pages go to nodes that have not asked for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pushes {
    /// Never.
    Never,
    /// When their writer closes or syncs, to those that had read them before it wrote.
    AtFlush,
}

/// The condition for the acknowledgement of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Writes {
    /// Its home has gathered it, and nobody holds an older copy.
    Behind,
    /// The store has it; until then nobody takes the range into memory.
    Through,
    /// The store has it; old copies were dropped before it was written, and that is all.
    ThroughUnguarded,
    /// Its home has written it to the store, and no older entry is left in a daemon.
    AtGateway,
}

impl Policy {
    /// All policies, by the names that people type.
    pub const NAMES: &[(&str, Policy)] = &[
        ("none", Policy::None),
        ("home", Policy::Home),
        ("home:plus", Policy::HomePlus),
        ("hint", Policy::Hint),
        ("hint:paper", Policy::HintPaper),
        ("single", Policy::Single),
        ("local", Policy::Local),
        ("bank", Policy::Bank),
        ("bank:paper", Policy::BankPaper),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let mut named = Policy::NAMES.iter().filter(|(_, known)| *known == self);
        named.next().map_or("?", |&(name, _)| name)
    }

    /// The policy of a name.
    pub fn by_name(name: &str) -> Option<Policy> {
        let mut named = Policy::NAMES.iter().filter(|(known, _)| *known == name);
        named.next().map(|&(_, policy)| policy)
    }

    /// True if blocks are in daemons beside the job.
    pub fn has_bank(self) -> bool {
        self.rules().bank.is_some()
    }

    /// The decisions of the policy.
    pub fn rules(self) -> Rules {
        let home = Rules {
            served: Served::Cache,
            authorities: Authorities::Placed,
            grain: Grain::Chunk,
            copies: Copies::Many,
            evicted: Evicted::Store,
            delegates: Delegates::Never,
            pushes: Pushes::Never,
            writes: Writes::Behind,
            close: None,
            bank: None,
        };
        let bank = |answer, unreachable| Rules {
            copies: Copies::One,
            writes: Writes::AtGateway,
            bank: Some(BankRules {
                answer,
                unreachable,
            }),
            ..home
        };
        let hint = Rules {
            authorities: Authorities::Each,
            writes: Writes::Through,
            ..home
        };
        match self {
            Policy::None => Rules {
                served: Served::Store,
                ..home
            },
            Policy::Home => home,
            Policy::HomePlus => Rules {
                evicted: Evicted::Readers,
                delegates: Delegates::Sole,
                pushes: Pushes::AtFlush,
                ..home
            },
            Policy::Hint => hint,
            Policy::HintPaper => Rules {
                writes: Writes::ThroughUnguarded,
                ..hint
            },
            Policy::Single => Rules {
                grain: Grain::Page,
                copies: Copies::One,
                delegates: Delegates::Overwriter,
                ..home
            },
            Policy::Local => Rules {
                grain: Grain::File,
                close: Some(CloseRule::Buffered),
                ..home
            },
            Policy::Bank => bank(BankAnswer::Gone, Unreachable::Lease),
            Policy::BankPaper => bank(BankAnswer::Store, Unreachable::GiveUp),
        }
    }
}

impl core::fmt::Display for Policy {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        to.write_str(self.name())
    }
}

/// How reads and writes of pages that have several homes are made one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ranges {
    /// They are not: each home's part by itself.
    #[default]
    Apart,
    /// Home after home, each locking all of a run before the next is asked.
    SeqHome,
    /// All homes at once; the younger of two that meet gives way (wound-wait).
    WoundWait,
}

impl Ranges {
    /// All of them, by the names that people type.
    pub const NAMES: &[(&str, Ranges)] = &[
        ("apart", Ranges::Apart),
        ("home", Ranges::SeqHome),
        ("wound-wait", Ranges::WoundWait),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Ranges::Apart => "apart",
            Ranges::SeqHome => "home",
            Ranges::WoundWait => "wound-wait",
        }
    }

    /// The one of a name.
    pub fn by_name(name: &str) -> Option<Ranges> {
        let mut named = Ranges::NAMES.iter().filter(|(known, _)| *known == name);
        named.next().map(|&(_, ranges)| ranges)
    }
}

/// The node that becomes the home of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Allocation {
    /// The owner of the chunk's slot: a pure function of file, chunk and members.
    Slot,
    /// The first node that asks the manager for the chunk; never changes after.
    FirstTouch,
    /// The manager deals the chunks out in turn; never changes after.
    RoundRobin,
}

/// The condition that `close(2)` waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseRule {
    /// The bytes written here are in the store.
    Flushed,
    /// Nothing: bytes stay gathered at their homes until a flush trigger.
    Buffered,
}

/// The place that a home's dirty bytes go to when they are flushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Spill {
    /// To the store.
    #[default]
    Store,
    /// To a tier of this node, which brings them to the store when a flush is asked for, before a cut,
    /// and at leisure.
    Tier(Synced),
}

/// The promise of fsync with a tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Synced {
    /// The store's fsync.
    #[default]
    Store,
    /// The tier's: the bytes survive the node's restart, not the loss of its disk.
    Tier,
}

/// The other nodes that have the bytes that a home has and the store lacks, and the time at which a write is
/// acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Replicas {
    /// Nobody, and nobody else knows of them.
    #[default]
    None,
    /// So many other nodes are sent them afterwards; that the file has such bytes they know before a write is
    /// acknowledged.
    Async(u8),
    /// So many other nodes, before a write is acknowledged; or the store, where there are not so many.
    Sync(u8),
    /// Nobody before a node closes the file. Then the bytes that it wrote are cut into so many data shards.
    /// These and so many parity shards are on as many nodes, its home among them, before the close is
    /// answered; or the store has the bytes, if there are not so many nodes. As many nodes as there are
    /// parity shards may go.
    Erasure(u8, u8),
}

impl Replicas {
    /// Most nodes that may be asked for, and most shards of a kind.
    pub const MOST: u8 = 8;

    /// How many other nodes are to have the bytes.
    pub fn copies(self) -> usize {
        match self {
            Replicas::None => 0,
            Replicas::Async(copies) | Replicas::Sync(copies) => usize::from(copies),
            Replicas::Erasure(data, parity) => usize::from(data) + usize::from(parity) - 1,
        }
    }

    /// How many data and parity shards there are, if there are any.
    pub fn shards(self) -> Option<(usize, usize)> {
        match self {
            Replicas::Erasure(data, parity) => Some((usize::from(data), usize::from(parity))),
            Replicas::None | Replicas::Async(_) | Replicas::Sync(_) => None,
        }
    }

    /// The one of a name that people type: `none`, `async[:K]`, `sync[:K]` or `erasure[:K,M]`.
    pub fn by_name(name: &str) -> Option<Replicas> {
        let (kind, copies) = name.split_once(':').unwrap_or((name, "1"));
        if kind == "erasure" {
            let shards = name.split_once(':').map_or("4,2", |(_, shards)| shards);
            let (data, parity) = shards.split_once(',')?;
            let most = 1..=Replicas::MOST;
            let number = |text: &str| text.parse().ok().filter(|count| most.contains(count));
            return Some(Replicas::Erasure(number(data)?, number(parity)?));
        }
        let copies = copies.parse().ok();
        let copies = copies.filter(|copies| (1..=Replicas::MOST).contains(copies))?;
        match kind {
            "none" if name == kind => Some(Replicas::None),
            "async" => Some(Replicas::Async(copies)),
            "sync" => Some(Replicas::Sync(copies)),
            _ => None,
        }
    }
}

impl core::fmt::Display for Replicas {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Replicas::None => to.write_str("none"),
            Replicas::Async(copies) => write!(to, "async:{copies}"),
            Replicas::Sync(copies) => write!(to, "sync:{copies}"),
            Replicas::Erasure(data, parity) => write!(to, "erasure:{data},{parity}"),
        }
    }
}

/// When a daemon is given the new bytes of a block that was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BankUpdate {
    /// After the write was answered: the update thread of IMCa.
    #[default]
    Thread,
    /// Before.
    Inline,
}

/// The place to look for attributes before the store is asked. Read under policy `bank` alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BankAttributes {
    /// In the memory of the node, under leave of the file's manager.
    #[default]
    Leave,
    /// In daemons, as IMCa has it; a node keeps those alone which it was first to look at.
    Daemons,
}

/// The daemons of a job and its gateways. Read under policy `bank` alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BankConfig {
    /// How many daemons there are; each is named by its place in the list that all nodes are given.
    pub daemons: u32,
    /// How blocks are spread over them.
    pub placement: BankPlacement,
    /// When a daemon is given the new bytes of a block that was written.
    pub update: BankUpdate,
    /// The place to look for attributes.
    pub attributes: BankAttributes,
    /// Nodes that are gateways, ascending; none named: every node.
    pub gateways: Vec<NodeId>,
    /// How long a client may ask daemons without a word from the block's gateway. A write whose
    /// daemon and a client are both cut off waits for so long.
    pub lease: Span,
    /// An earlier life of this node may have given leases that last.
    pub rejoins: bool,
}

impl Default for BankConfig {
    fn default() -> BankConfig {
        BankConfig {
            daemons: 0,
            placement: BankPlacement::Rendezvous,
            update: BankUpdate::Thread,
            attributes: BankAttributes::Leave,
            gateways: Vec::new(),
            lease: Span::secs(5),
            rejoins: false,
        }
    }
}

/// Sizes, bounds and choices of one node. All nodes of a job must agree on every field but `me`,
/// `incarnation`, `frames`, `rejoins` and the bank's `rejoins`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// This node.
    pub me: NodeId,
    /// Which life of this node this is; larger than any before.
    pub incarnation: u64,
    /// Number of nodes of the job, members or not.
    pub nodes: u32,
    /// Version of the membership that this kernel lives in.
    pub view: View,
    /// Other kernels follow this one, each in another view.
    pub goes_on: bool,
    /// The members in that view, ascending; none named: every node.
    pub members: Vec<NodeId>,
    /// Policy of every file.
    pub policy: Policy,
    /// The rule that chooses a home.
    pub allocation: Allocation,
    /// The condition that close waits for.
    pub close: CloseRule,
    /// Bytes of a page; a power of two, 4 KiB to 4 MiB. Under policy `bank` a page is a block of
    /// 256 B to 1 MiB.
    pub page_bytes: u32,
    /// Pages of a chunk.
    pub chunk_pages: u32,
    /// Frames of this node's pool.
    pub frames: u32,
    /// How reads and writes over several homes are made one, where the policy has such.
    pub ranges: Ranges,
    /// Largest single store write, in bytes; a coalesced run is cut there.
    pub store_io_bytes: u32,
    /// Largest store read that a home makes of a run of pages when it reads ahead, in bytes.
    pub readahead_bytes: u32,
    /// Most that one handle which is read in order asks other nodes for beyond its last read, in bytes.
    pub ahead_bytes: u32,
    /// A dirty page is flushed at this age.
    pub flush_age: Span,
    /// Write bytes that this node may have in flight to one home; bounds the home's buffers.
    pub write_window_bytes: u64,
    /// A peer that owes an answer and has been silent this long is asked whether it lives.
    pub probe_after: Span,
    /// A peer that owes an answer and has been silent this long is gone.
    pub give_up_after: Span,
    /// The daemons beside the job.
    pub bank: BankConfig,
    /// The place that dirty bytes go to.
    pub spill: Spill,
    /// The other nodes that have the bytes that a home has and the store lacks.
    pub replicas: Replicas,
    /// An earlier life of this node may have been in the job.
    pub rejoins: bool,
    /// Idle files that the client and manager sides remember, each.
    pub idle_files_max: usize,
    /// Pages are offered to programs of this node, which then write them by themselves.
    pub offers: bool,
    /// The guard that is off.
    #[cfg(feature = "canary")]
    pub without: Option<crate::guard::Guard>,
}

impl Config {
    /// Defaults of the product for `nodes` nodes, seen from `me`.
    pub fn new(me: NodeId, nodes: u32) -> Config {
        Config {
            me,
            incarnation: 1,
            nodes,
            view: View(1),
            goes_on: false,
            members: Vec::new(),
            policy: Policy::Home,
            allocation: Allocation::Slot,
            close: CloseRule::Flushed,
            page_bytes: 256 << 10,
            chunk_pages: 32,
            frames: 1024,
            ranges: Ranges::default(),
            store_io_bytes: 4 << 20,
            readahead_bytes: 1 << 20,
            ahead_bytes: 16 << 20,
            flush_age: Span::secs(5),
            write_window_bytes: 8 << 20,
            probe_after: Span::secs(2),
            give_up_after: Span::secs(7),
            bank: BankConfig::default(),
            spill: Spill::Store,
            replicas: Replicas::None,
            rejoins: false,
            idle_files_max: 1 << 16,
            offers: false,
            #[cfg(feature = "canary")]
            without: None,
        }
    }

    /// The decisions of the policy.
    pub fn rules(&self) -> Rules {
        self.policy.rules()
    }

    /// The condition that close waits for.
    pub fn close_rule(&self) -> CloseRule {
        self.rules().close.unwrap_or(self.close)
    }

    /// True if dirty bytes go to a tier.
    pub fn has_tier(&self) -> bool {
        matches!(self.spill, Spill::Tier(_))
    }

    /// The other nodes that have the bytes that a home has and the store lacks. Policy `local` alone has
    /// replicas: under others, homes of pages whose nodes die lose what was acknowledged.
    pub fn replicas_rule(&self) -> Replicas {
        match self.rules().grain {
            Grain::File => self.replicas,
            _ => Replicas::None,
        }
    }

    /// True if other nodes have, or know of, bytes that the store lacks.
    pub fn has_replicas(&self) -> bool {
        self.replicas_rule() != Replicas::None
    }

    /// True if a node that dies may have been the home of whole files, of which nobody else has or knows what the
    /// store lacks.
    pub fn loses_with_node(&self) -> bool {
        let unkept = matches!(self.replicas, Replicas::None | Replicas::Erasure(..));
        self.rules().grain == Grain::File && unkept
    }

    /// Frames of the pool that may hold bytes of other homes.
    pub fn replica_frames(&self) -> u32 {
        (self.frames / 4).max(1)
    }

    /// True if fsync ends at the tier.
    pub fn syncs_at_tier(&self) -> bool {
        self.spill == Spill::Tier(Synced::Tier)
    }

    /// How reads and writes over several homes are made one. They are not if writes go through to the store:
    /// a window covers all of a write and a gateway its own blocks, but reads take no lock. Nor are they if
    /// nobody is told of a write: copies of several moments lie beside each other. Level `mpi-atomic`
    /// promises it by itself.
    pub fn ranges_rule(&self, semantics: Semantics) -> Ranges {
        let rules = self.rules();
        let told = semantics.is_recorded();
        match (rules.served, rules.writes, self.ranges) {
            (Served::Cache, Writes::Behind, Ranges::Apart) if semantics == Semantics::MpiAtomic => {
                Ranges::WoundWait
            }
            (Served::Cache, Writes::Behind, ranges) if told => ranges,
            _ => Ranges::Apart,
        }
    }

    /// True if the homes of an operation that is made one are asked one after another.
    pub(crate) fn asks_in_turn(&self) -> bool {
        self.ranges == Ranges::SeqHome
    }

    /// True if a node that alone uses a page writes it by itself.
    pub fn delegates(&self) -> bool {
        self.rules().delegates == Delegates::Sole
    }

    /// True if a page moves to who reads and overwrites it.
    pub fn moves(&self) -> bool {
        self.rules().delegates == Delegates::Overwriter
    }

    /// True if the policy keeps nothing.
    pub fn is_uncached(&self) -> bool {
        self.rules().served == Served::Store
    }

    /// True if a write is acknowledged before the store has it, so that the store does not know its time.
    pub(crate) fn dates_writes(&self) -> bool {
        self.rules().writes == Writes::Behind
    }

    /// True if every node is the home of what it reads.
    pub fn is_home_to_itself(&self) -> bool {
        self.rules().authorities == Authorities::Each
    }

    /// The daemon that holds a block, if there are daemons.
    pub fn daemon_of(&self, file: FileId, block: u64) -> Option<Daemon> {
        self.rules().bank?;
        let BankConfig {
            placement, daemons, ..
        } = self.bank;
        placement.daemon_of(file, block, daemons)
    }

    /// Blocks of a file that daemons are owed at most while it is being written.
    pub(crate) fn owed_max(&self) -> u32 {
        (self.frames / 8).max(1)
    }

    /// The daemon that holds a file's attributes, if daemons hold any.
    pub fn daemon_of_attributes(&self, file: FileId) -> Option<Daemon> {
        match self.bank.attributes {
            BankAttributes::Leave => None,
            BankAttributes::Daemons => self.daemon_of(file, Key::ATTRIBUTES),
        }
    }

    /// The rule that chooses a home, if that is a choice: gateways are the owners of slots, or
    /// [`Config::serves_managed`].
    pub fn allocation_rule(&self) -> Allocation {
        match self.rules().bank {
            Some(_) => Allocation::Slot,
            None => self.allocation,
        }
    }

    /// True if this node is the gateway of the files that it manages: the job wants the first user of a file to be its
    /// home, and this node is a gateway. A file's manager never changes while a node lives that knows it, so nor does
    /// its gateway, and each block has one at any time (BANK-1).
    pub(crate) fn serves_managed(&self) -> bool {
        let wanted = self.allocation == Allocation::FirstTouch && self.rules().bank.is_some();
        wanted && self.homes().any(|home| home == self.me)
    }

    /// Nodes that alone are homes while some of them are members; none named: every node is.
    pub fn gateways(&self) -> &[NodeId] {
        match self.rules().bank {
            Some(_) => &self.bank.gateways,
            None => &[],
        }
    }

    /// The members of the job.
    pub fn members(&self) -> impl Iterator<Item = NodeId> + '_ {
        let all = if self.members.is_empty() {
            self.nodes
        } else {
            0
        };
        self.members.iter().copied().chain((0..all).map(NodeId))
    }

    /// How many members there are.
    pub fn members_count(&self) -> u32 {
        match self.members.len() {
            0 => self.nodes,
            count => count as u32,
        }
    }

    /// The member at a place among them, counted round.
    pub(crate) fn member_at(&self, place: u64) -> NodeId {
        let place = (place % u64::from(self.members_count())) as u32;
        self.members
            .get(place as usize)
            .copied()
            .unwrap_or(NodeId(place))
    }

    /// True if the node is a member.
    pub fn is_member(&self, node: NodeId) -> bool {
        match self.members.is_empty() {
            true => node.0 < self.nodes,
            false => self.members.contains(&node),
        }
    }

    /// Every node that may be a home: gateways, as long as one is a member, or else all members.
    pub fn homes(&self) -> impl Iterator<Item = NodeId> + '_ {
        let is_gateway = |node: &NodeId| self.gateways().contains(node);
        let has_some = !self.gateways().is_empty() && self.members().any(|node| is_gateway(&node));
        let members = self.members();
        members.filter(move |node| !has_some || is_gateway(node))
    }

    /// Dirty bytes above which flushing starts in the background: 10 % of the pool.
    pub fn dirty_background_bytes(&self) -> u64 {
        self.pool_bytes() / 10
    }

    /// Dirty bytes above which writes wait: 40 % of the pool, but at least one page.
    pub fn dirty_limit_bytes(&self) -> u64 {
        (self.pool_bytes() * 4 / 10).max(u64::from(self.page_bytes))
    }

    /// Size of the pool.
    pub fn pool_bytes(&self) -> u64 {
        u64::from(self.page_bytes) * u64::from(self.frames)
    }

    /// Page that holds the byte at `offset`.
    pub fn page_of(&self, offset: u64) -> u64 {
        offset / u64::from(self.page_bytes)
    }

    /// First byte of a page.
    pub fn page_start(&self, page: u64) -> u64 {
        page * u64::from(self.page_bytes)
    }

    /// Chunk that holds a page.
    pub fn chunk_of(&self, page: u64) -> u64 {
        page / u64::from(self.chunk_pages)
    }

    /// Pages that the bytes `offset..offset + len` touch, as first and count; `len` is not 0.
    pub fn pages_of(&self, offset: u64, len: u64) -> (u64, u32) {
        let first = self.page_of(offset);
        let last = self.page_of(offset + len - 1);
        (first, (last - first + 1) as u32)
    }
}
