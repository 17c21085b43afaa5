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
mod lease;
mod suspect;
mod watch;
mod wire;

use crate::config::AgentSettings;
use crate::core::Core;
use clock::BootClock;
use hearth_proto::{NodeId, Replicas};
use hearth_views::lease::{DriftPpm, LeaseTerms, LocalSpan};
use hearth_views::log::CallOff;
use hearth_views::membership::{
    FailureDomain, Fingerprint, Incarnation, LossesBorne, MemberId, MemberKey, MemberRecord,
    MemberWeight, Membership, Salt, ViewRefusal,
};
use hearth_views::raft::{Embedded, EmbeddedConfig, EmbeddedError, VOTERS_MAX};
use lease::Lease;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use suspect::Suspects;
use watch::Told;
use wire::Wire;

/// The granter's term of a lease, and so the least time that a death stops writes for.
const LEASE_SPAN: Duration = Duration::from_secs(4);

/// Terms of all leases; clocks may drift apart by a tenth of a percent.
const TERMS: LeaseTerms = LeaseTerms {
    granted: LocalSpan(LEASE_SPAN.as_nanos() as u64),
    drift: DriftPpm(1000),
};

/// By then a store operation that an agent had begun before its lease ran out has taken effect.
const FENCE_SPAN: Duration = Duration::from_millis(500);

/// How often a coordinator is heard of.
const HEARTBEAT: Duration = Duration::from_millis(250);

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
    /// Returns once others cannot have gone on without this agent; at once as a rule.
    fn await_lease(&self);
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
}

/// This agent's part in the log.
pub(crate) struct Views {
    log: Embedded,
    me: MemberKey,
    wire: Arc<Wire>,
    lease: Lease,
    call_off: CallOff,
    suspects: Mutex<Suspects>,
    newest: Mutex<Arc<Membership>>,
}

impl Views {
    /// Begins with all agents of the set, each in the life that the others have met.
    pub(crate) fn start(
        core: &Arc<Core>,
        config: &AgentSettings,
        lives: &[u64],
    ) -> Result<(Arc<Views>, Vec<JoinHandle<()>>), NoViews> {
        let first = first_view(config, lives)?;
        let keys: Vec<MemberKey> = first.keys().into_iter().collect();
        let me = keys[config.node as usize];
        let wire = Arc::new(Wire::new(core));
        let views = Arc::new(Views {
            log: log_of(&first, (me, &keys), &wire)?,
            me,
            wire,
            lease: Lease::default(),
            call_off: CallOff::default(),
            suspects: Mutex::default(),
            newest: Mutex::new(Arc::new(first.clone())),
        });
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let (of_lease, of_watch, of_suspects) =
            (Arc::clone(&views), Arc::clone(&views), Arc::clone(&views));
        let (watching, suspecting) = (Arc::clone(core), Arc::clone(core));
        let threads = vec![
            named("views-lease").spawn(move || of_lease.keep_lease())?,
            named("views-watch").spawn(move || of_watch.watch(&watching, Told::of(&first)))?,
            named("views-suspect").spawn(move || of_suspects.suspect(&suspecting))?,
        ];
        Ok((views, threads))
    }

    fn suspects(&self) -> MutexGuard<'_, Suspects> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn newest(&self) -> Arc<Membership> {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&newest)
    }

    /// Others have gone on without this agent: nothing that it has counts any more.
    #[expect(
        clippy::disallowed_methods,
        reason = "nothing may be brought in order: it would overwrite what others have written since"
    )]
    fn excluded(&self) -> ! {
        log::error!(
            "the other agents have gone on without this one: it was silent for longer than its lease of {} s",
            LEASE_SPAN.as_secs()
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

    fn await_lease(&self) {
        self.lease.await_it();
    }

    fn end(&self) {
        self.call_off.call_off();
        self.lease.end();
    }
}

/// The log of a set of so many.
fn log_of(
    first: &Membership,
    (me, keys): (MemberKey, &[MemberKey]),
    wire: &Arc<Wire>,
) -> Result<Embedded, EmbeddedError> {
    let clock = Arc::new(BootClock);
    let wire = Arc::clone(wire);
    let voters = keys.len().min(VOTERS_MAX);
    let config = EmbeddedConfig {
        me,
        voters: keys[..voters - (voters + 1) % 2].to_vec(),
        terms: TERMS,
        heartbeat: HEARTBEAT,
    };
    Embedded::start(config, first.clone(), wire, clock)
}

/// The view that all agents of the set begin with.
fn first_view(config: &AgentSettings, lives: &[u64]) -> Result<Membership, ViewRefusal> {
    let record = |(id, &life): (u32, &u64)| MemberRecord {
        key: MemberKey {
            id: MemberId(id),
            incarnation: Incarnation(life),
        },
        address: config.members[id as usize].to_string(),
        domain: FailureDomain(id.to_string()),
        weight: MemberWeight(1),
        fingerprint: Fingerprint(Vec::new()),
    };
    let records: Vec<MemberRecord> = (0..).zip(lives).map(record).collect();
    let borne = match config.replicas {
        // A death costs what was not in the store, however many die; a majority decides.
        Replicas::None => records.len().saturating_sub(1),
        Replicas::Async(copies) | Replicas::Sync(copies) => usize::from(copies),
        Replicas::Erasure(_, parity) => usize::from(parity),
    };
    let borne = LossesBorne(u16::try_from(borne).unwrap_or(u16::MAX));
    Membership::found_with(&records, Salt(0), borne)
}
