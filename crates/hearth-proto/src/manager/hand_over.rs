//! A file that nobody has open is handed over to another home ([`crate::authority`], `hand_over`).

use super::control::After;
use super::{Ask, Seat};
use crate::RawErrno;
use crate::errno::EBUSY;
use crate::guard::Guard;
use crate::ids::NodeId;
use crate::msg::{Body, Cut};

impl Seat<'_, '_> {
    /// The home of a file would have another node be that.
    pub(super) fn hand_over(&mut self, ask: Ask, heir: NodeId) {
        match self.file.stamp {
            Some(_) => self.let_go_for(ask, heir),
            None if self.may_hand_over(ask.from, heir) => self.settle(After::Answer(ask)),
            None => self.fail(&ask, EBUSY),
        }
    }

    /// All of the file is in the store, as far as that could be.
    pub(super) fn let_go_for(&mut self, ask: Ask, heir: NodeId) {
        if !self.may_hand_over(ask.from, heir) || self.file.stamp.is_none() {
            return self.fail(&ask, EBUSY);
        }
        let homes = self.all_homes();
        self.cut(Cut::HandOver(heir), homes, After::Answer(ask));
    }

    /// True for a file of one home that nobody has open.
    fn may_hand_over(&self, home: NodeId, heir: NodeId) -> bool {
        let fits = self.ctx.config.is_member(heir) && heir != home && !self.ctx.peers.is_down(heir);
        let its = self.is_whole() && self.file.private.is_none() && self.file.home == Some(home);
        fits && its && !self.is_open() && !self.is_laminated()
    }

    fn is_open(&self) -> bool {
        !self.file.openers.is_empty() && self.ctx.config.keeps(Guard::HandedClosed)
    }

    /// The home has let go. From here on the heir is the home, whoever is gone next.
    pub(super) fn bequeath(
        &mut self,
        homes: &[NodeId],
        ask: Ask,
        (heir, refused): (NodeId, Option<RawErrno>),
    ) {
        // A node that tells of its handles anew does not wait, and has been told which node is the home.
        let refused = refused.or((self.is_open() || self.ctx.peers.is_down(heir)).then_some(EBUSY));
        if let Some(errno) = refused {
            self.keep_home(homes, heir);
            return self.fail(&ask, errno);
        }
        self.file.home = Some(heir);
        self.tell(homes, &Body::Resume { done: true });
        self.tell(&[heir], &Body::Inherit { is: true });
        self.answer(&ask, Body::HandedOver);
    }

    /// The file stays where it is.
    pub(super) fn keep_home(&mut self, homes: &[NodeId], heir: NodeId) {
        self.tell(homes, &Body::Resume { done: false });
        self.tell(&[heir], &Body::Inherit { is: false });
    }
}
