//! Answers that this node waits for.

use super::{Client, Pending, What};
use crate::ids::NodeId;
use crate::wait::Wait;

impl Client {
    /// Questions to others that are not answered.
    pub(crate) fn waits(&self, who: NodeId) -> impl Iterator<Item = Wait> + '_ {
        let waits = move |pending: &Pending| Wait {
            who,
            on: pending.to,
            file: pending.file,
            what: pending.what.told(),
        };
        self.pending.values().map(waits)
    }
}

impl What {
    /// In words.
    fn told(self) -> &'static str {
        match self {
            What::Whois => "who manages it, or that news came",
            What::HomeOf(_) => "who is the home of a chunk",
            What::Pages => "pages",
            What::Lease => "leave to ask daemons",
            What::Job(_) => "its manager",
            What::Leaves(_) => "leave to keep attributes",
            What::Part(..) => "a part of a write",
            What::Hold(..) => "a part of a read that is to be whole",
            What::Home(_) => "a part of a flush",
            What::Settled => "a flush",
            What::Reopen => "that a handle is counted anew",
        }
    }
}
