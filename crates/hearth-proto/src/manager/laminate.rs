//! The semantics that are promised of a file, and its lamination.

use super::control::{After, Control};
use super::{Ask, Seat};
use crate::RawErrno;
use crate::errno;
use crate::guard::Guard;
use crate::ids::{NodeId, Stamp};
use crate::msg::{Body, Cut, Service};
use crate::semantics::Semantics;
use alloc::vec::Vec;

impl Seat<'_, '_> {
    /// Learns what an opener wants to be promised: it has a choice while nobody has the file open.
    pub(super) fn agree(&mut self, wanted: Semantics, stamp: &Stamp) {
        let since = self.file.laminated;
        let judged_before = since.is_some_and(|since| stamp.ctime_ns < since.ctime_ns);
        let wanted = match wanted.under(self.ctx.config.rules()) {
            // The store judged the open before it let nobody write any more.
            Semantics::Commit if judged_before => Semantics::Laminated,
            // A node that makes a file that nobody may write is its writer for all that.
            Semantics::Laminated if !self.file.known && since.is_none() => Semantics::Commit,
            semantics => semantics,
        };
        if self.file.openers.is_empty() && self.file.semantics != wanted {
            self.file.semantics = wanted;
            self.file.version += 1;
        }
    }

    pub(super) fn is_laminated(&self) -> bool {
        self.file.semantics == Semantics::Laminated
    }

    /// The version that an open is told. A writer's close may be on its way still, so that while
    /// another node writes each open counts as one after a change (V2).
    pub(super) fn version_for(&mut self, written_elsewhere: bool) -> u64 {
        let looks = self.file.semantics.looks_at_open();
        if looks && written_elsewhere && self.ctx.config.keeps(Guard::VersionTold) {
            self.file.version += 1;
        }
        self.file.version
    }

    /// The store lets nobody write the file any more.
    pub(super) fn laminate(&mut self, ask: Ask, stamp: Stamp) {
        self.file.laminated = self.file.laminated.max(Some(stamp));
        if self.file.semantics != Semantics::Commit || !self.file.known {
            return self.answer(&ask, Body::LaminateOk);
        }
        let homes = self.all_homes();
        self.cut(Cut::Laminate, homes, After::Answer(ask));
    }

    /// The homes hold all writes back, and the store has what came before, or would not take it.
    pub(super) fn stilled(&mut self, homes: Vec<NodeId>, ask: Ask, errno: Option<RawErrno>) {
        if let Some(errno) = errno {
            self.tell(&homes, &Body::Resume { done: false });
            return self.fail(&ask, errno);
        }
        // Homes let a write in again that was sent before its writer heard, but not one of this
        // generation, of which nobody hears without hearing that the file is laminated (V3).
        self.file.generation.cut += 1;
        self.file.semantics = Semantics::Laminated;
        self.file.version += 1;
        let awaiting = match self.ctx.config.keeps(Guard::LaminationTold) {
            true => self.order_forget(u64::MAX, Service::Laminated),
            false => Vec::new(),
        };
        self.file.control = Some(Control::Laminating {
            homes,
            awaiting,
            ask,
        });
        self.advance();
    }

    /// Every writer knows.
    pub(super) fn laminated(&mut self, homes: &[NodeId], ask: Option<&Ask>) {
        self.tell(homes, &Body::Resume { done: true });
        if let Some(ask) = ask {
            self.answer(ask, Body::LaminateOk);
        }
    }

    /// Refuses what would change a laminated file.
    pub(super) fn refuse_laminated(&mut self, ask: &Ask) -> bool {
        let laminated = self.is_laminated();
        if laminated {
            self.fail(ask, errno::EPERM);
        }
        laminated
    }
}
