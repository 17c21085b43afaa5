//! The holder of each page, if each page has one home.
//!
//! Page `p` of every file is kept track of by node `p mod n`. The first node that asks becomes the
//! page's home for the life of the file: an eviction does not end that, so nobody has to be asked
//! before one.
//!
//! A node that asks for several pages at once may come before those who will use them as much. Left alone,
//! some nodes come to hold twice the pages of others, whose links and memory wait for theirs. So one that
//! has more than [`AHEAD`] times as many pages of the file as the keeper itself leaves the page to the keeper:
//! the less loaded of two, where keepers are dealt in turn.

use crate::ids::{FileId, NodeId};
use alloc::collections::BTreeMap;

/// The homes that this node keeps track of. One entry for each page that was touched, until the file is
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

/// How many times the keeper's pages an asker may have and be given one more.
const AHEAD: u32 = 2;

/// The home of a page that nobody has asked for before: an asker, or its keeper. Each comes with the pages of
/// the file that it has.
fn holder((asker, has): (NodeId, u32), (keeper, here): (NodeId, u32)) -> NodeId {
    match has > here.saturating_mul(AHEAD) {
        true => keeper,
        false => asker,
    }
}

impl Keeper {
    /// The home of a page; if nobody has asked before, the asker or this keeper. Each with the pages that it has.
    pub(super) fn home_of(
        &mut self,
        (id, life): (FileId, u64),
        page: u64,
        asker: (NodeId, u32),
        keeper: (NodeId, u32),
    ) -> NodeId {
        let kept = self.files.entry(id).or_default();
        if life < kept.life {
            // It asks for a file that is gone, and its requests will be sent back.
            return asker.0;
        }
        if life > kept.life {
            *kept = Kept {
                life,
                homes: BTreeMap::new(),
            };
        }
        *kept.homes.entry(page).or_insert(holder(asker, keeper))
    }

    /// A life of a file is over.
    pub(super) fn forget(&mut self, id: FileId, life: u64) {
        if self.files.get(&id).is_some_and(|kept| kept.life <= life) {
            self.files.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKER: NodeId = NodeId(0);
    const KEEPER: NodeId = NodeId(1);

    #[test]
    fn who_has_much_more_than_the_keeper_leaves_the_page_to_it() {
        let of = |has, here| holder((ASKER, has), (KEEPER, here));
        assert_eq!(of(0, 0), ASKER);
        assert_eq!(of(1, 0), KEEPER);
        assert_eq!(of(2, 1), ASKER);
        assert_eq!(of(3, 1), KEEPER);
        assert_eq!(of(u32::MAX, u32::MAX), ASKER);
    }

    #[test]
    fn a_page_stays_where_it_was_first_given() {
        let mut keeper = Keeper::default();
        let of = (FileId(1), 0);
        assert_eq!(keeper.home_of(of, 7, (ASKER, 1), (KEEPER, 0)), KEEPER);
        assert_eq!(keeper.home_of(of, 7, (ASKER, 0), (KEEPER, 0)), KEEPER);
    }
}
