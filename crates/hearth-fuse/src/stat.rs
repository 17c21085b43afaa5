//! The store's attributes of one inode, and how they are told to the kernel.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, INodeNo};
use hearth_client::{FileSize, FileStamp, InodeAttributes};
use rustix::fs::{AtFlags, FileType, StatxFlags, StatxTimestamp};

use crate::nodes::StoreKey;

const BLOCK_BYTES: u64 = 512;
const NANOS: i64 = 1_000_000_000;

/// The store's attributes of one inode.
#[derive(Clone, Copy)]
pub struct Stat {
    key: StoreKey,
    /// The device that it stands for, in the kernel's 32-bit form.
    device: u32,
    told: InodeAttributes,
    /// Access, modification, change: further away than nanoseconds since 1970 can tell, perhaps.
    times: [SystemTime; 3],
}

impl Stat {
    /// Of an open descriptor (`O_PATH` will do).
    pub fn of(fd: impl AsFd) -> io::Result<Stat> {
        Stat::at(fd, AtFlags::EMPTY_PATH)
    }

    fn at(fd: impl AsFd, how: AtFlags) -> io::Result<Stat> {
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let seen = rustix::fs::statx(fd, "", how, wanted)?;
        let dates_births = StatxFlags::from_bits_retain(seen.stx_mask).contains(StatxFlags::BTIME);
        Ok(Stat {
            key: StoreKey {
                dev: rustix::fs::makedev(seen.stx_dev_major, seen.stx_dev_minor),
                ino: seen.stx_ino,
            },
            device: device(seen.stx_rdev_major, seen.stx_rdev_minor),
            told: InodeAttributes {
                mode: u32::from(seen.stx_mode),
                links: seen.stx_nlink,
                uid: seen.stx_uid,
                gid: seen.stx_gid,
                size: seen.stx_size,
                blocks: seen.stx_blocks,
                block_bytes: seen.stx_blksize,
                atime_ns: nanos(&seen.stx_atime),
                mtime_ns: nanos(&seen.stx_mtime),
                ctime_ns: nanos(&seen.stx_ctime),
                born_ns: dates_births.then(|| nanos(&seen.stx_btime)),
            },
            times: [&seen.stx_atime, &seen.stx_mtime, &seen.stx_ctime].map(time),
        })
    }

    /// The same of a file in the store, past what the operating system keeps of a network file system.
    pub(crate) fn now(fd: impl AsFd) -> io::Result<Stat> {
        Stat::at(fd, AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC)
    }

    /// Of a file or directory that another node has looked at; `dev` is what this host calls the
    /// store's device.
    pub fn told(dev: u64, ino: u64, told: InodeAttributes) -> Stat {
        Stat {
            key: StoreKey { dev, ino },
            device: 0,
            times: [told.atime_ns, told.mtime_ns, told.ctime_ns].map(since_epoch),
            told,
        }
    }

    /// The device that it stands for, in the kernel's 32-bit form.
    pub fn device(&self) -> u32 {
        self.device
    }

    /// Whether [`Stat::attributes`] say all of it.
    pub(crate) fn can_be_told(&self) -> bool {
        let told = [self.told.atime_ns, self.told.mtime_ns, self.told.ctime_ns];
        self.times == told.map(since_epoch)
    }

    /// As other nodes are told it.
    pub fn attributes(&self) -> InodeAttributes {
        self.told
    }

    /// Which inode it is.
    pub fn key(&self) -> StoreKey {
        self.key
    }

    /// Its kind.
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.told.mode)
    }

    pub(crate) fn is_of(&self, uid: u32) -> bool {
        self.attr(0).uid == uid
    }

    pub(crate) fn is_regular(&self) -> bool {
        self.kind() == FileType::RegularFile
    }

    /// Permission bits with set-user-id, set-group-id and sticky.
    pub(crate) fn permissions(&self) -> u32 {
        self.told.mode & 0o7777
    }

    /// How many names it has.
    pub fn links(&self) -> u32 {
        self.told.links
    }

    pub(crate) fn size(&self) -> u64 {
        self.told.size
    }

    /// Time of birth, where the store keeps one: it tells a reused inode number from the old file.
    pub(crate) fn born(&self) -> Option<i64> {
        self.told.born_ns
    }

    pub(crate) fn stamp(&self) -> FileStamp {
        FileStamp {
            ctime_ns: self.told.ctime_ns,
            mtime_ns: self.told.mtime_ns,
            size: self.told.size,
        }
    }

    /// Whether the store grants now what it granted under those attributes, of the same bytes.
    pub(crate) fn grants_like(&self, was: &Stat) -> bool {
        let rights = |stat: &Stat| {
            let told = &stat.told;
            (told.mode, told.uid, told.gid, told.links, told.born_ns)
        };
        self.key == was.key && self.stamp() == was.stamp() && rights(self) == rights(was)
    }

    pub(crate) fn set_size(&mut self, size: u64) {
        self.told.size = size;
    }

    /// Replaces what the cache knows better.
    pub(crate) fn overlaid(mut self, known: FileSize) -> Stat {
        let Some(size) = known.size else {
            return self;
        };
        // A file that looks shorter than its blocks is taken for sparse by cp and tar.
        let unstored = size.saturating_sub(self.told.size);
        self.told.blocks += unstored.div_ceil(BLOCK_BYTES);
        self.told.size = size;
        if let Some(mtime_ns) = known.mtime_ns {
            self.told.mtime_ns = mtime_ns;
            self.times[1] = since_epoch(mtime_ns);
        }
        self
    }

    /// Says what a good size of one request is.
    pub(crate) fn best_served_in(&mut self, request_bytes: u32) {
        self.told.block_bytes = request_bytes;
    }

    /// Shows the file as somebody else's.
    pub(crate) fn owned_by(&mut self, uid: u32, gid: u32) {
        self.told.uid = uid;
        self.told.gid = gid;
    }

    /// As the kernel wants it, under the node number it knows.
    pub fn attr(&self, node: u64) -> FileAttr {
        FileAttr {
            ino: INodeNo(node),
            size: self.told.size,
            blocks: self.told.blocks,
            atime: self.times[0],
            mtime: self.times[1],
            ctime: self.times[2],
            crtime: UNIX_EPOCH,
            kind: kernel_kind(self.kind()),
            perm: self.permissions() as u16,
            nlink: self.told.links,
            uid: self.told.uid,
            gid: self.told.gid,
            rdev: self.device,
            blksize: self.told.block_bytes,
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

fn since_epoch(nanos: i64) -> SystemTime {
    let span = Duration::from_nanos(nanos.unsigned_abs());
    if nanos < 0 {
        UNIX_EPOCH - span
    } else {
        UNIX_EPOCH + span
    }
}

/// The kernel's 32-bit form of a device number (`new_encode_dev`).
fn device(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// The inverse, as `mknod(2)` wants it.
pub fn device_number(encoded: u32) -> u64 {
    let major = (encoded & 0xfff00) >> 8;
    let minor = (encoded & 0xff) | ((encoded >> 12) & 0xfff00);
    rustix::fs::makedev(major, minor)
}

/// A file type in fuser's words.
pub fn kernel_kind(kind: FileType) -> fuser::FileType {
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
