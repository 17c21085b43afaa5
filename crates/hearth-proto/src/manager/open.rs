//! Opens, closes, and what the store's stamp says of outside writers.

use super::control::{After, Control};
use super::{Ask, Seat};
use crate::config::{Allocation, Authorities, Grain};
use crate::errno;
use crate::guard::Guard;
use crate::ids::{NodeId, Stamp, View};
use crate::msg::{Body, Cut, Handles, HomeMap, Service};
use crate::nodeset::NodeSet;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

impl Seat<'_, '_> {
    pub(super) fn open(&mut self, ask: Ask, write: bool, stamp: Stamp, private: bool) {
        if write && self.is_laminated() {
            // A node that asks to write has given up what it was to read for others.
            self.file.leaves.reads_no_more(ask.from);
            return self.fail(&ask, errno::EPERM);
        }
        let met = !self.file.known;
        if met {
            self.file.known = true;
            self.file.size = stamp.size;
            self.file.stamp = Some(stamp);
            if self.ctx.config.view > View(1) {
                // Writes that waited for this view began before others of the last one.
                self.file.dated_ns = self.file.dated_ns.max(stamp.mtime_ns);
            }
        }
        // A private file of a node that is no gateway would have no home.
        let private = private && self.ctx.config.rules().bank.is_none();
        if private && self.file.private.is_none() {
            self.file.private = Some(ask.from);
        }
        if met && self.notices() && self.file.leaves.may_differ(&stamp) {
            return self.open_anew(ask);
        }
        if self.file.writers() == 0 {
            match self.file.stamp {
                Some(_) if self.predates_change(&stamp) => {}
                Some(known) if known.changed_by(&stamp) && self.notices() => {
                    return self.outside(ask, stamp);
                }
                Some(_) => {}
                // The next writer takes the file along. For that all of it must be in the store.
                None if self.is_whole() && !self.would_move(&ask, write) => {}
                None => return self.settle(After::Open(ask)),
            }
        }
        self.admit(ask, write);
    }

    /// Attributes that nodes keep of a file that was never open may be from before an outside change.
    fn open_anew(&mut self, ask: Ask) {
        let awaiting = self.order_forget(u64::MAX, Service::Homes);
        self.file.control = Some(Control::Admitting { ask, awaiting });
        self.advance();
    }

    /// True if an outside change counts. A file of this number may have lost its last name. Then a node that had
    /// found that one by name may have opened it last. The stamp that was told then says nothing of the next.
    fn notices(&self) -> bool {
        let another = self.left.contains_key(&self.id);
        let heeds = another || self.file.semantics.heeds_outsiders();
        heeds && self.ctx.config.keeps(Guard::OutsidersNoticed)
    }

    /// True for a stamp that was taken before the last truncation or window took place.
    fn predates_change(&self, stamp: &Stamp) -> bool {
        let changed = self.file.changed;
        changed.is_some_and(|changed| stamp.ctime_ns < changed.ctime_ns)
    }

    /// Somebody wrote to the store behind the cache. Everything cached of the file is void.
    fn outside(&mut self, ask: Ask, stamp: Stamp) {
        self.file.stamp = Some(stamp);
        self.file.size = stamp.size;
        self.forget_date();
        let homes = self.all_homes();
        self.cut(Cut::Outside, homes, After::Open(ask));
    }

    /// Lets an open through, after the others have learnt that there is a writer (MANAGER-1).
    pub(super) fn admit(&mut self, ask: Ask, write: bool) {
        // Without a stamp something is not in the store, and its home has it.
        if self.would_move(&ask, write) && self.file.stamp.is_some() {
            return self.move_home(ask);
        }
        let from = ask.from;
        let wrote_before = self
            .file
            .openers
            .get(&from)
            .is_some_and(|opens| opens.writers > 0);
        if !write || wrote_before {
            return self.opened(&ask, write);
        }
        let others: Vec<NodeId> = self
            .file
            .openers
            .keys()
            .copied()
            .chain(self.file.holders.iter())
            .filter(|&node| node != from)
            .collect::<NodeSet>()
            .iter()
            .collect();
        self.file.leaves.forget();
        let body = Body::Forget {
            size: u64::MAX,
            service: Service::Homes,
        };
        let mut awaiting = self.order(others, &body);
        awaiting.extend(self.call_entry());
        if awaiting.is_empty() || !self.ctx.config.keeps(Guard::WriterAnnounced) {
            return self.opened(&ask, write);
        }
        self.file.control = Some(Control::Admitting { ask, awaiting });
    }

