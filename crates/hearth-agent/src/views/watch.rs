//! Each view is told to the kernel, in order.

use super::{FENCE_SPAN, Views};
use crate::core::Core;
use hearth_proto::{Input, NodeId, View};
use hearth_views::log::{LogError, Patience, Silence, ViewLog};
use hearth_views::membership::{Incarnation, MemberId, MemberKey, Membership, ViewNumber};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How long one question for views waits.
const WATCH_SPAN: Duration = Duration::from_secs(1);

/// The members that the kernel was told of last, each in its life.
pub(super) struct Told {
    number: ViewNumber,
    members: BTreeMap<MemberId, Incarnation>,
}

impl Told {
    pub(super) fn of(view: &Membership) -> Told {
        let keys = view.keys().into_iter();
        Told {
            number: view.number(),
            members: keys.map(|key| (key.id, key.incarnation)).collect(),
        }
    }

    /// None, before any view that comes after this one.
    pub(super) fn nothing(number: ViewNumber) -> Told {
        Told {
            number,
            members: BTreeMap::new(),
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

    fn viewed(&self, core: &Core, view: &Arc<Membership>, told: &mut Told) {
        if !view.has(self.me) {
            match told.has(self.me) {
                true => self.excluded(),
                // It had not joined yet.
                false => return,
            }
        }
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(view);
        log::info!("view {}: {} members", view.number().0, view.members().len());
        self.tell_strangers(core, view);
        if view.unfenced().len() > 0 {
            return self.fence(view);
        }
        let mut gone = told.gone_in(view);
        gone.extend(self.suspects().take_broken().into_iter().map(NodeId));
        gone.sort_unstable();
        gone.dedup();
        let members = view.members().map(|seated| NodeId(seated.record.key.id.0));
        core.drive(Input::View {
            view: View(view.number().0),
            members: members.collect(),
            leaving: Vec::new(),
            gone,
        });
        *told = Told::of(view);
    }

    /// The first of the members waits until nothing of the excluded is on its way to the store, and says so.
    fn fence(&self, view: &Membership) {
        let first = view.members().next();
        if first.is_none_or(|seated| seated.record.key != self.me) {
            return;
        }
        self.rest(FENCE_SPAN);
        for unfenced in view.unfenced() {
            let patience = Patience::new(WATCH_SPAN * 10, &self.call_off);
            if let Err(error) = self.log.fence(unfenced.record.key, &patience) {
                log::warn!(
                    "cannot say that agent {} is fenced: {error}",
                    unfenced.record.key
                );
            }
        }
    }
}
