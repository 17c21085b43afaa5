//! Writes at the home: told to the readers, then applied, then acknowledged.

use super::range::{Ahead, Claim};
use super::through::Stage;
use super::{Home, PendingWrite, Verdict, Waiting, WriteAsk};
use crate::client::gather::PIECES_MAX;
use crate::config::Config;
use crate::effect::{Effect, Piece, Src};
use crate::guard::Guard;
use crate::ids::{Gen, NodeId, ReqId, Ver};
use crate::msg::Body;
use crate::nodeset::NodeSet;
use crate::ranges::Ranges;
use alloc::vec::Vec;

/// This share of the frames stays for reads when the store takes no bytes.
const READ_SHARE: u32 = 8;

/// The part of a write that falls into one page.
pub(crate) struct Part {
    pub(crate) page: u64,
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// First byte within the write.
    pub(crate) at: u32,
}

/// The parts of a write in the order of its bytes; of one that brings pieces of a page, a part for each.
fn parts_of(config: &Config, ask: &WriteAsk) -> Vec<Part> {
    let Some(ranges) = &ask.ranges else {
        return parts(config, ask.offset, ask.len).collect();
    };
    let page = config.page_of(ask.offset);
    let mut at = 0;
    let part = |(start, end): (u32, u32)| {
        let part = Part {
            page,
            start,
            end,
            at,
        };
        at += end - start;
        part
    };
    ranges.iter().map(part).collect()
}

/// The parts of contiguous bytes, page by page.
pub(crate) fn parts(config: &Config, offset: u64, len: u32) -> impl Iterator<Item = Part> + '_ {
    let end = offset + u64::from(len);
    let (first, count) = config.pages_of(offset, u64::from(len));
    (first..first + u64::from(count)).map(move |page| {
        let base = config.page_start(page);
        let from = offset.max(base);
        let to = end.min(base + u64::from(config.page_bytes));
        Part {
            page,
            start: (from - base) as u32,
            end: (to - base) as u32,
            at: (from - offset) as u32,
        }
    })
}

impl PendingWrite {
    pub(super) fn awaits(&self, node: NodeId) -> bool {
        self.awaiting.iter().any(|&(awaited, _)| awaited == node)
    }

    pub(super) fn touches(&self, first: u64, count: u32) -> bool {
        self.first < first + u64::from(count) && first < self.first + u64::from(self.count)
    }
}

impl Home<'_, '_> {
    /// True if the payload is what the list of pieces says, within a page.
    pub(super) fn is_scatter(&self, page: u64, ranges: &Ranges, data: Piece) -> bool {
        let span = ranges.span().filter(|_| ranges.count() <= PIECES_MAX);
        let within = |(_, end): (u32, u32)| end <= self.ctx.config.page_bytes;
        let there = page <= i64::MAX as u64 / u64::from(self.ctx.config.page_bytes);
        there && span.is_some_and(within) && data.len == ranges.bytes()
    }

    /// Takes in the bytes of a write.
    pub(super) fn take_write(
        &mut self,
        (from, req, generation): (NodeId, ReqId, Gen),
        body: &Body,
        data: Piece,
    ) {
        if let Body::Write {
            offset,
            len,
            dropped,
            record,
            alone,
            aside,
        } = *body
        {
            let ask = WriteAsk {
                dropped,
                record,
                alone,
                aside: aside && self.passes_by(),
                ..self.write_ask((from, req, generation), (offset, len), data)
            };
            self.file.waiting.push_back(Waiting::Write(ask));
        }
    }

    /// A write that has come now, for one home alone, of a writer that may have copies.
    pub(super) fn write_ask(
        &self,
        (from, req, generation): (NodeId, ReqId, Gen),
        (offset, len): (u64, u32),
        data: Piece,
    ) -> WriteAsk {
        WriteAsk {
            from,
            req,
            generation,
            offset,
            len,
            dropped: false,
            record: true,
            alone: false,
            aside: false,
            grants: self.common.grants,
            data,
            ranges: None,
            age: self.ctx.age(),
            staged: None,
            tried: false,
        }
    }

