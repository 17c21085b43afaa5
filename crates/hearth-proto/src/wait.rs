//! Waits of nodes for each other, as a node knows them: for people and for the simulator, which tells them of
//! worlds that stand still.

use crate::client::Client;
use crate::ids::{FileId, NodeId};
use crate::manager::Manager;
use alloc::vec::Vec;
use core::fmt;

/// One node waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wait {
    /// The file that it is about, or the first of several.
    pub file: FileId,
    /// The node that waits.
    pub who: NodeId,
    /// The node whose word it waits for.
    pub on: NodeId,
    /// The answer or event that it waits for.
    pub what: &'static str,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wait {
            file,
            who,
            on,
            what,
        } = self;
        write!(
            f,
            "node {} waits for node {}: {what}, file {}",
            who.0, on.0, file.0
        )
    }
}

/// Waits of this node, and of others at it, in an order that does not change.
pub(crate) fn all(me: NodeId, client: &Client, manager: &Manager) -> Vec<Wait> {
    let mut waits: Vec<Wait> = client.waits(me).chain(manager.waits(me)).collect();
    waits.sort_unstable();
    waits
}
