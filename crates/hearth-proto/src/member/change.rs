//! Going over from one view to the next, in step with the other members.

use super::{Member, Recovery};
use crate::effect::{Effect, Outbox};
use crate::ids::{NodeId, View};
use crate::input::Input;
use crate::time::{Span, Time};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;

/// Pause before the kernel is told once more to bring all to the store.
const SETTLE_AGAIN: Span = Span::millis(20);

/// How far a member has come. Others are told of `Quiet`, `Settled` and `Begun`, and by members with something to recover
/// of `Settling`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ViewStage {
    /// Writes of sessions end.
    Ending,
    /// None is under way here.
    Quiet,
    /// Every byte goes to the store.
    Settling,
    /// The store has all that was here.
    Settled,
    /// Store operations end.
    Still,
    /// The next kernel takes up what sessions have.
    Beginning,
    /// It has.
    Begun,
    /// It is no member any more, and needs not be.
    Left,
}

/// A change of the view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Change {
    pub(super) view: View,
    pub(super) members: Vec<NodeId>,
    leaving: Vec<NodeId>,
    pub(super) stage: ViewStage,
    pub(super) settles_again: Option<Time>,
    /// The new kernel was told to finish torn writes. One that fails waits for the next view, which has come elsewhere.
    has_finished: bool,
}

/// The last word of each other member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Reached(BTreeMap<NodeId, (View, ViewStage)>);

impl Change {
    pub(super) fn new(view: View, members: Vec<NodeId>, leaving: Vec<NodeId>) -> Change {
        Change {
            view,
            members,
            leaving,
            stage: ViewStage::Ending,
            settles_again: None,
            has_finished: false,
        }
    }

    /// The members, and those that leave.
    pub(super) fn everybody(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.members.iter().chain(&self.leaving).copied()
    }
}

impl Reached {
    pub(super) fn note(&mut self, from: NodeId, view: View, stage: ViewStage) {
        let known = self.0.entry(from).or_insert((view, stage));
        *known = (*known).max((view, stage));
    }

    /// True if the node goes over to a view that comes after this one.
    pub(super) fn is_past(&self, node: NodeId, view: View) -> bool {
        self.0.get(&node).is_some_and(|&(known, _)| known > view)
    }

    /// True if these have come so far in going over to the view.
    fn have(&self, nodes: impl Iterator<Item = NodeId>, at: (View, ViewStage)) -> bool {
        let mut known = nodes.map(|node| self.0.get(&node));
        known.all(|known| known.is_some_and(|&known| known.0 == at.0 && known.1 >= at.1))
    }
}

