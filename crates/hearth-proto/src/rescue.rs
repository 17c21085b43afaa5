//! Before anything is done about a file, what nodes that are gone had of it is brought to the store.
//!
//! A node that keeps such bytes ([`crate::replica`]) brings them there by itself as soon as it hears of the
//! end. Others may hear of it sooner, or come back from an end of their own. So a node that knows of one puts
//! aside whatever comes about a file, asks everybody to save what they keep of it, and goes on when all have.
//!
//! Then it may turn out that nobody who lives manages the file. A life of a file ends with its manager, so
//! all nodes are asked once more. Homes are to bring to the store what they have and to take no more of that
//! life (`authority::orphan`). If a node that is back asks, clients are to let go of what they read there
//! without it (`client::lapse`).
//!
//! The word of nodes holds until another is gone, and says nothing of a life that began since they gave it.
//! Then all are asked again, and the word of a node that is gone on who manages the file counts no longer.
//!
//! Invariants:
//! - RESCUE-1: since the last end that this node has heard of, nothing was done here about a file before every live
//!   node has said two things. It keeps nothing more of the file for nodes that are gone; nor, if nobody
//!   manages the file, for itself.
//! - RESCUE-2: a node that has joined again keeps nothing for others before it has met everybody, or waited for that.

use crate::RawErrno;
use crate::ctx::Ctx;
use crate::effect::{Effect, Piece, Src};
use crate::errno::EHOSTDOWN;
use crate::guard::Guard;
use crate::ids::{FileId, Gen, NodeId, ReqId, Ticket};
use crate::input::Request;
use crate::msg::{Body, Envelope, Here};
use crate::nodeset::NodeSet;
use crate::time::{Span, Time};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

/// Pause before everybody is asked again, if somebody could not bring bytes to the store.
const RETRY: Span = Span::secs(1);

/// The ends that this node knows of, and the files that it has asked about since.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Rescues {
    /// Nodes that are gone, or have been. A node that has joined again counts itself.
    fallen: NodeSet,
    /// Ends that were heard of.
    falls: u64,
    /// Nodes that a node which has joined again has not met since: they may keep bytes of its earlier life.
    unmet: NodeSet,
    /// They are not waited for any longer than this.
    patience: Option<Time>,
    /// Files about which everybody has been asked since the last end. Bounded by `idle_files_max`.
    done: BTreeSet<FileId>,
    under_way: BTreeMap<FileId, Rescue>,
    /// Questions that are not answered, by number.
    asked: BTreeMap<u64, FileId>,
    /// Requests and messages that wait no more, in order. Empty between steps.
    ready: VecDeque<Parked>,
}

/// One file, while others are asked about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Rescue {
    /// Ends that had been heard of when everybody was asked.
    of: u64,
    awaiting: BTreeSet<u64>,
    failed: Option<RawErrno>,
    retry: Option<Time>,
    /// Nobody manages it: homes have been asked to bring to the store what they have.
    orphaned: bool,
    /// The roles of live nodes for the file, and the latest life of it that one of them knows.
    here: Vec<(NodeId, Here)>,
    life: u64,
    /// The latest life that somebody knew before everybody was asked: had it a manager who lives, that has been met.
    before: u64,
    parked: Vec<Parked>,
}

/// A request or message that waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Parked {
    /// A message.
    Message(NodeId, Envelope, Option<Piece>),
    /// A request of a session.
    Request(Ticket, Request),
}

impl Parked {
    /// Frees the payload of a message that nobody handles any more.
    fn free(self, ctx: &mut Ctx<'_>) {
        if let Parked::Message(_, _, Some(piece)) = self
            && let Src::Buf(buf) = piece.src
        {
            ctx.out.push(Effect::Free(buf));
        }
    }
}

/// The requests and messages that go on.
pub(crate) struct Released {
    pub(crate) file: FileId,
    pub(crate) here: Vec<(NodeId, Here)>,
    /// The latest life of the file that anybody knows, if nobody manages it.
    pub(crate) life: u64,
    pub(crate) parked: Vec<Parked>,
    /// Requests of sessions fail with this.
    pub(crate) failed: Option<RawErrno>,
}

impl Rescues {
    /// Those of a node that may have been in the job before.
    pub(crate) fn of(me: NodeId, nodes: u32, rejoins: bool) -> Rescues {
        let mut rescues = Rescues::default();
        if rejoins {
            rescues.fallen.insert(me);
            rescues.unmet = (0..nodes).map(NodeId).filter(|&node| node != me).collect();
        }
        rescues
    }

