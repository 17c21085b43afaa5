//! Writes that the home passes on to the store before it answers.
//!
//! ```text
//! calling ───────────▶ storing ─────────────▶ answered ──▶ the bank is populated
//!    readers have answered   the store has the bytes,
//!                            daemons' entries are gone
//! ```
//!
//! Invariants:
//! - THROUGH-1 (S1): from the first store write until the end nobody reads the pages here: the store may have
//!   the new bytes at any moment, and the daemons' entries are on their way out.
//! - THROUGH-2: nothing is dirty. Bytes that the store refuses are not kept, and of a block of which not every
//!   byte is known nothing is.

use super::write::parts;
use super::{Home, PendingWrite, StoreOp};
use crate::RawErrno;
use crate::config::{BankAnswer, BankUpdate, Writes};
use crate::effect::{Effect, Piece, Src};
use crate::guard::Guard;
use crate::ids::{FileId, Ver};
use crate::input::StoreOk;
use crate::msg::Body;
use alloc::vec::Vec;

/// How far a write has come at its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    /// Readers are being told.
    Calling,
    /// The pages are locked; all homes must have the write before one may apply it.
    Held,
    /// So many store writes are under way.
    Storing { left: u32, errno: Option<RawErrno> },
    /// The store has it; daemons are given the new bytes before the answer.
    Updating,
}

/// Contiguous bytes of a write that go to the store together.
struct Run {
    offset: u64,
    len: u32,
    data: Vec<Piece>,
}

impl Home<'_, '_> {
    /// True if writes go to the store before they are answered.
    pub(super) fn passes_through(&self) -> bool {
        self.ctx.config.rules().writes == Writes::AtGateway
    }

    /// Has the daemons' entries of a write deleted, if its answer is to wait for that.
    pub(super) fn call_entries(&mut self, first: u64, count: u32) -> Vec<super::bank::Going> {
        let rules = self.ctx.config.rules().bank;
        match rules.map(|bank| bank.answer) {
            Some(BankAnswer::Gone) => self.empty_bank(first, first + u64::from(count)),
            Some(BankAnswer::Store) | None => Vec::new(),
        }
    }

    /// Every reader has answered: the bytes go into their frames and to the store.
    pub(super) fn store_through(&mut self, at: usize) {
        let write = &self.file.writes[at];
        if write.ask.aside {
            return self.store_aside(at);
        }
        let (ask, ver) = (write.ask.clone(), write.ver);
        let mut runs: Vec<Run> = Vec::new();
        for part in parts(self.ctx.config, ask.offset, ask.len) {
            let piece = self.put(&part, ask.data);
            let offset = self.ctx.config.page_start(part.page) + u64::from(part.start);
            let full = self.ctx.config.store_io_bytes;
            match runs.last_mut() {
                Some(run) if run.len + piece.len <= full => {
                    run.len += piece.len;
                    run.data.push(piece);
                }
                Some(_) | None => runs.push(Run {
                    offset,
                    len: piece.len,
                    data: alloc::vec![piece],
                }),
            }
        }
        self.free(ask.from, Some(ask.data));
        self.file.writes[at].stage = Stage::Storing {
            left: runs.len() as u32,
            errno: None,
        };
        for Run { offset, data, .. } in runs {
            let (op, file) = (self.ctx.new_op(), self.id);
            self.ctx.stats.flush_writes += 1;
            self.common.ops.insert(op, StoreOp::Through { file, ver });
            self.ctx.out.push(Effect::StoreWrite {
                op,
                file,
                offset,
                data,
            });
        }
    }

    /// A store write of a write has ended.
    pub(super) fn stored(&mut self, ver: Ver, result: Result<StoreOk, RawErrno>) {
        let mut writes = self.file.writes.iter_mut();
        if let Some(write) = writes.find(|write| write.ver == ver)
            && let Stage::Storing { left, errno } = &mut write.stage
        {
            *left -= 1;
            *errno = errno.or(result.err());
        }
    }

    /// True if nothing that the answer to a write waits for is left.
    pub(super) fn is_stored(&self, write: &PendingWrite) -> bool {
        let gone = write.going.is_empty() || !self.ctx.config.keeps(Guard::EntryGone);
        match write.stage {
            Stage::Calling | Stage::Held => false,
            Stage::Storing { left, .. } => left == 0 && gone,
            Stage::Updating => write.updating.is_empty(),
        }
    }

    /// The store has the bytes, or would not take them, and no older entry is left.
    pub(super) fn conclude(&mut self, mut write: PendingWrite) {
        let (first, end) = (write.first, write.first + u64::from(write.count));
        let failed = match write.stage {
            Stage::Storing { errno, .. } => errno,
            Stage::Calling | Stage::Held | Stage::Updating => None,
        };
        if write.ask.aside {
            return self.passed_by(&write, failed);
        }
        if let Stage::Storing { .. } = write.stage {
            self.common.reserved -= write.count;
            for part in parts(self.ctx.config, write.ask.offset, write.ask.len) {
                self.keep(&part, write.ver, failed);
            }
            self.file.pages.retain(|_, page| !page.idle());
        }
        self.file.unstamped |= failed.is_none();
        if write.stage == Stage::Updating {
            return self.answer_write(&write, None);
        }
        let inline = self.ctx.config.bank.update == BankUpdate::Inline && failed.is_none();
        if !inline {
            self.answer_write(&write, failed);
        }
        write.updating = self.update_bank(first, end);
        match (inline, write.updating.is_empty()) {
            (false, _) => {}
            (true, true) => self.answer_write(&write, failed),
            (true, false) => {
                write.stage = Stage::Updating;
                self.file.writes.push(write);
            }
        }
    }

    pub(super) fn answer_write(&mut self, write: &PendingWrite, failed: Option<RawErrno>) {
        let ask = &write.ask;
        let body = match failed {
            Some(errno) => Body::Failed(errno),
            None => Body::WriteOk,
        };
        let file: FileId = self.id;
        self.ctx
            .answer(ask.from, file, ask.generation, ask.req, body);
    }

    /// Puts a part of a write into its frame, and returns where it is.
    fn put(&mut self, part: &super::write::Part, data: Piece) -> Piece {
        let page = self.file.pages.get(&part.page);
        let page = page.expect("reserve made every page");
        let frame = page.slot.expect("reserve gave every page a frame").frame;
        if page.filled && page.extent < part.start {
            let from = Piece {
                src: Src::Zero,
                at: 0,
                len: part.start - page.extent,
            };
            let at = page.extent;
            self.ctx.out.push(Effect::Fill { frame, at, from });
        }
        let len = part.end - part.start;
        let from = Piece {
            src: data.src,
            at: data.at + part.at,
            len,
        };
        let at = part.start;
        self.ctx.out.push(Effect::Fill { frame, at, from });
        Piece {
            src: Src::Frame(frame),
            at,
            len,
        }
    }

    /// Settles the state of a page that a write has been through.
    fn keep(&mut self, part: &super::write::Part, ver: Ver, failed: Option<RawErrno>) {
        let page_bytes = self.ctx.config.page_bytes;
        let Some(page) = self.file.pages.get_mut(&part.page) else {
            return;
        };
        page.reserved = false;
        page.ver = ver;
        page.readers.clear();
        page.filled |= (part.start, part.end) == (0, page_bytes);
        if page.filled && failed.is_none() {
            page.extent = page.extent.max(part.end);
            page.settle(self.ctx.frames);
        } else {
            if let Some(slot) = page.slot {
                self.ctx.frames.give_back(slot);
            }
            page.vacate();
        }
    }
}
