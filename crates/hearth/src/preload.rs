//! Where the library is that records what programs do.

use crate::failure::{Failure, OrFail};
use std::path::PathBuf;

const NAME: &str = "libhearth_preload.so";
const VARIABLE: &str = "HEARTH_PRELOAD";

/// The path of the library: what `HEARTH_PRELOAD` says, or beside this program.
pub(crate) fn library() -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return Ok(PathBuf::from(path));
    }
    let this = std::env::current_exe().or_fail(|| "cannot find this program".to_owned())?;
    let library = this.with_file_name(NAME);
    match library.is_file() {
        true => Ok(library),
        false => Err(
            Failure::new(format!("cannot find `{}`", library.display())).hint(format!(
                "cargo build --release -p hearth-preload, or name it in {VARIABLE}"
            )),
        ),
    }
}
