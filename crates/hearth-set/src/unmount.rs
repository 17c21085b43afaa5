//! Takes mounts out of the tree, as root or as an ordinary user.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::control::Busy;
use crate::mountinfo;

/// Takes a mount out of the tree.
pub fn unmount_at(at: &Path, busy: Busy) -> io::Result<()> {
    let flags = match busy {
        Busy::Refuse => UnmountFlags::NOFOLLOW,
        Busy::Detach => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
    };
    match unmount(at, flags) {
        Err(Errno::PERM) => by_helper(at, busy),
        result => Ok(result?),
    }
}

/// Ends a mount whose agent does not answer: what programs wait for there fails, and the mount goes. Nothing is asked of the
/// agent, and none of its descriptors is needed.
pub fn abort_at(at: &Path) -> io::Result<()> {
    match abort(at) {
        Ok(true) => unmount_at(at, Busy::Detach),
        Ok(false) => Ok(()),
        // Not where such files are not mounted; root needs none.
        Err(_) => Ok(unmount(
            at,
            UnmountFlags::NOFOLLOW | UnmountFlags::DETACH | UnmountFlags::FORCE,
        )?),
    }
}

/// Ends what programs wait for in a mount, and leaves it there; false if there is none.
pub fn abort(at: &Path) -> io::Result<bool> {
    let mounts = mountinfo::read()?;
    let Some(mount) = mounts
        .iter()
        .rfind(|mount| mount.at == at && mount.is_hearth())
    else {
        return Ok(false);
    };
    // The operating system calls a connection by the number of its device. The user that mounted may end it.
    let abort = format!("/sys/fs/fuse/connections/{}/abort", mount.device.1);
    let mut file = File::options().write(true).open(abort)?;
    file.write_all(b"1")?;
    Ok(true)
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
