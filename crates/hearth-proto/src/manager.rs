//! The manager of a file: who has it open, how long it is, and everything that needs all of its
//! homes at once. Also the registrar, which remembers who manages what.
//!
//! The first node that opens a file becomes its manager (Coopc-PVFS, section 4). The registrar of a
//! file is found by hashing, and remembers that choice for the life of the job.
//!
//! A *control* operation (an open that others must learn of, a cut, a settlement) has the file to itself;
//! other requests wait in `queue`. Those that a locked kernel page may depend on (sizes, homes of chunks) are
//! always answered at once.
//!
//! Invariants:
//! - MANAGER-1 (I3): before a writer's open is answered no other node takes the size for exact.
//! - MANAGER-2: the size grows only by an end whose bytes homes took after the last cut that took place.
//! - MANAGER-3: appends end in the order in which they began, so that no reader sees a hole between them.
//! - MANAGER-4 (I3): while names or attributes are being changed nobody keeps them, and before that whoever
//!   kept them has let go ([`leave`]).
//! - MANAGER-5: a question about a file's attributes is answered as soon as nobody reads them ([`leave`]).
//! - MANAGER-6: while a file's registrar is gone nobody keeps its names or attributes: whoever has not asked before
//!   could not ask the manager before a change ([`leave`]).
//! - MANAGER-7 (I3): openers go to the store after the file's last name is gone, and all of them: homes hold requests
//!   until then, and who tells of a handle again that was open then is sent there ([`control`]).
//! - MANAGER-9: see `date`.
//! - MANAGER-8 (I3): with replicas a life of a file begins when its registrar, as it lives now, has named this node.
//!   A node that finds that nobody manages the file may go to the store while the registrar is gone. A
//!   registrar that is back asks all to let go before it names anybody ([`register`]).

mod control;
mod date;
mod entry;
mod hand_over;
mod keeper;
mod laminate;
mod leave;
mod listing;
mod open;
mod register;
mod size;
mod storms;
mod truncate;
mod waits;
mod window;

use crate::RawErrno;
use crate::authority::Authority;
use crate::bank::BankOp;
use crate::config::Grain;
use crate::ctx::Ctx;
use crate::ids::{FileId, Gen, NodeId, ReqId, Stamp};
use crate::msg::{Body, Envelope, Handles, Here};
use crate::nodeset::NodeSet;
use crate::placement;
use crate::semantics::Semantics;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use control::Control;
use core::ops::Bound;
use date::Dating;
use entry::Order;
use keeper::Keeper;
use leave::{Leaves, Parked};
pub(crate) use listing::fitting;
use size::Append;
use storms::Storms;

/// Entries that the registrar keeps; a file beyond is managed by its registrar itself.
const REGISTRY_MAX: usize = 1 << 20;

