//! Agents that may be gone.

use super::Views;
use crate::alarms::Cause;
use crate::core::Core;
use hearth_proto::NodeId;
use hearth_views::log::{LogError, Patience, ViewLog};
use hearth_views::membership::{
    Consent, MemberId, MemberKey, Membership, MembershipChange, ViewRefusal,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A connection that broke may be there again by then.
const BROKEN_SPAN: Duration = Duration::from_millis(500);

/// An agent that was silent and is heard again by then is well.
const SILENT_SPAN: Duration = Duration::from_secs(10);

/// How often it is looked for suspects.
const LOOK_SPAN: Duration = Duration::from_millis(100);

/// A lease that ran out so long ago is told of.
const LAPSE_TOLD_SPAN: Duration = Duration::from_secs(2);

/// Agents that are all connected decide something by then, unless they never will. One that stands still is given up sooner.
const STUCK_SPAN: Duration = Duration::from_secs(10);

/// Patience for one proposal.
const PROPOSE_SPAN: Duration = Duration::from_secs(1);

/// Agents that are not connected or silent, and those whose connection broke since the last view.
#[derive(Default)]
pub(super) struct Suspects {
    down: BTreeMap<u32, Instant>,
    silent: BTreeMap<u32, Instant>,
    broken: BTreeSet<u32>,
    /// Those that leave, and that all others wait for.
    leaving: BTreeSet<u32>,
    /// Lives whose processes are over for certain, as the next one has said.
    dead: BTreeSet<MemberKey>,
}

impl Suspects {
    /// Of nobody but these, whose processes are over.
    pub(super) fn knowing(dead: BTreeSet<MemberKey>) -> Suspects {
        Suspects {
            dead,
            ..Suspects::default()
        }
    }

    pub(super) fn up(&mut self, peer: u32) {
        self.down.remove(&peer);
    }

    /// These leave, as of the newest view.
    pub(super) fn leave(&mut self, leaving: &[NodeId]) {
        self.leaving = leaving.iter().map(|node| node.0).collect();
    }

    /// True if one that leaves is gone, and its lease has run out: the next view waits for it no more.
    fn has_stalled(&self, lease: Duration) -> bool {
        let mut since = self.leaving.iter().filter_map(|peer| self.down.get(peer));
        since.any(|since| since.elapsed() >= lease * 2)
    }

    /// Another life of an agent is a member: what the last one did says nothing of it.
    pub(super) fn begins_anew(&mut self, peer: u32) {
        self.silent.remove(&peer);
        self.dead.retain(|key| key.id.0 != peer);
    }

    /// This life is over, and nothing of it is on its way to the store.
    pub(super) fn died(&mut self, key: MemberKey) {
        self.dead.insert(key);
    }

    /// True if that is known of a life.
    pub(super) fn is_dead(&self, key: MemberKey) -> bool {
        self.dead.contains(&key)
    }

    /// True if that is known of all these.
    pub(super) fn are_dead(&self, lives: &BTreeSet<MemberKey>) -> bool {
        lives.is_subset(&self.dead)
    }

    pub(super) fn down(&mut self, peer: u32) {
        self.down.insert(peer, Instant::now());
        self.broken.insert(peer);
    }

    pub(super) fn silent(&mut self, peer: u32) {
        self.silent.insert(peer, Instant::now());
    }

    /// Connections that broke: messages were lost with them. Those to members that still are broken lose more.
    pub(super) fn take_broken(&mut self, is_member: impl Fn(u32) -> bool) -> BTreeSet<u32> {
        let is_down = |peer: &u32| self.down.contains_key(peer) && is_member(*peer);
        let still = self.broken.iter().copied().filter(is_down).collect();
        std::mem::replace(&mut self.broken, still)
    }

    /// Those that are to be excluded, each once.
    fn due(&mut self) -> BTreeSet<u32> {
        self.silent.retain(|_, since| since.elapsed() < SILENT_SPAN);
        let is_long = |since: &Instant| since.elapsed() >= BROKEN_SPAN;
        let down = self.down.iter().filter(|(_, since)| is_long(since));
        let down = down.map(|(&peer, _)| peer);
        down.chain(self.silent.keys().copied()).collect()
    }

    /// True if a connection to a member broke and stands again: a view of the same members begins anew.
    fn has_mended(&self, is_member: impl Fn(u32) -> bool) -> bool {
        let mut members = self.broken.iter().filter(|&&peer| is_member(peer));
        members.any(|peer| !self.down.contains_key(peer))
    }
}

impl Views {
    /// Proposes what has to change, until the agent ends.
    pub(super) fn suspect(&self, core: &Core) {
        while !self.lease.has_ended() {
            self.rest(LOOK_SPAN);
            if self.leaves() {
                continue;
            }
            self.tell_lapse(core);
            let newest = self.newest();
            let is_member = |peer: u32| newest.member(MemberId(peer)).is_some();
            let changes = core.lock().member.stage().is_some();
            let (due, again) = {
                let mut suspects = self.suspects();
                let again = suspects.has_mended(is_member)
                    || changes && suspects.has_stalled(self.spans.lease);
                (suspects.due(), again)
            };
            let (up, lives) = {
                let state = core.lock();
                (state.up.clone(), state.lives.clone())
            };
            let is_lost = |key: &MemberKey| {
                let at = key.id.0 as usize;
                // Another life of it is there.
                due.contains(&key.id.0) || up[at] && lives[at] != key.incarnation.0
            };
            let members = newest.keys().into_iter();
            let (dead, living): (Vec<MemberKey>, Vec<MemberKey>) = {
                let suspects = self.suspects();
                members.partition(|&key| suspects.is_dead(key))
            };
            if self.is_left_alone(&dead, &living, (&up, &lives)) {
                self.excluded();
            }
            let lost: Vec<MemberKey> = living.into_iter().filter(is_lost).collect();
            let change = match (dead.is_empty(), lost.is_empty(), again) {
                // Without a wait for its lease: it acts no more.
                (false, _, _) => MembershipChange::Exclude(dead, Consent::Dead),
                (true, false, _) => MembershipChange::Exclude(lost, Consent::Replicas),
                (true, true, true) => MembershipChange::Again,
                (true, true, false) => {
                    core.lock().alarms.end(Cause::Majority, core.now());
                    if self.is_unrenewed.load(Ordering::Relaxed) {
                        self.found_anew(&[]);
                    }
                    continue;
                }
            };
            if !self.propose(core, &newest, &change) {
                let dead = match &change {
                    MembershipChange::Exclude(dead, Consent::Dead) => &dead[..],
                    _ => &[],
                };
                self.found_anew(dead);
            }
        }
    }

    /// True if this agent's lease is over, and nobody will renew it. Those that may have decided are dead for certain, and may
    /// have gone on without it. Or all that live are here, some are dead for certain, and still nothing is decided.
    fn is_left_alone(
        &self,
        dead: &[MemberKey],
        living: &[MemberKey],
        (up, lives): (&[bool], &[u64]),
    ) -> bool {
        if self.lease.holds() || dead.is_empty() {
            return false;
        }
        let is_here = |key: &MemberKey| {
            let at = key.id.0 as usize;
            *key == self.me || up[at] && lives[at] == key.incarnation.0
        };
        let is_stuck = || self.lease.is_over_for(STUCK_SPAN) && living.iter().all(is_here);
        let voters = self.seats.min(dead.len() + living.len());
        dead.len() >= voters.div_ceil(2) || is_stuck()
    }

    /// Has another log take the place of one that decides nothing, as voters are dead for certain. Others may be to do it, or
    /// to say their word first.
    fn found_anew(&self, dead: &[MemberKey]) {
        let patience = Patience::new(PROPOSE_SPAN, &self.call_off);
        if (!dead.is_empty() || self.log.has_stopped(&patience))
            && let Err(error) = self.log.found_anew(dead, &patience)
        {
            log::debug!("no other log of views: {error}");
        }
    }

    /// People are told that calls wait here.
    fn tell_lapse(&self, core: &Core) {
        if self.lease.is_over_for(LAPSE_TOLD_SPAN) {
            let told = "calls wait while this agent does not reach a majority of the others";
            core.lock().alarms.raise(Cause::Lease, told.to_owned());
        } else if self.lease.holds() {
            core.lock().alarms.end(Cause::Lease, core.now());
        }
    }

    /// False if nobody says whether it was decided.
    fn propose(&self, core: &Core, newest: &Membership, change: &MembershipChange) -> bool {
        let patience = Patience::new(PROPOSE_SPAN, &self.call_off);
        match self.log.propose(change, newest.number(), &patience) {
            Ok(_) => core.lock().alarms.end(Cause::Majority, core.now()),
            Err(LogError::Undecided(_)) => return false,
            Err(LogError::Leased { wait, .. }) => {
                self.rest(Duration::from_nanos(wait.0).min(PROPOSE_SPAN));
            }
            Err(LogError::Refused(refusal @ ViewRefusal::TooManyLost { .. })) => {
                let told = format!("writes wait: {refusal}");
                core.lock().alarms.raise(Cause::Majority, told);
            }
            Err(error) => log::debug!("no other view: {error}"),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_not_suspected_for_its_earlier_life() {
        let mut suspects = Suspects::default();
        suspects.silent(3);
        suspects.down(3);
        suspects.up(3);
        assert!(suspects.due().into_iter().eq([3]));
        suspects.begins_anew(3);
        assert!(suspects.due().is_empty());
    }

    #[test]
    fn an_agent_that_is_silent_and_not_connected_is_named_once() {
        let mut suspects = Suspects::default();
        suspects.silent(3);
        suspects.down(3);
        let long_ago = Instant::now().checked_sub(BROKEN_SPAN);
        suspects
            .down
            .insert(3, long_ago.expect("the machine is up for longer"));
        assert!(suspects.due().into_iter().eq([3]));
        suspects.up(3);
        assert!(suspects.has_mended(|_| true), "it has lost messages");
        assert!(!suspects.has_mended(|_| false), "it has not joined yet");
    }
}
