//! SLOT-1 to SLOT-3, and how evenly slots are spread.

use super::*;
use crate::membership::{
    Consent, Fingerprint, Incarnation, LossesBorne, MemberWeight, MembershipChange, Salt,
};

fn record(id: u32, weight: u16) -> MemberRecord {
    MemberRecord {
        key: MemberKey {
            id: MemberId(id),
            incarnation: Incarnation(1),
        },
        address: String::new(),
        domain: FailureDomain(format!("rack{}", id / 2)),
        weight: MemberWeight(weight),
        fingerprint: Fingerprint(Vec::new()),
    }
}

/// Nodes 0, 1, 2, ... of these weights.
fn set(weights: &[u16], salt: u64) -> Membership {
    let records: Vec<_> = (0..)
        .zip(weights)
        .map(|(id, weight)| record(id, *weight))
        .collect();
    Membership::found_with(&records, Salt(salt), LossesBorne(4)).unwrap()
}

fn after(view: &Membership, change: MembershipChange) -> Membership {
    view.apply(&change, view.number()).unwrap()
}

fn without(view: &Membership, id: u32) -> Membership {
    let key = view.member(MemberId(id)).unwrap().record.key;
    after(
        view,
        MembershipChange::Exclude(vec![key], Consent::Replicas),
    )
}

/// The part of all slots that is expected of `weight` among `sum`, and the deviation of that, in slots.
fn expected(weight: u16, sum: u32) -> (f64, f64) {
    let part = f64::from(weight) / f64::from(sum);
    let slots = f64::from(SLOTS);
    (slots * part, (slots * part * (1.0 - part)).sqrt())
}

#[test]
fn join_moves_at_most_its_share_and_only_to_itself() {
    for (count, salt) in [(1, 1), (2, 9), (3, 2), (7, 3), (16, 4), (33, 5), (63, 6)] {
        let before = set(&vec![1; count], salt);
        let after = after(&before, MembershipChange::Join(record(900, 1)));
        let (old, new) = (SlotTable::of(&before), SlotTable::of(&after));
        let moved = old.moved(&new);
        let most = 1.1 / (count + 1) as f64 * f64::from(SLOTS);
        assert!(moved.len() as f64 <= most, "{count}: {}", moved.len());
        assert!(
            moved
                .iter()
                .all(|slot| new.owner(*slot).id == MemberId(900))
        );
    }
}

#[test]
fn join_among_many_moves_its_share_within_six_deviations() {
    let count = 300_u16;
    let before = set(&vec![1; usize::from(count)], 8);
    let mut table = SlotTable::of(&before);
    let moved = table.advance(&after(&before, MembershipChange::Join(record(900, 1))));
    let (mean, deviation) = expected(1, u32::from(count) + 1);
    assert!((moved.len() as f64 - mean).abs() < 6.0 * deviation);
}

#[test]
fn death_moves_the_slots_of_the_dead_and_no_other() {
    for (weights, salt) in [(vec![1; 5], 1), (vec![1, 2, 3, 40, 5], 2), (vec![7; 24], 3)] {
        let before = set(&weights, salt);
        let after = without(&before, 3);
        let (old, new) = (SlotTable::of(&before), SlotTable::of(&after));
        let owned = SlotIndex::all().filter(|slot| old.owner(*slot).id == MemberId(3));
        assert_eq!(old.moved(&new), owned.collect::<Vec<_>>());
    }
}

#[test]
fn loads_deviate_no_more_than_chance() {
    for weights in [vec![1; 64], (1..=40).collect::<Vec<u16>>()] {
        let sum = weights.iter().map(|weight| u32::from(*weight)).sum();
        let loads = SlotTable::of(&set(&weights, 5)).loads();
        for ((_, load), weight) in loads.into_iter().zip(&weights) {
            let (mean, deviation) = expected(*weight, sum);
            let off = (f64::from(load) - mean) / deviation;
            assert!(
                off.abs() < 5.0,
                "weight {weight}: {load} slots, {off} deviations"
            );
        }
    }
}

#[test]
fn table_that_advances_is_the_table_from_nothing() {
    let mut view = set(&[1, 1, 2, 1, 3, 2], 4);
    let mut table = SlotTable::of(&view);
    let restarted = |id| {
        let mut record = record(id, 2);
        record.key.incarnation = Incarnation(2);
        MembershipChange::Join(record)
    };
    let changes = [
        MembershipChange::Join(record(6, 1)),
        MembershipChange::Leave(record(2, 1).key),
        MembershipChange::Exclude(vec![record(0, 1).key, record(4, 1).key], Consent::Replicas),
        restarted(2),
        MembershipChange::Fenced(record(0, 1).key),
        restarted(0),
    ];
    for change in changes {
        view = after(&view, change);
        let before = table.clone();
        let moved = table.advance(&view);
        assert_eq!(table, SlotTable::of(&view));
        assert_eq!(moved, before.moved(&table));
    }
}

#[test]
fn rank_begins_with_the_owner_and_goes_on_with_the_next() {
    let view = set(&[1, 1, 2, 3], 6);
    let table = SlotTable::of(&view);
    for slot in SlotIndex::all().step_by(997) {
        let rank = ranked(&view, slot);
        assert_eq!(rank[0].key, table.owner(slot));
        let next = without(&view, rank[0].key.id.0);
        assert_eq!(rank[1..].to_vec(), ranked(&next, slot));
    }
}

#[test]
fn replicas_have_failure_domains_of_their_own_while_there_are_enough() {
    let view = set(&[1; 6], 6);
    for slot in SlotIndex::all().step_by(997) {
        let nodes = owner_and_replicas(&view, slot, 5);
        let racks: Vec<u32> = nodes.iter().take(3).map(|node| node.0 / 2).collect();
        let distinct: std::collections::BTreeSet<_> = racks.iter().collect();
        assert_eq!((nodes.len(), distinct.len()), (5, 3));
        assert_eq!(nodes[0], ranked(&view, slot)[0].key.id);
    }
}

#[test]
fn slot_of_the_dead_waits_for_the_fence_even_if_a_newcomer_outbids() {
    let first = set(&[1; 4], 6);
    let old = SlotTable::of(&first);
    let dead = first.member(MemberId(2)).unwrap().record.key;
    let mut later = without(&first, 2);
    for id in 10..20 {
        later = after(&later, MembershipChange::Join(record(id, 1)));
    }
    for slot in SlotIndex::all().step_by(101) {
        let waits = service(&later, slot) == SlotService::AwaitsFence(dead);
        assert_eq!(waits, old.owner(slot) == dead);
    }
    let fenced = after(&later, MembershipChange::Fenced(dead));
    let mut slots = SlotIndex::all().step_by(101);
    assert!(slots.all(|slot| service(&fenced, slot) == SlotService::Open));
}

/// Other owners than these would move every slot of a set whose agents are of two builds.
#[test]
fn owners_are_the_same_on_every_machine() {
    let table = SlotTable::of(&set(&[1, 2, 3, 4, 5], 42));
    let owners = SlotIndex::all().map(|slot| u64::from(table.owner(slot).id.0));
    let digest = owners.fold(0_u64, |sum, owner| sum.wrapping_mul(31).wrapping_add(owner));
    assert_eq!(digest, 11_600_099_077_895_998_700);
}
