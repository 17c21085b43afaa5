//! The places of the bytes that a read puts together.

use super::{Desk, Job};
use crate::config::{Config, Copies, Writes};
use crate::effect::{Piece, Src};
use crate::ids::{Buf, NodeId, Ticket};
use crate::msg::Origin;
use alloc::vec::Vec;

/// One page of a grant.
pub(super) struct Granted {
    pub(super) page: u64,
    /// The first byte that is known, and the end of those; what of them follows `extent` is zero.
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) extent: u32,
    pub(super) at: u32,
    pub(super) data: Option<Piece>,
    pub(super) origin: Origin,
}

/// A page's bytes for one use: where they are and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct OncePage {
    pub(super) buf: Option<Buf>,
    pub(super) at: u32,
    /// The first that is known, and the end of those; what of them follows `extent` is zero.
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) extent: u32,
    /// Number of the request that was answered with it.
    pub(super) asked: u64,
}

/// The place of known bytes of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes {
    src: Src,
    /// The first there, and which of the page that is.
    at: u32,
    from: u32,
    /// Their end in the page; what follows is zero.
    extent: u32,
}

impl Bytes {
    /// From the beginning of the page on.
    pub(super) fn whole(src: Src, extent: u32) -> Bytes {
        let (at, from) = (0, 0);
        Bytes {
            src,
            at,
            from,
            extent,
        }
    }
}

impl OncePage {
    pub(super) fn bytes(&self) -> Bytes {
        let OncePage {
            buf,
            at,
            from,
            extent,
            ..
        } = *self;
        Bytes {
            src: buf.map_or(Src::Zero, Src::Buf),
            at,
            from,
            extent,
        }
    }
}

impl Desk<'_, '_> {
    /// The bytes at the ends of a run that the waiting reads do not want: if nobody but the home keeps a
    /// page, another node is sent only the others.
    pub(super) fn unwanted(
        &self,
        home: NodeId,
        readers: &[Ticket],
        (first, count): (u64, u32),
    ) -> (u32, u32) {
        let rules = self.ctx.config.rules();
        let once = (rules.copies, rules.writes) == (Copies::One, Writes::Behind);
        if !once || home == self.ctx.me() {
            return (0, 0);
        }
        let unwanted = |ticket: &Ticket| match self.client.jobs.get(ticket) {
            Some(Job::Read(job)) => Some(job.unwanted(self.ctx.config, first, count)),
            Some(_) | None => None,
        };
        let least = |a: (u32, u32), b: (u32, u32)| (a.0.min(b.0), a.1.min(b.1));
        let all = readers.iter().filter_map(unwanted);
        all.reduce(least).unwrap_or_default()
    }

    /// Gives a page to a read for this one use.
    pub(super) fn lend(&mut self, ticket: Ticket, granted: &Granted, asked: u64) {
        let Some(Job::Read(job)) = self.client.jobs.get_mut(&ticket) else {
            return;
        };
        let buf = match granted.data {
            Some(Piece {
                src: Src::Buf(buf), ..
            }) if granted.extent > granted.from => Some(buf),
            Some(_) | None => None,
        };
        let once = OncePage {
            buf,
            at: granted.at,
            from: granted.from,
            to: granted.to,
            extent: granted.extent,
            asked,
        };
        let before = job.once.insert(granted.page, once);
        buf.into_iter().for_each(|buf| self.borrow(buf));
        let old = before.and_then(|once| once.buf);
        old.into_iter().for_each(|buf| self.unborrow(buf));
    }
}

/// Appends the part of a page that lies within the read: known bytes, then zeros.
pub(super) fn push_page(
    config: &Config,
    pieces: &mut Vec<Piece>,
    (offset, end): (u64, u64),
    page: u64,
    bytes: Bytes,
) {
    let base = config.page_start(page);
    let from = (offset.max(base) - base) as u32;
    let to = (end.min(base + u64::from(config.page_bytes)) - base) as u32;
    let known = to.min(bytes.extent);
    if from < known {
        pieces.push(Piece {
            src: bytes.src,
            at: bytes.at + from - bytes.from,
            len: known - from,
        });
    }
    let zero_from = from.max(known);
    if zero_from < to {
        pieces.push(Piece {
            src: Src::Zero,
            at: 0,
            len: to - zero_from,
        });
    }
}