    /// Takes the bytes of a page that a writer has gathered.
    pub(super) fn take_scatter(
        &mut self,
        of: (NodeId, ReqId, Gen),
        page: u64,
        ranges: Ranges,
        data: Piece,
    ) {
        let (start, end) = ranges.span().unwrap_or_default();
        let offset = self.ctx.config.page_start(page) + u64::from(start);
        let ask = WriteAsk {
            dropped: true,
            record: false,
            ranges: Some(ranges),
            ..self.write_ask(of, (offset, end - start), data)
        };
        self.file.waiting.push_back(Waiting::Write(ask));
    }

    pub(super) fn try_write(&mut self, ask: &mut WriteAsk, ahead: &Ahead) -> Verdict {
        let (first, count) = self.ctx.config.pages_of(ask.offset, u64::from(ask.len));
        let careful = self.ctx.config.keeps(Guard::FillsFirst);
        if self.file.bar.is_some()
            || self.waits_behind(ask, ahead, (first, count))
            || self.is_locked(Claim::Write, ask.age, first, count)
            || self.file.writes.iter().any(|w| w.touches(first, count))
            || self
                .file
                .pages
                .range(first..first + u64::from(count))
                .any(|(_, p)| p.filling && careful)
            || self.is_populating(first, first + u64::from(count))
        {
            return Verdict::Wait;
        }
        if self.calls_back_for(ask, first, count) || self.copies_enough(ask) {
            return Verdict::Wait;
        }
        if let Some(verdict) = self.refuse_claim(ask) {
            return verdict;
        }
        if let Some(verdict) = self.refuse_or_delay(ask) {
            return verdict;
        }
        if self.unseals(first, count) {
            return Verdict::Wait;
        }
        if ask.aside {
            return self.begin_aside(ask, (first, count));
        }
        let room = !self.stands_back(ask) && self.leaves_room(ask, count);
        if !room || !self.reserve(ask.req, first, count) {
            self.go_without(ask);
            return Verdict::Wait;
        }
        self.begin(ask, first, count);
        Verdict::Done
    }

    /// A store that fails or lags behind: the write fails loudly or waits for dirty bytes to go.
    fn refuse_or_delay(&mut self, ask: &mut WriteAsk) -> Option<Verdict> {
        if self.passes_through() || ask.is_claim() {
            return None;
        }
        if self.file.dirty_bytes == 0 {
            self.file.failed = None;
        }
        if let Some(failure) = self.file.failed {
            // One try at a time: runs that are sent again while others are on their way would keep
            // something on its way for ever, and no write would hear of the failure.
            if self.flushing_here() {
                return Some(Verdict::Wait);
            }
            // The file is written through until it is clean: each write waits for a try to flush.
            if ask.tried {
                return Some(self.refuse(ask, failure.errno));
            }
            ask.tried = true;
            self.start_flush();
            return Some(Verdict::Wait);
        }
        let dirty = self.ctx.frames.dirty_bytes;
        if dirty == 0 || ask.aside {
            return None;
        }
        let is_full = dirty + u64::from(ask.len) > self.ctx.config.dirty_limit_bytes();
        match is_full || self.takes_last_frames(ask) {
            true => self.press(ask, is_full),
            false => None,
        }
    }

    /// True if too few frames would stay for reads. Few bytes of many pages are dirty in as many frames.
    fn takes_last_frames(&self, ask: &WriteAsk) -> bool {
        let (first, count) = self.ctx.config.pages_of(ask.offset, u64::from(ask.len));
        let pages = self.file.pages.range(first..first + u64::from(count));
        let framed = pages.filter(|(_, page)| page.slot.is_some()).count() as u32;
        let lacking = count - framed;
        let kept = self.ctx.config.frames / READ_SHARE;
        lacking > 0 && self.ctx.frames.spare() < lacking + kept
    }

    /// The dirty limit is reached, or few frames are left: waits while bytes are on their way to the store or can be
    /// sent.
    fn press(&mut self, ask: &WriteAsk, is_full: bool) -> Option<Verdict> {
        let on_its_way = self
            .common
            .ops
            .values()
            .any(|op| matches!(op, super::StoreOp::Write { .. }));
        if on_its_way || self.start_flush() || !self.common.dirty.is_empty() {
            self.common.starved.insert(self.id);
            return Some(Verdict::Wait);
        }
        // Every dirty file's store fails: this write must not wait for ever. If other pages hold the frames, they come.
        let holds_most = self.common.idle_pages >= self.ctx.config.frames / 2;
        match is_full || holds_most {
            true => Some(self.refuse(ask, self.common.errno.unwrap_or(crate::errno::EIO))),
            false => None,
        }
    }