/// Every file that this node manages, and the registry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Manager {
    /// On the heap, so that the tree has no room for files that it does not hold.
    files: BTreeMap<FileId, Box<File>>,
    registry: BTreeMap<FileId, NodeId>,
    keeper: Keeper,
    acks: BTreeMap<u64, FileId>,
    /// The last life in which a file's last name went: its handles go to the store. Bounded by `idle_files_max`.
    left: BTreeMap<FileId, u64>,
    /// Files whose registrar has named this node since it came to life. Bounded by `idle_files_max`.
    named: BTreeSet<FileId>,
    /// Registrars that others say are gone, of whose end this node has not heard.
    doubted: NodeSet,
    /// Orders to daemons.
    orders: BTreeMap<BankOp, Order>,
    /// Questions that wait for attributes which another node reads, by the file that is read.
    parked: BTreeMap<FileId, Vec<Parked>>,
    /// Directories whose names were told, the oldest first, and names told since they were last counted, at least as many
    /// as there are.
    listings: VecDeque<FileId>,
    listed: usize,
    /// The last file that was looked at for one to forget.
    looked_at: FileId,
    storms: Storms,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct File {
    generation: Gen,
    /// Generation of the last cut that took place; what was taken in an earlier one came before it.
    floor: Gen,
    /// Size of the file; known once somebody opened it.
    size: u64,
    known: bool,
    /// Time of the last write, as far as it is known here and the store may not have it (MANAGER-9).
    mtime_ns: Option<i64>,
    /// No write that is heard of from now on counts as older than this.
    dated_ns: i64,
    dating: Dating,
    /// The semantics that are promised, as the first of the nodes chose that have it open.
    semantics: Semantics,
    /// Grows when what is promised changes, and whenever a node may have written that others are to see.
    version: u64,
    /// Since when the store lets nobody write, if it was told. An open that the store judged before may
    /// still be on its way, even if nobody has opened the file yet.
    laminated: Option<Stamp>,
    /// The store's stamp when all of the file was in the store; `None` while that is not known.
    stamp: Option<Stamp>,
    /// The store's stamp after the last truncation or window: an older one says nothing of the file
    /// now.
    changed: Option<Stamp>,
    /// A writer's bytes may not all be in the store.
    unsettled: bool,
    openers: BTreeMap<NodeId, Handles>,
    /// Nodes without an open that may keep size and times.
    holders: NodeSet,
    /// Attributes that are kept, and who is about to change them.
    leaves: Leaves,
    /// Nodes that may hold pages, where every node is a home to itself.
    cachers: NodeSet,
    /// The home of all pages, where a file is what has one home.
    home: Option<NodeId>,
    /// The only node that can open the file as it was created.
    private: Option<NodeId>,
    chunk_homes: BTreeMap<u64, NodeId>,
    next_home: u32,
    appends: BTreeMap<u64, Append>,
    control: Option<Control>,
    /// A home that is to let go for a truncation has gone: it may be back, and has let go of nothing.
    uncut: bool,
    queue: VecDeque<Ask>,
}

/// A request to the manager.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Ask {
    from: NodeId,
    req: ReqId,
    generation: Gen,
    body: Body,
}

/// One file at work, with what it needs around it.
struct Seat<'a, 'c> {
    id: FileId,
    file: &'a mut File,
    acks: &'a mut BTreeMap<u64, FileId>,
    left: &'a mut BTreeMap<FileId, u64>,
    named: &'a mut BTreeSet<FileId>,
    orders: &'a mut BTreeMap<BankOp, Order>,
    ctx: &'a mut Ctx<'c>,
}

impl Manager {
    /// Handles a request to the manager or the registrar, or an answer to the manager.
    pub(crate) fn message(
        &mut self,
        ctx: &mut Ctx<'_>,
        authority: &Authority,
        from: NodeId,
        envelope: Envelope,
    ) {
        let Envelope {
            file: id,
            generation,
            req,
            body,
            ..
        } = envelope;
        if let Body::Whois = body {
            let manager = self.registered(ctx.me(), id, from);
            return ctx.answer(from, id, generation, req, Body::WhoisOk(manager));
        }
        if let Body::WhoisEach(_)
        | Body::AskLeave { .. }
        | Body::AwaitLeave(_)
        | Body::AskNames(_)
        | Body::Listed(_)
        | Body::Learned(_) = body
        {
            let ask = Ask {
                from,
                req,
                generation,
                body,
            };
            return self.leave(ctx, id, ask);
        }
        if let (&Body::HomeOf { chunk, has }, Grain::Page) = (&body, ctx.config.rules().grain) {
            let here = (ctx.me(), authority.pages_of(id));
            let of = (id, generation.life);
            let home = self.keeper.home_of(of, chunk, (from, has), here);
            return ctx.answer(from, id, generation, req, Body::HomeIs { chunk, home });
        }
        let answer = self.owns(req) && req.node == ctx.me();
        if !answer
            && matches!(
                body,
                Body::ForgetOk(_) | Body::DateIs(_) | Body::CutOk(_) | Body::WindowOver(_)
            )
        {
            return;
        }
        let id = if answer {
            self.acks.remove(&req.seq).unwrap_or(id)
        } else {
            id
        };
        let mut seat = self.seat(ctx, id);
        if answer {
            seat.acknowledged(from, req, &body);
        } else {
            seat.request(Ask {
                from,
                req,
                generation,
                body,
            });
        }
        seat.work_off();
        self.tidy(id);
        self.unpark(ctx, id);
    }

