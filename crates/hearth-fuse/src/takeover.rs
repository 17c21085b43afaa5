//! Taking over the mount of an agent that is gone.
//!
//! ```text
//! ledger --> nodes, locks, directories, open files (through the session, all at once)
//!        --> the library's handshake, over a socket pair: the operating system has made its own long ago
//! then:      attributes dropped; requests that nobody answered sent again; workers start; pages dropped
//! ```
//!
//! The order matters:
//!
//! 1. Requests are sent again while no worker has one, as all that were read are sent again.
//! 2. Clones of the device that the agent had are closed after that: a request fails when the clone closes by which it came.
//! 3. Pages are dropped when workers serve, since the operating system may write them back first, or wait for a read.
//!    Open files come first: pages of others are asked for at the next open.
//!
//! Until then the revoker cannot reach the operating system, so revocations are done at once (3 makes up for them). Names
//! are not dropped: the operating system keeps none that others change.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, mpsc};
use std::thread;

use fuser::{Config, FileHandle, INodeNo, InitFlags, Notifier, SessionACL};
use hearth_client::Access;

use crate::core::Core;
use crate::directories::OpenDirectory;
use crate::fs::HearthFs;
use crate::init::Agreed;
use crate::ledger::{Known, KnownHandle, devices};
use crate::stat::Stat;
use crate::sys::{adopt, join_mount, replace};
use crate::written::Lost;

const INIT: u32 = 26;
const INIT_BYTES: u32 = 104;
/// The number of the first request.
const INIT_UNIQUE: u64 = 2;
const NOTIFY_RESEND: u32 = 7;
const OUT_HEADER_BYTES: u32 = 16;
/// Attributes alone, without pages.
const ATTRIBUTES_ONLY: i64 = -1;

/// The device of a mount whose agent is gone.
pub(crate) struct Device {
    /// The descriptor that serves from now on.
    fresh: OwnedFd,
    /// Those by which the agent served.
    old: Vec<RawFd>,
}

impl Device {
    /// All descriptors of devices that are open here are of the mount.
    pub(crate) fn left() -> io::Result<Device> {
        let mut old = devices()?;
        let first = old
            .pop()
            .ok_or_else(|| io::Error::other("its device is gone"))?;
        let first = adopt(first)?;
        match another(first.as_fd()) {
            Ok(fresh) => {
                // It is closed with the others.
                old.push(first.into_raw_fd());
                Ok(Device { fresh, old })
            }
            Err(error) => {
                log::debug!("the device of the mount is served as it is: {error}");
                Ok(Device { fresh: first, old })
            }
        }
    }

    /// Has requests sent again that the agent had read. An operating system that cannot (before Linux 6.9) ends them with
    /// an error when its descriptors close.
    pub(crate) fn send_again(self) -> io::Result<()> {
        let order = [OUT_HEADER_BYTES, NOTIFY_RESEND, 0, 0].map(u32::to_ne_bytes);
        if let Err(error) = rustix::io::write(&self.fresh, order.as_flattened()) {
            log::warn!("programs get an error for calls that the agent had begun: {error}");
        }
        for number in self.old {
            drop(adopt(number)?);
        }
        Ok(())
    }
}

/// Another descriptor by which the mount can be served.
fn another(device: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut options = File::options();
    let fresh = options.read(true).write(true).open("/dev/fuse")?;
    join_mount(fresh.as_fd(), device)?;
    Ok(fresh.into())
}

/// A server of the library, which takes the old agreement for a new one.
pub(crate) fn greet(
    (core, device): (&Arc<Core>, &Device),
    agreed: Agreed,
    config: Config,
) -> io::Result<fuser::Session<HearthFs>> {
    let (ours, theirs) = UnixDatagram::pair()?;
    ours.send(&init_request(agreed))?;
    let fs = HearthFs::new(Arc::clone(core));
    // The operating system lets in whom the mount allows.
    let server = fuser::Session::from_fd(fs, theirs.into(), SessionACL::All, config)?;
    if core.agreed.get() != Some(&agreed) {
        return Err(io::Error::other(
            "the mount was begun with other features: unmount it, and mount it again",
        ));
    }
    replace(server.as_fd(), device.fresh.as_fd())?;
    Ok(server)
}

/// The first request of the operating system, as it was.
fn init_request(agreed: Agreed) -> Vec<u8> {
    let flags = agreed.offered | InitFlags::FUSE_INIT_EXT.bits();
    let mut bytes = Vec::new();
    bytes.extend(INIT_BYTES.to_ne_bytes());
    bytes.extend(INIT.to_ne_bytes());
    bytes.extend(INIT_UNIQUE.to_ne_bytes());
    // Node, user, group, process, and no extensions.
    bytes.extend([0; 24]);
    let (major, minor) = agreed.version;
    for field in [
        major,
        minor,
        agreed.readahead,
        flags as u32,
        (flags >> 32) as u32,
    ] {
        bytes.extend(field.to_ne_bytes());
    }
    bytes.resize(INIT_BYTES as usize, 0);
    bytes
}

