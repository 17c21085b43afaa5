//! The rules of a change: from one view to the next, or a refusal that leaves all as it was.

use super::{
    Consent, FailureDomain, Founding, LossesBorne, MEMBERS_MAX, MemberId, MemberKey, MemberRecord,
    Membership, MembershipChange, NODES_KNOWN_MAX, SeatedMember, TEXT_BYTES_MAX, UnfencedMember,
    ViewNumber,
};
use std::collections::BTreeSet;

/// Views that a log may have decided without any living member's knowledge, and more.
const FOUNDING_STEP: u32 = 1024;

/// Why a change does not apply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
pub enum ViewRefusal {
    /// Another change came first. Look at the view that is current, then decide anew.
    #[error("the change was made for view {at}, and view {now} is current")]
    Stale {
        /// The view that the change was made for.
        at: ViewNumber,
        /// The view that is current.
        now: ViewNumber,
    },
    /// That life is over. The agent takes a greater incarnation.
    #[error("agent {0} left or was excluded before, and no incarnation comes back")]
    Returned(MemberKey),
    /// The node has another member. That one leaves or is excluded first.
    #[error("node {id} is a member as incarnation {}", sitting.incarnation.0)]
    SeatTaken {
        /// The node.
        id: MemberId,
        /// Its member.
        sitting: MemberKey,
    },
    /// There is no such member to leave or to be excluded.
    #[error("agent {0} is no member")]
    NotMember(MemberKey),
    /// There is no such incarnation to be fenced.
    #[error("agent {0} waits for no fence")]
    NotUnfenced(MemberKey),
    /// Bytes could be lost. A person consents, or the nodes come back.
    #[error(
        "{lost} lost at once, and the replicas bear {}: bring nodes back, or exclude them by hand \
         and accept that bytes which only they have are lost", borne.0
    )]
    TooManyLost {
        /// Nodes, or failure domains.
        lost: usize,
        /// Losses that are borne.
        borne: LossesBorne,
    },
    /// A set ends by being ended, not by a change.
    #[error("no member would be left")]
    NoneLeft,
    /// No member more, ever or at this time.
    #[error("the set is full: {MEMBERS_MAX} members, {NODES_KNOWN_MAX} nodes ever")]
    Full,
    /// The record is malformed.
    #[error("the record of agent {0} has a text of over {TEXT_BYTES_MAX} bytes")]
    Malformed(MemberKey),
}

impl Membership {
    /// The next view, if the change was made for this one and keeps the rules.
    pub fn apply(
        &self,
        change: &MembershipChange,
        at: ViewNumber,
    ) -> Result<Membership, ViewRefusal> {
        if at != self.number {
            let now = self.number;
            return Err(ViewRefusal::Stale { at, now });
        }
        let mut next = self.clone();
        next.number = self.number.next();
        match change {
            MembershipChange::Join(record) => next.join(record)?,
            MembershipChange::Leave(key) => {
                next.remove(*key)?;
            }
            MembershipChange::Exclude(keys, consent) => {
                self.check_losses(keys, *consent)?;
                next.exclude(keys)?;
            }
            MembershipChange::Again => {}
            MembershipChange::Fenced(key) => {
                let was = next.unfenced.remove(key);
                was.ok_or(ViewRefusal::NotUnfenced(*key))?;
            }
        }
        match next.members.is_empty() {
            true => Err(ViewRefusal::NoneLeft),
            false => Ok(next),
        }
    }

    /// The first view of another log: the same without the dead. The log before may have decided a view that is lost with
    /// its voters, so its numbers are left out.
    pub fn founded_anew(
        &self,
        by: MemberKey,
        dead: &[MemberKey],
    ) -> Result<Membership, ViewRefusal> {
        let mut next = self.clone();
        next.number = ViewNumber(self.number.0 + FOUNDING_STEP);
        next.founding = Founding {
            view: next.number,
            by,
        };
        next.exclude(dead)?;
        match next.has(by) {
            true => Ok(next),
            false => Err(ViewRefusal::NotMember(by)),
        }
    }

    pub(super) fn join(&mut self, record: &MemberRecord) -> Result<(), ViewRefusal> {
        let key = record.key;
        if let Some(seated) = self.members.get(&key.id) {
            let sitting = seated.record.key;
            return Err(ViewRefusal::SeatTaken {
                id: key.id,
                sitting,
            });
        }
        if key.incarnation < self.next_life(key.id) {
            return Err(ViewRefusal::Returned(key));
        }
        let is_new = !self.lives.contains_key(&key.id);
        if self.members.len() >= MEMBERS_MAX || (is_new && self.lives.len() >= NODES_KNOWN_MAX) {
            return Err(ViewRefusal::Full);
        }
        if !is_well_formed(record) {
            return Err(ViewRefusal::Malformed(key));
        }
        let seated = SeatedMember {
            record: record.clone(),
            since: self.number,
        };
        self.members.insert(key.id, seated);
        self.lives.insert(key.id, key.incarnation);
        Ok(())
    }

    fn remove(&mut self, key: MemberKey) -> Result<SeatedMember, ViewRefusal> {
        if !self.has(key) {
            return Err(ViewRefusal::NotMember(key));
        }
        let seated = self.members.remove(&key.id);
        Ok(seated.expect("`has` has just seen it"))
    }

    fn exclude(&mut self, keys: &[MemberKey]) -> Result<(), ViewRefusal> {
        for key in keys {
            let unfenced = UnfencedMember {
                record: self.remove(*key)?.record,
                excluded: self.number,
            };
            self.unfenced.insert(*key, unfenced);
        }
        Ok(())
    }

    /// MEMBER-4. The unfenced count too: their bytes are not where they belong yet.
    fn check_losses(&self, keys: &[MemberKey], consent: Consent) -> Result<(), ViewRefusal> {
        let going = keys.iter().filter_map(|key| self.members.get(&key.id));
        let gone = self.unfenced.values().map(|unfenced| &unfenced.record);
        let all = going.map(|seated| &seated.record).chain(gone);
        let lost: Vec<&MemberRecord> = all.collect();
        let borne = self.borne;
        let count = self.losses(&lost);
        match consent {
            Consent::Replicas if count > usize::from(borne.0) => {
                Err(ViewRefusal::TooManyLost { lost: count, borne })
            }
            Consent::Replicas | Consent::Person | Consent::Dead => Ok(()),
        }
    }

    /// Failure domains count once, if there are enough of them for each replica to have its own.
    fn losses(&self, lost: &[&MemberRecord]) -> usize {
        let seated = self.members.values().map(|seated| &seated.record);
        let all = seated.chain(lost.iter().copied());
        let domains: BTreeSet<&FailureDomain> = all.map(|record| &record.domain).collect();
        let lost_domains: BTreeSet<&FailureDomain> =
            lost.iter().map(|record| &record.domain).collect();
        match domains.len() > usize::from(self.borne.0) {
            true => lost_domains.len(),
            false => lost.len(),
        }
    }
}

fn is_well_formed(record: &MemberRecord) -> bool {
    let lengths = [record.address.len(), record.domain.0.len()];
    lengths.iter().all(|len| *len <= TEXT_BYTES_MAX)
}
