//! How an agent begins: with all others in the first view, or as one more member of a set that runs. And how it leaves.
//!
//! Agents tell each other as soon as they are connected which view is the newest, or that they have none. An agent that
//! hears of a view without its own life waits until it is connected to all members of that view, and asks to join.
//!
//! Others refuse the connections of an agent that was started again, until its earlier life is excluded and fenced.
//! Then nobody owes that anything, and nobody has to remember it.

use super::{NoViews, Views, key, wire};
use crate::core::{Core, State};
use hearth_net::Anew;
use hearth_proto::{Member, Node, NodeId, View};
use hearth_views::log::{LogError, Patience, ViewLog};
use hearth_views::membership::{
    Incarnation, MemberId, MemberKey, MemberRecord, Membership, MembershipChange, ViewNumber,
};
use hearth_views::wire::{read_view, view_bytes};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Patience for one proposal, and for one question for a newer view.
const STEP_SPAN: Duration = Duration::from_millis(500);

/// Another agent's word about the newest view.
pub(crate) enum Newest {
    /// It has begun in none.
    None,
    /// It knows this one.
    View(Arc<Membership>),
}

impl Newest {
    fn number(&self) -> Option<ViewNumber> {
        match self {
            Newest::None => None,
            Newest::View(view) => Some(view.number()),
        }
    }
}

/// The way in which an agent begins.
pub(crate) enum Beginning {
    /// In the first view of the set, with all its agents, each in the life that this one has met.
    First(Vec<u64>),
    /// As one more member after this view, to whose members it is connected.
    After(Arc<Membership>),
}

impl Beginning {
    /// The way that follows from what others have said; `None` while others are missing.
    pub(crate) fn of(state: &State) -> Option<Beginning> {
        if let Some(view) = newest_without_me(state) {
            let is_met = are_met(state, &view);
            return is_met.then_some(Beginning::After(view));
        }
        let me = state.node().config().me.0 as usize;
        let others = || (0..state.up.len()).filter(|&node| node != me);
        let all = others().all(|node| state.up[node] && state.newest_views[node].is_some());
        all.then(|| Beginning::First(state.lives.clone()))
    }
}

fn me(state: &State) -> MemberKey {
    let id = state.node().config().me.0;
    let incarnation = Incarnation(state.lives[id as usize]);
    MemberKey {
        id: MemberId(id),
        incarnation,
    }
}

/// The newest view that others told of, if it is without this life.
fn newest_without_me(state: &State) -> Option<Arc<Membership>> {
    let views = state.newest_views.iter().filter_map(|newest| match newest {
        Some(Newest::View(view)) => Some(view),
        Some(Newest::None) | None => None,
    });
    let newest = views.max_by_key(|view| view.number())?;
    (!newest.has(me(state))).then(|| Arc::clone(newest))
}

/// True if all members of a view are connected, in the lives that the view has.
fn are_met(state: &State, view: &Membership) -> bool {
    let is_met = |key: MemberKey| {
        let at = key.id.0 as usize;
        state.up.get(at) == Some(&true) && state.lives[at] == key.incarnation.0
    };
    view.keys().into_iter().all(is_met)
}

impl Core {
    /// Tells an agent that was just connected which view is the newest.
    pub(crate) fn tell_newest_view(&self, to: NodeId) {
        if self.has_views {
            let newest = self.views.get().map(|views| views.newest_view());
            wire::tell(self, to.0, &newest.unwrap_or_default());
        }
    }

    /// Hears of the newest view. One without bytes is none.
    pub(crate) fn hear_newest_view(&self, from: NodeId, payload: &[u8]) {
        let newest = match payload {
            [] => Some(Newest::None),
            view => read_view(view).map(|view| Newest::View(Arc::new(view))),
        };
        match newest {
            Some(newest) => {
                let mut state = self.lock();
                let known = &mut state.newest_views[from.0 as usize];
                if known
                    .as_ref()
                    .is_none_or(|known| known.number() <= newest.number())
                {
                    *known = Some(newest);
                }
            }
            None => self.disconnect(from, "it sent a torn view"),
        }
    }

