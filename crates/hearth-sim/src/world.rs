//! The world: nodes, network, store, front ends and a clock, driven by one queue of events.
//!
//! It carries out what kernels order exactly as an agent must: in order, within the step. All chance
//! comes from the plan's seed, so that a run can be repeated.

pub(crate) mod answers;
mod bank;
mod coding;
mod crash;
mod effects;
mod faults;
mod host;
mod kernel;
mod links;
mod local;
mod looking;
mod reading;
pub(crate) mod session;
mod store;
mod store_client;
mod store_ops;
mod tier;
mod views;
mod waits;

use crate::check::{Violation, liveness, memory};
use crate::model::Tick;
use crate::plan::{Plan, delay};
use crate::rng::Rng;
use crate::tamper::Tamper;
use crate::workload::Choices;
use answers::Answer;
use bank::Bank;
pub use faults::{Detail, Faults};
use hearth_proto::bank::Daemon;
use hearth_proto::msg::Body;
use hearth_proto::{
    FileId, Input, Node, NodeId, Ranges, RevokeId, Span, StoreOk, StoreOpId, Ticket, Time,
};
use host::Host;
use links::{Links, Parcel};
use session::{Call, Session};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use store::Store;
use store_ops::Job;
use views::Views;

/// Something that will happen.
pub(crate) enum Event {
    /// A session does the next thing.
    Think { session: usize },
    /// A request reaches its agent.
    Asked { node: usize, ticket: Ticket },
    /// An answer reaches its session.
    Answered { call: Box<Call>, answer: Answer },
    /// A message arrives.
    Arrives {
        from: u32,
        to: u32,
        packet: (u32, u64),
    },
    /// The store does an operation.
    StoreRuns { node: usize, job: Box<Job> },
    /// The store says what became of it.
    StoreTells {
        node: usize,
        op: StoreOpId,
        result: Result<StoreOk, hearth_proto::RawErrno>,
    },
    /// The revocation at the head of the queue is begun.
    Revokes { node: usize },
    /// A revocation is done.
    Revoked { node: usize, id: RevokeId },
    /// A side learns that a connection is gone.
    Down { node: u32, peer: u32 },
    /// A connection is made again.
    Mend { a: u32, b: u32 },
    /// A stalled connection is reset.
    Reset { a: u32, b: u32, life: u32 },
    /// A message that nobody sent.
    Forged { to: usize, input: Box<Input> },
    /// An agent that died starts anew.
    Restarts { node: usize },
    /// An order arrives at a daemon.
    BankRuns { request: u64 },
    /// A daemon's answer arrives.
    BankTells {
        node: usize,
        request: u64,
        said: Box<bank::Said>,
    },
    /// An order has waited for too long.
    BankFails { node: usize, request: u64 },
    /// A node learns that its connection to a daemon is gone.
    BankBreaks { node: usize, daemon: Daemon },
    /// A node tries to connect to a daemon.
    BankConnects { node: usize, daemon: Daemon },
    /// A daemon is well again.
    BankReturns { daemon: Daemon },
    /// Bytes that programs have left have waited for long enough.
    Brings { node: usize },
    /// Another view is decided.
    Decides,
    /// A view without a member that is gone is decided.
    Excludes,
    /// The tier of a node that began anew is recovered.
    Recovered { node: usize },
    /// A node hears of a view.
    Viewed { node: usize, input: Box<Input> },
}

/// A hash that is the same on every machine (FNV-1a).
struct Digest(u64);

impl Hasher for Digest {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }
}

