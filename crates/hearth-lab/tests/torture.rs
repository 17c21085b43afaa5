//! Short rounds over real sets of agents. They run the command that `HEARTH_BIN` names.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a test that is skipped says so")]

use std::path::PathBuf;
use std::process::{Command, Output};

/// The shipped command and the devices that it needs, or the word for what is missing.
fn needs(test: &str) -> Option<PathBuf> {
    let Some(hearth) = std::env::var_os("HEARTH_BIN").map(PathBuf::from) else {
        println!("skipped: {test}: HEARTH_BIN names no command");
        return None;
    };
    if !std::path::Path::new("/dev/fuse").exists() {
        println!("skipped: {test}: /dev/fuse");
        return None;
    }
    Some(hearth)
}

fn torture(hearth: &PathBuf, words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hearth-lab"))
        .arg("torture")
        .arg("--hearth")
        .arg(hearth)
        .args(words.split_whitespace())
        .output()
        .expect("the laboratory starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn assert_clean(test: &str, words: &str) {
    if let Some(hearth) = needs(test) {
        let output = torture(&hearth, words);
        let said = said(&output);
        assert!(output.status.success(), "{said}");
        // A round in which nothing was done would be clean too.
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let row: serde_json::Value = serde_json::from_str(told.trim()).expect("one policy");
        assert!(row["operations"].as_u64() > Some(500), "{told}{said}");
        assert!(row["histories"].as_u64() > Some(3), "{told}{said}");
    }
}

#[test]
fn home_keeps_its_promises_beside_three_agents() {
    let words = "--policy home --level posix --nemesis none --seed 11 --seconds 3 --json";
    assert_clean("home_keeps_its_promises_beside_three_agents", words);
}

#[test]
fn local_keeps_its_promises_beside_three_agents() {
    let words = "--policy local --level posix --nemesis none --seed 12 --seconds 3 --json";
    assert_clean("local_keeps_its_promises_beside_three_agents", words);
}

#[test]
fn what_was_synced_outlives_an_agent() {
    let words = "--policy home --level posix --nemesis kill --seed 13 --seconds 2 --json";
    assert_clean("what_was_synced_outlives_an_agent", words);
}

#[test]
fn a_store_that_lies_is_found_out() {
    if let Some(hearth) = needs("a_store_that_lies_is_found_out") {
        let words = "--policy home --level posix --nemesis lie --seed 1 --seconds 2 --kind registers --kind logs";
        let output = torture(&hearth, words);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("confirmed"), "{said}");
        let logs = said
            .lines()
            .find_map(|line| line.trim().strip_prefix("logs: "));
        std::fs::remove_dir_all(logs.expect("the folder of logs is named")).expect("it is there");
        assert!(
            said.contains("again: hearth-lab torture --rounds 1 --seed 1"),
            "{said}"
        );
    }
}
