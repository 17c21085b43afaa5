//! The gateway's list: which daemons it trusts, under which epoch, and whom it has told.
//!
//! ```text
//!          up: next epoch               lost: clients are told
//!   away ─────────────────▶ trusted ─────────────────────────▶ leaving
//!    ▲                         ▲    all know, it is up again      │
//!    │                         └──────────────────────────────────┤
//!    └────────────────────────────────────────────────────────────┘
//!                       all know, or their leases ran out
//! ```
//!
//! Invariants:
//! - LIST-1 (BANK-3): an epoch is given once, and is above every earlier one of the daemon here, also those of
//!   earlier lives of this node.
//! - LIST-2 (BANK-4): while a client may ask under an epoch, the daemon is trusted under it, or leaving and
//!   the client is awaited until its lease has run out here. A lease runs longer here than there.
//! - LIST-3: a life that follows another treats every daemon as leaving, and tells every node it meets so,
//!   until all have confirmed or that life's leases can last no longer.
//! - LIST-4: in each view epochs are above those of every earlier one. All clients begin anew with the view, so nobody
//!   is awaited.

use super::{Daemon, Epoch};
use crate::config::{Config, Unreachable};
use crate::ctx::Ctx;
use crate::guard::Guard;
use crate::ids::{FileId, Gen, NodeId, ReqId};
use crate::msg::Body;
use crate::time::{Span, Time};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Share of a lease that the gateway adds to it: clocks drift by less than half of this.
const DRIFT: u64 = 500;

/// Epochs of a view, as a power of two. A life with more of them goes on counting.
const VIEW_EPOCHS: u32 = 12;

/// The gateway's view of a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nobody asks it for anything: every epoch is over.
    Away,
    /// Entries of this epoch count.
    Trusted(Epoch),
    /// It does not answer, and some client may still ask it.
    Leaving,
}

/// A client that may still ask under an epoch that ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Awaited {
    /// Number of the request that tells it.
    seq: u64,
    until: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Away,
    Trusted,
    Leaving {
        awaiting: BTreeMap<NodeId, Awaited>,
        /// Entries of an earlier life may count, of which nothing is noted.
        inherited: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    /// The last epoch that was given.
    epoch: Epoch,
    /// The driver has a connection.
    up: bool,
    state: State,
}

/// The daemons as one gateway sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct List {
    daemons: Vec<Entry>,
    /// Until when each client may ask; at most one for each node.
    leases: BTreeMap<NodeId, Time>,
    /// Daemons of which every epoch is over since this was last asked.
    over: Vec<Daemon>,
}

/// A lease on the gateway's clock.
fn term(config: &Config) -> Span {
    let lease = config.bank.lease.0;
    Span(lease + lease / DRIFT + 1)
}

impl List {
    /// The first fact of a life.
    pub(crate) fn begin(&mut self, config: &Config, now: Time) {
        if !self.daemons.is_empty() || config.rules().bank.is_none() {
            return;
        }
        let until = now + term(config);
        let others = (0..config.nodes).map(NodeId).filter(|&n| n != config.me);
        let awaiting: BTreeMap<NodeId, Awaited> = others
            .map(|node| (node, Awaited { seq: 0, until }))
            .collect();
        let state = match config.bank.rejoins && !awaiting.is_empty() {
            true => State::Leaving {
                awaiting,
                inherited: true,
            },
            false => State::Away,
        };
        let entry = Entry {
            epoch: Epoch(config.incarnation << 32),
            up: false,
            state,
        };
        self.daemons = alloc::vec![entry; config.bank.daemons as usize];
    }

    /// A view begins: what daemons have is of earlier ones.
    pub(crate) fn renew(&mut self, config: &Config) {
        self.leases.clear();
        self.over.clear();
        let first = Epoch((config.incarnation << 32) + (u64::from(config.view.0) << VIEW_EPOCHS));
        for entry in &mut self.daemons {
            entry.state = State::Away;
            entry.epoch = entry.epoch.max(first);
            if entry.up {
                entry.trust(config);
            }
        }
    }

    pub(crate) fn standing(&self, daemon: Daemon) -> Standing {
        match self.daemons.get(daemon.0 as usize) {
            Some(entry) => match entry.state {
                State::Away => Standing::Away,
                State::Trusted => Standing::Trusted(entry.epoch),
                State::Leaving { .. } => Standing::Leaving,
            },
            None => Standing::Away,
        }
    }

