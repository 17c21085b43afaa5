//! Nodes that ask for names of a directory at one time.
//!
//! To read a directory as a whole pays if many nodes ask for it, and if one asks for much of it. So the first
//! nodes that ask are told to look at some more names by themselves. Names are read when one of them comes
//! again, or when a crowd has gathered. They count for the crowd, not for those who come long after, as
//! people outside of the job may have changed the directory meanwhile.
//!
//! To forget a storm is always right: it takes some questions more until names are read.

use crate::ids::{FileId, NodeId};
use crate::nodeset::NodeSet;
use crate::time::{Span, Time};
use alloc::collections::BTreeMap;

/// A question so long after the first, or after names were told, is not of the same storm.
const LASTS: Span = Span::secs(1);

/// Nodes that make a crowd.
const CROWD: usize = 3;

/// Directories that are watched at one time; at the bound all are forgotten.
const STORMS_MAX: usize = 4096;

/// Storms of a manager's directories.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Storms(BTreeMap<FileId, Storm>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Storm {
    since: Time,
    askers: NodeSet,
}

impl Storms {
    /// A node asks: are names worth being read for it?
    pub(super) fn is_worth(&mut self, now: Time, dir: FileId, from: NodeId) -> bool {
        if !self.lasts(now, dir) {
            if self.0.len() >= STORMS_MAX {
                self.0.clear();
            }
            self.begin(now, dir);
        }
        let askers = self.0.get_mut(&dir).map(|storm| &mut storm.askers);
        askers.is_some_and(|askers| !askers.insert(from) || askers.len() >= CROWD)
    }

    /// Names were told now: they count from here.
    pub(super) fn told(&mut self, now: Time, dir: FileId) {
        match self.0.get_mut(&dir) {
            Some(storm) => storm.since = now,
            None => self.begin(now, dir),
        }
    }

    /// The names that were told count still.
    pub(super) fn lasts(&self, now: Time, dir: FileId) -> bool {
        let storm = self.0.get(&dir);
        storm.is_some_and(|storm| now < storm.since + LASTS)
    }

    fn begin(&mut self, now: Time, dir: FileId) {
        let (since, askers) = (now, NodeSet::default());
        self.0.insert(dir, Storm { since, askers });
    }
}
