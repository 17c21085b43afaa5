//! Pages go to whoever will read them, before they are asked for.
//!
//! When a node closes or syncs, the home gives what that node wrote to the nodes that had read those pages
//! and were called back for its writes. They are the page's *consumers*, until one says that it has no use
//! for it.
//!
//! Invariants:
//! - U1 (I2): a consumer is recorded as a reader before a page is pushed to it; so a push is a grant that
//!   nobody asked for, and is called back like any other.
//! - U2: a refusal takes a node off the record only if it holds nothing of the page. It refuses while it has
//!   no copy and has asked for none. Whatever it asks for later comes later, as messages of one connection
//!   arrive in order. A grant since may be another push to it, so such a refusal counts for nothing.
//!
//! A page that its writer has to itself is not pushed: that writer is its delegate.

use super::{Home, Page};
use crate::config::Pushes;
use crate::effect::{Piece, Src};
use crate::guard::Guard;
use crate::ids::NodeId;
use crate::msg::{Body, Goal};
use alloc::vec::Vec;

impl Page {
    /// A write called its readers back: they are its consumers, and nobody has it alone.
    pub(super) fn note_consumers(&mut self, writer: NodeId, me: NodeId) {
        let others = |reader: &NodeId| *reader != writer && *reader != me;
        let readers: Vec<NodeId> = self.readers.iter().filter(others).collect();
        if !readers.is_empty() {
            self.sole.forget();
        }
        for reader in readers {
            self.consumers.insert(reader);
        }
    }
}

impl Home<'_, '_> {
    /// True if pages are pushed.
    pub(super) fn pushes(&self) -> bool {
        self.ctx.config.rules().pushes == Pushes::AtFlush
    }

    /// A node closes or syncs: what it wrote goes to whoever will read it.
    pub(super) fn push_written(&mut self, writer: NodeId, goal: Goal) {
        if !self.pushes() || goal == Goal::All || self.file.bar.is_some() {
            return;
        }
        let written = self.file.pages.iter().filter(|(_, page)| {
            let at_rest = page.filled && !page.filling && !page.reserved && page.own.is_none();
            at_rest && !page.consumers.is_empty() && page.writers.contains(writer)
        });
        let written = written.map(|(&number, page)| (number, u64::from(page.extent)));
        // No consumer is sent more at once than it may be sent of a write: the rest it asks for.
        let mut left = self.ctx.config.write_window_bytes;
        let within = written.take_while(|&(_, len)| {
            let fits = len <= left;
            left -= len.min(left);
            fits
        });
        let written: Vec<u64> = within.map(|(number, _)| number).collect();
        for number in written {
            self.push_page(number, writer);
        }
    }

    fn push_page(&mut self, number: u64, writer: NodeId) {
        let (id, generation) = (self.id, self.file.generation);
        let recorded = self.ctx.config.keeps(Guard::PushRecorded);
        let Some(page) = self.file.pages.get_mut(&number) else {
            return;
        };
        let Some(slot) = page.slot.filter(|&slot| self.ctx.frames.valid(slot)) else {
            return;
        };
        let fresh = |node: &NodeId| *node != writer && !page.readers.contains(*node);
        let consumers: Vec<NodeId> = page.consumers.iter().filter(fresh).collect();
        let len = page.extent;
        for consumer in consumers {
            if self.ctx.peers.is_down(consumer) {
                continue;
            }
            self.common.take_back(self.ctx, id, number);
            self.common.grants += 1;
            page.granted = self.common.grants;
            if recorded {
                page.readers.insert(consumer);
                page.lately = Some(consumer);
            }
            let body = Body::Push {
                page: number,
                number: page.granted,
                len,
            };
            let (src, at) = (Src::Frame(slot.frame), 0);
            let data = alloc::vec![Piece { src, at, len }];
            let data = if len > 0 { data } else { Vec::new() };
            self.ctx.ask_with(consumer, id, generation, body, data);
        }
    }

    /// A node has no use for a page that was pushed to it (U2).
    pub(super) fn push_refused(&mut self, from: NodeId, page: u64, number: u64) {
        let at = page;
        let is_last = |page: &&mut Page| page.granted == number;
        if let Some(page) = self.file.pages.get_mut(&at).filter(is_last) {
            page.readers.remove(from);
            page.consumers.remove(from);
            page.refresh(self.ctx.frames);
            if page.idle() {
                self.file.pages.remove(&at);
            }
        }
    }
}
