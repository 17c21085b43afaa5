//! The members of the set, as they change: this agent's part in the log of views.
//!
//! ```text
//!   lease    renews this agent's lease; without one no session is served and nothing is written
//!   watch    tells the kernel of each view, once every excluded agent is fenced
//!   suspect  proposes to exclude agents that are silent, and a new view after a connection broke
//! ```
//!
//! Each is a thread. None of them holds the lock around the kernel while it waits.
//!
//! An agent that is excluded ends at once: others have gone on without it. The store knows no fence, so an exclusion
//! waits until what the excluded agent had on its way there has ended ([`FENCE_SPAN`]).

mod clock;
mod joining;
mod lease;
mod spans;
mod suspect;
mod watch;
mod wire;

use crate::config::AgentSettings;
use crate::core::Core;
use crate::status::ViewStatus;
use clock::BootClock;
use hearth_proto::{NodeId, Replicas};
use hearth_views::log::CallOff;
use hearth_views::membership::{
    FailureDomain, Incarnation, LossesBorne, MemberId, MemberKey, MemberRecord, Membership,
    ViewRefusal,
};
use hearth_views::raft::{Embedded, EmbeddedConfig, EmbeddedError, LeaseProbe, VOTERS_MAX};
pub(crate) use joining::{Beginning, Newest};
use lease::Lease;
use spans::Spans;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use suspect::Suspects;
use watch::Told;
use wire::Wire;

/// By then a store operation that an agent had begun before its lease ran out has taken effect.
const FENCE_SPAN: Duration = Duration::from_millis(500);

/// An agent that leaves waits no longer for the others: what it had is in the store by then.
const LEAVE_SPAN: Duration = Duration::from_secs(3);

/// The log of views, as the rest of an agent knows it. An agent whose members never change has none, nor the code of one.
pub(crate) trait Following: Send + Sync {
    /// An agent is connected.
    fn up(&self, peer: NodeId);
    /// An agent is not connected any more.
    fn down(&self, peer: NodeId);
    /// An agent owes an answer, and is silent.
    fn silent(&self, peer: NodeId);
    /// Another agent's log asks this one's.
    fn asked(&self, core: &Arc<Core>, from: NodeId, head: &[u8], request: Vec<u8>);
    /// Another agent's log has answered.
    fn answered(&self, core: &Core, from: NodeId, head: &[u8], answer: Vec<u8>);
    /// The newest view that this agent knows, as bytes.
    fn newest_view(&self) -> Vec<u8>;
    /// The same view, for people.
    fn view(&self) -> ViewStatus;
    /// A life of an agent is over, and nothing of it is on its way to the store.
    fn died(&self, peer: u32, life: u64);
    /// True if an agent is no member, nor has to be fenced.
    fn is_over(&self, peer: u32) -> bool;
    /// Returns once others cannot have gone on without this agent; at once as a rule.
    fn await_lease(&self);
    /// Leaves in order: the others go on at once, with all that this agent has. Returns when they have, or after a while.
    fn leave(&self, core: &Core);
    /// Ends all that waits here.
    fn end(&self);
}

