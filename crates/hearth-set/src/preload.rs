//! The paths of the libraries that are loaded into programs.

use crate::failure::Failure;
use std::path::{Path, PathBuf};

/// The library that is loaded into programs: what `HEARTH_PRELOAD` says, or beside the command `hearth`, or where `make install`
/// puts it.
pub fn library(hearth: &Path) -> Result<PathBuf, Failure> {
    find(
        hearth,
        "hearth-preload",
        "libhearth_preload.so",
        "HEARTH_PRELOAD",
    )
}

/// The library that makes MPI ranks a cache: what `HEARTH_MPIIO` says, or in the same places.
pub fn mpi_library(hearth: &Path) -> Result<PathBuf, Failure> {
    find(hearth, "hearth-mpiio", "libhearth_mpiio.so", "HEARTH_MPIIO")
}

/// The library, in a place that the dynamic linker can be told.
pub fn loadable(hearth: &Path) -> Result<PathBuf, Failure> {
    let path = library(hearth)?;
    // The dynamic linker cuts its list at blanks and colons.
    let splits = |path: &Path| {
        path.as_os_str()
            .as_encoded_bytes()
            .iter()
            .any(|it| b" :".contains(it))
    };
    if splits(&path) {
        let what = format!("cannot load `{}` into programs", path.display());
        return Err(Failure::new(what).cause("its path has a blank or a colon"));
    }
    if !path.exists() {
        let what = format!("cannot find the library `{}`", path.display());
        return Err(Failure::new(what).hint("make install, or name it in HEARTH_PRELOAD"));
    }
    Ok(path)
}

fn find(hearth: &Path, package: &str, name: &str, variable: &str) -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) {
        return Ok(PathBuf::from(path));
    }
    let beside = hearth.with_file_name(name);
    let installed = hearth
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
