//! The benchmarks run and find their data right. Counts are checked; times are not.

#[path = "support/lab.rs"]
mod lab;

use lab::{lab, skip, skipped, summary_of};
use serde_json::{Value, json};

/// The summary of a benchmark, which must be its last line.
fn summary(words: &[&str]) -> Value {
    let output = lab(words);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).expect("every line is an object");
        assert!(value["bench"].is_string(), "{line}");
    }
    summary_of(&output)
}

#[test]
fn the_store_is_read_once_under_home() {
    if skipped("the_store_is_read_once_under_home", &[]) {
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
    if skipped("interleaved_records_become_one_store_write", &[]) {
        return;
    }
    let found = summary(&["bench", "small-io", "--quick", "--json"]);
    assert_eq!(found["verified"], true);
    assert_eq!(found["store_write_requests_none"], found["records"]);
    assert_eq!(found["store_write_requests_hint"], found["records"]);
    assert_eq!(found["store_write_requests_home"], found["chunks"]);
}

/// Whether a program is missing that a benchmark needs.
/// A modelled server that is fast enough for a test.
const SWIFT: &str = "model:service_us=100";

fn quick(name: &'static str, mpi: &'static str) -> [&'static str; 8] {
    [
        "bench", name, "--store", SWIFT, "--mpi", mpi, "--quick", "--json",
    ]
}

fn count(found: &Value, key: &str) -> f64 {
    found[key].as_f64().unwrap_or_else(|| panic!("no `{key}`"))
}

#[test]
fn a_window_slides_over_right_pages_under_every_system() {
    let test = "a_window_slides_over_right_pages_under_every_system";
    if skipped(test, &["mpicc.mpich", "mpirun.mpich"]) {
        return;
    }
    let found = summary(&quick("sliding-window", "mpich"));
    assert_eq!(found["verified"], true);
    for key in [
        "single_over_mounted-locks",
        "single_over_mounted-none",
        "bound_fraction",
    ] {
        assert!(count(&found, key) > 0.0, "{key}");
    }
    assert!(
        found["single_over_none"].is_null(),
        "no rank has the model to itself"
    );
    // 4 steps of 4 ranks, one request each way; a cache brings 5 pages once, and takes them once.
    assert_eq!(found["store_requests_mounted-locks"], 32.0);
    assert_eq!(found["store_requests_mounted-none"], 32.0);
    for system in ["home", "single"] {
        let requests = count(&found, &format!("store_requests_{system}"));
        assert!((2.0..=15.0).contains(&requests), "{system}: {requests}");
    }
}

#[test]
fn rivals_open_the_store_itself() {
    let test = "rivals_open_the_store_itself";
    if skipped(test, &["mpicc.mpich", "mpirun.mpich"]) {
        return;
    }
    let words = ["bench", "sliding-window", "--store", "posix", "--mpi"];
    let found = summary(&[&words[..], &["mpich", "--quick", "--json"]].concat());
    assert_eq!(found["verified"], true);
    for rival in ["locks", "none"] {
        assert!(
            count(&found, &format!("single_over_{rival}")) > 0.0,
            "{found}"
        );
        // Agents would have counted.
        assert!(
            found[format!("store_requests_{rival}")].is_null(),
            "{found}"
        );
    }
    assert!(count(&found, "store_requests_single") > 0.0);
}

#[test]
fn all_ways_of_btio_come_back_right() {
    let test = "all_ways_of_btio_come_back_right";
    let needed = ["mpicc.openmpi", "mpirun.openmpi", "gfortran"];
    if skipped(test, &needed) {
        return;
    }
    let words = quick("btio", "openmpi");
    let found = summary(&[&words[..], &["--dumps", "1", "--policy", "single"]].concat());
    assert_eq!(found["verified"], true);
    for key in ["min_home_over_none", "min_single_over_none"] {
        assert!(count(&found, key) > 0.0, "{key}");
    }
    // 144 lines of each of two halves of the grid; what is gathered is a run.
    assert_eq!(found["store_write_requests_none_simple_4"], 288.0);
    for system in ["home", "single"] {
        for mode in ["simple", "fortran"] {
            let key = format!("store_write_requests_{system}_{mode}_4");
            let requests = count(&found, &key);
            assert!((1.0..=16.0).contains(&requests), "{key}: {requests}");
        }
    }
}

#[test]
fn hdf5_files_are_those_of_a_run_without_a_cache() {
    let test = "hdf5_files_are_those_of_a_run_without_a_cache";
    let needed = ["mpirun.openmpi", "h5pcc.openmpi", "pkg-config", "h5diff"];
    if skipped(test, &needed) {
        return;
    }
    let found = summary(&[&quick("flash-io", "openmpi")[..], &["--policy", "home"]].concat());
    assert_eq!(found["verified"], true);
    assert_eq!(found["identical"], true);
    let of = |system: &str| count(&found, &format!("store_write_requests_{system}"));
    assert!(of("home") < of("none"), "{} {}", of("home"), of("none"));
}

#[test]
fn a_run_that_cannot_be_is_refused_with_what_to_type() {
    for (words, hint) in [
        (&["matmul", "--class", "S"][..], "--help"),
        (&["btio", "--ranks", "8"], "hint: "),
        (&["btio", "--link", "1gbit"], "hint: "),
        (&["create", "--store", "gluster"], "--store posix"),
    ] {
        let output = lab(&[&["bench"], words].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.starts_with("error: "), "{words:?}: {said}");
        assert!(said.contains(hint), "{words:?}: {said}");
    }
}

#[test]
fn hits_are_measured_on_right_bytes() {
    if skipped("hits_are_measured_on_right_bytes", &[]) {
        return;
    }
    for name in ["remote-hit", "local-hit"] {
        let found = summary(&["bench", name, "--quick", "--json"]);
        assert_eq!(found["verified"], true, "{name}");
    }
}

#[test]
fn hosts_with_a_real_volume_fetch_the_inputs_once() {
    let test = "hosts_with_a_real_volume_fetch_the_inputs_once";
    if skipped(test, &[]) {
        return;
    }
    let output = lab(&["bench", "matmul", "--store", "gluster", "--quick", "--json"]);
    let words = String::from_utf8_lossy(&output.stderr).replace('\n', "; ");
    if !output.status.success() && words.contains("rig.sh` failed") {
        return skip(test, &words);
    }
    assert!(output.status.success(), "{words}");
    let found = summary_of(&output);
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

#[test]
fn every_client_finds_the_attributes_of_every_file() {
    let test = "every_client_finds_the_attributes_of_every_file";
    if skipped(test, &["memcached"]) {
        return;
    }
    let words = [
        "bench",
        "stat",
        "--store",
        "posix",
        "--clients",
        "1,2",
        "--quick",
        "--json",
    ];
    let found = summary(&words);
    assert_eq!(found["verified"], true);
    assert_eq!(
        (&found["clients"], &found["files"]),
        (&2.into(), &128.into())
    );
    assert!(found["improvement"].is_number());
    assert!(found["home_second_pass_messages_2"].is_number());
}

#[test]
fn records_are_read_right_by_one_and_by_several() {
    let test = "records_are_read_right_by_one_and_by_several";
    if skipped(test, &["memcached"]) {
        return;
    }
    let found = summary(&[
        "bench",
        "read-latency",
        "--store",
        "posix",
        "--quick",
        "--json",
    ]);
    assert_eq!(found["verified"], true);
    assert!(found["bank_shared_cold_read_over_store"].is_number());
    assert!(found["bank_loses"].is_array());
}

#[test]
fn nothing_is_compared_with_a_directory_past_a_model() {
    let test = "nothing_is_compared_with_a_directory_past_a_model";
    if skipped(test, &["memcached"]) {
        return;
    }
    let stat = ["bench", "stat", "--clients", "1", "--policy", "home"];
    let latency = ["bench", "read-latency"];
    for words in [&stat[..], &latency] {
        let output = lab(&[words, &["--store", SWIFT, "--quick", "--json"]].concat());
        let found = summary_of(&output);
        assert_eq!(found["verified"], true, "{found}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(r#""system":"directory""#), "{text}");
        assert!(!text.contains(r#""system":"store""#), "{text}");
        let keys = found.as_object().expect("a summary").keys();
        let compared = |key: &&String| key.starts_with("improvement") || key.contains("_over_");
        let wrong: Vec<_> = keys
            .filter(compared)
            .filter(|key| !key.contains("_model_"))
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}

#[test]
fn writers_over_tiers_leave_all_bytes_in_the_store() {
    if skipped("writers_over_tiers_leave_all_bytes_in_the_store", &[]) {
        return;
    }
    let words = ["--store", "posix", "--quick", "--json"];
    let found = summary(&[&["bench", "throughput"], &words[..]].concat());
    assert_eq!(found["verified"], true);
    let of = |key: &str| found[key].as_f64().expect(key);
    for nodes in [1, 2] {
        assert!(of(&format!("over_store_{nodes}")) > 0.0, "{found}");
        let curve = found[format!("curve_{nodes}")].as_str().expect("a curve");
        assert_eq!(curve.chars().count(), 8, "{curve}");
    }
    // The simulated rate grows with the nodes while tiers have room, and is the store's when they are full.
    let (few, many) = (
        of("simulated_over_store_512"),
        of("simulated_over_store_4096"),
    );
    assert!((7.5..8.5).contains(&(many / few)), "{found}");
    let full = of("simulated_full_over_store_4096");
    assert!((0.5..2.0).contains(&full), "{found}");
}

#[test]
fn a_tier_in_memory_is_measured_unless_a_disk_is_named() {
    let test = "a_tier_in_memory_is_measured_unless_a_disk_is_named";
    if skipped(test, &[]) {
        return;
    }
    let words = ["bench", "fuse", "--store", "posix", "--quick", "--json"];
    let found = summary(&words);
    assert_eq!(
        (&found["verified"], &found["tier"]),
        (&json!(true), &json!("memory"))
    );
    assert!(found["disk_mb_s"].is_null(), "{found}");
    assert!(count(&found, "over_tier_12") > 0.0);
}

#[test]
fn no_read_returns_old_bytes_whatever_happens_to_daemons() {
    let test = "no_read_returns_old_bytes_whatever_happens_to_daemons";
    if skipped(test, &["memcached"]) {
        return;
    }
    let (code, found) = faults(&["--schedules", "6"]);
    assert_eq!((code, &found["violated"]), (0, &json!([])), "{found}");
    for key in ["reads", "writes", "stats", "changes", "gateways_killed"] {
        assert!(found[key].as_u64() > Some(0), "{key}: {found}");
    }
}

#[test]
fn the_checker_catches_the_bank_as_it_was_published() {
    let test = "the_checker_catches_the_bank_as_it_was_published";
    if skipped(test, &["memcached"]) {
        return;
    }
    // Some of these are caught at the first try, one in a few each time.
    let caught = (0..20).any(|turn| {
        let seed = (1 + 8 * turn).to_string();
        let words = [
            "--policy",
            "bank:paper",
            "--schedules",
            "8",
            "--seed",
            &seed,
        ];
        let (code, found) = faults(&words);
        let bad = found["violated"]
            .as_array()
            .is_some_and(|bad| !bad.is_empty());
        assert_eq!(code, i32::from(bad), "{found}");
        bad
    });
    assert!(caught, "no read returned old bytes in any schedule");
}

/// Plays schedules of faults: the exit code, and the summary.
fn faults(words: &[&str]) -> (i32, Value) {
    let output = lab(&[&["bench", "bank-faults", "--json"], words].concat());
    let words = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code().expect("it is not killed");
    assert!(code <= 1, "{words}");
    (code, summary_of(&output))
}
