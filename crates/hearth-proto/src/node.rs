//! One node: composition only. Routes inputs to the machines, and messages that the machines give
//! themselves, until nothing is left.

mod renew;
mod side;

use self::side::{Side, side};
use crate::authority::Authority;
use crate::bank::Epoch;
use crate::bank::list::List;
use crate::client::Client;
use crate::config::Config;
use crate::ctx::{Counts, Ctx, Loopback};
use crate::effect::{Alarm, Effect, Outbox, Piece, Src};
use crate::frames::{Frames, Owner};
use crate::guard::{Guard, Turns};
use crate::ids::{Buf, FileId, FrameId, Gen, Handle, IdStarts, NodeId, ReqId, Ticket};
use crate::input::{Input, Request, Rest};
use crate::manager::Manager;
use crate::msg::{Body, Envelope, Here};
use crate::peers::Peers;
use crate::replica::Replica;
use crate::rescue::{Parked, Released, Rescues};
use crate::semantics::Semantics;
use crate::status::{KernelCounters, Status};
use crate::time::Time;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

/// The whole protocol of one agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    config: Config,
    client: Client,
    authority: Authority,
    manager: Manager,
    frames: Frames,
    peers: Peers,
    bank: List,
    replica: Replica,
    rescues: Rescues,
    counts: Counts,
    stats: KernelCounters,
    /// Pages are offered, but at the end of a view.
    offers: bool,
}

/// The machines of a node, apart from what they share.
struct Machines<'a> {
    client: &'a mut Client,
    authority: &'a mut Authority,
    manager: &'a mut Manager,
    replica: &'a mut Replica,
    rescues: &'a mut Rescues,
}

impl Node {
    /// A node without files. Peers count as present until [`Input::PeerDown`].
    pub fn new(config: Config) -> Node {
        Node::naming_after(config, &IdStarts::default())
    }

    /// The same, with names counted from here on.
    pub fn naming_after(config: Config, names: &IdStarts) -> Node {
        let frames = Frames::new(config.frames);
        let rescues = Rescues::of(
            config.me,
            config.nodes,
            config.rejoins && config.has_replicas(),
        );
        Node {
            replica: Replica::default(),
            rescues,
            client: Client::default(),
            authority: Authority::after(names),
            manager: Manager::default(),
            frames,
            peers: Peers::default(),
            bank: List::default(),
            counts: Counts::after(names),
            stats: KernelCounters::default(),
            offers: config.offers,
            config,
        }
    }

    /// Applies one input; orders go to `out` in the order in which they must happen.
    pub fn step(&mut self, now: Time, input: Input, out: &mut Outbox) {
        let mut loopback = VecDeque::new();
        let mut turns = Turns::default();
        let is_local = matches!(input, Input::Locals(_));
        self.bank.begin(&self.config, now);
        self.client.forget_torn();
        self.counts.pieces = 0;
        match input {
            Input::Hush => self.hush(now, out, &mut loopback),
            Input::View { view, members, .. } => {
                self.renew((now, view), members, out, &mut loopback);
            }
            input => self.with(now, out, &mut loopback, |machines, ctx| {
                machines.input(ctx, input);
            }),
        }
        if is_local {
            // Such writes may still come: nothing that was offered may be taken back here (A7).
            self.with(now, out, &mut loopback, |machines, ctx| {
                machines.authority.flush_excess(ctx);
            });
            debug_assert!(loopback.is_empty(), "nobody is told of such writes");
            return;
        }
        loop {
            while let Some((from, envelope, data)) = loopback.pop_front() {
                turns.take();
                let data = data.first().copied();
                self.with(now, out, &mut loopback, |machines, ctx| {
                    machines.message(ctx, from, envelope, data);
                });
            }
            if self.with(now, out, &mut loopback, |machines, ctx| machines.go_on(ctx)) {
                continue;
            }
            self.with(now, out, &mut loopback, |machines, ctx| {
                machines.upkeep(ctx)
            });
            if loopback.is_empty() && !self.rescues.has_ready() && !self.client.has_resumed() {
                break;
            }
        }
        // Bytes of a file that are kept for others are found by its name.
        if self.config.has_replicas() {
            out.retain(|effect| match effect {
                Effect::Forgotten { file } => {
                    !self.replica.has(*file) && !self.authority.has(*file)
                }
                _ => true,
            });
        }
    }

