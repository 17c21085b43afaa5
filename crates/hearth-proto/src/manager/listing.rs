//! Names of directories, as a node has told them.
//!
//! They are told in parts, under the number by which their reader may read the directory's attributes, and
//! before these; so they count for as long as the attributes do, and what calls those back voids them (MANAGER-4).
//! To forget names is always right: the next who asks reads them again. A node that has some of them goes on
//! behind the last, in the order of their bytes, so it does not matter whether they were read anew meanwhile.

use super::{Ask, Manager, Seat};
use crate::bank::NAMES_BYTES;
use crate::ctx::Ctx;
use crate::ids::{FileId, Leave, Listed, Named, NodeId};
use crate::msg::Body;
use crate::time::Time;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Names that a manager remembers, of all directories together; a directory with more is read by every node
/// itself.
const NAMES_MAX: usize = 1 << 18;

/// Bytes of names in one message, which has room for 64 KiB.
const MESSAGE_BYTES: usize = 48 << 10;

/// Bytes that a name takes beside its own, at most.
const NAMED_BYTES: usize = 20;

/// The outcome of a question about names.
enum Given {
    Names(Body),
    /// Another node reads them.
    Awaited,
    Unread,
}

/// The known names of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Listing {
    #[default]
    Unread,
    /// Some were told; there are more or not.
    Coming(Vec<Named>, bool),
    /// In order.
    Whole(Vec<Named>),
    /// There are too many: each node reads them by itself.
    Own,
}

impl Listing {
    /// All names, if they fit into a daemon's entry.
    pub(super) fn for_daemon(&self) -> Option<Vec<Named>> {
        let Listing::Whole(names) = self else {
            return None;
        };
        let bytes = |named: &Named| named.name.len() + NAMED_BYTES;
        let all: usize = names.iter().map(bytes).sum();
        (all <= NAMES_BYTES).then(|| names.clone())
    }

    /// Its reader has told all, and the attributes, or not.
    pub(super) fn end(&mut self, told: bool) {
        *self = match core::mem::take(self) {
            Listing::Coming(mut names, false) if told => {
                names.sort_unstable_by(|one, other| one.name.cmp(&other.name));
                Listing::Whole(names)
            }
            Listing::Own => Listing::Own,
            _ => Listing::Unread,
        };
    }

    /// The storm is over for which names were read, or a daemon has them now.
    pub(super) fn age(&mut self) {
        if let Listing::Whole(_) = self {
            *self = Listing::Unread;
        }
    }

    fn add(&mut self, listed: &Listed) {
        let mut all = match core::mem::take(self) {
            Listing::Coming(names, true) => names,
            Listing::Own => {
                *self = Listing::Own;
                return;
            }
            Listing::Coming(_, false) | Listing::Unread | Listing::Whole(_) => Vec::new(),
        };
        let Some(names) = &listed.names else {
            *self = Listing::Own;
            return;
        };
        if all.len() != listed.first as usize {
            return;
        }
        *self = if all.len() + names.len() > NAMES_MAX {
            Listing::Own
        } else {
            all.extend_from_slice(names);
            Listing::Coming(all, listed.more)
        };
    }
}

/// How many of these fit into one message: at least one, if there are any.
pub(crate) fn fitting(names: &[Named]) -> usize {
    let mut bytes = 0;
    let fits = |named: &&Named| {
        bytes += named.name.len() + NAMED_BYTES;
        bytes <= MESSAGE_BYTES
    };
    names
        .iter()
        .take_while(fits)
        .count()
        .max(1)
        .min(names.len())
}

impl Manager {
    /// Names behind one; `None` while another node reads them.
    pub(super) fn give_names(
        &mut self,
        ctx: &mut Ctx<'_>,
        dir: FileId,
        ask: &Ask,
        behind: &[u8],
    ) -> Option<Body> {
        let lasts = self.storms.lasts(ctx.now, dir);
        let mut seat = self.seat(ctx, dir);
        if !lasts {
            // The next storm begins with this question, and must not find them.
            seat.file.leaves.listing.age();
        }
        let given = seat.known_names(ask.from, behind);
        let given = match given {
            Given::Names(body) => Some(body),
            Given::Awaited => None,
            Given::Unread if self.storms.is_worth(ctx.now, dir, ask.from) => {
                let mut seat = self.seat(ctx, dir);
                seat.file.holders.insert(ask.from);
                Some(told(seat.have_read(ask.from, ask.req.seq), None, false))
            }
            Given::Unread => Some(told(Leave::Later, None, false)),
        };
        self.tidy(dir);
        given
    }

    /// A node has told all that it was to read of a directory, if it is one.
    pub(super) fn listed_all(&mut self, now: Time, dir: FileId) {
        let listing = self.files.get(&dir).map(|file| &file.leaves.listing);
        if let Some(Listing::Whole(_)) = listing {
            self.storms.told(now, dir);
            self.bound_listings(dir);
        }
    }

    /// Forgets the oldest listings where there are too many names, the newest of which are of `id`. They are counted
    /// anew only when so many were told that there may be too many, and then a quarter goes.
    fn bound_listings(&mut self, id: FileId) {
        self.listings.push_back(id);
        self.listed += self.names_of(id).unwrap_or(0).max(1);
        if self.listed <= NAMES_MAX {
            return;
        }
        self.listed = 0;
        let mut newest = BTreeSet::new();
        let told = core::mem::take(&mut self.listings);
        for dir in told.into_iter().rev().filter(|&dir| newest.insert(dir)) {
            let Some(names) = self.names_of(dir) else {
                continue;
            };
            let fits = dir == id || self.listed + names.max(1) <= NAMES_MAX / 4 * 3;
            if fits {
                self.listed += names.max(1);
                self.listings.push_front(dir);
            } else if let Some(file) = self.files.get_mut(&dir) {
                file.leaves.listing = Listing::Unread;
            }
        }
    }

    /// Number of names that are known of a directory.
    fn names_of(&self, dir: FileId) -> Option<usize> {
        match self.files.get(&dir).map(|file| &file.leaves.listing) {
            Some(Listing::Whole(names)) => Some(names.len()),
            _ => None,
        }
    }
}

impl Seat<'_, '_> {
    /// Names behind one, if they are known.
    fn known_names(&mut self, from: NodeId, behind: &[u8]) -> Given {
        if !self.may_be_kept() {
            return Given::Names(told(Leave::No, None, false));
        }
        let leaves = &self.file.leaves;
        let body = match (&leaves.listing, leaves.known) {
            (Listing::Whole(names), Some(known)) => {
                let had = |named: &Named| !behind.is_empty() && *named.name <= *behind;
                let rest = &names[names.partition_point(had)..];
                let now = fitting(rest);
                told(
                    Leave::Known(known),
                    Some(rest[..now].to_vec()),
                    now < rest.len(),
                )
            }
            (Listing::Own, Some(known)) => told(Leave::Known(known), None, false),
            _ if leaves.is_read_for(from) => return Given::Awaited,
            _ => return Given::Unread,
        };
        self.file.holders.insert(from);
        Given::Names(body)
    }

    pub(super) fn listed(&mut self, from: NodeId, listed: &Listed) {
        let leaves = &mut self.file.leaves;
        if leaves.reader == Some((from, listed.number)) {
            leaves.listing.add(listed);
        }
    }
}

fn told(leave: Leave, names: Option<Vec<Named>>, more: bool) -> Body {
    Body::Names { leave, names, more }
}
