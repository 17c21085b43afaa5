//! Byte-range locks on cached files.
//!
//! `fcntl` locks belong to a process, and closing *any* descriptor of the file drops them all. The
//! agent in this process opens and closes files as it needs to. So the MPI library's locks become
//! locks of its open file, which exclude the same others, on the same host or through the store.

use std::ffi::{c_int, c_short};
use std::io;

use crate::sys;

/// Ranges end before this, so that the bytes from here on can be locked for other ends.
pub(crate) const BEYOND: i64 = 1 << 62;

/// Serves a lock command of `fcntl`; `None` if the command is another.
pub(crate) fn control(fd: c_int, command: c_int, lock: *mut libc::flock) -> Option<io::Result<()>> {
    let own = match command {
        libc::F_SETLK => libc::F_OFD_SETLK,
        libc::F_SETLKW => libc::F_OFD_SETLKW,
        libc::F_GETLK => libc::F_OFD_GETLK,
        _ => return None,
    };
    let asked = sys::at_mut(lock)?;
    let mut range = *asked;
    // The number of a process means nothing for such locks, and must be zero.
    range.l_pid = 0;
    if let Err(error) = bounded(&mut range, fd) {
        return Some(Err(error));
    }
    let sets = command != libc::F_GETLK;
    let cached = crate::fds::find(fd).filter(|_| sets && crate::loose::is_on());
    let Some(cached) = cached else {
        let done = sys::lock(fd, own, &mut range);
        if !sets && done.is_ok() {
            *asked = range;
        }
        return Some(done);
    };
    let set = |range: &mut libc::flock| sys::lock(fd, own, range);
    Some(in_order(&mut range, set, || cached.exchange()))
}

/// Locks or unlocks a range whose holders see what was written before under it.
///
/// A failure is told, and a lock is not kept for it: one that could not be used is let go, and one that was to end
/// ends. A program assumes so, whether it is told of the failure or does not look.
fn in_order(
    range: &mut libc::flock,
    mut set: impl FnMut(&mut libc::flock) -> io::Result<()>,
    exchange: impl Fn() -> io::Result<()>,
) -> io::Result<()> {
    if c_int::from(range.l_type) == libc::F_UNLCK {
        let exchanged = exchange();
        return set(range).and(exchanged);
    }
    set(range)?;
    exchange().inspect_err(|_| {
        range.l_type = libc::F_UNLCK as c_short;
        // The first failure is the one to tell.
        let _ = set(range);
    })
}

/// Lets go of every lock of an open file, which a duplicate would keep.
pub(crate) fn release_all(fd: c_int) {
    let mut range = range(libc::F_UNLCK, 0, BEYOND);
    let _ = sys::lock(fd, libc::F_OFD_SETLK, &mut range);
}

/// A range to lock or unlock.
pub(crate) fn range(kind: c_int, start: i64, len: i64) -> libc::flock {
    libc::flock {
        l_type: kind as c_short,
        l_whence: libc::SEEK_SET as c_short,
        l_start: start,
        l_len: len,
        l_pid: 0,
    }
}

/// A lock to the end of all ends before the bytes that have another use. An offset from the end of
/// the file would be taken from the store's size, which is behind.
fn bounded(range: &mut libc::flock, fd: c_int) -> io::Result<()> {
    if c_int::from(range.l_whence) == libc::SEEK_END
        && let Some(cached) = crate::fds::find(fd)
    {
        range.l_start += cached.size(fd)?.cast_signed();
        range.l_whence = libc::SEEK_SET as c_short;
    }
    if range.l_len == 0 && c_int::from(range.l_whence) == libc::SEEK_SET && range.l_start < BEYOND {
        range.l_len = BEYOND - range.l_start;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{in_order, range};
    use std::ffi::c_int;
    use std::io;

    /// The kinds that were set, in order, and whether the call failed.
    fn tried(kind: c_int, exchanges: bool, sets: bool) -> (Vec<c_int>, bool) {
        let mut kinds = Vec::new();
        let set = |range: &mut libc::flock| {
            kinds.push(c_int::from(range.l_type));
            sets.then_some(()).ok_or(io::ErrorKind::WouldBlock.into())
        };
        let exchange = || exchanges.then_some(()).ok_or(io::ErrorKind::Other.into());
        let done = in_order(&mut range(kind, 0, 1), set, exchange);
        (kinds, done.is_err())
    }

    #[test]
    fn what_cannot_be_exchanged_is_told_and_leaves_no_lock() {
        use libc::{F_UNLCK, F_WRLCK};
        assert_eq!(tried(F_WRLCK, true, true), (vec![F_WRLCK], false));
        assert_eq!(tried(F_WRLCK, false, true), (vec![F_WRLCK, F_UNLCK], true));
        assert_eq!(tried(F_WRLCK, false, false), (vec![F_WRLCK], true));
        assert_eq!(tried(F_UNLCK, true, true), (vec![F_UNLCK], false));
        assert_eq!(tried(F_UNLCK, false, true), (vec![F_UNLCK], true));
    }
}