/// Why there are no views.
#[derive(Debug, thiserror::Error)]
pub enum NoViews {
    /// The members make no view.
    #[error(transparent)]
    Refused(#[from] ViewRefusal),
    /// The log does not start.
    #[error(transparent)]
    Log(#[from] EmbeddedError),
    /// A thread does not start.
    #[error("cannot start a thread")]
    Thread(#[from] std::io::Error),
    /// The members do not take this agent.
    #[error(
        "the other agents did not take this one as a member within {} s: they decide by majority, and first go on without its earlier life",
        .0.as_secs()
    )]
    NotTaken(Duration),
    /// None of them could, ever.
    #[error("all agents that were members have died: those that took their places begin a new set")]
    NobodyLeft,
}

/// This agent's part in the log.
pub(crate) struct Views {
    log: Embedded,
    me: MemberKey,
    /// How many agents vote at most.
    seats: usize,
    wire: Arc<Wire>,
    spans: Spans,
    lease: Arc<Lease>,
    /// The last attempt to renew it failed.
    is_unrenewed: AtomicBool,
    /// Rings soon after the lease is over.
    alarm: Option<Arc<OwnedFd>>,
    call_off: CallOff,
    suspects: Mutex<Suspects>,
    leaves: AtomicBool,
    newest: Mutex<Arc<Membership>>,
}

impl Views {
    /// Begins in the first view, or becomes a member after another.
    pub(crate) fn start(
        core: &Arc<Core>,
        config: &AgentSettings,
        (lease, beginning): (Duration, Beginning),
    ) -> Result<Arc<Views>, NoViews> {
        let (life, dead) = {
            let mut state = core.lock();
            let dead = std::mem::take(&mut state.dead);
            (state.lives[config.node as usize], dead)
        };
        let me = record(config, (config.node, life)).key;
        let (view, voters) = match beginning {
            Beginning::First(lives) => {
                let first = first_view(config, &lives)?;
                let keys = first.keys().into_iter().take(seats(config));
                (Arc::new(first.clone()), keys.collect())
            }
            Beginning::After(view) => (view, Vec::new()),
        };
        let wire = Arc::new(Wire::new(core));
        let spans = Spans { lease };
        let alarm = config.lease_alarm.clone();
        let seats = seats(config);
        let own = Arc::<Lease>::default();
        let probed = Arc::clone(&own);
        let config = EmbeddedConfig {
            me,
            voters,
            seats,
            terms: spans.terms(),
            heartbeat: spans.heartbeat(),
            holds: LeaseProbe(Arc::new(move || probed.holds())),
        };
        let first = Membership::clone(&view);
        let log = Embedded::start(config, first, Arc::clone(&wire) as _, Arc::new(BootClock))?;
        Ok(Arc::new(Views {
            log,
            me,
            seats,
            wire,
            spans,
            lease: own,
            is_unrenewed: AtomicBool::new(false),
            alarm,
            call_off: CallOff::default(),
            suspects: Mutex::new(Suspects::knowing(dead)),
            leaves: AtomicBool::new(false),
            newest: Mutex::new(view),
        }))
    }

    /// Becomes a member if it is none, and does a member's work from then on.
    pub(crate) fn follow(
        self: &Arc<Views>,
        core: &Arc<Core>,
        config: &AgentSettings,
    ) -> Result<Vec<JoinHandle<()>>, NoViews> {
        let begun = self.newest();
        let told = match begun.has(self.me) {
            true if config.tier.is_some() => {
                let mut told = Told::nothing(begun.number());
                self.viewed(core, &begun, &mut told);
                told
            }
            true => Told::of(&begun),
            false => {
                core.begin_without_view();
                let me = record(config, (self.me.id.0, self.me.incarnation.0));
                self.join(core, &me, config.join_span)?;
                Told::nothing(begun.number())
            }
        };
        self.lease.begin();
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let (of_lease, of_watch, of_suspects) =
            (Arc::clone(self), Arc::clone(self), Arc::clone(self));
        let [leased, watching, suspecting] = [core, core, core].map(Arc::clone);
        core.leased_until(0);
        let threads = vec![
            named("views-lease").spawn(move || of_lease.keep_lease(&leased))?,
            named("views-watch").spawn(move || of_watch.watch(&watching, told))?,
            named("views-suspect").spawn(move || of_suspects.suspect(&suspecting))?,
        ];
        self.await_tiers(core, config);
        Ok(threads)
    }

    /// Returns when all have recovered their tiers, or after a while: the stamp of a file that is opened before may be old.
    fn await_tiers(&self, core: &Core, config: &AgentSettings) {
        let begun = Instant::now();
        let is_going_over = || core.lock().member.stage().is_some();
        while config.tier.is_some() && begun.elapsed() < config.join_span && is_going_over() {
            self.rest(Duration::from_millis(5));
        }
    }

    fn suspects(&self) -> MutexGuard<'_, Suspects> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn newest(&self) -> Arc<Membership> {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&newest)
    }

