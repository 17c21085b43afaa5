//! Control operations: truncation, outside change, detachment, settlement.

use super::{Ask, Seat};
use crate::RawErrno;
use crate::config::Writes;
use crate::effect::{Alarm, Effect};
use crate::errno;
use crate::guard::Guard;
use crate::ids::{Gen, NodeId, ReqId, Stamp};
use crate::msg::{Body, Cut, Goal, Handles, Service};
use crate::nodeset::NodeSet;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The purpose of a control operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum After {
    /// This open goes on.
    Open(Ask),
    /// This request is answered.
    Answer(Ask),
    /// This open goes on at the file's new home.
    Move(Ask),
}

/// The operation that has the file to itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Control {
    /// The registrar says who manages the file, before its life begins.
    Registering {
        awaiting: Vec<(NodeId, u64)>,
        named: bool,
    },
    /// Others learn that there is a writer.
    Admitting {
        ask: Ask,
        awaiting: Vec<(NodeId, u64)>,
    },
    /// Writers bring what they have gathered to the homes, before this goes on.
    Collecting {
        ask: Ask,
        /// The requests for nothing else.
        others: VecDeque<Ask>,
        awaiting: Vec<(NodeId, u64)>,
    },
    /// Homes call copies back and hold requests.
    Cutting {
        cut: Cut,
        homes: Vec<NodeId>,
        awaiting: Vec<(NodeId, u64)>,
        after: After,
        errno: Option<RawErrno>,
    },
    /// The node that asked takes the last name away.
    Unlinking {
        homes: Vec<NodeId>,
        ask: Ask,
        /// Why not all of the file is in the store.
        errno: Option<RawErrno>,
    },
    /// The last name is gone, and homes have let go: openers go to the store from now on.
    Leaving {
        homes: Vec<NodeId>,
        awaiting: Vec<(NodeId, u64)>,
        /// The node that is answered then, if one asked for it.
        ask: Option<Ask>,
    },
    /// Openers learn that the file is laminated.
    Laminating {
        homes: Vec<NodeId>,
        awaiting: Vec<(NodeId, u64)>,
        ask: Ask,
    },
    /// No home has refused a truncation, or is gone: openers learn the size that will be.
    Shortening {
        size: u64,
        homes: Vec<NodeId>,
        ask: Ask,
        awaiting: Vec<(NodeId, u64)>,
    },
    /// The node that asked truncates the store.
    Truncating {
        size: u64,
        homes: Vec<NodeId>,
        ask: Ask,
    },
    /// The node that asked writes a range to the store.
    Writing {
        /// The end of the range.
        end: u64,
        homes: Vec<NodeId>,
        ask: Ask,
        awaiting: Vec<(NodeId, u64)>,
        result: Result<Stamp, RawErrno>,
    },
    /// Homes bring their dirty bytes to the store.
    Settling {
        awaiting: Vec<(NodeId, u64)>,
        after: After,
        errno: Option<RawErrno>,
        /// Latest stamp that they told.
        stamp: Option<Stamp>,
        /// A writer has closed since they were asked, and not all that it wrote is in the store.
        overtaken: bool,
    },
}

impl Control {
    fn awaiting(&mut self) -> Option<&mut Vec<(NodeId, u64)>> {
        match self {
            Control::Registering { awaiting, .. }
            | Control::Admitting { awaiting, .. }
            | Control::Collecting { awaiting, .. }
            | Control::Cutting { awaiting, .. }
            | Control::Leaving { awaiting, .. }
            | Control::Laminating { awaiting, .. }
            | Control::Shortening { awaiting, .. }
            | Control::Writing { awaiting, .. }
            | Control::Settling { awaiting, .. } => Some(awaiting),
            Control::Truncating { .. } | Control::Unlinking { .. } => None,
        }
    }

