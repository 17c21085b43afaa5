//! Each rule of a change, once kept and once broken.

use super::*;

fn key(id: u32, incarnation: u64) -> MemberKey {
    MemberKey {
        id: MemberId(id),
        incarnation: Incarnation(incarnation),
    }
}

fn record(id: u32, incarnation: u64, domain: &str) -> MemberRecord {
    MemberRecord {
        key: key(id, incarnation),
        address: format!("host{id}:4000"),
        domain: FailureDomain(domain.to_owned()),
    }
}

/// Nodes 0, 1, 2, ... in these domains, of which `borne` may be lost.
fn set(domains: &[&str], borne: u16) -> Membership {
    let records: Vec<_> = (0..)
        .zip(domains)
        .map(|(id, domain)| record(id, 1, domain))
        .collect();
    Membership::found_with(&records, LossesBorne(borne)).unwrap()
}

fn after(view: &Membership, change: MembershipChange) -> Result<Membership, ViewRefusal> {
    view.apply(&change, view.number())
}

fn exclusion(ids: &[u32]) -> MembershipChange {
    let keys = ids.iter().map(|id| key(*id, 1)).collect();
    MembershipChange::Exclude(keys, Consent::Replicas)
}

#[test]
fn change_for_another_view_is_stale() {
    let first = set(&["a", "b", "c"], 1);
    let second = after(&first, exclusion(&[2])).unwrap();
    let late = second.apply(&exclusion(&[1]), first.number());
    let (at, now) = (ViewNumber(1), ViewNumber(2));
    assert_eq!(late, Err(ViewRefusal::Stale { at, now }));
}

#[test]
fn incarnation_that_left_or_was_excluded_never_comes_back() {
    let first = set(&["a", "b", "c"], 2);
    let left = after(&first, MembershipChange::Leave(key(1, 1))).unwrap();
    let excluded = after(&left, exclusion(&[2])).unwrap();
    for id in [1, 2] {
        let again = after(&excluded, MembershipChange::Join(record(id, 1, "a")));
        assert_eq!(again, Err(ViewRefusal::Returned(key(id, 1))));
        let next = after(&excluded, MembershipChange::Join(record(id, 2, "a"))).unwrap();
        assert!(next.has(key(id, 2)) && !next.has(key(id, 1)));
    }
}

#[test]
fn excluded_incarnation_waits_for_its_fence_and_one_that_left_does_not() {
    let first = set(&["a", "b", "c"], 2);
    let left = after(&first, MembershipChange::Leave(key(1, 1))).unwrap();
    assert_eq!(left.fence_status(key(1, 1)), FenceStatus::Past);
    let excluded = after(&left, exclusion(&[2])).unwrap();
    assert_eq!(excluded.fence_status(key(2, 1)), FenceStatus::Wanted);
    let joined = after(&excluded, MembershipChange::Join(record(2, 2, "c"))).unwrap();
    assert_eq!(joined.fence_status(key(2, 1)), FenceStatus::Wanted);
    let fenced = after(&joined, MembershipChange::Fenced(key(2, 1))).unwrap();
    assert_eq!(fenced.fence_status(key(2, 1)), FenceStatus::Past);
    let twice = after(&fenced, MembershipChange::Fenced(key(2, 1)));
    assert_eq!(twice, Err(ViewRefusal::NotUnfenced(key(2, 1))));
}

#[test]
fn more_losses_than_replicas_bear_are_refused_unless_a_person_consents() {
    let first = set(&["a", "b", "c", "d"], 1);
    let refused = after(&first, exclusion(&[2, 3])).unwrap_err();
    let borne = LossesBorne(1);
    assert_eq!(refused, ViewRefusal::TooManyLost { lost: 2, borne });
    assert!(refused.to_string().contains("bring nodes back"));
    let keys = vec![key(2, 1), key(3, 1)];
    let by_hand = MembershipChange::Exclude(keys, Consent::Person);
    assert_eq!(after(&first, by_hand).unwrap().members().len(), 2);
}

#[test]
fn losses_one_after_the_other_count_together_until_they_are_fenced() {
    let first = set(&["a", "b", "c", "d"], 1);
    let one = after(&first, exclusion(&[2])).unwrap();
    assert!(matches!(
        after(&one, exclusion(&[3])),
        Err(ViewRefusal::TooManyLost { lost: 2, .. })
    ));
    let fenced = after(&one, MembershipChange::Fenced(key(2, 1))).unwrap();
    assert!(after(&fenced, exclusion(&[3])).is_ok());
}

#[test]
fn nodes_of_one_failure_domain_are_one_loss_if_replicas_have_domains_of_their_own() {
    let racks = set(&["a", "a", "b", "c"], 1);
    assert!(after(&racks, exclusion(&[0, 1])).is_ok());
    let one_rack = set(&["a", "a", "a", "a"], 1);
    assert!(after(&one_rack, exclusion(&[0, 1])).is_err());
}

#[test]
fn node_has_one_member_at_a_time() {
    let first = set(&["a", "b"], 1);
    let sitting = key(1, 1);
    let second = after(&first, MembershipChange::Join(record(1, 2, "b")));
    let id = MemberId(1);
    assert_eq!(second, Err(ViewRefusal::SeatTaken { id, sitting }));
}

#[test]
fn last_member_stays() {
    let alone = set(&["a"], 1);
    let left = after(&alone, MembershipChange::Leave(key(0, 1)));
    assert_eq!(left, Err(ViewRefusal::NoneLeft));
}

#[test]
fn stranger_neither_leaves_nor_is_excluded() {
    let first = set(&["a", "b"], 1);
    for change in [MembershipChange::Leave(key(1, 9)), exclusion(&[1, 1])] {
        assert!(matches!(
            after(&first, change),
            Err(ViewRefusal::NotMember(_))
        ));
    }
}

#[test]
fn malformed_record_is_refused() {
    let first = set(&["a"], 1);
    let mut wordy = record(1, 1, "b");
    wordy.address = "x".repeat(TEXT_BYTES_MAX + 1);
    let refused = after(&first, MembershipChange::Join(wordy));
    assert_eq!(refused, Err(ViewRefusal::Malformed(key(1, 1))));
}

#[test]
fn set_takes_no_more_members_than_its_bound() {
    let records: Vec<_> = (0..MEMBERS_MAX as u32)
        .map(|id| record(id, 1, "a"))
        .collect();
    let mut full = set(&["a"], 1);
    for record in &records[1..] {
        full.join(record).unwrap();
    }
    let more = after(
        &full,
        MembershipChange::Join(record(MEMBERS_MAX as u32, 1, "a")),
    );
    assert_eq!(more, Err(ViewRefusal::Full));
}
