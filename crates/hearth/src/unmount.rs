//! Takes mounts out of the tree, as root or as an ordinary user.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::control::Busy;

/// Takes a mount out of the tree.
pub(crate) fn unmount_at(at: &Path, busy: Busy) -> io::Result<()> {
    let flags = match busy {
        Busy::Refuse => UnmountFlags::NOFOLLOW,
        Busy::Detach => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
    };
    match unmount(at, flags) {
        Err(Errno::PERM) => by_helper(at, busy),
        result => Ok(result?),
    }
}

/// An ordinary user may unmount only through the helper that may mount.
fn by_helper(at: &Path, busy: Busy) -> io::Result<()> {
    let mut helper = Command::new("fusermount3");
    helper.args(["-u", "-q"]).stdin(Stdio::null());
    if busy == Busy::Detach {
        helper.arg("-z");
    }
    let output = helper.arg("--").arg(at).output()?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    if words.trim().is_empty() || words.contains("busy") {
        return Err(Errno::BUSY.into());
    }
    Err(io::Error::other(words.trim().to_owned()))
}
