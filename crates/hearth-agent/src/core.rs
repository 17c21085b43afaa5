//! The kernel behind one lock, with everything that its effects touch.

use crate::alarms::{Alarms, Cause};
use crate::balance::Balance;
use crate::bank::Daemons;
use crate::buffers::Buffers;
use crate::files::Files;
use crate::late::{self, About};
use crate::openers::Openers;
use crate::peers::Absent;
use crate::placement_rules::PlacementRules;
use crate::residency::Asking;
use crate::steps::{self, Steps};
use crate::store::{Store, Tier};
use crate::tickets::{Tickets, Waiting};
use crate::trace::{StoreSpan, Trace};
use crate::views::{Following, Newest};
use crate::workers::{self, Job, Queue, raw};
use crate::write_rings::WriteRings;
use hearth_bank::Asked;
use hearth_client::words::counted;
use hearth_client::{Errno, Revoker};
use hearth_net::{Anew, Transport};
use hearth_proto::bank::{BankLost, BankOp};
use hearth_proto::effect::Alarm;
use hearth_proto::{
    Buf, Effect, FileId, Input, Member, Node, NodeId, Request, RevokeId, StoreOk, StoreOpId,
    Ticket, Time, Writes,
};
use hearth_shm::Pool;
use hearth_views::membership::MemberKey;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Instant;

/// No deadline.
const NEVER: u64 = u64::MAX;

/// One agent's inside.
pub(crate) struct Core {
    pub(crate) state: Mutex<State>,
    pub(crate) pool: Pool,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tier: Option<Arc<Tier>>,
    pub(crate) root: Arc<OwnedFd>,
    pub(crate) queue: Queue,
    /// A session's thread is at the store for its own write.
    writes_itself: AtomicBool,
    pub(crate) transport: OnceLock<Arc<dyn Transport>>,
    pub(crate) bank: OnceLock<Daemons>,
    /// There are none where the members never change.
    pub(crate) views: OnceLock<Arc<dyn Following>>,
    pub(crate) kernel_cache: bool,
    /// The members may change.
    pub(crate) has_views: bool,
    /// All agents of the set end; set by the control thread, read by the one that ends this agent.
    pub(crate) all_end: AtomicBool,
    /// Bytes of other homes are kept here.
    pub(crate) keeps_for_others: bool,
    pub(crate) placement_rules: PlacementRules,
    pub(crate) asking: Asking,
    /// Wakes the thread that brings what programs have left.
    pub(crate) waker: Condvar,
    started: Instant,
    /// When the transport's thread will call the timer at the latest, in kernel time.
    armed: AtomicU64,
    this: Weak<Core>,
}

/// The state that the lock protects.
pub(crate) struct State {
    pub(crate) member: Member,
    pub(crate) buffers: Buffers,
    pub(crate) tickets: Tickets,
    pub(crate) files: Files,
    pub(crate) openers: Openers,
    pub(crate) revoker: Option<Arc<dyn Revoker>>,
    pub(crate) alarms: Alarms,
    pub(crate) up: Vec<bool>,
    /// How each agent went that was connected and is not.
    pub(crate) absent: Vec<Option<Absent>>,
    /// Which life of each agent was met last.
    pub(crate) lives: Vec<u64>,
    /// The word of each connected agent about the newest view.
    pub(crate) newest_views: Vec<Option<Newest>>,
    /// A member that is kept apart from this one, as one of the two runs anew.
    pub(crate) anew: Option<(u32, Anew)>,
    /// Lives that are over for certain, as those that took their places have said before this one knew of members.
    pub(crate) dead: BTreeSet<MemberKey>,
    /// The name of its node.
    pub(crate) called: String,
    /// The place where a front end shows the store.
    pub(crate) mounted: Option<String>,
    pub(crate) trace: Trace,
    pub(crate) write_rings: WriteRings,
    pub(crate) balance: Balance,
    /// The maker of the store writes of this turn.
    pub(crate) writer: Writer,
    pub(crate) steps: Steps,
    outbox: Vec<Effect>,
}

/// The maker of the store writes of a turn.
#[derive(Default)]
pub(crate) enum Writer {
    #[default]
    Workers,
    /// The thread that takes the turn makes the first.
    Session,
    /// This one.
    Chosen(Box<Job>),
}

