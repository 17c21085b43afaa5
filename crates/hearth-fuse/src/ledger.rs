//! The ledger of a mount: all that the next agent needs to take it over.
//!
//! It is a log of [`Fact`]s in memory that outlives its agent. A fact is written before the operating system is told of
//! it, so that the ledger may say too much and never too little. A mount that knows more than a ledger has room for goes
//! on, and cannot be taken over.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use hearth_shm::Records;
use rustix::io::Errno;

pub(crate) use fact::{Fact, Family, Lock, Opened, Tried};
pub(crate) use known::{Known, KnownHandle, KnownNode};

#[path = "ledger/fact.rs"]
mod fact;
#[path = "ledger/known.rs"]
mod known;

const NOTIFY_INVAL_INODE: u32 = 2;
/// A head of 16 bytes, a node, where its pages begin, and how many bytes: 0 is all.
const DROP_BYTES: u32 = 40;

/// Threads that drop pages: so many files may be held up before the others are.
const DROPPERS_MAX: usize = 256;

/// Dropping one file's pages takes no longer, as a rule.
const HELD_UP_SPAN: Duration = Duration::from_millis(5);

/// The device by which a mount is served.
const DEVICE: &[u8] = b"/dev/fuse";

/// All that the next agent needs to take a mount over, in memory that outlives this one.
#[derive(Debug)]
pub struct Ledger {
    records: Records,
}

impl Ledger {
    /// An empty ledger, for a mount that begins.
    pub fn new() -> io::Result<Ledger> {
        let records = Records::new("hearth-ledger")?;
        Ok(Ledger { records })
    }

    /// The ledger of an agent that is gone.
    pub fn from_fd(memory: OwnedFd) -> io::Result<Ledger> {
        let records = Records::from_fd(memory)?;
        Ok(Ledger { records })
    }

    /// Its own descriptor, for whoever keeps it.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.records.as_fd()
    }

    /// Numbers of the descriptors that the next agent needs: the ledger's own, those of the device, and those of open
    /// files, directories and locks. Every other can be closed. To be called where the agent's descriptors are.
    pub fn descriptors(&self) -> io::Result<Vec<RawFd>> {
        let mut numbers = Known::descriptors(&self.records.read()?);
        numbers.push(self.as_fd().as_raw_fd());
        // A request that the agent had read fails when the clone by which it came is closed.
        numbers.extend(devices()?);
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    /// Has the operating system drop all pages that it keeps of the mount, those of open files first. Waits for whoever
    /// serves it if pages are being read, or have to be written back; files beside those do not wait with them.
    pub fn drop_pages(&self, device: BorrowedFd<'_>) -> io::Result<()> {
        let known = self.known()?;
        let open = known.handles.values().map(|handle| handle.opened.node);
        let all: Vec<u64> = open.chain(known.nodes.keys().copied()).collect();
        let (begun, failed) = (AtomicUsize::new(0), Mutex::new(None));
        let drop_on = || {
            // A counter alone; nothing else is published through it.
            while let Some(&node) = all.get(begun.fetch_add(1, Ordering::Relaxed)) {
                match rustix::io::write(device, &drop_order(node)) {
                    // It has forgotten that one.
                    Ok(_) | Err(Errno::NOENT) => {}
                    Err(error) => {
                        *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error)
                    }
                }
            }
        };
        let are_left = || begun.load(Ordering::Relaxed) < all.len();
        let go_on = || {
            let before = begun.load(Ordering::Relaxed);
            thread::park_timeout(HELD_UP_SPAN);
            begun.load(Ordering::Relaxed) > before
        };
        thread::scope(|scope| -> io::Result<()> {
            for _ in (0..DROPPERS_MAX).take_while(|_| are_left()) {
                thread::Builder::new().spawn_scoped(scope, drop_on)?;
                // Another one if all that there are may be held up.
                while are_left() && go_on() {}
            }
            Ok(())
        })?;
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Writes a fact down.
    pub(crate) fn note(&self, fact: Fact<'_>) {
        let shorten = |all: &[u8]| Known::read(all).written();
        let worthless = fact.makes_worthless();
        fact.encoded(|record| self.records.append((record, worthless), shorten));
    }

    /// All that was written down.
    pub(crate) fn known(&self) -> io::Result<Known> {
        Ok(Known::read(&self.records.read()?))
    }
}

/// The message by which the operating system drops all pages of a node.
fn drop_order(node: u64) -> [u8; DROP_BYTES as usize] {
    let head = [DROP_BYTES, NOTIFY_INVAL_INODE].map(u32::to_ne_bytes);
    let mut order = [0; DROP_BYTES as usize];
    order[..8].copy_from_slice(head.as_flattened());
    order[16..24].copy_from_slice(&node.to_ne_bytes());
    order
}

/// The descriptors of this process that are of the device, or clones of it.
pub fn devices() -> io::Result<Vec<RawFd>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let is_device = std::fs::read_link(entry.path())
            .is_ok_and(|path| path.as_os_str().as_encoded_bytes() == DEVICE);
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<RawFd>().ok());
        numbers.extend(number.filter(|_| is_device));
    }
    Ok(numbers)
}

#[cfg(test)]
#[path = "ledger/tests.rs"]
mod tests;