    /// This agent leaves in order.
    fn leaves(&self) -> bool {
        self.leaves.load(Ordering::Acquire)
    }

    /// Others have gone on without this agent: nothing that it has counts any more.
    #[expect(
        clippy::disallowed_methods,
        reason = "nothing may be brought in order: it would overwrite what others have written since"
    )]
    fn excluded(&self) -> ! {
        log::error!(
            "the other agents have gone on without this one: it was silent for longer than its lease of {} s",
            self.spans.lease.as_secs_f32()
        );
        std::process::exit(1);
    }
}

impl Following for Views {
    fn up(&self, peer: NodeId) {
        self.suspects().up(peer.0);
    }

    fn down(&self, peer: NodeId) {
        self.wire.broken(peer.0);
        self.log.broken(MemberId(peer.0));
        self.suspects().down(peer.0);
    }

    fn silent(&self, peer: NodeId) {
        self.suspects().silent(peer.0);
    }

    fn asked(&self, core: &Arc<Core>, from: NodeId, head: &[u8], request: Vec<u8>) {
        let Ok(number) = head.try_into().map(u64::from_le_bytes) else {
            return core.disconnect(from, "it sent a torn question about views");
        };
        self.log.hear(request, wire::answer_to(core, from, number));
    }

    fn answered(&self, core: &Core, from: NodeId, head: &[u8], answer: Vec<u8>) {
        match head.try_into().map(u64::from_le_bytes) {
            Ok(number) => self.wire.answered(from.0, number, answer),
            Err(_) => core.disconnect(from, "it sent a torn answer about views"),
        }
    }

    fn newest_view(&self) -> Vec<u8> {
        hearth_views::wire::view_bytes(&self.newest())
    }

    fn view(&self) -> ViewStatus {
        let newest = self.newest();
        let members = newest.members().map(|member| member.record.key.id.0);
        ViewStatus {
            number: newest.number().0,
            members: members.collect(),
            lacks_lease: !self.lease.holds(),
            ..ViewStatus::default()
        }
    }

    fn died(&self, peer: u32, life: u64) {
        self.suspects().died(key(peer, life));
    }

    fn is_over(&self, peer: u32) -> bool {
        let view = self.newest();
        let is_unfenced = view.unfenced().any(|one| one.record.key.id.0 == peer);
        !is_unfenced && view.member(MemberId(peer)).is_none()
    }

    fn await_lease(&self) {
        self.lease.await_it();
    }

    fn leave(&self, core: &Core) {
        self.leaves.store(true, Ordering::Release);
        self.leave_within(core, LEAVE_SPAN);
    }

    fn end(&self) {
        self.call_off.call_off();
        self.lease.end();
    }
}

/// How many agents vote: an odd number.
fn seats(config: &AgentSettings) -> usize {
    let seats = config.members.len().min(VOTERS_MAX);
    seats - (seats + 1) % 2
}

fn key(id: u32, life: u64) -> MemberKey {
    MemberKey {
        id: MemberId(id),
        incarnation: Incarnation(life),
    }
}

/// An agent's life, as a member.
fn record(config: &AgentSettings, (id, life): (u32, u64)) -> MemberRecord {
    MemberRecord {
        key: key(id, life),
        address: config.members[id as usize].to_string(),
        domain: FailureDomain(id.to_string()),
    }
}

/// The view that all agents of the set begin with.
fn first_view(config: &AgentSettings, lives: &[u64]) -> Result<Membership, ViewRefusal> {
    let lives = (0..).zip(lives.iter().copied());
    let records: Vec<MemberRecord> = lives.map(|life| record(config, life)).collect();
    let borne = match config.replicas {
        // A death costs what was not in the store, however many die; a majority decides.
        Replicas::None => records.len().saturating_sub(1),
        Replicas::Async(copies) | Replicas::Sync(copies) => usize::from(copies),
        Replicas::Erasure(_, parity) => usize::from(parity),
    };
    let borne = LossesBorne(u16::try_from(borne).unwrap_or(u16::MAX));
    Membership::found_with(&records, borne)
}