/// Many kernels and everything around them.
pub struct World {
    pub(crate) plan: Plan,
    pub(crate) now: Time,
    queue: BTreeMap<(Time, u64), Event>,
    events: u64,
    ticks: u64,
    pub(crate) hosts: Vec<Host>,
    pub(crate) sessions: Vec<Session>,
    pub(crate) links: Links,
    pub(crate) store: Store,
    pub(crate) bank: Bank,
    pub(crate) views: Views,
    /// A store that fails does so every time.
    pub(crate) store_always_fails: bool,
    /// Store operations that are not over.
    pub(crate) store_busy: u32,
    /// Files that only one node can open.
    pub(crate) private: BTreeMap<FileId, u32>,
    pub(crate) rng: Rng,
    pub(crate) violations: Vec<Violation>,
    digest: Digest,
    /// Messages sent.
    pub(crate) messages: u64,
    /// Effects of the kind that is tampered with.
    pub(crate) tampered: u64,
    /// Some connection has been broken.
    pub(crate) apart: bool,
    /// By something else than a death, or an agent that died is back: several nodes may take themselves for a file's
    /// manager (S13).
    pub(crate) parted: bool,
    /// Agents that died since all were there and all files had what they should have.
    pub(crate) deaths: u32,
    /// No more faults.
    pub(crate) healed: bool,
    /// Faults that happened.
    pub(crate) faults: Faults,
    /// Longest that an operation took.
    pub(crate) slowest: Span,
    /// Time of the last operation that a session began.
    pub(crate) last_begun: Time,
    ticks_in_a_row: u32,
    pub(crate) choices: Choices,
    /// Sessions do only what they are told.
    pub(crate) scripted: bool,
    /// The events, for people; kept only if asked for.
    pub(crate) log: Option<Vec<String>>,
    pub(crate) detail: Detail,
    /// The events, in the words of a script.
    pub(crate) story: Vec<String>,
}

impl World {
    /// A world at rest, with its files.
    pub fn new(plan: Plan) -> World {
        let host = |me| {
            let mut config = plan.config(NodeId(me));
            if plan.tamper == Tamper::LargerPool {
                config.frames *= 16;
            }
            if plan.tamper == Tamper::PartsApart {
                config.ranges = Ranges::Apart;
            }
            Host::new(Node::new(config))
        };
        let mut world = World {
            now: Time(1_000_000_000),
            queue: BTreeMap::new(),
            events: 0,
            ticks: 0,
            hosts: (0..plan.nodes).map(host).collect(),
            sessions: Vec::new(),
            links: Links::default(),
            store: Store::default(),
            bank: Bank::default(),
            views: Views::new(plan.nodes, plan.views),
            store_always_fails: false,
            store_busy: 0,
            private: BTreeMap::new(),
            rng: Rng::new(plan.seed, 2),
            violations: Vec::new(),
            digest: Digest(0xCBF2_9CE4_8422_2325),
            messages: 0,
            tampered: 0,
            apart: false,
            parted: false,
            deaths: 0,
            healed: false,
            faults: Faults::default(),
            slowest: Span(0),
            last_begun: Time(0),
            ticks_in_a_row: 0,
            choices: Choices::new(plan.seed, plan.steps),
            scripted: false,
            log: None,
            detail: Detail::Everything,
            story: Vec::new(),
            plan,
        };
        world.start_bank();
        world
    }

    /// A session on a node; returns its number.
    pub fn add_session(&mut self, node: usize) -> usize {
        self.sessions.push(Session {
            node,
            handles: Vec::new(),
            doing: None,
            finished: false,
        });
        self.sessions.len() - 1
    }

    /// Promises that did not hold.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Does the next thing; false if nothing is left to do or something is wrong.
    pub(crate) fn advance(&mut self) -> bool {
        if !self.violations.is_empty() {
            return false;
        }
        let event = self.queue.first_key_value().map(|(&(at, _), _)| at);
        let deadlines = self.hosts.iter().enumerate();
        let tick = deadlines
            .filter_map(|(node, host)| Some((host.deadline()?, node)))
            .min();
        match (event, tick) {
            (None, None) => false,
            (Some(at), Some((due, node))) if due <= at => self.tick_node(node, due),
            (None, Some((due, node))) => self.tick_node(node, due),
            (Some(_), _) => self.next_event(),
        }
    }

    /// Lets happen what is under way, without letting deadlines come.
    pub(crate) fn go_quiet(&mut self) {
        while self.violations.is_empty() && self.next_event() {}
    }

    /// Lets time pass.
    pub(crate) fn wait(&mut self, span: Span) {
        let until = self.now + span;
        loop {
            let event = self.queue.first_key_value().map(|(&(at, _), _)| at);
            let tick = self.hosts.iter().filter_map(|host| host.deadline()).min();
            match event.into_iter().chain(tick).min() {
                Some(at) if at <= until && self.advance() => {}
                Some(_) | None => break,
            }
        }
        self.set_now(until);
    }

