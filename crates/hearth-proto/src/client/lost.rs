//! Pages whose home is gone, read from the store.
//!
//! Nobody can write such a page, so the store has the latest bytes that there are of it. The other pages of a
//! read come from their homes as ever. These may have bytes that the store has yet to get, and call back what a
//! way in keeps.
//!
//! A read is done on the store as a whole if it is not known who has a page. So is one that is to be of one
//! instant. Nobody calls back what a way in keeps of all this. So that goes after a second. It also goes when the
//! manager has the file forgotten, which may be cut.
//!
//! Invariant:
//! - C10 (S1): of a page whose home lives, and is known, a read that may mix instants takes no bytes from the store.

use super::file::Want;
use super::once::Granted;
use super::read::{Found, Run};
use super::{Client, Desk, Job};
use crate::RawErrno;
use crate::authority::Authority;
use crate::ctx::Ctx;
use crate::effect::{Effect, Piece, ReadInto, Src};
use crate::ids::{Buf, FileId, NodeId, StoreOpId, Ticket};
use crate::input::StoreOk;
use crate::msg::Origin;
use crate::time::{Span, Time};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Set in the numbers of wants that the store was asked for. So they never meet those of messages or of the bank.
const ASKED_OF_STORE: u64 = 1 << 62;

/// How long ways in keep bytes that nobody calls back.
const STRAYS_LAST: Span = Span::secs(1);

/// Pages that the store is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lost {
    file: FileId,
    first: u64,
    count: u32,
    buf: Buf,
}

/// Bytes of the store that are read past homes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Losses {
    asked: BTreeMap<StoreOpId, Lost>,
    strays: Strays,
}

/// Files of which ways in may keep what nobody calls back, and until when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Strays {
    files: BTreeSet<FileId>,
    end: Option<Time>,
}

impl Losses {
    /// The pages that an operation of the store was to read.
    pub(super) fn take(&mut self, op: StoreOpId) -> Option<Lost> {
        self.asked.remove(&op)
    }
}

impl Client {
    /// When ways in are to drop what nobody calls back.
    pub(crate) fn strays_due(&self) -> Option<Time> {
        self.lost.strays.end
    }

    /// Time has passed.
    pub(crate) fn drop_strays(&mut self, ctx: &mut Ctx<'_>, authority: &mut Authority) {
        if self.strays_due().is_none_or(|due| ctx.now < due) {
            return;
        }
        let files = core::mem::take(&mut self.lost.strays).files;
        let mut desk = Desk {
            client: self,
            authority,
            ctx,
        };
        for file in files {
            desk.revoke(file, Some((0, u32::MAX)), super::Tell::Nobody);
        }
    }
}

impl Desk<'_, '_> {
    /// A way in may keep what a read is given from the store, and nobody will call it back.
    pub(super) fn strays(&mut self, id: FileId) {
        let left = self.client.has_left(id) || self.ctx.config.is_uncached();
        if left {
            return;
        }
        let strays = &mut self.client.lost.strays;
        strays.end.get_or_insert(self.ctx.now + STRAYS_LAST);
        strays.files.insert(id);
    }

    /// True if ways in may keep pages of a file that no home knows of.
    pub(super) fn has_strays(&self, id: FileId) -> bool {
        self.client.lost.strays.files.contains(&id)
    }

    /// A node is gone, and has written pages to the store that are read there until the next view.
    pub(super) fn reopen_lost(&mut self, id: FileId) {
        let file = self.client.files.get(&id);
        if self.ctx.config.goes_on && file.is_some_and(|file| file.handles > 0) {
            self.ctx.reopen(id);
        }
    }

    /// True if the store is to be asked for what a node is home of.
    pub(super) fn is_lost(&self, id: FileId, home: NodeId) -> bool {
        self.ctx.peers.is_down(home) || self.owes_answer(id, home)
    }

    /// Asks the store for a run of pages whose home is gone.
    pub(super) fn read_lost(&mut self, ticket: Ticket, id: FileId, run: &Run) {
        let &Run { first, count, .. } = run;
        let mut readers = self.readers_of(id, first, count);
        if !readers.contains(&ticket) {
            readers.push(ticket);
        }
        self.ask_store(id, (first, count), readers);
    }

