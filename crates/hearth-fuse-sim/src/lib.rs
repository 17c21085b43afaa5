//! The FUSE front end and the kernel in worlds of a seed.
//!
//! The sources of both are those of the product. All else is a double.
//!
//! ```text
//! programs -- os (double of the operating system) -- requests -- hearth-fuse -- agent -- hearth-proto
//!                                                                     |            |
//!                                                            store (a directory)  net (double)
//! ```
//!
//! The modules of `hearth-fuse` are compiled by path. Three names mean other crates to them: `std` is [`hearth_shuttle`],
//! `fuser` is `requests`, and `rustix` has the store's calls of [`fs`]. So no line of them differs from the product's.
//! [`world::run`] runs a seed.

#![forbid(unsafe_code)]
// The front end's own tests are run where its sources are.
#![cfg(not(test))]
// Nobody mounts here, so some of the front end is not used, and none of it is shown to others.
#![allow(dead_code, unreachable_pub)]

extern crate hearth_shuttle as std;
// The names by which the front end's sources know this crate's doubles.
extern crate self as fuser;
extern crate self as rustix;

pub use real_rustix::{io, process, thread};
pub(crate) use requests::*;

/// The work of a task that others wait for is the task's own, as that of a thread is.
macro_rules! thread_local {
    (static HOLDS: RefCell<Holds> = RefCell::default();) => {
        static HOLDS: crate::tasks::PerTask<RefCell<Holds>> = crate::tasks::PerTask::new();
    };
    ($($other:tt)*) => {
        ::std::thread_local! { $($other)* }
    };
}

#[path = "../../hearth-fuse/src/again.rs"]
mod again;
#[path = "../../hearth-fuse/src/attributes.rs"]
mod attributes;
#[path = "../../hearth-fuse/src/background.rs"]
mod background;
#[path = "../../hearth-fuse/src/bases.rs"]
mod bases;
#[path = "../../hearth-fuse/src/calls.rs"]
mod calls;
#[path = "../../hearth-fuse/src/core.rs"]
mod core;
#[path = "../../hearth-fuse/src/descriptors.rs"]
mod descriptors;
#[path = "../../hearth-fuse/src/directories.rs"]
mod directories;
#[path = "../../hearth-fuse/src/errors.rs"]
mod errors;
#[path = "../../hearth-fuse/src/files.rs"]
mod files;
#[path = "../../hearth-fuse/src/fs.rs"]
mod handlers;
#[path = "../../hearth-fuse/src/handles.rs"]
mod handles;
#[path = "../../hearth-fuse/src/holding.rs"]
mod holding;
#[path = "../../hearth-fuse/src/identity.rs"]
mod identity;
#[path = "../../hearth-fuse/src/idle.rs"]
mod idle;
#[path = "../../hearth-fuse/src/init.rs"]
mod init;
#[path = "../../hearth-fuse/src/leaving.rs"]
mod leaving;
#[path = "../../hearth-fuse/src/ledger.rs"]
mod ledger;
#[path = "../../hearth-fuse/src/listing.rs"]
mod listing;
#[path = "../../hearth-fuse/src/lock_waiter.rs"]
mod lock_waiter;
#[path = "../../hearth-fuse/src/locks.rs"]
mod locks;
#[path = "../../hearth-fuse/src/memory.rs"]
mod memory;
#[path = "../../hearth-fuse/src/names.rs"]
mod names;
#[path = "../../hearth-fuse/src/prefetch.rs"]
mod prefetch;
#[path = "../../hearth-fuse/src/readdirplus.rs"]
mod readdirplus;
// Its tests are not where a module of this place would have them.
#[rustfmt::skip]
#[path = "../../hearth-fuse/src/nodes.rs"]
mod nodes;
#[path = "../../hearth-fuse/src/open.rs"]
mod open;
#[path = "../../hearth-fuse/src/options.rs"]
mod options;
#[path = "../../hearth-fuse/src/renew.rs"]
mod renew;
#[path = "../../hearth-fuse/src/replies.rs"]
mod replies;
#[path = "../../hearth-fuse/src/revoke.rs"]
mod revoke;
#[path = "../../hearth-fuse/src/space.rs"]
mod space;
#[path = "../../hearth-fuse/src/stat.rs"]
mod stat;
mod sys;
#[path = "../../hearth-fuse/src/written.rs"]
mod written;
#[path = "../../hearth-fuse/src/xattrs.rs"]
mod xattrs;

#[path = "../../hearth-agent/src/leave.rs"]
mod leave;

mod agent;
mod book;
mod bytes;
pub mod fs;
mod opened;
mod os;
mod programs;
mod requests;
mod tasks;
pub mod world;