    /// When [`Input::Tick`] is due.
    pub fn deadline(&self) -> Option<Time> {
        let authority = self.authority.deadline();
        let peers = self
            .peers
            .deadline(self.config.probe_after, self.config.give_up_after);
        authority
            .into_iter()
            .chain(peers)
            .chain(self.bank.deadline())
            .chain(self.replica.deadline())
            .chain(self.rescues.deadline())
            .chain(self.client.names_due())
            .chain(self.client.return_due())
            .chain(self.client.scatter_due())
            .chain(self.client.linger_due())
            .chain(self.client.strays_due())
            .min()
    }

    /// Frames in which nothing is.
    pub fn frames_free(&self) -> u32 {
        self.frames.free()
    }

    /// The file of the page that would go next, of which this node is the home and nobody keeps anything, if it fits with
    /// its pages that are here. Of so many pages the files are looked at.
    pub fn coldest(&self, most: usize, fits: impl Fn(FileId, u32) -> bool) -> Option<FileId> {
        let homed = |owner| match owner {
            Owner::Authority(file, _) => Some(file),
            Owner::Client(..) | Owner::Replica(..) => None,
        };
        let mut last = None;
        let mut files = self.frames.oldest(most).filter_map(homed);
        files.find(|&file| {
            // Pages of one file often stand together.
            let other = last.replace(file) != Some(file);
            other && fits(file, self.authority.pages_of(file)) && !self.authority.is_kept(file)
        })
    }

    /// The epoch in which this node trusts each daemon of the bank.
    pub fn bank_epochs(&self) -> Vec<Epoch> {
        self.bank.epochs()
    }

    /// A plain value for people.
    pub fn status(&self) -> Status {
        Status {
            counters: self.stats,
            frames: self.config.frames,
            frames_used: self.frames.used(),
            evictions: self.frames.evictions,
            dirty_bytes: self.frames.dirty_bytes
                + self.client.unreturned()
                + self.client.gathered_bytes(),
            kept_bytes: self.replica.bytes(),
            at_risk: self.at_risk().count(),
            files: self.client.files() + self.authority.files() + self.manager.files(),
            requests_open: self.client.jobs(),
        }
    }

