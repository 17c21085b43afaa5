//! Requests of the operating system as calls of a gateway, and answers as it wants them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, Generation, INodeNo, Request, TimeOrNow};
use hearth_fuse::store::{Credentials, Stat};

use super::tree::Store;
use crate::call::{Answer, Call, Inode, Listed, Moment, Name, Whom, decode};

/// Nothing may be kept: others change the store too.
pub(super) const TTL: Duration = Duration::ZERO;

/// An inode as the operating system is told of it.
pub(super) struct Entry {
    pub(super) attr: FileAttr,
    pub(super) generation: Generation,
}

impl Store {
    /// A call on behalf of whoever is behind a request.
    pub(super) fn by(
        &self,
        request: &Request,
        call: &Call,
        payload: &[u8],
    ) -> Result<(Answer, Vec<u8>), i32> {
        self.call(&whom(request)?, call, payload)
    }

    /// The same for what has no answer.
    pub(super) fn order(&self, request: &Request, call: &Call) -> Result<(), i32> {
        self.by(request, call, &[]).map(drop)
    }

    /// The same for what is answered with an inode at a name.
    pub(super) fn entry(&self, request: &Request, at: Name, call: &Call) -> Result<Entry, i32> {
        let inode = self.inode(request, call)?;
        let generation = Generation(self.found(at, &inode));
        Ok(Entry {
            attr: attr(&inode, inode.ino),
            generation,
        })
    }

    pub(super) fn inode(&self, request: &Request, call: &Call) -> Result<Inode, i32> {
        match self.by(request, call, &[])? {
            (Answer::Inode(inode), _) => Ok(inode),
            _ => Err(libc::EIO),
        }
    }

    pub(super) fn attributes(&self, request: &Request, call: &Call) -> Result<FileAttr, i32> {
        let inode = self.inode(request, call)?;
        Ok(attr(&inode, inode.shown))
    }

    pub(super) fn bytes(&self, request: &Request, call: &Call) -> Result<Vec<u8>, i32> {
        match self.by(request, call, &[])? {
            (Answer::Bytes, bytes) => Ok(bytes),
            _ => Err(libc::EIO),
        }
    }

    pub(super) fn count(&self, request: &Request, call: &Call, payload: &[u8]) -> Result<u64, i32> {
        match self.by(request, call, payload)? {
            (Answer::Count(count), _) => Ok(count),
            _ => Err(libc::EIO),
        }
    }

    pub(super) fn listing(&self, request: &Request, call: &Call) -> Result<Vec<Listed>, i32> {
        match self.by(request, call, &[])? {
            (Answer::Listing, bytes) => decode(&bytes).ok_or(libc::EIO),
            _ => Err(libc::EIO),
        }
    }
}

/// The caller whose rights count for a request.
pub(super) fn whom(request: &Request) -> Result<Whom, i32> {
    let all = Credentials::of(request);
    all.map(Whom::from).map_err(|_| libc::EACCES)
}

pub(super) fn at(dir: INodeNo, name: &OsStr) -> Name {
    Name {
        dir: dir.0,
        name: name.as_bytes().to_vec(),
    }
}

/// `shown` is the number that programs see; in an entry the operating system takes it for the inode's.
fn attr(inode: &Inode, shown: u64) -> FileAttr {
    let mut attr = Stat::told(0, inode.shown, inode.attributes()).attr(shown);
    attr.rdev = inode.device;
    attr
}

pub(super) fn moment(time: TimeOrNow) -> Moment {
    let time = match time {
        TimeOrNow::Now => return Moment::Now,
        TimeOrNow::SpecificTime(time) => time,
    };
    let (seconds, nanos) = since_epoch(time);
    Moment::At(seconds, nanos)
}

fn since_epoch(time: SystemTime) -> (i64, u32) {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (after.as_secs().cast_signed(), after.subsec_nanos()),
        // fuser takes seconds before the epoch and nanoseconds after that for one span: taken apart likewise.
        Err(error) => {
            let before = error.duration();
            (-before.as_secs().cast_signed(), before.subsec_nanos())
        }
    }
}
