//! Reads whose pages do not fit into the pool together.
//!
//! Each needs all of its pages at one instant, and could take a page from another read just as that
//! has gathered its last one, for ever. So one read at a time gathers before all others: it keeps the
//! pages that it has, and when it finds no frame, nobody else is given one until it has.

use super::{Home, ReadAsk, Waiting};
use crate::ids::{FileId, ReqId};
use core::ops::Range;

/// The read that gathers before all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Gathering {
    file: FileId,
    req: ReqId,
    first: u64,
    count: u32,
    /// It found no frame.
    hungry: bool,
}

impl Gathering {
    pub(super) fn is_of(&self, file: FileId) -> bool {
        self.file == file
    }

    fn pages(&self) -> Range<u64> {
        self.first..self.first + u64::from(self.count)
    }
}

impl Home<'_, '_> {
    /// The read lacks pages: it gathers before all others, if no other read does.
    pub(super) fn gather(&mut self, ask: &ReadAsk) {
        self.common.gathering.get_or_insert(Gathering {
            file: self.id,
            req: ask.req,
            first: ask.first,
            count: ask.count,
            hungry: false,
        });
    }

    /// Pins what the read that gathers has of this file.
    pub(super) fn keep_gathered(&mut self) {
        let Some(gathering) = self.common.gathering.filter(|g| g.file == self.id) else {
            return;
        };
        for (_, page) in self.file.pages.range_mut(gathering.pages()) {
            if page.filled {
                page.pinned = true;
                page.settle(self.ctx.frames);
            }
        }
    }

    /// True if another request must have frames first.
    pub(super) fn must_stand_back(&self, req: ReqId) -> bool {
        let gathering = self.common.gathering.as_ref();
        gathering.is_some_and(|g| g.hungry && (g.file, g.req) != (self.id, req))
    }

    /// There was no frame for the request.
    pub(super) fn go_hungry(&mut self, req: ReqId) {
        let mine = |g: &&mut Gathering| (g.file, g.req) == (self.id, req);
        if let Some(gathering) = self.common.gathering.as_mut().filter(mine) {
            gathering.hungry = true;
        }
    }

    /// Lets the pages of a read go that does not wait any more.
    pub(super) fn end_gathering(&mut self) {
        let Some(gathering) = self.common.gathering.filter(|g| g.file == self.id) else {
            return;
        };
        let waits = |ask: &Waiting| match ask {
            Waiting::Read(read) => read.req == gathering.req,
            Waiting::Hold(hold) => hold.read.req == gathering.req,
            Waiting::Write(_) | Waiting::Flush(_) | Waiting::Peek(_) => false,
        };
        if self.file.waiting.iter().any(waits) {
            return;
        }
        self.common.gathering = None;
        for number in gathering.pages() {
            let Some(page) = self.file.pages.get_mut(&number) else {
                continue;
            };
            page.pinned = false;
            page.settle(self.ctx.frames);
            if page.idle() {
                self.file.pages.remove(&number);
            }
        }
    }
}
