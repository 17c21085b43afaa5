//! How programs find the pool of their agent: by what `hearth run` puts into their environment.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The device number of the mount, a colon, and where the agent lends its pool.
pub(crate) const VARIABLE: &str = "HEARTH_POOL";

/// Where an agent lends its pool, beside its other socket.
pub(crate) fn socket_of(socket: &Path) -> PathBuf {
    socket.with_extension("pool")
}

/// What a program is told that sees the agent's mount at `at`.
pub(crate) fn value(at: &Path, socket: &Path) -> io::Result<OsString> {
    let device = std::fs::metadata(at)?.dev();
    let mut value = OsString::from(format!("{device}:"));
    value.push(socket_of(socket));
    Ok(value)
}
