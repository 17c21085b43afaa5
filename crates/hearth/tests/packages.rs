//! Packages hold all parts where the command looks for them. `make dist` tries them on a system that has nothing else.

#[path = "support/fixture.rs"]
mod fixture;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fixture::{Fixture, finish, lacks_library, program, skip, skipped};

/// Files that each package has below its prefix, besides pages.
const PARTS: [&str; 7] = [
    "bin/hearth",
    "lib/hearth/libhearth_mpiio.so",
    "lib/hearth/libhearth_preload.so",
    "share/bash-completion/completions/hearth",
    "share/fish/vendor_completions.d/hearth.fish",
    "share/man/man1/hearth-run.1",
    "share/zsh/site-functions/_hearth",
];

/// Words of pip if it cannot bring the tool that builds a wheel.
const NO_BUILDER: &str = "No matching distribution found for maturin";

/// Makes one kind of package; `None`, and a word why, if something that it takes is missing.
fn packaged(test: &str, kind: &str, tool: &str, out: &Path) -> Option<PathBuf> {
    if Command::new(tool).arg("--version").output().is_err() {
        skip(test, &format!("no {tool}"));
        return None;
    }
    let release = program().parent()?.to_owned();
    let is_release = release.ends_with("release") && release.join("libhearth_mpiio.so").exists();
    if !is_release {
        skip(test, "no release build of all parts");
        return None;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist/build.sh");
    let mut command = Command::new(script);
    command.arg(out).arg(kind);
    command.env("CARGO_TARGET_DIR", release.parent()?);
    let made = finish(&mut command);
    let words = String::from_utf8_lossy(&made.stderr);
    if words.contains(NO_BUILDER) {
        skip(test, "pip cannot bring maturin");
        return None;
    }
    assert!(made.status.success(), "{words}");
    let told = String::from_utf8(made.stdout).expect("paths of this test");
    told.lines().next().map(PathBuf::from)
}

#[test]
fn a_tarball_is_installed_for_one_user_and_removed() {
    let test = "a_tarball_is_installed_for_one_user_and_removed";
    if skipped(test, &[]) || lacks_library(test) {
        return;
    }
    let fixture = Fixture::new();
    let Some(package) = packaged(test, "tarball", "objcopy", &fixture.dir("out")) else {
        return;
    };
    let (unpacked, prefix) = (fixture.dir("unpacked"), fixture.path("home/.local"));
    let mut tar = Command::new("tar");
    tar.args(["--strip-components=1", "-xzf"]).arg(&package);
    assert!(finish(tar.arg("-C").arg(&unpacked)).status.success());
    let install = |words: &[&str]| {
        let mut command = Command::new(unpacked.join("install.sh"));
        let done = finish(command.args(words).arg(&prefix));
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).expect("plain words")
    };
    let said = install(&[]);
    assert!(said.contains("hearth doctor"), "{said}");
    for part in PARTS {
        assert!(prefix.join(part).is_file(), "no {part}");
    }
    let mut job = Command::new(prefix.join("bin/hearth"));
    job.args(["run", "--store"]).arg(fixture.store()).args([
        "--",
        "sh",
        "-c",
        "grep -o 'home/.local/lib/hearth/[a-z_]*.so' /proc/self/maps | sort -u",
    ]);
    job.env("HEARTH_DIR", fixture.path("control"));
    job.env_remove("HEARTH_PRELOAD");
    let ran = finish(&mut job);
    assert!(ran.status.success(), "{ran:?}");
    let loaded = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert_eq!(loaded, "home/.local/lib/hearth/libhearth_preload.so\n");
    install(&["--remove"]);
    for part in PARTS {
        assert!(!prefix.join(part).exists(), "{part} is left");
    }
}

#[test]
fn a_deb_has_all_parts() {
    let test = "a_deb_has_all_parts";
    let dir = tempfile::tempdir().expect("a directory");
    let Some(package) = packaged(test, "deb", "dpkg-deb", dir.path()) else {
        return;
    };
    let tree = dir.path().join("tree");
    let mut unpack = Command::new("dpkg-deb");
    assert!(
        finish(unpack.arg("-x").arg(&package).arg(&tree))
            .status
            .success()
    );
    for part in PARTS {
        assert!(tree.join("usr").join(part).is_file(), "no {part}");
    }
    let licences = fs::read_to_string(tree.join("usr/share/doc/hearth/copyright"));
    let licences = licences.expect("the licences are there");
    assert!(licences.contains("MIT License") && licences.contains("Apache License"));
}

#[test]
fn a_wheel_has_the_module_beside_its_command() {
    let test = "a_wheel_has_the_module_beside_its_command";
    if skipped(test, &[]) {
        return;
    }
    let fixture = Fixture::new();
    let Some(package) = packaged(test, "wheel", "python3", &fixture.dir("out")) else {
        return;
    };
    let (venv, store) = (fixture.path("venv"), fixture.store());
    let mut make = Command::new("python3");
    assert!(
        finish(make.args(["-m", "venv"]).arg(&venv))
            .status
            .success()
    );
    let mut install = Command::new(venv.join("bin/pip"));
    install.args(["-q", "install", "--no-index"]).arg(&package);
    let done = finish(&mut install);
    assert!(done.status.success(), "{done:?}");
    fs::write(store.join("a"), "hello").expect("a file");
    let mut read = Command::new(venv.join("bin/python"));
    read.args(["-c", READER]).arg(&store);
    read.env("HEARTH_DIR", fixture.path("control"));
    read.env_remove("HEARTH_BIN").env("PATH", "/nowhere");
    let done = finish(&mut read);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(String::from_utf8_lossy(&done.stdout), "hello hearth.fs\n");
}

/// Reads a file with what the wheel brings alone, and says where fsspec would find its file system.
const READER: &str = "
import sys, hearth
from importlib.metadata import entry_points
groups = entry_points()
of = groups.select(group='fsspec.specs') if hasattr(groups, 'select') else groups['fsspec.specs']
with hearth.Session(sys.argv[1]) as session:
    assert session._entrance.pool, 'no library beside the command'
    print(session.read('a').decode(), [one.value for one in of if one.name == 'hearth'][0].rpartition('.')[0])
";
