//! A kernel lives for one view. In the next it begins anew, with what sessions have.
//!
//! ```text
//!  Hush            programs write nothing by themselves; the driver holds back writes
//!  Settle          until nothing is left here: Node::is_settled
//!  View            until ways in keep nothing and managers know the handles: Node::is_beginning
//! ```
//!
//! The driver has to see to three things. No member has a write under way once one of them is told to flush. None is
//! renewed before all have flushed. And a node is renewed while no store operation of its kernel is under way, as the
//! frames are used again.
//!
//! Invariant:
//! - RENEW-1 (I3, I6): when a kernel begins, the store has every byte that was acknowledged, and no way in of its
//!   node keeps one that nobody will call back.

use super::Node;
use crate::ctx::{Ctx, Loopback};
use crate::effect::Outbox;
use crate::frames::Frames;
use crate::ids::{NodeId, View};
use crate::manager::Manager;
use crate::peers::Peers;
use crate::replica::Replica;
use crate::time::Time;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

impl Node {
    /// True if nothing that is here, or that this node wrote, is wanting in the store.
    pub fn is_settled(&self) -> bool {
        let status = self.status();
        let rests = status.dirty_bytes == 0 && status.kept_bytes == 0;
        let syncs = self.client.is_syncing() || self.authority.is_syncing();
        let synced = !syncs && self.authority.unsynced().next().is_none();
        rests && synced && !self.is_settling()
    }

    /// True until ways in keep nothing of the last view, and managers know of all handles.
    pub fn is_beginning(&self) -> bool {
        self.client.is_beginning()
    }

    /// True while somebody waits for ways in to let go of what they keep.
    pub(crate) fn lets_go(&self) -> bool {
        self.client.lets_go()
    }

    /// Programs write nothing by themselves until the kernel is renewed.
    pub(super) fn hush(&mut self, now: Time, out: &mut Outbox, loopback: &mut VecDeque<Loopback>) {
        self.config.offers = false;
        self.with(now, out, loopback, |machines, ctx| {
            machines.authority.take_back_all(ctx);
        });
    }

    /// Begins anew among these members.
    pub(super) fn renew(
        &mut self,
        (now, view): (Time, View),
        members: Vec<NodeId>,
        out: &mut Outbox,
        loopback: &mut VecDeque<Loopback>,
    ) {
        let carried = self.with(now, out, loopback, |machines, ctx| {
            let carried = machines.client.end(ctx, machines.authority);
            machines.authority.end(ctx);
            *machines.client = Default::default();
            (*machines.manager, *machines.replica) = (Manager::default(), Replica::default());
            machines.rescues.end(ctx);
            carried
        });
        self.frames = Frames::new(self.config.frames);
        let strangers = (0..self.config.nodes).map(NodeId);
        self.peers = Peers::without(strangers.filter(|node| !members.contains(node)));
        (self.config.view, self.config.members) = (view, members);
        self.config.offers = self.offers;
        self.bank.renew(&self.config);
        self.with(now, out, loopback, |machines, ctx: &mut Ctx<'_>| {
            machines.client.begin(ctx, machines.authority, carried);
        });
    }
}
