//! Calls that are larger than the pool of their node: what they move goes past the frames.
//!
//! They cannot be kept, and would have everything else go. A home serves as always the bytes that it has in
//! memory. It reads the others from the store into a buffer, for that one read. Such a write goes from its
//! message to the store, and is answered when the store has it. The home does so, and its node often is the
//! caller's own. Another node's client of the store may lag behind what the home's has written.
//!
//! Invariants:
//! - ASIDE-1 (S1): while the store is read aside nobody writes the pages. Frames that it will be served from with the
//!   rest stay as they are.
//! - ASIDE-2 (S1, A3): a write goes aside when no frame has bytes of its pages that the store lacks. From then to its
//!   answer nobody reads them here. Afterwards no frame has any of them.

use super::through::Stage;
use super::{Home, PendingWrite, ReadAsk, StoreOp, Verdict, WriteAsk};
use crate::RawErrno;
use crate::config::{Served, Writes};
use crate::effect::{Effect, Piece, ReadInto, Src};
use crate::guard::Guard;
use crate::ids::{Buf, NodeId};
use crate::input::StoreOk;
use crate::msg::{Origin, Use};
use alloc::vec::Vec;

/// Largest store read of one request, in bytes; one for more is served as any other.
const READ_BYTES_MAX: u32 = 8 << 20;

impl Home<'_, '_> {
    /// True if requests may go past the frames. They have ways of their own if writes go to the store anyway,
    /// or if a tier is between. Keepers of replicas could bring older bytes to the store after these.
    pub(super) fn passes_by(&self) -> bool {
        let rules = self.ctx.config.rules();
        let behind = (rules.served, rules.writes) == (Served::Cache, Writes::Behind);
        behind && !self.ctx.config.has_tier() && !self.ctx.config.has_replicas()
    }

    /// Starts the store read of a request of which not everything is here.
    pub(super) fn try_aside(&mut self, ask: &mut ReadAsk) -> Verdict {
        let page_bytes = self.ctx.config.page_bytes;
        let bytes = ask.count.checked_mul(page_bytes);
        let Some(bytes) = bytes.filter(|&bytes| bytes <= READ_BYTES_MAX) else {
            ask.aside = false;
            return self.try_read(ask);
        };
        if !self.is_settled(ask) {
            return Verdict::Wait;
        }
        let held = self.ctx.config.keeps(Guard::AsideHeld);
        for (&number, page) in self.file.pages.range_mut(pages_of(ask)) {
            self.common.take_back(self.ctx, self.id, number);
            page.filling = held;
            page.settle(self.ctx.frames);
        }
        let buf = self.ctx.new_buf();
        let (file, ask) = (self.id, ask.clone());
        let offset = self.ctx.config.page_start(ask.first);
        let into = ReadInto::Buf(buf, bytes);
        self.read_store(StoreOp::FillAside { file, ask, buf }, offset, into);
        Verdict::Done
    }

    /// True if each page is wholly here or not at all. Of one that was written in part the rest is fetched. The
    /// written part is nowhere else.
    fn is_settled(&mut self, ask: &ReadAsk) -> bool {
        let mut settled = true;
        for number in pages_of(ask) {
            let Some(page) = self.file.pages.get(&number) else {
                continue;
            };
            settled &= !page.filling && (page.filled || page.slot.is_none());
            if !page.filling && !page.filled && page.slot.is_some() {
                self.fill_gaps(number);
            }
        }
        settled
    }

    /// The store has answered: so is the reader, from frames where there are any.
    pub(super) fn read_aside(
        &mut self,
        ask: &ReadAsk,
        buf: Buf,
        result: Result<StoreOk, RawErrno>,
    ) {
        match result {
            Ok(ok) => self.grant_aside(ask, (buf, ok.bytes)),
            Err(errno) => {
                self.ctx.out.push(Effect::Free(buf));
                self.fail(ask.from, ask.req, errno);
            }
        }
        for (_, page) in self.file.pages.range_mut(pages_of(ask)) {
            page.filling = false;
            page.settle(self.ctx.frames);
        }
        self.file.pages.retain(|_, page| !page.idle());
    }

