//! The holder's side of a lease: when to ask, whom to believe, and when to stop.
//!
//! The caller steps it with `Tick` every [`LeaseTerms::renewal`], and with each answer. Between steps
//! [`LeaseHolder::holds`] is true no longer than the lease lasts.

use super::guard::{LeaseGuard, LeaseGuards};
use super::{LeaseTerms, LocalSpan, LocalTime, RenewalNumber};
use crate::membership::{MemberId, ViewNumber};
use std::collections::{BTreeSet, VecDeque};

/// Renewals that may be under way. The oldest is forgotten; its answer would add little.
pub const RENEWALS_MAX: usize = 8;

/// Something of the caller that waits, and may go on only under a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaitNumber(pub u64);

/// A fact for a holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HolderInput {
    /// It is time for a renewal.
    Tick,
    /// The coordinator granted a renewal.
    Granted(RenewalNumber),
    /// A member vouches in answer to a renewal.
    Vouched(RenewalNumber, MemberId),
    /// A view came that has this member, and these others.
    Viewed(ViewNumber, BTreeSet<MemberId>),
    /// A view came that does not have this member, or somebody says that there is one.
    Excluded,
    /// A wait ended, of whatever kind.
    WaitEnded(WaitNumber),
}

/// An order to the holder's caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HolderEffect {
    /// Ask the coordinator, if there is one.
    AskCoordinator(RenewalNumber),
    /// Ask these others to vouch in this view.
    AskMembers(RenewalNumber, ViewNumber, Vec<MemberId>),
    /// The lease holds again: take up work.
    Resume,
    /// The lease ran out: serve no hit and decide nothing, but go on hearing of recalls.
    Pause,
    /// The incarnation is over: give up all it held, and join as the next.
    End,
    /// The wait may go on.
    Proceed(WaitNumber),
    /// The wait must not go on: begin anew when the lease holds.
    Abandon(WaitNumber),
}

/// The state of a lease at its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Belief {
    /// None yet, or it ran out.
    Paused,
    /// Until then.
    Held(LocalTime),
    /// The incarnation is over.
    Ended,
}

/// A renewal that is under way.
#[derive(Clone, Debug)]
struct Asked {
    number: RenewalNumber,
    sent: LocalTime,
    /// Others that have not vouched yet.
    missing: BTreeSet<MemberId>,
}

/// A member, as the holder of its lease.
#[derive(Clone, Debug)]
pub struct LeaseHolder {
    terms: LeaseTerms,
    belief: Belief,
    view: ViewNumber,
    others: BTreeSet<MemberId>,
    asked: VecDeque<Asked>,
    last: RenewalNumber,
    pub(super) guards: LeaseGuards,
}

impl LeaseHolder {
    /// A member of this view, which has these others. It holds nothing yet.
    pub fn new(terms: LeaseTerms, view: ViewNumber, others: BTreeSet<MemberId>) -> LeaseHolder {
        LeaseHolder {
            terms,
            belief: Belief::Paused,
            view,
            others,
            asked: VecDeque::new(),
            last: RenewalNumber(0),
            guards: LeaseGuards::default(),
        }
    }

    /// Whether it may act at this moment.
    pub fn holds(&self, now: LocalTime) -> bool {
        matches!(self.belief, Belief::Held(until) if now < until)
    }

    /// When a lease runs out that is held now.
    pub fn until(&self) -> Option<LocalTime> {
        match self.belief {
            Belief::Held(until) => Some(until),
            Belief::Paused | Belief::Ended => None,
        }
    }

