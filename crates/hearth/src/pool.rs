//! How programs find the pool of their agent, and the store behind its mount: by what `hearth run` puts
//! into their environment.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::Gid;

/// The device number of the mount, a colon, and where the agent lends its pool.
const VARIABLE: &str = "HEARTH_LENDER";

/// The path of the mount.
const MOUNT: &str = "HEARTH_MOUNT";

/// The path of the store without the mount: programs read on there when their agent is gone.
const BEHIND: &str = "HEARTH_BEHIND";

/// In a user namespace: the mount's device, the groups that the user has outside, and the mount, with
/// colons between.
const OWNERS: &str = "HEARTH_OWNERS";

/// The number of filters of system calls here. A program with more is in a jail of its own, in which its library is
/// careful.
const FILTERS: &str = "HEARTH_FILTERS";

/// The socket at which an agent lends its pool, beside its other socket.
pub(crate) fn socket_of(socket: &Path) -> PathBuf {
    socket.with_extension("pool")
}

/// The socket at which it lends write rings: programs derive its path from the other.
pub(crate) fn write_rings_of(socket: &Path) -> PathBuf {
    socket.with_extension("lane")
}

/// The value for a program that sees the agent's mount at `at`.
fn value(at: &Path, socket: &Path) -> io::Result<OsString> {
    let device = std::fs::metadata(at)?.dev();
    let mut value = OsString::from(format!("{device}:"));
    value.push(socket_of(socket));
    Ok(value)
}

/// The variables for a program that sees the mount at `at`, and the store without it at `behind`. In a user namespace
/// that does not have the user's `groups`, they tell those too.
pub(crate) fn environment(
    at: &Path,
    socket: &Path,
    behind: Option<&Path>,
    groups: Option<&[Gid]>,
) -> io::Result<Vec<(&'static str, OsString)>> {
    let mut told = vec![(VARIABLE, value(at, socket)?)];
    told.extend(filters().map(|count| (FILTERS, count.into())));
    if let Some(groups) = groups {
        told.push((OWNERS, owners(at, groups)?));
    }
    if let Some(behind) = behind {
        told.push((MOUNT, at.into()));
        told.push((BEHIND, behind.into()));
    }
    Ok(told)
}

/// The value from which the library shows true owners and groups.
fn owners(at: &Path, groups: &[Gid]) -> io::Result<OsString> {
    let device = std::fs::metadata(at)?.dev();
    let groups: Vec<String> = groups.iter().map(|it| it.as_raw().to_string()).collect();
    let mut value = OsString::from(format!("{device}:{}:", groups.join(",")));
    value.push(at);
    Ok(value)
}

fn filters() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp_filters:"));
    line.map(|count| count.trim().to_owned())
}
