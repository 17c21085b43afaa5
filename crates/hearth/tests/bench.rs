//! The benchmarks run and find their data right. Counts are checked; times are not.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

fn program() -> PathBuf {
    let named = std::env::var_os("HEARTH_BIN").map(PathBuf::from);
    named.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_hearth")))
}

fn skipped(test: &str) -> bool {
    let device = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse");
    if let Err(error) = &device {
        eprintln!("skipped: {test}: /dev/fuse cannot be opened: {error}");
    }
    device.is_err()
}

fn hearth(words: &[&str]) -> Output {
    let private = std::fs::Permissions::from_mode(0o700);
    let control = tempfile::Builder::new()
        .permissions(private)
        .tempdir()
        .expect("a directory");
    let mut command = Command::new(program());
    command.env("HEARTH_DIR", control.path()).args(words);
    command.output().expect("the command runs")
}

/// The summary of a benchmark, which must be its last line.
fn summary(words: &[&str]) -> Value {
    let output = hearth(words);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    let text = String::from_utf8(output.stdout).expect("words");
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).expect("every line is an object");
        assert!(value["bench"].is_string(), "{line}");
    }
    let last = text.lines().last().expect("a summary");
    serde_json::from_str::<Value>(last).expect("an object")["summary"].clone()
}

#[test]
fn the_store_is_read_once_under_home() {
    if skipped("the_store_is_read_once_under_home") {
        return;
    }
    let found = summary(&["bench", "matmul", "--store", "model", "--quick", "--json"]);
    assert_eq!(found["verified"], true);
    let ratio = found["store_read_bytes_ratio"].as_f64().expect("a number");
    assert!((1.0..=1.05).contains(&ratio), "{ratio}");
    assert_eq!(found["store_read_requests_none"], 5120.0);
    assert_eq!(found["store_write_requests_none"], 1024.0);
    let home = found["store_write_requests_home"]
        .as_f64()
        .expect("a number");
    assert!(home <= 64.0, "the rows of C are gathered: {home}");
    assert_eq!(found["store_write_requests_hint"], 1024.0);
    let hint = found["store_read_requests_hint"]
        .as_f64()
        .expect("a number");
    assert!(hint <= 128.0, "whole pages are read: {hint}");
    for system in ["single", "local"] {
        let writes = found[format!("store_write_requests_{system}")]
            .as_f64()
            .expect("a number");
        assert!((1.0..=64.0).contains(&writes), "{system}: {writes}");
    }
    for key in ["home_over_hint_read", "home_over_hint_write"] {
        assert!(
            found[key].as_f64().is_some_and(|ratio| ratio > 0.0),
            "{key}"
        );
    }
}

#[test]
fn interleaved_records_become_one_store_write() {
    if skipped("interleaved_records_become_one_store_write") {
        return;
    }
    let found = summary(&["bench", "small-io", "--quick", "--json"]);
    assert_eq!(found["verified"], true);
    assert_eq!(found["store_write_requests_none"], found["records"]);
    assert_eq!(found["store_write_requests_hint"], found["records"]);
    assert_eq!(found["store_write_requests_home"], found["chunks"]);
}

#[test]
fn hits_are_measured_on_right_bytes() {
    if skipped("hits_are_measured_on_right_bytes") {
        return;
    }
    for name in ["remote-hit", "local-hit"] {
        let found = summary(&["bench", name, "--quick", "--json"]);
        assert_eq!(found["verified"], true, "{name}");
    }
}

#[test]
fn the_demonstration_shows_a_right_product_and_leaves_nothing() {
    if skipped("the_demonstration_shows_a_right_product_and_leaves_nothing") {
        return;
    }
    let output = hearth(&["demo"]);
    let text = String::from_utf8(output.stdout).expect("words");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for word in ["native", "none", "hint", "home", "right", "where the bytes"] {
        assert!(text.contains(word), "`{word}` is missing:\n{text}");
    }
    assert!(!text.contains("WRONG"), "{text}");
}

#[test]
fn hosts_with_a_real_volume_fetch_the_inputs_once() {
    let test = "hosts_with_a_real_volume_fetch_the_inputs_once";
    if skipped(test) {
        return;
    }
    let output = hearth(&["bench", "matmul", "--store", "gluster", "--quick", "--json"]);
    let words = String::from_utf8_lossy(&output.stderr).replace('\n', "; ");
    if !output.status.success() && words.contains("rig.sh` failed") {
        eprintln!("skipped: {test}: {words}");
        return;
    }
    assert!(output.status.success(), "{words}");
    let text = String::from_utf8(output.stdout).expect("words");
    let last = text.lines().last().expect("a summary");
    let found = serde_json::from_str::<Value>(last).expect("an object")["summary"].clone();
    assert_eq!(found["verified"], true);
    let ratio = found["store_read_bytes_ratio"].as_f64().expect("a number");
    assert!((1.0..=1.05).contains(&ratio), "{ratio}");
    let sent = |system: &str| found[format!("storage_sent_bytes_{system}")].as_f64();
    let (native, home) = (
        sent("native").expect("a number"),
        sent("home").expect("a number"),
    );
    assert!(native > 2.0 * home, "native {native}, home {home}");
}