    /// Nobody at the home of these pages answers, which are in order. The reads that want them go to the store
    /// for them.
    pub(super) fn found_lost(&mut self, id: FileId, wanted: &[(u64, Want)]) {
        let runs = wanted.chunk_by(|(a, _), (b, _)| a + 1 == *b);
        let runs: Vec<(u64, u32)> = runs.map(|run| (run[0].0, run.len() as u32)).collect();
        for (first, count) in runs {
            let readers = self.readers_of(id, first, count).into_iter();
            let (whole, readers): (Vec<Ticket>, Vec<Ticket>) =
                readers.partition(|&ticket| self.is_of_store(ticket));
            for ticket in whole {
                self.direct(ticket);
            }
            if !readers.is_empty() {
                self.ask_store(id, (first, count), readers);
            }
        }
    }

    /// True if a read that met a lost page is done on the store as a whole: it has no other pages, or is to be of
    /// one instant.
    pub(super) fn is_of_store(&self, ticket: Ticket) -> bool {
        let Some(Job::Read(job)) = self.client.jobs.get(&ticket) else {
            return false;
        };
        let (config, id) = (self.ctx.config, job.file);
        let len = u64::from(job.len);
        let (first, count) = config.pages_of(job.offset, len);
        let is_lost = |page: u64| {
            let file = self.client.files.get(&id);
            let home = file.and_then(|file| super::home_of(config, id, file, page));
            home.is_some_and(|home| self.is_lost(id, home))
        };
        let all = (first..first + u64::from(count)).all(is_lost);
        count == 1 || all || self.is_whole(job, job.offset + len)
    }

    fn ask_store(&mut self, id: FileId, (first, count): (u64, u32), readers: Vec<Ticket>) {
        let (op, buf) = (self.ctx.new_op(), self.ctx.new_buf());
        let keeps = |ticket: &Ticket| match self.client.jobs.get(ticket) {
            Some(Job::Read(job)) => job.keep,
            Some(_) | None => false,
        };
        let keep = readers.iter().any(keeps);
        if keep {
            self.strays(id);
        }
        for page in first..first + u64::from(count) {
            self.want(id, page, ASKED_OF_STORE | op.0, (readers.clone(), keep));
        }
        let page_bytes = self.ctx.config.page_bytes;
        let lost = Lost {
            file: id,
            first,
            count,
            buf,
        };
        self.client.lost.asked.insert(op, lost);
        self.ctx.out.push(Effect::StoreRead {
            op,
            file: id,
            offset: self.ctx.config.page_start(first),
            into: ReadInto::Buf(buf, count * page_bytes),
        });
    }

    /// The store answered. Its bytes are for the reads that asked, and for nobody else.
    pub(super) fn lost_read(
        &mut self,
        op: StoreOpId,
        lost: &Lost,
        result: Result<StoreOk, RawErrno>,
    ) {
        let (id, buf) = (lost.file, lost.buf);
        let wanted = self.take_wants(id, ASKED_OF_STORE | op.0);
        match result {
            Ok(ok) => {
                self.borrow(buf);
                for (page, want) in &wanted {
                    self.lend_lost(lost, *page, &want.asked_by, ok.bytes);
                }
                self.unborrow(buf);
            }
            Err(errno) => {
                self.ctx.out.push(Effect::Free(buf));
                self.fail_reads(id, &wanted, errno);
            }
        }
        self.go_on_with_reads(id);
    }

    fn lend_lost(&mut self, lost: &Lost, page: u64, readers: &[Ticket], read: u32) {
        let page_bytes = self.ctx.config.page_bytes;
        let at = (page - lost.first) as u32 * page_bytes;
        let extent = read.saturating_sub(at).min(page_bytes);
        let granted = Granted {
            page,
            from: 0,
            to: page_bytes,
            extent,
            at,
            data: Some(Piece {
                src: Src::Buf(lost.buf),
                at,
                len: extent,
            }),
            origin: Origin::Store,
        };
        for &ticket in readers {
            self.found(ticket, page, Found::Store);
            self.lend(ticket, &granted, 0);
        }
    }
}
