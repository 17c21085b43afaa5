//! The questions of a front end, and their order, for programs that look at many names of a directory. Pure
//! decisions: no thread, no clock and no lock, so that the simulator runs them as front ends do.
//!
//! Invariant L1: before a question that may wait for another node ([`Question::may_wait`]) everything is told
//! that was read under earlier leave for the same lookup. So no reader waits for a reader that waits for it.

/// Lookups in one directory, within the time-to-live, after which it is worth being read as a whole.
pub const LOOKUPS_ALONE: u32 = 2;
/// Lookups for which a directory is left alone at most after there was no leave to keep its names.
const LOOKUPS_ALONE_MAX: u32 = 1024;
/// Names of a directory that are read in the time of one lookup. A directory that changes all the time is read
/// again only when as much has been spent on lookups.
const NAMES_A_LOOKUP: usize = 16;
/// Files whose attributes are asked for at once, to begin with.
pub const BATCH: usize = 64;
/// So many at most: the answer fits into one message.
pub const BATCH_MAX: usize = 512;
/// Files whose attributes are read for one question, or along with the names of their directory, if that takes a
/// request for each. A lookup waits for so many at most, here and on other nodes.
pub const READ_AT_ONCE: usize = BATCH;
/// The same along with the names where these bring attributes.
const READ_ALONG_MAX: usize = 4096;
/// Looks at one time: the store's client and its servers wait for the network.
pub const LOOKS_AT_ONCE: usize = 4;
/// Looks that are worth another thread.
pub const LOOKS_EACH: usize = 8;
/// Files whose managers are asked for at once.
pub const LOCATED_AT_ONCE: usize = 1024;
/// Names of a directory that an agent takes in at once: others are served before it takes the next.
pub const LISTED_AT_ONCE: usize = 1024;
/// Nodes of a herd in which each may read all names, at most. To send an entry with its attributes, and to take
/// it in, is a sixteenth of a look, or less.
const HERD: usize = 12;

/// A question about a file that a program wants, and about others for later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// For leave: the file and some behind it.
    Near,
    /// For leave: some of this node's own part of the directory, which others await.
    Own,
    /// For what others read: the file and some behind it.
    Awaited,
    /// For leave, as nobody reads the file after all: it and some behind it.
    Unread,
    /// For leave: the file alone, which somebody has begun to read meanwhile.
    Alone,
}

impl Question {
    /// The first of them. If another node is at the same files, each reads a part of its own.
    pub fn first(is_shared: bool) -> Question {
        match is_shared {
            false => Question::Near,
            true => Question::Own,
        }
    }

    /// The next, if another node is reading the wanted file; else memory has it, or the store is asked.
    pub fn next(self, is_read_elsewhere: bool) -> Option<Question> {
        match (self, is_read_elsewhere) {
            (Question::Near, true) => Some(Question::Own),
            (Question::Own, _) => Some(Question::Awaited),
            (Question::Awaited, true) => Some(Question::Unread),
            (Question::Unread, true) => Some(Question::Alone),
            (Question::Near | Question::Awaited | Question::Unread, false)
            | (Question::Alone, _) => None,
        }
    }
}

/// Files of a batch after so many: whoever asks for many gets more with each question.
pub fn batch(asked: u32) -> usize {
    (BATCH << asked.min(usize::BITS / 2)).min(BATCH_MAX)
}

/// Files whose attributes are read along with the names of their directory.
pub fn read_along(attributes_come_along: bool) -> usize {
    match attributes_come_along {
        true => READ_ALONG_MAX,
        false => READ_AT_ONCE,
    }
}

/// Whether so many looks are worth that all names are read before, for the attributes that come along. It takes
/// so many requests, and so many nodes do so.
pub fn names_are_worth(looks: usize, requests: usize, readers: usize) -> bool {
    looks > requests && readers <= HERD
}

/// Lookups in a directory whose names are not known: when it is worth being read as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookups {
    count: u32,
    /// Lookups after which it is.
    alone: u32,
}

impl Default for Lookups {
    fn default() -> Lookups {
        Lookups {
            count: 0,
            alone: LOOKUPS_ALONE,
        }
    }
}

impl Lookups {
    /// One more.
    pub fn count(&mut self) {
        self.count = self.count.saturating_add(1);
    }

    /// Whether the names should be read.
    pub fn is_burst(&self) -> bool {
        self.count > self.alone
    }

    /// Those so far say nothing of the next.
    pub fn begin_anew(&mut self) {
        self.count = 0;
    }

    /// Names were read: as much as that took is spent on lookups before they are read again.
    pub fn listed(&mut self, names: usize) {
        self.count = 0;
        let spent = u32::try_from(names / NAMES_A_LOOKUP).unwrap_or(u32::MAX);
        self.alone = spent.max(LOOKUPS_ALONE);
    }

    /// There was no leave to keep the names.
    pub fn refused(&mut self) {
        self.count = 0;
        self.alone = (self.alone * 2).min(LOOKUPS_ALONE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Questions about a file that another node reads for so many of them.
    fn asked(is_shared: bool, read_for: usize) -> Vec<Question> {
        let first = Some(Question::first(is_shared));
        let mut left = read_for + 1;
        let next = |question: &Question| {
            left = left.saturating_sub(1);
            question.next(left > 0)
        };
        core::iter::successors(first, next).collect()
    }

    #[test]
    fn a_lookup_ends_whatever_others_read() {
        use Question::{Alone, Awaited, Near, Own, Unread};
        assert_eq!(asked(false, 0), [Near]);
        assert_eq!(asked(false, 1), [Near, Own, Awaited]);
        assert_eq!(asked(false, 9), [Near, Own, Awaited, Unread, Alone]);
        assert_eq!(asked(true, 9), [Own, Awaited, Unread, Alone]);
    }

    #[test]
    fn a_directory_that_may_not_be_kept_is_asked_for_less_and_less() {
        let mut lookups = Lookups::default();
        let mut bursts = Vec::new();
        for lookup in 0..40 {
            lookups.count();
            if lookups.is_burst() {
                bursts.push(lookup);
                lookups.refused();
                lookups.count();
            }
        }
        assert_eq!(bursts, [2, 6, 14, 30]);
        lookups.listed(1600);
        (0..100).for_each(|_| lookups.count());
        assert!(!lookups.is_burst());
    }

    #[test]
    fn batches_double_up_to_what_a_message_holds() {
        let sizes: Vec<usize> = [0, 1, 2, 3, 4, u32::MAX].map(batch).to_vec();
        assert_eq!(sizes, [64, 128, 256, 512, 512, 512]);
    }
}
