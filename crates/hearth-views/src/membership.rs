//! One view: the members of a set of agents, and the dead ones that are not fenced yet.
//!
//! A view is a whole state, never a difference, so a reader may begin with any of them. The next one
//! is made by [`Membership::apply`], a pure function that each back end of the log calls in the same
//! order. Reading order: the types here, then `apply` (the rules of a change).
//!
//! - MEMBER-1: a change names the number of the view that it was made for, and applies to no other.
//! - MEMBER-2: incarnations of one node only grow, so one that left or was excluded never comes back.
//! - MEMBER-3: an excluded incarnation stays in [`Membership::unfenced`] until its fence is confirmed.
//! - MEMBER-4: excluded and unfenced together are at most as many as the replicas bear, unless a
//!   person said otherwise.
//! - MEMBER-5: a view has at least one member.

mod apply;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use apply::ViewRefusal;

/// Most members of one view.
pub const MEMBERS_MAX: usize = 8192;

/// Most nodes that a set ever had. Each costs a few bytes in every view, for MEMBER-2.
pub const NODES_KNOWN_MAX: usize = 65_536;

/// Most bytes of an address, and of a failure domain.
pub const TEXT_BYTES_MAX: usize = 256;

/// The number of a view. The first is 1, and each is followed by the next.
///
/// At one change a second 32 bits last for 136 years.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct ViewNumber(pub u32);

/// A node of the set, for as long as the set lasts.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct MemberId(pub u32);

/// One life of a node's agent. A later life has a greater one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Incarnation(pub u64);

/// One life of one node: the identity of an owner.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct MemberKey {
    /// The node.
    pub id: MemberId,
    /// Its life.
    pub incarnation: Incarnation,
}

/// Things that fail together: a rack, a power line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FailureDomain(pub String);

/// How many nodes or failure domains may be lost at once without loss of acknowledged bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LossesBorne(pub u16);

/// All that a view says about one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    /// The life.
    pub key: MemberKey,
    /// The address at which others reach it. The log does not read it.
    pub address: String,
    /// The failure domain.
    pub domain: FailureDomain,
}

/// A member, and the first view that had it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatedMember {
    /// The member.
    pub record: MemberRecord,
    /// The first view that had it.
    pub since: ViewNumber,
}

/// A dead incarnation, of which a write may still be on its way to the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfencedMember {
    /// As it was when it was excluded.
    pub record: MemberRecord,
    /// The first view without it.
    pub excluded: ViewNumber,
}

/// Whether an exclusion may pass the number that replicas bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Consent {
    /// It may not.
    Replicas,
    /// A person accepts that bytes are lost.
    Person,
    /// Nobody has to: their processes are over for certain. So are their leases, whatever the clock says.
    Dead,
}

impl MembershipChange {
    /// Members whose leases have to be over before this is decided.
    pub(crate) fn doomed(&self) -> &[MemberKey] {
        match self {
            MembershipChange::Exclude(members, Consent::Replicas | Consent::Person) => members,
            MembershipChange::Exclude(_, Consent::Dead)
            | MembershipChange::Join(_)
            | MembershipChange::Leave(_)
            | MembershipChange::Fenced(_)
            | MembershipChange::Again => &[],
        }
    }
}

/// A wish for the next view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MembershipChange {
    /// A member more.
    Join(MemberRecord),
    /// A member goes that has brought all it had to others or to the store.
    Leave(MemberKey),
    /// Members go without a word of their own.
    Exclude(Vec<MemberKey>, Consent),
    /// No write of this dead incarnation takes effect any more.
    Fenced(MemberKey),
    /// The same members begin anew, as messages between them were lost.
    Again,
}

/// Fence status of an incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceStatus {
    /// It is a member.
    Member,
    /// It was excluded, and the view waits for the fence.
    Wanted,
    /// It left, or its fence is confirmed, or it never was.
    Past,
}

/// The log that decides a view and those after it. Its voters hear nothing of another log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Founding {
    /// The first view of the log.
    pub view: ViewNumber,
    /// The member that founded it.
    pub by: MemberKey,
}

/// One view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    number: ViewNumber,
    founding: Founding,
    borne: LossesBorne,
    members: BTreeMap<MemberId, SeatedMember>,
    unfenced: BTreeMap<MemberKey, UnfencedMember>,
    /// The last life of each node that was ever a member (MEMBER-2).
    lives: BTreeMap<MemberId, Incarnation>,
}

impl ViewNumber {
    /// The number of the next view.
    #[must_use]
    pub fn next(self) -> ViewNumber {
        ViewNumber(self.0 + 1)
    }
}

impl Membership {
    /// The first view of a set, with its first member.
    pub fn found(first: MemberRecord, borne: LossesBorne) -> Result<Membership, ViewRefusal> {
        let empty = Membership {
            number: ViewNumber(0),
            founding: Founding {
                view: ViewNumber(1),
                by: first.key,
            },
            borne,
            members: BTreeMap::new(),
            unfenced: BTreeMap::new(),
            lives: BTreeMap::new(),
        };
        empty.apply(&MembershipChange::Join(first), ViewNumber(0))
    }

    /// The first view of a set that begins with several members.
    pub fn found_with(
        records: &[MemberRecord],
        borne: LossesBorne,
    ) -> Result<Membership, ViewRefusal> {
        let (first, rest) = records.split_first().ok_or(ViewRefusal::NoneLeft)?;
        let mut view = Membership::found(first.clone(), borne)?;
        for record in rest {
            view = view.apply(&MembershipChange::Join(record.clone()), view.number)?;
        }
        // Nobody has seen the views between.
        view.number = ViewNumber(1);
        for seated in view.members.values_mut() {
            seated.since = view.number;
        }
        Ok(view)
    }

    /// Its number.
    pub fn number(&self) -> ViewNumber {
        self.number
    }

    /// The log that decided it.
    pub fn founding(&self) -> Founding {
        self.founding
    }

    /// The losses at once that its replicas bear.
    pub fn borne(&self) -> LossesBorne {
        self.borne
    }

    /// Its members, in the order of their ids.
    pub fn members(&self) -> impl ExactSizeIterator<Item = &SeatedMember> {
        self.members.values()
    }

    /// The lives that are members.
    pub fn keys(&self) -> BTreeSet<MemberKey> {
        self.members().map(|seated| seated.record.key).collect()
    }

    /// The member of this node.
    pub fn member(&self, id: MemberId) -> Option<&SeatedMember> {
        self.members.get(&id)
    }

    /// Whether this life is a member.
    pub fn has(&self, key: MemberKey) -> bool {
        let seated = self.members.get(&key.id);
        seated.is_some_and(|seated| seated.record.key == key)
    }

    /// The dead that are not fenced yet.
    pub fn unfenced(&self) -> impl ExactSizeIterator<Item = &UnfencedMember> {
        self.unfenced.values()
    }

    /// The fence status of a life.
    pub fn fence_status(&self, key: MemberKey) -> FenceStatus {
        if self.has(key) {
            return FenceStatus::Member;
        }
        match self.unfenced.contains_key(&key) {
            true => FenceStatus::Wanted,
            false => FenceStatus::Past,
        }
    }

    /// The least incarnation that a next life of this node may have.
    pub fn next_life(&self, id: MemberId) -> Incarnation {
        let last = self.lives.get(&id);
        last.map_or(Incarnation(1), |last| Incarnation(last.0.saturating_add(1)))
    }
}

impl fmt::Display for ViewNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for MemberKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.id, self.incarnation.0)
    }
}
