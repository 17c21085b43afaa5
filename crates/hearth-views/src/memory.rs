//! The log of a whole set in one process: the specification of the others, for simulators and tests.
//!
//! All hosts vote, and a step happens at once for all that are reached. The lowest host that reaches a
//! majority coordinates for as long as it does. Nothing here blocks but `watch`.

use crate::history::ViewHistory;
use crate::lease::granter::{GranterInput, LeaseGranter};
use crate::lease::{LeaseTerms, LocalClock, RenewalNumber};
use crate::log::{LogError, Patience, Renewed, RenewedBy, Silence, ViewLog};
use crate::membership::{MemberId, MemberKey, Membership, MembershipChange, ViewNumber};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The network of a set that is modelled.
pub trait Reach: Send + Sync {
    /// Whether words go from one to the other and back. A host that is dead does not reach itself.
    fn reaches(&self, from: MemberId, to: MemberId) -> bool;
    /// Whether the log is decided at all now. Members may reach each other all the same.
    fn decides(&self) -> bool;
}

/// One host: its clock, its side of the others' leases, and the newest view that it knows.
struct Host {
    clock: Arc<dyn LocalClock>,
    granter: LeaseGranter,
    known: ViewNumber,
}

struct State {
    hosts: BTreeMap<MemberId, Host>,
    coordinator: Option<MemberId>,
    renewals: u64,
}

/// The log of a set.
pub struct MemoryOrder {
    reach: Arc<dyn Reach>,
    history: ViewHistory,
    state: Mutex<State>,
}

/// The log as one host has it.
#[derive(Clone)]
pub struct MemoryLog {
    order: Arc<MemoryOrder>,
    host: MemberId,
}

impl MemoryOrder {
    /// A log that begins with a view, among these hosts with their clocks.
    pub fn new(
        first: Membership,
        hosts: impl IntoIterator<Item = (MemberKey, Arc<dyn LocalClock>)>,
        terms: LeaseTerms,
        reach: Arc<dyn Reach>,
    ) -> Arc<MemoryOrder> {
        let known = first.number();
        let host = |(key, clock): (MemberKey, _)| {
            let granter = LeaseGranter::new(terms, key, known, first.keys());
            (
                key.id,
                Host {
                    clock,
                    granter,
                    known,
                },
            )
        };
        let state = State {
            hosts: hosts.into_iter().map(host).collect(),
            coordinator: None,
            renewals: 0,
        };
        Arc::new(MemoryOrder {
            reach,
            history: ViewHistory::new(Arc::new(first)),
            state: Mutex::new(state),
        })
    }

    /// The log as a host has it.
    pub fn log(self: &Arc<MemoryOrder>, host: MemberId) -> MemoryLog {
        let order = Arc::clone(self);
        MemoryLog { order, host }
    }

    /// Forgets all views but the newest `keep`.
    pub fn compact(&self, keep: usize) {
        self.history.compact(keep);
    }

    /// The coordinator that a host reaches, if one can decide. It and all it reaches learn the newest view.
    fn coordinator(&self, state: &mut State, from: MemberId) -> Result<MemberId, LogError> {
        let is_able = |host: MemberId| {
            let reached = state
                .hosts
                .keys()
                .filter(|to| self.reach.reaches(host, **to))
                .count();
            self.reach.decides()
                && self.reach.reaches(from, host)
                && reached * 2 > state.hosts.len()
        };
        let mut all = state
            .coordinator
            .into_iter()
            .chain(state.hosts.keys().copied());
        let chosen = all.find(|host| is_able(*host));
        let chosen = chosen.ok_or(LogError::Undecided(Silence::NoMajority))?;
        if state.coordinator != Some(chosen) {
            let before = state.coordinator.replace(chosen);
            before.map(|before| state.step(before, GranterInput::Deposed));
            state.step(chosen, GranterInput::Elected);
        }
        self.spread(state, chosen);
        Ok(chosen)
    }

    fn spread(&self, state: &mut State, from: MemberId) {
        let newest = self.history.newest();
        let hosts: Vec<MemberId> = state.hosts.keys().copied().collect();
        for host in hosts
            .into_iter()
            .filter(|host| self.reach.reaches(from, *host))
        {
            state.step(host, GranterInput::Viewed(newest.number(), newest.keys()));
            state.host(host).known = newest.number();
        }
    }

    /// Every other member of the view that the host knows vouches for it.
    fn vouched(&self, state: &mut State, from: MemberId, member: MemberKey) -> Option<ViewNumber> {
        let known = state.host(from).known;
        let view = self
            .history
            .after(ViewNumber(known.0 - 1))
            .into_iter()
            .next()?;
        let others = view
            .members()
            .map(|seated| seated.record.key)
            .filter(|key| *key != member);
        let number = RenewalNumber(state.renewals);
        let asked = GranterInput::VouchAsked(member, number, known);
        let mut others = others.map(|other| other.id);
        let all = others
            .all(|other| self.reach.reaches(from, other) && state.step(other, asked.clone()) > 0);
        (all && view.has(member) && view.number() == known).then_some(known)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn host(&mut self, id: MemberId) -> &mut Host {
        self.hosts
            .get_mut(&id)
            .expect("hosts are fixed at the start")
    }

    /// Steps a host's granter by its own clock, and says how many effects there are.
    fn step(&mut self, id: MemberId, input: GranterInput) -> usize {
        let host = self.host(id);
        let now = host.clock.now();
        host.granter.step(now, input).len()
    }
}

impl ViewLog for MemoryLog {
    fn propose(
        &self,
        change: &MembershipChange,
        at: ViewNumber,
        _: &Patience,
    ) -> Result<Arc<Membership>, LogError> {
        let order = &self.order;
        let mut state = order.lock();
        let coordinator = order.coordinator(&mut state, self.host)?;
        let next = Arc::new(order.history.newest().apply(change, at)?);
        let doomed = change.doomed();
        if !doomed.is_empty() {
            let host = state.host(coordinator);
            let now = host.clock.now();
            host.granter.doom(now, doomed)?;
        }
        order.history.push(Arc::clone(&next));
        order.spread(&mut state, coordinator);
        Ok(next)
    }

    fn watch(
        &self,
        after: ViewNumber,
        patience: &Patience,
    ) -> Result<Vec<Arc<Membership>>, LogError> {
        self.order.history.wait_after(after, patience, || {
            let mut state = self.order.lock();
            // Without a coordinator the host goes on with the views that it knows.
            let _ = self.order.coordinator(&mut state, self.host);
            Some(state.host(self.host).known)
        })
    }

    fn renew(&self, member: MemberKey, _: &Patience) -> Result<Renewed, LogError> {
        let order = &self.order;
        let mut state = order.lock();
        state.renewals += 1;
        let number = RenewalNumber(state.renewals);
        let (view, by) = match order.coordinator(&mut state, self.host) {
            Ok(coordinator) => {
                let view = order.history.newest();
                if !view.has(member) {
                    return Err(LogError::Gone(member));
                }
                state.step(coordinator, GranterInput::Renewal(member, number));
                (view.number(), RenewedBy::Coordinator)
            }
            Err(silence) => {
                let view = order.vouched(&mut state, self.host, member);
                (view.ok_or(silence)?, RenewedBy::Members)
            }
        };
        Ok(Renewed { view, by })
    }
}
