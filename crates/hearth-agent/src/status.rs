//! An agent's account of itself.

use crate::bank::{self, BankSettings, DaemonStatus};
use crate::core::{Core, State};
use crate::late::{self, Reach};
use crate::peers::Absent;
use crate::store::TierStatus;
use hearth_client::local::{Count, Sums};
use hearth_net::{Link, Transport};
use hearth_proto::{FileId, Semantics, Span, Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A plain value for people, for `--json` and for commands that read it. A value that a text lacks is empty or 0.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentStatus {
    /// Place in the member list.
    pub node: u32,
    /// Process.
    pub pid: u32,
    /// Policy of its files.
    pub policy: String,
    /// The store, in one line; says so if it is a model.
    pub store: String,
    /// Size of the pool in bytes.
    pub pool_bytes: u64,
    /// Bytes of frames in use.
    pub pool_used_bytes: u64,
    /// Bytes in messages and requests under way, outside of the pool.
    pub buffer_bytes: u64,
    /// Bytes that the store does not have yet.
    pub dirty_bytes: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// Files with state here.
    pub files: usize,
    /// Requests of programs without an answer yet.
    pub requests_open: usize,
    /// Counts since the start.
    pub counters: Counters,
    /// Counts of programs that read in the pool themselves.
    pub programs: Programs,
    /// The other agents.
    pub peers: Vec<PeerStatus>,
    /// The daemons of the bank.
    pub bank: Vec<DaemonStatus>,
    /// The tier, if there is one.
    pub tier: Option<TierStatus>,
    /// The replicas of bytes that homes have and the store lacks.
    pub replicas: String,
    /// Bytes of other homes that are kept here until the store has them.
    pub kept_bytes: u64,
    /// Files of which fewer agents have what the store lacks than the job wants, or whose home is gone and not all is
    /// in the store yet; the first of them if they are many.
    pub at_risk: Vec<String>,
    /// How many such files there are.
    pub at_risk_files: usize,
    /// Open files of which something else is promised than `posix`; the first of them if they are many.
    pub promises: Vec<FilePromise>,
    /// The longest time for which one step of the kernel kept all others waiting, in microseconds, and what it was.
    pub longest_step_us: u64,
    /// See `longest_step_us`.
    pub longest_step: String,
    /// The facts that a person should know, oldest first.
    pub alarms: Vec<String>,
    /// Those whose cause is over, for an hour.
    pub past_alarms: Vec<PastAlarm>,
    /// Those of the alarms that tell of lost bytes.
    pub losses: Vec<String>,
    /// How many alarms, from the last, are of requests that wait for long. They go when the wait is over.
    pub long_waits: usize,
    /// The members, if the set agrees on them.
    pub view: Option<ViewStatus>,
}

/// An alarm whose cause is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PastAlarm {
    /// The alarm.
    pub text: String,
    /// For how many seconds it has been over.
    pub over_s: u64,
}

/// The members that the set has agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ViewStatus {
    /// Its number; each change of the members makes the next.
    pub number: u32,
    /// Their places in the member list.
    pub members: Vec<u32>,
    /// The event that this agent waits for before it is in this view, if it is not yet.
    pub waits_for: Option<String>,
    /// No call is answered here, as others may have gone on without this agent.
    pub lacks_lease: bool,
}

/// The promise of an open file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FilePromise {
    /// The name of the file, for people.
    pub file: String,
    /// The level.
    pub semantics: String,
}

/// Files that a status lists.
const PROMISES_MAX: usize = 64;

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[allow(
    missing_docs,
    reason = "each is what `hearth_proto::status::KernelCounters` says of it"
)]
pub struct Counters {
    pub reads: u64,
    pub writes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub own_bytes: u64,
    pub peer_bytes: u64,
    pub store_bytes: u64,
    pub bank_bytes: u64,
    pub bank_hits: u64,
    pub bank_misses: u64,
    pub bank_sets: u64,
    pub bank_deletes: u64,
    pub messages_sent: u64,
    pub revocations: u64,
    pub handed_pages: u64,
    pub inherited_pages: u64,
    pub store_read_requests: u64,
    pub store_read_bytes: u64,
    pub store_write_requests: u64,
    pub store_write_bytes: u64,
    pub store_sync_requests: u64,
    pub store_errors: u64,
}