    /// True if the request is one that this manager sent.
    pub(crate) fn owns(&self, req: ReqId) -> bool {
        self.acks.contains_key(&req.seq)
    }

    /// A peer is gone, with its opens and what it waited for.
    pub(crate) fn peer_down(&mut self, ctx: &mut Ctx<'_>, peer: NodeId) {
        self.unpark_peer(peer);
        let config = ctx.config;
        self.doubted.remove(peer);
        self.named
            .retain(|&id| placement::registrar_of(config, id) != peer);
        let ids: Vec<FileId> = self.files.keys().copied().collect();
        for id in ids {
            let mut seat = self.seat(ctx, id);
            seat.drop_peer(peer);
            if !seat.ctx.is_findable(id) {
                seat.recall();
            }
            seat.work_off();
            self.tidy(id);
            self.unpark(ctx, id);
        }
    }

    /// Forgets files at rest, above the bound.
    pub(crate) fn upkeep(&mut self, ctx: &mut Ctx<'_>) {
        while self.named.len() > ctx.config.idle_files_max {
            self.named.pop_first();
        }
        let excess = self.files.len().saturating_sub(ctx.config.idle_files_max);
        if excess > 0 {
            self.forget_some(ctx, excess);
        }
    }

    /// Looks at some files behind those of the last step: forgets what rests, and calls back what is kept of others, so
    /// that they can be forgotten in a later round. A step looks at so few that it does not matter how many files there are.
    fn forget_some(&mut self, ctx: &mut Ctx<'_>, excess: usize) {
        let count = looked_at(excess).min(self.files.len());
        let (mut gone, mut kept) = (Vec::new(), Vec::new());
        for (&id, file) in round(&self.files, self.looked_at).take(count) {
            self.looked_at = id;
            match () {
                () if file.at_rest() => gone.push(id),
                () if file.is_only_kept() => kept.push(id),
                () => {}
            }
        }
        for id in gone.into_iter().take(excess) {
            self.files.remove(&id);
        }
        // Each answer that is due may be the last of a file that was called back before.
        let more = excess.saturating_sub(self.acks.len());
        for id in kept.into_iter().take(more) {
            self.seat(ctx, id).recall();
            // Nobody is to read it any more.
            self.unpark(ctx, id);
        }
    }

    /// A life of a file is over: who held its pages is of no interest any more.
    pub(crate) fn ended(&mut self, id: FileId, life: u64) {
        self.keeper.forget(id, life);
    }

    /// True if a life of the file has begun here. A question about attributes, or word of them from a node that takes this
    /// one for the manager, begins none.
    pub(crate) fn manages(&self, id: FileId) -> bool {
        self.files.get(&id).is_some_and(|file| file.has_begun())
    }

    /// The word of live nodes on a file that this one may have known in an earlier life, and the latest life
    /// of it that anybody knows.
    pub(crate) fn remembered(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: FileId,
        (here, life): (&[(NodeId, Here)], u64),
    ) {
        let is = |what: Here| move |&&(_, other): &&(NodeId, Here)| other == what;
        let manager = here.iter().find(is(Here::Manager));
        let manager = manager.or_else(|| here.iter().find(is(Here::Named)));
        if let Some(&(node, _)) = manager.filter(|_| ctx.config.rejoins) {
            self.registry.entry(id).or_insert(node);
        }
        for &(node, what) in here {
            match what {
                Here::Home if ctx.config.rejoins && ctx.config.rules().grain == Grain::File => {
                    let seat = self.seat(ctx, id);
                    seat.file.home.get_or_insert(node);
                }
                Here::Left => self.seat(ctx, id).leaves(life),
                Here::Manager | Here::Named | Here::Home | Here::Nothing => {}
            }
        }
        self.tidy(id);
    }

    /// Nobody manages the file; nodes know lives of it up to this. If this node is to, its life comes after those.
    pub(crate) fn outlive(&mut self, ctx: &mut Ctx<'_>, id: FileId, life: u64) {
        ctx.outlive(life);
        if let Some(file) = self.files.get_mut(&id)
            && file.generation.life <= life
        {
            file.generation = ctx.new_generation();
        }
    }