    /// Daemons that may hold entries of an earlier life which clients still ask for.
    pub(crate) fn inherited(&self) -> Vec<Daemon> {
        let inherited = |entry: &Entry| {
            matches!(
                entry.state,
                State::Leaving {
                    inherited: true,
                    ..
                }
            )
        };
        let numbered = (0..).map(Daemon).zip(&self.daemons);
        numbered
            .filter(|(_, entry)| inherited(entry))
            .map(|(daemon, _)| daemon)
            .collect()
    }

    /// Epochs of trusted daemons, for people and tests.
    pub(crate) fn epochs(&self) -> Vec<Epoch> {
        let epoch = |entry: &Entry| match entry.state {
            State::Trusted => entry.epoch,
            State::Away | State::Leaving { .. } => Epoch::NONE,
        };
        self.daemons.iter().map(epoch).collect()
    }

    /// The daemon can be reached.
    pub(crate) fn up(&mut self, config: &Config, daemon: Daemon) {
        if let Some(entry) = self.daemons.get_mut(daemon.0 as usize) {
            entry.up = true;
            if entry.state == State::Away {
                entry.trust(config);
            }
        }
    }

    /// An order of an epoch was lost, or the connection under it.
    pub(crate) fn lost(ctx: &mut Ctx<'_>, daemon: Daemon, epoch: Epoch) {
        let Some(entry) = ctx.bank.daemons.get_mut(daemon.0 as usize) else {
            return;
        };
        if entry.epoch != epoch {
            return;
        }
        entry.up = false;
        if entry.state != State::Trusted {
            return;
        }
        let waits = match ctx.config.rules().bank.map(|bank| bank.unreachable) {
            Some(Unreachable::Lease) => ctx.config.keeps(Guard::LeaseWaited),
            Some(Unreachable::GiveUp) | None => false,
        };
        let now = ctx.now;
        let holders: Vec<(NodeId, Time)> = (ctx.bank.leases.iter())
            .filter(|&(_, &until)| until > now && waits)
            .map(|(&client, &until)| (client, until))
            .collect();
        let mut awaiting = BTreeMap::new();
        for (client, until) in holders {
            let body = Body::BankOver { daemon, epoch };
            let seq = ctx.ask(client, FileId::default(), Gen::default(), body).seq;
            awaiting.insert(client, Awaited { seq, until });
        }
        ctx.bank.daemons[daemon.0 as usize].state = State::Leaving {
            awaiting,
            inherited: false,
        };
        List::conclude(ctx);
    }

    /// A node can be reached: it must not ask under epochs of an earlier life (LIST-3).
    pub(crate) fn met(ctx: &mut Ctx<'_>, peer: NodeId) {
        for at in 0..ctx.bank.daemons.len() {
            let epoch = ctx.bank.daemons[at].epoch;
            if !ctx.bank.daemons[at].awaits_of_earlier_life(peer) {
                continue;
            }
            let daemon = Daemon(at as u32);
            let body = Body::BankOver { daemon, epoch };
            let seq = ctx.ask(peer, FileId::default(), Gen::default(), body).seq;
            if let State::Leaving { awaiting, .. } = &mut ctx.bank.daemons[at].state
                && let Some(awaited) = awaiting.get_mut(&peer)
            {
                awaited.seq = seq;
            }
        }
    }

    /// The connection broke while nothing was under way.
    pub(crate) fn down(ctx: &mut Ctx<'_>, daemon: Daemon) {
        if let Some(entry) = ctx.bank.daemons.get(daemon.0 as usize) {
            let epoch = entry.epoch;
            List::lost(ctx, daemon, epoch);
        }
    }

    /// A client asks whom it may ask, and how.
    pub(crate) fn lease(ctx: &mut Ctx<'_>, from: NodeId, req: ReqId) {
        let now = ctx.now;
        ctx.bank.leases.retain(|_, until| *until > now);
        ctx.bank.leases.insert(from, now + term(ctx.config));
        let body = Body::BankIs(ctx.bank.epochs());
        ctx.answer(from, FileId::default(), Gen::default(), req, body);
    }

    /// A client knows that an epoch ends.
    pub(crate) fn confirmed(ctx: &mut Ctx<'_>, from: NodeId, req: ReqId) {
        for entry in &mut ctx.bank.daemons {
            if let State::Leaving { awaiting, .. } = &mut entry.state
                && awaiting.get(&from).is_some_and(|a| a.seq == req.seq)
            {
                awaiting.remove(&from);
            }
        }
        List::conclude(ctx);
    }