/// Counts of programs that read the pool themselves; see [`hearth_client::local::Count`].
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Programs {
    /// Pages that they can find now.
    pub pages: usize,
    /// Bytes of the pool that lie in huge pages.
    pub huge_bytes: u64,
    /// Programs so far.
    pub programs: u64,
    /// Reads that were served.
    pub reads: u64,
    /// Calls of `stat` and its kin that were served.
    pub stats: u64,
    /// Bytes that the reads copied.
    pub bytes: u64,
    /// Passed by: not in memory, or past the end.
    pub not_here: u64,
    /// Passed by: written meanwhile.
    pub called_back: u64,
    /// Passed by: over too many pages.
    pub too_long: u64,
    /// Passed by: the agent was gone.
    pub no_agent: u64,
    /// Descriptors passed by: opened for direct I/O.
    pub flags: u64,
    /// Programs that were given a write ring.
    pub lanes: u64,
    /// Writes that were left there.
    pub writes: u64,
    /// Bytes of them.
    pub written: u64,
    /// Writes passed by: their page was not offered.
    pub not_offered: u64,
    /// Writes passed by: the agent was at something else, or had not come to those before.
    pub crowded: u64,
}

/// One other agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PeerStatus {
    /// Place in the member list.
    pub node: u32,
    /// The address at which it listens.
    pub addr: String,
    /// Connected.
    pub up: bool,
    /// The means that carries messages, or did last, in words; empty if it was never connected.
    pub way: String,
    /// Why not.
    pub why: Option<String>,
    /// How many seconds ago it went, if it was connected before and is not.
    pub gone_s: Option<u64>,
    /// It was taken down in order.
    pub left: bool,
}

impl Core {
    pub(crate) fn status(&self, bank: Option<&BankSettings>) -> AgentStatus {
        let daemons = self.bank.get().zip(bank);
        let daemons = daemons.map(|(bank, config)| bank::status(bank, config));
        let mut daemons = daemons.unwrap_or_default();
        let tier = self.tier.as_ref().map(|tier| tier.status());
        let spilled = tier.as_ref().map_or(0, |tier| tier.dirty_bytes);
        let revoker = self.lock().revoker.clone();
        let span = Duration::from_nanos(late::STORE_LATE.0);
        let calls = revoker.map_or_else(Vec::new, |revoker| revoker.late(span));
        let mut state = self.lock();
        let promises = promises(&mut state);
        let at_risk = at_risk(&mut state);
        let late = late::words(&state, self.now()).into_iter();
        let late = late.map(|(_, word)| word);
        let view = self.views.get().map(|views| views.view());
        let reach = match view.as_ref().is_some_and(|view| view.lacks_lease) {
            true => Reach::TooFew,
            false => Reach::Majority,
        };
        let late = late.chain(late::words_of_calls(&state, calls, (self.now(), reach)));
        let late: Vec<String> = late.collect();
        for (daemon, epoch) in daemons.iter_mut().zip(state.node().bank_epochs()) {
            daemon.epoch = epoch.0;
        }
        let now = self.now();
        let waits_for = state.member.waits_for().map(str::to_owned);
        let view = view.map(|view| ViewStatus { waits_for, ..view });
        let transport = self.transport.get();
        let peers = transport.map(|transport| peers(transport.as_ref(), &state, now));
        let config = state.node().config();
        let kernel = state.node().status();
        let present = state.alarms.present(now);
        let past = state.alarms.past(now);
        let past = past.map(|(text, over_s)| PastAlarm {
            text: text.to_owned(),
            over_s,
        });
        AgentStatus {
            node: config.me.0,
            pid: std::process::id(),
            policy: config.policy.name().to_owned(),
            store: self.store.describe(),
            pool_bytes: config.pool_bytes(),
            pool_used_bytes: u64::from(kernel.frames_used) * u64::from(config.page_bytes),
            buffer_bytes: state.buffers.held(),
            dirty_bytes: kernel.dirty_bytes + spilled,
            evictions: kernel.evictions,
            files: kernel.files,
            requests_open: state.tickets.len(),
            counters: self.counters(&kernel.counters),
            programs: self.programs(),
            peers: peers.unwrap_or_default(),
            bank: daemons,
            tier,
            replicas: config.replicas.to_string(),
            kept_bytes: kernel.kept_bytes,
            at_risk,
            at_risk_files: kernel.at_risk,
            promises,
            longest_step_us: state.steps.longest().0,
            longest_step: state.steps.longest().1.to_owned(),
            long_waits: late.len(),
            alarms: present.map(str::to_owned).chain(late).collect(),
            past_alarms: past.collect(),
            losses: state.alarms.losses().map(str::to_owned).collect(),
            view,
        }
    }