    /// The nodes whose word it waits for.
    pub(super) fn awaits(&self) -> &[(NodeId, u64)] {
        match self {
            Control::Registering { awaiting, .. }
            | Control::Admitting { awaiting, .. }
            | Control::Collecting { awaiting, .. }
            | Control::Cutting { awaiting, .. }
            | Control::Leaving { awaiting, .. }
            | Control::Laminating { awaiting, .. }
            | Control::Shortening { awaiting, .. }
            | Control::Writing { awaiting, .. }
            | Control::Settling { awaiting, .. } => awaiting,
            Control::Truncating { .. } | Control::Unlinking { .. } => &[],
        }
    }

    /// True for what is done to a file whose life has begun.
    pub(super) fn is_of_life(&self) -> bool {
        !matches!(self, Control::Registering { .. })
    }

    /// True for a truncation of pages of this home.
    fn shrinks(&self, home: NodeId) -> bool {
        match self {
            Control::Truncating { homes, .. }
            | Control::Shortening { homes, .. }
            | Control::Cutting {
                cut: Cut::Shrink(_),
                homes,
                ..
            } => homes.contains(&home),
            _ => false,
        }
    }

    /// The node for which it is done, unless it has to be done whoever lives.
    pub(super) fn asker(&self) -> Option<NodeId> {
        match self {
            Control::Leaving { .. } | Control::Registering { .. } => None,
            Control::Admitting { ask, .. }
            | Control::Collecting { ask, .. }
            | Control::Shortening { ask, .. }
            | Control::Truncating { ask, .. }
            | Control::Unlinking { ask, .. }
            | Control::Laminating { ask, .. }
            | Control::Writing { ask, .. }
            | Control::Cutting {
                after: After::Open(ask) | After::Answer(ask) | After::Move(ask),
                ..
            }
            | Control::Settling {
                after: After::Open(ask) | After::Answer(ask) | After::Move(ask),
                ..
            } => Some(ask.from),
        }
    }
}

impl Seat<'_, '_> {
    /// Starts a cut. Openers forget an outside change at the same time. They learn of a truncation when no home can
    /// refuse it any more, and leave a detached file only when all of it is in the store.
    pub(super) fn cut(&mut self, cut: Cut, homes: Vec<NodeId>, after: After) {
        self.file.uncut = false;
        if !matches!(cut, Cut::Window { .. }) {
            self.file.generation.cut += 1;
            self.file.version += 1;
        }
        let mut awaiting = self.order(homes.iter().copied(), &Body::Cut(cut));
        if cut == Cut::Outside {
            awaiting.extend(self.order_forget(self.file.size, Service::Homes));
        }
        self.file.control = Some(Control::Cutting {
            cut,
            homes,
            awaiting,
            after,
            errno: None,
        });
        self.advance();
    }

    /// Takes back what openers and holders were told; returns whose answer to await.
    pub(super) fn order_forget(&mut self, size: u64, service: Service) -> Vec<(NodeId, u64)> {
        let openers: NodeSet = self
            .file
            .openers
            .keys()
            .copied()
            .chain(self.file.holders.iter())
            .collect();
        self.file.leaves.forget();
        let mut awaiting = self.order(openers.iter(), &Body::Forget { size, service });
        awaiting.extend(self.call_entry());
        awaiting
    }

    /// Before a request that has the file to itself, writers send what they have gathered; hands it back
    /// if there is nobody to ask.
    pub(super) fn collect(&mut self, ask: Ask) -> Option<Ask> {
        let cut = match ask.body {
            Body::Truncate(_) | Body::Detach | Body::HasLeft => true,
            Body::Settle { .. } => false,
            _ => return Some(ask),
        };
        if !self.file.semantics.gathers() {
            return Some(ask);
        }
        let writes = |(&node, opens): (&NodeId, &Handles)| (opens.writers > 0).then_some(node);
        let writers: Vec<NodeId> = self.file.openers.iter().filter_map(writes).collect();
        if writers.is_empty() {
            return Some(ask);
        }
        let awaiting = self.order(writers, &Body::Collect { cut });
        let waiting = core::mem::take(&mut self.file.queue).into_iter();
        let (others, waiting): (VecDeque<Ask>, VecDeque<Ask>) =
            waiting.partition(|ask| matches!(ask.body, Body::Settle { store: false }));
        self.file.control = Some(Control::Collecting {
            ask,
            others,
            awaiting,
        });
        // Requests that those need may have come before, and wait behind this.
        let (theirs, waiting): (VecDeque<Ask>, VecDeque<Ask>) =
            waiting.into_iter().partition(|ask| self.is_collecting(ask));
        self.file.queue = waiting;
        theirs.into_iter().for_each(|ask| self.request(ask));
        None
    }

