//! The owner of each slot in a view, and the slots that move between two views.
//!
//! Members bid for each slot with a hash of slot, node and salt, and the best bid owns it (weighted
//! rendezvous hashing). So a member that joins takes slots from all and moves no other, and the
//! slots of one that goes are spread over the rest. Only the view travels: everybody computes the same
//! table. Reading order: this file (one slot), `slots/bid.rs` (how bids compare), `slots/table.rs` (all
//! slots at once).
//!
//! - SLOT-1: the owner of a slot depends on the view alone, bit for bit on every machine.
//! - SLOT-2: a slot's owner changes only to a member that joined, or from one that went.
//! - SLOT-3: a slot that an unfenced incarnation may have owned is not served.

mod bid;
mod table;
#[cfg(test)]
mod tests;

use crate::membership::{FailureDomain, MemberId, MemberKey, MemberRecord, Membership};
use bid::{Bid, Bidder};

pub use table::SlotTable;

/// Slots of a set. At 4096 members the load deviates by an eighth.
pub const SLOTS: u32 = 1 << 18;

/// One of the places that chunks are hashed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotIndex(u32);

/// Whether an owner may serve a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotService {
    /// It may.
    Open,
    /// Not before the fence of this incarnation is confirmed.
    AwaitsFence(MemberKey),
}

impl SlotIndex {
    /// The slot that a hash falls into.
    pub fn of_hash(hash: u64) -> SlotIndex {
        SlotIndex((hash % u64::from(SLOTS)) as u32)
    }

    /// All slots.
    pub fn all() -> impl ExactSizeIterator<Item = SlotIndex> {
        (0..SLOTS).map(SlotIndex)
    }

    /// Its place in a list of all slots.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The members in the order in which they would own a slot.
pub fn ranked(view: &Membership, slot: SlotIndex) -> Vec<&MemberRecord> {
    let mut bids: Vec<(Bid, &MemberRecord)> = view
        .members()
        .map(|seated| {
            (
                Bidder::new(&seated.record, view.salt()).bid(slot),
                &seated.record,
            )
        })
        .collect();
    bids.sort_unstable_by_key(|(bid, _)| *bid);
    bids.into_iter().map(|(_, record)| record).collect()
}

/// The owner of a slot, then the nodes of its replicas: at most `count` in all.
///
/// Each has a failure domain of its own as long as there is one left. Then the others follow in
/// their order.
pub fn owner_and_replicas(view: &Membership, slot: SlotIndex, count: usize) -> Vec<MemberId> {
    let mut domains: Vec<&FailureDomain> = Vec::new();
    let (apart, rest): (Vec<_>, Vec<_>) = ranked(view, slot).into_iter().partition(|record| {
        let is_new = !domains.contains(&&record.domain);
        if is_new {
            domains.push(&record.domain);
        }
        is_new
    });
    let all = apart.into_iter().chain(rest);
    all.take(count).map(|record| record.key.id).collect()
}

/// Whether the owner may serve a slot in this view (SLOT-3).
///
/// An unfenced incarnation may have owned the slot if it outbids all members that joined before it was
/// excluded. That is more than it owned where better members have gone since, and never less.
pub fn service(view: &Membership, slot: SlotIndex) -> SlotService {
    let may_have_owned = |dead: &crate::membership::UnfencedMember| {
        let bid = Bidder::new(&dead.record, view.salt()).bid(slot);
        let elders = view.members().filter(|seated| seated.since < dead.excluded);
        elders
            .map(|seated| Bidder::new(&seated.record, view.salt()).bid(slot))
            .all(|other| bid <= other)
    };
    let mut unfenced = view.unfenced();
    let dead = unfenced.find(|dead| may_have_owned(dead));
    dead.map_or(SlotService::Open, |dead| {
        SlotService::AwaitsFence(dead.record.key)
    })
}
