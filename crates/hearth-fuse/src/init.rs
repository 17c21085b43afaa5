//! The features that are agreed with the kernel when the mount begins.

use std::io;

use fuser::{InitFlags, KernelConfig};

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

/// With `lists` the kernel judges rights by the store's access control lists as well.
pub(crate) fn negotiate(lists: bool, config: &mut KernelConfig) -> io::Result<()> {
    let acl = match lists {
        true => InitFlags::FUSE_POSIX_ACL,
        false => InitFlags::empty(),
    };
    for flag in WANTED.iter().copied().chain([acl]) {
        if config.add_capabilities(flag).is_err() {
            log::debug!("the kernel lacks {flag:?}");
        }
    }
    // A refusal names the nearest value that will do.
    if let Err(nearest) = config.set_max_write(WRITE_BYTES_MAX) {
        let _ = config.set_max_write(nearest);
    }
    if let Err(nearest) = config.set_max_readahead(u32::MAX) {
        let _ = config.set_max_readahead(nearest);
    }
    let _ = config.set_max_background(BACKGROUND_MAX);
    Ok(())
}
