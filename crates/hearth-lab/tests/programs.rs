//! Ordinary programs over the cache: what they print and leave is what it is without.

#![allow(clippy::print_stdout, reason = "the summary counts what is skipped")]

#[path = "support/lab.rs"]
mod lab;

use lab::{lab, lacks_library, skipped, summary_of};
use serde_json::Value;

#[test]
fn programs_print_and_leave_what_they_do_without_a_cache() {
    let test = "programs_print_and_leave_what_they_do_without_a_cache";
    if skipped(test, &["bash", "diff"]) || lacks_library(test) {
        return;
    }
    let output = lab(&["bench", "programs", "--quick", "--json"]);
    let summary = summary_of(&output);
    assert_eq!(summary["wrong"], Value::Array(Vec::new()), "{summary}");
    assert!(output.status.success(), "{summary}");
    for missing in summary["skipped"].as_array().expect("a list") {
        println!("skipped: {test} {}", missing.as_str().expect("words"));
    }
    let count = |key: &str| summary[key].as_u64().expect("a number");
    assert!(
        count("programs") >= 15 && count("served_in_memory") >= 10,
        "{summary}"
    );
}
