//! Windows: one node writes a range to the store while nobody takes it into memory.
//!
//! A window is a cut of its range at every node that may hold pages. Windows of one file take turns,
//! because each is a control operation.
//!
//! Invariants:
//! - WINDOW-1 (I3): the writer is let go only after every holder has dropped the range, and holders take it
//!   again only after the store has answered, or the writer is gone.
//! - WINDOW-2: an append's place is the end of the file when its window opens.

use super::control::{After, Control};
use super::{Ask, Seat};
use crate::RawErrno;
use crate::config::{Authorities, Writes};
use crate::ids::{NodeId, Stamp};
use crate::msg::{Body, Cut};
use alloc::vec::Vec;

/// Holders that an opener is told of.
const HOLDERS_TOLD_MAX: usize = 64;

impl Seat<'_, '_> {
    pub(super) fn window(&mut self, mut ask: Ask, at: Option<u64>, len: u32) {
        if ask.generation.life != self.file.generation.life {
            return self.answer(&ask, Body::OldGeneration);
        }
        let offset = at.unwrap_or(self.file.size);
        let end = offset.checked_add(u64::from(len));
        if len == 0 || end.is_none_or(|end| end > i64::MAX as u64) {
            return self.fail(&ask, crate::errno::EFBIG);
        }
        let at = Some(offset);
        ask.body = Body::Window { at, len };
        let (first, count) = self.ctx.config.pages_of(offset, u64::from(len));
        let homes = self.all_homes();
        self.cut(Cut::Window { first, count }, homes, After::Answer(ask));
    }

    /// Everybody has dropped the range.
    pub(super) fn let_write(&mut self, ask: Ask, mut homes: Vec<NodeId>) {
        let Body::Window {
            at: Some(offset),
            len,
        } = ask.body
        else {
            return self.fail(&ask, crate::errno::EIO);
        };
        if self.ctx.config.rules().writes == Writes::ThroughUnguarded {
            let holders = core::mem::take(&mut homes);
            self.tell(&holders, &Body::Resume { done: true });
        }
        let asked = ask.req.seq;
        let go = Body::WindowGo { asked, offset };
        let awaiting = self.order([ask.from], &go);
        self.file.control = Some(Control::Writing {
            end: offset + u64::from(len),
            homes,
            ask,
            awaiting,
            result: Err(crate::errno::EIO),
        });
    }

    /// The store has the range, or would not take it.
    pub(super) fn wrote(
        &mut self,
        ask: &Ask,
        homes: &[NodeId],
        end: u64,
        result: Result<Stamp, RawErrno>,
    ) {
        self.tell(homes, &Body::Resume { done: true });
        match result {
            Ok(stamp) => {
                self.file.size = self.file.size.max(end);
                self.file.stamp = self.file.stamp.max(Some(stamp));
                self.file.changed = self.file.changed.max(Some(stamp));
                self.answer(ask, Body::WindowOk(self.file.size));
            }
            Err(errno) => {
                // Some of it may be in the store.
                self.file.stamp = None;
                self.fail(ask, errno);
            }
        }
    }

    /// Nodes that an opener may ask for pages.
    pub(super) fn holders_for(&self, opener: NodeId) -> Vec<u32> {
        let others = self.file.cachers.iter().filter(|&node| node != opener);
        others.map(|node| node.0).take(HOLDERS_TOLD_MAX).collect()
    }

    /// Every node that may be home of a page of the file.
    pub(super) fn all_homes(&self) -> Vec<NodeId> {
        let rules = self.ctx.config.rules();
        match (rules.authorities, self.sole_home()) {
            (Authorities::Each, _) => self.file.cachers.iter().collect(),
            (Authorities::Placed, Some(home)) => alloc::vec![home],
            (Authorities::Placed, None) => self.ctx.config.homes().collect(),
        }
    }
}
