//! Forgetting files that nobody uses.

use super::{Client, Desk};
use crate::ids::FileId;
use crate::manager::{looked_at, round};
use alloc::vec::Vec;

impl Desk<'_, '_> {
    /// Forgets some of the files that nobody uses, above the bound. It looks at those behind the ones of the last time, and
    /// at so few that it does not matter how many there are.
    pub(super) fn forget_idle(&mut self) {
        let client = &mut *self.client;
        let excess = client.files.len() - self.ctx.config.idle_files_max;
        let count = looked_at(excess).min(client.files.len());
        let mut idle = Vec::new();
        let mut last = client.looked_at;
        for (&id, file) in round(&client.files, client.looked_at).take(count) {
            last = id;
            if file.unused() && is_free(client, id) {
                idle.push(id);
            }
        }
        client.looked_at = last;
        for id in idle.into_iter().take(excess) {
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
    client.files.get(&id).is_some_and(|file| file.unused()) && is_free(client, id)
}

fn is_free(client: &Client, id: FileId) -> bool {
    !client.lapses.contains_key(&id)
        && !client.lingering.has(id)
        && !client.pending.are_of(id)
        // A truncation of the store is under way without a message or a handle.
        && !client.jobs.is_truncated(id)
}
