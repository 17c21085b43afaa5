//! Requests that wait at a manager, and the nodes whose word they wait for.

use super::{File, Manager};
use crate::ids::{FileId, NodeId};
use crate::wait::Wait;

impl Manager {
    /// All of them; the manager itself is `me`.
    pub(crate) fn waits(&self, me: NodeId) -> impl Iterator<Item = Wait> + '_ {
        let files = self.files.iter();
        let of_files = files.flat_map(move |(&id, file)| file.waits(me, id));
        of_files.chain(self.questions_held())
    }

    /// Questions that wait for what another node reads.
    pub(super) fn questions_held(&self) -> impl Iterator<Item = Wait> + '_ {
        let each = self.parked.iter();
        let each = each.flat_map(|(&file, parked)| parked.iter().map(move |parked| (file, parked)));
        each.filter_map(|(file, parked)| {
            let (on, _) = self.files.get(&file)?.leaves.reader?;
            Some(Wait {
                who: parked.ask.from,
                on,
                file,
                what: "what it reads of the attributes",
            })
        })
    }
}

impl File {
    /// The request that is served, and those behind it, wait for every node that has been told to let go.
    fn waits(&self, me: NodeId, file: FileId) -> impl Iterator<Item = Wait> + '_ {
        let wait = move |who, on, what| Wait {
            file,
            who,
            on,
            what,
        };
        let awaited = self.control.iter().flat_map(|control| control.awaits());
        let served = self.control.as_ref().and_then(|control| control.asker());
        let served = awaited.map(move |&(on, _)| wait(served.unwrap_or(me), on, "that it lets go"));
        let queue = self.queue.iter();
        let behind = queue.map(move |ask| wait(ask.from, me, "its turn at the manager"));
        let leaves = self.leaves.waits();
        let leaves = leaves.map(move |(who, on)| wait(who, on, "that it keeps no attributes"));
        let dates = self.dating.waits();
        let dates = dates.map(move |(who, on)| wait(who, on, "when it wrote last"));
        served.chain(behind).chain(leaves).chain(dates)
    }
}