    pub(super) fn opened(&mut self, ask: &Ask, write: bool) {
        if write && self.file.writers() == 0 && self.file.stamp.is_some() {
            // Bytes that were written before have the store's time by now.
            self.forget_date();
        }
        if write {
            // From here on it is an opener. Until now a change had to take back what it may keep.
            self.file.holders.remove(ask.from);
        }
        let opens = self.file.openers.entry(ask.from).or_default();
        match ask.body {
            Body::Open { all: Some(all), .. } => *opens = all,
            _ => opens.add(write),
        }
        let elsewhere = |(&node, opens): (&NodeId, &Handles)| node != ask.from && opens.writers > 0;
        // A node that is answered beside a control operation must not take the size for exact.
        let shared = self.file.openers.iter().any(elsewhere) || self.file.control.is_some();
        let version = self.version_for(shared);
        let each = self.ctx.config.rules().authorities == Authorities::Each;
        if self.is_whole() {
            let first = self.file.private.unwrap_or(ask.from);
            self.file.home.get_or_insert(first);
        }
        let homes = match self.mover() {
            Some(mover) => HomeMap::Fixed(mover),
            None => self.home_map(),
        };
        let size = self.file.size;
        let rests = self.file.writers() == 0 && self.file.stamp.is_some();
        let dated = self.file.mtime_ns.is_some() && !rests;
        let holders = self.holders_for(ask.from);
        if each {
            self.file.cachers.insert(ask.from);
        }
        self.answer(
            ask,
            Body::OpenOk {
                size,
                shared: shared || !self.file.leaves.is_idle(),
                homes,
                holders,
                semantics: self.file.semantics,
                version,
                left: self.left.contains_key(&self.id),
                dated,
            },
        );
    }

    /// Nodes that tell of their handles anew never wait for others. Until they are answered they read nothing,
    /// and pages can be locked until a read has ended. A node that has the file to itself may wait for those.
    pub(super) fn open_at_once(&mut self) {
        let waits = self.file.control.as_ref().is_some_and(Control::is_of_life);
        // A node that keeps its own pages reads none while a window is open that it has not heard of.
        let waits = waits && self.ctx.config.rules().authorities != Authorities::Each;
        if !waits || !self.file.known || !self.ctx.config.keeps(Guard::ReopenedAtOnce) {
            return;
        }
        let anew = |ask: &Ask| matches!(ask.body, Body::Open { all: Some(_), .. });
        let queue = core::mem::take(&mut self.file.queue).into_iter();
        let (asks, rest): (VecDeque<Ask>, VecDeque<Ask>) = queue.partition(anew);
        self.file.queue = rest;
        for ask in asks {
            if self.has_left(ask.generation) || self.is_leaving() {
                self.answer(&ask, Body::Left);
                continue;
            }
            let write = matches!(ask.body, Body::Open { write: true, .. });
            self.opened(&ask, write);
            if write {
                let (size, service) = (u64::MAX, Service::Homes);
                let body = Body::Forget { size, service };
                self.file.queue.push_front(Ask { body, ..ask });
            }
        }
    }

    /// A writer is known already. Others learn of it before anything that lengthens the file is taken (MANAGER-1).
    pub(super) fn announce(&mut self, ask: Ask) {
        let mut awaiting = self.order_forget(u64::MAX, Service::Homes);
        awaiting.retain(|&(node, _)| node != ask.from);
        self.file.control = Some(Control::Admitting { ask, awaiting });
        self.advance();
    }

    /// True if the file has one home for all of its pages.
    pub(super) fn is_whole(&self) -> bool {
        self.ctx.config.rules().grain == Grain::File
    }

