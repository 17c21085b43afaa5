//! The granter of leases at one agent, and the renewals that wait for it.
//!
//! The granter hears of elections by looking, each time before it is stepped. An election that it missed
//! is no harm: an exclusion names the term in which it was checked, and is void in another.

use super::electorate::voters;
use super::types::{Answer, EmbeddedConfig, Term};
use super::voter::{ANSWER_SPAN_MAX, Voter, undecided};
use crate::lease::RenewalNumber;
use crate::lease::granter::{ConfirmationNumber, GranterEffect, GranterInput, LeaseGranter};
use crate::log::{LogError, Renewed, RenewedBy};
use crate::membership::{MemberKey, Membership, ViewNumber};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

type Waiting = BTreeMap<(MemberKey, RenewalNumber), oneshot::Sender<Result<Renewed, LogError>>>;

struct Office {
    granter: LeaseGranter,
    term: Option<Term>,
    view: Arc<Membership>,
    last: RenewalNumber,
    /// As many as there are tasks at most.
    waiting: Waiting,
}

/// One agent's side of the others' leases.
pub(super) struct Leases(Mutex<Office>);

impl Leases {
    pub(super) fn new(config: &EmbeddedConfig, view: &Arc<Membership>) -> Leases {
        let granter = LeaseGranter::new(config.terms, config.me, view.number(), view.keys());
        Leases(Mutex::new(Office {
            granter,
            term: None,
            view: Arc::clone(view),
            last: RenewalNumber(0),
            waiting: Waiting::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Office> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings the granter to what this agent knows.
    pub(super) fn follow(&self, voter: &Voter) {
        self.lock().follow(voter);
    }

    /// An exclusion of these was not decided, and will not be.
    pub(super) fn spare(&self, voter: &Voter, members: &[MemberKey]) {
        let mut office = self.lock();
        for member in members {
            office
                .granter
                .step(voter.clock.now(), GranterInput::Spared(*member));
        }
    }

    /// Whether this agent vouches for a member in a view.
    pub(super) fn vouches(&self, voter: &Voter, member: MemberKey, view: ViewNumber) -> bool {
        let mut office = self.lock();
        office.follow(voter);
        let asked = GranterInput::VouchAsked(member, RenewalNumber(0), view);
        let effects = office.granter.step(voter.clock.now(), asked);
        effects
            .iter()
            .any(|effect| matches!(effect, GranterEffect::Vouch(..)))
    }

    /// Notes an exclusion whose time has come, and says in which term that holds.
    pub(super) fn doom(&self, voter: &Voter, members: &[MemberKey]) -> Result<Term, Answer> {
        let mut office = self.lock();
        office.follow(voter);
        let term = office.term.ok_or(Answer::Elsewhere(None))?;
        let now = voter.clock.now();
        let doomed = office.granter.doom(now, members);
        doomed.map_err(|not_yet| Answer::Decided(Err(not_yet.into())))?;
        Ok(term)
    }

    fn begin(
        &self,
        voter: &Arc<Voter>,
        member: MemberKey,
    ) -> Option<oneshot::Receiver<Result<Renewed, LogError>>> {
        let mut office = self.lock();
        office.follow(voter);
        office.term?;
        let (sender, granted) = oneshot::channel();
        office.last = RenewalNumber(office.last.0 + 1);
        let number = office.last;
        office.waiting.insert((member, number), sender);
        office.step(voter, GranterInput::Renewal(member, number));
        Some(granted)
    }
}

impl Voter {
    /// Grants a renewal, if this agent coordinates and a majority confirms it.
    pub(super) async fn grant(self: &Arc<Voter>, member: MemberKey) -> Answer {
        let Some(granted) = self.leases.begin(self, member) else {
            let leader = self.raft.metrics().borrow().current_leader;
            return Answer::Elsewhere(leader.filter(|leader| *leader != self.config.me));
        };
        let granted = tokio::time::timeout(ANSWER_SPAN_MAX, granted).await;
        let granted = granted.ok().and_then(Result::ok);
        granted.map_or_else(undecided, Answer::Granted)
    }
}

impl Office {
    fn follow(&mut self, voter: &Voter) {
        let now = voter.clock.now();
        let term = voter.term();
        if term != self.term {
            self.granter.step(now, GranterInput::Deposed);
            if term.is_some() {
                self.granter.step(now, GranterInput::Elected);
            }
            self.term = term;
            self.waiting.clear();
        }
        let newest = voter.history.newest();
        if newest.number() > self.view.number() {
            let viewed = GranterInput::Viewed(newest.number(), newest.keys());
            self.granter.step(now, viewed);
            self.view = newest;
        }
        let deciding = GranterInput::Voters(voters(&voter.raft));
        self.granter.step(now, deciding);
        let accepted = GranterInput::Accepted(voter.accepted());
        self.granter.step(now, accepted);
    }

    fn step(&mut self, voter: &Arc<Voter>, input: GranterInput) {
        for effect in self.granter.step(voter.clock.now(), input) {
            match effect {
                GranterEffect::Confirm(number) => {
                    tokio::spawn(confirm(Arc::clone(voter), number));
                }
                GranterEffect::Grant(member, number) => {
                    let renewed = Renewed {
                        view: self.view.number(),
                        by: RenewedBy::Coordinator,
                    };
                    self.answer(member, number, &Ok(renewed));
                }
                GranterEffect::Refuse(member) => {
                    let gone = Err(LogError::Gone(member));
                    self.answer(member, RenewalNumber(u64::MAX), &gone);
                }
                // Vouches are answered where they are asked for, and callers ask for exclusions.
                GranterEffect::Vouch(..) | GranterEffect::Exclude(_) => {}
            }
        }
        self.waiting.retain(|_, sender| !sender.is_closed());
    }

    /// Answers a member's renewals up to this one.
    fn answer(&mut self, member: MemberKey, last: RenewalNumber, with: &Result<Renewed, LogError>) {
        let range = (member, RenewalNumber(0))..=(member, last);
        let numbers: Vec<_> = self
            .waiting
            .range(range)
            .map(|(number, _)| *number)
            .collect();
        for number in numbers {
            if let Some(sender) = self.waiting.remove(&number) {
                // A caller whose patience ended is gone.
                let _ = sender.send(with.clone());
            }
        }
    }
}

/// Asks a majority, then tells the granter.
async fn confirm(voter: Arc<Voter>, number: ConfirmationNumber) {
    let confirmed = voter.confirm().await;
    let mut office = voter.leases.lock();
    // Views that were decided before come first: an excluded member is granted nothing.
    office.follow(&voter);
    match confirmed {
        Ok(()) => office.step(&voter, GranterInput::Confirmed(number)),
        Err(_) => {
            office.waiting.clear();
            office.step(&voter, GranterInput::Unconfirmed(number));
        }
    }
}
