//! Where the libraries are that are loaded into programs.

use crate::failure::{Failure, OrFail};
use std::path::{Path, PathBuf};

/// The library that is loaded into programs: what `HEARTH_PRELOAD` says, or beside this program, or where `make install`
/// puts it.
pub(crate) fn library() -> Result<PathBuf, Failure> {
    find("hearth-preload", "libhearth_preload.so", "HEARTH_PRELOAD")
}

/// The library that makes MPI ranks a cache: what `HEARTH_MPIIO` says, or in the same places.
pub(crate) fn mpi_library() -> Result<PathBuf, Failure> {
    find("hearth-mpiio", "libhearth_mpiio.so", "HEARTH_MPIIO")
}

fn find(package: &str, name: &str, variable: &str) -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) {
        return Ok(PathBuf::from(path));
    }
    let this = std::env::current_exe().or_fail(|| "cannot find this program".to_owned())?;
    let beside = this.with_file_name(name);
    let installed = this
        .parent()
        .and_then(Path::parent)
        .map(|prefix| prefix.join("lib/hearth").join(name));
    let mut places = std::iter::once(&beside).chain(&installed);
    if let Some(library) = places.find(|library| library.is_file()) {
        return Ok(library.clone());
    }
    let failure = Failure::new(format!("cannot find `{}`", beside.display()));
    let failure = installed.into_iter().fold(failure, |failure, place| {
        failure.cause(format!("it is not at `{}` either", place.display()))
    });
    Err(failure.hint(format!(
        "make install, or cargo build --release -p {package}, or name it in {variable}"
    )))
}
