//! The granter's side of leases: every member vouches, and the coordinator also grants and excludes.
//!
//! The caller tells it of each renewal that arrives, of each view that its log has, and whether it
//! decides. `Tick` asks for exclusions that are due.

use super::guard::{LeaseGuard, LeaseGuards};
use super::{LeaseTerms, LocalSpan, LocalTime, RenewalNumber};
use crate::membership::{MemberKey, ViewNumber};
use std::collections::{BTreeMap, BTreeSet};

/// A question to the log whether this coordinator still decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfirmationNumber(pub u64);

/// A fact for a granter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GranterInput {
    /// It begins to decide.
    Elected,
    /// It decides no more.
    Deposed,
    /// The newest view that its log has, decided or not.
    Accepted(ViewNumber),
    /// A view was decided, with these members.
    Viewed(ViewNumber, BTreeSet<MemberKey>),
    /// These decide views now. None are told of where one host decides at once.
    Voters(BTreeSet<MemberKey>),
    /// A member asks the coordinator.
    Renewal(MemberKey, RenewalNumber),
    /// A member asks for a vouch in a view.
    VouchAsked(MemberKey, RenewalNumber, ViewNumber),
    /// A majority says that it decides; they were asked after the order to confirm.
    Confirmed(ConfirmationNumber),
    /// No majority says so.
    Unconfirmed(ConfirmationNumber),
    /// It is time to look for members that are not heard of.
    Tick,
    /// The exclusion of this member was not decided, and will not be.
    Spared(MemberKey),
}

/// An order to a granter's caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GranterEffect {
    /// Ask a majority whether this coordinator still decides.
    Confirm(ConfirmationNumber),
    /// Tell the member that its renewal is granted.
    Grant(MemberKey, RenewalNumber),
    /// Tell the member that this one vouches for it.
    Vouch(MemberKey, RenewalNumber),
    /// Tell the stranger that it is no member.
    Refuse(MemberKey),
    /// Propose a view without these.
    Exclude(Vec<MemberKey>),
}

/// Why an exclusion must not be proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotYet {
    /// The member may hold its lease for so long.
    Leased(MemberKey, LocalSpan),
    /// An exclusion of the member is on its way. The end of that one decides whether it is renewed.
    Doomed(MemberKey),
    /// This granter excludes nobody now: it follows, or not all that decide are members.
    Elsewhere,
}

/// Renewals of one confirmation, the newest of each member.
type Batch = BTreeMap<MemberKey, RenewalNumber>;

/// A coordinator's work.
#[derive(Clone, Debug)]
struct Office {
    since: LocalTime,
    /// The confirmation that is under way, for these.
    running: Option<(ConfirmationNumber, Batch)>,
    /// They arrived after it began, so they need the next (LEASE-4).
    next: Batch,
}

/// Whether the granter decides.
#[derive(Clone, Debug)]
enum Duty {
    Following,
    Deciding(Office),
}

/// A member, as a granter of the others' leases. Its tables are as long as the view at most.
#[derive(Clone, Debug)]
pub struct LeaseGranter {
    terms: LeaseTerms,
    me: MemberKey,
    duty: Duty,
    view: ViewNumber,
    accepted: ViewNumber,
    members: BTreeSet<MemberKey>,
    voters: BTreeSet<MemberKey>,
    heard: BTreeMap<MemberKey, LocalTime>,
    doomed: BTreeSet<MemberKey>,
    last: ConfirmationNumber,
    pub(super) guards: LeaseGuards,
}

impl LeaseGranter {
    /// One of the members of this view. It follows.
    pub fn new(
        terms: LeaseTerms,
        me: MemberKey,
        view: ViewNumber,
        members: BTreeSet<MemberKey>,
    ) -> LeaseGranter {
        LeaseGranter {
            terms,
            me,
            duty: Duty::Following,
            view,
            accepted: view,
            members,
            voters: BTreeSet::new(),
            heard: BTreeMap::new(),
            doomed: BTreeSet::new(),
            last: ConfirmationNumber(0),
            guards: LeaseGuards::default(),
        }
    }

    /// How long from now until this granter may propose to exclude a member.
    ///
    /// None if it may not: it follows, or not all that decide are members (LEASE-9). The others vouch for
    /// each other without a stranger, and he could decide an exclusion later that they do not know.
    pub fn exclusion_wait(&self, now: LocalTime, member: MemberKey) -> Option<LocalSpan> {
        let Duty::Deciding(office) = &self.duty else {
            return None;
        };
        let is_of_members = self.members.contains(&self.me) && self.voters.is_subset(&self.members);
        if !is_of_members && self.guards.keep(LeaseGuard::DecideAsMember) {
            return None;
        }
        let begun = match self.guards.keep(LeaseGuard::WaitAsNewGranter) {
            true => Some(office.since),
            false => None,
        };
        let from = begun.max(self.heard.get(&member).copied());
        let end = from.map_or(now, |from| from.plus(self.terms.granted));
        Some(end.since(now))
    }

    /// Notes that an exclusion is proposed, if its time has come (LEASE-5). `Spared` or a view ends that.
    pub fn doom(&mut self, now: LocalTime, members: &[MemberKey]) -> Result<(), NotYet> {
        for member in members {
            if self.doomed.contains(member) {
                return Err(NotYet::Doomed(*member));
            }
            match self.exclusion_wait(now, *member) {
                Some(LocalSpan(0)) => {}
                Some(wait) => return Err(NotYet::Leased(*member, wait)),
                None => return Err(NotYet::Elsewhere),
            }
        }
        self.doomed.extend(members);
        Ok(())
    }

