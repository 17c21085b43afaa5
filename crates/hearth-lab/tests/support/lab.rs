//! The laboratory's command, and the one that it starts.

#![allow(dead_code, reason = "every test file uses its own part")]
#![allow(clippy::print_stdout, reason = "the summary counts what is skipped")]

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The laboratory.
pub(crate) const LAB: &str = env!("CARGO_BIN_EXE_hearth-lab");

/// The command `hearth` of the tests.
fn hearth() -> PathBuf {
    let named = std::env::var_os("HEARTH_BIN").map(PathBuf::from);
    named.unwrap_or_else(|| Path::new(LAB).with_file_name("hearth"))
}

/// Says why a test does not run, in the words that the summary counts.
pub(crate) fn skip(test: &str, why: &str) {
    println!("skipped: {test}: {why}");
}

/// Whether a test that mounts cannot run here, or lacks a program; says why.
pub(crate) fn skipped(test: &str, programs: &[&str]) -> bool {
    let lacks = missing(programs);
    if let Some(why) = &lacks {
        skip(test, why);
    }
    lacks.is_some()
}

/// Whether a test that needs the library of `hearth run` cannot run here; says so.
pub(crate) fn lacks_library(test: &str) -> bool {
    let named = std::env::var_os("HEARTH_PRELOAD").map(PathBuf::from);
    let library = named.unwrap_or_else(|| hearth().with_file_name("libhearth_preload.so"));
    if !library.exists() {
        skip(test, "no libhearth_preload.so beside the command");
    }
    !library.exists()
}

fn missing(programs: &[&str]) -> Option<String> {
    let device = File::options().read(true).write(true).open("/dev/fuse");
    if let Err(error) = device {
        return Some(format!("/dev/fuse cannot be opened: {error}"));
    }
    if !hearth().is_file() {
        return Some("HEARTH_BIN names no command, and there is none beside".to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    let absent = programs.iter().find(|name| !is_there(name))?;
    Some(format!("{absent} is not installed"))
}

/// Runs the laboratory, with a control directory of its own.
pub(crate) fn lab(words: &[&str]) -> Output {
    lab_in(Path::new("."), words)
}

/// The same in a directory.
pub(crate) fn lab_in(dir: &Path, words: &[&str]) -> Output {
    let private = Permissions::from_mode(0o700);
    let control = tempfile::Builder::new()
        .permissions(private)
        .tempdir()
        .expect("a directory");
    let mut command = Command::new(LAB);
    command.env("HEARTH_DIR", control.path()).args(words);
    command.current_dir(dir).output().expect("the command runs")
}

/// The summary in the last line of what was printed.
pub(crate) fn summary_of(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().expect("a summary");
    serde_json::from_str::<Value>(last).expect("an object")["summary"].clone()
}