    fn set_now(&mut self, now: Time) {
        self.now = now;
        self.store.now = now;
    }

    fn tick_node(&mut self, node: usize, due: Time) -> bool {
        self.ticks_in_a_row = if due <= self.now {
            self.ticks_in_a_row + 1
        } else {
            0
        };
        self.set_now(self.now.max(due));
        self.step(node, Input::Tick);
        if let Some(violation) = liveness::restless(self.ticks_in_a_row, node) {
            self.violate(violation);
        }
        self.keep_pace()
    }

    fn next_event(&mut self) -> bool {
        self.ticks_in_a_row = 0;
        let Some(((at, _), event)) = self.queue.pop_first() else {
            return false;
        };
        self.set_now(self.now.max(at));
        if let Some(event) = self.put_off(event) {
            self.happen(event);
        }
        self.keep_pace()
    }

    /// True while the run is within its bounds.
    fn keep_pace(&mut self) -> bool {
        if let Some(violation) = liveness::overdue(self.now, self.last_begun, self.events) {
            let unfinished = self.unfinished();
            self.violate(violation.with(&unfinished));
        }
        self.violations.is_empty()
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Think { session } => self.think(session),
            Event::Asked { node, ticket } => {
                if let Some(call) = self.hosts[node].calls.get(&ticket) {
                    let request = call.request.clone();
                    let session = call.session;
                    self.note_seal(node, session, &request);
                    self.step(node, Input::Request(ticket, request));
                }
            }
            Event::Answered { call, answer } => self.answered(&call, answer),
            Event::Arrives { from, to, packet } => {
                for parcel in self.links.arrive(from, to, packet) {
                    self.arrives(from, to, parcel);
                }
            }
            Event::StoreRuns { node, job } => self.run_job(node, *job),
            Event::StoreTells { node, op, result } => {
                self.store_busy -= 1;
                self.step(node, Input::StoreDone(op, result));
            }
            Event::Revokes { node } => self.revoke_next(node),
            Event::Revoked { node, id } => self.step(node, Input::Revoked(id)),
            Event::Down { node, peer } => {
                self.links.told(node, peer);
                if self.hosts[node as usize].is_alive() {
                    self.note_link(node, peer, "down");
                    self.step(node as usize, Input::PeerDown(NodeId(peer)));
                }
            }
            Event::Mend { a, b } => self.mend(a, b),
            Event::Reset { a, b, life } => {
                if self.links.life(a, b) == life {
                    self.break_link(a, b);
                }
            }
            Event::Forged { to, input } => self.step(to, *input),
            Event::Restarts { node } => self.restart(node),
            Event::BankRuns { request } => self.run_bank_request(request),
            Event::BankTells {
                node,
                request,
                said,
            } => self.bank_request_done(node, request, *said),
            Event::BankFails { node, request } => self.bank_request_fails(node, request),
            Event::BankBreaks { node, daemon } => self.step(node, Input::BankDown(daemon)),
            Event::BankConnects { node, daemon } => self.try_bank(node, daemon),
            Event::BankReturns { daemon } => self.bank_returns(daemon),
            Event::Brings { node } => self.bring(node),
            Event::Decides => self.decide_view(),
            Event::Excludes => self.exclude(),
            Event::Recovered { node } => self.step(node, Input::Recovered),
            Event::Viewed { node, input } => self.hear_view(node, *input),
        }
    }

    /// Gives a kernel one input, after what programs have left for it, and carries out its orders.
    pub(crate) fn step(&mut self, node: usize, input: Input) {
        self.bring(node);
        self.step_once(node, input);
    }

    fn step_once(&mut self, node: usize, input: Input) {
        self.note_input(node, &input);
        let mut out = Vec::new();
        let host = &mut self.hosts[node];
        host.member.step(self.now, input, &mut out);
        host.node().assert_valid();
        (self.now, node).hash(&mut self.digest);
        out.hash(&mut self.digest);
        for effect in out {
            if let Err(breach) = self.carry_out(node, effect) {
                self.violate(Violation::contract(breach));
                return;
            }
        }
        let limit = self.plan.config(NodeId(0));
        if let Some(violation) = memory::check(&limit, &self.hosts[node].node().status()) {
            self.violate(violation);
        }
    }

    fn arrives(&mut self, from: u32, to: u32, parcel: Parcel) {
        if !self.hosts[to as usize].is_alive() && self.plan.has_views() {
            return;
        }
        let host = &mut self.hosts[to as usize];
        let data = match parcel.payload.len() {
            0 => None,
            len => Some((host.hold(parcel.payload), len as u32)),
        };
        let from = NodeId(from);
        let envelope = parcel.envelope;
        let at_home = matches!(
            envelope.body,
            Body::Read { .. }
                | Body::Write { .. }
                | Body::Stage { .. }
                | Body::Hold { .. }
                | Body::Copy { .. }
                | Body::Shard { .. }
                | Body::Mark
        );
        if at_home {
            self.hosts[to as usize].held.insert(envelope.file);
        }
        if matches!(envelope.body, Body::Inval { .. }) {
            self.forge_inval_ok(from, to, &envelope);
        }
        self.step(
            to as usize,
            Input::Message {
                from,
                envelope,
                data,
            },
        );
    }

    /// The revocation at the head of the queue runs, unless a page is locked.
    pub(crate) fn revoke_next(&mut self, node: usize) {
        let objects = |file: FileId| -> Vec<usize> {
            let of_file = |&(_, object): &(usize, &store::Object)| object.file == file;
            let objects = self.store.objects.iter().enumerate();
            objects.filter(of_file).map(|(number, _)| number).collect()
        };
        let Some(order) = self.hosts[node].kernel.queue.front().cloned() else {
            return;
        };
        let objects = objects(order.file);
        let kernel = &mut self.hosts[node].kernel;
        let lie = self.plan.tamper == Tamper::KeepRevoked;
        if !lie && !kernel.revoke(&objects, order.pages) {
            kernel.blocked = true;
            return;
        }
        kernel.queue.pop_front();
        kernel.working = !kernel.queue.is_empty();
        let again = kernel.working;
        let id = order.id;
        let delay = self.local_delay();
        self.after(delay, Event::Revoked { node, id });
        if again {
            self.after(delay, Event::Revokes { node });
        }
    }

    /// The next point in the order of what sessions see.
    pub(crate) fn tick(&mut self) -> Tick {
        self.ticks += 1;
        Tick(self.ticks)
    }

    /// Lets something happen later.
    pub(crate) fn after(&mut self, delay: Span, event: Event) {
        self.at(self.now + delay, event);
    }

    pub(crate) fn at(&mut self, at: Time, event: Event) {
        self.events += 1;
        self.queue.insert((at, self.events), event);
    }

    pub(crate) fn local_delay(&mut self) -> Span {
        delay(&mut self.rng, self.plan.local_delay)
    }

    pub(crate) fn violate(&mut self, violation: Violation) {
        self.violations.push(violation);
    }

    /// Events so far.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// A value that tells runs apart.
    pub(crate) fn digest(&self) -> u64 {
        self.digest.finish()
    }

    /// Requests that nobody has answered yet, for people.
    pub(crate) fn unfinished(&self) -> Vec<String> {
        let mut list = Vec::new();
        for (number, session) in self.sessions.iter().enumerate() {
            if let Some(doing) = &session.doing {
                let node = session.node;
                list.push(format!(
                    "session {number} on node {node}: {:?}",
                    doing.action
                ));
            }
        }
        for host in &self.hosts {
            for (ticket, call) in &host.calls {
                list.push(format!("{:?} {ticket:?}: {:?}", host.id, call.request));
            }
            let waits = host.member.waits_for().filter(|_| !host.member.has_left());
            if let (Some(waits), true) = (waits, host.is_alive()) {
                list.push(format!("{:?} waits for {waits}", host.id));
            }
            if let Some(order) = host.kernel.queue.front() {
                list.push(format!("{:?} revokes {order:?}", host.id));
            }
        }
        list.extend(waits::chains(&self.hosts));
        list
    }
}
