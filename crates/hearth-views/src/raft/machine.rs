//! Decided entries become views, in their order, the same at every voter.

use super::types::{Entry, LogId, Outcome, Proposal, RaftTypes, StorageError, Term};
use crate::history::ViewHistory;
use crate::membership::{MemberKey, Membership};
use openraft::storage::RaftStateMachine;
use openraft::{
    EmptyNode, EntryPayload, OptionalSend, RaftLogId, RaftSnapshotBuilder, Snapshot, SnapshotMeta,
    StoredMembership,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The newest view of one voter.
#[derive(Clone)]
pub(super) struct ViewMachine {
    view: Arc<Membership>,
    history: Arc<ViewHistory>,
    applied: Option<LogId>,
    voters: StoredMembership<MemberKey, EmptyNode>,
    /// One more than the index of the last applied entry, for others to look at.
    applied_count: Arc<AtomicU64>,
}

impl ViewMachine {
    pub(super) fn new(history: Arc<ViewHistory>, applied_count: Arc<AtomicU64>) -> ViewMachine {
        ViewMachine {
            view: history.newest(),
            history,
            applied: None,
            voters: StoredMembership::default(),
            applied_count,
        }
    }

    fn decide(&mut self, proposal: &Proposal, term: Term) -> Outcome {
        if !proposal.change.doomed().is_empty() && proposal.term != term {
            return Outcome::OtherTerm;
        }
        match self.view.apply(&proposal.change, proposal.at) {
            Ok(next) => {
                self.view = Arc::new(next.clone());
                self.history.push(Arc::clone(&self.view));
                Outcome::Decided(Box::new(next))
            }
            Err(refusal) => Outcome::Refused(refusal),
        }
    }

    fn note(&mut self, applied: Option<LogId>) {
        self.applied = applied;
        let count = applied.map_or(0, |applied| applied.index + 1);
        // Pairs with the Acquire in `Voter::accepted`.
        self.applied_count.store(count, Ordering::Release);
    }

    fn snapshot(&self) -> Snapshot<RaftTypes> {
        Snapshot {
            meta: SnapshotMeta {
                last_log_id: self.applied,
                last_membership: self.voters.clone(),
                snapshot_id: format!("view-{}", self.view.number()),
            },
            snapshot: Box::new(Membership::clone(&self.view)),
        }
    }
}

impl RaftSnapshotBuilder<RaftTypes> for ViewMachine {
    async fn build_snapshot(&mut self) -> Result<Snapshot<RaftTypes>, StorageError> {
        Ok(self.snapshot())
    }
}

impl RaftStateMachine<RaftTypes> for ViewMachine {
    type SnapshotBuilder = ViewMachine;

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<LogId>, StoredMembership<MemberKey, EmptyNode>), StorageError> {
        Ok((self.applied, self.voters.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Outcome>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut outcomes = Vec::new();
        for entry in entries {
            let id = *entry.get_log_id();
            outcomes.push(match entry.payload {
                EntryPayload::Blank => Outcome::Nothing,
                EntryPayload::Normal(proposal) => self.decide(&proposal, Term(id.leader_id.term)),
                EntryPayload::Membership(voters) => {
                    self.voters = StoredMembership::new(Some(id), voters);
                    Outcome::Nothing
                }
            });
            self.note(Some(id));
        }
        Ok(outcomes)
    }

    async fn get_snapshot_builder(&mut self) -> ViewMachine {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Membership>, StorageError> {
        Ok(Box::new(Membership::clone(&self.view)))
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<MemberKey, EmptyNode>,
        snapshot: Box<Membership>,
    ) -> Result<(), StorageError> {
        self.view = Arc::new(*snapshot);
        self.history.push(Arc::clone(&self.view));
        self.voters = meta.last_membership.clone();
        self.note(meta.last_log_id);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<RaftTypes>>, StorageError> {
        Ok(self.applied.map(|_| self.snapshot()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::{Consent, LossesBorne, MembershipChange};
    use crate::raft::testing::record;

    #[test]
    fn exclusion_that_was_checked_in_another_term_decides_nothing() {
        let records = [1, 2, 3].map(record);
        let first = Membership::found_with(&records, LossesBorne(1)).unwrap();
        let at = first.number();
        let history = Arc::new(ViewHistory::new(Arc::new(first)));
        let mut machine = ViewMachine::new(Arc::clone(&history), Arc::default());
        let proposal = Proposal {
            change: MembershipChange::Exclude(vec![record(3).key], Consent::Replicas),
            at,
            term: Term(4),
        };
        assert!(matches!(
            machine.decide(&proposal, Term(6)),
            Outcome::OtherTerm
        ));
        assert_eq!(history.newest().number(), at);
        assert!(matches!(
            machine.decide(&proposal, Term(4)),
            Outcome::Decided(_)
        ));
        assert_eq!(history.newest().number(), at.next());
    }
}
