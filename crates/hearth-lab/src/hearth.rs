//! The path of the command that the benchmarks start.

use std::path::PathBuf;

use hearth_set::failure::Failure;
use hearth_set::program;

/// The command: what `HEARTH_BIN` names, or beside this program.
pub(crate) fn hearth() -> Result<PathBuf, Failure> {
    let named = std::env::var_os("HEARTH_BIN").filter(|path| !path.is_empty());
    let path = match named {
        Some(path) => PathBuf::from(path),
        None => program::this()?.with_file_name("hearth"),
    };
    match path.is_file() {
        true => Ok(path),
        false => Err(
            Failure::new(format!("cannot find the command `{}`", path.display()))
                .hint("cargo build --release -p hearth, or name it in HEARTH_BIN"),
        ),
    }
}
