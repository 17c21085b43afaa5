//! The FUSE front end: a full POSIX file system over the store's tree.
//!
//! Names, directories, attributes, links, permissions, extended attributes and locks go straight to
//! the store. Only the content and the size of regular files go through a
//! [`hearth_client::Session`]. [`Mount`] is the whole surface: attach or mount, wait, unmount.
//!
//! ```text
//! kernel -- fuser workers -- fs (dispatch) --+-- names, directories, xattrs, locks --> store
//!                                            +-- files, attributes --> session, then store
//! session -- revoke queue -- one thread -- notifications --> kernel
//! ```
//!
//! Three rules keep it free of deadlocks:
//!
//! 1. A completion of the session never blocks and never calls the session.
//! 2. Notifications that touch pages come from the revoker's thread only, with no lock held.
//! 3. A worker waits for the session only while enough other workers stay free to take the kernel's
//!    reads and writes ([`background`]); everything else that waits moves to threads of its own.
//!
//! The process that serves a mount must not map files of that mount: the kernel would hold its
//! address space while it waits for pages that only this process can bring.
//!
//! Shared writable mappings have no order across nodes: see [`revoke`] and [`bases`].

mod again;
mod attributes;
mod background;
mod bases;
mod calls;
mod core;
mod descriptors;
mod directories;
mod errors;
mod files;
mod fs;
mod handles;
mod holding;
mod identity;
mod idle;
mod init;
mod leaving;
mod ledger;
mod listing;
mod lock_waiter;
mod locks;
mod memory;
mod mount;
mod names;
mod nodes;
mod open;
mod options;
mod prefetch;
mod readdirplus;
mod renew;
mod replies;
mod revoke;
mod space;
mod stat;
mod sys;
mod takeover;
mod written;
mod xattrs;

/// How the store's own system calls are made: for gateways, which make them for other nodes.
pub mod store {
    pub use crate::identity::{Assumed, Credentials, Wardrobe};
    pub use crate::nodes::{Inode, Nodes, ROOT, StoreKey, open_path, proc_path};
    pub use crate::stat::{Stat, device_number, kernel_kind};
    pub use crate::sys::{RangeLock, put_on_mask, set_lock, test_lock};
}

/// Descriptors of an agent that is gone, in a table of which this process has a share.
pub mod left {
    pub use crate::ledger::devices;
    pub use crate::sys::adopt;
}

pub use ledger::Ledger;
pub use mount::Mount;
pub use options::{Identity, MountOptions, OtherUsers, ShownOwners, WhenBusy};
