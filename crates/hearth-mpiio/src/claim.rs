//! Claims of ranks that cache a file, for others to see: locks far beyond its end.
//!
//! Two caches of one file would not know of each other. So every rank that opens a file through the
//! cache holds a lock that any number of ranks of the same job can hold, and that others can see. They
//! see it as far as the store's locks reach, and it goes with the process that held it. A store
//! without locks has no claims.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags};

use crate::locks::{BEYOND, range};
use crate::sys;

/// The byte whose lock makes a call of atomic mode atomic.
const TURN: i64 = BEYOND;

/// The byte that all who want a turn pass through one by one, so that a writer waits for the readers
/// before it and not for those after.
const GATE: i64 = BEYOND + 1;

/// Jobs that read have a byte each from here on, and jobs that write from the other.
const READERS: i64 = BEYOND + (1 << 33);
const WRITERS: i64 = BEYOND + (1 << 34);
const BYTES: i64 = 1 << 33;

/// A descriptor of its own, which holds the locks.
pub(crate) struct Claim {
    fd: OwnedFd,
    /// Threads of this rank take turns: the lock is one of the rank's.
    turn: Mutex<()>,
}

/// Why a file cannot be claimed.
#[derive(Debug)]
pub(crate) enum ClaimError {
    /// Another job has it.
    Taken,
    /// It cannot be locked.
    Unusable(io::Error),
}

/// The turn of a call in atomic mode; over when it is dropped.
pub(crate) struct Turn<'a> {
    claim: &'a Claim,
    _threads: MutexGuard<'a, ()>,
}

/// The operation of a call in atomic mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Write,
}

impl Claim {
    /// Claims a file for a job; `None` if the store has no locks, or the file can be written alone.
    pub(crate) fn take(path: &Path, job: u64, writes: bool) -> Result<Option<Claim>, ClaimError> {
        let access = if writes { OFlags::RDWR } else { OFlags::RDONLY };
        let Ok(fd) = rustix::fs::open(path, access | OFlags::CLOEXEC, Mode::empty()) else {
            return Ok(None);
        };
        let claim = Claim {
            fd,
            turn: Mutex::default(),
        };
        let own = (job % BYTES.cast_unsigned()).cast_signed();
        let from = if writes { WRITERS } else { READERS };
        match claim.set(libc::F_RDLCK, from + own) {
            Ok(()) => {}
            Err(error) if without_locks(&error) => return Ok(None),
            Err(error) => return Err(ClaimError::Unusable(error)),
        }
        let others =
            |from: i64| Ok(claim.any(from, own)? || claim.any(from + own + 1, BYTES - own - 1)?);
        let taken = others(WRITERS).and_then(|taken| Ok(taken || writes && others(READERS)?));
        match taken {
            Ok(false) => Ok(Some(claim)),
            Ok(true) => Err(ClaimError::Taken),
            Err(error) => Err(ClaimError::Unusable(error)),
        }
    }

    /// Waits for a turn among all ranks of the file.
    pub(crate) fn turn(&self, of: Use) -> io::Result<Turn<'_>> {
        let threads = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = match of {
            Use::Read => libc::F_RDLCK,
            Use::Write => libc::F_WRLCK,
        };
        self.set(libc::F_WRLCK, GATE)?;
        let taken = self.set(kind, TURN);
        self.set(libc::F_UNLCK, GATE)?;
        taken?;
        Ok(Turn {
            claim: self,
            _threads: threads,
        })
    }

    fn set(&self, kind: c_int, byte: i64) -> io::Result<()> {
        loop {
            match sys::lock(
                self.fd.as_raw_fd(),
                libc::F_OFD_SETLKW,
                &mut range(kind, byte, 1),
            ) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// Whether anybody else holds a lock in a range.
    fn any(&self, start: i64, len: i64) -> io::Result<bool> {
        if len <= 0 {
            return Ok(false);
        }
        let mut found = range(libc::F_WRLCK, start, len);
        sys::lock(self.fd.as_raw_fd(), libc::F_OFD_GETLK, &mut found)?;
        Ok(c_int::from(found.l_type) != libc::F_UNLCK)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.claim.set(libc::F_UNLCK, TURN) {
            log::warn!("cannot end a turn of atomic mode: {error}");
        }
    }
}

fn without_locks(error: &io::Error) -> bool {
    let missing = [libc::ENOSYS, libc::ENOLCK, libc::EOPNOTSUPP, libc::EINVAL];
    error
        .raw_os_error()
        .is_some_and(|number| missing.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(path: &Path, job: u64, writes: bool) -> Result<Option<Claim>, ClaimError> {
        Claim::take(path, job, writes)
    }

    #[test]
    fn jobs_share_a_file_only_while_all_of_them_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"x").unwrap();
        let first = claim(&path, 7, true).unwrap().expect("locks work here");
        let same = claim(&path, 7, true).unwrap().expect("another rank");
        assert!(matches!(claim(&path, 8, true), Err(ClaimError::Taken)));
        assert!(matches!(claim(&path, 8, false), Err(ClaimError::Taken)));
        drop((first, same));
        let reader = claim(&path, 8, false).unwrap().expect("free again");
        let other = claim(&path, 9, false).unwrap().expect("readers share");
        assert!(matches!(claim(&path, 7, true), Err(ClaimError::Taken)));
        drop((reader, other));
        assert!(claim(&path, 7, true).unwrap().is_some());
    }

    #[test]
    fn a_writer_has_its_turn_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"x").unwrap();
        let ranks = [0, 1].map(|_| claim(&path, 7, true).unwrap().expect("locks work here"));
        let turn = ranks[0].turn(Use::Write).unwrap();
        assert!(ranks[1].any(TURN, 1).unwrap());
        drop(turn);
        assert!(!ranks[1].any(TURN, 1).unwrap());
    }
}