impl Core {
    /// All that the operating system knows but open files.
    pub(crate) fn restore(&self, known: &Known) {
        for (&id, node) in &known.nodes {
            self.nodes.restore(id, node);
        }
        for (&of, &(fd, through)) in &known.locks {
            match adopt(fd) {
                Ok(fd) => self.locks.restore(of, fd, FileHandle(through)),
                Err(error) => log::warn!("a lock of node {} is lost: {error}", of.node),
            }
        }
        for (&number, &(fd, _)) in &known.directories {
            match adopt(fd) {
                Ok(fd) => {
                    let directory = Arc::new(OpenDirectory::restored(fd));
                    self.directories.restore(FileHandle(number), directory);
                }
                Err(error) => log::warn!("an open directory is lost: {error}"),
            }
        }
        self.files.go_on_after(known.numbered);
        self.directories.go_on_after(known.numbered);
    }

    /// Opens all files that programs have open through the session, and waits for it.
    pub(crate) fn reopen_all(self: &Arc<Self>, known: &Known) {
        let (opened, all_opened) = mpsc::channel();
        for (&number, handle) in &known.handles {
            let opened = opened.clone();
            let done = move |result: io::Result<_>| {
                // The receiver waits for all.
                let _ = opened.send((number, result.map(drop)));
            };
            if let Err((error, done)) = self.reopen_one(handle, done) {
                done(Err(error));
            }
        }
        drop(opened);
        for (number, result) in all_opened {
            match result {
                Ok(()) => self.tell_of_loss(known, number),
                Err(error) => log::warn!("open file {number} is lost: {error}"),
            }
        }
    }

    fn reopen_one<D>(self: &Arc<Self>, known: &KnownHandle, done: D) -> Result<(), (io::Error, D)>
    where
        D: FnOnce(io::Result<crate::open::Opened>) + Send + 'static,
    {
        let opened = known.opened;
        let found = self.nodes.node(opened.node).and_then(|node| {
            let fd = adopt(opened.fd)?;
            match node.is_same(&Stat::of(&fd)?) {
                true => Ok((node, fd)),
                false => Err(io::Error::other("its descriptor is another's")),
            }
        });
        let access = Access {
            read: opened.reads,
            write: opened.writes,
        };
        match found {
            Ok(found) => {
                self.reopen(found, (access, FileHandle(opened.number)), done);
                Ok(())
            }
            Err(error) => Err((error, done)),
        }
    }

    /// Bytes that were written through a handle, or another of its file, may be lost.
    fn tell_of_loss(&self, known: &Known, number: u64) {
        let (Some(own), Ok(open)) = (
            known.handles.get(&number),
            self.files.find(FileHandle(number)),
        ) else {
            return;
        };
        if self.options.written_survives || !open.is_cached() {
            return;
        }
        let of_file = |other: &&KnownHandle| other.opened.node == own.opened.node;
        let any = known
            .handles
            .values()
            .filter(of_file)
            .any(|other| other.is_written);
        open.bytes.may_be_lost(match (own.is_written, any) {
            (true, _) => Lost::Own,
            (false, true) => Lost::OfOthers,
            (false, false) => Lost::None,
        });
    }

    /// Has the operating system ask for all attributes again. Waits for nothing.
    pub(crate) fn drop_attributes(&self, notifier: &Notifier) {
        for id in self.nodes.ids() {
            // The mount may be going away.
            let _ = notifier.inval_inode(INodeNo(id), ATTRIBUTES_ONLY, 0);
        }
    }

    /// Has it drop all pages, on a thread of its own, as that may wait for workers.
    pub(crate) fn drop_pages(&self, device: OwnedFd) -> io::Result<()> {
        let ledger = Arc::clone(&self.ledger);
        let thread = thread::Builder::new().name("fuse-takeover".to_owned());
        thread.spawn(move || {
            if let Err(error) = ledger.drop_pages(device.as_fd()) {
                // The mount is going away, as a rule.
                log::info!("pages of the mount are not dropped: {error}");
            }
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_request_is_as_long_as_it_says() {
        let request = init_request(Agreed {
            version: (7, 45),
            offered: 1 << 40 | 1,
            readahead: 9,
            features: 0,
            write_bytes: 0,
        });
        assert_eq!(request.len(), INIT_BYTES as usize);
        assert_eq!(request[40..44], 7_u32.to_ne_bytes());
        assert_eq!(request[48..52], 9_u32.to_ne_bytes());
        assert_eq!(request[56..60], (1_u32 << 8).to_ne_bytes());
    }
}
