//! One agent's part in the log, whether it votes or follows.
//!
//! All of it runs on one thread. A call becomes a task there, and waits as the task of nobody else does.

use super::VOTERS_MAX;
use super::elections::{Elections, LEASE_BEATS};
use super::electorate::eldest;
use super::leases::Leases;
use super::machine::ViewMachine;
use super::network::{Asking, VoterWires};
use super::store::LogStore;
use super::types::{Answer, EmbeddedConfig, Outcome, Proposal, Raft, Request, Seat, Term};
use crate::history::ViewHistory;
use crate::lease::LocalClock;
use crate::log::{LogError, Renewed, RenewedBy, Silence};
use crate::membership::{Founding, MemberKey, Membership, MembershipChange, ViewNumber};
use openraft::error::{CheckIsLeaderError, ClientWriteError, RaftError};
use openraft::{EmptyNode, ServerState, SnapshotPolicy};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// How long an agent waits before it looks for a coordinator again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How long a coordinator may keep a renewal waiting, before the other members are asked.
const COORDINATOR_SPAN_MAX: Duration = Duration::from_secs(1);

/// How long a coordinator works on one request. Then its caller hears that nothing is known.
pub(super) const ANSWER_SPAN_MAX: Duration = Duration::from_secs(5);

/// Proposals in a coordinator's log that are not decided. Further ones are turned away.
const PROPOSALS_MAX: usize = 64;

/// Agents that are asked for the coordinator: twice as many as vote, as some may be gone.
const GUESSES_MAX: usize = 2 * VOTERS_MAX;

/// Entries that are kept before a view takes their place. Most of them are heartbeats.
const ENTRIES_KEPT: u64 = 1024;

/// One agent's part.
pub(super) struct Voter {
    pub(super) config: EmbeddedConfig,
    /// At a follower it knows no voters, and waits until it is made one.
    pub(super) raft: Raft,
    pub(super) history: Arc<ViewHistory>,
    pub(super) clock: Arc<dyn LocalClock>,
    pub(super) leases: Leases,
    pub(super) elections: Elections,
    pub(super) asking: Asking,
    /// The log that it has a part in.
    pub(super) log: Founding,
    /// That log has ended here, and no other has begun.
    pub(super) has_stopped: AtomicBool,
    /// Rings when the newest view is of another log.
    pub(super) anew: Arc<Notify>,
    store: LogStore,
    applied_count: Arc<AtomicU64>,
    proposals: Arc<Semaphore>,
}

impl Voter {
    pub(super) async fn start(
        config: EmbeddedConfig,
        history: Arc<ViewHistory>,
        asking: Asking,
        clock: Arc<dyn LocalClock>,
    ) -> Option<Arc<Voter>> {
        let log = history.newest().founding();
        let (store, applied_count) = (LogStore::default(), Arc::default());
        let machine = ViewMachine::new(Arc::clone(&history), Arc::clone(&applied_count));
        let raft = begin(
            &config,
            VoterWires(asking.clone(), log),
            store.clone(),
            machine,
        )
        .await?;
        let leases = Leases::new(&config, &history.newest());
        Some(Arc::new(Voter {
            config,
            raft,
            history,
            clock,
            leases,
            elections: Elections::new(),
            asking,
            log,
            has_stopped: AtomicBool::new(false),
            anew: Arc::default(),
            store,
            applied_count,
            proposals: Arc::new(Semaphore::new(PROPOSALS_MAX)),
        }))
    }

    /// This agent, as a voter of its log.
    pub(super) fn seat(&self) -> Seat {
        Seat {
            voter: self.config.me,
            log: self.log,
        }
    }

    /// Hears of decided views.
    pub(super) fn learn(&self, views: impl IntoIterator<Item = Membership>) {
        for view in views {
            self.history.push(Arc::new(view));
        }
        if self.history.newest().founding() != self.log {
            self.anew.notify_one();
        }
    }

