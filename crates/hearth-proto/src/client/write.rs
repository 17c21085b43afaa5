//! Writing: bytes go to the homes of their pages; the file then ends where the manager says.

use super::range::Range;
use super::{Desk, Job, What};
use crate::config::{Config, Writes};
use crate::effect::{Effect, Piece, Reply, Src};
use crate::guard::Guard;
use crate::ids::{Buf, FileId, Gen, Handle, NodeId, Ticket};
use crate::input::{Rest, WriteAt};
use crate::msg::{Body, Envelope};
use crate::ranges::Ranges;
use crate::semantics::Semantics;
use crate::{RawErrno, errno};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Bytes in flight to one home, and the parts that wait until there are fewer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Window {
    pub(super) used: u64,
    pub(super) waiting: VecDeque<(Ticket, u32)>,
}

/// Places that an append asks for. Each truncation costs one; a manager that homes have left behind,
/// because another was taken for it, gives no place that they take.
const PLACES_MAX: u32 = 64;

/// How far a write has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// The manager is asked where the end is.
    Placing,
    /// The homes of its pages are being found out.
    Locating,
    /// Parts are on their way to the homes.
    Sending,
    /// The manager is told where the bytes end.
    Extending,
    /// The manager is asked for a window, or has given one and the store is at work.
    Passing,
}

/// The part of a write that one home takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Part {
    pub(super) home: NodeId,
    pub(super) offset: u64,
    pub(super) at: u32,
    pub(super) len: u32,
    /// It is all of a page that is to stay here.
    pub(super) claims: bool,
    /// Its home has said that it took it.
    pub(super) taken: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct WriteJob {
    pub(super) file: FileId,
    handle: Handle,
    pub(super) at: WriteAt,
    pub(super) buf: Buf,
    pub(super) len: u32,
    pub(super) mtime_ns: i64,
    /// Nothing of it is to take frames.
    pub(super) aside: bool,
    pub(super) offset: u64,
    pub(super) phase: Phase,
    pub(super) parts: Vec<Part>,
    pub(super) left: u32,
    /// Locks of a write over several homes, as many as parts.
    pub(super) range: Option<Range>,
    /// Generation in which the manager gave a place.
    pub(super) generation: Gen,
    /// Ends of the bytes that homes took, by generation, where a later one does not reach as far. The
    /// manager knows which truncations took place: what was taken before one came before it.
    reaches: Vec<(Gen, u64)>,
    /// A truncation came between the place at the end and the homes.
    pub(super) refused: bool,
    /// Places at the end that it was given.
    places: u32,
    /// The buffer went to the store with the bytes.
    pub(super) spent: bool,
    pub(super) failed: Option<RawErrno>,
    /// Homes have the other bytes of it.
    pub(super) rest: Option<Rest>,
    /// It brings what this node gathered of a page, and no session waits for it.
    pub(super) scattered: Option<Scattered>,
}

/// The content of a scatter: the page, and which bytes of it are in the buffer, one piece after another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Scattered {
    pub(super) page: u64,
    pub(super) ranges: Ranges,
}

impl WriteJob {
    pub(super) fn at(&self) -> WriteAt {
        self.at
    }

    /// The manager is about to be asked for a window of so many bytes.
    pub(super) fn begin_window(&mut self) -> u32 {
        self.phase = Phase::Passing;
        self.len
    }

    /// The window is there: gives the buffer away.
    pub(super) fn pass_through(&mut self, offset: u64) -> Buf {
        self.offset = offset;
        self.spent = true;
        self.buf
    }

    pub(super) fn new(handle: Handle, at: WriteAt, buf: Buf, len: u32, mtime_ns: i64) -> WriteJob {
        let offset = match at {
            WriteAt::Offset(offset) => offset,
            WriteAt::End => 0,
        };
        WriteJob {
            file: FileId::default(),
            handle,
            at,
            buf,
            len,
            mtime_ns,
            aside: false,
            offset,
            phase: Phase::Locating,
            parts: Vec::new(),
            left: 0,
            range: None,
            generation: Gen::default(),
            reaches: Vec::new(),
            refused: false,
            places: 0,
            spent: false,
            failed: None,
            rest: None,
            scattered: None,
        }
    }