    /// The registrar of a file names this node.
    pub(crate) fn named(&mut self, ctx: &Ctx<'_>, id: FileId) {
        let registrar = placement::registrar_of(ctx.config, id);
        if ctx.config.has_replicas() && !self.doubted.contains(registrar) {
            self.named.insert(id);
        }
    }

    /// Somebody asks about a file since these are gone, and may go to the store: what its registrar has said before
    /// counts no longer, though this node has not heard of its end.
    pub(crate) fn asked_about(&mut self, ctx: &mut Ctx<'_>, id: FileId, gone: &[u32]) {
        let registrar = placement::registrar_of(ctx.config, id);
        if !gone.contains(&registrar.0) {
            return;
        }
        self.named.remove(&id);
        if !ctx.peers.is_down(registrar) {
            self.doubted.insert(registrar);
        }
        if self.files.contains_key(&id) {
            self.seat(ctx, id).register_anew();
        }
    }

    pub(crate) fn files(&self) -> usize {
        self.files.len()
    }

    /// Handles that count as open, of all files and nodes.
    pub(crate) fn opens(&self) -> u32 {
        let opens = self.files.values().flat_map(|file| file.openers.values());
        opens.map(|opens| opens.readers + opens.writers).sum()
    }

    fn registered(&mut self, me: NodeId, id: FileId, asker: NodeId) -> NodeId {
        let full = self.registry.len() >= REGISTRY_MAX;
        match self.registry.get(&id) {
            Some(&manager) => manager,
            None if full => me,
            None => {
                self.registry.insert(id, asker);
                asker
            }
        }
    }

    fn seat<'a, 'c>(&'a mut self, ctx: &'a mut Ctx<'c>, id: FileId) -> Seat<'a, 'c> {
        let file = self.files.entry(id).or_insert_with(|| {
            Box::new(File {
                generation: ctx.new_generation(),
                ..File::default()
            })
        });
        Seat {
            id,
            file,
            acks: &mut self.acks,
            left: &mut self.left,
            named: &mut self.named,
            orders: &mut self.orders,
            ctx,
        }
    }

    fn tidy(&mut self, id: FileId) {
        if self.files.get(&id).is_some_and(|file| file.blank()) {
            self.files.remove(&id);
        }
    }
}

/// Entries of which some are to be forgotten, from behind a place on and round to it.
pub(crate) fn round<T>(
    entries: &BTreeMap<FileId, T>,
    behind: FileId,
) -> impl Iterator<Item = (&FileId, &T)> {
    let rest = entries.range((Bound::Excluded(behind), Bound::Unbounded));
    rest.chain(entries.range(..=behind))
}

/// How many of them one step looks at, if there are so many too many. More than a message brings at once, so that
/// they become fewer.
pub(crate) fn looked_at(excess: usize) -> usize {
    excess.saturating_mul(4).clamp(16, 1024)
}

impl File {
    /// Nobody has it open, and nodes or a daemon keep attributes that nobody changes.
    fn is_only_kept(&self) -> bool {
        let kept = !self.holders.is_empty() || self.leaves.entry.is_noted();
        kept && self.openers.is_empty() && self.control.is_none() && self.leaves.is_idle()
    }

    /// Nothing is known and nobody waits.
    fn blank(&self) -> bool {
        let rests = self.control.is_none() && self.queue.is_empty() && self.dating.is_idle();
        rests && !self.has_begun() && self.holders.is_empty() && self.leaves.is_blank()
    }

    /// Somebody has opened the file, or cuts it.
    fn has_begun(&self) -> bool {
        self.known
            || self.laminated.is_some()
            || !self.openers.is_empty()
            || self.control.as_ref().is_some_and(Control::is_of_life)
    }

