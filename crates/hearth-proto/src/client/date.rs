//! When this node last wrote a file, and who is to say so.
//!
//! A write of bytes below the end tells the manager nothing: that asks whoever writes when somebody wants to know
//! ([`crate::manager`]). So a node keeps the time of its last write until the manager has heard of it. From then on the
//! manager may hear of a later time from others, or of one that somebody sets.
//!
//! - C9: the time of an acknowledged write that the store does not have yet is known to its writer or to the manager.

use super::Desk;
use crate::config::Config;
use crate::ids::{FileId, NodeId, Stamp};
use crate::msg::{Body, Envelope};

/// The time of a file's last write, as far as this node knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Date {
    /// The last write of this node.
    last_ns: i64,
    known: Known,
}

/// The parties that know the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Known {
    /// The store, as far as this node knows.
    #[default]
    Stored,
    /// This node, and not the manager.
    Untold,
    /// The manager has heard of this node's write.
    Told,
    /// Only the manager: it may have heard of a later change.
    Asked,
    /// This node, and not the manager, which may have heard of a later change: the write had begun before that.
    Late,
}

impl Date {
    /// A write of this node has ended.
    pub(super) fn wrote(&mut self, config: &Config, mtime_ns: i64) {
        if config.dates_writes() {
            self.last_ns = self.last_ns.max(mtime_ns);
            self.known = match self.known {
                Known::Asked | Known::Late => Known::Late,
                Known::Stored | Known::Untold | Known::Told => Known::Untold,
            };
        }
    }

    /// The store has told its own times. A write that waits counts as no older: it had others before it. A time that somebody
    /// has set may be one to come, and is none of a write.
    pub(super) fn stamped(&mut self, stamp: &Stamp) {
        let written_ns = stamp.mtime_ns.min(stamp.ctime_ns);
        self.last_ns = self.last_ns.max(written_ns);
    }

    /// The last write of this node, if it may be that of the file.
    pub(super) fn own(self) -> Option<i64> {
        matches!(self.known, Known::Untold | Known::Told | Known::Late).then_some(self.last_ns)
    }

    /// Hands it to the manager, if that has not heard of it.
    pub(super) fn tell(&mut self) -> Option<i64> {
        self.known = match self.known {
            Known::Untold => Known::Told,
            Known::Late => Known::Asked,
            Known::Stored | Known::Told | Known::Asked => return None,
        };
        Some(self.last_ns)
    }

    /// Hands it to the manager, which is about to let somebody write, set it, or cut the file. A write of this node that is
    /// under way may end after one of theirs.
    fn hand_over(&mut self, writes: bool) -> Option<i64> {
        let told = self.tell();
        if self.known == Known::Told || writes {
            self.known = Known::Asked;
        }
        told
    }

    /// The manager that had heard of it is gone.
    pub(super) fn tell_anew(&mut self) {
        if self.known == Known::Told {
            self.known = Known::Untold;
        }
    }

    /// This node has set it in the store.
    pub(super) fn stored(&mut self) {
        self.known = Known::Stored;
    }

    /// The manager has let this node open the file. It knows of a time that the store does not have, or it does not.
    pub(super) fn opened(&mut self, writes: bool, dated: bool) {
        self.known = match (self.known, dated) {
            (Known::Untold, true) => Known::Late,
            (known @ (Known::Untold | Known::Late), _) => known,
            (Known::Told, _) if writes => Known::Told,
            (_, true) => Known::Asked,
            (Known::Asked, false) if writes => Known::Asked,
            (_, false) => Known::Stored,
        };
    }

    /// True if the store has it, as far as this node knows.
    pub(super) fn is_stored(self) -> bool {
        self.known == Known::Stored
    }

    /// True if a node that alone writes the file needs not ask the manager.
    pub(super) fn is_known(self, writes: bool) -> bool {
        match self.known {
            Known::Stored | Known::Untold => true,
            Known::Told => writes,
            Known::Asked | Known::Late => false,
        }
    }
}

impl Desk<'_, '_> {
    /// The manager takes back what it said: it is told when this node wrote last.
    pub(super) fn hand_over_date(&mut self, id: FileId) -> Option<i64> {
        let file = self.client.files.get_mut(&id)?;
        file.date.hand_over(file.writers > 0)
    }

    /// The manager asks when this node wrote last.
    pub(super) fn asked_date(&mut self, from: NodeId, question: &Envelope) {
        let (id, generation) = (question.file, question.generation);
        let file = self.client.files.get_mut(&id);
        let told = Body::DateIs(file.and_then(|file| file.date.tell()));
        self.ctx.answer(from, id, generation, question.req, told);
    }
}

#[cfg(test)]
mod tests {
    use super::Date;
    use crate::config::Config;
    use crate::ids::{NodeId, Stamp};

    fn stamp(mtime_ns: i64, ctime_ns: i64) -> Stamp {
        Stamp {
            mtime_ns,
            ctime_ns,
            size: 0,
        }
    }

    #[test]
    fn a_write_that_waited_counts_as_no_older_than_the_store() {
        let (config, mut date) = (Config::new(NodeId(0), 1), Date::default());
        date.stamped(&stamp(70, 70));
        date.wrote(&config, 50);
        assert_eq!(date.own(), Some(70));
    }

    #[test]
    fn a_time_to_come_that_somebody_set_is_none_of_a_write() {
        let (config, mut date) = (Config::new(NodeId(0), 1), Date::default());
        date.stamped(&stamp(9000, 70));
        date.wrote(&config, 80);
        assert_eq!(date.own(), Some(80));
    }
}
