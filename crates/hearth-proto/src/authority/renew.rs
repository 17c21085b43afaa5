//! A new view: of all that this side knows, it keeps nothing. The store has every byte.

use super::through::Stage;
use super::{Authority, PendingWrite, StoreOp, Waiting};
use crate::ctx::Ctx;
use crate::effect::{Effect, Src};
use crate::ids::FileId;
use alloc::vec::Vec;

impl Authority {
    /// Lets go of everything. Names that this side gives stay above those that it gave.
    pub(crate) fn end(&mut self, ctx: &mut Ctx<'_>) {
        self.take_back_all(ctx);
        self.free_asks(ctx);
        let files = self.files.keys();
        let forgotten = files.map(|&file| Effect::Forgotten { file });
        ctx.out.extend(forgotten);
        let (clock, grants) = (self.common.clock, self.common.grants);
        *self = Authority::default();
        (self.common.clock, self.common.grants) = (clock, grants);
    }

    /// Frees the bytes of others' writes that never took place. Those of this node free their own.
    fn free_asks(&self, ctx: &mut Ctx<'_>) {
        let me = ctx.me();
        for file in self.files.values() {
            // Of one that goes to the store by way of frames, they have been freed.
            let has_bytes = |write: &&PendingWrite| match write.stage {
                Stage::Calling | Stage::Held => true,
                Stage::Storing { .. } | Stage::Updating => write.ask.aside,
            };
            let begun = file.writes.iter().filter(has_bytes);
            let begun = begun.map(|write| &write.ask);
            let waiting = file.waiting.iter().filter_map(|waiting| match waiting {
                Waiting::Write(ask) => Some(ask),
                Waiting::Read(_) | Waiting::Flush(_) | Waiting::Peek(_) | Waiting::Hold(_) => None,
            });
            for ask in begun.chain(waiting).filter(|ask| ask.from != me) {
                if let Src::Buf(buf) = ask.data.src {
                    ctx.out.push(Effect::Free(buf));
                }
            }
        }
    }

    /// Has all that is here go to the store, also what fsync otherwise brings to a tier.
    pub(crate) fn settle_all(&mut self, ctx: &mut Ctx<'_>) {
        self.common.settles = true;
        self.flush_all(ctx);
    }

    /// Programs write nothing by themselves any more.
    pub(crate) fn take_back_all(&mut self, ctx: &mut Ctx<'_>) {
        let ids: Vec<FileId> = self.common.offered_files().collect();
        for id in ids {
            self.common.take_back_all(ctx, id);
        }
    }

    /// Files of which the store took bytes that it was not told to sync, or a tier some that the store lacks.
    pub(crate) fn unsynced(&self) -> impl Iterator<Item = FileId> + '_ {
        let files = self.files.iter();
        let unsynced = files.filter(|(_, file)| !file.unsynced.is_empty() || file.spilled);
        unsynced.map(|(&id, _)| id)
    }

    /// True while a sync is under way: bytes that it covers are dirty again if it fails, or the tier's alone.
    pub(crate) fn is_syncing(&self) -> bool {
        let syncs = |op: &StoreOp| matches!(op, StoreOp::Sync { .. } | StoreOp::Settle { .. });
        self.common.ops.values().any(syncs)
    }
}