    /// Files of which fewer nodes have what the store lacks than the job wants, or whose home is gone and whose
    /// bytes are not in the store yet.
    pub fn at_risk(&self) -> impl Iterator<Item = FileId> + '_ {
        let short = self.authority.short_of_copies(&self.config);
        short.chain(self.replica.saving())
    }

    /// True if a flush of this handle would seal what this node wrote (S35).
    pub fn seals(&self, handle: Handle) -> bool {
        self.client.seals(&self.config, handle)
    }

    /// Files whose bytes cannot reach the store, and why: those of which this node is the home, and the last that another
    /// home refused to bring there.
    pub fn failing(&self) -> impl Iterator<Item = (FileId, crate::RawErrno)> + '_ {
        self.authority.failing().chain(self.client.refused())
    }

    /// True if this node writes a page of another home by itself.
    pub fn has_own_of(&self, home: NodeId) -> bool {
        self.client.has_own_of(home)
    }

    /// True if it is about to overwrite pages that go to it from others: they die with it.
    pub fn is_claiming(&self) -> bool {
        self.client.is_claiming()
    }

    /// True while other homes have yet to bring to the store what this node wrote, after it was told to
    /// flush all.
    pub fn is_settling(&self) -> bool {
        self.client.is_settling(&self.config)
    }

    /// True if a peer is gone, as far as this node knows.
    pub fn is_gone(&self, peer: NodeId) -> bool {
        self.peers.is_down(peer)
    }

    /// The rest of a write that failed in the last step though homes took a part of it.
    pub fn torn(&self, ticket: Ticket) -> Option<&Rest> {
        self.client.torn(ticket)
    }

    /// Nodes that this one waits for, and nodes that wait here for another.
    pub fn waits(&self) -> Vec<crate::Wait> {
        crate::wait::all(self.config.me, &self.client, &self.manager)
    }

    /// Answers that others owe this node, each with the file that it is about, and since when.
    pub fn owed(&self) -> impl Iterator<Item = (NodeId, FileId, crate::Time)> + '_ {
        self.peers.owed()
    }

    /// Handles, of whatever node, that count as open for the files managed here.
    pub fn opens_counted(&self) -> u32 {
        self.manager.opens()
    }

    /// True while this node is home of something of the file.
    pub fn is_home_of(&self, file: FileId) -> bool {
        self.authority.has(file)
    }

    /// True while this node has something of the file that the store may come to need: as its home, or for another.
    pub fn keeps(&self, file: FileId) -> bool {
        self.authority.has(file) || self.replica.has(file)
    }

    /// True while this node has bytes of the file that the store lacks.
    pub fn owes(&self, file: FileId) -> bool {
        self.authority.owes(file) || self.replica.has(file)
    }

    /// True if small writes through a handle may stay at this node for a while.
    pub fn gathers(&self, handle: Handle) -> bool {
        self.client.gathers(handle)
    }

    /// True if the file of a handle is one of level `posix`.
    pub fn is_posix(&self, handle: Handle) -> bool {
        self.client.is_posix(handle)
    }

    /// The place of a page that programs of this node may read now without asking anybody: its frame, and how many bytes
    /// of the page that holds. Good until the next step. There is none for a file of which the operating system has newer
    /// bytes, as a program stores into a mapping of it.
    pub fn readable(&self, file: FileId, page: u64) -> Option<(FrameId, u32)> {
        if self.client.is_mapped(file) {
            return None;
        }
        let copy = self.client.copy_of(&self.frames, file, page);
        let (slot, extent) = copy.or_else(|| {
            self.client
                .is_home(&self.config, file, page)
                .then_some(())?;
            self.authority
                .readable_in(&self.config, &self.frames, file, page)
        })?;
        Some((slot.frame, extent))
    }

    /// How many bytes of a page, from its start, programs may write by themselves; good until the next
    /// step.
    pub fn offered(&self, file: FileId, page: u64) -> Option<u32> {
        let gathered = || self.client.offered(&self.config, file, page);
        self.authority.offered(file, page).or_else(gathered)
    }

    /// From now on pages are offered.
    pub fn offer_pages(&mut self) {
        (self.config.offers, self.offers) = (true, true);
    }

    /// True if so many bytes can still be written before writes have to wait for the store.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.frames.dirty_bytes + bytes <= self.config.dirty_limit_bytes()
    }

    /// Files that sessions have open here and of which something else is promised than `Posix`.
    pub fn promises(&self) -> impl Iterator<Item = (FileId, Semantics)> + '_ {
        self.client.promises()
    }

    /// Pages in this node's memory, with the bytes known of each, in no order.
    pub fn held(&self) -> impl Iterator<Item = (FileId, u64, u32)> + '_ {
        let homes = self.authority.held(&self.frames);
        homes.chain(self.client.held(&self.frames))
    }

    /// The settings that are fixed for this node.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Hashes all that later steps depend on: not what is fixed, nor what is only counted.
    pub fn hash_state(&self, hasher: &mut impl Hasher) {
        self.client.hash(hasher);
        self.authority.hash(hasher);
        self.manager.hash(hasher);
        self.frames.hash(hasher);
        self.peers.hash(hasher);
        self.bank.hash(hasher);
        self.replica.hash(hasher);
        self.rescues.hash(hasher);
        self.counts.clock().hash(hasher);
    }

    /// Frames that hold a page, or wait for one.
    pub fn frames_in_use(&self) -> impl Iterator<Item = FrameId> + '_ {
        self.frames.in_use()
    }

    /// Clean pages that could go.
    pub fn pages_spare(&self) -> u32 {
        self.frames.listed()
    }

    /// Checks what must hold between steps; panics with the name of what does not.
    pub fn assert_valid(&self) {
        self.frames.assert_valid();
        self.authority.assert_valid(self.frames.dirty_bytes);
        self.client.assert_valid();
        self.client.assert_offers(&self.config);
        self.replica.assert_valid(|node| self.peers.is_down(node));
        self.authority
            .assert_offers(&self.config, &self.frames, &self.client);
    }

    fn with<R>(
        &mut self,
        now: Time,
        out: &mut Outbox,
        loopback: &mut VecDeque<Loopback>,
        work: impl FnOnce(&mut Machines<'_>, &mut Ctx<'_>) -> R,
    ) -> R {
        let mut ctx = Ctx {
            config: &self.config,
            now,
            frames: &mut self.frames,
            peers: &mut self.peers,
            bank: &mut self.bank,
            counts: &mut self.counts,
            stats: &mut self.stats,
            out,
            loopback,
        };
        let mut machines = Machines {
            client: &mut self.client,
            authority: &mut self.authority,
            manager: &mut self.manager,
            replica: &mut self.replica,
            rescues: &mut self.rescues,
        };
        work(&mut machines, &mut ctx)
    }
}

