//! Where the libraries are that are loaded into programs.

use crate::failure::{Failure, OrFail};
use std::path::PathBuf;

/// The library that records what programs do: what `HEARTH_PRELOAD` says, or beside this program.
pub(crate) fn library() -> Result<PathBuf, Failure> {
    find("hearth-preload", "libhearth_preload.so", "HEARTH_PRELOAD")
}

/// The library that makes MPI ranks a cache: what `HEARTH_MPIIO` says, or beside this program.
pub(crate) fn mpi_library() -> Result<PathBuf, Failure> {
    find("hearth-mpiio", "libhearth_mpiio.so", "HEARTH_MPIIO")
}

fn find(package: &str, name: &str, variable: &str) -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) {
        return Ok(PathBuf::from(path));
    }
    let this = std::env::current_exe().or_fail(|| "cannot find this program".to_owned())?;
    let library = this.with_file_name(name);
    match library.is_file() {
        true => Ok(library),
        false => Err(
            Failure::new(format!("cannot find `{}`", library.display())).hint(format!(
                "cargo build --release -p {package}, or name it in {variable}"
            )),
        ),
    }
}
