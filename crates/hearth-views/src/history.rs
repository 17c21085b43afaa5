//! The views that an agent keeps, for those that watch.

use crate::log::{LogError, Patience, WATCH_VIEWS_MAX};
use crate::membership::{Membership, ViewNumber};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Views that are kept. Older ones are forgotten; a late watcher begins with a later view.
pub const VIEWS_KEPT_MAX: usize = 256;

/// Decided views in their order, the newest last.
#[derive(Debug)]
pub(crate) struct ViewHistory {
    kept: Mutex<VecDeque<Arc<Membership>>>,
    changed: Condvar,
}

impl ViewHistory {
    pub(crate) fn new(first: Arc<Membership>) -> ViewHistory {
        ViewHistory {
            kept: Mutex::new(VecDeque::from([first])),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn newest(&self) -> Arc<Membership> {
        let kept = self.lock();
        Arc::clone(kept.back().expect("a history begins with a view"))
    }

    /// Adds a view. One that is not newer is known already.
    pub(crate) fn push(&self, view: Arc<Membership>) {
        let mut kept = self.lock();
        let newest = kept.back().map(|newest| newest.number());
        if newest >= Some(view.number()) {
            return;
        }
        if newest.map(ViewNumber::next) != Some(view.number()) {
            // Views between were forgotten. A watcher that had the ones before goes on with this.
            kept.clear();
        }
        kept.push_back(view);
        if kept.len() > VIEWS_KEPT_MAX {
            kept.pop_front();
        }
        self.changed.notify_all();
    }

    /// Forgets all but the newest `keep`, of which there is at least one.
    pub(crate) fn compact(&self, keep: usize) {
        let mut kept = self.lock();
        let extra = kept.len().saturating_sub(keep.max(1));
        kept.drain(..extra);
    }

    /// Views behind `after` that are here now.
    pub(crate) fn after(&self, after: ViewNumber) -> Vec<Arc<Membership>> {
        behind(&self.lock(), after, None)
    }

    /// Views behind `after`. Each slice of the wait begins with a look around; views past the one that it
    /// returns are held back.
    pub(crate) fn wait_after(
        &self,
        after: ViewNumber,
        patience: &Patience,
        mut look: impl FnMut() -> Option<ViewNumber>,
    ) -> Result<Vec<Arc<Membership>>, LogError> {
        let deadline = patience.deadline();
        loop {
            let until = look();
            let kept = self.lock();
            let views = behind(&kept, after, until);
            let slice = deadline.slice().map_err(LogError::Undecided)?;
            let (false, Some(slice)) = (!views.is_empty(), slice) else {
                return Ok(views);
            };
            drop(self.changed.wait_timeout(kept, slice));
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Membership>>> {
        // No holder leaves it half changed.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn behind(
    kept: &VecDeque<Arc<Membership>>,
    after: ViewNumber,
    until: Option<ViewNumber>,
) -> Vec<Arc<Membership>> {
    let is_wanted = |view: &&Arc<Membership>| {
        view.number() > after && until.is_none_or(|until| view.number() <= until)
    };
    kept.iter()
        .filter(is_wanted)
        .take(WATCH_VIEWS_MAX)
        .cloned()
        .collect()
}
