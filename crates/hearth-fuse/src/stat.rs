//! What the store says about one inode, and how it is told to the kernel.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, INodeNo};
use hearth_client::{FileSize, Stamp};
use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, StatxTimestamp};

use crate::nodes::StoreKey;

const BLOCK_BYTES: u64 = 512;
const NANOS: i64 = 1_000_000_000;

/// The store's attributes of one inode.
#[derive(Clone, Copy)]
pub(crate) struct Stat(Statx);

impl Stat {
    /// Of an open descriptor (`O_PATH` will do).
    pub(crate) fn of(fd: impl AsFd) -> io::Result<Stat> {
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        Ok(Stat(rustix::fs::statx(
            fd,
            "",
            AtFlags::EMPTY_PATH,
            wanted,
        )?))
    }

    pub(crate) fn key(&self) -> StoreKey {
        let dev = rustix::fs::makedev(self.0.stx_dev_major, self.0.stx_dev_minor);
        StoreKey {
            dev,
            ino: self.0.stx_ino,
        }
    }

    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(u32::from(self.0.stx_mode))
    }

    pub(crate) fn is_regular(&self) -> bool {
        self.kind() == FileType::RegularFile
    }

    /// Permission bits with set-user-id, set-group-id and sticky.
    pub(crate) fn permissions(&self) -> u32 {
        u32::from(self.0.stx_mode) & 0o7777
    }

    pub(crate) fn links(&self) -> u32 {
        self.0.stx_nlink
    }

    pub(crate) fn size(&self) -> u64 {
        self.0.stx_size
    }

    /// Time of birth, where the store keeps one: it tells a reused inode number from the old file.
    pub(crate) fn born(&self) -> Option<i64> {
        let kept = StatxFlags::from_bits_retain(self.0.stx_mask).contains(StatxFlags::BTIME);
        kept.then(|| nanos(&self.0.stx_btime))
    }

    pub(crate) fn stamp(&self) -> Stamp {
        Stamp {
            ctime_ns: nanos(&self.0.stx_ctime),
            mtime_ns: nanos(&self.0.stx_mtime),
            size: self.0.stx_size,
        }
    }

    /// Replaces what the cache knows better.
    pub(crate) fn overlay(&mut self, known: FileSize) {
        // A file that looks shorter than its blocks is taken for sparse by cp and tar.
        let unstored = known.size.saturating_sub(self.0.stx_size);
        self.0.stx_blocks += unstored.div_ceil(BLOCK_BYTES);
        self.0.stx_size = known.size;
        if let Some(mtime) = known.mtime_ns {
            self.0.stx_mtime.tv_sec = mtime.div_euclid(NANOS);
            self.0.stx_mtime.tv_nsec = mtime.rem_euclid(NANOS) as u32;
        }
    }

    /// Says what a good size of one request is.
    pub(crate) fn best_served_in(&mut self, request_bytes: u32) {
        self.0.stx_blksize = request_bytes;
    }

    /// Shows the file as somebody else's.
    pub(crate) fn owned_by(&mut self, uid: u32, gid: u32) {
        self.0.stx_uid = uid;
        self.0.stx_gid = gid;
    }

    /// As the kernel wants it, under the node number it knows.
    pub(crate) fn attr(&self, node: u64) -> FileAttr {
        FileAttr {
            ino: INodeNo(node),
            size: self.0.stx_size,
            blocks: self.0.stx_blocks,
            atime: time(&self.0.stx_atime),
            mtime: time(&self.0.stx_mtime),
            ctime: time(&self.0.stx_ctime),
            crtime: UNIX_EPOCH,
            kind: kernel_kind(self.kind()),
            perm: (self.0.stx_mode) & 0o7777,
            nlink: self.0.stx_nlink,
            uid: self.0.stx_uid,
            gid: self.0.stx_gid,
            rdev: device(self.0.stx_rdev_major, self.0.stx_rdev_minor),
            blksize: self.0.stx_blksize,
            flags: 0,
        }
    }
}

fn nanos(stamp: &StatxTimestamp) -> i64 {
    stamp
        .tv_sec
        .saturating_mul(NANOS)
        .saturating_add(i64::from(stamp.tv_nsec))
}

fn time(stamp: &StatxTimestamp) -> SystemTime {
    let nanos = Duration::from_nanos(u64::from(stamp.tv_nsec));
    let seconds = Duration::from_secs(stamp.tv_sec.unsigned_abs());
    if stamp.tv_sec < 0 {
        UNIX_EPOCH - seconds + nanos
    } else {
        UNIX_EPOCH + seconds + nanos
    }
}

/// The kernel's 32-bit form of a device number (`new_encode_dev`).
fn device(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// The inverse, as `mknod(2)` wants it.
pub(crate) fn device_number(encoded: u32) -> u64 {
    let major = (encoded & 0xfff00) >> 8;
    let minor = (encoded & 0xff) | ((encoded >> 12) & 0xfff00);
    rustix::fs::makedev(major, minor)
}

/// A file type in fuser's words.
pub(crate) fn kernel_kind(kind: FileType) -> fuser::FileType {
    match kind {
        FileType::Directory => fuser::FileType::Directory,
        FileType::Symlink => fuser::FileType::Symlink,
        FileType::Fifo => fuser::FileType::NamedPipe,
        FileType::Socket => fuser::FileType::Socket,
        FileType::CharacterDevice => fuser::FileType::CharDevice,
        FileType::BlockDevice => fuser::FileType::BlockDevice,
        FileType::RegularFile | FileType::Unknown => fuser::FileType::RegularFile,
    }
}