impl Machines<'_> {
    fn input(&mut self, ctx: &mut Ctx<'_>, input: Input) {
        match input {
            Input::Request(_, Request::FlushAll) => {
                self.client.settle_all(ctx, self.authority);
                self.authority.flush_all(ctx);
            }
            Input::Request(ticket, request) => self.request(ctx, ticket, request),
            Input::Message {
                from,
                envelope,
                data,
            } => self.received(ctx, from, envelope, data),
            Input::StoreDone(op, result) => {
                if !self.authority.store_done(ctx, op, result)
                    && !self.replica.store_done(ctx, op, result)
                {
                    self.client.store_done(ctx, self.authority, op, result);
                }
            }
            Input::BankDone(op, result) => {
                if let Some(result) = self.authority.bank_done(ctx, op, result)
                    && let Some(result) = self.manager.bank_done(ctx, op, result)
                {
                    self.client.bank_done(ctx, self.authority, op, result);
                }
            }
            Input::BankUp(daemon) => ctx.bank.up(ctx.config, daemon),
            Input::BankDown(daemon) => List::down(ctx, daemon),
            Input::Revoked(id) => self.client.revoked(ctx, self.authority, id),
            Input::PeerUp(peer) => {
                ctx.peers.up(ctx.now, peer);
                List::met(ctx, peer);
                self.rescues.met(ctx, peer);
                self.client.met(ctx, self.authority, peer);
            }
            Input::PeerDown(peer) => self.peer_down(ctx, peer),
            Input::Locals(writes) => {
                let writes = self.client.gather_left(ctx, writes);
                let client = &mut *self.client;
                self.authority.local_writes(ctx, &writes, |ctx, write| {
                    client.wrote_here(ctx, write);
                });
            }
            Input::Settle => {
                self.client.settle_all(ctx, self.authority);
                self.authority.give_up_unreachable(ctx);
                self.authority.settle_all(ctx);
                self.client.sync_here(ctx, self.authority);
            }
            Input::Hush | Input::View { .. } | Input::Directed(_) | Input::Recovered => {}
            Input::Wanted(peer) => Peers::want(ctx, peer),
            Input::Shed => ctx.frames.shed(),
            Input::Tick => {
                Peers::tick(ctx);
                List::tick(ctx);
                self.client.ask_names_left(ctx, self.authority);
                self.client.scatter_old(ctx, self.authority);
                self.authority.tick(ctx);
                self.client.return_old(ctx, self.authority);
                self.client.drop_strays(ctx, self.authority);
                self.replica.tick(ctx);
                self.rescues.tick(ctx);
            }
        }
    }

    /// A local session asks.
    fn request(&mut self, ctx: &mut Ctx<'_>, ticket: Ticket, request: Request) {
        let held = match self.rescues.is_idle() {
            true => None,
            false => self.client.file_of(&request),
        };
        match held.filter(|&file| self.rescues.holds(file)) {
            Some(file) => {
                let parked = Parked::Request(ticket, request);
                self.rescues.park(ctx, file, parked);
            }
            None => self.client.request(ctx, self.authority, ticket, request),
        }
    }

    /// Resumes requests that waited until nodes that are gone had nothing of a file any more.
    fn release(&mut self, ctx: &mut Ctx<'_>, released: Released) {
        let Released {
            file,
            here,
            life,
            mut parked,
            failed,
        } = released;
        // Messages of this node to itself belong to work that it had begun.
        let own =
            |parked: &Parked| matches!(parked, Parked::Message(from, ..) if *from == ctx.me());
        parked.sort_by_key(|parked| !own(parked));
        self.manager.remembered(ctx, file, (&here, life));
        self.manager.outlive(ctx, file, life);
        self.client.remembered(ctx, self.authority, file, &here);
        for parked in parked {
            match (parked, failed) {
                (Parked::Request(ticket, request), Some(errno)) => {
                    self.client.refuse(ctx, ticket, &request, errno);
                }
                (parked, _) => self.rescues.get_ready(parked),
            }
        }
        while !ctx.config.keeps(Guard::OneByOne) && self.go_on(ctx) {}
    }

    /// The next of what was put aside goes on, after all that the one before has set off within this node: else a read
    /// that came after a write would be served before the home has that. False if nothing is left.
    fn go_on(&mut self, ctx: &mut Ctx<'_>) -> bool {
        if let Some((ticket, request)) = self.client.take_resumed() {
            self.request(ctx, ticket, request);
            return true;
        }
        match self.rescues.take_ready() {
            Some(Parked::Request(ticket, request)) => self.request(ctx, ticket, request),
            Some(Parked::Message(from, envelope, data)) => self.message(ctx, from, envelope, data),
            None => return false,
        }
        true
    }

    /// A message from another node.
    fn received(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: NodeId,
        envelope: Envelope,
        data: Option<(Buf, u32)>,
    ) {
        let ReqId { node, inc, .. } = envelope.req;
        if node == ctx.me() && inc != ctx.config.incarnation {
            // An answer to an earlier life of this node: its number may be that of a request of this one.
            let payload = data.map(|(buf, _)| Effect::Free(buf));
            return ctx.out.extend(payload);
        }
        ctx.peers.heard(ctx.me(), ctx.now, from, &envelope);
        let carries = matches!(
            envelope.body,
            Body::Write { .. }
                | Body::Scatter { .. }
                | Body::Stage { .. }
                | Body::Grant { .. }
                | Body::Peeked { .. }
                | Body::Return { .. }
                | Body::Push { .. }
                | Body::Hand { .. }
                | Body::Copy { .. }
                | Body::Shard { .. }
                | Body::Gathered
        );
        let piece = data.map(|(buf, len)| Piece {
            src: Src::Buf(buf),
            at: 0,
            len,
        });
        if let (Some((buf, _)), false) = (data, carries) {
            ctx.out.push(Effect::Free(buf));
        }
        self.message(ctx, from, envelope, piece.filter(|_| carries));
    }

    fn message(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: NodeId,
        envelope: Envelope,
        data: Option<Piece>,
    ) {
        let side = side(&envelope.body);
        let apart = matches!(
            side,
            Side::Replica | Side::Keeper | Side::Shards | Side::Rescuer | Side::Ping | Side::Pong
        );
        // The end of a cut may give up bytes that a home would have to bring to the store first.
        let ends_cut = matches!(envelope.body, Body::Resume { .. });
        let apart = apart || ends_cut && self.authority.awaits_resume(envelope.file);
        let apart = apart || self.rescues.owns(ctx.me(), envelope.req);
        if !apart && self.rescues.holds(envelope.file) {
            let file = envelope.file;
            let parked = Parked::Message(from, envelope, data);
            return self.rescues.park(ctx, file, parked);
        }
        match side {
            Side::Replica | Side::Shards => self.keep(ctx, from, &envelope, data),
            Side::Keeper => self.authority.message(ctx, from, envelope, data),
            Side::Rescuer | Side::Asker if self.rescues.owns(ctx.me(), envelope.req) => {
                let released = self.rescues.answered(ctx, from, &envelope);
                released
                    .into_iter()
                    .for_each(|released| self.release(ctx, released));
            }
            Side::Rescuer => {}
            Side::Manager => self.manager.message(ctx, self.authority, from, envelope),
            Side::Authority => self.authority.message(ctx, from, envelope, data),
            Side::Asker if self.manager.owns(envelope.req) => {
                self.manager.message(ctx, self.authority, from, envelope);
            }
            Side::Asker | Side::Client => {
                if envelope.body == Body::WhoisOk(ctx.me()) {
                    self.manager.named(ctx, envelope.file);
                }
                self.client
                    .message(ctx, self.authority, from, envelope, data);
            }
            Side::Holder if ctx.config.is_home_to_itself() => {
                self.authority.message(ctx, from, envelope, data);
            }
            Side::Holder => {
                self.client
                    .message(ctx, self.authority, from, envelope, data);
            }
            Side::LeaseAsked => List::lease(ctx, from, envelope.req),
            Side::LeaseOver => List::confirmed(ctx, from, envelope.req),
            Side::Member => {}
            Side::Ping => pong(ctx, from, envelope.req),
            Side::Pong => self.replica.lives(ctx, from, envelope.req),
        }
    }

    /// A home has bytes kept here, or somebody has them saved.
    fn keep(&mut self, ctx: &mut Ctx<'_>, from: NodeId, envelope: &Envelope, data: Option<Piece>) {
        match &envelope.body {
            Body::Rescue { gone, back } => {
                let here = match self.manager.manages(envelope.file) {
                    true => Here::Manager,
                    false if self.client.has_left(envelope.file) => Here::Left,
                    false if self.client.knows_manager(envelope.file, ctx.me()) => Here::Named,
                    false if self.authority.has(envelope.file) => Here::Home,
                    false => Here::Nothing,
                };
                self.manager.asked_about(ctx, envelope.file, gone);
                let known = self.client.generation(envelope.file);
                let told = (here, known.max(self.authority.generation(envelope.file)));
                self.replica.rescue(ctx, from, envelope, (gone, back), told);
            }
            Body::Orphaned { back: true }
                if from != ctx.me() && self.client.lapses(ctx, self.authority, from, envelope) => {}
            Body::Orphaned { .. } => self.authority.orphaned(ctx, from, envelope),
            Body::Copy { .. } | Body::Mark | Body::Shard { .. } if self.rescues.is_unknown(ctx) => {
                let (file, generation, req) = (envelope.file, envelope.generation, envelope.req);
                ctx.answer(from, file, generation, req, Body::Kept(false));
            }
            _ => self.replica.message(ctx, from, envelope, data),
        }
        if let Some(Src::Buf(buf)) = data.map(|piece| piece.src) {
            ctx.out.push(Effect::Free(buf));
        }
    }

    fn peer_down(&mut self, ctx: &mut Ctx<'_>, peer: NodeId) {
        if ctx.config.has_replicas() && ctx.config.keeps(Guard::RescuedFirst) {
            self.rescues.fell(ctx, peer);
        }
        if ctx.config.loses_with_node()
            && !ctx.peers.is_down(peer)
            && ctx.config.keeps(Guard::LossTold)
        {
            ctx.out.push(Effect::Alarm(Alarm::NodeLost(peer)));
        }
        let instead = ctx.peers.gone(ctx.config, peer);
        self.replica.peer_down(ctx, peer);
        self.authority.peer_down(ctx, peer);
        self.manager.peer_down(ctx, peer);
        self.client.peer_down(ctx, self.authority, peer);
        let given = ctx.config.keeps(Guard::GoneAnswersGiven);
        for envelope in instead.into_iter().filter(|_| given) {
            ctx.loopback.push_back((peer, envelope, alloc::vec![]));
        }
    }

    fn upkeep(&mut self, ctx: &mut Ctx<'_>) {
        self.go_on_rescuing(ctx);
        for daemon in ctx.bank.take_over() {
            self.authority.bank_over(ctx, daemon);
            self.manager.bank_over(ctx, daemon);
        }
        if self.authority.lacks_frames() {
            self.client.give_all_back(ctx, self.authority);
        }
        self.authority.upkeep(ctx);
        for (file, life) in self.authority.take_ended() {
            self.manager.ended(file, life);
        }
        self.client.upkeep(ctx, self.authority);
        self.manager.upkeep(ctx);
        for (owner, slot) in core::mem::take(&mut ctx.frames.evicted) {
            match owner {
                Owner::Client(file, page) => {
                    self.client.evicted(ctx, self.authority, (file, page), slot);
                }
                Owner::Authority(file, page) => self.authority.evicted(ctx, file, page, slot),
                Owner::Replica(..) => {}
            }
        }
        self.authority.review_offers(ctx, self.client);
        self.client.review_offers(ctx, self.authority);
    }

    /// Questions go on that waited for files to lapse.
    fn go_on_rescuing(&mut self, ctx: &mut Ctx<'_>) {
        for (from, question) in self.client.take_lapsed() {
            self.keep(ctx, from, &question, None);
        }
    }
}

