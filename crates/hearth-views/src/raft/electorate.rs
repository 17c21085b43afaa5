//! The voters follow the view: one that is no member any more is replaced by the eldest that does not vote.

use super::types::{EmbeddedConfig, Raft};
use super::voter::{ANSWER_SPAN_MAX, Voter};
use crate::membership::{MemberKey, Membership};
use openraft::EmptyNode;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::time::timeout;

/// The members by the view that first had them.
pub(super) fn eldest(view: &Membership) -> Vec<MemberKey> {
    let mut seated: Vec<_> = view.members().collect();
    seated.sort_unstable_by_key(|seated| (seated.since, seated.record.key));
    seated.into_iter().map(|seated| seated.record.key).collect()
}

/// The voters that a view is to have: those that vote and are members, then the eldest.
fn wanted(view: &Membership, voters: &BTreeSet<MemberKey>, count: usize) -> BTreeSet<MemberKey> {
    let staying = voters.iter().copied().filter(|voter| view.has(*voter));
    let mut wanted: BTreeSet<MemberKey> = staying.take(count).collect();
    for member in eldest(view) {
        if wanted.len() < count {
            wanted.insert(member);
        }
    }
    wanted
}

/// The voters that this agent knows: while they change, the earlier and the later ones.
pub(super) fn voters(raft: &Raft) -> BTreeSet<MemberKey> {
    let metrics = raft.metrics();
    let metrics = metrics.borrow();
    metrics.membership_config.voter_ids().collect()
}

/// Waits until this agent knows of no change of voters under way, and tells who votes.
pub(super) async fn decided_voters(raft: &Raft) -> Option<BTreeSet<MemberKey>> {
    let mut metrics = raft.metrics();
    let decided = metrics.wait_for(|metrics| {
        let told = &metrics.membership_config;
        let is_applied = told.log_id().as_ref() <= metrics.last_applied.as_ref();
        is_applied && told.membership().get_joint_config().len() == 1
    });
    Some(decided.await.ok()?.membership_config.voter_ids().collect())
}

/// Replaces voters while this agent coordinates. A step that gets no answer is tried at the next change.
pub(super) async fn tend(voter: Arc<Voter>) {
    let mut metrics = voter.raft.metrics();
    while metrics.changed().await.is_ok() {
        if voter.term().is_some() {
            replace(&voter.raft, &voter.config, &voter.history.newest()).await;
        }
    }
}

async fn replace(raft: &Raft, config: &EmbeddedConfig, view: &Membership) {
    let now = voters(raft);
    let wanted = wanted(view, &now, config.seats);
    if wanted == now {
        return;
    }
    for new in wanted.difference(&now) {
        let added = timeout(
            ANSWER_SPAN_MAX,
            raft.add_learner(*new, EmptyNode::new(), false),
        );
        if !matches!(added.await, Ok(Ok(_))) {
            return;
        }
    }
    // Others coordinate, or the change before is not decided yet: the next look finds out.
    let _ = timeout(ANSWER_SPAN_MAX, raft.change_membership(wanted, false)).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::{Consent, LossesBorne, MembershipChange};
    use crate::raft::testing::record;

    #[test]
    fn excluded_voter_is_replaced_by_the_eldest_member_that_does_not_vote() {
        let records = [5, 6, 7].map(record);
        let first = Membership::found_with(&records, LossesBorne(1)).unwrap();
        let after = |view: &Membership, change| view.apply(&change, view.number()).unwrap();
        let second = after(&first, MembershipChange::Join(record(3)));
        let third = after(&second, MembershipChange::Join(record(1)));
        let now: BTreeSet<MemberKey> = records.iter().map(|record| record.key).collect();
        assert_eq!(wanted(&third, &now, 3), now);
        let gone = MembershipChange::Exclude(vec![record(6).key], Consent::Replicas);
        let last = wanted(&after(&third, gone), &now, 3);
        assert_eq!(last, [3, 5, 7].map(|id| record(id).key).into());
    }
}