    /// Takes one fact. Effects are to be carried out in their order.
    pub fn step(&mut self, now: LocalTime, input: GranterInput) -> Vec<GranterEffect> {
        match (&self.duty, input) {
            (Duty::Following, GranterInput::Elected) => {
                self.duty = Duty::Deciding(Office {
                    since: now,
                    running: None,
                    next: Batch::new(),
                });
                Vec::new()
            }
            (Duty::Deciding(_), GranterInput::Deposed) => {
                self.duty = Duty::Following;
                Vec::new()
            }
            (Duty::Following | Duty::Deciding(_), GranterInput::Accepted(view)) => {
                self.accepted = view;
                Vec::new()
            }
            (Duty::Following | Duty::Deciding(_), GranterInput::Voters(voters)) => {
                self.voters = voters;
                Vec::new()
            }
            (Duty::Following | Duty::Deciding(_), GranterInput::Viewed(view, members)) => {
                self.viewed(now, view, members);
                Vec::new()
            }
            (Duty::Following | Duty::Deciding(_), GranterInput::VouchAsked(from, number, view)) => {
                self.vouch(now, from, number, view)
            }
            (Duty::Following | Duty::Deciding(_), GranterInput::Spared(member)) => {
                self.doomed.remove(&member);
                Vec::new()
            }
            (Duty::Deciding(_), GranterInput::Renewal(from, number)) => {
                self.renewal(now, from, number)
            }
            (Duty::Deciding(_), GranterInput::Confirmed(number)) => self.confirmed(number),
            (Duty::Deciding(_), GranterInput::Unconfirmed(number)) => {
                self.end_confirmation(number);
                self.confirm_next()
            }
            (Duty::Deciding(_), GranterInput::Tick) => self.exclude(now),
            (Duty::Deciding(_), GranterInput::Elected)
            | (
                Duty::Following,
                GranterInput::Deposed
                | GranterInput::Renewal(..)
                | GranterInput::Confirmed(_)
                | GranterInput::Unconfirmed(_)
                | GranterInput::Tick,
            ) => Vec::new(),
        }
    }

    fn viewed(&mut self, now: LocalTime, view: ViewNumber, members: BTreeSet<MemberKey>) {
        if view <= self.view {
            return;
        }
        let is_new = members.contains(&self.me) && !self.members.contains(&self.me);
        if let Duty::Deciding(office) = &mut self.duty
            && is_new
        {
            // Until now the others vouched for each other without it.
            office.since = now;
        }
        self.view = view;
        self.accepted = self.accepted.max(view);
        self.heard.retain(|member, _| members.contains(member));
        self.doomed.retain(|member| members.contains(member));
        self.members = members;
    }

    fn vouch(
        &mut self,
        now: LocalTime,
        from: MemberKey,
        number: RenewalNumber,
        view: ViewNumber,
    ) -> Vec<GranterEffect> {
        if !self.members.contains(&from) {
            return vec![GranterEffect::Refuse(from)];
        }
        let is_newest = view == self.view && view == self.accepted;
        let in_view = is_newest || !self.guards.keep(LeaseGuard::VouchInNewestView);
        if !in_view || self.is_doomed(from) {
            return Vec::new();
        }
        self.heard.insert(from, now);
        vec![GranterEffect::Vouch(from, number)]
    }

    fn renewal(
        &mut self,
        now: LocalTime,
        from: MemberKey,
        number: RenewalNumber,
    ) -> Vec<GranterEffect> {
        if !self.members.contains(&from) {
            return vec![GranterEffect::Refuse(from)];
        }
        if self.is_doomed(from) {
            return Vec::new();
        }
        self.heard.insert(from, now);
        if !self.guards.keep(LeaseGuard::ConfirmFirst) {
            return vec![GranterEffect::Grant(from, number)];
        }
        if let Duty::Deciding(office) = &mut self.duty {
            office.next.insert(from, number);
        }
        self.confirm_next()
    }

    fn is_doomed(&self, member: MemberKey) -> bool {
        self.doomed.contains(&member) && self.guards.keep(LeaseGuard::RenewNoDoomed)
    }

    /// Begins a confirmation, unless one runs or nobody needs one.
    fn confirm_next(&mut self) -> Vec<GranterEffect> {
        let Duty::Deciding(office) = &mut self.duty else {
            return Vec::new();
        };
        if office.running.is_some() || office.next.is_empty() {
            return Vec::new();
        }
        self.last = ConfirmationNumber(self.last.0 + 1);
        office.running = Some((self.last, std::mem::take(&mut office.next)));
        vec![GranterEffect::Confirm(self.last)]
    }

    /// The renewals that waited for this confirmation. A late answer to an earlier one ends nothing.
    fn end_confirmation(&mut self, number: ConfirmationNumber) -> Batch {
        let Duty::Deciding(office) = &mut self.duty else {
            return Batch::new();
        };
        match office.running.take_if(|(running, _)| *running == number) {
            Some((_, batch)) => batch,
            None => Batch::new(),
        }
    }

    /// A member that was doomed or excluded meanwhile gets nothing.
    fn confirmed(&mut self, number: ConfirmationNumber) -> Vec<GranterEffect> {
        let mut out = Vec::new();
        for (member, renewal) in self.end_confirmation(number) {
            if self.members.contains(&member) && !self.is_doomed(member) {
                out.push(GranterEffect::Grant(member, renewal));
            }
        }
        out.append(&mut self.confirm_next());
        out
    }

    fn exclude(&mut self, now: LocalTime) -> Vec<GranterEffect> {
        let due = |member: &MemberKey| self.exclusion_wait(now, *member) == Some(LocalSpan(0));
        let new = self.members.difference(&self.doomed);
        let silent: Vec<MemberKey> = new.copied().filter(due).collect();
        if silent.is_empty() {
            return Vec::new();
        }
        self.doomed.extend(&silent);
        vec![GranterEffect::Exclude(silent)]
    }
}
