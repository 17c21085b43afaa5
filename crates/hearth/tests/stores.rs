//! Stores: what `hearth doctor --store` says of them, and programs on several hosts over a real one.

#![allow(clippy::print_stdout, reason = "the summary counts what is skipped")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The time that the doctor may take at most, with room for a busy machine.
const DOCTOR_MAX: Duration = Duration::from_secs(60);

/// Programs of `rig/programs` that take a few seconds each. Git takes longer; what it does with refs, `count` does.
const QUICK: &str = "reuse,append,creates,special,sqlite-delete,tar,copy,count,held";

fn program() -> PathBuf {
    let built = PathBuf::from(env!("CARGO_BIN_EXE_hearth"));
    std::env::var_os("HEARTH_BIN").map_or(built, PathBuf::from)
}

fn doctor(args: &[&str]) -> Output {
    let mut command = Command::new(program());
    let output = command.arg("doctor").args(args).output();
    output.expect("the doctor runs")
}

fn said(output: &Output) -> BTreeMap<String, String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).expect("an object");
        let word = |key: &str| line[key].as_str().map(str::to_owned);
        let name = word("property").or_else(|| word("promise"));
        (name.expect("a name"), word("value").expect("a value"))
    });
    lines.collect()
}

#[test]
fn the_doctor_measures_a_store_by_two_clients_and_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_str().expect("a name");
    let begun = Instant::now();
    let output = doctor(&["--store", path, "--also", path, "--json"]);
    assert!(begun.elapsed() < DOCTOR_MAX, "{:?}", begun.elapsed());
    assert!(output.status.success(), "{output:?}");
    let said = said(&output);
    for property in [
        "inodes-equal",
        "inode-stays",
        "open-unlinked",
        "others-unlink",
        "others-append",
        "others-lock-posix",
        "others-lock-ofd",
        "others-lock-flock",
        "fsync-of-others",
        "S9",
        "S12",
    ] {
        assert_eq!(said[property], "yes", "{property}");
    }
    assert_eq!(said["seen-rename"], "at once");
    let left: Vec<_> = dir.path().read_dir().expect("a listing").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_doctor_says_what_one_client_cannot_show() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_str().expect("a name");
    let said = said(&doctor(&["--store", path, "--json"]));
    assert!(said["inodes-equal"].starts_with("? needs"), "{said:?}");
    assert_eq!(said["inode-stays"], "yes");
}

#[test]
fn two_directories_are_not_one_store() {
    let [one, other] = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let [a, b] = [&one, &other].map(|dir| dir.path().to_str().expect("a name").to_owned());
    let output = doctor(&["--store", &a, "--also", &b]);
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("does not show there"), "{words}");
    let left: Vec<_> = one.path().read_dir().expect("a listing").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_store_without_files_of_its_own_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(program());
    command.env("HEARTH_DIR", dir.path());
    let output = command.args(["up", "--store", "/proc"]).output();
    let output = output.expect("the command runs");
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("it is of type proc"), "{words}");
}

/// Programs do over a volume of GlusterFS, from four hosts, what they do there without Hearth.
#[test]
fn programs_on_four_hosts_over_glusterfs_are_as_without_hearth() {
    let test = "programs_on_four_hosts_over_glusterfs_are_as_without_hearth";
    let rig = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rig");
    let check = Command::new(rig.join("rig.sh"))
        .args(["check", "gluster"])
        .output()
        .expect("the script runs");
    if !check.status.success() {
        let why = String::from_utf8_lossy(&check.stderr).replace('\n', "; ");
        println!("skipped: {test}: {why}");
        return;
    }
    let output = Command::new(rig.join("programs.py"))
        .args(["--stores", "gluster", "--hosts", "4", "--programs", QUICK])
        .args(["--policy", "home", "--policy", "local"])
        .env("HEARTH", program())
        .output()
        .expect("the script runs");
    let words = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{words}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
