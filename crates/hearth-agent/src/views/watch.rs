//! Each view is told to the kernel, in order.

use super::{FENCE_SPAN, Views};
use crate::core::Core;
use hearth_proto::{Input, NodeId, View};
use hearth_views::log::{LogError, Patience, Silence, ViewLog};
use hearth_views::membership::{Incarnation, MemberId, MemberKey, Membership, ViewNumber};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How long one question for views waits.
const WATCH_SPAN: Duration = Duration::from_secs(1);

/// The members that the kernel was told of last, each in its life.
#[derive(Default)]
pub(super) struct Told {
    number: ViewNumber,
    members: BTreeMap<MemberId, Incarnation>,
    /// Those that were excluded since.
    excluded: BTreeSet<MemberKey>,
    /// Nodes that were leaving then.
    leaving: Vec<NodeId>,
}

impl Told {
    pub(super) fn of(view: &Membership) -> Told {
        let keys = view.keys().into_iter();
        Told {
            number: view.number(),
            members: keys.map(|key| (key.id, key.incarnation)).collect(),
            ..Told::default()
        }
    }

    /// None, before any view that comes after this one.
    pub(super) fn nothing(number: ViewNumber) -> Told {
        Told {
            number,
            ..Told::default()
        }
    }

    fn has(&self, key: MemberKey) -> bool {
        self.members.get(&key.id) == Some(&key.incarnation)
    }

    /// Nodes whose lives of then are over in this view.
    fn gone_in(&self, view: &Membership) -> Vec<NodeId> {
        let now = Told::of(view).members;
        let over = |&(id, life): &(&MemberId, &Incarnation)| now.get(id) != Some(life);
        let over = self.members.iter().filter(over);
        over.map(|(id, _)| NodeId(id.0)).collect()
    }

    /// So that they do not pass for those that left in order.
    fn note_excluded(&mut self, view: &Membership) {
        self.excluded
            .extend(view.unfenced().map(|unfenced| unfenced.record.key));
    }

    /// Nodes whose lives of then left in order.
    fn left_in(&self, view: &Membership) -> Vec<NodeId> {
        let left = |(&id, &incarnation): (&MemberId, &Incarnation)| {
            let key = MemberKey { id, incarnation };
            let left = view.member(id).is_none() && !self.excluded.contains(&key);
            left.then_some(NodeId(id.0))
        };
        self.members.iter().filter_map(left).collect()
    }

    /// Members of a view in lives that were no members before.
    fn new_in(&self, view: &Membership) -> impl Iterator<Item = MemberId> {
        let keys = view.keys().into_iter().filter(|&key| !self.has(key));
        let ids: Vec<MemberId> = keys.map(|key| key.id).collect();
        ids.into_iter()
    }
}

impl Views {
    /// Hears of views until the agent ends.
    pub(super) fn watch(&self, core: &Core, mut told: Told) {
        let mut known = told.number;
        while !self.lease.has_ended() {
            let patience = Patience::new(WATCH_SPAN, &self.call_off);
            match self.log.watch(known, &patience) {
                Ok(views) => {
                    for view in views {
                        known = view.number();
                        self.viewed(core, &view, &mut told);
                    }
                }
                Err(LogError::Undecided(Silence::CalledOff)) => return,
                Err(_) => self.rest(Duration::from_millis(100)),
            }
        }
    }

    pub(super) fn viewed(&self, core: &Core, view: &Arc<Membership>, told: &mut Told) {
        if !view.has(self.me) && !self.leaves() {
            match told.has(self.me) {
                true => self.excluded(),
                // It had not joined yet.
                false => return,
            }
        }
        told.new_in(view)
            .for_each(|id| self.suspects().begins_anew(id.0));
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(view);
        log::info!("view {}: {} members", view.number().0, view.members().len());
        self.tell_strangers(core, view);
        told.note_excluded(view);
        if view.unfenced().len() > 0 {
            return self.fence(view);
        }
        let leaving = self.leaving_in(core, view, told);
        let mut gone = told.gone_in(view);
        let is_member = |peer| view.member(MemberId(peer)).is_some();
        let broken = self.suspects().take_broken(is_member);
        gone.extend(broken.into_iter().map(NodeId));
        gone.retain(|node| !leaving.contains(node));
        gone.sort_unstable();
        gone.dedup();
        let members = view.members().map(|seated| NodeId(seated.record.key.id.0));
        core.drive(Input::View {
            view: View(view.number().0),
            members: members.collect(),
            leaving: leaving.clone(),
            gone,
        });
        *told = Told::of(view);
        self.suspects().leave(&leaving);
        told.leaving = leaving;
    }

    /// Those that leave in order, and have not left: all others wait for their bytes. One that is not connected any more
    /// is gone.
    fn leaving_in(&self, core: &Core, view: &Membership, told: &Told) -> Vec<NodeId> {
        let mut leaving = told.left_in(view);
        let state = core.lock();
        if state.member.stage().is_some() {
            leaving.extend(&told.leaving);
        }
        leaving.retain(|node| {
            let is_member = view.member(MemberId(node.0)).is_some();
            !is_member && (node.0 == self.me.id.0 || state.up[node.0 as usize])
        });
        leaving.sort_unstable();
        leaving.dedup();
        leaving
    }

    /// Nothing of the excluded is on its way to the store: each member that knows it says so. Else the first one waits until
    /// that is so.
    fn fence(&self, view: &Membership) {
        let unfenced = view.unfenced().map(|unfenced| unfenced.record.key);
        let (dead, others): (Vec<MemberKey>, Vec<MemberKey>) = {
            let suspects = self.suspects();
            unfenced.partition(|&key| suspects.is_dead(key))
        };
        dead.into_iter().for_each(|key| self.say_fenced(key));
        if others.is_empty() {
            return;
        }
        let first = view.members().next();
        if first.is_none_or(|seated| seated.record.key != self.me) {
            return;
        }
        self.rest(FENCE_SPAN);
        others.into_iter().for_each(|key| self.say_fenced(key));
    }

    /// Nobody else says it, and all writes wait for it: so it is said until it is decided.
    fn say_fenced(&self, member: MemberKey) {
        while !self.lease.has_ended() {
            let patience = Patience::new(WATCH_SPAN, &self.call_off);
            match self.log.fence(member, &patience) {
                Ok(()) => return,
                Err(error) => log::info!("cannot say yet that agent {member} is fenced: {error}"),
            }
        }
    }
}