    /// True if an agent that was started again is to be met: its earlier life is over for all. One that others refuse waits.
    pub(crate) fn takes_anew(&self, peer: u32, who: Anew) -> bool {
        if who == Anew::Me {
            return false;
        }
        let mut state = self.lock();
        match self.views.get() {
            Some(views) => {
                if who == Anew::Successor {
                    views.died(peer, state.lives[peer as usize]);
                }
                views.is_over(peer)
            }
            None => {
                if who == Anew::Successor {
                    let life = state.lives[peer as usize];
                    state.dead.insert(key(peer, life));
                }
                let view = newest_without_me(&state);
                // The first start fails: others may have begun with the earlier life, or nobody is left to take this one as
                // a member.
                if view
                    .as_ref()
                    .is_none_or(|view| view.keys().is_subset(&state.dead))
                {
                    state.anew = Some((peer, who));
                }
                view.is_some()
            }
        }
    }

    /// The kernel begins with the view that is to come, and has been a member in none before.
    pub(super) fn begin_without_view(&self) {
        let mut state = self.lock();
        let config = hearth_proto::Config {
            view: View(0),
            ..state.node().config().clone()
        };
        state.member = Member::new(Node::new(config));
    }
}

impl Views {
    /// Joins the members of a view, or of one that follows. Returns once it is a member.
    pub(super) fn join(
        &self,
        core: &Core,
        record: &MemberRecord,
        span: Duration,
    ) -> Result<(), NoViews> {
        let begun = Instant::now();
        while begun.elapsed() < span {
            let view = self.newest();
            if view.has(self.me) {
                return Ok(());
            }
            if self.suspects().are_dead(&view.keys()) {
                return Err(NoViews::NobodyLeft);
            }
            let patience = Patience::new(STEP_SPAN, &self.call_off);
            let is_free = view.member(self.me.id).is_none();
            if is_free && are_met(&core.lock(), &view) {
                let join = MembershipChange::Join(record.clone());
                match self.log.propose(&join, view.number(), &patience) {
                    Ok(_) => {}
                    Err(LogError::Stale { .. } | LogError::Undecided(_)) => {}
                    Err(error) => log::warn!("cannot join: {error}"),
                }
            }
            if let Ok(newer) = self.log.watch(view.number(), &patience)
                && let Some(newest) = newer.last()
            {
                *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(newest);
            }
        }
        Err(NoViews::NotTaken(span))
    }

    /// Leaves the members, and waits until all of them have begun without this agent.
    pub(super) fn leave_within(&self, core: &Core, span: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < span && self.newest().has(self.me) {
            let patience = Patience::new(STEP_SPAN, &self.call_off);
            let leave = MembershipChange::Leave(self.me);
            match self.log.propose(&leave, self.newest().number(), &patience) {
                // The watch tells the kernel.
                Ok(_) | Err(LogError::Stale { .. } | LogError::Undecided(_)) => {}
                // It is the last, or no member any more.
                Err(error) => return log::info!("leaves without a word: {error}"),
            }
            self.rest(Duration::from_millis(10));
        }
        while begun.elapsed() < span && !core.lock().member.is_missed_by_none() {
            self.rest(Duration::from_millis(5));
        }
        while begun.elapsed() < span && self.decides_alone() {
            self.rest(Duration::from_millis(5));
        }
    }

    /// True if others are left that decide nothing before this agent has given them its vote.
    fn decides_alone(&self) -> bool {
        let patience = Patience::new(STEP_SPAN, &self.call_off);
        let voters = self.log.voters(&patience);
        !self.newest().has(self.me) && voters.is_ok_and(|voters| voters == [self.me].into())
    }

    /// Those that are connected and no members hear of a view: they may want to join.
    pub(super) fn tell_strangers(&self, core: &Core, view: &Membership) {
        let up = core.lock().up.clone();
        let strangers = (0..)
            .zip(up)
            .filter(|&(id, up)| up && view.member(MemberId(id)).is_none());
        let bytes = view_bytes(view);
        strangers.for_each(|(id, _)| wire::tell(core, id, &bytes));
    }
}
