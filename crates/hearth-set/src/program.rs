//! The path of the command's file.

use std::path::PathBuf;

use crate::failure::{Failure, OrFail};

/// This program's own file.
pub fn this() -> Result<PathBuf, Failure> {
    std::env::current_exe().or_fail(|| "cannot find this program's own file".to_owned())
}
