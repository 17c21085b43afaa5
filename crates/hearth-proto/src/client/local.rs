//! Writes that programs of this node make by themselves, to pages that were offered to them.

use super::{Client, Desk};
use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::input::LocalWrite;
use crate::semantics::Semantics;

impl Client {
    /// How far such writes may reach, if the file is one for them: a session has it open for writing, it
    /// is served by homes, and nothing but `Posix` is promised of it.
    pub(crate) fn lets_write(&self, id: FileId) -> Option<u64> {
        let file = self.files.get(&id)?;
        let served = !file.bypass && !file.orphan && file.manager.is_some();
        let plain = file.semantics == Semantics::Posix && !file.mapped && file.parked.is_empty();
        (file.writers > 0 && served && plain).then_some(file.size)
    }

    /// One of them is applied: what any write of this node leaves behind.
    pub(crate) fn wrote_here(&mut self, ctx: &mut Ctx<'_>, write: &LocalWrite) {
        ctx.stats.writes += 1;
        ctx.stats.written_bytes += u64::from(write.len);
        if let Some(file) = self.files.get_mut(&write.file) {
            file.wrote.insert(ctx.me());
            file.unreported = true;
            file.mtime_ns = Some(write.mtime_ns);
        }
    }
}

impl Desk<'_, '_> {
    /// A program stores into a mapping of the file.
    pub(super) fn mapped(&mut self, id: FileId) {
        if let Some(file) = self.client.files.get_mut(&id) {
            file.mapped = file.handles > 0;
        }
    }
}
