//! The owners of all slots at once, and how they follow from one view to the next.

use super::bid::{Bid, Bidder, Leader};
use super::{SLOTS, SlotIndex};
use crate::membership::{MemberId, MemberKey, Membership, Salt, ViewNumber};
use std::collections::BTreeMap;

/// The owner of each slot in one view: 1 MiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotTable {
    view: ViewNumber,
    owners: Vec<MemberId>,
    lives: BTreeMap<MemberId, MemberKey>,
}

/// The members by weight. Of one weight the greatest hash wins, so only the best are weighed.
struct Bidders {
    groups: Vec<Vec<Bidder>>,
}

impl SlotTable {
    /// The table of a view, from nothing: a hash for each slot and member.
    pub fn of(view: &Membership) -> SlotTable {
        let bidders = Bidders::of(view, |_| true);
        SlotTable {
            view: view.number(),
            owners: SlotIndex::all().map(|slot| bidders.best(slot)).collect(),
            lives: lives(view),
        }
    }

    /// The view that it belongs to.
    pub fn view(&self) -> ViewNumber {
        self.view
    }

    /// The owner of a slot.
    pub fn owner(&self, slot: SlotIndex) -> MemberKey {
        self.lives[&self.owners[slot.index()]]
    }

    /// Slots of each member that has any.
    pub fn loads(&self) -> BTreeMap<MemberKey, u32> {
        let mut loads = BTreeMap::new();
        for slot in SlotIndex::all() {
            *loads.entry(self.owner(slot)).or_insert(0) += 1;
        }
        loads
    }

    /// Slots that have another owner here than there. A restarted owner is another.
    pub fn moved(&self, other: &SlotTable) -> Vec<SlotIndex> {
        let moved = |slot: &SlotIndex| self.owner(*slot) != other.owner(*slot);
        SlotIndex::all().filter(moved).collect()
    }

    /// Becomes the table of a later view, and says which slots moved.
    ///
    /// It costs two hashes a slot for members that joined, and one for each slot of a member that went
    /// and each that is left.
    pub fn advance(&mut self, view: &Membership) -> Vec<SlotIndex> {
        let next = lives(view);
        let gone = |key: &MemberKey| next.get(&key.id) != Some(key);
        let gone: Vec<MemberId> = self
            .lives
            .values()
            .filter(|key| gone(key))
            .map(|key| key.id)
            .collect();
        let is_new = |key: &MemberKey| self.lives.get(&key.id) != Some(key);
        let all = Bidders::of(view, |_| true);
        let new = Bidders::of(view, is_new);
        let by_id = by_id(view);
        let mut moved = Vec::new();
        for slot in SlotIndex::all() {
            let owner = self.owners[slot.index()];
            let best = match gone.contains(&owner) {
                true => Some(all.best(slot)),
                false => new.better(slot, by_id[&owner].bid(slot)),
            };
            if let Some(best) = best {
                self.owners[slot.index()] = best;
                moved.push(slot);
            }
        }
        self.view = view.number();
        self.lives = next;
        moved
    }
}

impl Bidders {
    fn of(view: &Membership, wanted: impl Fn(&MemberKey) -> bool) -> Bidders {
        let mut groups: BTreeMap<u16, Vec<Bidder>> = BTreeMap::new();
        let records = view.members().map(|seated| &seated.record);
        for record in records.filter(|record| wanted(&record.key)) {
            let bidder = Bidder::new(record, view.salt());
            groups.entry(bidder.weight).or_default().push(bidder);
        }
        Bidders {
            groups: groups.into_values().collect(),
        }
    }

    fn best(&self, slot: SlotIndex) -> MemberId {
        let best = self.best_bid(slot);
        best.expect("a view has a member (MEMBER-5)").id
    }

    /// The best of them, if it outbids the owner.
    fn better(&self, slot: SlotIndex, owner: Bid) -> Option<MemberId> {
        let best = self.best_bid(slot).filter(|bid| *bid < owner);
        best.map(|bid| bid.id)
    }

    fn best_bid(&self, slot: SlotIndex) -> Option<Bid> {
        let (first, rest) = self.groups.split_first()?;
        let first = best_of(first, slot);
        if rest.is_empty() {
            return Some(first);
        }
        let mut leader = Leader::new(first);
        for group in rest {
            leader.meet(best_of(group, slot));
        }
        Some(leader.bid)
    }
}

/// The best bid of members of one weight, without a logarithm.
fn best_of(group: &[Bidder], slot: SlotIndex) -> Bid {
    let mut best = 0;
    let mut most = group[0].hash(slot);
    // In the order of ids: of two equal hashes the first stays.
    for (index, bidder) in group.iter().enumerate().skip(1) {
        let hash = bidder.hash(slot);
        if hash > most {
            (best, most) = (index, hash);
        }
    }
    group[best].bid_of(most)
}

fn lives(view: &Membership) -> BTreeMap<MemberId, MemberKey> {
    let keys = view.members().map(|seated| seated.record.key);
    keys.map(|key| (key.id, key)).collect()
}

fn by_id(view: &Membership) -> BTreeMap<MemberId, Bidder> {
    let salt: Salt = view.salt();
    let members = view.members();
    members
        .map(|seated| (seated.record.key.id, Bidder::new(&seated.record, salt)))
        .collect()
}

const _: () = assert!(SLOTS.is_power_of_two(), "a hash falls evenly");
