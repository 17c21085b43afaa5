//! The voters' log, in memory. A voter that restarts is another voter, so none comes back without it.

use super::types::{Entry, LogId, RaftTypes, StorageError};
use crate::membership::{MemberKey, ViewNumber};
use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{EntryPayload, LogState, OptionalSend, RaftLogId, RaftLogReader, Vote};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct Kept {
    vote: Option<Vote<MemberKey>>,
    purged: Option<LogId>,
    entries: BTreeMap<u64, Entry>,
}

/// The log of one voter.
#[derive(Clone, Debug, Default)]
pub(super) struct LogStore(Arc<Mutex<Kept>>);

impl LogStore {
    /// The newest view that an entry behind `applied` may make, if any may.
    pub(super) fn newest_view(&self, applied: Option<u64>) -> Option<ViewNumber> {
        let kept = self.lock();
        let first = applied.map_or(0, |applied| applied + 1);
        let views = kept
            .entries
            .range(first..)
            .filter_map(|(_, entry)| match &entry.payload {
                EntryPayload::Normal(proposal) => Some(proposal.at.next()),
                EntryPayload::Blank | EntryPayload::Membership(_) => None,
            });
        views.max()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RaftLogReader<RaftTypes> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, StorageError> {
        let kept = self.lock();
        Ok(kept
            .entries
            .range(range)
            .map(|(_, entry)| entry.clone())
            .collect())
    }
}

impl RaftLogStorage<RaftTypes> for LogStore {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> Result<LogState<RaftTypes>, StorageError> {
        let kept = self.lock();
        let last = kept.entries.values().next_back();
        Ok(LogState {
            last_purged_log_id: kept.purged,
            last_log_id: last.map(|entry| *entry.get_log_id()).or(kept.purged),
        })
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<MemberKey>) -> Result<(), StorageError> {
        self.lock().vote = Some(*vote);
        Ok(())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<MemberKey>>, StorageError> {
        Ok(self.lock().vote)
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<RaftTypes>,
    ) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries = entries
            .into_iter()
            .map(|entry| (entry.get_log_id().index, entry));
        self.lock().entries.extend(entries);
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId) -> Result<(), StorageError> {
        self.lock().entries.split_off(&log_id.index);
        Ok(())
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), StorageError> {
        let mut kept = self.lock();
        kept.entries = kept.entries.split_off(&(log_id.index + 1));
        kept.purged = Some(log_id);
        Ok(())
    }
}