/// This node lives.
fn pong(ctx: &mut Ctx<'_>, to: NodeId, req: ReqId) {
    let (file, generation) = (FileId::default(), Gen::default());
    ctx.answer(to, file, generation, req, Body::Pong);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::registrar_of;

    const ME: NodeId = NodeId(0);
    const PEER: NodeId = NodeId(1);
    const EARLIER: u64 = 6;

    /// A node in its seventh life has asked the other one who manages a file.
    fn asking() -> (Node, Envelope) {
        let config = Config {
            incarnation: EARLIER + 1,
            ..Config::new(ME, 2)
        };
        let (mut node, mut out) = (Node::new(config), Vec::new());
        let file = (1..)
            .map(FileId)
            .find(|&file| registrar_of(&Config::new(ME, 2), file) == PEER);
        let ask = Request::Size {
            file: file.expect("the other node is registrar of some"),
            ask: true,
        };
        node.step(Time(0), Input::Request(Ticket(1), ask), &mut out);
        let asked = out.into_iter().find_map(|effect| match effect {
            Effect::Send { to, envelope, .. } if to == PEER => Some(envelope),
            _ => None,
        });
        (node, asked.expect("the other node is asked"))
    }

    #[test]
    fn an_answer_to_an_earlier_life_counts_for_nothing() {
        let (mut node, asked) = asking();
        assert_eq!(asked.body, Body::Whois);
        let answer_to = |inc| Input::Message {
            from: PEER,
            envelope: Envelope {
                req: ReqId { inc, ..asked.req },
                body: Body::WhoisOk(PEER),
                ..asked.clone()
            },
            data: None,
        };
        let mut out = Vec::new();
        node.step(Time(1), answer_to(EARLIER), &mut out);
        assert_eq!(out, [], "it was asked by somebody who is gone");
        node.step(Time(2), answer_to(EARLIER + 1), &mut out);
        assert_ne!(out, [], "who manages the file is asked next");
    }
}
