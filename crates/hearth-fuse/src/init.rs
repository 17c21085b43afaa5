//! The features that are agreed with the kernel when the mount begins.

use std::io;

use fuser::{InitFlags, KernelConfig, Version};

use crate::core::Core;
use crate::errors::raw;

const WRITE_BYTES_MAX: u32 = 1 << 20;
const BACKGROUND_MAX: u16 = 64;

/// Asked for; what a kernel does not have is gone without.
///
/// Three features are not asked for. The write-back cache assumes that nobody else writes.
/// Automatic invalidation is left to the session, which revokes. The handling of set-user-id bits
/// is left to the kernel, as fuser hides the flags that carry it on open and truncate: the kernel
/// then clears the bits by a mode change of its own.
const WANTED: &[InitFlags] = &[
    InitFlags::FUSE_ASYNC_READ,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    InitFlags::FUSE_BIG_WRITES,
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    // The store takes the program's mask off, or puts a directory's default list on.
    InitFlags::FUSE_DONT_MASK,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_FLOCK_LOCKS,
    InitFlags::FUSE_MAX_PAGES,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_POSIX_LOCKS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
];

/// The offer of a kernel, and the choice that was made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    /// Of the protocol, as major and minor number.
    pub(crate) version: (u32, u32),
    pub(crate) offered: u64,
    pub(crate) readahead: u32,
    pub(crate) features: u64,
    pub(crate) write_bytes: u32,
}

impl Core {
    /// Agrees with the kernel, once.
    pub(crate) fn agree(&self, config: &mut KernelConfig) -> io::Result<()> {
        let agreed = negotiate(self.has_lists(), config);
        self.agreed.set(agreed).map_err(|_| raw(libc::EALREADY))
    }
}

/// With `lists` the kernel judges rights by the store's access control lists as well.
fn negotiate(lists: bool, config: &mut KernelConfig) -> Agreed {
    let offered = config.capabilities();
    let mut features = 0;
    let acl = match lists {
        true => InitFlags::FUSE_POSIX_ACL,
        false => InitFlags::empty(),
    };
    for flag in WANTED.iter().copied().chain([acl]) {
        match config.add_capabilities(flag) {
            Ok(()) => features |= flag.bits(),
            Err(_) => log::debug!("the kernel lacks {flag:?}"),
        }
    }
    // A refusal names the nearest value that will do.
    if let Err(nearest) = config.set_max_write(WRITE_BYTES_MAX) {
        let _ = config.set_max_write(nearest);
    }
    let readahead = match config.set_max_readahead(u32::MAX) {
        Ok(_) => u32::MAX,
        Err(nearest) => nearest,
    };
    let _ = config.set_max_readahead(readahead);
    let _ = config.set_max_background(BACKGROUND_MAX);
    let Version(major, minor) = config.kernel_abi();
    Agreed {
        version: (major, minor),
        offered: offered.bits(),
        readahead,
        features,
        write_bytes: WRITE_BYTES_MAX,
    }
}
