//! Reading: from copies, from pages whose home is here, else from the home.

use super::bank::Gets;
use super::file::{Copy, Want};
use super::hold::Holding;
use super::once::{Bytes, Granted, OncePage, push_page};
use super::{Desk, Job, What};
use crate::config::Config;
use crate::effect::{Effect, Piece, Reply, Src};
use crate::frames::Owner;
use crate::guard::Guard;
use crate::ids::{FileId, Handle, NodeId, Ticket};
use crate::msg::{Body, Envelope, HomeMap, Origin, Use};
use crate::{RawErrno, errno};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Pages that one request asks for at most, in bytes; bounds the payload of the answer.
const REQUEST_BYTES: u32 = 8 << 20;

/// And in number; bounds the list of lengths that comes with it.
const REQUEST_PAGES: u32 = 1 << 13;

/// Answers that leave a read unfinished before it holds on to what it is granted: its pages may be
/// taken for others, one while it waits for the next, and so for ever.
const VAIN_MAX: u32 = 16;

/// The place where the bytes of a page were, for the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Found {
    Peer,
    Bank,
    Store,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ReadJob {
    pub(super) file: FileId,
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) keep: bool,
    /// Nothing of it is to take frames.
    aside: bool,
    /// Size of the file when the read learned it. Pages that come later have all bytes up to there; beyond, they may lack
    /// those of an append.
    pub(super) size: Option<u64>,
    pub(super) asked_size: bool,
    /// How often it has looked for its pages and not found all.
    pub(super) vain: u32,
    /// How often it has asked for pages that must be of one instant.
    pub(super) rounds: u32,
    /// Homes hold its pages.
    pub(super) holding: Option<Holding>,
    pub(super) once: BTreeMap<u64, OncePage>,
    found: BTreeMap<u64, Found>,
    /// Blocks that the bank has not.
    missed: BTreeSet<u64>,
}

impl ReadJob {
    /// A page of which was lent for one use what the read wants.
    fn lent(&self, config: &Config, page: u64) -> Option<Bytes> {
        let (skip, spare) = self.unwanted(config, page, 1);
        let once = self.once.get(&page)?;
        let covers = once.from <= skip && config.page_bytes - spare <= once.to;
        covers.then(|| once.bytes())
    }

    /// The bytes of a run of pages that the read wants: how many at the beginning and the end it does not.
    pub(super) fn unwanted(&self, config: &Config, first: u64, count: u32) -> (u32, u32) {
        let (start, end) = (
            config.page_start(first),
            config.page_start(first + u64::from(count)),
        );
        let to = self.offset + u64::from(self.len);
        let cut = |bytes: u64| bytes.min(u64::from(config.page_bytes)) as u32;
        (
            cut(self.offset.saturating_sub(start)),
            cut(end.saturating_sub(to)),
        )
    }

    /// The file is at most so long, whatever the read was told before.
    pub(super) fn clip(&mut self, size: u64) {
        self.size = self.size.map(|told| told.min(size));
    }

    /// True if the read may look for a block in the bank.
    pub(super) fn may_ask_bank(&self, block: u64) -> bool {
        !self.keep && !self.missed.contains(&block)
    }

    /// The bank has no such block.
    pub(super) fn missed(&mut self, block: u64) {
        self.missed.insert(block);
    }

    /// True if a way in will keep bytes that were lent for one use, of pages within `first..end`.
    pub(super) fn keeps_once(&self, first: u64, end: u64) -> bool {
        self.keep && self.once.range(first..end).next().is_some()
    }
}

/// A run of pages of one home.
pub(super) struct Run {
    home: NodeId,
    pub(super) first: u64,
    pub(super) count: u32,
}

impl Desk<'_, '_> {
    pub(super) fn read(
        &mut self,
        ticket: Ticket,
        handle: Handle,
        (offset, len): (u64, u32),
        (keep, aside): (bool, bool),
    ) {
        self.ctx.stats.reads += 1;
        let Some(id) = self.client.handles.get(&handle).map(|h| h.file) else {
            return self.reply(ticket, Reply::Failed(errno::EBADF));
        };
        let file = self.client.files.entry(id).or_default();
        if file.is_read_from_store(self.ctx.config) {
            return self.read_at_store(ticket, id, keep);
        }
        file.kept |= keep;
        file.reads.push(ticket);
        let job = ReadJob {
            file: id,
            offset,
            len,
            keep,
            aside,
            size: None,
            asked_size: false,
            vain: 0,
            rounds: 0,
            holding: None,
            once: BTreeMap::new(),
            found: BTreeMap::new(),
            missed: BTreeSet::new(),
        };
        self.client.jobs.insert(ticket, Job::Read(job));
        if aside {
            // Pages that are asked for ahead would be given frames.
            return self.go_on_reading(ticket);
        }
        self.miss_ahead(handle, offset, len);
        self.go_on_reading(ticket);
        self.read_ahead(handle, offset, len);
    }

