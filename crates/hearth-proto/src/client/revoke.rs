//! Revocation: copies here and in the ways in go before the order is acknowledged.

use super::{Client, Desk, Job};
use crate::effect::{Effect, Reply};
use crate::errno;
use crate::guard::Guard;
use crate::ids::{FileId, Gen, NodeId, ReqId, RevokeId, Ticket, Ver};
use crate::msg::{Body, Envelope, Service};
use crate::semantics::Semantics;
use alloc::vec::Vec;

/// Ways in are dropping what they keep; the order is acknowledged when they have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Revocation {
    file: FileId,
    /// First page and count; `None` for attributes alone.
    pages: Option<(u64, u32)>,
    /// The party to tell when they have.
    tell: Tell,
    /// The ways in kept something of the pages since they were told to drop them.
    again: bool,
    /// They have answered, but a read that they may keep is still on its way (C3).
    parked: bool,
}

/// The party that waits for a revocation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Tell {
    Nobody,
    /// The sender of the order: its request, and what to say.
    Node(NodeId, Gen, ReqId, Body),
    /// The manager: what it had said is forgotten.
    LetGo(NodeId, Gen, ReqId),
    /// A request of a session, which is done then.
    Session(Ticket),
    /// A write of a session, which goes to the store then.
    Store(Ticket),
    /// The file lapses then.
    Lapse,
}

impl Revocation {
    fn touches(&self, file: FileId, first: u64, count: u32) -> bool {
        let overlaps = |(f, c): (u64, u32)| {
            f < first.saturating_add(u64::from(count)) && first < f.saturating_add(span(c))
        };
        self.file == file && self.pages.is_some_and(overlaps)
    }
}

/// Pages that a count stands for.
fn span(count: u32) -> u64 {
    if count == u32::MAX {
        u64::MAX
    } else {
        u64::from(count)
    }
}

impl Client {
    /// True while somebody waits for ways in to let go of what they keep.
    pub(crate) fn lets_go(&self) -> bool {
        let mut all = self.revocations.values();
        all.any(|revocation| revocation.tell != Tell::Nobody)
    }
}

impl Desk<'_, '_> {
    /// A home calls copies back.
    pub(super) fn invalidated(
        &mut self,
        from: NodeId,
        order: &Envelope,
        first: u64,
        count: u32,
        ver: Ver,
    ) {
        let id = order.file;
        let end = first.saturating_add(span(count));
        let mut kept = false;
        if let Some(file) = self.client.files.get_mut(&id) {
            let gone: Vec<u64> = file
                .copies
                .range(first..end)
                .map(|(&page, _)| page)
                .collect();
            for page in gone {
                if let Some(copy) = file.copies.remove(&page) {
                    self.ctx.frames.give_back(copy.slot);
                    if copy.pushed {
                        file.unread.insert(page);
                    }
                }
            }
            for (_, want) in file.wants.range_mut(first..end) {
                // A cut names pages of other homes as well, which count for themselves.
                let asked = self.client.pending.get(&want.seq);
                if asked.is_some_and(|pending| pending.to == from) {
                    want.floor = want.floor.max(ver.seq);
                }
            }
            kept = file.kept && !file.gathering.is_scattering(first, count);
        }
        let tell = Tell::Node(from, order.generation, order.req, Body::InvalOk);
        if kept && self.ctx.config.keeps(Guard::RevokedBeforeAck) {
            self.revoke(id, Some((first, count)), tell);
        } else {
            self.tell(id, tell);
        }
    }

    /// The manager takes back what it said of size and times.
    pub(super) fn forget(&mut self, from: NodeId, order: &Envelope, size: u64, service: Service) {
        let id = order.file;
        let tell = Tell::LetGo(from, order.generation, order.req);
        let bypass = matches!(service, Service::Store | Service::StoreAfterLoss);
        if bypass && self.authority.is_over(id, order.generation) {
            // The manager is gone, and others go on without having heard of this.
            return self.revoke(id, None, tell);
        }
        let known = self.client.files.get(&id).map(|file| file.generation);
        let strays = self.has_strays(id);
        self.learn(id, order.generation);
        self.drop_leave(id);
        let Some(file) = self.client.files.get_mut(&id) else {
            return self.revoke(id, None, tell);
        };
        // Nobody else will call back what the ways in keep of such a file.
        let cut = known.is_some_and(|known| known < order.generation);
        let unrecorded = file.kept && !file.semantics.is_recorded();
        let cut = (cut && unrecorded || strays).then_some((0, u32::MAX));
        file.size = file.size.min(size);
        for ticket in &file.reads {
            if let Some(Job::Read(job)) = self.client.jobs.get_mut(ticket) {
                job.clip(size);
            }
        }
        file.exact = false;
        if service == Service::Laminated {
            file.semantics = Semantics::Laminated;
        }
        file.losses += u32::from(service == Service::StoreAfterLoss);
        if bypass {
            self.leave_homes(id);
        }
        let untold = bypass.then(|| self.drop_untold(id)).flatten();
        let pages = untold.or(cut);
        self.revoke(id, pages, tell);
    }

    /// Nobody tells this node any more of a file that it has not open, or has from the store. So copies that no home has
    /// recorded go (V4). Returns the pages that ways in are to drop.
    fn drop_untold(&mut self, id: FileId) -> Option<(u64, u32)> {
        let file = self.client.files.get(&id)?;
        let is_told = file.handles > 0 && !file.bypass;
        if is_told || file.semantics.is_recorded() {
            return None;
        }
        let kept = file.kept;
        self.drop_copies(id);
        kept.then_some((0, u32::MAX))
    }