    fn grant_aside(&mut self, ask: &ReadAsk, (buf, read): (Buf, u32)) {
        let end = self.shown_end();
        let mut lens = Vec::with_capacity(ask.count as usize);
        let mut data: Vec<Piece> = Vec::new();
        for number in pages_of(ask) {
            let at = (number - ask.first) as u32 * self.ctx.config.page_bytes;
            let here = self.file.pages.get(&number).filter(|page| page.filled);
            let here = here.and_then(|page| Some((page.slot?, page.extent)));
            let (src, at, extent) = match here {
                Some((slot, extent)) => (Src::Frame(slot.frame), 0, extent),
                None => (Src::Buf(buf), at, read.saturating_sub(at)),
            };
            let below = end.saturating_sub(self.ctx.config.page_start(number));
            let (from, to) = ask.wants_of(self.ctx.config, Use::Once, number);
            let len = u64::from(extent.min(to)).min(below) as u32;
            let len = len.saturating_sub(from);
            lens.push(len);
            if len > 0 {
                let at = at + from;
                push(&mut data, Piece { src, at, len });
            }
        }
        let data = self.lend_aside(ask.from, buf, data);
        let kept = ask.from == self.ctx.me() && data.iter().any(|piece| piece.src == Src::Buf(buf));
        self.send_grant(ask, Use::Once, Origin::Store, (lens, data));
        if !kept {
            self.ctx.out.push(Effect::Free(buf));
        }
    }

    /// Bytes as their reader takes them: this node itself takes one buffer, and frees it.
    fn lend_aside(&mut self, reader: NodeId, buf: Buf, data: Vec<Piece>) -> Vec<Piece> {
        let whole = data.len() == 1 && data[0].src == Src::Buf(buf);
        match reader == self.ctx.me() && !whole {
            true => self.stash_own(Use::Once, data),
            false => data,
        }
    }

    /// Begins a write that takes no frames, once the store has all of its pages.
    pub(super) fn begin_aside(&mut self, ask: &WriteAsk, (first, count): (u64, u32)) -> Verdict {
        let pages = || first..first + u64::from(count);
        let mut within = self.file.pages.range(pages());
        // The bytes that a sync covers are dirty again if that fails.
        let lacks = within.any(|(_, page)| page.dirty_bytes() > 0 || !page.syncing.is_empty());
        if lacks && self.ctx.config.keeps(Guard::AsideEmptied) {
            self.start_flush_of(|number| pages().contains(&number));
            return Verdict::Wait;
        }
        self.begin(ask, first, count);
        Verdict::Done
    }

    /// Every reader has answered: frames are emptied, and the bytes go to the store as they came.
    pub(super) fn store_aside(&mut self, at: usize) {
        let (file, op) = (self.id, self.ctx.new_op());
        let write = &mut self.file.writes[at];
        let (ver, offset, data) = (write.ver, write.ask.offset, write.ask.data);
        let pages = write.first..write.first + u64::from(write.count);
        write.stage = Stage::Storing {
            left: 1,
            errno: None,
        };
        for (_, page) in self.file.pages.range_mut(pages) {
            if self.ctx.config.keeps(Guard::AsideEmptied) {
                if let Some(slot) = page.slot {
                    self.ctx.frames.give_back(slot);
                }
                page.vacate();
            }
        }
        self.ctx.stats.flush_writes += 1;
        self.common.ops.insert(op, StoreOp::Through { file, ver });
        let data = alloc::vec![data];
        self.ctx.out.push(Effect::StoreWrite {
            op,
            file,
            offset,
            data,
        });
    }

    /// The store has the bytes of a write that took no frames, or would not have them.
    pub(super) fn passed_by(&mut self, write: &PendingWrite, failed: Option<RawErrno>) {
        let pages = write.first..write.first + u64::from(write.count);
        for (_, page) in self.file.pages.range_mut(pages) {
            page.readers.clear();
            page.ver = write.ver;
        }
        self.file.pages.retain(|_, page| !page.idle());
        self.file.unstamped |= failed.is_none();
        self.answer_write(write, failed);
        self.free(write.ask.from, Some(write.ask.data));
    }
}

fn pages_of(ask: &ReadAsk) -> core::ops::Range<u64> {
    ask.first..ask.first + u64::from(ask.count)
}

/// Appends a piece, as more of the last one where it is.
fn push(data: &mut Vec<Piece>, piece: Piece) {
    match data.last_mut() {
        Some(last) if last.src == piece.src && last.at + last.len == piece.at => {
            last.len += piece.len;
        }
        Some(_) | None => data.push(piece),
    }
}