    /// Leases run out.
    pub(crate) fn tick(ctx: &mut Ctx<'_>) {
        for entry in &mut ctx.bank.daemons {
            if let State::Leaving { awaiting, .. } = &mut entry.state {
                awaiting.retain(|_, awaited| awaited.until > ctx.now);
            }
        }
        List::conclude(ctx);
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        let until = |entry: &Entry| match &entry.state {
            State::Leaving { awaiting, .. } => awaiting.values().map(|a| a.until).max(),
            State::Away | State::Trusted => None,
        };
        self.daemons.iter().filter_map(until).min()
    }

    /// Daemons of which every epoch is over since this was last asked.
    pub(crate) fn take_over(&mut self) -> Vec<Daemon> {
        core::mem::take(&mut self.over)
    }

    /// Ends what nobody is awaited for any more.
    fn conclude(ctx: &mut Ctx<'_>) {
        let list = &mut *ctx.bank;
        for (daemon, entry) in (0..).map(Daemon).zip(&mut list.daemons) {
            let over = match &entry.state {
                State::Leaving { awaiting, .. } => awaiting.is_empty(),
                State::Away | State::Trusted => false,
            };
            if !over {
                continue;
            }
            list.over.push(daemon);
            entry.state = State::Away;
            if entry.up {
                entry.trust(ctx.config);
            }
        }
    }
}

impl Entry {
    fn awaits_of_earlier_life(&self, peer: NodeId) -> bool {
        match &self.state {
            State::Leaving {
                awaiting,
                inherited,
            } => *inherited && awaiting.contains_key(&peer),
            State::Away | State::Trusted => false,
        }
    }

    fn trust(&mut self, config: &Config) {
        let given_up = config
            .rules()
            .bank
            .is_some_and(|bank| bank.unreachable == Unreachable::GiveUp);
        let first = self.epoch.0 & u64::from(u32::MAX) == 0;
        // A gateway that gives up on a daemon has no word for what it missed meanwhile.
        if first || (!given_up && config.keeps(Guard::EpochGrows)) {
            self.epoch.0 += 1;
        }
        self.state = State::Trusted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{BankConfig, Policy};
    use crate::effect::Effect;
    use crate::input::Input;
    use crate::msg::Envelope;
    use crate::node::Node;

    const ME: NodeId = NodeId(0);
    const PEER: NodeId = NodeId(1);

    /// A life that may follow another, with a daemon that it reaches.
    fn reborn() -> Node {
        let config = Config {
            policy: Policy::Bank,
            incarnation: 7,
            bank: BankConfig {
                daemons: 1,
                rejoins: true,
                ..BankConfig::default()
            },
            ..Config::new(ME, 2)
        };
        let mut node = Node::new(config);
        node.step(Time(0), Input::BankUp(Daemon(0)), &mut Vec::new());
        node
    }

    fn told(out: &[Effect]) -> Option<Envelope> {
        out.iter().find_map(|effect| match effect {
            Effect::Send { to, envelope, .. } if *to == PEER => Some(envelope.clone()),
            _ => None,
        })
    }

    #[test]
    fn a_daemon_is_trusted_as_soon_as_all_know_of_a_new_life() {
        let (mut node, mut out) = (reborn(), Vec::new());
        node.step(Time(1), Input::PeerUp(PEER), &mut out);
        assert_eq!(node.bank_epochs(), [Epoch::NONE]);
        let order = told(&out).expect("the peer is told");
        let earlier = Body::BankOver {
            daemon: Daemon(0),
            epoch: Epoch(7 << 32),
        };
        assert_eq!(order.body, earlier);
        let answer = Envelope {
            body: Body::BankOverOk,
            ..order
        };
        let heard = Input::Message {
            from: PEER,
            envelope: answer,
            data: None,
        };
        node.step(Time(2), heard, &mut Vec::new());
        assert_eq!(node.bank_epochs(), [Epoch((7 << 32) + 1)]);
    }

    #[test]
    fn whoever_is_not_met_is_awaited_for_a_lease() {
        let mut node = reborn();
        let end = Time(0) + term(&Config::new(ME, 2));
        node.step(Time(end.0 - 1), Input::Tick, &mut Vec::new());
        assert_eq!(node.bank_epochs(), [Epoch::NONE]);
        node.step(end, Input::Tick, &mut Vec::new());
        assert_eq!(node.bank_epochs(), [Epoch((7 << 32) + 1)]);
    }
}