    pub(super) fn refuse(&mut self, ask: &WriteAsk, errno: crate::RawErrno) -> Verdict {
        self.free(ask.from, Some(ask.data));
        self.fail(ask.from, ask.req, errno);
        Verdict::Done
    }

    /// True if enough frames stay for reads. A write keeps its frames until its readers have dropped
    /// their copies, and they may have to finish a read before, which needs frames as well.
    fn leaves_room(&self, ask: &WriteAsk, count: u32) -> bool {
        let reserved = self.common.reserved;
        let own = self.staged_with(ask);
        reserved == own || reserved + count <= self.ctx.config.frames / 2
    }

    /// Gives every touched page a frame that stays.
    fn reserve(&mut self, req: ReqId, first: u64, count: u32) -> bool {
        let pages = first..first + u64::from(count);
        let mut lacking = Vec::new();
        for number in pages.clone() {
            let page = self.file.pages.entry(number).or_default();
            page.refresh(self.ctx.frames);
            match page.slot {
                Some(slot) => self.ctx.frames.hold(slot),
                None => lacking.push(number),
            }
        }
        let slots = self.take_frames(req, lacking.iter().copied());
        for (&number, slot) in lacking.iter().zip(slots.iter().flatten()) {
            self.file.pages.entry(number).or_default().slot = Some(*slot);
        }
        for number in pages {
            let page = self.file.pages.entry(number).or_default();
            page.reserved = slots.is_some();
            page.settle(self.ctx.frames);
        }
        slots.is_some()
    }

    /// Nodes that have copies of a write's pages and must let go of them before it is applied.
    pub(super) fn readers_before(&self, ask: &WriteAsk, first: u64, count: u32) -> NodeSet {
        let pages = || self.file.pages.range(first..first + u64::from(count));
        let mut readers: NodeSet = pages().flat_map(|(_, page)| page.readers.iter()).collect();
        // A copy that the writer was given while its write waited has not been dropped.
        let late = match ask.record {
            true => pages().any(|(_, page)| page.granted > ask.grants),
            false => self.common.grants > ask.grants,
        };
        match ask.dropped && !late {
            true => {
                readers.remove(ask.from);
            }
            // A node sees its own writes, whatever is promised to others.
            false if !ask.record => {
                readers.insert(ask.from);
            }
            false => {}
        }
        readers
    }

    pub(super) fn begin(&mut self, ask: &WriteAsk, first: u64, count: u32) {
        for number in first..first + u64::from(count) {
            self.common.take_back(self.ctx, self.id, number);
        }
        let readers = self.readers_before(ask, first, count);
        if !ask.aside {
            self.common.reserved += count;
        }
        let ver = self.common.next_ver();
        let awaiting = self.invalidate(readers.iter(), first, count, ver);
        let voids = self.void(first, count);
        let going = self.call_entries(first, count);
        let (copying, through) = self.replicate(ask, ver);
        self.file.writes.push(PendingWrite {
            ask: ask.clone(),
            first,
            count,
            ver,
            awaiting,
            stage: Stage::Calling,
            going,
            updating: Vec::new(),
            copying,
            through,
            voids,
        });
        self.finish_writes();
    }