    /// The term in which this agent coordinates, as far as it knows.
    pub(super) fn term(&self) -> Option<Term> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let leads = metrics.state == ServerState::Leader;
        leads.then_some(Term(metrics.current_term))
    }

    /// Waits until this agent hears of a coordinator. A follower does when it is made a voter.
    pub(super) async fn coordinator(&self) -> Option<MemberKey> {
        let mut metrics = self.raft.metrics();
        let known = metrics
            .wait_for(|metrics| metrics.current_leader.is_some())
            .await;
        known.ok()?.current_leader
    }

    /// The newest view that this agent's log has, decided or not.
    pub(super) fn accepted(&self) -> ViewNumber {
        // Pairs with the Release in `ViewMachine::note`.
        let applied = self.applied_count.load(Ordering::Acquire).checked_sub(1);
        let waiting = self.store.newest_view(applied);
        waiting
            .max(Some(self.history.newest().number()))
            .unwrap_or_default()
    }

    /// Asks a majority whether this agent coordinates, from now on.
    pub(super) async fn confirm(&self) -> Result<(), Option<MemberKey>> {
        let asked = tokio::time::timeout(ANSWER_SPAN_MAX, self.raft.ensure_linearizable());
        match asked.await.map_err(|_| None)? {
            Ok(_) => Ok(()),
            Err(RaftError::APIError(CheckIsLeaderError::ForwardToLeader(to))) => Err(to.leader_id),
            Err(
                RaftError::APIError(CheckIsLeaderError::QuorumNotEnough(_)) | RaftError::Fatal(_),
            ) => Err(None),
        }
    }

    /// Asks the coordinator, until there is one or the time is over.
    pub(super) async fn coordinated(self: &Arc<Voter>, request: Request, until: Instant) -> Answer {
        let mut to = None;
        for turn in 0.. {
            let answer = match to {
                None => self.here(&request).await,
                Some(MemberKey { id, .. }) => {
                    let span = until.saturating_duration_since(Instant::now());
                    match self.asking.ask(id, &request, span).await {
                        Some(answer) => answer,
                        None => break,
                    }
                }
            };
            let Answer::Elsewhere(leader) = answer else {
                return answer;
            };
            if Instant::now() >= until {
                break;
            }
            if leader.is_none() || turn > 1 {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            to = leader
                .or_else(|| self.guess(turn))
                .filter(|leader| *leader != self.config.me);
        }
        Answer::Elsewhere(None)
    }

    /// Another agent that may know the coordinator: the eldest members are the voters, as a rule. In
    /// between this agent asks itself again.
    pub(super) fn guess(&self, turn: usize) -> Option<MemberKey> {
        let eldest = eldest(&self.history.newest());
        let asked = eldest.len().min(GUESSES_MAX);
        let guess = (turn.is_multiple_of(2) && asked > 0).then(|| eldest[turn / 2 % asked]);
        guess.filter(|guess| *guess != self.config.me)
    }

    /// This agent's answer, if it coordinates.
    pub(super) async fn here(self: &Arc<Voter>, request: &Request) -> Answer {
        match request {
            Request::Propose(change, at) => self.propose(change, *at).await,
            Request::Renew(member) => self.grant(*member).await,
            Request::Append(..)
            | Request::Vote(..)
            | Request::Snapshot(..)
            | Request::Views(_)
            | Request::Stop(..)
            | Request::Founded(_)
            | Request::Vouch(..) => Answer::Elsewhere(None),
        }
    }

    async fn propose(self: &Arc<Voter>, change: &MembershipChange, at: ViewNumber) -> Answer {
        let Ok(turn) = Arc::clone(&self.proposals).try_acquire_owned() else {
            return undecided();
        };
        let term = match change.doomed() {
            [] => Ok(Term(0)),
            members => self.doom(change, members, at).await,
        };
        let term = match term {
            Ok(term) => term,
            Err(answer) => return answer,
        };
        let change = change.clone();
        let proposal = Proposal { change, at, term };
        let writing = write(Arc::clone(self), proposal, turn);
        // It goes on after the wait for it ends: its end is a fact for the leases.
        let answer = tokio::time::timeout(ANSWER_SPAN_MAX, tokio::spawn(writing)).await;
        answer.ok().and_then(Result::ok).unwrap_or_else(undecided)
    }

    /// Notes an exclusion in the leases, if its time has come in this term.
    async fn doom(
        self: &Arc<Voter>,
        change: &MembershipChange,
        members: &[MemberKey],
        at: ViewNumber,
    ) -> Result<Term, Answer> {
        self.confirm().await.map_err(Answer::Elsewhere)?;
        let newest = self.history.newest();
        let refused =
            |refusal: crate::membership::ViewRefusal| Answer::Decided(Err(refusal.into()));
        newest.apply(change, at).map_err(refused)?;
        self.leases.doom(self, members)
    }

    /// Renews a lease: by the coordinator, or by all other members.
    pub(super) async fn renew(
        self: &Arc<Voter>,
        member: MemberKey,
        span: Duration,
    ) -> Result<Renewed, LogError> {
        let begun = Instant::now();
        let for_coordinator = COORDINATOR_SPAN_MAX.min(span / 2);
        let asked = self.coordinated(Request::Renew(member), begun + for_coordinator);
        match tokio::time::timeout(for_coordinator, asked).await {
            Ok(Answer::Granted(Ok(renewed))) => return Ok(renewed),
            Ok(Answer::Granted(Err(LogError::Gone(member)))) => return Err(LogError::Gone(member)),
            Ok(Answer::Granted(Err(_)) | Answer::Decided(_) | Answer::Elsewhere(_)) | Err(_) => {}
        }
        let left = span.saturating_sub(begun.elapsed());
        self.vouched(member, left)
            .await
            .ok_or(LogError::Undecided(Silence::NoMajority))
    }

    /// Every other member vouches in the view that this agent knows.
    async fn vouched(&self, member: MemberKey, span: Duration) -> Option<Renewed> {
        let view = self.history.newest();
        let others: Vec<MemberKey> = view
            .keys()
            .into_iter()
            .filter(|key| *key != member)
            .collect();
        if others.is_empty() || !view.has(member) {
            return None;
        }
        let mut tasks = tokio::task::JoinSet::new();
        for other in others {
            let (asking, request) = (self.asking.clone(), Request::Vouch(member, view.number()));
            tasks.spawn(async move { asking.ask::<bool>(other.id, &request, span).await });
        }
        while let Some(vouched) = tasks.join_next().await {
            if !matches!(vouched, Ok(Some(true))) {
                return None;
            }
        }
        Some(Renewed {
            view: view.number(),
            by: RenewedBy::Members,
        })
    }
}