/// Work that may only happen once the lock is free.
pub(crate) enum After {
    Disconnect(NodeId),
    Revoke(RevokeId, FileId, Option<(u64, u32)>),
    BankLost(BankOp),
    Bank(Vec<Asked>),
    HandOver(FileId, NodeId),
    Directed(Ticket),
}

impl Core {
    pub(crate) fn new(
        node: Node,
        pool: Pool,
        (store, tier): (Arc<dyn Store>, Option<Arc<Tier>>),
        (files, placement_rules): (Files, PlacementRules),
        (kernel_cache, balance): (bool, Balance),
    ) -> Arc<Core> {
        let nodes = node.config().nodes as usize;
        let has_views = node.config().goes_on;
        let keeps_for_others = node.config().has_replicas();
        let root = Arc::clone(files.root());
        let state = State {
            member: Member::new(node),
            buffers: Buffers::default(),
            tickets: Tickets::default(),
            files,
            openers: Openers::default(),
            revoker: None,
            alarms: Alarms::default(),
            anew: None,
            dead: BTreeSet::new(),
            up: vec![false; nodes],
            absent: vec![None; nodes],
            lives: vec![0; nodes],
            newest_views: (0..nodes).map(|_| None).collect(),
            called: String::new(),
            mounted: None,
            trace: Trace::default(),
            write_rings: WriteRings::default(),
            balance,
            writer: Writer::Workers,
            steps: Steps::default(),
            outbox: Vec::new(),
        };
        Arc::new_cyclic(|this| Core {
            state: Mutex::new(state),
            pool,
            store,
            tier,
            root,
            queue: Queue::default(),
            writes_itself: AtomicBool::new(false),
            transport: OnceLock::new(),
            bank: OnceLock::new(),
            views: OnceLock::new(),
            kernel_cache,
            has_views,
            all_end: AtomicBool::new(false),
            keeps_for_others,
            placement_rules,
            asking: Asking::default(),
            waker: Condvar::new(),
            started: Instant::now(),
            armed: AtomicU64::new(NEVER),
            this: this.clone(),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock leaves the kernel in the middle of a step: go down with it.
        self.state.lock().unwrap_or_else(|_| std::process::abort())
    }

    /// Tells the kernel a fact and carries out what it orders.
    pub(crate) fn drive(&self, input: Input) {
        self.drive_with(|_| input);
    }

    /// As [`Core::drive`], with a fact that is made under the lock.
    pub(crate) fn drive_with(&self, input: impl FnOnce(&mut State) -> Input) {
        self.drive_each([input]);
    }

    /// Several facts, one after another, of which nobody needs to hear before the last is told.
    pub(crate) fn drive_each<F: FnOnce(&mut State) -> Input>(
        &self,
        inputs: impl IntoIterator<Item = F>,
    ) {
        self.turn(|state, after| {
            for input in inputs {
                let input = input(state);
                self.step(state, input, after);
            }
        });
    }

    /// As [`Core::drive_with`], for a write. If it is passed to the store before it is answered, this thread makes the
    /// store write, provided that it is due at once: two threads fewer have to wake. One thread of the front ends at a
    /// time does so; however slow the store is, the others stay free.
    pub(crate) fn drive_write(&self, input: impl FnOnce(&mut State) -> Input) {
        let (may, writer) = self.turn(|state, after| {
            let passes = state.node().config().rules().writes == Writes::AtGateway;
            let may = passes && !self.writes_itself.swap(true, Ordering::AcqRel);
            if may {
                state.writer = Writer::Session;
            }
            let input = input(state);
            self.step(state, input, after);
            (may, std::mem::take(&mut state.writer))
        });
        if let Writer::Chosen(job) = writer {
            workers::run(self, *job);
        }
        if may {
            self.writes_itself.store(false, Ordering::Release);
        }
    }

    /// Does steps under the lock, and what follows from them when it is free.
    pub(crate) fn turn<R>(&self, steps: impl FnOnce(&mut State, &mut Vec<After>) -> R) -> R {
        let mut after = Vec::new();
        let mut state = self.lock();
        self.shut(&mut state, &mut after);
        let result = steps(&mut state, &mut after);
        self.end_turn(state, after);
        result
    }

    /// Ends a turn: does the work that follows a step, or several.
    pub(crate) fn end_turn(&self, mut state: MutexGuard<'_, State>, mut after: Vec<After>) {
        self.open(&mut state);
        let State {
            balance, member, ..
        } = &mut *state;
        let due = balance.due(|| self.now(), member.node());
        after.extend(due.map(|(file, heir)| After::HandOver(file, heir)));
        state.trace_step_over();
        let State { files, member, .. } = &mut *state;
        let node = member.node();
        let crowd = match files.is_crowded() {
            true => files.let_go(|file| node.owes(file)),
            false => Vec::new(),
        };
        let unused = files.unused();
        let dues = [
            state.member.deadline(),
            state.tickets.deadline(),
            state.openers.deadline(),
        ];
        let due = dues.into_iter().flatten().min();
        let due = due.map_or(NEVER, |time| time.0);
        drop(state);
        drop((crowd, unused));
        self.arm(due);
        self.follow(after);
    }

    pub(crate) fn step(&self, state: &mut State, input: Input, after: &mut Vec<After>) {
        let mut outbox = std::mem::take(&mut state.outbox);
        let (kind, began) = (steps::kind_of(&input), self.now());
        if let Input::Request(ticket, request) = &input {
            let State { tickets, files, .. } = state;
            tickets.begin(began, *ticket, || About::new(began, request, files));
        }
        state.member.step(began, input, &mut outbox);
        for effect in outbox.drain(..) {
            self.carry(state, effect, after);
        }
        state.outbox = outbox;
        if let Some(told) = state.steps.note(kind, began, self.now()) {
            let over = self.now() + steps::TOLD_FOR;
            state.alarms.raise_until(Cause::Busy, told, over);
        }
    }

    fn follow(&self, after: Vec<After>) {
        for order in after {
            match order {
                After::Disconnect(peer) => match self.views.get() {
                    Some(views) => views.silent(peer),
                    None => self.disconnect(peer, "it owes an answer and has been silent too long"),
                },
                After::Revoke(id, file, pages) => self.revoke(id, file, pages),
                After::BankLost(op) => self.drive(Input::BankDone(op, Err(BankLost))),
                After::Bank(orders) => self.give_orders(orders),
                After::Directed(ticket) => self.directed(ticket),
                After::HandOver(file, heir) => self.drive_with(|state| {
                    let ticket = state.tickets.add(Waiting::HandOver(file));
                    Input::Request(ticket, Request::HandOver { file, heir })
                }),
            }
        }
    }

    /// Files are current here until then, by the clock that counts from the machine's start. Programs that read this agent's
    /// memory by themselves have to know.
    pub(crate) fn leased_until(&self, until: u64) {
        self.pool.lease_until(until);
    }

    /// Returns once others cannot have gone on without this agent; at once as a rule.
    pub(crate) fn await_lease(&self) {
        if let Some(views) = self.views.get() {
            views.await_lease();
        }
    }

    /// The driver has done at the store what the kernel ordered.
    pub(crate) fn directed(&self, ticket: Ticket) {
        if self.has_views {
            self.drive(Input::Directed(ticket));
        }
    }

    pub(crate) fn disconnect(&self, peer: NodeId, why: &str) {
        if let Some(transport) = self.transport.get() {
            transport.disconnect(hearth_net::PeerId(peer.0), why);
        }
    }

    /// Makes sure that the timer fires at `due`. It may fire earlier: a deadline that was given up
    /// is not taken back, which costs one idle turn instead of one wake-up per request.
    fn arm(&self, due: u64) {
        if due < self.armed.load(Ordering::Acquire)
            && self.armed.fetch_min(due, Ordering::AcqRel) > due
            && let Some(transport) = self.transport.get()
        {
            transport.wake();
        }
    }

    /// When the timer is due.
    pub(crate) fn armed(&self) -> Option<Instant> {
        match self.armed.load(Ordering::Acquire) {
            NEVER => None,
            nanos => Some(self.started + std::time::Duration::from_nanos(nanos)),
        }
    }

    /// The timer fired.
    pub(crate) fn tick(&self) {
        self.armed.store(NEVER, Ordering::Release);
        self.turn(|state, after| {
            self.step(state, Input::Tick, after);
            for peer in state.openers.due(self.now()) {
                self.step(state, Input::Wanted(peer), after);
            }
            late::look(state, self.now());
        });
    }

    /// A store read into a buffer ended; what the file does not have is zero.
    pub(crate) fn store_filled(
        &self,
        (op, span): (StoreOpId, StoreSpan),
        buf: Buf,
        len: u32,
        read: Result<Vec<u8>, Errno>,
    ) {
        self.drive_with(|state| {
            let bytes = read.as_ref().map(|bytes| bytes.len() as u64);
            span.end(state, op, bytes.map_err(|errno| raw(*errno)));
            let result = read.map(|mut bytes| {
                let count = bytes.len() as u32;
                bytes.resize(len as usize, 0);
                state.buffers.insert(buf, bytes);
                StoreOk {
                    bytes: count,
                    ..StoreOk::default()
                }
            });
            Input::StoreDone(op, result.map_err(raw))
        });
    }

    pub(crate) fn now(&self) -> Time {
        Time(self.started.elapsed().as_nanos() as u64)
    }

    /// Starts the store workers, and that of the tier.
    pub(crate) fn start_workers(&self) -> std::io::Result<Vec<std::thread::JoinHandle<()>>> {
        let tier = self.tier.clone().map(|tier| {
            let core = self.this.clone();
            tier.heed(Box::new(move || {
                if let Some(core) = core.upgrade() {
                    core.await_lease();
                }
            }));
            let named = std::thread::Builder::new().name("tier".to_owned());
            named.spawn(move || tier.work())
        });
        let stores = (0..workers::WORKERS).map(|number| {
            let core = self.arc();
            std::thread::Builder::new()
                .name(format!("store-{number}"))
                .spawn(move || workers::work(&core))
        });
        tier.into_iter().chain(stores).collect()
    }

    /// This core, for a thread or completion that outlives the call.
    pub(crate) fn arc(&self) -> Arc<Core> {
        self.this
            .upgrade()
            .expect("a core is only used through its Arc")
    }
}

impl State {
    /// The kernel of the present view.
    pub(crate) fn node(&self) -> &Node {
        self.member.node()
    }

    fn has_left(&self, node: NodeId) -> bool {
        let absent = self.absent.get(node.0 as usize).copied().flatten();
        matches!(absent, Some(Absent::Left(_)))
    }

    /// Notes an alarm of the kernel.
    pub(crate) fn alarm_of(&mut self, alarm: Alarm) {
        let name = |state: &mut State, file| state.files.name(file);
        let cause = match alarm {
            Alarm::FlushFails(file, _) => Cause::Refused(file),
            Alarm::BytesDropped(..) => Cause::Dropped,
            // One that left in order had brought all that it had.
            Alarm::NodeLost(node) | Alarm::HomeLost(_, node) if self.has_left(node) => return,
            Alarm::BytesLost(..) | Alarm::NodeLost(_) | Alarm::HomeLost(..) => Cause::Loss,
        };
        let text = match alarm {
            Alarm::FlushFails(file, errno) => {
                let why = std::io::Error::from_raw_os_error(errno);
                format!(
                    "cannot write {} to the store: {why}; will try again",
                    name(self, file)
                )
            }
            Alarm::BytesDropped(file, bytes) => {
                format!(
                    "dropped {} of {} that the store did not take",
                    counted(bytes, "byte"),
                    name(self, file)
                )
            }
            Alarm::BytesLost(file, node) => {
                let name = name(self, file);
                format!(
                    "agent {} is gone with bytes of {name} that it had not flushed",
                    node.0
                )
            }
            Alarm::NodeLost(node) => {
                let kept = match self.node().config().replicas_rule().shards() {
                    Some(_) => "neither sealed nor brought",
                    None => "not brought",
                };
                format!(
                    "agent {} is gone: what it had of files and had {kept} to the store is lost",
                    node.0
                )
            }
            Alarm::HomeLost(file, node) => {
                let name = name(self, file);
                format!(
                    "agent {} is gone: what it had of {name} and neither brought to the store nor sent to other agents is lost",
                    node.0
                )
            }
        };
        self.alarms.raise(cause, text);
    }
}