    /// A connection stands.
    pub(crate) fn met(&mut self, ctx: &mut Ctx<'_>, node: NodeId) {
        if self.unmet.remove(node) && self.unmet.is_empty() {
            let files: Vec<FileId> = self.under_way.keys().copied().collect();
            files.into_iter().for_each(|file| self.ask(ctx, file));
        }
    }

    /// When everybody can be asked though some have not been met; `None`: now.
    fn waits_until(&mut self, ctx: &Ctx<'_>) -> Option<Time> {
        let span = Span(ctx.config.give_up_after.0 * 2);
        let until = *self.patience.get_or_insert(ctx.now + span);
        (!self.unmet.is_empty() && ctx.now < until).then_some(until)
    }

    /// True while this node, which has joined again, keeps nothing for others: one that it has not met takes it for gone, and
    /// would not ask it what it has (RESCUE-2).
    pub(crate) fn is_unknown(&mut self, ctx: &Ctx<'_>) -> bool {
        self.waits_until(ctx).is_some()
    }

    /// A node is gone, and with it all that it has asked for. Its answers count, as nothing stands in for them.
    pub(crate) fn fell(&mut self, ctx: &mut Ctx<'_>, node: NodeId) {
        let anew = ctx.config.keeps(Guard::AskedAnew);
        self.falls += u64::from(anew);
        if !self.unmet.contains(node) {
            self.fallen.insert(node);
        }
        self.done.clear();
        let loses = ctx.config.loses_with_node();
        for rescue in self.under_way.values_mut() {
            rescue.doubt(node, (anew, loses));
            let its = |parked: &mut Parked| match parked {
                Parked::Message(from, asked, _) => *from == node && asked.req.node == node,
                Parked::Request(..) => false,
            };
            let theirs = rescue.parked.extract_if(.., its);
            theirs.for_each(|parked| parked.free(ctx));
        }
    }

    /// A new view: all that waits is asked anew. Messages of the last view are dropped.
    pub(crate) fn end(&mut self, ctx: &mut Ctx<'_>) {
        let under_way = core::mem::take(self).under_way.into_values();
        let parked = under_way.flat_map(|rescue| rescue.parked);
        parked.for_each(|parked| parked.free(ctx));
    }

    /// No end is known of.
    pub(crate) fn is_idle(&self) -> bool {
        self.fallen.is_empty()
    }

    /// True if nothing may be done about the file yet.
    pub(crate) fn holds(&self, file: FileId) -> bool {
        !self.fallen.is_empty() && file != FileId::default() && !self.done.contains(&file)
    }

    /// Puts something aside, and asks everybody if that has not been done.
    pub(crate) fn park(&mut self, ctx: &mut Ctx<'_>, file: FileId, parked: Parked) {
        let begun = self.under_way.contains_key(&file);
        let rescue = self.under_way.entry(file).or_default();
        rescue.parked.push(parked);
        if !begun {
            self.ask(ctx, file);
        }
    }

    /// Something waits no more.
    pub(crate) fn get_ready(&mut self, parked: Parked) {
        self.ready.push_back(parked);
    }

