//! Forgetting files that nobody uses.

use super::{Client, Desk, File, Job};
use crate::ids::FileId;
use crate::manager::{looked_at, round};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// So many unused files too many are kept before some are forgotten: each time all that is under way is looked at.
pub(super) const AT_ONCE: usize = 64;

impl Desk<'_, '_> {
    /// Forgets some of the files that nobody uses, above the bound. It looks at those behind the ones of the last time, and
    /// at so few that it does not matter how many there are.
    pub(super) fn forget_idle(&mut self) {
        let client = &mut *self.client;
        let excess = client.files.len() - self.ctx.config.idle_files_max;
        let count = looked_at(excess).min(client.files.len());
        let mut idle = BTreeSet::new();
        for (&id, file) in round(&client.files, client.looked_at).take(count) {
            client.looked_at = id;
            let is_free = !client.lapses.contains_key(&id) && !client.lingering.has(id);
            if file.unused() && is_free {
                idle.insert(id);
            }
        }
        if !idle.is_empty() {
            // One look at all that is under way, for all of these.
            client.pending.values().for_each(|pending| {
                idle.remove(&pending.file);
            });
            client
                .jobs
                .values()
                .filter_map(Job::truncated)
                .for_each(|id| {
                    idle.remove(&id);
                });
        }
        let idle: Vec<FileId> = idle.into_iter().take(excess).collect();
        for id in idle {
            self.revoke_quietly(id);
            if let Some(file) = self.client.files.remove(&id) {
                for copy in file.copies.values() {
                    self.ctx.frames.give_back(copy.slot);
                }
            }
        }
    }
}

/// No handle, job or message in flight needs the file.
pub(super) fn is_idle(client: &Client, id: FileId) -> bool {
    client.files.get(&id).is_some_and(File::unused)
        && !client.lapses.contains_key(&id)
        && !client.lingering.has(id)
        && !client.pending.values().any(|pending| pending.file == id)
        // A truncation of the store is under way without a message or a handle.
        && !client.jobs.values().any(|job| job.truncated() == Some(id))
}