    /// Applies the writes whose readers have all answered (A1).
    pub(super) fn finish_writes(&mut self) {
        let careful = self.ctx.config.keeps(Guard::FillsFirst);
        let mut at = 0;
        while at < self.file.writes.len() {
            let write = &self.file.writes[at];
            let pages = write.first..write.first + u64::from(write.count);
            let told = write.awaiting.is_empty() || !self.ctx.config.keeps(Guard::AcksBeforeApply);
            let mut pages = self.file.pages.range(pages);
            let told = told && !self.awaits_keepers(write);
            let stops = self.ctx.config.keeps(Guard::StoppedFirst);
            let ready = told && !pages.any(|(_, p)| p.filling && careful || p.is_voided() && stops);
            match (write.stage, write.ask.aside || self.passes_through()) {
                (Stage::Calling, _) if ready && write.ask.staged.is_some() => {
                    self.lock_write(at);
                    at += 1;
                }
                (Stage::Calling, false) if ready => {
                    let write = self.file.writes.remove(at);
                    self.apply(&write);
                }
                (Stage::Calling, true) if ready => {
                    self.store_through(at);
                    at += 1;
                }
                (Stage::Storing { .. } | Stage::Updating, _) if self.is_stored(write) => {
                    let write = self.file.writes.remove(at);
                    self.conclude(write);
                }
                (Stage::Held, _) => at += 1,
                (Stage::Calling | Stage::Storing { .. } | Stage::Updating, _) => at += 1,
            }
        }
    }

    pub(super) fn apply(&mut self, write: &PendingWrite) {
        let ask = &write.ask;
        self.common.reserved -= write.count;
        if ask.is_claim() {
            return self.apply_claim(write);
        }
        self.copied(ask);
        for part in parts_of(self.ctx.config, ask) {
            let data = Piece {
                at: ask.data.at + part.at,
                len: part.end - part.start,
                ..ask.data
            };
            self.apply_part(&part, (ask.from, data), write.ver);
        }
        self.relist();
        let body = self.own_after(write).unwrap_or(Body::WriteOk);
        if ask.from == self.ctx.me() {
            self.wish_offer(write.first, write.count);
        }
        self.lags(write);
        match write.through && self.ctx.config.keeps(Guard::ThroughIfFew) {
            true => self.answer_through(write),
            false => {
                self.ctx
                    .answer(ask.from, self.id, ask.generation, ask.req, body);
            }
        }
        self.free(ask.from, Some(ask.data));
        for number in write.first..write.first + u64::from(write.count) {
            self.send_fresh_run(number);
        }
    }

    /// Puts the bytes of a write into their page.
    pub(super) fn apply_part(&mut self, part: &Part, (writer, from): (NodeId, Piece), ver: Ver) {
        let known = self.put_bytes(part.page, part.start, from, (writer, ver));
        let (pushes, me) = (self.pushes(), self.ctx.me());
        let page = self.file.pages.entry(part.page).or_default();
        if known && page.readers.is_empty() && !page.reserved {
            return;
        }
        if pushes {
            page.note_consumers(writer, me);
        }
        page.readers.clear();
        page.reserved = false;
        page.settle(self.ctx.frames);
        self.note_age(part.page);
    }

    /// Puts bytes of a writer into a page that has a frame; true if bytes in their place wait for the store
    /// already, so that all else is as it was.
    pub(super) fn put_bytes(
        &mut self,
        number: u64,
        start: u32,
        from: Piece,
        (writer, ver): (NodeId, Ver),
    ) -> bool {
        let end = start + from.len;
        // A delegate's bytes may have come, and gone to the store, since the write was given its version.
        let known = self.file.pages.get(&number);
        let ver = match known.is_some_and(|page| ver < page.ver) {
            true => self.common.next_ver(),
            false => ver,
        };
        let page = self.file.pages.get_mut(&number);
        let page = page.expect("a page that is written is known");
        let frame = page.slot.expect("and has a frame").frame;
        if page.filled && page.extent < start {
            let len = start - page.extent;
            let zeros = Piece {
                src: Src::Zero,
                at: 0,
                len,
            };
            self.ctx.out.push(Effect::Fill {
                frame,
                at: page.extent,
                from: zeros,
            });
        }
        self.ctx.out.push(Effect::Fill {
            frame,
            at: start,
            from,
        });
        page.writers.insert(writer);
        page.ver = ver;
        if page.dirty.covers(start, end) {
            return true;
        }
        page.valid.insert(start, end);
        if page.filled {
            page.extent = page.extent.max(end);
        } else if page.valid.covers(0, self.ctx.config.page_bytes) {
            page.filled = true;
            page.extent = self.ctx.config.page_bytes;
        }
        let new = u64::from(page.dirty.insert(start, end));
        self.file.dirty_bytes += new;
        self.ctx.frames.dirty_bytes += new;
        false
    }
}