    fn programs(&self) -> Programs {
        let Some(shown) = self.pool.shown() else {
            return Programs::default();
        };
        let of = |count| Sums(shown.counts).of(count);
        Programs {
            pages: shown.pages,
            huge_bytes: shown.huge_bytes,
            programs: of(Count::Programs),
            reads: of(Count::Reads),
            stats: of(Count::Stats),
            bytes: of(Count::Bytes),
            not_here: of(Count::NotHere),
            called_back: of(Count::CalledBack),
            too_long: of(Count::TooLong),
            no_agent: of(Count::NoAgent),
            flags: of(Count::Flags),
            lanes: of(Count::WriteRings),
            writes: of(Count::Writes),
            written: of(Count::Written),
            not_offered: of(Count::NotOffered),
            crowded: of(Count::Crowded),
        }
    }

    fn counters(&self, kernel: &hearth_proto::status::KernelCounters) -> Counters {
        let store = self.store.counts();
        Counters {
            reads: kernel.reads,
            writes: kernel.writes,
            read_bytes: kernel.read_bytes,
            written_bytes: kernel.written_bytes,
            own_bytes: kernel.own_bytes,
            peer_bytes: kernel.peer_bytes,
            store_bytes: kernel.store_bytes,
            bank_bytes: kernel.bank_bytes,
            bank_hits: kernel.bank_hits,
            bank_misses: kernel.bank_misses,
            bank_sets: kernel.bank_sets,
            bank_deletes: kernel.bank_deletes,
            messages_sent: kernel.messages_sent,
            revocations: kernel.revocations,
            handed_pages: kernel.handed_pages,
            inherited_pages: kernel.inherited_pages,
            store_read_requests: store.read_requests,
            store_read_bytes: store.read_bytes,
            store_write_requests: store.write_requests,
            store_write_bytes: store.write_bytes,
            store_sync_requests: store.sync_requests,
            store_errors: store.errors,
        }
    }
}

fn promises(state: &mut State) -> Vec<FilePromise> {
    let promises: Vec<_> = state.node().promises().take(PROMISES_MAX).collect();
    let named = |(file, semantics): (FileId, Semantics)| FilePromise {
        file: state.files.name(file),
        semantics: semantics.name().to_owned(),
    };
    promises.into_iter().map(named).collect()
}

fn at_risk(state: &mut State) -> Vec<String> {
    let files: Vec<FileId> = state.node().at_risk().take(PROMISES_MAX).collect();
    let named = |file| state.files.name(file);
    files.into_iter().map(named).collect()
}

fn peers(transport: &dyn Transport, state: &State, now: Time) -> Vec<PeerStatus> {
    let seconds = |since: Time| (now - since).0 / Span::secs(1).0;
    transport
        .peers()
        .into_iter()
        .map(|peer| {
            let (up, why) = match peer.link {
                Link::Up { .. } => (true, None),
                Link::Down { why } => (false, Some(why)),
            };
            let addr = peer.addr.map(|addr| addr.to_string()).unwrap_or_default();
            let absent = state.absent.get(peer.id.0 as usize).copied().flatten();
            PeerStatus {
                node: peer.id.0,
                addr,
                up,
                way: peer.way,
                why,
                gone_s: absent.map(|absent| seconds(absent.since())),
                left: matches!(absent, Some(Absent::Left(_))),
            }
        })
        .collect()
}
