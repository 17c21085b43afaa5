//! Who holds a page, where a page is what has one home.
//!
//! Page `p` of every file is kept track of by node `p mod n`. The first node that asks becomes the
//! page's home for the life of the file: an eviction does not end that, so nobody has to be asked
//! before one.

use crate::ids::{FileId, NodeId};
use alloc::collections::BTreeMap;

/// What this node keeps track of. One entry for each page that was touched, until the file is
/// detached or its number means another file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Keeper {
    files: BTreeMap<FileId, Kept>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Kept {
    life: u64,
    homes: BTreeMap<u64, NodeId>,
}

impl Keeper {
    /// The home of a page, which is the asker if nobody has asked before.
    pub(super) fn home_of(&mut self, id: FileId, life: u64, page: u64, asker: NodeId) -> NodeId {
        let kept = self.files.entry(id).or_default();
        if life < kept.life {
            // It asks for a file that is gone, and its requests will be sent back.
            return asker;
        }
        if life > kept.life {
            *kept = Kept {
                life,
                homes: BTreeMap::new(),
            };
        }
        *kept.homes.entry(page).or_insert(asker)
    }

    /// A life of a file is over.
    pub(super) fn forget(&mut self, id: FileId, life: u64) {
        if self.files.get(&id).is_some_and(|kept| kept.life <= life) {
            self.files.remove(&id);
        }
    }
}
