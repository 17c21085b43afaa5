//! The order in which a thread of a front end asks other nodes for names and attributes, as a check: `docs/waits.md`
//! has the waits, and says why. Pure, so that the simulator's front ends are held to it as the real ones are.
//!
//! Invariant W1: a thread on which others may wait asks nothing that may wait for them.

/// A question that a thread is about to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// To change names or attributes of the file, or directory, of this number.
    Change(u64),
    /// For the names of a directory.
    Names,
    /// For leave for one file, or for what others read: the answer may come when they have read it.
    Read,
    /// For leave for several files, or who manages some: answered at once.
    AtOnce,
}

/// Changes and reads of a thread that others wait for.
#[derive(Debug, Default)]
pub struct Holds {
    changes: Vec<u64>,
    /// Directories whose names it is to read.
    names: usize,
    /// Files whose attributes it is to read.
    files: usize,
}

impl Holds {
    /// Why it must not ask that now, if so.
    pub fn forbids(&self, asks: Asks) -> Option<&'static str> {
        match asks {
            Asks::AtOnce => None,
            _ if self.files > 0 => Some("it has yet to tell attributes, for which others wait"),
            _ if self.names > 0 => Some("it has yet to tell names, for which others wait"),
            Asks::Change(file) if self.changes.iter().any(|&held| held >= file) => {
                Some("it changes a file with a higher number, or the same")
            }
            Asks::Change(_) | Asks::Names | Asks::Read => None,
        }
    }

    /// A change was let through.
    pub fn begin_change(&mut self, file: u64) {
        self.changes.push(file);
    }

    /// It is over.
    pub fn end_change(&mut self, file: u64) {
        self.changes.retain(|&held| held != file);
    }

    /// It is to read names of a directory.
    pub fn given_names(&mut self) {
        self.names += 1;
    }

    /// They are told, and the directory's attributes.
    pub fn told_names(&mut self) {
        self.names = self.names.saturating_sub(1);
    }

    /// It is to read attributes of so many files.
    pub fn given_files(&mut self, count: usize) {
        self.files += count;
    }

    /// Those of so many are told.
    pub fn told_files(&mut self, count: usize) {
        self.files = self.files.saturating_sub(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_for_others_asks_nothing_that_waits() {
        let mut holds = Holds::default();
        holds.given_files(2);
        for asks in [Asks::Change(9), Asks::Names, Asks::Read] {
            assert!(holds.forbids(asks).is_some(), "{asks:?}");
        }
        assert_eq!(holds.forbids(Asks::AtOnce), None);
        holds.told_files(1);
        assert!(holds.forbids(Asks::Read).is_some());
        holds.told_files(1);
        assert_eq!(holds.forbids(Asks::Read), None);
        holds.given_names();
        assert!(holds.forbids(Asks::Names).is_some());
        assert_eq!(holds.forbids(Asks::AtOnce), None);
        holds.told_names();
        assert_eq!(holds.forbids(Asks::Names), None);
    }

    #[test]
    fn changes_are_asked_for_in_the_order_of_their_numbers() {
        let mut holds = Holds::default();
        holds.begin_change(4);
        assert_eq!(holds.forbids(Asks::Change(5)), None);
        assert_eq!(holds.forbids(Asks::Names), None);
        assert!(holds.forbids(Asks::Change(4)).is_some());
        assert!(holds.forbids(Asks::Change(3)).is_some());
        holds.end_change(4);
        assert_eq!(holds.forbids(Asks::Change(3)), None);
    }
}