    /// The last name is gone: handles are served from the store.
    pub(super) fn leave_homes(&mut self, id: FileId) {
        let Some(file) = self.client.files.get_mut(&id) else {
            return;
        };
        // Without handles nothing is left of the file; one of the same number is another.
        file.bypass |= file.handles > 0;
        (file.manager, file.orphan) = (None, false);
        self.give_back_file(id);
        let Some(file) = self.client.files.get(&id) else {
            return;
        };
        for ticket in file.reads.clone() {
            self.direct(ticket);
        }
        self.redirect_writes(id);
        self.drop_gathered(id, Some(errno::EIO));
        // Homes drop what they have of the file, and need no descriptor for it.
        self.lingers_no_more(id);
    }

    /// The manager takes back leave to keep attributes.
    pub(super) fn recalled(&mut self, from: NodeId, order: &Envelope) {
        self.drop_leave(order.file);
        if let Some(file) = self.client.files.get_mut(&order.file) {
            file.exact = false;
        }
        let tell = Tell::LetGo(from, order.generation, order.req);
        let pages = self.drop_untold(order.file);
        self.revoke(order.file, pages, tell);
    }

    /// Drops what the ways in keep of a file; nobody waits for it.
    pub(super) fn revoke_quietly(&mut self, id: FileId) {
        if self.client.files.get(&id).is_some_and(|file| file.kept) {
            self.revoke(id, Some((0, u32::MAX)), Tell::Nobody);
        }
    }

    /// Ends a request once the ways in keep nothing of a file any more.
    pub(super) fn revoke_before(&mut self, id: FileId, ticket: Ticket) {
        match self.client.files.get(&id).is_some_and(|file| file.kept) {
            true => self.revoke(id, Some((0, u32::MAX)), Tell::Session(ticket)),
            false => self.finish(ticket, Reply::Done),
        }
    }

    /// Has the driver write to the store itself, once the ways in keep nothing of the file that is older. No home calls
    /// back what they keep of a file that has none.
    pub(super) fn write_at_store(&mut self, ticket: Ticket, id: FileId) {
        match self.client.files.get(&id).is_some_and(|file| file.kept) {
            true => self.revoke(id, Some((0, u32::MAX)), Tell::Store(ticket)),
            false => self.ctx.out.push(Effect::Direct { ticket }),
        }
    }

    pub(super) fn revoke(&mut self, file: FileId, pages: Option<(u64, u32)>, tell: Tell) {
        let revocation = Revocation {
            file,
            pages,
            tell,
            again: false,
            parked: false,
        };
        self.order(revocation);
    }

    fn order(&mut self, revocation: Revocation) {
        let id = self.ctx.new_revoke();
        self.ctx.stats.revocations += 1;
        let Revocation { file, pages, .. } = revocation;
        self.client.revocations.insert(id, revocation);
        self.ctx.out.push(Effect::Revoke { id, file, pages });
    }

    /// The ways in have dropped what they kept.
    pub(super) fn revoked(&mut self, id: RevokeId) {
        let Some(mut revocation) = self.client.revocations.remove(&id) else {
            return;
        };
        if self.keepers_on_their_way(&revocation) {
            revocation.parked = true;
            self.client.revocations.insert(id, revocation);
        } else if revocation.again {
            revocation.again = false;
            self.order(revocation);
        } else {
            self.tell(revocation.file, revocation.tell);
        }
    }

    fn keepers_on_their_way(&self, revocation: &Revocation) -> bool {
        let (Some((first, count)), Some(file)) =
            (revocation.pages, self.client.files.get(&revocation.file))
        else {
            return false;
        };
        let end = first.saturating_add(span(count));
        // A read that waits for other pages may hold bytes of these for one use already.
        let holds = |ticket: &Ticket| match self.client.jobs.get(ticket) {
            Some(Job::Read(job)) => job.keeps_once(first, end),
            Some(_) | None => false,
        };
        file.wants.range(first..end).any(|(_, want)| want.keep) || file.reads.iter().any(holds)
    }

    /// Reads have been answered: revocations that waited for them run once more.
    pub(super) fn go_on_revoking(&mut self, file: FileId) {
        let ready: Vec<RevokeId> = self
            .client
            .revocations
            .iter()
            .filter(|(_, r)| r.file == file && r.parked && !self.keepers_on_their_way(r))
            .map(|(&id, _)| id)
            .collect();
        for id in ready {
            if let Some(mut revocation) = self.client.revocations.remove(&id) {
                revocation.parked = false;
                revocation.again = false;
                self.order(revocation);
            }
        }
    }

    /// A way in was given bytes to keep: a revocation of them must run once more.
    pub(super) fn kept_while_revoking(&mut self, file: FileId, first: u64, count: u32) {
        for revocation in self.client.revocations.values_mut() {
            if revocation.touches(file, first, count) {
                revocation.again = true;
            }
        }
    }

    fn tell(&mut self, file: FileId, tell: Tell) {
        match tell {
            Tell::Nobody => {}
            Tell::Node(to, generation, req, body) => {
                self.ctx.answer(to, file, generation, req, body);
            }
            Tell::LetGo(to, generation, req) => {
                // Only now: until the manager hears of it this node tells the time itself.
                let let_go = Body::ForgetOk(self.hand_over_date(file));
                self.ctx.answer(to, file, generation, req, let_go);
            }
            Tell::Session(ticket) => self.finish(ticket, Reply::Done),
            Tell::Store(ticket) => self.ctx.out.push(Effect::Direct { ticket }),
            Tell::Lapse => self.lapse(file),
        }
    }
}
