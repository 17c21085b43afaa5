//! The needs of Hearth on this machine, and the remedy for each that is missing.

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::process::{Resource, geteuid, getrlimit};

use hearth_set::failure::Failure;

/// Descriptors below which a busy agent fails to open files.
const OPEN_FILES_MIN: u64 = 1024;

const DEVICE: &str = "/dev/fuse";

/// Opens the device that mounts are served through.
pub(crate) fn open_device() -> Result<OwnedFd, Failure> {
    match File::options().read(true).write(true).open(DEVICE) {
        Ok(file) => Ok(file.into()),
        Err(error) => {
            let hint = match error.kind() {
                io::ErrorKind::NotFound => "modprobe fuse (as root)",
                io::ErrorKind::PermissionDenied => "chmod 666 /dev/fuse (as root), or a udev rule",
                _ => {
                    "modprobe fuse (as root); in a container, pass the device in: --device /dev/fuse"
                }
            };
            Err(Failure::new("cannot open /dev/fuse")
                .because(error)
                .hint(hint))
        }
    }
}

/// Fails if this user cannot mount into the common tree.
pub(crate) fn check_mounting() -> Result<(), Failure> {
    open_device()?;
    if geteuid().is_root() || helper().is_some() {
        return Ok(());
    }
    Err(Failure::new("cannot mount as an ordinary user")
        .cause("there is no fusermount3")
        .hint("apt-get install fuse3 (as root), or use `hearth run`"))
}

/// The helper that mounts for ordinary users.
pub(crate) fn helper() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let mut candidates = env::split_paths(&path).map(|dir| dir.join("fusermount3"));
    candidates.find(|path| path.is_file())
}

/// Why an ordinary user gets no namespace, where the system says so.
pub(crate) fn namespace_obstacle() -> Option<String> {
    let switches = [
        ("user/max_user_namespaces", "0"),
        ("kernel/unprivileged_userns_clone", "0"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1"),
    ];
    let (name, value) = switches.into_iter().find(|(name, value)| {
        let text = fs::read_to_string(format!("/proc/sys/{name}"));
        text.is_ok_and(|text| text.trim() == *value)
    })?;
    Some(format!("sysctl {} is {value}", name.replace('/', ".")))
}

/// Descriptors that this process may open, if they are few.
pub(crate) fn few_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile).current?;
    (limit < OPEN_FILES_MIN).then_some(limit)
}