    /// Brings the gathered bytes of a page, which begins at `start`, to its home.
    pub(super) fn scatter(
        file: FileId,
        buf: Buf,
        (page, start): (u64, u64),
        ranges: Ranges,
        mtime_ns: i64,
    ) -> WriteJob {
        let (from, to) = ranges.span().unwrap_or_default();
        let at = WriteAt::Offset(start + u64::from(from));
        let job = WriteJob::new(Handle(0), at, buf, to - from, mtime_ns);
        WriteJob {
            file,
            scattered: Some(Scattered { page, ranges }),
            ..job
        }
    }

    /// True if it may be about the page.
    pub(super) fn may_touch(&self, config: &Config, page: u64) -> bool {
        let (first, count) = config.pages_of(self.offset, u64::from(self.len.max(1)));
        self.at == WriteAt::End || (first..first + u64::from(count)).contains(&page)
    }

    /// The bytes that it writes, unless it appends: the first and how many.
    pub(super) fn place(&self) -> Option<(u64, u32)> {
        (self.at != WriteAt::End).then_some((self.offset, self.len))
    }

    pub(super) fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }

    /// True once a home took a part.
    pub(super) fn is_begun(&self) -> bool {
        self.parts.iter().any(|part| part.taken)
    }

    /// True for a write that has a place, has failed for a node which is gone, and goes on there in the next view. The place of
    /// an append stays its own: a home may have brought a part to the store before it was gone.
    pub(super) fn is_finished_later(&self, config: &Config) -> bool {
        let is_given = self.at != WriteAt::End || self.generation != Gen::default();
        // A truncation has taken the place of an append that nobody took.
        let is_placed = is_given && (self.is_begun() || !self.refused);
        let is_judged = config.goes_on && self.scattered.is_none();
        is_judged && is_placed && self.failed == Some(errno::EHOSTDOWN)
    }

    /// A home took its part of a write over several homes.
    pub(super) fn part_taken(&mut self, generation: Gen, part: Part) {
        let mut parts = self.parts.iter_mut();
        if let Some(known) = parts.find(|known| known.offset == part.offset) {
            known.taken = true;
        }
        self.took(generation, part.offset + u64::from(part.len));
    }

    /// A home took bytes up to `end`.
    fn took(&mut self, generation: Gen, end: u64) {
        let outdone = |&(g, e): &(Gen, u64)| g >= generation && e >= end;
        if self.reaches.iter().any(outdone) {
            return;
        }
        self.reaches.retain(|&(g, e)| g > generation || e > end);
        let at = self.reaches.partition_point(|&(g, _)| g < generation);
        self.reaches.insert(at, (generation, end));
    }

    fn reach(&self) -> u64 {
        self.reaches.first().map_or(0, |&(_, end)| end)
    }
}

impl Desk<'_, '_> {
    pub(super) fn write(&mut self, ticket: Ticket, mut job: WriteJob) {
        self.ctx.stats.writes += 1;
        self.ctx.stats.written_bytes += u64::from(job.len);
        let opened = self
            .client
            .handles
            .get_mut(&job.handle)
            .filter(|opened| opened.write);
        let Some(id) = opened.map(|opened| {
            opened.wrote = true;
            opened.file
        }) else {
            return self.refuse_write(ticket, job.buf, errno::EBADF);
        };
        job.file = id;
        if job
            .offset
            .checked_add(u64::from(job.len))
            .is_none_or(|end| end > i64::MAX as u64)
        {
            return self.refuse_write(ticket, job.buf, errno::EFBIG);
        }
        let file = self.client.files.entry(id).or_default();
        if file.semantics == Semantics::Laminated {
            return self.refuse_write(ticket, job.buf, errno::EPERM);
        }
        if file.bypass {
            return self.write_past_homes(ticket, job);
        }
        if file.orphan {
            return self.refuse_write(ticket, job.buf, errno::EHOSTDOWN);
        }
        if file.semantics.gathers() && !job.aside && self.gather_write(ticket, id, &job) {
            return;
        }
        let file = self.client.files.entry(id).or_default();
        file.writes.push(ticket);
        self.client.jobs.insert(ticket, Job::Write(job));
        self.place(ticket);
    }