    /// True if a request is part of what the control operation waits for: what was gathered may lengthen the file.
    pub(super) fn is_collecting(&self, ask: &Ask) -> bool {
        let collecting = matches!(self.file.control, Some(Control::Collecting { .. }));
        collecting && matches!(ask.body, Body::Extend { append: None, .. })
    }

    /// Writers have sent what they had gathered: the request has the file to itself.
    fn collected(&mut self, ask: Ask, others: &VecDeque<Ask>) {
        for ask in others {
            self.answer(ask, Body::SettleOk);
        }
        match ask.body {
            Body::Settle { store: false } => self.answer(&ask, Body::SettleOk),
            Body::Truncate(size) => self.truncate(ask, size),
            Body::Detach | Body::HasLeft => self.detach(ask),
            _ => self.settle(After::Answer(ask)),
        }
    }

    pub(super) fn detach(&mut self, ask: Ask) {
        if !self.file.known {
            // Nobody has anything of it. Others who find it at the name wait all the same, and whoever has opened it in
            // the store already goes there.
            return self.let_unlink(Vec::new(), ask, None);
        }
        let homes = self.all_homes();
        self.cut(Cut::Detach, homes, After::Answer(ask));
    }

    /// Brings every dirty byte to the store.
    pub(super) fn settle(&mut self, after: After) {
        let at_rest = self.file.stamp.is_some() && self.file.writers() == 0;
        let homes = if at_rest || !self.file.known {
            Vec::new()
        } else {
            self.all_homes()
        };
        let awaiting = self.order(homes, &Body::Flush(Goal::All));
        self.file.control = Some(Control::Settling {
            awaiting,
            after,
            errno: None,
            stamp: None,
            overtaken: false,
        });
        self.advance();
    }

    /// A writer's bytes may be in the store or not.
    pub(super) fn unsettle(&mut self) {
        self.file.stamp = None;
        if let Some(Control::Settling { overtaken, .. }) = &mut self.file.control {
            *overtaken = true;
        }
    }

    /// An answer to an order came.
    pub(super) fn acknowledged(&mut self, from: NodeId, req: ReqId, body: &Body) {
        // A node that is told of a writer may go on to have copies that no home has recorded (V4).
        let is_recall = self.file.leaves.is_awaited(from, req.seq);
        let keeps_none = is_recall || self.file.semantics.is_recorded();
        // While the store lacks bytes a node may keep a descriptor for a home (C8), also one that has closed the file.
        let may_linger = self.file.stamp.is_none() && self.file.known;
        if matches!(body, Body::ForgetOk(_)) && keeps_none && !may_linger {
            self.file.holders.remove(from);
        }
        if let Body::ForgetOk(mtime_ns) | Body::DateIs(mtime_ns) = *body {
            self.told_date(from, req.seq, mtime_ns);
        }
        self.let_go(from, req.seq);
        let Some(control) = &mut self.file.control else {
            return;
        };
        if let Control::Registering { awaiting, named } = control {
            // An answer that was given before the question was put anew counts no longer.
            let asked = awaiting.contains(&(from, req.seq));
            *named |= asked && *body == Body::WhoisOk(self.ctx.me());
        }
        if let Some(awaiting) = control.awaiting() {
            awaiting.retain(|&(node, seq)| (node, seq) != (from, req.seq));
        }
        match (control, body) {
            (Control::Settling { stamp, .. }, Body::FlushOk(told)) if *told != Stamp::default() => {
                *stamp = (*stamp).max(Some(*told));
            }
            (Control::Writing { result, .. }, Body::WindowOver(told)) => *result = *told,
            (Control::Settling { errno, .. }, Body::Failed(failed))
            | (Control::Cutting { errno, .. }, Body::CutOk(Err(failed))) => *errno = Some(*failed),
            _ => {}
        }
        self.advance();
    }

