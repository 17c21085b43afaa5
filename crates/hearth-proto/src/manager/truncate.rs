//! Truncations: homes let go, openers learn the size, the node that asked truncates the store, homes go on.

use super::control::{After, Control};
use super::{Ask, Seat};
use crate::RawErrno;
use crate::config::{Allocation, Grain};
use crate::errno::EHOSTDOWN;
use crate::guard::Guard;
use crate::ids::{NodeId, Stamp};
use crate::msg::{Body, Cut, Service};
use crate::nodeset::NodeSet;
use crate::placement::home_of_chunk;
use alloc::vec::Vec;

impl Seat<'_, '_> {
    /// Begins a truncation: homes let go of what it takes, and hold requests.
    pub(super) fn truncate(&mut self, ask: Ask, size: u64) {
        if self.refuse_laminated(&ask) {
            return;
        }
        // A truncation that cannot be done disturbs nobody.
        if !self.ctx.config.has_replicas() && self.misses_home(size) {
            return self.fail(&ask, EHOSTDOWN);
        }
        // Writes on their way may have put bytes beyond the size that is known here.
        let homes =
            if self.ctx.config.is_home_to_itself() || !self.file.known || self.file.writers() > 0 {
                self.all_homes()
            } else if size < self.file.size {
                self.homes_between(size, self.file.size)
            } else {
                Vec::new()
            };
        self.cut(Cut::Shrink(size), homes, After::Answer(ask));
    }

    /// No home has refused, or is gone: openers learn the size before the store has it.
    pub(super) fn shorten(&mut self, size: u64, homes: Vec<NodeId>, ask: Ask) {
        let awaiting = self.order_forget(size, Service::Homes);
        self.file.control = Some(Control::Shortening {
            size,
            homes,
            ask,
            awaiting,
        });
        self.advance();
    }

    /// Nobody shows what will be gone: the node that asked truncates the store.
    pub(super) fn let_truncate(&mut self, size: u64, homes: Vec<NodeId>, ask: Ask) {
        self.answer(&ask, Body::TruncateGo);
        self.file.control = Some(Control::Truncating { size, homes, ask });
    }

    /// The store has the new size, or refused it.
    pub(super) fn truncated(&mut self, ask: &Ask, result: Result<Stamp, RawErrno>) {
        let Some(Control::Truncating { size, homes, .. }) = self.file.control.clone() else {
            return self.fail(ask, crate::errno::EIO);
        };
        self.file.control = None;
        self.tell(
            &homes,
            &Body::Resume {
                done: result.is_ok(),
            },
        );
        match result {
            Ok(stamp) => {
                let hides_outsiders = self.file.known && size > 0 && self.is_settled();
                let uncut = self.file.uncut && self.ctx.config.keeps(Guard::CutAnew);
                self.cut_done();
                self.file.size = size;
                self.forget_date();
                self.file.changed = Some(stamp);
                if !self.file.known {
                    // An open on its way may bring a stamp from before.
                    self.file.known = true;
                    self.file.stamp = Some(stamp);
                } else if self.is_settled() {
                    self.file.stamp = self.file.stamp.max(Some(stamp));
                }
                // The new stamp would hide that somebody outside wrote before: the pages that stay
                // are read anew. So they are if a home is back, which may have read what the truncation took.
                if hides_outsiders || uncut {
                    let homes = self.all_homes();
                    return self.cut(Cut::Outside, homes, After::Answer(ask.clone()));
                }
                self.answer(ask, Body::TruncateOk);
            }
            Err(errno) => self.fail(ask, errno),
        }
    }

    /// Nobody writes, and the store has all.
    fn is_settled(&self) -> bool {
        self.file.writers() == 0 && self.file.stamp.is_some()
    }

    /// True if a home that is gone may have bytes beyond a size. It may be cut off alone: what it had would
    /// be back with it. It is not known here which nodes have pages of a file without chunks.
    pub(super) fn misses_home(&self, size: u64) -> bool {
        let config = self.ctx.config;
        let Some(last) = self.file.size.checked_sub(1).filter(|last| size <= *last) else {
            return false;
        };
        let chunk = |offset| config.chunk_of(config.page_of(offset));
        let chunks = chunk(size)..=chunk(last);
        let is_down = |home: &NodeId| self.ctx.peers.is_down(*home);
        match self.sole_home() {
            Some(home) => is_down(&home),
            None if config.is_home_to_itself() || config.rules().grain != Grain::Chunk => false,
            None if config.allocation_rule() != Allocation::Slot => self
                .file
                .chunk_homes
                .range(chunks)
                .any(|(_, home)| is_down(home)),
            None => {
                let homes = self.homes_between(size, last);
                homes.iter().any(is_down)
            }
        }
    }

    /// Homes of the pages that hold bytes between two sizes.
    fn homes_between(&self, from: u64, to: u64) -> Vec<NodeId> {
        let config = self.ctx.config;
        if let Some(node) = self.sole_home() {
            return alloc::vec![node];
        }
        let chunk = |offset| config.chunk_of(config.page_of(offset));
        let (first, last) = (chunk(from), chunk(to));
        // A chunk without a home may be given one at any time, even while the cut is under way.
        let appointed =
            config.allocation_rule() != Allocation::Slot || config.rules().grain != Grain::Chunk;
        if appointed || last - first >= u64::from(config.members_count()) {
            return self.all_homes();
        }
        let home = |chunk| home_of_chunk(config, self.id, chunk);
        let homes: NodeSet = (first..=last).map(home).collect();
        homes.iter().collect()
    }
}