    /// The job is done on the store.
    pub(super) fn direct(&mut self, ticket: Ticket) {
        self.kept_from_store(ticket);
        self.end_read(ticket);
        self.ctx.out.push(Effect::Direct { ticket });
    }

    /// Takes the next step of a read: learn the end, gather the pages, answer.
    pub(super) fn go_on_reading(&mut self, ticket: Ticket) {
        if self.awaits_opening(ticket) {
            return;
        }
        let Some(Job::Read(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        let Some(file) = self.client.files.get(&job.file) else {
            return;
        };
        let end = job.offset + u64::from(job.len);
        let unsure = end > file.size && !file.exact && job.size.is_none();
        // Without a manager nobody knows the end: bytes below the known size are those of their homes.
        if file.is_read_from_store(self.ctx.config)
            || (unsure && file.orphan && job.offset >= file.size)
        {
            return self.direct(ticket);
        }
        if unsure && !file.orphan {
            if !job.asked_size {
                job.asked_size = true;
                let id = job.file;
                let question = Body::Size {
                    dated: false,
                    mtime_ns: None,
                };
                self.ask_manager(id, question, What::Job(ticket));
            }
            return;
        }
        let end = end.min(*job.size.get_or_insert(file.size));
        let held = job.holding.as_ref().map(|holding| holding.end);
        let end = end.min(held.unwrap_or(end));
        if end <= job.offset {
            return self.finish_read(ticket, Vec::new());
        }
        match self.gather(ticket, end) {
            Some(pieces) => self.finish_read(ticket, pieces),
            None if self.is_whole_read(ticket, end) => self.read_whole(ticket, end),
            None => {
                if let Some(Job::Read(job)) = self.client.jobs.get_mut(&ticket) {
                    job.vain += 1;
                }
                self.ask_for_pages(ticket, end);
            }
        }
    }

    pub(super) fn read_sized(&mut self, ticket: Ticket, body: &Body) {
        let Some(Job::Read(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        let (id, offset) = (job.file, job.offset);
        match *body {
            Body::SizeIs { size, .. } => {
                let Some(file) = self.client.files.get_mut(&id) else {
                    return;
                };
                let size = size.unwrap_or(file.size);
                file.size = size;
                job.size = Some(size.max(offset.min(size)));
                self.go_on_reading(ticket);
            }
            _ if self.is_orphan(id) => self.go_on_reading(ticket),
            _ => self.direct(ticket),
        }
    }

    /// The file's manager is gone.
    fn is_orphan(&self, id: FileId) -> bool {
        self.client.files.get(&id).is_some_and(|file| file.orphan)
    }

    /// Only the manager, which is gone, could tell who has the page.
    pub(super) fn has_unknown_home(&self, id: FileId, page: u64) -> bool {
        let unknown = |file: &super::File| {
            file.orphan
                && file.homes == HomeMap::Ask
                && super::home_of(self.ctx.config, id, file, page).is_none()
        };
        self.client.files.get(&id).is_some_and(|file| unknown(file))
    }

    /// All bytes of the read, if every page of it can be read at this instant.
    fn gather(&self, ticket: Ticket, end: u64) -> Option<Vec<Piece>> {
        let Some(Job::Read(job)) = self.client.jobs.get(&ticket) else {
            return None;
        };
        let file = self.client.files.get(&job.file)?;
        let config = self.ctx.config;
        let (first, count) = config.pages_of(job.offset, end - job.offset);
        let pages = first..first + u64::from(count);
        let collect = |found: &dyn Fn(u64) -> Option<Bytes>| {
            let mut pieces = Vec::with_capacity(count as usize);
            for page in pages.clone() {
                push_page(config, &mut pieces, (job.offset, end), page, found(page)?);
            }
            Some(pieces)
        };
        if !self.is_whole(job, end) || !config.keeps(Guard::ReadsWhole) {
            return collect(&|page| self.source(job, file, page));
        }
        match &job.holding {
            Some(holding) if !holding.has_all() => None,
            Some(_) => collect(&|page| job.lent(config, page)),
            None => collect(&|page| self.resident(job, file, page)).or_else(|| {
                let asked = job.once.get(&first)?.asked;
                let together = |once: &OncePage| once.asked == asked;
                collect(&|page| {
                    job.once
                        .get(&page)
                        .filter(|o| together(o))
                        .map(OncePage::bytes)
                })
            }),
        }
    }

    fn is_whole_read(&self, ticket: Ticket, end: u64) -> bool {
        match self.client.jobs.get(&ticket) {
            Some(Job::Read(job)) => self.is_whole(job, end),
            Some(_) | None => false,
        }
    }

    fn source(&self, job: &ReadJob, file: &super::File, page: u64) -> Option<Bytes> {
        self.resident(job, file, page)
            .or_else(|| job.lent(self.ctx.config, page))
    }

    /// A page that is good until this node is told otherwise.
    fn resident(&self, job: &ReadJob, file: &super::File, page: u64) -> Option<Bytes> {
        if let Some(copy) = file
            .copies
            .get(&page)
            .filter(|c| self.ctx.frames.valid(c.slot))
        {
            return Some(Bytes::whole(Src::Frame(copy.slot.frame), copy.extent));
        }
        let end = job.offset + u64::from(job.len);
        if let Some((src, extent)) = self.own_bytes(job.file, page, job.offset, end) {
            return Some(Bytes::whole(src, extent));
        }
        if super::home_of(self.ctx.config, job.file, file, page) == Some(self.ctx.me())
            && let Some((slot, extent)) = self.authority.readable(self.ctx, job.file, page)
        {
            return Some(Bytes::whole(Src::Frame(slot.frame), extent));
        }
        None
    }

    /// Requests the pages that are neither here nor asked for.
    pub(super) fn ask_for_pages(&mut self, ticket: Ticket, end: u64) {
        let Some(Job::Read(job)) = self.client.jobs.get(&ticket) else {
            return;
        };
        let (id, keep) = (job.file, job.keep);
        let (first, count) = self.ctx.config.pages_of(job.offset, end - job.offset);
        let mut runs: Vec<Run> = Vec::new();
        let mut gets = Gets::default();
        for page in first..first + u64::from(count) {
            if !self.lacks(ticket, page) {
                continue;
            }
            if self.has_unknown_home(id, page) {
                return self.direct(ticket);
            }
            let Some(home) = self.home_or_ask(id, page, count == 1) else {
                continue;
            };
            if self.is_lost(id, home) {
                if self.is_of_store(ticket) {
                    return self.direct(ticket);
                }
            } else if let Some(entry) = self.entry_of(ticket, page, home) {
                gets.add(entry, page);
                continue;
            }
            let full = run_max(self.ctx.config);
            match runs.last_mut() {
                Some(run)
                    if run.home == home
                        && run.first + u64::from(run.count) == page
                        && run.count < full =>
                {
                    run.count += 1;
                }
                Some(_) | None => runs.push(Run {
                    home,
                    first: page,
                    count: 1,
                }),
            }
        }
        self.ask_daemons(ticket, id, gets);
        for run in runs {
            match self.is_lost(id, run.home) {
                true => self.read_lost(ticket, id, &run),
                false => self.ask_run(ticket, id, &run, keep),
            }
        }
    }

    fn lacks(&self, ticket: Ticket, page: u64) -> bool {
        let Some(Job::Read(job)) = self.client.jobs.get(&ticket) else {
            return false;
        };
        let Some(file) = self.client.files.get(&job.file) else {
            return false;
        };
        !file.wants.contains_key(&page) && self.source(job, file, page).is_none()
    }

    fn ask_run(&mut self, ticket: Ticket, id: FileId, run: &Run, keep: bool) {
        let Run { home, first, count } = *run;
        let readers = self.readers_of(id, first, count);
        // Every read that waits may use the answer, so the home must know of each that keeps it.
        let keeps = |ticket: &Ticket| match self.client.jobs.get(ticket) {
            Some(Job::Read(job)) => job.keep,
            Some(_) | None => false,
        };
        let keep = keep || readers.iter().any(keeps);
        let aside = match self.client.jobs.get(&ticket) {
            Some(Job::Read(job)) => job.aside && !keep,
            Some(_) | None => false,
        };
        let (skip, spare) = match keep || aside {
            true => (0, 0),
            false => self.unwanted(home, &readers, (first, count)),
        };
        self.give_back_run(id, first, count);
        let here = self.is_sent_on_enough(&readers);
        let file = self.client.files.get(&id);
        let body = Body::Read {
            first,
            count,
            keep,
            record: file.is_none_or(|file| file.semantics.is_recorded()),
            aside,
            skip,
            spare,
            here,
        };
        let seq = self.ask(home, id, body, What::Pages, Vec::new());
        let Some(file) = self.client.files.get_mut(&id) else {
            return;
        };
        for page in first..first + u64::from(count) {
            let mut asked_by = readers.clone();
            if !asked_by.contains(&ticket) {
                asked_by.push(ticket);
            }
            file.wants.insert(
                page,
                Want {
                    seq,
                    asked_by,
                    keep,
                    to: match page + 1 == first + u64::from(count) {
                        true => self.ctx.config.page_bytes - spare,
                        false => self.ctx.config.page_bytes,
                    },
                    floor: 0,
                },
            );
        }
    }

    /// Waiting reads that touch any of the pages. One that has yet to learn its end may learn of an append that the pages
    /// lack.
    pub(super) fn readers_of(&self, id: FileId, first: u64, count: u32) -> Vec<Ticket> {
        let Some(file) = self.client.files.get(&id) else {
            return Vec::new();
        };
        let touches = |ticket: &&Ticket| match self.client.jobs.get(ticket) {
            Some(Job::Read(job)) if job.len > 0 && job.size.is_some() => {
                let (f, c) = self.ctx.config.pages_of(job.offset, u64::from(job.len));
                f < first + u64::from(count) && first < f + u64::from(c)
            }
            Some(_) | None => false,
        };
        file.reads.iter().filter(touches).copied().collect()
    }

    /// A home answered a request for pages.
    pub(super) fn pages_answered(
        &mut self,
        id: FileId,
        home: NodeId,
        answer: Envelope,
        data: Option<Piece>,
    ) {
        let wanted = self.take_wants(id, answer.req.seq);
        match &answer.body {
            Body::Grant {
                first,
                skip,
                lens,
                ver,
                good,
                origin,
            } => {
                let mut at = data.map_or(0, |piece| piece.at);
                for (page, &len) in (*first..).zip(lens) {
                    let from = if page == *first { *skip } else { 0 };
                    let Some((_, want)) = wanted.iter().find(|(number, _)| *number == page) else {
                        if let Use::Own(grant) = *good {
                            self.refuse_own(id, page, home, grant);
                        }
                        continue;
                    };
                    let overtaken = want.floor > ver.seq;
                    // A page of which this node is home is read in place. An answer that was put aside until
                    // the page was called back has no bytes: it is asked for once more.
                    if overtaken && data.is_none() && home == self.ctx.me() {
                        continue;
                    }
                    let good = match *good {
                        Use::Own(_) => *good,
                        _ if overtaken => Use::Once,
                        good => good,
                    };
                    let bytes = Granted {
                        page,
                        from,
                        to: want.to,
                        extent: from + len,
                        at,
                        data,
                        origin: *origin,
                    };
                    self.take_page(id, want, (good, home), &bytes);
                    at += len;
                }
            }
            Body::Elsewhere(moved) => self.sent_on(id, &wanted, moved),
            Body::Failed(errno::EHOSTDOWN) => self.found_lost(id, &wanted),
            Body::Failed(errno) => self.fail_reads(id, &wanted, *errno),
            _ => {}
        }
        self.go_on_with_reads(id);
    }

    /// Pages have come, or will not: reads of the file go on.
    pub(super) fn go_on_with_reads(&mut self, id: FileId) {
        let readers = self
            .client
            .files
            .get(&id)
            .map(|f| f.reads.clone())
            .unwrap_or_default();
        for ticket in readers {
            self.go_on_reading(ticket);
        }
        self.go_on_revoking(id);
    }

    /// A page has been asked for, by a request that nobody else may keep the answer of.
    pub(super) fn want(
        &mut self,
        id: FileId,
        page: u64,
        seq: u64,
        (asked_by, keep): (Vec<Ticket>, bool),
    ) {
        if let Some(file) = self.client.files.get_mut(&id) {
            let (floor, to) = (0, self.ctx.config.page_bytes);
            file.wants.insert(
                page,
                Want {
                    seq,
                    asked_by,
                    keep,
                    to,
                    floor,
                },
            );
        }
    }

    pub(super) fn take_wants(&mut self, id: FileId, seq: u64) -> Vec<(u64, Want)> {
        let Some(file) = self.client.files.get_mut(&id) else {
            return Vec::new();
        };
        let pages: Vec<u64> = file
            .wants
            .iter()
            .filter(|(_, want)| want.seq == seq)
            .map(|(&page, _)| page)
            .collect();
        pages
            .into_iter()
            .filter_map(|page| Some((page, file.wants.remove(&page)?)))
            .collect()
    }

    /// Installs a granted page, or lends it to the reads that may use it once.
    fn take_page(&mut self, id: FileId, want: &Want, how: (Use, NodeId), granted: &Granted) {
        let (good, home) = how;
        let in_place = home == self.ctx.me();
        let found = match granted.origin {
            Origin::Store => Some(Found::Store),
            Origin::Memory if in_place => None,
            Origin::Memory | Origin::Peer => Some(Found::Peer),
        };
        if let Some(found) = found {
            for &ticket in &want.asked_by {
                self.found(ticket, granted.page, found);
            }
        }
        if in_place && good == Use::Copy {
            return self.hold_in_place(id, want, granted);
        }
        if good == Use::Once && !in_place {
            self.note_read_once(id, granted.page);
        }
        let installed = match good {
            Use::Copy => self.install(id, granted),
            Use::Once => false,
            Use::Own(grant) => self.own_read(id, home, granted, grant),
        };
        if want.asked_by.is_empty() {
            self.came_ahead(id, granted.page, found);
        }
        for &ticket in &want.asked_by {
            if !installed || self.holds_on(ticket) {
                self.lend(ticket, granted, want.seq);
            }
        }
    }

    /// Counts the place where a page of a read was.
    pub(super) fn found(&mut self, ticket: Ticket, page: u64, found: Found) {
        if let Some(Job::Read(job)) = self.client.jobs.get_mut(&ticket) {
            job.found.insert(page, found);
        }
    }

    /// True if the read does not let go any more of what it is granted.
    fn holds_on(&self, ticket: Ticket) -> bool {
        match self.client.jobs.get(&ticket) {
            Some(Job::Read(job)) => job.vain >= VAIN_MAX,
            Some(_) | None => false,
        }
    }

    /// This node is the page's home: reads that hold on get the bytes as they are now.
    fn hold_in_place(&mut self, id: FileId, want: &Want, granted: &Granted) {
        let mut holding = want.asked_by.clone();
        holding.retain(|&ticket| self.holds_on(ticket));
        let readable = self.authority.readable(self.ctx, id, granted.page);
        let Some((slot, len)) = readable.filter(|_| !holding.is_empty()) else {
            return;
        };
        let buf = self.ctx.new_buf();
        let piece = |src| Piece { src, at: 0, len };
        let data = alloc::vec![piece(Src::Frame(slot.frame))];
        self.ctx.out.push(Effect::Stash { buf, data });
        self.borrow(buf);
        let stashed = Granted {
            extent: len,
            at: 0,
            data: Some(piece(Src::Buf(buf))),
            ..*granted
        };
        for ticket in holding {
            self.lend(ticket, &stashed, want.seq);
        }
        self.unborrow(buf);
    }

    fn install(&mut self, id: FileId, granted: &Granted) -> bool {
        let page = granted.page;
        let Some(home) = self
            .client
            .files
            .get(&id)
            .and_then(|file| super::home_of(self.ctx.config, id, file, page))
        else {
            return false;
        };
        let Some(slot) = self.ctx.frames.take(Owner::Client(id, page)) else {
            return false;
        };
        if let (Some(data), true) = (granted.data, granted.extent > 0) {
            let from = Piece {
                src: data.src,
                at: granted.at,
                len: granted.extent,
            };
            self.ctx.out.push(Effect::Fill {
                frame: slot.frame,
                at: 0,
                from,
            });
        }
        self.ctx.frames.release(slot);
        let copy = Copy {
            slot,
            extent: granted.extent,
            home,
            unread: None,
            pushed: false,
        };
        let file = self.client.files.entry(id).or_default();
        if let Some(old) = file.copies.insert(page, copy) {
            self.ctx.frames.give_back(old.slot);
        }
        true
    }

    pub(super) fn fail_reads(&mut self, id: FileId, wanted: &[(u64, Want)], errno: RawErrno) {
        let mut tickets: Vec<Ticket> = Vec::new();
        for (page, _) in wanted {
            tickets.extend(self.readers_of(id, *page, 1));
        }
        tickets.sort_unstable();
        tickets.dedup();
        for ticket in tickets {
            self.end_read(ticket);
            self.reply(ticket, Reply::Failed(errno));
        }
    }

    fn finish_read(&mut self, ticket: Ticket, pieces: Vec<Piece>) {
        self.count(ticket, &pieces);
        if let Some(Job::Read(job)) = self.client.jobs.get(&ticket)
            && job.len > 0
        {
            let (first, count) = self.ctx.config.pages_of(job.offset, u64::from(job.len));
            self.note_read(job.file, first, count);
        }
        if let Some(Job::Read(job)) = self.client.jobs.get(&ticket)
            && job.keep
            && !pieces.is_empty()
        {
            let (id, offset) = (job.file, job.offset);
            let len: u64 = pieces.iter().map(|piece| u64::from(piece.len)).sum();
            self.keeping(id, offset, len);
        }
        self.ctx.out.push(Effect::Reply {
            ticket,
            reply: Reply::Data(pieces),
        });
        self.end_read(ticket);
    }

    /// A way in keeps these bytes from now on.
    fn keeping(&mut self, id: FileId, offset: u64, len: u64) {
        let (first, count) = self.ctx.config.pages_of(offset, len);
        let Some(file) = self.client.files.get(&id) else {
            return;
        };
        for page in first..first + u64::from(count) {
            let home = super::home_of(self.ctx.config, id, file, page);
            if home == Some(self.ctx.me()) {
                self.authority.keep_here(self.ctx, id, page, file.semantics);
            }
        }
        for page in first..first + u64::from(count) {
            self.own_kept(id, page);
        }
        self.kept_while_revoking(id, first, count);
    }

    fn count(&mut self, ticket: Ticket, pieces: &[Piece]) {
        let Some(Job::Read(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        let total: u64 = pieces.iter().map(|piece| u64::from(piece.len)).sum();
        if let Some(file) = self.client.files.get_mut(&job.file).filter(|_| total > 0) {
            let (first, count) = self.ctx.config.pages_of(job.offset, total);
            for (&page, copy) in file.copies.range_mut(first..first + u64::from(count)) {
                job.found
                    .extend(copy.unread.take().map(|found| (page, found)));
            }
        }
        let stats = &mut *self.ctx.stats;
        stats.read_bytes += total;
        let mut own = total;
        for (&page, found) in &job.found {
            let base = self.ctx.config.page_start(page);
            let from = job.offset.max(base);
            let to = (job.offset + total).min(base + u64::from(self.ctx.config.page_bytes));
            let bytes = to.saturating_sub(from);
            own -= bytes.min(own);
            match found {
                Found::Peer => stats.peer_bytes += bytes,
                Found::Bank => stats.bank_bytes += bytes,
                Found::Store => stats.store_bytes += bytes,
            }
        }
        stats.own_bytes += own;
    }

    /// Takes a read off every list and gives back what it borrowed.
    pub(super) fn end_read(&mut self, ticket: Ticket) {
        self.end_holding(ticket);
        let Some(Job::Read(job)) = self.client.jobs.remove(&ticket) else {
            return;
        };
        if let Some(file) = self.client.files.get_mut(&job.file) {
            file.reads.retain(|&read| read != ticket);
        }
        for buf in job.once.values().filter_map(|once| once.buf) {
            self.unborrow(buf);
        }
        if job.keep {
            self.go_on_revoking(job.file);
        }
    }
}

/// Pages that one request asks for at most.
pub(super) fn run_max(config: &Config) -> u32 {
    (REQUEST_BYTES / config.page_bytes).min(REQUEST_PAGES)
}
