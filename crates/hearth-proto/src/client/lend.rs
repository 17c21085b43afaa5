//! A home that has evicted pages asks a node that it gave copies.

use super::Desk;
use crate::effect::{Piece, Src};
use crate::ids::NodeId;
use crate::msg::{Body, Envelope, Held};
use alloc::vec::Vec;

impl Desk<'_, '_> {
    /// Lends what is here of the pages, up to the first that is not; perhaps nothing.
    pub(super) fn lend_copies(&mut self, home: NodeId, ask: &Envelope, first: u64, count: u32) {
        let mut lens = Vec::new();
        let mut data = Vec::new();
        let file = self.client.files.get(&ask.file);
        let file = file.filter(|file| file.generation.life == ask.generation.life);
        for page in first..first + u64::from(count) {
            let copy = file.and_then(|file| file.copies.get(&page));
            let valid = |slot| self.ctx.frames.valid(slot);
            let Some(copy) = copy.filter(|copy| copy.home == home && valid(copy.slot)) else {
                break;
            };
            lens.push(copy.extent);
            if copy.extent > 0 {
                data.push(Piece {
                    src: Src::Frame(copy.slot.frame),
                    at: 0,
                    len: copy.extent,
                });
            }
        }
        let held = Held::default();
        let body = Body::Peeked { first, lens, held };
        let (file, generation, req) = (ask.file, ask.generation, ask.req);
        self.ctx
            .answer_with(home, file, generation, req, body, data);
    }
}