impl Member {
    /// The event that a change waits for, in words.
    pub fn waits_for(&self) -> Option<&'static str> {
        Some(match self.stage()? {
            ViewStage::Ending => "writes under way here to end",
            ViewStage::Quiet => "writes under way elsewhere to end",
            ViewStage::Settling => "the store to take what is here",
            ViewStage::Settled => "the store to take what others have",
            ViewStage::Still => "store operations to end",
            ViewStage::Beginning if self.node.is_beginning() => "front ends to let go",
            ViewStage::Beginning if !self.brackets.are_renewed() => "word of changes under way",
            ViewStage::Beginning => "torn writes to be finished",
            ViewStage::Begun => "others to begin",
            ViewStage::Left => "nothing, as this agent has left",
        })
    }

    /// True if it has left in order, and all members know: they have begun without it.
    pub fn is_missed_by_none(&self) -> bool {
        let begun = |change: &Change| {
            let members = change.members.iter().copied();
            self.reached.have(members, (change.view, ViewStage::Begun))
        };
        self.has_left() && self.change.as_ref().is_some_and(begun)
    }

    /// The members change. One that was not a member has nothing that could be wanting in the store.
    pub(super) fn begin_change(
        &mut self,
        now: Time,
        (change, gone): (Change, &[NodeId]),
        out: &mut Outbox,
    ) {
        if change.view <= self.view() {
            return;
        }
        let has_left = self.has_left();
        self.change = Some(change);
        for mail in mem::take(&mut self.early) {
            self.message(now, mail, out);
        }
        if has_left {
            self.announce(ViewStage::Settled, out);
            return self.enter(now, ViewStage::Left, out);
        }
        self.drive(now, Input::Hush, out);
        let me = self.me();
        for &node in gone.iter().filter(|&&node| node != me) {
            self.drive(now, Input::PeerDown(node), out);
            self.requests.lose(node);
        }
    }

    /// Takes the next step of a change, if it is time for it.
    pub(super) fn go_on(&mut self, now: Time, out: &mut Outbox) -> bool {
        let Some(change) = &self.change else {
            return false;
        };
        let (me, view) = (self.me(), change.view);
        let is_other = |&node: &NodeId| node != me;
        let all = |stage| {
            let others = change.everybody().filter(is_other);
            self.reached.have(others, (view, stage))
        };
        let has_begun = || {
            let others = change.members.iter().copied().filter(is_other);
            self.reached.have(others, (view, ViewStage::Begun))
        };
        let rests = self.requests.are_directed() && self.store_ops == 0;
        let next = match change.stage {
            ViewStage::Ending => self.requests.are_quiet().then_some(ViewStage::Quiet),
            ViewStage::Quiet => all(ViewStage::Quiet).then_some(ViewStage::Settling),
            ViewStage::Settling => match self.recovery {
                Recovery::Due if all(ViewStage::Settling) => return self.recover(out),
                Recovery::Done if self.node.is_settled() => Some(ViewStage::Settled),
                Recovery::Due | Recovery::UnderWay | Recovery::Done => {
                    return self.settle(now, out);
                }
            },
            ViewStage::Settled => all(ViewStage::Settled).then_some(ViewStage::Still),
            ViewStage::Still if change.members.contains(&me) => {
                rests.then_some(ViewStage::Beginning)
            }
            ViewStage::Still => rests.then_some(ViewStage::Left),
            ViewStage::Beginning if self.node.is_beginning() => None,
            ViewStage::Beginning if !change.has_finished => {
                return self.finish_torn(now, out);
            }
            ViewStage::Beginning => {
                let over = self.requests.are_directed() && !self.requests.are_torn();
                let begun = self.brackets.are_renewed() && over;
                begun.then_some(ViewStage::Begun)
            }
            ViewStage::Begun => return has_begun() && self.end_change(now, out),
            ViewStage::Left => None,
        };
        let Some(next) = next else {
            return false;
        };
        self.enter(now, next, out);
        true
    }

    fn enter(&mut self, now: Time, stage: ViewStage, out: &mut Outbox) {
        let Some(change) = &mut self.change else {
            return;
        };
        (change.stage, change.settles_again) = (stage, None);
        match stage {
            ViewStage::Quiet | ViewStage::Settled | ViewStage::Begun => self.announce(stage, out),
            ViewStage::Settling => {
                if self.recovery != Recovery::Done {
                    self.announce(stage, out);
                }
                self.drive(now, Input::Settle, out);
            }
            ViewStage::Beginning => self.begin_kernel(now, out),
            ViewStage::Ending | ViewStage::Still | ViewStage::Left => {}
        }
    }

    /// All others have settled, or wait as this member does: nobody writes to the store. False: nothing more happens in this
    /// step.
    fn recover(&mut self, out: &mut Outbox) -> bool {
        self.recovery = Recovery::UnderWay;
        out.push(Effect::Recover);
        false
    }

    /// Says again and again that all is to go to the store. False: nothing more happens in this step.
    fn settle(&mut self, now: Time, out: &mut Outbox) -> bool {
        let due = self.change.as_ref().and_then(|change| change.settles_again);
        if due.is_some_and(|due| due <= now) {
            self.drive(now, Input::Settle, out);
        }
        if let Some(change) = &mut self.change
            && due.is_none_or(|due| due <= now)
        {
            change.settles_again = Some(now + SETTLE_AGAIN);
        }
        false
    }

    /// The kernel of the next view.
    fn begin_kernel(&mut self, now: Time, out: &mut Outbox) {
        let Some(change) = &self.change else {
            return;
        };
        let (view, members) = (change.view, change.members.clone());
        let begin = Input::View {
            view,
            members,
            leaving: Vec::new(),
            gone: Vec::new(),
        };
        self.drive(now, begin, out);
        for (ticket, request) in self.brackets.renew() {
            self.drive(now, Input::Request(ticket, request), out);
        }
        for (ticket, request) in self.requests.take_reads() {
            self.requests.begin(ticket, &request);
            self.drive(now, Input::Request(ticket, request), out);
        }
        for mail in mem::take(&mut self.early) {
            self.message(now, mail, out);
        }
    }

    /// Writes that a node which is gone has torn are finished.
    fn finish_torn(&mut self, now: Time, out: &mut Outbox) -> bool {
        if let Some(change) = &mut self.change {
            change.has_finished = true;
        }
        for (ticket, request) in self.requests.take_torn() {
            self.requests.begin(ticket, &request);
            self.drive(now, Input::Request(ticket, request), out);
        }
        true
    }

    /// All have begun: what waited goes on.
    fn end_change(&mut self, now: Time, out: &mut Outbox) -> bool {
        self.change = None;
        out.append(&mut self.finished);
        for (ticket, request) in self.requests.take_parked() {
            self.request(now, (ticket, request), out);
        }
        true
    }
}