    /// Takes one fact. Effects are to be carried out in their order.
    pub fn step(&mut self, now: LocalTime, input: HolderInput) -> Vec<HolderEffect> {
        let mut out = Vec::new();
        self.run_out(now, &mut out);
        match (self.belief, input) {
            (Belief::Paused | Belief::Held(_), HolderInput::Tick) => self.ask(now, &mut out),
            (Belief::Paused | Belief::Held(_), HolderInput::Granted(number)) => {
                self.extend(now, number, &mut out);
            }
            (Belief::Paused | Belief::Held(_), HolderInput::Vouched(number, by)) => {
                self.vouched(now, number, by, &mut out);
            }
            (Belief::Paused | Belief::Held(_), HolderInput::Viewed(view, others)) => {
                self.viewed(view, others);
            }
            (Belief::Paused | Belief::Held(_), HolderInput::Excluded) => {
                self.belief = Belief::Ended;
                self.asked.clear();
                out.push(HolderEffect::End);
            }
            (Belief::Held(_), HolderInput::WaitEnded(wait)) => {
                out.push(HolderEffect::Proceed(wait));
            }
            (Belief::Paused | Belief::Ended, HolderInput::WaitEnded(wait)) => {
                out.push(self.after_lapse(wait));
            }
            (
                Belief::Ended,
                HolderInput::Tick
                | HolderInput::Granted(_)
                | HolderInput::Vouched(..)
                | HolderInput::Viewed(..)
                | HolderInput::Excluded,
            ) => {}
        }
        out
    }

    fn run_out(&mut self, now: LocalTime, out: &mut Vec<HolderEffect>) {
        if self.until().is_some() && !self.holds(now) {
            self.belief = Belief::Paused;
            out.push(HolderEffect::Pause);
        }
    }

    fn after_lapse(&self, wait: WaitNumber) -> HolderEffect {
        match self.guards.keep(LeaseGuard::LookAgain) {
            true => HolderEffect::Abandon(wait),
            false => HolderEffect::Proceed(wait),
        }
    }

    fn ask(&mut self, now: LocalTime, out: &mut Vec<HolderEffect>) {
        self.last = RenewalNumber(self.last.0 + 1);
        if self.asked.len() == RENEWALS_MAX {
            self.asked.pop_front();
        }
        self.asked.push_back(Asked {
            number: self.last,
            sent: now,
            missing: self.others.clone(),
        });
        let others = self.others.iter().copied().collect();
        out.push(HolderEffect::AskCoordinator(self.last));
        out.push(HolderEffect::AskMembers(self.last, self.view, others));
    }

    fn vouched(
        &mut self,
        now: LocalTime,
        number: RenewalNumber,
        by: MemberId,
        out: &mut Vec<HolderEffect>,
    ) {
        let needed = match self.guards.keep(LeaseGuard::NeedEveryVouch) {
            true => 0,
            false => self.others.len() / 2,
        };
        let Some(asked) = self.asked.iter_mut().find(|asked| asked.number == number) else {
            return;
        };
        asked.missing.remove(&by);
        if asked.missing.len() <= needed {
            self.extend(now, number, out);
        }
    }

    /// The renewal is granted. Earlier ones would add nothing.
    fn extend(&mut self, now: LocalTime, number: RenewalNumber, out: &mut Vec<HolderEffect>) {
        let Some(asked) = self.asked.iter().find(|asked| asked.number == number) else {
            return;
        };
        let from = match self.guards.keep(LeaseGuard::CountFromSending) {
            true => asked.sent,
            false => now,
        };
        let until = from.plus(self.term());
        self.asked.retain(|asked| asked.number > number);
        if until <= now {
            return;
        }
        match self.belief {
            Belief::Held(earlier) => self.belief = Belief::Held(earlier.max(until)),
            Belief::Paused | Belief::Ended => {
                self.belief = Belief::Held(until);
                out.push(HolderEffect::Resume);
            }
        }
    }

    fn term(&self) -> LocalSpan {
        match self.guards.keep(LeaseGuard::ShortenTerm) {
            true => self.terms.held(),
            false => self.terms.granted,
        }
    }

    /// Vouches of an older view count no more: they are not of all members.
    fn viewed(&mut self, view: ViewNumber, others: BTreeSet<MemberId>) {
        if view > self.view {
            self.view = view;
            self.others = others;
            self.asked.clear();
        }
    }
}