    /// The first of what waits no more.
    pub(crate) fn take_ready(&mut self) -> Option<Parked> {
        self.ready.pop_front()
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    fn ask(&mut self, ctx: &mut Ctx<'_>, file: FileId) {
        let waits = self.waits_until(ctx);
        let Some(rescue) = self.under_way.get_mut(&file) else {
            return;
        };
        if waits.is_some() {
            rescue.retry = waits;
            return;
        }
        rescue.of = self.falls;
        (rescue.failed, rescue.retry, rescue.orphaned) = (None, None, false);
        rescue.here.clear();
        rescue.life = 0;
        let fallen = self.fallen.iter().chain(self.unmet.iter());
        let (gone, back): (Vec<NodeId>, Vec<NodeId>) =
            fallen.partition(|&node| ctx.peers.is_down(node));
        let numbers = |nodes: &[NodeId]| nodes.iter().map(|node| node.0).collect();
        let body = Body::Rescue {
            gone: numbers(&gone),
            back: numbers(&back),
        };
        self.ask_all(ctx, file, (0, body));
    }

    /// Asks everybody who lives.
    fn ask_all(&mut self, ctx: &mut Ctx<'_>, file: FileId, (life, body): (u64, Body)) {
        let Some(rescue) = self.under_way.get_mut(&file) else {
            return;
        };
        for node in ctx.config.members() {
            if !ctx.peers.is_down(node) {
                let req = ctx.ask(node, file, Gen { life, cut: 0 }, body.clone());
                rescue.awaiting.insert(req.seq);
                self.asked.insert(req.seq, file);
            }
        }
    }

    /// Nobody manages a file that somebody knows: bytes that homes have of it go to the store, and when this
    /// node is back, nodes that went there without it let go. False if that is done.
    fn orphan(&mut self, ctx: &mut Ctx<'_>, file: FileId) -> bool {
        let is_back = self.fallen.contains(ctx.me());
        let Some(rescue) = self.under_way.get_mut(&file) else {
            return false;
        };
        if rescue.here.iter().any(|(_, here)| *here == Here::Manager) {
            rescue.life = 0;
        }
        if rescue.orphaned || rescue.life == 0 && !is_back {
            return false;
        }
        if rescue.life > rescue.before && ctx.config.keeps(Guard::AskedAnew) {
            // It may have begun since some have answered, and its manager be one of them.
            rescue.before = rescue.life;
            self.ask(ctx, file);
            return true;
        }
        rescue.orphaned = true;
        let life = rescue.life;
        self.ask_all(ctx, file, (life, Body::Orphaned { back: is_back }));
        true
    }

    /// True if the answer is one to a question of this machine.
    pub(crate) fn owns(&self, me: NodeId, req: ReqId) -> bool {
        req.node == me && self.asked.contains_key(&req.seq)
    }

    /// An answer came; returns what goes on.
    pub(crate) fn answered(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: NodeId,
        answer: &Envelope,
    ) -> Option<Released> {
        let seq = answer.req.seq;
        let file = self.asked.remove(&seq)?;
        let rescue = self.under_way.get_mut(&file)?;
        rescue.awaiting.remove(&seq);
        match answer.body {
            Body::Rescued(here) if !rescue.orphaned => {
                rescue.here.push((from, here));
                rescue.life = rescue.life.max(answer.generation.life);
            }
            Body::Failed(errno) => rescue.failed = Some(errno),
            _ => {}
        }
        if !rescue.awaiting.is_empty() {
            return None;
        }
        if let Some(errno) = rescue.failed {
            rescue.retry = Some(ctx.now + RETRY);
            return Some(rescue.fail(file, errno));
        }
        if rescue.of != self.falls {
            self.ask(ctx, file);
            return None;
        }
        if self.orphan(ctx, file) {
            return None;
        }
        let Rescue {
            here, life, parked, ..
        } = self.under_way.remove(&file)?;
        remember(&mut self.done, file, ctx.config.idle_files_max);
        Some(Released {
            file,
            here,
            life,
            parked,
            failed: None,
        })
    }

    /// Asks again where that failed.
    pub(crate) fn tick(&mut self, ctx: &mut Ctx<'_>) {
        let due = |rescue: &Rescue| rescue.retry.is_some_and(|at| at <= ctx.now);
        let under_way = self.under_way.iter().filter(|(_, rescue)| due(rescue));
        let files: Vec<FileId> = under_way.map(|(&file, _)| file).collect();
        files.into_iter().for_each(|file| self.ask(ctx, file));
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.under_way.values().filter_map(|r| r.retry).min()
    }
}

impl Rescue {
    /// A node is gone, and some of what it said counts no more. When it is back it knows nothing of who manages the file;
    /// and what it had taken is gone with it, if nobody else had that (`loses`).
    fn doubt(&mut self, node: NodeId, (anew, loses): (bool, bool)) {
        for parked in &mut self.parked {
            if let Parked::Message(from, answer, _) = parked
                && *from == node
            {
                let counts = match answer.body {
                    Body::WhoisOk(_) | Body::OpenOk { .. } => !anew,
                    Body::WriteOk => !loses,
                    _ => true,
                };
                if !counts {
                    answer.body = Body::Failed(EHOSTDOWN);
                }
            }
        }
    }

    /// Requests of sessions fail; messages wait on.
    fn fail(&mut self, file: FileId, errno: RawErrno) -> Released {
        let is_request = |parked: &Parked| matches!(parked, Parked::Request(_, request) if request.is_answered());
        let (requests, messages) = self.parked.drain(..).partition(is_request);
        self.parked = messages;
        Released {
            file,
            here: Vec::new(),
            life: 0,
            parked: requests,
            failed: Some(errno),
        }
    }
}

/// Adds a file to a bounded set.
fn remember(set: &mut BTreeSet<FileId>, file: FileId, most: usize) {
    set.insert(file);
    if set.len() > most {
        let other = set.iter().copied().find(|&other| other != file);
        other.map(|other| set.remove(&other));
    }
}
