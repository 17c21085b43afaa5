//! Shipped files have nothing of the laboratory in them, and are light.

#[path = "support/fixture.rs"]
mod fixture;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use fixture::{program, skip};

/// Paths in words of panics, and parts of symbols, of the crates that no shipped file may have.
const LABORATORY: [&str; 7] = [
    "crates/hearth-lab/",
    "crates/hearth-sim",
    "crates/hearth-proto-canary",
    "hearth_lab",
    "hearth_sim",
    "hearth_proto_canary",
    "acks-before-apply",
];

/// Shipped files, and the bytes that each may have without symbols.
const SHIPPED: [(&str, u64); 3] = [
    ("hearth", 15 << 20),
    ("libhearth_preload.so", 5 << 20),
    ("libhearth_mpiio.so", 5 << 20),
];

/// The files that are there, and their limits.
fn shipped(test: &str) -> Vec<(PathBuf, u64)> {
    let beside = SHIPPED.map(|(name, most)| (program().with_file_name(name), most));
    let files = beside.into_iter().filter(|(path, _)| {
        if !path.is_file() {
            skip(test, &format!("there is no {}", path.display()));
        }
        path.is_file()
    });
    files.collect()
}

#[test]
fn nothing_of_the_laboratory_is_shipped() {
    for (path, _) in shipped("nothing_of_the_laboratory_is_shipped") {
        let bytes = fs::read(&path).expect("it can be read");
        for word in LABORATORY {
            let found = bytes
                .windows(word.len())
                .any(|here| here[0] == word.as_bytes()[0] && here == word.as_bytes());
            assert!(!found, "`{word}` is in {}", path.display());
        }
    }
}

#[test]
fn what_is_installed_is_light() {
    let test = "what_is_installed_is_light";
    if cfg!(debug_assertions) {
        return skip(test, "a dev build is heavier than what is installed");
    }
    let dir = tempfile::tempdir().expect("a directory");
    for (path, most) in shipped(test) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../setup/stripped.sh");
        let mut command = Command::new(script);
        let done = command.arg(dir.path()).arg(&path).output();
        let done = done.expect("the script runs");
        let words = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{words}");
        let name = path.file_name().expect("it has a name");
        let bytes = fs::metadata(dir.path().join(name))
            .expect("it is there")
            .len();
        assert!(bytes < most, "{} has {bytes} bytes", path.display());
        let lines = dir
            .path()
            .join(".debug")
            .join(name)
            .with_extension(match path.extension() {
                Some(_) => "so.debug",
                None => "debug",
            });
        assert!(lines.is_file(), "no {}", lines.display());
    }
}
