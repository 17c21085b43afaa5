//! Bytes of files: there are so many of them, and all are zero. Work of the store is done by a thread.

use crate::agent::Agent;
use crate::stat::Stat;
use hearth_client::{Done, Errno, Outcome, ReadDone, Written};
use hearth_proto::{Buf, Input, Piece, RawErrno, StoreOk, StoreOpId};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// As many as one answer can have.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Lengths of buffers.
#[derive(Default)]
pub(crate) struct Buffers {
    lengths: BTreeMap<Buf, u32>,
    named: u64,
}

impl Buffers {
    /// A new one.
    pub(crate) fn add(&mut self, len: u32) -> Buf {
        self.named += 1;
        self.insert(Buf(self.named), len)
    }

    /// One that the kernel has named.
    pub(crate) fn insert(&mut self, buf: Buf, len: u32) -> Buf {
        self.lengths.insert(buf, len);
        buf
    }

    /// It is not needed any more; says how long it was.
    pub(crate) fn take(&mut self, buf: Buf) -> u32 {
        self.lengths.remove(&buf).unwrap_or(0)
    }
}

/// How many bytes there are in pieces.
pub(crate) fn length(pieces: &[Piece]) -> u32 {
    pieces.iter().map(|piece| piece.len).sum()
}

/// Lends so many bytes.
pub(crate) fn lend(len: u32, done: ReadDone) {
    let mut left = len as usize;
    let mut pieces = Vec::new();
    while left > 0 {
        let piece = left.min(ZEROS.len());
        pieces.push(&ZEROS[..piece]);
        left -= piece;
    }
    done(Outcome::Serve(&pieces));
}

/// Something to be done with a file in the store.
pub(crate) enum Work {
    /// Nothing, but its stamp is wanted.
    Look,
    Cut(u64),
    Read(u64, u32),
    Write(Vec<(u64, u32)>),
}

/// Those who hear of it.
pub(crate) enum Told {
    Kernel(StoreOpId),
    Reader(ReadDone),
    Writer(u64, Done<Written>),
}

/// Work of the store.
pub(crate) struct Job {
    pub(crate) fd: Option<Arc<OwnedFd>>,
    pub(crate) work: Work,
    pub(crate) told: Told,
}

impl Job {
    /// Does it, and tells of it.
    pub(crate) fn run(self, agent: &Agent) {
        let fd = self.fd.ok_or(libc::ESTALE);
        let done = fd.and_then(|fd| work(&fd, &self.work));
        match (self.told, done) {
            (Told::Kernel(op), done) => agent.drive(Input::StoreDone(op, done)),
            (Told::Reader(reader), Ok(read)) => lend(read.bytes, reader),
            (Told::Reader(reader), Err(errno)) => reader(Outcome::Fail(Errno(errno))),
            (Told::Writer(offset, writer), Ok(wrote)) => writer(Outcome::Serve(Written {
                offset,
                size: wrote.stamp.size,
            })),
            (Told::Writer(_, writer), Err(errno)) => writer(Outcome::Fail(Errno(errno))),
        }
    }
}

fn work(fd: &OwnedFd, work: &Work) -> Result<StoreOk, RawErrno> {
    std::thread::yield_now();
    let done = (|| -> io::Result<Stat> {
        match work {
            Work::Cut(size) => real_rustix::fs::ftruncate(fd, *size)?,
            Work::Write(pieces) => {
                for &(offset, len) in pieces {
                    real_rustix::io::pwrite(fd, &vec![0; len as usize], offset)?;
                }
            }
            Work::Look | Work::Read(..) => {}
        }
        Stat::of(fd)
    })();
    let stat = done.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
    let bytes = match *work {
        Work::Read(offset, len) => stat.size().saturating_sub(offset).min(u64::from(len)) as u32,
        _ => 0,
    };
    Ok(StoreOk {
        bytes,
        stamp: stamp(stat.stamp()),
    })
}

/// A stamp in the kernel's words.
pub(crate) fn stamp(stamp: hearth_client::FileStamp) -> hearth_proto::Stamp {
    hearth_proto::Stamp {
        ctime_ns: stamp.ctime_ns,
        mtime_ns: stamp.mtime_ns,
        size: stamp.size,
    }
}
