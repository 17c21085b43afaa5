//! Builds programs in C for tests.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds a source of `workloads/` into a directory; says so and returns `None` without a compiler.
pub(crate) fn workload(test: &str, name: &str, into: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let out = into.join(name);
    let mut command = Command::new("cc");
    command
        .args([
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-O2",
            "-pthread",
            "-o",
        ])
        .arg(&out)
        .arg(source.join(name).with_extension("c"));
    let Ok(output) = command.output() else {
        println!("skipped: {test}: no cc");
        return None;
    };
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    Some(out)
}
