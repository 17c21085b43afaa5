//! Bytes that programs wrote and the store may lack, for each handle.
//!
//! A write is noted before it is acknowledged, once until a sync or flush has brought all that was. If the agent dies between,
//! the bytes may have died with it. Then the next agent says so through that handle: at its next sync, and at every close
//! before.
//!
//! Invariant:
//! - WRITTEN-1 (S13): the ledger says that a handle was written until a sync or flush has succeeded that covers all writes
//!   which were acknowledged through it. If they died with the agent before, it says so until a sync has told of that.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use fuser::FileHandle;

use crate::core::Core;
use crate::errors::raw;
use crate::handles::OpenHandle;
use crate::ledger::{Fact, Ledger};

/// The fate of the bytes that were written through a handle.
#[derive(Default)]
pub(crate) struct Bytes {
    /// The handle's number.
    number: AtomicU64,
    fate: Mutex<Fate>,
}

#[derive(Default)]
struct Fate {
    /// Writes that were acknowledged.
    writes: u64,
    /// The ledger says that the store may lack some.
    is_noted: bool,
    lost: Lost,
}

/// Bytes that died with the agent before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lost {
    /// None of this file.
    #[default]
    None,
    /// Some that were written through other handles of the file.
    OfOthers,
    /// Some of this handle.
    Own,
}

/// A sync, or a close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bringing {
    /// `FSYNC`: it says what became of all bytes of the file.
    Sync,
    /// `FLUSH`: it says what became of those that were written through the handle.
    Flush,
    /// A `FLUSH` that leaves them where they are.
    EmptyFlush,
}

/// The writes that a sync or flush covers: those that were acknowledged before it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Covered(u64);

impl Bytes {
    pub(crate) fn numbered(&self, number: FileHandle) {
        self.number.store(number.0, Ordering::Relaxed);
    }

    /// Some may have died with the agent before, which has noted those of this handle.
    pub(crate) fn may_be_lost(&self, lost: Lost) {
        let mut fate = self.fate();
        fate.lost = lost;
        fate.is_noted = lost == Lost::Own;
    }

    fn fate(&self) -> MutexGuard<'_, Fate> {
        self.fate.lock().expect("nothing panics under this lock")
    }

    fn taken(&self, ledger: &Ledger) {
        let mut fate = self.fate();
        fate.writes += 1;
        if !fate.is_noted {
            ledger.note(Fact::Written(self.number.load(Ordering::Relaxed)));
            fate.is_noted = true;
        }
    }

    fn covered(&self) -> Covered {
        Covered(self.fate().writes)
    }

    fn brought(&self, ledger: &Ledger, bringing: Bringing, covered: Covered) -> io::Result<()> {
        let mut fate = self.fate();
        let tells = match bringing {
            Bringing::Sync => fate.lost >= Lost::OfOthers,
            Bringing::Flush | Bringing::EmptyFlush => fate.lost == Lost::Own,
        };
        if tells {
            // A close may be that of a duplicate in another process, and nobody sees its error. Should this agent die before
            // the program hears of it, the next one says it again.
            if bringing == Bringing::Sync {
                fate.lost = Lost::None;
            }
            return Err(raw(libc::EIO));
        }
        let is_clean = bringing != Bringing::EmptyFlush && fate.writes == covered.0;
        if fate.is_noted && is_clean {
            ledger.note(Fact::Synced(self.number.load(Ordering::Relaxed)));
            fate.is_noted = false;
        }
        Ok(())
    }
}

impl Core {
    /// Bytes were written through a handle, and are about to be acknowledged.
    pub(crate) fn took_bytes(&self, open: &OpenHandle) {
        open.bytes.taken(&self.ledger);
    }

    /// A sync or flush begins.
    pub(crate) fn brings_bytes(&self, open: &OpenHandle) -> Covered {
        open.bytes.covered()
    }

    /// It has ended so. An agent that is gone may have had more.
    pub(crate) fn brought_bytes(
        &self,
        open: &OpenHandle,
        (bringing, covered): (Bringing, Covered),
        result: io::Result<()>,
    ) -> io::Result<()> {
        result.and_then(|()| open.bytes.brought(&self.ledger, bringing, covered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Opened;

    const NUMBER: u64 = 7;

    /// A handle that is open, and its ledger.
    fn opened() -> (Bytes, Ledger) {
        let (bytes, ledger) = (Bytes::default(), Ledger::new().unwrap());
        bytes.numbered(FileHandle(NUMBER));
        ledger.note(Fact::Opened(Opened {
            number: NUMBER,
            node: 1,
            fd: 3,
            reads: true,
            writes: true,
            request: 0,
        }));
        (bytes, ledger)
    }

    fn is_written(ledger: &Ledger) -> bool {
        ledger.known().unwrap().handles[&NUMBER].is_written
    }

    #[test]
    fn a_sync_covers_what_was_taken_before_it() {
        let (bytes, ledger) = opened();
        bytes.taken(&ledger);
        let first = bytes.covered();
        bytes.taken(&ledger);
        let second = bytes.covered();
        // The second is under way.
        bytes.brought(&ledger, Bringing::Sync, first).unwrap();
        assert!(is_written(&ledger));
        bytes.brought(&ledger, Bringing::Sync, second).unwrap();
        assert!(!is_written(&ledger));
    }

    #[test]
    fn a_flush_that_brings_nothing_covers_nothing() {
        let (bytes, ledger) = opened();
        bytes.taken(&ledger);
        let all = bytes.covered();
        bytes.brought(&ledger, Bringing::EmptyFlush, all).unwrap();
        assert!(is_written(&ledger));
    }

    #[test]
    fn a_loss_stays_noted_until_a_sync_after_the_one_that_told_of_it() {
        let (bytes, ledger) = opened();
        ledger.note(Fact::Written(NUMBER));
        bytes.may_be_lost(Lost::Own);
        let brings = |bringing| bytes.brought(&ledger, bringing, bytes.covered());
        assert!(brings(Bringing::Flush).is_err());
        assert!(brings(Bringing::Flush).is_err());
        assert!(brings(Bringing::Sync).is_err());
        assert!(is_written(&ledger));
        brings(Bringing::Flush).unwrap();
        assert!(!is_written(&ledger));
    }
}