    /// Everything is in the store and nobody has it open.
    fn at_rest(&self) -> bool {
        self.openers.is_empty()
            && self.holders.is_empty()
            && self.leaves.is_idle()
            && self.dating.is_idle()
            && self.leaves.entry.is_blank()
            && self.control.is_none()
            && self.queue.is_empty()
            && (self.stamp.is_some() || !self.known)
    }

    fn writers(&self) -> u32 {
        self.openers.values().map(|opens| opens.writers).sum()
    }
}

impl Seat<'_, '_> {
    fn request(&mut self, ask: Ask) {
        match ask.body {
            // A locked kernel page can depend on these: they never wait.
            Body::Size { .. } => self.asked_size(ask),
            Body::HomeOf { chunk, .. } => self.tell_home(&ask, chunk),
            // These are not answered.
            Body::Close {
                write,
                wrote,
                stamp,
                mtime_ns,
            } => self.close(&ask, (write, wrote), stamp, mtime_ns),
            Body::Restamp { before, after } => self.restamp(before, after),
            Body::Changed(ctime_ns) => self.changed(ask.from, ctime_ns),
            // It has nothing to do with bytes, and waits for those alone who keep attributes.
            Body::Change => self.change(ask),
            // These belong to the control operation.
            Body::Extend { end, mtime_ns, .. } if self.is_collecting(&ask) => {
                self.extend(&ask, end, None, mtime_ns);
            }
            Body::Truncated(result) => self.truncated(&ask, result),
            Body::Detached(gone) => self.detached(&ask, gone),
            _ => self.file.queue.push_back(ask),
        }
    }

    /// Takes requests off the queue until one must have the file to itself.
    fn work_off(&mut self) {
        self.take_on();
        self.open_at_once();
    }

    fn take_on(&mut self) {
        while self.file.control.is_none() {
            let Some(ask) = self.file.queue.pop_front() else {
                return;
            };
            let Some(ask) = self.collect(ask) else {
                continue;
            };
            match ask.body {
                Body::Open { all: Some(_), .. } if self.has_left(ask.generation) => {
                    self.answer(&ask, Body::Left);
                }
                Body::Open { .. } | Body::Truncate(_) if self.lacks_name() => {
                    self.file.queue.push_front(ask);
                    self.register();
                }
                Body::Open {
                    write,
                    stamp,
                    private,
                    semantics,
                    ..
                } => {
                    self.agree(semantics, &stamp);
                    self.open(ask, write, stamp, private);
                }
                Body::Extend {
                    end,
                    append,
                    mtime_ns,
                } => self.extend(&ask, end, append, mtime_ns),
                Body::Append(len) => self.append(&ask, len),
                Body::Truncate(size) => self.truncate(ask, size),
                Body::Window { at, len } => self.window(ask, at, len),
                Body::Settle { store: false } => self.answer(&ask, Body::SettleOk),
                Body::Forget { .. } => self.announce(ask),
                Body::Detach | Body::HasLeft => self.detach(ask),
                Body::Settle { store: true } => self.settle(control::After::Answer(ask)),
                Body::Laminate(stamp) => self.laminate(ask, stamp),
                Body::HandOver(heir) => self.hand_over(ask, heir),
                _ => self.fail(&ask, crate::errno::EIO),
            }
        }
    }

    fn answer(&mut self, ask: &Ask, body: Body) {
        self.ctx
            .answer(ask.from, self.id, self.file.generation, ask.req, body);
    }

    fn fail(&mut self, ask: &Ask, errno: RawErrno) {
        self.answer(ask, Body::Failed(errno));
    }

    /// Sends an order to several nodes; returns whose answer to await.
    fn order(&mut self, to: impl IntoIterator<Item = NodeId>, body: &Body) -> Vec<(NodeId, u64)> {
        to.into_iter()
            .map(|node| {
                let req = self
                    .ctx
                    .ask(node, self.id, self.file.generation, body.clone());
                self.acks.insert(req.seq, self.id);
                (node, req.seq)
            })
            .collect()
    }

    /// Sends word to several nodes; no answer is due.
    fn tell(&mut self, to: &[NodeId], body: &Body) {
        for &node in to {
            self.ctx
                .ask(node, self.id, self.file.generation, body.clone());
        }
    }
}
