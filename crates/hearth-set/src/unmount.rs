//! Takes mounts out of the tree, as root or as an ordinary user.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, UnmountFlags, fsconfig_create, fsmount, fsopen,
    unmount,
};

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
    let Some(connection) = connection_at(at)? else {
        return Ok(());
    };
    match end_of(connection).and_then(|end| abort(&end)) {
        Ok(()) => unmount_at(at, Busy::Detach),
        // Not where such files are not mounted; root needs none.
        Err(_) => Ok(unmount(
            at,
            UnmountFlags::NOFOLLOW | UnmountFlags::DETACH | UnmountFlags::FORCE,
        )?),
    }
}

/// The number of a mount's connection, by which the operating system calls it: that of its device.
pub fn connection_at(at: &Path) -> io::Result<Option<u32>> {
    let mounts = mountinfo::read()?;
    let mount = mounts
        .iter()
        .rfind(|mount| mount.at == at && mount.is_hearth());
    Ok(mount.map(|mount| mount.device.1))
}

/// The file by which a mount is ended: [`abort`]. It stays that mount's alone, though its number may come back.
pub fn end_of(connection: u32) -> io::Result<File> {
    let abort = format!("/sys/fs/fuse/connections/{connection}/abort");
    let usual = File::options().write(true).open(abort);
    usual.or_else(|error| of_own(connection).map_err(|_| error))
}

/// The same where no such files are mounted: root mounts them for itself, in no directory.
fn of_own(connection: u32) -> rustix::io::Result<File> {
    let files = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&files)?;
    let root = fsmount(
        &files,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::empty(),
    )?;
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let abort = openat(root, format!("{connection}/abort"), flags, Mode::empty())?;
    Ok(abort.into())
}

/// Ends what programs wait for in a mount, which stays. The user that mounted it may.
pub fn abort(mut end: &File) -> io::Result<()> {
    end.write_all(b"1")
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