    /// Takes the next step of the control operation, if everybody has answered.
    pub(super) fn advance(&mut self) {
        let Some(mut control) = self.file.control.take() else {
            return;
        };
        if control
            .awaiting()
            .is_none_or(|awaiting| !awaiting.is_empty())
        {
            self.file.control = Some(control);
            return;
        }
        match control {
            Control::Registering { named, .. } => self.registered(named),
            Control::Admitting { ask, .. } => {
                if let Body::Open { write, .. } = ask.body {
                    self.opened(&ask, write);
                }
            }
            Control::Collecting { ask, others, .. } => self.collected(ask, &others),
            Control::Cutting {
                cut: Cut::Detach,
                homes,
                after: After::Answer(ask),
                errno,
                ..
            } => self.let_unlink(homes, ask, errno),
            Control::Cutting {
                cut: Cut::Laminate,
                homes,
                after: After::Answer(ask),
                errno,
                ..
            } => self.stilled(homes, ask, errno),
            Control::Cutting {
                cut,
                homes,
                after,
                errno,
                ..
            } => self.cut_through(cut, homes, after, errno),
            Control::Leaving { homes, ask, .. } => self.left(&homes, ask.as_ref()),
            Control::Shortening {
                size, homes, ask, ..
            } => self.let_truncate(size, homes, ask),
            Control::Laminating { homes, ask, .. } => self.laminated(&homes, Some(&ask)),
            Control::Writing {
                end,
                homes,
                ask,
                result,
                ..
            } => self.wrote(&ask, &homes, end, result),
            Control::Settling {
                after,
                errno,
                stamp,
                overtaken,
                ..
            } => {
                self.learn_stamp(errno.map_or(Ok(stamp), Err), overtaken);
                self.settled(after, errno);
            }
            Control::Truncating { .. } | Control::Unlinking { .. } => {}
        }
    }

    fn cut_through(&mut self, cut: Cut, homes: Vec<NodeId>, after: After, errno: Option<RawErrno>) {
        let refused = match (self.ctx.config.has_replicas(), cut) {
            // Keepers keep what the store refuses: they would bring back what a cut took.
            (true, _) => errno,
            (false, Cut::Shrink(size)) if self.misses_home(size) => Some(errno::EHOSTDOWN),
            (false, _) => None,
        };
        match (cut, after) {
            (Cut::Shrink(size), After::Answer(ask)) => match refused {
                Some(errno) => {
                    self.tell(&homes, &Body::Resume { done: false });
                    self.fail(&ask, errno);
                }
                None => self.shorten(size, homes, ask),
            },
            (Cut::Window { .. }, After::Answer(ask)) => self.let_write(ask, homes),
            (Cut::HandOver(heir), After::Answer(ask)) => self.bequeath(&homes, ask, (heir, errno)),
            (_, After::Move(ask)) if errno.is_some() => {
                self.tell(&homes, &Body::Resume { done: false });
                self.unsettle();
                self.settle(After::Open(ask));
            }
            (_, After::Move(ask)) => {
                self.tell(&homes, &Body::Resume { done: true });
                self.moved(ask);
            }
            (
                Cut::Outside
                | Cut::Shrink(_)
                | Cut::Detach
                | Cut::Laminate
                | Cut::HandOver(_)
                | Cut::Window { .. },
                After::Open(ask) | After::Answer(ask),
            ) => {
                self.tell(&homes, &Body::Resume { done: true });
                match ask.body {
                    Body::Truncated(_) => self.answer(&ask, Body::TruncateOk),
                    _ => self.go_on_opening(ask),
                }
            }
        }
    }

    /// The homes have written what they could, and hold requests: the name may go. Until it is known to be gone the
    /// file's life may go on, so nobody leaves. In an earlier view it was known: handles go to the store at once, those of
    /// which this manager is told later too.
    fn let_unlink(&mut self, homes: Vec<NodeId>, ask: Ask, errno: Option<RawErrno>) {
        if ask.body == Body::HasLeft {
            return self.leave(homes, errno, Some(ask));
        }
        self.answer(&ask, Body::DetachGo);
        if !self.ctx.config.keeps(Guard::NameGoneFirst) {
            return self.leave(homes, errno, None);
        }
        self.file.control = Some(Control::Unlinking { homes, ask, errno });
    }

