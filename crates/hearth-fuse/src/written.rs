//! Bytes that programs wrote and the store may lack, for each handle.
//!
//! A write is noted before it is acknowledged, once until the next sync or flush that succeeds. If the agent dies between,
//! the bytes may have died with it. Then the next agent says so once for each handle, at its next sync or close.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use fuser::FileHandle;

use crate::core::Core;
use crate::errors::raw;
use crate::handles::OpenHandle;
use crate::ledger::Fact;

/// The fate of the bytes that were written through a handle.
#[derive(Default)]
pub(crate) struct Bytes {
    /// The handle's number.
    number: AtomicU64,
    /// Some were taken that no sync or flush has asked for.
    waiting: AtomicBool,
    /// One of [`Lost`].
    lost: AtomicUsize,
}

/// Bytes that died with the agent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lost {
    /// None of this file.
    None,
    /// Some that were written through other handles of the file.
    OfOthers,
    /// Some of this handle.
    Own,
}

impl Bytes {
    pub(crate) fn numbered(&self, number: FileHandle) {
        self.number.store(number.0, Ordering::Relaxed);
    }

    /// Some may have died with the agent before.
    pub(crate) fn may_be_lost(&self, lost: Lost) {
        self.lost.store(lost as usize, Ordering::Relaxed);
    }

    /// Says once that bytes were lost, if it is as bad as that.
    fn tell_lost(&self, least: Lost) -> io::Result<()> {
        let is_told = |lost: usize| (lost >= least as usize).then_some(0);
        let told = self
            .lost
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_told);
        match told {
            Ok(_) => Err(raw(libc::EIO)),
            Err(_) => Ok(()),
        }
    }
}

/// A sync, or a close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bringing {
    /// `FSYNC`: it says what became of all bytes of the file.
    Sync,
    /// `FLUSH`: it says what became of those that were written through the handle.
    Flush,
}

impl Core {
    /// Bytes were written through a handle, and are about to be acknowledged.
    pub(crate) fn took_bytes(&self, open: &OpenHandle) {
        if !open.bytes.waiting.swap(true, Ordering::SeqCst) {
            let number = open.bytes.number.load(Ordering::Relaxed);
            self.ledger.note(Fact::Written(number));
        }
    }

    /// A sync or flush begins: it covers all that was acknowledged until now. Says whether there was any.
    pub(crate) fn brings_bytes(&self, open: &OpenHandle) -> bool {
        open.bytes.waiting.swap(false, Ordering::SeqCst)
    }

    /// It has ended so. An agent that is gone may have had more.
    pub(crate) fn brought_bytes(
        &self,
        open: &OpenHandle,
        (bringing, had): (Bringing, bool),
        result: io::Result<()>,
    ) -> io::Result<()> {
        if let Err(error) = result {
            if had {
                self.took_bytes(open);
            }
            return Err(error);
        }
        let told = open.bytes.tell_lost(match bringing {
            Bringing::Sync => Lost::OfOthers,
            Bringing::Flush => Lost::Own,
        });
        if told.is_err() {
            // Should this agent die before the program hears of it, the next one says it again.
            open.bytes.waiting.store(true, Ordering::SeqCst);
            return told;
        }
        if had {
            let number = open.bytes.number.load(Ordering::Relaxed);
            let is_clean = || !open.bytes.waiting.load(Ordering::SeqCst);
            self.ledger.note_if(Fact::Synced(number), is_clean);
        }
        Ok(())
    }
}