    pub(super) fn refuse_write(&mut self, ticket: Ticket, buf: Buf, errno: RawErrno) {
        self.ctx.out.push(Effect::Free(buf));
        self.reply(ticket, Reply::Failed(errno));
    }

    /// Finds out where the write goes, from the start.
    pub(super) fn place(&mut self, ticket: Ticket) {
        let Some(Job::Write(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        if self.client.files.get(&job.file).is_some_and(|f| f.bypass) {
            return self.redirect(ticket);
        }
        job.parts.clear();
        job.reaches.clear();
        job.refused = false;
        job.range = None;
        job.generation = Gen::default();
        match self.ctx.config.rules().writes {
            Writes::Through | Writes::ThroughUnguarded => return self.ask_window(ticket),
            Writes::Behind | Writes::AtGateway => {}
        }
        match job.at {
            WriteAt::Offset(_) => {
                job.phase = Phase::Locating;
                self.go_on_writing(ticket);
            }
            WriteAt::End => {
                job.phase = Phase::Placing;
                job.places += 1;
                if job.places > PLACES_MAX {
                    return self.fail_write(ticket, errno::EIO);
                }
                let (file, len) = (job.file, u64::from(job.len));
                self.ask_manager(file, Body::Append(len), What::Job(ticket));
            }
        }
    }

    /// The manager answered a write: its place at the end, or the new end.
    pub(super) fn write_placed(&mut self, ticket: Ticket, answer: &Envelope) {
        let Some(Job::Write(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        let id = job.file;
        let placing = matches!(job.phase, Phase::Placing | Phase::Passing);
        // A part that failed may be in the store for all that: it is not written a second time.
        let again = placing || (job.refused && !job.is_begun() && job.failed.is_none());
        let known = self.client.files.get(&id).map(|file| file.generation);
        let behind = known.is_some_and(|known| answer.generation.life < known.life);
        match answer.body {
            Body::AppendAt(offset) => {
                job.offset = offset;
                job.generation = answer.generation;
                job.phase = Phase::Locating;
                self.go_on_writing(ticket);
            }
            Body::WindowOk(size) => {
                if let Some(file) = self.client.files.get_mut(&id) {
                    file.size = file.size.max(size);
                }
                self.end_write(ticket);
            }
            // This manager knows less than this node and would say so for ever: the one of the life
            // that the file was opened in is gone.
            Body::OldGeneration if again && behind => {
                self.fail_write(ticket, errno::EHOSTDOWN);
            }
            // The place was asked for, or given, before the end was another.
            Body::ExtendOk(_) | Body::OldGeneration if again => self.place(ticket),
            Body::ExtendOk(size) => {
                if let Some(file) = self.client.files.get_mut(&id) {
                    file.size = file.size.max(size);
                }
                self.extend(ticket);
            }
            // The homes took the bytes before a truncation or the file's end: so the write came first.
            Body::OldGeneration => self.extend(ticket),
            Body::Failed(errno) => {
                job.failed = Some(errno);
                self.end_write(ticket);
            }
            _ => {}
        }
    }

    /// The home of a page cannot be found out: fails the writes that wait for it.
    pub(super) fn fail_locating(&mut self, id: FileId, page: u64) {
        let Some(file) = self.client.files.get(&id) else {
            return;
        };
        let waits = |ticket: &Ticket| match self.client.jobs.get(ticket) {
            Some(Job::Write(job)) if job.phase == Phase::Locating => {
                let (first, count) = self.ctx.config.pages_of(job.offset, u64::from(job.len));
                (first..first + u64::from(count)).contains(&page)
            }
            Some(_) | None => false,
        };
        let waiting: Vec<Ticket> = file.writes.iter().copied().filter(waits).collect();
        for ticket in waiting {
            if let Some(Job::Write(job)) = self.client.jobs.get_mut(&ticket) {
                job.failed = Some(errno::EHOSTDOWN);
            }
            // The place of an append has to be given back.
            self.all_sent(ticket);
        }
    }

    /// Cuts the write by homes and sends the parts, once all homes are known.
    pub(super) fn go_on_writing(&mut self, ticket: Ticket) {
        if self.awaits_opening(ticket) {
            return;
        }
        let Some(Job::Write(job)) = self.client.jobs.get(&ticket) else {
            return;
        };
        if job.phase != Phase::Locating {
            return;
        }
        let (id, offset, end) = (job.file, job.offset, job.end());
        let rest = job.rest.clone();
        // A home that is known takes what was gathered without a manager, which only a new end needs.
        let gathered = job.scattered.is_some();
        if self.is_bypassed(id) {
            return self.redirect(ticket);
        }
        if !gathered && self.client.files.get(&id).is_some_and(|file| file.orphan) {
            return self.fail_write(ticket, errno::EHOSTDOWN);
        }
        if self.write_own(ticket) {
            return;
        }
        let moves = self.ctx.config.moves();
        let mut parts: Vec<Part> = Vec::new();
        let (first, count) = self.ctx.config.pages_of(offset, end - offset);
        for page in first..first + u64::from(count) {
            let Some(home) = self.home_or_ask(id, page, count == 1) else {
                return;
            };
            let from = offset.max(self.ctx.config.page_start(page));
            if rest.as_ref().is_some_and(|rest| !rest.lacks(from)) {
                continue;
            }
            let to = end.min(self.ctx.config.page_start(page + 1));
            let len = (to - from) as u32;
            let mut part = Part {
                home,
                offset: from,
                at: (from - offset) as u32,
                len,
                claims: false,
                taken: false,
            };
            if moves && let Some(Job::Write(job)) = self.client.jobs.get(&ticket) {
                part.claims = self.claims(job, &part);
            }
            match parts.last_mut() {
                Some(last)
                    if last.home == home
                        && last.offset + u64::from(last.len) == from
                        && !last.claims
                        && !part.claims =>
                {
                    last.len += len
                }
                Some(_) | None => parts.push(part),
            }
        }
        if let Some(Job::Write(job)) = self.client.jobs.get(&ticket) {
            parts
                .iter_mut()
                .for_each(|part| *part = Self::part_of_scatter(job, *part));
        }
        self.send_parts(ticket, parts);
    }

    fn send_parts(&mut self, ticket: Ticket, parts: Vec<Part>) {
        let Some(Job::Write(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        job.phase = Phase::Sending;
        job.left = parts.len() as u32;
        job.parts = parts.clone();
        if parts.is_empty() {
            return self.all_sent(ticket);
        }
        let id = job.file;
        if self.is_ranged(id, &parts) {
            return self.begin_range(ticket);
        }
        for (number, part) in (0..).zip(parts) {
            let window = self.client.windows.entry(part.home).or_default();
            let fits = window.used + u64::from(part.len) <= self.ctx.config.write_window_bytes;
            if window.waiting.is_empty() && (fits || window.used == 0) {
                self.send_part(ticket, number);
            } else {
                window.waiting.push_back((ticket, number));
            }
        }
    }

    fn send_part(&mut self, ticket: Ticket, number: u32) {
        if !self.send_claim(ticket, number) {
            self.send_bytes(ticket, number);
        }
    }

    fn send_bytes(&mut self, ticket: Ticket, number: u32) {
        let Some(Job::Write(job)) = self.client.jobs.get(&ticket) else {
            return;
        };
        let (id, part) = (job.file, job.parts[number as usize]);
        let (place, aside) = ((part.offset, part.len), job.aside);
        let single = job.parts.len() == 1 && job.at != WriteAt::End && !aside;
        let placed = (job.at == WriteAt::End).then_some(job.generation);
        if self.is_bypassed(id) {
            return self.part_over(ticket);
        }
        if self.is_laminated(id) {
            return self.fail_part(ticket, errno::EPERM);
        }
        let data = Piece {
            src: Src::Buf(job.buf),
            at: part.at,
            len: part.len,
        };
        self.client.windows.entry(part.home).or_default().used += u64::from(part.len);
        let scatter = job.scattered.as_ref().map(|scattered| Body::Scatter {
            page: scattered.page,
            ranges: scattered.ranges.clone(),
        });
        // Of a page that is scattered nothing is kept here (GATHER-5).
        let dropped = scatter.is_some() || self.drop_own_copies(id, part.offset, part.len);
        let mut record = true;
        if let Some(file) = self.client.files.get_mut(&id) {
            file.unreported = true;
            record = file.semantics.is_recorded();
        }
        let body = scatter.unwrap_or(Body::Write {
            offset: part.offset,
            len: part.len,
            dropped,
            record,
            alone: single && self.asks_for_own(id, part.home, place),
            aside,
        });
        let known = self.client.files.get(&id).map(|file| file.generation);
        // A place at the end is one only in the generation in which it was given.
        let generation = placed.or(known).unwrap_or_default();
        let what = What::Part(ticket, number);
        self.ask_in(generation, part.home, id, body, what, alloc::vec![data]);
    }

    /// Drops this node's copies of what it is about to write. True if nothing of the pages is left
    /// here, nor on its way here, so that the home need not call it back.
    pub(super) fn drop_own_copies(&mut self, id: FileId, offset: u64, len: u32) -> bool {
        let (first, count) = self.ctx.config.pages_of(offset, u64::from(len));
        self.give_back_run(id, first, count);
        let Some(file) = self.client.files.get_mut(&id) else {
            return false;
        };
        let pages = first..first + u64::from(count);
        for page in pages.clone() {
            if self.ctx.config.keeps(Guard::OwnCopyDropped)
                && let Some(copy) = file.copies.remove(&page)
            {
                self.ctx.frames.give_back(copy.slot);
            }
        }
        !file.kept && file.wants.range(pages).next().is_none()
    }

    /// A home answered a part.
    pub(super) fn part_answered(
        &mut self,
        ticket: Ticket,
        number: u32,
        home: NodeId,
        answer: &Envelope,
    ) {
        if self.is_staging(ticket) {
            return self.stage_answered(ticket, number, answer);
        }
        self.open_window(ticket, number, home);
        let is_mine = self.own_written(ticket, number, home, answer);
        let lapsed = self.awaits_opening(ticket);
        let Some(Job::Write(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        let claims = job
            .parts
            .get(number as usize)
            .is_some_and(|part| part.claims);
        match answer.body {
            Body::WriteHere => {
                self.claim_no_more(ticket, number);
                return self.send_part(ticket, number);
            }
            Body::WriteOwn { .. } if claims && !is_mine => {
                self.claim_no_more(ticket, number);
                return self.send_part(ticket, number);
            }
            Body::WriteOk | Body::WriteOwn { .. } => {
                let part = job.parts.get_mut(number as usize);
                let part = part.map(|part| {
                    part.taken = true;
                    *part
                });
                let end = match job.scattered {
                    Some(_) => job.end(),
                    None => part.map_or(0, |part| part.offset + u64::from(part.len)),
                };
                if let Some(file) = self.client.files.get_mut(&job.file) {
                    file.wrote.insert(home);
                }
                job.took(answer.generation, end);
            }
            Body::OldGeneration if job.at == WriteAt::End => job.refused = true,
            // Its home may be another one by now.
            Body::OldGeneration if lapsed => job.failed = Some(errno::EHOSTDOWN),
            Body::OldGeneration => return self.send_part(ticket, number),
            Body::Failed(errno) => job.failed = Some(errno),
            _ => {}
        }
        self.part_over(ticket);
    }

    /// A part was written here.
    pub(super) fn part_written(&mut self, ticket: Ticket, part: Part) {
        if let Some(Job::Write(job)) = self.client.jobs.get_mut(&ticket) {
            let known = self.client.files.get(&job.file).map(|file| file.generation);
            job.part_taken(known.unwrap_or_default(), part);
        }
        self.part_over(ticket);
    }

    /// No home takes the part.
    fn fail_part(&mut self, ticket: Ticket, errno: RawErrno) {
        if let Some(Job::Write(job)) = self.client.jobs.get_mut(&ticket) {
            job.failed = Some(errno);
        }
        self.part_over(ticket);
    }

    /// One part less is due.
    pub(super) fn part_over(&mut self, ticket: Ticket) {
        let Some(Job::Write(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        job.left -= 1;
        if job.left == 0 {
            self.all_sent(ticket);
        }
    }

    pub(super) fn is_bypassed(&self, id: FileId) -> bool {
        self.client.files.get(&id).is_some_and(|file| file.bypass)
    }

    /// A home is gone: what waited for its window is sent now, and fails like all that is under way. A
    /// write over several homes stays in line, for it waits for the others too.
    pub(super) fn drop_window(&mut self, home: NodeId) {
        let Some(window) = self.client.windows.remove(&home) else {
            return;
        };
        let (staging, plain): (VecDeque<_>, VecDeque<_>) = window
            .waiting
            .into_iter()
            .partition(|&(ticket, _)| self.is_staging(ticket));
        for (ticket, part) in plain {
            self.send_part(ticket, part);
        }
        if !staging.is_empty() {
            let window = self.client.windows.entry(home).or_default();
            window.waiting.extend(staging);
            self.free_window(home, 0);
        }
    }

    fn open_window(&mut self, ticket: Ticket, number: u32, home: NodeId) {
        let len = match self.client.jobs.get(&ticket) {
            Some(Job::Write(job)) => job.parts.get(number as usize).map_or(0, |part| part.len),
            Some(_) | None => 0,
        };
        self.free_window(home, len);
    }

    /// So many bytes are not under way to a home any more.
    pub(super) fn free_window(&mut self, home: NodeId, len: u32) {
        let Some(window) = self.client.windows.get_mut(&home) else {
            return;
        };
        window.used = window.used.saturating_sub(u64::from(len));
        while let Some(window) = self.client.windows.get_mut(&home) {
            let Some(&(next, part)) = window.waiting.front() else {
                break;
            };
            if self.is_staging(next) {
                if !self.stage_when_open(next) {
                    break;
                }
                continue;
            }
            let Some(window) = self.client.windows.get_mut(&home) else {
                break;
            };
            let len = match self.client.jobs.get(&next) {
                Some(Job::Write(job)) => u64::from(job.parts[part as usize].len),
                Some(_) | None => 0,
            };
            if window.used > 0 && window.used + len > self.ctx.config.write_window_bytes {
                break;
            }
            window.waiting.pop_front();
            self.send_part(next, part);
        }
    }

    pub(super) fn all_sent(&mut self, ticket: Ticket) {
        let Some(Job::Write(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        let (id, append) = (job.file, job.at == WriteAt::End);
        let Some(file) = self.client.files.get_mut(&id) else {
            return self.end_write(ticket);
        };
        if file.bypass {
            return self.detached_under(ticket);
        }
        if job.refused && job.is_begun() {
            job.failed = Some(errno::EIO);
        }
        file.date.wrote(self.ctx.config, job.mtime_ns);
        let told = !self.ctx.config.keeps(Guard::EndTold) || job.reach() <= file.size;
        if !append && (!job.is_begun() || told) {
            return self.end_write(ticket);
        }
        job.phase = Phase::Extending;
        if append {
            let taken = job.failed.is_none() && !job.refused;
            let ends = taken || job.is_finished_later(self.ctx.config);
            let end = if ends { job.end() } else { job.offset };
            job.reaches = alloc::vec![(job.generation, end)];
        }
        self.extend(ticket);
    }

    /// Tells the manager of the next end, until it knows all.
    fn extend(&mut self, ticket: Ticket) {
        let Some(Job::Write(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        if job.reaches.is_empty() {
            return self.end_write(ticket);
        }
        let (generation, end) = job.reaches.remove(0);
        let (id, mtime_ns) = (job.file, job.mtime_ns);
        let append = (job.at == WriteAt::End).then_some(job.offset);
        let body = Body::Extend {
            end,
            append,
            mtime_ns,
        };
        // The manager must learn in which generation the bytes were taken, not which is known now.
        let Some(file) = self.client.files.get_mut(&id) else {
            return self.end_write(ticket);
        };
        let known = core::mem::replace(&mut file.generation, generation);
        self.ask_manager(id, body, What::Job(ticket));
        if let Some(file) = self.client.files.get_mut(&id) {
            file.generation = known;
        }
    }
}