    /// The last name is gone, or stays.
    pub(super) fn detached(&mut self, ask: &Ask, gone: bool) {
        match self.file.control.take() {
            Some(Control::Unlinking {
                homes,
                ask: asked,
                errno,
            }) if asked.from == ask.from => match gone {
                true => self.leave(homes, errno, None),
                false => self.tell(&homes, &Body::Resume { done: false }),
            },
            other => self.file.control = other,
        }
    }

    /// Openers go to the store. A node that asked for that is answered when they do.
    fn leave(&mut self, homes: Vec<NodeId>, errno: Option<RawErrno>, ask: Option<Ask>) {
        let service = match errno {
            None => Service::Store,
            Some(_) => Service::StoreAfterLoss,
        };
        let awaiting = self.order_forget(u64::MAX, service);
        self.file.control = Some(Control::Leaving {
            homes,
            awaiting,
            ask,
        });
        self.advance();
    }

    /// Nobody asks the homes any more.
    fn left(&mut self, homes: &[NodeId], ask: Option<&Ask>) {
        self.tell(homes, &Body::Resume { done: true });
        self.leaves(self.file.generation.life);
        self.forget_file();
        if let Some(ask) = ask {
            self.answer(ask, Body::Left);
        }
    }

    /// Handles of lives up to this go to the store.
    pub(super) fn leaves(&mut self, life: u64) {
        let last = self.left.entry(self.id).or_default();
        *last = life.max(*last);
        if self.left.len() > self.ctx.config.idle_files_max {
            self.left.pop_first();
        }
    }

    /// True for a handle that was open when the last name went, though its node was not told.
    pub(super) fn has_left(&self, known: Gen) -> bool {
        let Some(&last) = self.left.get(&self.id) else {
            return false;
        };
        // A node that was never told of a life may have a later file of the number open, if others have.
        let was = if known.life == 0 {
            !self.file.known
        } else {
            known.life <= last
        };
        was && self.ctx.config.keeps(Guard::LeftTogether)
    }

    /// The file is gone; a later one of the same number begins a new life.
    fn forget_file(&mut self) {
        self.cut_done();
        let queue = core::mem::take(&mut self.file.queue);
        // The nodes that change attributes, and those that have yet to let go of them, do not depend on the
        // life.
        let holders = core::mem::take(&mut self.file.holders);
        let mut leaves = core::mem::take(&mut self.file.leaves);
        leaves.forget();
        let dating = core::mem::take(&mut self.file.dating);
        *self.file = super::File {
            generation: self.ctx.new_generation(),
            queue,
            holders,
            leaves,
            dating,
            ..super::File::default()
        };
    }