/// Writes a proposal to the log, and waits until it is decided or will never be.
async fn write(voter: Arc<Voter>, proposal: Proposal, _turn: OwnedSemaphorePermit) -> Answer {
    let doomed = proposal.change.doomed().to_vec();
    let written = voter.raft.client_write(proposal).await;
    voter.leases.follow(&voter);
    let answer = match written.map(|written| written.data) {
        Ok(Outcome::Decided(view)) => return Answer::Decided(Ok(view)),
        Ok(Outcome::Refused(refusal)) => Answer::Decided(Err(refusal.into())),
        Ok(Outcome::OtherTerm) => Answer::Elsewhere(None),
        // It was turned away, or is out of this log. A voter that still has it vouches in no view before it.
        Err(RaftError::APIError(ClientWriteError::ForwardToLeader(to))) => {
            Answer::Elsewhere(to.leader_id)
        }
        Ok(Outcome::Nothing)
        | Err(
            RaftError::APIError(ClientWriteError::ChangeMembershipError(_)) | RaftError::Fatal(_),
        ) => return undecided(),
    };
    voter.leases.spare(&voter, &doomed);
    answer
}

/// The log begins. All of its first voters tell of the same voters, so it does not matter which is first.
async fn begin(
    config: &EmbeddedConfig,
    wires: VoterWires,
    store: LogStore,
    machine: ViewMachine,
) -> Option<Raft> {
    let heartbeat = u64::try_from(config.heartbeat.as_millis()).ok()?;
    let settings = openraft::Config {
        cluster_name: "hearth-views".to_owned(),
        heartbeat_interval: heartbeat,
        // A vote that takes longer comes too late for its turn.
        election_timeout_min: heartbeat * u64::from(LEASE_BEATS - 1),
        election_timeout_max: heartbeat * u64::from(LEASE_BEATS),
        enable_elect: false,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(ENTRIES_KEPT),
        max_in_snapshot_log_to_keep: 0,
        ..openraft::Config::default()
    };
    let settings = Arc::new(settings.validate().ok()?);
    let raft = Raft::new(config.me, settings, wires, store, machine)
        .await
        .ok()?;
    if !config.voters.contains(&config.me) {
        return Some(raft);
    }
    let voters: BTreeMap<MemberKey, EmptyNode> = config
        .voters
        .iter()
        .map(|voter| (*voter, EmptyNode::new()))
        .collect();
    // It is not allowed where another voter's first words were heard before, and not needed.
    let _ = raft.initialize(voters).await;
    Some(raft)
}

pub(super) fn undecided_yet() -> LogError {
    LogError::Undecided(Silence::NoMajority)
}

pub(super) fn undecided() -> Answer {
    Answer::Decided(Err(undecided_yet()))
}
