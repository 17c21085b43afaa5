//! The client's side of leases: whom it may ask, under which epoch, and for how long.
//!
//! A lease is asked for when a read could use one, and again in its second half, so an idle node sends
//! nothing. A read never waits for a lease: without one it goes to the gateway.
//!
//! Invariants:
//! - E1 (BANK-4): a lease runs from the moment when it was asked for, so it ends here before it ends at
//!   the gateway.
//! - E2: an epoch that the gateway has ended is not taken up again, whatever comes later.

use super::{Daemon, Epoch};
use crate::ids::NodeId;
use crate::time::{Span, Time};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A daemon that did not answer is left alone for this long.
const PAUSE: Span = Span::secs(1);

/// The word of one gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Lease {
    until: Time,
    epochs: Vec<Epoch>,
    /// The last epoch of each daemon that is over.
    over: BTreeMap<Daemon, Epoch>,
    /// When the answer that is awaited was asked for.
    asked: Option<Time>,
}

/// Leases of one node, by gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Leases {
    leases: BTreeMap<NodeId, Lease>,
    /// Daemons that are left alone, and until when.
    shunned: BTreeMap<Daemon, Time>,
}

/// Whether a lease is looked at; canary kernels may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Honour {
    Lease,
    Nothing,
}

impl Leases {
    /// The epoch under which a daemon may be asked for a gateway's blocks now.
    pub(crate) fn epoch(
        &self,
        now: Time,
        gateway: NodeId,
        daemon: Daemon,
        honour: Honour,
    ) -> Option<Epoch> {
        let lease = self.leases.get(&gateway)?;
        let lasts = lease.until > now || honour == Honour::Nothing;
        let shunned = self.shunned.get(&daemon).is_some_and(|&until| now < until);
        let epoch = lease.epochs.get(daemon.0 as usize).copied()?;
        (lasts && !shunned && epoch != Epoch::NONE).then_some(epoch)
    }

    /// True if it is time to ask the gateway; the caller then must.
    pub(crate) fn asks(&mut self, now: Time, gateway: NodeId, span: Span) -> bool {
        let lease = self.leases.entry(gateway).or_default();
        let due = lease.asked.is_none() && lease.until <= now + Span(span.0 / 2);
        if due {
            lease.asked = Some(now);
        }
        due
    }

    /// The gateway answered.
    pub(crate) fn granted(&mut self, gateway: NodeId, epochs: &[Epoch], span: Span) {
        let lease = self.leases.entry(gateway).or_default();
        let Some(asked) = lease.asked.take() else {
            return;
        };
        let daemons = (0..).map(Daemon).zip(epochs);
        lease.epochs = daemons
            .map(|(daemon, &epoch)| match lease.over.get(&daemon) {
                Some(&over) if epoch <= over => Epoch::NONE,
                Some(_) | None => epoch,
            })
            .collect();
        lease.until = asked + span;
    }

    /// The gateway does not answer, or is gone: nothing that it said counts.
    pub(crate) fn forget(&mut self, gateway: NodeId) {
        if let Some(lease) = self.leases.get_mut(&gateway) {
            lease.asked = None;
            lease.epochs.clear();
            lease.until = Time(0);
        }
    }

    /// The gateway ends an epoch.
    pub(crate) fn over(&mut self, gateway: NodeId, daemon: Daemon, epoch: Epoch) {
        let lease = self.leases.entry(gateway).or_default();
        let over = lease.over.entry(daemon).or_default();
        *over = epoch.max(*over);
        let floor = *over;
        if let Some(known) = lease.epochs.get_mut(daemon.0 as usize)
            && *known <= floor
        {
            *known = Epoch::NONE;
        }
    }

    /// A daemon did not answer.
    pub(crate) fn shun(&mut self, now: Time, daemon: Daemon) {
        self.shunned.insert(daemon, now + PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATEWAY: NodeId = NodeId(3);
    const SPAN: Span = Span::secs(5);

    fn leased(at: Time) -> Leases {
        let mut leases = Leases::default();
        assert!(leases.asks(at, GATEWAY, SPAN));
        leases.granted(GATEWAY, &[Epoch(7), Epoch::NONE], SPAN);
        leases
    }

    fn epoch(leases: &Leases, now: Time, daemon: u32) -> Option<Epoch> {
        leases.epoch(now, GATEWAY, Daemon(daemon), Honour::Lease)
    }

    #[test]
    fn a_lease_runs_from_when_it_was_asked_for() {
        let asked = Time(1_000);
        let leases = leased(asked);
        assert_eq!(epoch(&leases, asked, 0), Some(Epoch(7)));
        assert_eq!(epoch(&leases, asked + SPAN, 0), None);
        assert_eq!(epoch(&leases, asked, 1), None);
    }

    #[test]
    fn an_epoch_that_is_over_does_not_come_back() {
        let now = Time(1_000);
        let mut leases = leased(now);
        leases.over(GATEWAY, Daemon(0), Epoch(7));
        assert_eq!(epoch(&leases, now, 0), None);
        let later = now + Span::secs(4);
        assert!(leases.asks(later, GATEWAY, SPAN));
        leases.granted(GATEWAY, &[Epoch(7)], SPAN);
        assert_eq!(epoch(&leases, later, 0), None);
        leases.forget(GATEWAY);
        assert!(leases.asks(later, GATEWAY, SPAN));
        leases.granted(GATEWAY, &[Epoch(8)], SPAN);
        assert_eq!(epoch(&leases, later, 0), Some(Epoch(8)));
    }

    #[test]
    fn a_lease_is_renewed_in_its_second_half_and_once() {
        let mut leases = leased(Time(0));
        assert!(!leases.asks(Time(0) + Span::secs(2), GATEWAY, SPAN));
        assert!(leases.asks(Time(0) + Span::secs(3), GATEWAY, SPAN));
        assert!(!leases.asks(Time(0) + Span::secs(3), GATEWAY, SPAN));
    }
}