    /// The last name is gone, and openers are told so.
    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.file.control, Some(Control::Leaving { .. }))
    }

    /// The next home of the file, once the last one has let go, while that is awaited.
    pub(super) fn mover(&self) -> Option<NodeId> {
        match &self.file.control {
            Some(Control::Cutting {
                after: After::Move(ask),
                ..
            }) => Some(ask.from),
            _ => None,
        }
    }

    pub(super) fn go_on_opening(&mut self, ask: Ask) {
        let write = matches!(ask.body, Body::Open { write: true, .. });
        self.admit(ask, write);
    }

    /// After a failure what was known still holds: a writer that is open will say whether it wrote, and of one that has
    /// closed it was noted then.
    fn learn_stamp(&mut self, told: Result<Option<Stamp>, RawErrno>, overtaken: bool) {
        let known = self.file.stamp;
        self.file.stamp = match told {
            _ if overtaken => None,
            Ok(stamp) => known.max(stamp),
            Err(_) => known,
        };
    }

    /// Everything is in the store, or something could not be brought there. Without a stamp: bytes that
    /// reach the store later change it, and nobody outside wrote them.
    fn settled(&mut self, after: After, errno: Option<RawErrno>) {
        match after {
            After::Open(ask) => {
                if let (None, None, Body::Open { stamp, .. }) = (errno, self.file.stamp, &ask.body)
                {
                    // The file was opened with a stamp that it may have had before a change.
                    self.file.stamp = Some(*stamp).max(self.file.changed);
                    if self.ctx.config.rules().writes != Writes::Behind {
                        // A write of which nobody said what became of it.
                        self.file.size = self.file.stamp.map_or(0, |stamp| stamp.size);
                    }
                }
                self.go_on_opening(ask);
            }
            After::Answer(ask) | After::Move(ask) => match (errno, &ask.body) {
                (Some(errno), _) => self.fail(&ask, errno),
                (None, &Body::HandOver(heir)) => self.let_go_for(ask, heir),
                (None, _) => self.answer(&ask, Body::SettleOk),
            },
        }
    }

    pub(super) fn drop_peer(&mut self, peer: NodeId) {
        self.name_loss(peer);
        let control = self.file.control.as_ref();
        self.file.uncut |= control.is_some_and(|control| control.shrinks(peer));
        if let Some(opens) = self.file.openers.remove(&peer)
            && opens.writers > 0
        {
            self.file.unsettled = true;
            if self.file.writers() == 0 {
                self.file.unsettled = false;
                self.unsettle();
            }
        }
        self.file.holders.remove(peer);
        self.file.cachers.remove(peer);
        self.file.leaves.drop_peer(peer);
        self.file.dating.drop_peer(peer);
        self.file.queue.retain(|ask| ask.from != peer);
        self.drop_appends(peer);
        if self
            .file
            .control
            .as_ref()
            .is_some_and(|control| control.asker() == Some(peer))
        {
            self.abandon();
        }
    }

    /// The home of a file is gone that somebody has open for writing.
    fn name_loss(&mut self, peer: NodeId) {
        let written = self.file.writers() > 0 || self.file.unsettled;
        let loses = self.ctx.config.loses_with_node() && self.sole_home() == Some(peer);
        if loses && written && self.ctx.config.keeps(Guard::LossTold) {
            let alarm = Alarm::HomeLost(self.id, peer);
            self.ctx.out.push(Effect::Alarm(alarm));
        }
    }

    /// The node that wanted the control operation is gone. Whether it truncated the store nobody
    /// knows: homes drop what the truncation would have cut, and the next open asks the store.
    fn abandon(&mut self) {
        match self.file.control.take() {
            Some(Control::Truncating { homes, size, .. }) => {
                self.tell(&homes, &Body::Resume { done: true });
                self.ctx
                    .out
                    .push(Effect::Alarm(Alarm::BytesDropped(self.id, 0)));
                self.cut_done();
                self.file.size = self.file.size.min(size);
                self.file.stamp = None;
            }
            Some(Control::Cutting {
                cut: Cut::HandOver(heir),
                homes,
                ..
            }) => self.keep_home(&homes, heir),
            Some(Control::Cutting { homes, .. } | Control::Shortening { homes, .. }) => {
                self.tell(&homes, &Body::Resume { done: false })
            }
            // Whether the store has the range nobody knows: the next open asks it.
            Some(Control::Writing { homes, .. }) => {
                self.tell(&homes, &Body::Resume { done: true });
                self.file.stamp = None;
            }
            // Some openers write no more; it goes on without the one who asked.
            Some(Control::Laminating { homes, .. }) => self.laminated(&homes, None),
            // Nobody knows whether the name is gone. If nobody has the file open its number may be another's
            // soon; else its life goes on, with a name or without.
            Some(Control::Unlinking { homes, errno, .. }) => {
                let done = errno.is_none() && self.file.openers.is_empty();
                self.tell(&homes, &Body::Resume { done });
                if done {
                    self.forget_file();
                }
            }
            Some(Control::Collecting { mut others, .. }) => self.file.queue.append(&mut others),
            Some(
                Control::Registering { .. }
                | Control::Admitting { .. }
                | Control::Settling { .. }
                | Control::Leaving { .. },
            )
            | None => {}
        }
    }
}