    /// True if an open would take the file to the opener.
    fn would_move(&self, ask: &Ask, write: bool) -> bool {
        write
            && self.is_whole()
            && self.file.private.is_none()
            && self.file.openers.is_empty()
            && self.file.home.is_some_and(|home| home != ask.from)
    }

    /// Nobody has the file open, and all of it is in the store. Its home lets go of it. Then the opener is the
    /// home.
    fn move_home(&mut self, ask: Ask) {
        let homes = self.all_homes();
        self.cut(Cut::Outside, homes, After::Move(ask));
    }

    /// The last home has let go.
    pub(super) fn moved(&mut self, ask: Ask) {
        self.file.home = Some(ask.from);
        self.go_on_opening(ask);
    }

    /// The home of all pages, if the file has one: nobody else can open it, it was moved there, or this node is
    /// the gateway of all that it manages.
    pub(super) fn sole_home(&self) -> Option<NodeId> {
        let serves = self.ctx.config.serves_managed();
        let whole = self.file.private.or(self.file.home);
        whole.or(serves.then_some(self.ctx.me()))
    }

    fn home_map(&self) -> HomeMap {
        if let Some(node) = self.sole_home() {
            return HomeMap::Fixed(node);
        }
        let rules = self.ctx.config.rules();
        match (
            rules.authorities,
            rules.grain,
            self.ctx.config.allocation_rule(),
        ) {
            (Authorities::Each, _, _) => HomeMap::Own,
            (Authorities::Placed, Grain::Page, _) => HomeMap::Keepers,
            (Authorities::Placed, Grain::Chunk | Grain::File, Allocation::Slot) => HomeMap::Slot,
            (
                Authorities::Placed,
                Grain::Chunk | Grain::File,
                Allocation::FirstTouch | Allocation::RoundRobin,
            ) => HomeMap::Ask,
        }
    }

    pub(super) fn close(
        &mut self,
        ask: &Ask,
        (write, wrote): (bool, bool),
        stamp: Option<Stamp>,
        mtime_ns: Option<i64>,
    ) {
        // The close of a file that is gone must not count for one with the same number.
        if ask.generation.life != self.file.generation.life {
            return;
        }
        self.learn_date(mtime_ns);
        let Some(opens) = self.file.openers.get_mut(&ask.from) else {
            return;
        };
        let count = if write {
            &mut opens.writers
        } else {
            &mut opens.readers
        };
        *count = count.saturating_sub(1);
        if opens.is_none() {
            self.file.openers.remove(&ask.from);
            // Its way in keeps on what it was told of the size while it had the file open.
            self.file.holders.insert(ask.from);
        }
        if wrote {
            self.file.version += u64::from(self.file.semantics.looks_at_open());
            match stamp {
                Some(_) => self.file.stamp = self.file.stamp.max(stamp),
                None => self.file.unsettled = true,
            }
        }
        if write && self.file.writers() == 0 && core::mem::take(&mut self.file.unsettled) {
            self.unsettle();
        }
    }

    pub(super) fn restamp(&mut self, before: Stamp, after: Stamp) {
        if self
            .file
            .stamp
            .is_some_and(|stamp| stamp.ctime_ns >= before.ctime_ns)
        {
            self.file.stamp = self.file.stamp.max(Some(after));
        }
        if after.sets_time(&before) {
            self.forget_date();
        }
    }

    pub(super) fn tell_home(&mut self, ask: &Ask, chunk: u64) {
        let home = match (
            self.file.chunk_homes.get(&chunk),
            self.ctx.config.allocation_rule(),
        ) {
            (Some(&home), _) => home,
            (None, Allocation::RoundRobin) => {
                self.file.next_home += 1;
                self.ctx
                    .config
                    .member_at(u64::from(self.file.next_home - 1))
            }
            (None, Allocation::FirstTouch | Allocation::Slot) => ask.from,
        };
        self.file.chunk_homes.insert(chunk, home);
        self.answer(ask, Body::HomeIs { chunk, home });
    }
}
