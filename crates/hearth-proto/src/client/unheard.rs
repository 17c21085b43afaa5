//! Losses that no sync or close has told: the next descriptor of the file tells them.
//!
//! If close does not wait, a home may die when its writers have closed. Such losses outlive views, as descriptors do.

use super::{Client, Desk};
use crate::RawErrno;
use crate::effect::{Alarm, Effect};
use crate::errno::EIO;
use crate::ids::{FileId, NodeId};
use alloc::collections::BTreeMap;

/// Files with such losses. There is only the alarm for those beyond.
const UNHEARD_MAX: usize = 1 << 16;

/// Files with such losses, and the error of the last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Unheard(BTreeMap<FileId, RawErrno>);

impl Unheard {
    fn add(&mut self, id: FileId, errno: RawErrno) {
        if self.0.len() < UNHEARD_MAX || self.0.contains_key(&id) {
            self.0.insert(id, errno);
        }
    }

    /// A descriptor has told of them, or the file is gone.
    pub(super) fn end(&mut self, id: FileId) {
        self.0.remove(&id);
    }
}

impl Client {
    /// The losses of a file that a new descriptor need not tell. A file that was forgotten meanwhile has its last loss again.
    pub(super) fn losses_heard(&mut self, id: FileId) -> u32 {
        let file = self.files.entry(id).or_default();
        let Some(&errno) = self.unheard.0.get(&id) else {
            return file.losses;
        };
        if file.losses == 0 {
            (file.losses, file.loss) = (1, errno);
        }
        file.losses - 1
    }
}

impl Desk<'_, '_> {
    /// Bytes that this node wrote are lost.
    pub(super) fn lose_bytes(&mut self, id: FileId, errno: RawErrno) {
        if let Some(file) = self.client.files.get_mut(&id) {
            file.losses += 1;
            file.loss = errno;
            self.client.unheard.add(id, errno);
        }
    }

    /// They are lost with their home.
    pub(super) fn lose_with(&mut self, id: FileId, home: NodeId) {
        self.lose_bytes(id, EIO);
        let alarm = Alarm::BytesLost(id, home);
        self.ctx.out.push(Effect::Alarm(alarm));
    }
}
